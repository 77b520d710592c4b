r"""One process writes, eight read: does every answer come from one whole state, and how fast?

From the repository's root:

    python benchmarks/concurrency.py --out benchmarks/results/concurrency.json

A writer adds pieces of The Time Machine to one file, each in a call of its own; readers ask it
questions all the while, each in a process of its own. Pieces are numbered in the order they are
written, so an answer over everything must hold the first so many of them, each with all its nodes,
and at least those that were there when the question was asked. The same writing without readers is
timed for comparison.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
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
from e2graphrag_integrations.cli.demo import QUESTIONS, demo_text
from runs import this_run

PART = 800
SETTINGS = {"chunk_size": 60, "chunk_overlap": 0, "group_size": 3}
EVERYTHING = 100_000
EXTRACTOR = SpacyEntityExtractor()


def piece(number: int) -> SourceDocument:
    text = demo_text().read_text(encoding="utf-8")
    return SourceDocument(f"{number:04}", text[number * PART : (number + 1) * PART])


def opened(path: Path) -> E2GraphRAG:
    return E2GraphRAG.open(path, embedder=HashingEmbedder(64), extractor=EXTRACTOR, **SETTINGS)


def write(path: Path, documents: int, done: Any) -> float:
    began = time.perf_counter()
    with opened(path) as rag:
        for number in range(documents):
            rag.add(piece(number))
            done.value = number + 1
    return time.perf_counter() - began


def read(path: Path, sizes: list[int], done: Any, out: Path, seed: int) -> None:
    """Ask until everything is written; note what was wrong with the answers."""
    seconds: list[float] = []
    wrong: list[str] = []
    states: set[int] = set()
    with opened(path) as rag:
        while not done.value:
            time.sleep(0.001)
        while True:
            last = done.value == len(sizes)
            before = done.value
            question = QUESTIONS[(seed + len(seconds)) % len(QUESTIONS)]
            began = time.perf_counter()
            result = rag.retrieve(question, k=EVERYTHING, mode="global", strategy=PaperStrategy())
            seconds.append(time.perf_counter() - began)
            found: dict[str, int] = {}
            for node in result.nodes:
                found[node.document_id] = found.get(node.document_id, 0) + 1
            states.add(len(found))
            if sorted(found) != [f"{number:04}" for number in range(len(found))]:
                wrong.append(f"documents with gaps: {sorted(found)[:5]} ...")
            if any(count != sizes[int(id_)] for id_, count in found.items()):
                wrong.append("a document without all its nodes")
            if len(found) < before:
                wrong.append(f"{len(found)} documents, {before} were there before")
            if last:
                break
    out.write_text(
        json.dumps({"seconds": seconds, "wrong": wrong, "states": len(states)}), encoding="utf-8"
    )


def expected_sizes(documents: int) -> list[int]:
    """Return how many nodes each document has."""
    with E2GraphRAG.open(
        ":memory:", embedder=HashingEmbedder(64), extractor=EXTRACTOR, **SETTINGS
    ) as rag:
        rag.add([piece(number) for number in range(documents)])
        sizes = [0] * documents
        for stored in rag.store.all_nodes():
            sizes[int(stored.node.document_id)] += 1
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    EXTRACTOR.extract(["Warm up."])  # loaded once: the others are copies of this process
    context = multiprocessing.get_context("fork")
    sizes = expected_sizes(options.documents)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = write(folder / "alone.e2g", options.documents, context.Value("i", 0))
        path, done = folder / "shared.e2g", context.Value("i", 0)
        opened(path).close()
        readers = [
            context.Process(target=read, args=(path, sizes, done, folder / f"{n}.json", n))
            for n in range(options.readers)
        ]
        for reader in readers:
            reader.start()
        with_readers = write(path, options.documents, done)
        for reader in readers:
            reader.join()
        failed = [reader.exitcode for reader in readers if reader.exitcode]
        answers = [
            json.loads((folder / f"{n}.json").read_text(encoding="utf-8"))
            for n in range(options.readers)
            if (folder / f"{n}.json").exists()
        ]
        with opened(path) as rag:
            sound = rag.verify().ok
    seconds = [one for answer in answers for one in answer["seconds"]]
    wrong = [one for answer in answers for one in answer["wrong"]]
    result = {
        **this_run(),
        "documents written": options.documents,
        "readers": options.readers,
        "readers that failed": len(failed),
        "answers": len(seconds),
        "answers that are not of one whole state": len(wrong),
        "distinct states seen by a reader": [answer["states"] for answer in answers],
        "answer seconds, all nodes asked for": {
            f"p{q}": round(float(np.quantile(seconds, q / 100)), 4) for q in (50, 95, 100)
        },
        "writer seconds, alone": round(alone, 2),
        "writer seconds, with readers": round(with_readers, 2),
        "verify is clean": sound,
    }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if failed or wrong or not sound:
        raise SystemExit("\n".join(["a reader failed or saw half a state", *wrong[:5]]))


if __name__ == "__main__":
    main()
