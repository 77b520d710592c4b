"""The demo: index a public-domain novel, ask six questions and print the hits with their spans."""

from __future__ import annotations

from pathlib import Path

from e2graphrag_integrations.cli.output import (
    print_line,
    print_report,
    print_result,
    print_styled,
    progress_bar,
)
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.types import SourceDocument

NOVEL = "the_time_machine.txt"
QUESTIONS = (
    "What happened between Weena and the Morlocks?",
    "How were the Eloi and the Morlocks related?",
    "Why did Filby not believe in the Time Machine?",
    "What did the Psychologist do with the lever?",
    "Where is the Palace of Green Porcelain?",
    "How did everything turn out, and what became of him?",
)


def demo_text() -> Path:
    """Return the path of the novel, in the installed package or in a checkout.

    Raises:
        InvalidInputError: If the file is missing.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "data", package.parents[1] / "examples" / "data"):
        if (folder / NOVEL).is_file():
            return folder / NOVEL
    raise InvalidInputError(f"{NOVEL} is missing: reinstall e2graphrag-integrations")


def run_demo(path: str, embedder: str | None = None) -> None:
    """Index the novel and print the three best hits for each question.

    Args:
        path: The index file; an index from an earlier run is reused.
        embedder: Name of the embedder; None means the default model.
    """
    text = demo_text().read_text(encoding="utf-8")
    document = SourceDocument(NOVEL, text, "The Time Machine", {"author": "H. G. Wells"})
    _print_step(f"Step 1 of 3: loading the models and opening {path} (a few seconds, no network)")
    with E2GraphRAG.open(path, embedder=embedder) as rag, progress_bar() as progress:
        _print_step(
            f'Step 2 of 3: indexing "The Time Machine" ({len(text.split()):,} words): chunks, '
            "entities, extracted summaries, embeddings; no LLM"
        )
        report = rag.add(document, progress=progress)
    print_report(report, path)
    print_line()
    _print_step(
        f"Step 3 of 3: asking {len(QUESTIONS)} questions; each answer shows its route, "
        "its reasons and the character span of every hit"
    )
    with E2GraphRAG.open(path) as rag:  # reopened, as a new process would open it
        for question in QUESTIONS:
            print_line()
            _print_step(f"=== {question}")
            print_result(rag.retrieve(question, k=3), explain=True)
    print_line()
    print_line(f'Ask your own question: e2graphrag query {path} "your question"')


def _print_step(text: str) -> None:
    print_styled(text, "bold")
