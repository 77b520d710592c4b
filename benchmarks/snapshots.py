r"""After a change, is a snapshot quicker copied from the older one or built from all rows?

From the repository's root:

    python benchmarks/snapshots.py --data ../shared/data --out benchmarks/results/snapshots.json

Passages of hotpotqa as documents, hashing embedder, spaCy. For several shares of changed documents
both ways are timed in turn, and must give equal arrays.
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
from runs import this_run, timed

SHARES = (0.0005, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
ROUNDS = 3


def documents(data: Path, count: int) -> list[SourceDocument]:
    lines = (data / "hotpotqa" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[:count]]
    return [SourceDocument(str(r["id"]), r["text"], title=r.get("title")) for r in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    given = documents(options.data, options.documents)
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        E2GraphRAG.open(Path(folder) / "s.e2g", embedder=HashingEmbedder(384)) as rag,
    ):
        rag.add(given)
        chunks = rag.stats().chunks
        for share in SHARES:
            older = build_snapshot(rag.store)
            changed = given[: max(1, int(share * len(given)))]
            rag.update([SourceDocument(d.id, f"{d.text} {share}", d.title) for d in changed])
            ids = list(rag.store.stamps())
            new = sorted(document.id for document in changed)
            copying, building = [], []
            for _ in range(ROUNDS):
                copied, seconds = timed(
                    lambda older=older, new=new, ids=ids: SnapshotMerger(
                        older, build_snapshot(rag.store, new), ids
                    ).merge(rag.store.generation, rag.store.manifest())
                )
                copying.append(seconds)
                built, seconds = timed(lambda: build_snapshot(rag.store))
                building.append(seconds)
            arrays = snapshot_arrays(built)
            same = all(np.array_equal(arrays[k], v) for k, v in snapshot_arrays(copied).items())
            if not same or snapshot_meta(copied) != snapshot_meta(built):
                raise SystemExit(f"the two differ where {share} of the documents changed")
            rows.append(
                {
                    "documents changed": len(changed),
                    "seconds copied": round(statistics.median(copying), 3),
                    "seconds built": round(statistics.median(building), 3),
                }
            )
    result = {
        **this_run(),
        "documents": len(given),
        "chunks": chunks,
        "by share": rows,
    }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
