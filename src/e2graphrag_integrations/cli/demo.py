"""The demo: index a public-domain novel, ask it six questions, print answers with their sources."""

from __future__ import annotations

from pathlib import Path

from e2graphrag_integrations.cli.output import print_report, print_result
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.progress import ProgressBar
from e2graphrag_integrations.types import SourceDocument

TEXT = "the_time_machine.txt"
QUESTIONS = (
    "What happened between Weena and the Morlocks?",
    "How were the Eloi and the Morlocks related?",
    "Why did Filby not believe in the Time Machine?",
    "What did the Psychologist do with the lever?",
    "Where is the Palace of Green Porcelain?",
    "How did everything turn out, and what became of him?",
)


def demo_text() -> Path:
    """Return where the novel lies: in the installed package, or in a checkout's examples."""
    here = Path(__file__).parents[1]
    for folder in (here / "data", here.parents[1] / "examples" / "data"):
        if (folder / TEXT).is_file():
            return folder / TEXT
    raise InvalidInputError(f"{TEXT} is neither in the package nor in examples/data: reinstall it")


def run_demo(path: str, embedder: str | None = None, k: int = 3) -> None:
    """Index the novel into `path`, unless it is there, and answer the questions."""
    text = demo_text().read_text(encoding="utf-8")
    document = SourceDocument(
        TEXT, text, title="The Time Machine", metadata={"author": "H. G. Wells"}
    )
    with E2GraphRAG.open(path, embedder=embedder) as rag:
        bar = ProgressBar()
        try:
            report = rag.add(document, progress=bar)
        finally:
            bar.close()
    print_report(report, path)
    with E2GraphRAG.open(path) as rag:  # as another process would find it
        for question in QUESTIONS:
            print(f"\n=== {question}")
            print_result(rag.retrieve(question, k=k), explain=True)
    print(f'\nAsk more: e2graphrag query {path} "your question"')
