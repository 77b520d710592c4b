"""The demo: index a public-domain novel, ask six questions and print the hits with their spans."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from e2graphrag_integrations.cli.app import PROGRAM
from e2graphrag_integrations.cli.output.indexing import print_report
from e2graphrag_integrations.cli.output.progress import progress_bar
from e2graphrag_integrations.cli.output.query import print_result
from e2graphrag_integrations.cli.output.terminal import print_line, print_styled
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.options import WriteOptions
from e2graphrag_integrations.store.location import shown_path
from e2graphrag_integrations.types import SourceDocument


@dataclass(frozen=True)
class Demo:
    """A text in one language, and questions about it.

    Attributes:
        file: Name of the text file, which is also the id of its document.
        title: Title of the document.
        author: Author of the text.
        unit: The unit in which the length of the text is told.
        questions: The questions to ask.
        index: Default name of the index file.
        ask: An example of a question of the user.
    """

    file: str
    title: str
    author: str
    unit: Literal["words", "characters"]
    questions: tuple[str, ...]
    index: str
    ask: str = "your question"

    def path(self) -> Path:
        """Return the path of the text, in the installed package or in a checkout.

        Raises:
            InvalidInputError: If the file is missing.
        """
        package = Path(__file__).parents[1]
        for folder in (package / "data", package.parents[1] / "examples" / "data"):
            if (folder / self.file).is_file():
                return folder / self.file
        raise InvalidInputError(f"{self.file} is missing: reinstall e2graphrag-integrations")

    def document(self) -> SourceDocument:
        """Return the text as a document."""
        text = self.path().read_text(encoding="utf-8")
        return SourceDocument(self.file, text, self.title, {"author": self.author})


DEMOS: Mapping[str, Demo] = {
    "en": Demo(
        file="the_time_machine.txt",
        title="The Time Machine",
        author="H. G. Wells",
        unit="words",
        questions=(
            "What happened between Weena and the Morlocks?",
            "How were the Eloi and the Morlocks related?",
            "Why did Filby not believe in the Time Machine?",
            "What did the Psychologist do with the lever?",
            "Where is the Palace of Green Porcelain?",
            "How did everything turn out, and what became of him?",
        ),
        index="time_machine.e2g",
    ),
    "zh": Demo(
        file="sanguo_yanyi.txt",
        title="三国演义（第一、二回）",
        author="罗贯中",
        unit="characters",
        questions=(
            "张飞和督邮之间发生了什么？",
            "关羽和张飞是怎样结为兄弟的？",
            "许劭如何评价曹操？",
            "卢植为什么被左丰陷害？",
            "孙坚和朱儁怎样攻下宛城？",
            "天下为什么会大乱，最后怎么样了？",
        ),
        index="sanguo.e2g",
        ask="你的问题",
    ),
}
"""The demo of each language."""


def demo_text(language: str = "en") -> Path:
    """Return the path of the text of a demo; see `Demo.path`."""
    return DEMOS[language].path()


def index_demo(path: str, embedder: str | None, language: str, lock_timeout: float) -> None:
    """Index the novel.

    Args:
        path: The index file; an index from an earlier run is reused.
        embedder: Name of the embedder; None means the default model of the language.
        language: The language of the demo, a key of `DEMOS`.
        lock_timeout: Seconds to wait while another process is writing.
    """
    demo = DEMOS[language]
    document = demo.document()
    size = len(document.text.split() if demo.unit == "words" else document.text)
    shown = shown_path(path)
    _print_step(f"Step 1 of 3: loading the models and opening {shown} (a few seconds, no network)")
    with (
        E2GraphRAG.open(
            path, embedder=embedder, writes=WriteOptions(lock_timeout=lock_timeout)
        ) as rag,
        progress_bar() as progress,
    ):
        _print_step(
            f'Step 2 of 3: indexing "{demo.title}" ({size:,} {demo.unit}): chunks, '
            "entities, extracted summaries, embeddings; no LLM"
        )
        report = rag.add(document, progress=progress)
    print_report(report, shown)


def ask_demo(path: str, language: str) -> None:
    """Print the three best hits for each question.

    Args:
        path: The index file that `index_demo` made.
        language: The language of the demo, a key of `DEMOS`.
    """
    demo = DEMOS[language]
    print_line()
    _print_step(
        f"Step 3 of 3: asking {len(demo.questions)} questions; each answer shows its route, "
        "its reasons and the character span of every hit"
    )
    with E2GraphRAG.open(path) as rag:  # reopened, as a new process would open it
        for question in demo.questions:
            print_line()
            _print_step(f"=== {question}")
            print_result(rag.retrieve(question, k=3), explain=True)
    program, index = _program(), shlex.quote(shown_path(path))
    print_line()
    print_line(f'Ask your own question: {program} query {index} "{demo.ask}"')
    print_line(f"See it in the browser: {program} serve {index}")


def _program() -> str:
    """Return how the user calls this program: `make demo` does so in an inactive environment."""
    called = Path(sys.argv[0])
    is_hidden = called.name == PROGRAM and shutil.which(PROGRAM) is None
    return shlex.quote(str(called)) if is_hidden else PROGRAM


def _print_step(text: str) -> None:
    print_styled(text, "bold")
