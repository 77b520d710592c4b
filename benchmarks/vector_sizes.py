r"""Measure recall, memory and time of dense search with fewer bytes per vector.

From the repository's root:

    python benchmarks/vector_sizes.py --cache benchmarks/.cache/vectors.sqlite \
        --out benchmarks/results/vector_sizes.json

The vectors are those of all-MiniLM-L6-v2 for the texts and questions of the data sets, as `make
bench-quality` caches them; 300 of them, chosen at random, are questions. Each kind runs in a
process of its own, whose arrays are mapped as those of a snapshot. The exact vectors of candidates
are read from a table of SQLite, as from an index file. Recall is that of the exact cosines.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from e2graphrag_integrations.search.int8 import INT8, Int8Vectors, RescoredSearch
from e2graphrag_integrations.search.ivf import InvertedLists, load_faiss
from goals import Goal, finish
from runs import memory, output_of, parser_of, percentiles, this_run

Array = NDArray[Any]
Search = Callable[[Array, int], Array]
"""Returns the rows of the best vectors for a unit vector, best first."""

DIMENSION = 384
QUESTIONS = 300
TOP = 10
LISTED = 200
"""Windows that `HybridStrategy` asks for."""

SIZES = (20_000, 1 << 40)
"""Numbers of vectors: one that is searched exactly, and all."""

KINDS = ("float32", "int8", "int8 without rescoring", "binary", "first 128 of 384 dimensions")
CHUNK = 4096


def cached_vectors(cache: Path) -> Array:
    """Return the distinct unit vectors of the cache, shuffled."""
    with closing(sqlite3.connect(f"file:{cache}?mode=ro", uri=True)) as db:
        query = "SELECT vector FROM vectors WHERE length(vector) = ? ORDER BY key"
        encoded = b"".join(row for (row,) in db.execute(query, (4 * DIMENSION,)))
    vectors = np.unique(np.frombuffer(encoded, "<f4").reshape(-1, DIMENSION), axis=0)
    return vectors[np.random.default_rng(0).permutation(len(vectors))]


def best_rows(vectors: Array, question: Array, count: int) -> Array:
    """Return the rows of the highest exact cosines."""
    cosines = np.concatenate(
        [vectors[start : start + CHUNK] @ question for start in range(0, len(vectors), CHUNK)]
    )
    return np.argsort(-cosines, kind="stable")[:count]


def prepare(vectors: Array, questions: Array, folder: Path) -> None:
    """Write what the processes read."""
    coded = INT8.encoded(vectors)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "codes.npy", coded.codes)
    np.save(folder / "scales.npy", coded.scales)
    np.save(folder / "questions.npy", questions)
    expected = [best_rows(vectors, question, LISTED) for question in questions]
    np.save(folder / "expected.npy", np.stack(expected))
    lists = InvertedLists.train(vectors)
    np.save(folder / "centroids.npy", lists.centroids)
    np.save(folder / "assignments.npy", lists.assignments)
    with closing(sqlite3.connect(folder / "index.sqlite")) as db, db:
        db.execute("CREATE TABLE content (key INTEGER PRIMARY KEY, value BLOB)")
        db.executemany(
            "INSERT INTO content VALUES (?, ?)",
            ((row, vector.tobytes()) for row, vector in enumerate(vectors)),
        )


def mapped(folder: Path, name: str) -> Array:
    """Return an array of the folder as a snapshot maps it."""
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray))


def reader(folder: Path) -> Callable[[Array], Array]:
    """Return a function that reads vectors from the table."""
    db = sqlite3.connect(folder / "index.sqlite")

    def read(rows: Array) -> Array:
        marks = ",".join("?" * len(rows))
        query = f"SELECT key, value FROM content WHERE key IN ({marks})"  # noqa: S608 - marks
        found = dict(db.execute(query, rows.tolist()))
        return np.stack([np.frombuffer(found[row], "<f4") for row in rows.tolist()])

    return read


def rescored(candidates: Search, read: Callable[[Array], Array]) -> Search:
    """Return a search that orders the candidates of another by exact cosines."""

    def search(question: Array, count: int) -> Array:
        rows = candidates(question, max(count, LISTED))
        return rows[np.argsort(-(read(rows) @ question), kind="stable")[:count]]

    return search


def dense_search(folder: Path, kind: str) -> Search:
    """Return the search of this package."""
    lists = InvertedLists(mapped(folder, "centroids"), mapped(folder, "assignments"))
    search: NodeSearch
    if kind == "float32":
        vectors = mapped(folder, "vectors")
        search = own = DenseIndex(vectors, np.arange(len(vectors)), lists)
    else:
        coded = Int8Vectors(mapped(folder, "codes"), mapped(folder, "scales"))
        search = own = DenseIndex(coded, np.arange(len(coded)), lists)
        if kind == "int8":
            search = RescoredSearch(own, reader(folder))
    own.prepare()
    return lambda question, count: search.search_windows(question, count)[0]


def binary_search(folder: Path) -> Search:
    """Return a search by the signs of the components, with rescoring."""
    vectors = mapped(folder, "vectors")
    index = load_faiss().IndexBinaryFlat(DIMENSION)
    for start in range(0, len(vectors), CHUNK):
        index.add(np.packbits(vectors[start : start + CHUNK] > 0, axis=1))

    def candidates(question: Array, count: int) -> Array:
        return index.search(np.packbits(question[None, :] > 0, axis=1), count)[1][0]

    return rescored(candidates, reader(folder))


def shortened_search(folder: Path, dimension: int) -> Search:
    """Return a search by the first components, with rescoring."""
    index = load_faiss().IndexFlatIP(dimension)
    index.add(np.ascontiguousarray(mapped(folder, "vectors")[:, :dimension]))

    def candidates(question: Array, count: int) -> Array:
        return index.search(np.ascontiguousarray(question[None, :dimension]), count)[1][0]

    return rescored(candidates, reader(folder))


def measure(folder: Path, kind: str) -> dict[str, Any]:
    """Return the figures of one kind; runs in a process of its own."""
    questions, expected = mapped(folder, "questions"), mapped(folder, "expected")
    load_faiss()
    before = memory()
    if kind == "binary":
        search = binary_search(folder)
    elif kind.startswith("first"):
        search = shortened_search(folder, 128)
    else:
        search = dense_search(folder, kind)
    seconds, found = [], []
    for question in questions:
        started = time.perf_counter()
        found.append(search(question, LISTED))
        seconds.append(time.perf_counter() - started)
    after = memory()
    recalls = {
        f"recall at {top}": round(
            float(
                np.mean(
                    [
                        len(np.intersect1d(own[:top], best[:top])) / top
                        for own, best in zip(found, expected, strict=True)
                    ]
                )
            ),
            4,
        )
        for top in (TOP, LISTED)
    }
    return {
        **recalls,
        "ms": percentiles(seconds),
        "MiB": after["resident"] - before["resident"],
        "anonymous MiB": after["anonymous"] - before["anonymous"],
    }


def results(cache: Path) -> Iterator[dict[str, Any]]:
    vectors = cached_vectors(cache)
    questions, vectors = vectors[:QUESTIONS], vectors[QUESTIONS:]
    for size in SIZES:
        own = vectors[:size]
        with tempfile.TemporaryDirectory() as folder:
            prepare(own, questions, Path(folder))
            kinds = {
                kind: output_of(__file__, "--folder", folder, "--kind", kind, threads=1)
                for kind in KINDS
            }
        yield {"vectors": len(own), "kinds": kinds}


def main() -> None:
    parser = parser_of(__doc__ or "", data=False)
    parser.add_argument("--cache", type=Path, help="file of cached vectors")
    parser.add_argument("--folder", type=Path, help="for processes of this script")
    parser.add_argument("--kind", choices=KINDS, help="for processes of this script")
    arguments = parser.parse_args()
    if arguments.folder:
        json.dump(measure(arguments.folder, arguments.kind), sys.stdout)
        return
    sizes = list(results(arguments.cache))
    goals = []
    for one in sizes:
        whole, int8 = one["kinds"]["float32"], one["kinds"]["int8"]
        name = f"{one['vectors']:,} vectors"
        goals += [
            Goal(f"recall at {TOP} of int8, {name}", int8[f"recall at {TOP}"], min=0.98),
            Goal(f"memory of int8 as a share, {name}", round(int8["MiB"] / whole["MiB"], 3), 0.5),
        ]
    finish(this_run() | {"dimension": DIMENSION, "sizes": sizes}, goals, arguments.out)


if __name__ == "__main__":
    main()
