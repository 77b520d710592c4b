"""Kill processes that persist a LlamaIndex index, and check that the folder still loads.

A child process persists one of two versions of an index over the other and is killed at a random
moment. After each kill, the folder must load as the version before or as the version that was being
written. The same kills of LlamaIndex's own `StorageContext.persist` show what happens without
protection: such a folder must then load as one of the versions, or be rejected.

`python benchmarks/crash_persist.py --out benchmarks/results/crash.json` runs this part of
`crash.py` alone and replaces its figures in the result file.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from llama_index.core import Document, StorageContext

from e2graphrag_integrations import SpacyEntityExtractor
from e2graphrag_integrations.cli.demo import demo_text
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from runs import run_child, write_result

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
            extractor=self.extractor,
            chunk_size=150,
            chunk_overlap=0,
            group_size=4,
            summary_tokens=60,
        )

    def ask(self, index: E2GraphRAGIndex) -> list[tuple[str, str, float]]:
        found = index.as_retriever("global", similarity_top_k=500).retrieve("Who is Weena?")
        return [(node.node_id, node.text, round(node.score or 0, 5)) for node in found]

    def persist(self, version: int, *, is_safe: bool) -> None:
        index = self.indexes[version]
        if is_safe:
            index.storage_context.persist(self.folder)  # a fork may not call index.persist
        else:
            StorageContext.persist(index.storage_context, self.folder)

    def run(self, kills: int, *, is_safe: bool) -> dict[str, Any]:
        """Kill a process `kills` times while it replaces one version by the other."""
        self.counts.clear()
        current, killed = 0, 0
        self.persist(current, is_safe=True)
        _, seconds = run_child(lambda: self.persist(current, is_safe=is_safe), None)
        while killed < kills:
            new = 1 - current
            is_finished, _ = run_child(
                partial(self.persist, new, is_safe=is_safe), self.random.uniform(0, seconds)
            )
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
                E2GraphRAGIndex.from_persist_dir(self.folder, extractor=self.extractor)
            )
        except CorruptStoreError:
            self.counts["rejected at load"] += 1
            shutil.rmtree(self.folder)
            self.persist(current, is_safe=True)
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
        safe = test.run(kills, is_safe=True)
        plain = test.run(kills // 4, is_safe=False)
    figures = {"E2GraphRAGIndex.persist": safe, "StorageContext.persist of LlamaIndex": plain}
    is_broken = safe["rejected at load"] or safe["other content"] or plain["other content"]
    return figures, bool(is_broken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    figures, is_broken = run_persist_kills(options.kills, options.seed)
    has_file = options.out and options.out.exists()
    result = json.loads(options.out.read_text(encoding="utf-8")) if has_file else {}
    write_result(result | {"persist": figures}, options.out)
    if is_broken:
        raise SystemExit("a folder lost both versions or mixed them")


if __name__ == "__main__":
    main()
