"""Kill processes that persist a LlamaIndex index, and check that the folder still loads.

A child process persists one of two versions of an index over the other and is killed at a random
moment. After each kill, the folder must load as the version before or as the version that was being
written.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from llama_index.core import Document

from e2graphrag_integrations import IndexSettings, Models, SpacyEntityExtractor
from e2graphrag_integrations.cli.demo import demo_text
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from runs import run_child

PART = 5000
"""Characters of a document."""


class PersistCrashTest:
    """Kills processes that persist a LlamaIndex index.

    Attributes:
        counts: Numbers of folders by version: old, new, or rejected at load.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)  # noqa: S311 - chooses when to kill
        self.counts: Counter[str] = Counter()
        self.extractor = SpacyEntityExtractor()  # loaded once for all indexes
        text = demo_text().read_text(encoding="utf-8")
        documents = [
            Document(id_=f"part {n}", text=text[n * PART : (n + 1) * PART], metadata={"part": n})
            for n in range(8)
        ]
        versions = [documents[:6], [documents[0], *reversed(documents[2:])]]
        self.indexes = [self.build(version) for version in versions]
        self.answers = [self.ask(index) for index in self.indexes]

    def build(self, documents: list[Document]) -> E2GraphRAGIndex:
        return E2GraphRAGIndex.from_documents(
            documents,
            embed_model="hashing",
            llm="extractive",
            models=Models(extractor=self.extractor),
            settings=IndexSettings(
                chunk_size=150, chunk_overlap=0, group_size=4, summary_tokens=60
            ),
        )

    def ask(self, index: E2GraphRAGIndex) -> list[tuple[str, str, float]]:
        found = index.as_retriever("global", similarity_top_k=500).retrieve("Who is Weena?")
        return [(node.node_id, node.text, round(node.score or 0, 5)) for node in found]

    def persist(self, version: int) -> None:
        self.indexes[version].storage_context.persist(self.folder)

    def run(self, kills: int) -> dict[str, Any]:
        """Kill a process `kills` times while it replaces one version by the other."""
        current, killed = 0, 0
        self.persist(current)
        _, seconds = run_child(lambda: self.persist(current), None)
        while killed < kills:
            new = 1 - current
            kill_after = self.random.uniform(0, seconds)
            is_finished, _ = run_child(partial(self.persist, new), kill_after)
            if is_finished:
                current = new
                continue
            killed += 1
            current = self.check(current, new)
        names = ("old version", "new version", "rejected at load", "other content")
        return {
            "kills": killed,
            "seconds of a persist": round(seconds, 3),
            **{name: self.counts[name] for name in names},
        }

    def check(self, current: int, new: int) -> int:
        """Count the version that loads, and return the one that the folder contains afterwards."""
        try:
            found = self.ask(
                E2GraphRAGIndex.from_persist_dir(
                    self.folder, models=Models(extractor=self.extractor)
                )
            )
        except CorruptStoreError:
            self.counts["rejected at load"] += 1
            shutil.rmtree(self.folder)
            self.persist(current)
            return current
        if found in self.answers:
            self.counts["old version" if found == self.answers[current] else "new version"] += 1
            return self.answers.index(found)
        self.counts["other content"] += 1
        return new


def run_persist_kills(kills: int, seed: int) -> tuple[dict[str, Any], bool]:
    """Return the figures, and whether a folder lost both versions or mixed them."""
    with tempfile.TemporaryDirectory() as folder:
        test = PersistCrashTest(Path(folder) / "index", seed)
        figures = test.run(kills)
    is_broken = figures["rejected at load"] or figures["other content"]
    return {"E2GraphRAGIndex.persist": figures}, bool(is_broken)
