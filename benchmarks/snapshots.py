r"""Compare an incremental snapshot build after a change with a full build.

From the repository's root:

    python benchmarks/snapshots.py --data ../shared/data --out benchmarks/results/snapshots.json

Documents are passages of hotpotqa, with hashed vectors and spaCy. For several fractions of changed
documents both builds are timed in turn. Their arrays must be equal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.snapshot.files import snapshot_arrays, snapshot_meta
from e2graphrag_integrations.snapshot.incremental import SnapshotMerger
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from runs import this_run, timed, write_result

FRACTIONS = (0.0005, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Fractions of the documents that change."""

ROUNDS = 3


def read_documents(data: Path, count: int) -> list[SourceDocument]:
    lines = (data / "hotpotqa" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:count]]
    return [SourceDocument(str(r["id"]), r["text"], title=r.get("title")) for r in rows]


def build_incrementally(rag: E2GraphRAG, base: Snapshot, changed: list[str]) -> Snapshot:
    merger = SnapshotMerger(base, build_snapshot(rag.store, changed), list(rag.store.stamps()))
    return merger.merge(rag.store.generation, rag.store.manifest())


def measure(rag: E2GraphRAG, documents: list[SourceDocument], fraction: float) -> dict[str, float]:
    """Change a fraction of the documents and time both builds."""
    base = build_snapshot(rag.store)
    changed = documents[: max(1, int(fraction * len(documents)))]
    rag.update([SourceDocument(d.id, f"{d.text} {fraction}", d.title) for d in changed])
    ids = sorted(document.id for document in changed)
    incremental_seconds, full_seconds = [], []
    for _ in range(ROUNDS):
        incremental, seconds = timed(lambda: build_incrementally(rag, base, ids))
        incremental_seconds.append(seconds)
        full, seconds = timed(lambda: build_snapshot(rag.store))
        full_seconds.append(seconds)
    arrays, expected = snapshot_arrays(incremental), snapshot_arrays(full)
    equal = all(np.array_equal(arrays[name], array) for name, array in expected.items())
    if not equal or snapshot_meta(incremental) != snapshot_meta(full):
        raise SystemExit(f"the snapshots differ after changing {fraction:.2%} of the documents")
    return {
        "documents changed": len(changed),
        "seconds, incremental": round(statistics.median(incremental_seconds), 3),
        "seconds, full build": round(statistics.median(full_seconds), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    documents = read_documents(options.data, options.documents)
    with (
        tempfile.TemporaryDirectory() as folder,
        E2GraphRAG.open(Path(folder) / "s.e2g", embedder=HashingEmbedder(384)) as rag,
    ):
        rag.add(documents)
        result = {
            **this_run(),
            "documents": len(documents),
            "chunks": rag.stats().chunks,
            "changes": [measure(rag, documents, fraction) for fraction in FRACTIONS],
        }
    write_result(result, options.out)


if __name__ == "__main__":
    main()
