r"""Check that readers see consistent states while another process writes, and time both.

From the repository's root:

    python benchmarks/concurrency.py --out benchmarks/results/concurrency.json

One process adds parts of The Time Machine to an index, one per call. Eight others query it all the
time. Parts are numbered in the order of writing, so each answer over the full index must contain
the first n parts for some n, each with all its nodes, and no fewer parts than existed before the
query. For comparison, the same parts are also written without readers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    PaperStrategy,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.cli.demo import DEMOS
from runs import this_run, write_result

PART = 800
"""Characters of a part."""

SETTINGS = {"chunk_size": 60, "chunk_overlap": 0, "group_size": 3}
ALL_NODES = 100_000
"""A `k` above the number of nodes."""

EXTRACTOR = SpacyEntityExtractor()
DEMO = DEMOS["en"]


def part(number: int) -> SourceDocument:
    text = DEMO.path().read_text(encoding="utf-8")
    return SourceDocument(f"{number:04}", text[number * PART : (number + 1) * PART])


def open_index(path: Path | str, max_staleness: float | None = None) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(64),
        extractor=EXTRACTOR,
        max_staleness=max_staleness,
        **SETTINGS,
    )


def write(path: Path, count: int, written: Any) -> float:
    """Add `count` parts, counting them in the shared value `written`; return the seconds."""
    began = time.perf_counter()
    with open_index(path) as rag:
        for number in range(count):
            rag.add(part(number))
            written.value = number + 1
    return time.perf_counter() - began


def read(path: Path, sizes: list[int], written: Any, out: Path, seed: int) -> None:
    """Query until all parts are written; write the timings and the errors of the answers to `out`.

    Args:
        path: The index.
        sizes: Number of nodes of each part.
        written: Shared number of written parts.
        out: JSON file.
        seed: Number of the first question.
    """
    seconds: list[float] = []
    errors: list[str] = []
    states: set[int] = set()
    with open_index(path, max_staleness=0) as rag:
        while not written.value:
            time.sleep(0.001)
        finished = False
        while not finished:
            finished = written.value == len(sizes)
            before = written.value
            question = DEMO.questions[(seed + len(seconds)) % len(DEMO.questions)]
            began = time.perf_counter()
            result = rag.retrieve(question, k=ALL_NODES, mode="global", strategy=PaperStrategy())
            seconds.append(time.perf_counter() - began)
            counts = Counter(node.document_id for node in result.nodes)
            states.add(len(counts))
            if sorted(counts) != [f"{number:04}" for number in range(len(counts))]:
                errors.append(f"missing parts: {sorted(counts)[:5]} ...")
            if any(count != sizes[int(id_)] for id_, count in counts.items()):
                errors.append("a part without all its nodes")
            if len(counts) < before:
                errors.append(f"{len(counts)} parts, although {before} were written before")
    out.write_text(
        json.dumps({"seconds": seconds, "errors": errors, "states": len(states)}), encoding="utf-8"
    )


def part_sizes(count: int) -> list[int]:
    """Return the number of nodes of each part."""
    with open_index(":memory:") as rag:
        rag.add([part(number) for number in range(count)])
        counts = Counter(stored.node.document_id for stored in rag.store.all_nodes())
    return [counts[f"{number:04}"] for number in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    EXTRACTOR.extract(["Warm up."])  # forked processes share the loaded model
    context = multiprocessing.get_context("fork")
    sizes = part_sizes(options.documents)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = write(folder / "alone.e2g", options.documents, context.Value("i", 0))
        path, written = folder / "shared.e2g", context.Value("i", 0)
        open_index(path).close()
        readers = [
            context.Process(target=read, args=(path, sizes, written, folder / f"{n}.json", n))
            for n in range(options.readers)
        ]
        for reader in readers:
            reader.start()
        with_readers = write(path, options.documents, written)
        for reader in readers:
            reader.join()
        failed = sum(1 for reader in readers if reader.exitcode)
        reports = [json.loads(p.read_text(encoding="utf-8")) for p in folder.glob("*.json")]
        with open_index(path) as rag:
            verified = rag.verify().ok
    seconds = [s for report in reports for s in report["seconds"]]
    errors = [error for report in reports for error in report["errors"]]
    result = {
        **this_run(),
        "documents written": options.documents,
        "readers": options.readers,
        "failed readers": failed,
        "answers": len(seconds),
        "inconsistent answers": len(errors),
        "distinct states per reader": [report["states"] for report in reports],
        "answer seconds": {
            f"p{q}": round(float(np.quantile(seconds, q / 100)), 4) for q in (50, 95, 100)
        },
        "writer seconds, alone": round(alone, 2),
        "writer seconds, with readers": round(with_readers, 2),
        "verify passed": verified,
    }
    write_result(result, options.out)
    if failed or errors or not verified:
        raise SystemExit(
            "\n".join(["a reader failed, an answer was inconsistent or verify failed", *errors[:5]])
        )


if __name__ == "__main__":
    main()
