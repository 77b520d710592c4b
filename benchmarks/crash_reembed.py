r"""Kill processes that give an index another embedder, and check what is left.

From the repository's root:

    python benchmarks/crash_reembed.py --stub ../shared/tools/openai_stub.py --kills 100 \
        --out benchmarks/results/crash_reembed.json

A child process runs `reembed` and is killed with SIGKILL at a random moment. After each kill, the
index must pass `verify()`, and give the answers of the old embedder or of the new one: those of an
index that was made with it. Summaries are written by the stub LLM over HTTP, which must not be
called again.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from crash import SETTINGS, parts
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    Models,
    OpenAISummarizer,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.options import grouped
from goals import Goal, finish
from runs import parser_of, run_child, this_run
from stub import server_stats, stub_server

DIMENSIONS = (64, 96)
"""Dimensions of the two embedders that replace each other."""

DOCUMENTS = 30

Answers = list[tuple[str, str, float]]


class ReembedCrashTest:
    """Kills processes that replace one embedder by the other.

    Attributes:
        counts: Numbers of indexes after a kill by what they contain.
    """

    def __init__(self, folder: Path, base: str, seed: int) -> None:
        self.path = folder / "index.e2g"
        self.base = base
        self.random = random.Random(seed)  # noqa: S311 - chooses when to kill
        self.counts: Counter[str] = Counter()
        self.extractor = SpacyEntityExtractor()  # loaded once for all indexes
        self.answers = [self.build(folder / f"{one}.e2g", one) for one in DIMENSIONS]
        self.build(self.path, DIMENSIONS[0])

    def open(self, path: Path, **options: Any) -> E2GraphRAG:
        return E2GraphRAG.open(path, models=Models(extractor=self.extractor), **options)

    def build(self, path: Path, dimension: int) -> Answers:
        """Index all documents, and return the answers."""
        with self.open(
            path,
            embedder=HashingEmbedder(dimension),
            summarizer=OpenAISummarizer("stub", base_url=f"{self.base}/v1", api_key="none"),
            **grouped(SETTINGS),
        ) as rag:
            rag.add(parts(DOCUMENTS))
            return self.ask(rag)

    def ask(self, rag: E2GraphRAG) -> Answers:
        nodes = rag.retrieve("Who is Weena?", k=500, mode="global").nodes
        return [(node.document_id, node.text, round(node.score, 5)) for node in nodes]

    def reembed(self, number: int) -> None:
        with self.open(self.path) as rag:
            rag.reembed(HashingEmbedder(DIMENSIONS[number]))

    def run(self, kills: int) -> dict[str, Any]:
        """Kill a process `kills` times while it replaces the embedder."""
        _, seconds = run_child(partial(self.reembed, 1), None)
        current, killed, finished = 1, 0, 0
        while killed < kills:
            kill_after = self.random.uniform(0, seconds)
            is_finished, _ = run_child(partial(self.reembed, 1 - current), kill_after)
            if is_finished:
                current, finished = 1 - current, finished + 1
            else:
                killed += 1
                current = self.check(current)
        return {
            "kills": killed,
            "runs that ended before their kill": finished,
            "seconds of a run": round(seconds, 3),
            **{name: self.counts[name] for name in ("old vectors", "new vectors", "other answers")},
            "failed verifications": self.counts["failed verifications"],
        }

    def check(self, current: int) -> int:
        """Count what the index contains, and return the number of its embedder."""
        with self.open(self.path) as rag:
            self.counts["failed verifications"] += not rag.verify().ok
            dimension = int(rag.made_with["dimension"])
        with self.open(self.path, embedder=HashingEmbedder(dimension)) as rag:
            found = self.ask(rag)
        if found not in self.answers:
            self.counts["other answers"] += 1
            return current
        number = self.answers.index(found)
        self.counts["old vectors" if number == current else "new vectors"] += 1
        return number


def main() -> None:
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--stub", type=Path, required=True, help="the stub LLM server")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with stub_server(options.stub) as base, tempfile.TemporaryDirectory() as folder:
        test = ReembedCrashTest(Path(folder), base, options.seed)
        before = server_stats(base)["llm_calls"]
        figures = test.run(options.kills)
        figures["LLM calls"] = server_stats(base)["llm_calls"] - before
    figures["LLM calls for the summaries"] = before
    goals = [
        Goal(name, figures[name], max=0)
        for name in ("other answers", "failed verifications", "LLM calls")
    ]
    finish(this_run() | figures, goals, options.out)


if __name__ == "__main__":
    main()
