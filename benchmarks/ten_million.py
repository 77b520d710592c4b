r"""Measure an index of ten million windows: time to open, questions, recall and memory.

From the repository's root:

    python benchmarks/ten_million.py --data ../shared/data --out benchmarks/results/ten_million.json

Indexing ten million windows would take hours and 40 GB. Therefore, the texts, the tree, the entity
graph and the words are those of an index of a million chunks (scale.py), whose nodes are divided
into eight windows each. The words of a node are dealt to its windows at random, and the vectors of
the windows are new mixtures of real vectors. The arrays are those that the library saves, and it
trains the IVF lists, opens the index and answers the questions. This takes 20 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

import scale
from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists
from e2graphrag_integrations.search.term_postings import TermPostings
from e2graphrag_integrations.snapshot.array_files import _crc, load_arrays, save_arrays
from e2graphrag_integrations.snapshot.conversion import bm25_arrays
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from goals import Goal, exit_if_missed
from runs import answer_from, this_run, timed
from synthetic import NOISE, Corpus, Floats

CHUNKS = 1_000_000
WINDOWS_PER_NODE = 8
QUESTIONS = 100
BATCH = 1 << 16


# Steps: each runs in its own process.


def expand(rag: E2GraphRAG, _: Corpus, real: Floats) -> dict[str, Any]:
    """Replace the snapshot of the index by one with eight windows per node."""
    snapshot = rag._session.snapshot()  # noqa: SLF001 - no public access
    folder = Path(f"{rag.path}.snapshot") / snapshot.generation
    loaded = load_arrays(folder)
    if loaded is None:
        raise SystemExit(f"{folder} is damaged")
    arrays, meta = loaded
    windows = len(snapshot.dense.window_nodes) * WINDOWS_PER_NODE
    words, word_seconds = timed(lambda: divide_words(snapshot.bm25))
    vectors_file = folder.parent / "vectors.npy"
    _, vector_seconds = timed(lambda: write_vectors(vectors_file, windows, real))
    vectors = np.load(vectors_file, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    lists, ivf_seconds = timed(lambda: InvertedLists.train(vectors))
    arrays["window_nodes"] = np.repeat(snapshot.dense.window_nodes, WINDOWS_PER_NODE)
    arrays["window_spans"] = divide_spans(snapshot.window_spans)
    del arrays["vectors"]
    rules = json.loads(json.loads((folder / "words" / "meta.json").read_text())["text"])["meta"]
    save_arrays(folder, arrays, meta)
    save_arrays(folder / "words", words, rules)
    cells = {"centroids": lists.centroids, "of_vector": lists.assignments}
    save_arrays(folder / "cells", cells, {})
    add_vectors(folder, vectors_file)
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "windows": windows,
        "seconds": {
            "words": round(word_seconds, 1),
            "vectors": round(vector_seconds, 1),
            "IVF": round(ivf_seconds, 1),
        },
        "lists": lists.nlist,
        "snapshot on disk, GiB": round(total / 2**30, 1),
    }


def divide_words(bm25: BM25Index) -> dict[str, NDArray[Any]]:
    """Return the arrays of BM25 after dealing the words of each text to its windows at random."""
    random = np.random.default_rng(0)
    postings, texts = bm25.postings, bm25.n_texts * WINDOWS_PER_NODE
    old = postings.counts
    own = random.integers(0, WINDOWS_PER_NODE, len(old.indices), dtype=np.int32)
    rows = old.indices.astype(np.int32) * WINDOWS_PER_NODE + own
    counts = csc_array((old.data, rows, old.indptr), shape=(texts, old.shape[1]))
    lengths = np.bincount(rows, old.data, minlength=texts).astype(np.int64)
    divided = BM25Index.of(TermPostings(postings.vocabulary, counts, lengths))
    return bm25_arrays(divided)


def divide_spans(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the spans of equal parts of some spans."""
    cuts = np.linspace(0, 1, WINDOWS_PER_NODE + 1)
    bounds = (spans[:, :1] + (spans[:, 1:] - spans[:, :1]) * cuts).astype(np.int64)
    return np.stack([bounds[:, :-1], bounds[:, 1:]], axis=2).reshape(-1, 2)


def write_vectors(path: Path, count: int, real: Floats) -> None:
    """Write mixtures of two real vectors each, plus noise, as in synthetic.py."""
    passages = real[scale.HELD_OUT :]
    dimension = passages.shape[1]
    shape = count, dimension
    vectors = np.lib.format.open_memmap(path, "w+", np.float32, shape, version=(1, 0))
    random = np.random.default_rng(1)
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        a, b = random.integers(0, len(passages), (2, size))
        weight = random.uniform(0.5, 1, (size, 1)).astype(np.float32)
        mixed = random.standard_normal((size, dimension), np.float32)
        mixed *= np.float32(NOISE / np.sqrt(dimension))
        mixed += weight * passages[a] + (1 - weight) * passages[b]
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        vectors[first : first + size] = mixed
    vectors.flush()


def add_vectors(folder: Path, vectors: Path) -> None:
    """Move the vectors into a saved folder, without a second copy of 15 GB."""
    vectors.rename(folder / "vectors.npy")
    meta = folder / "meta.json"
    wrapped = json.loads(meta.read_text(encoding="utf-8"))
    content = json.loads(wrapped["text"])
    content["arrays"]["vectors"] = _crc(folder / "vectors.npy")
    wrapped["text"] = json.dumps(content, ensure_ascii=False)
    wrapped["checksum"] = zlib.crc32(wrapped["text"].encode())
    meta.write_text(json.dumps(wrapped), encoding="utf-8")


def serve(rag: E2GraphRAG, corpus: Corpus, _: Floats) -> dict[str, Any]:
    """Answer questions on one core, and compare the results with exact search."""
    import faiss

    faiss.omp_set_num_threads(1)
    snapshot, opening = timed(rag._session.snapshot)  # noqa: SLF001 - no public access
    if len(snapshot.dense.window_nodes) < corpus.chunks * WINDOWS_PER_NODE:
        raise SystemExit("the snapshot was built again")
    opened = scale.memory()
    questions = corpus.questions(QUESTIONS)
    _, first = timed(lambda: rag.retrieve(questions[0]))
    for question in questions[:20]:
        rag.retrieve(question)
    passes = [scale.pass_of_each_query(rag, questions) for _ in range(3)]
    serving = scale.memory()
    return {
        "seconds to open": round(opening, 2),
        "seconds for the first query": round(first, 2),
        scale.FIRST_MISSPELLED: scale.ask_misspelled_name(rag, snapshot),
        "memory, MiB": {"opened": opened, "serving": serving},
        "queries": {name: scale.combine([each[name] for each in passes]) for name in scale.QUERIES},
        "recall": measure_recall(rag, snapshot, questions),
    }


def measure_recall(rag: E2GraphRAG, snapshot: Snapshot, questions: list[str]) -> dict[str, float]:
    """Return the mean recall of the vectors and the results against exact search for vectors."""
    dense = snapshot.dense
    assert isinstance(dense, DenseIndex)  # noqa: S101 - narrows the type
    embedder = rag._index.components.embedder  # noqa: SLF001 - the model of the index
    queries = np.stack([embedder.embed_query(question) for question in questions])
    rows, cosines = exact_search(dense.vectors, queries, 200)
    exact = replace(snapshot, dense=_Known(dense, queries, rows, cosines))
    for name in ("bm25", "personalized_pagerank", "subjects", "aliases"):
        vars(exact)[name] = getattr(snapshot, name)
    recalls: dict[str, list[float]] = {}
    for number, question in enumerate(questions):
        for count in (10, 200):
            found, _ = dense.search_windows(queries[number], count)
            share = len(np.intersect1d(found, rows[number, :count])) / count
            recalls.setdefault(f"vectors, top {count}", []).append(share)
        answers = []
        for version in (snapshot, exact):
            answer_from(rag, version)
            answers.append([node.node_id for node in rag.retrieve(question).nodes])
        share = len(set(answers[0]) & set(answers[1])) / len(answers[1])
        recalls.setdefault("results, top 10", []).append(share)
    answer_from(rag, snapshot)
    return {name: round(float(np.mean(values)), 4) for name, values in recalls.items()}


class _Known(DenseIndex):
    """An index that knows the exact results of some queries."""

    def __init__(self, dense: DenseIndex, queries: Floats, rows: Any, cosines: Any) -> None:
        super().__init__(dense.vectors, dense.window_nodes, dense.ivf)
        self._known = {
            query.tobytes(): pair for query, *pair in zip(queries, rows, cosines, strict=True)
        }

    def search_windows(self, query: Floats, count: int, allowed: Any = None) -> Any:
        del allowed
        rows, cosines = self._known[query.astype(np.float32).tobytes()]
        return rows[:count], cosines[:count]


def exact_search(vectors: Floats, queries: Floats, count: int) -> tuple[Any, Any]:
    """Return the nearest vectors of each query and their cosines, reading the vectors once."""
    rows = np.zeros((len(queries), 0), dtype=np.int64)
    cosines = np.zeros((len(queries), 0), dtype=np.float32)
    for first in range(0, len(vectors), BATCH):
        scores = queries @ vectors[first : first + BATCH].T
        new = np.broadcast_to(np.arange(first, first + scores.shape[1]), scores.shape)
        rows, cosines = np.hstack([rows, new]), np.hstack([cosines, scores])
        best = np.argpartition(-cosines, count, axis=1)[:, :count]
        rows, cosines = (np.take_along_axis(one, best, axis=1) for one in (rows, cosines))
    order = np.argsort(-cosines, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)


STEPS = {"expand": expand, "serve": serve}


def run_step(step: str, path: Path, chunks: int, vectors: Path) -> None:
    real = np.load(vectors, allow_pickle=False)
    with scale.open_index(path, real) as rag:
        result = STEPS[step](rag, Corpus(chunks), real)
    print(json.dumps(result | {"final memory, MiB": scale.memory()}))


def run_in_subprocess(script: str, step: str, *arguments: str) -> dict[str, Any]:
    environment = os.environ | ({"OMP_NUM_THREADS": "1"} if step == "serve" else {})
    command = [sys.executable, str(Path(__file__).with_name(script)), "--step", step, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", type=Path, help="where the files of 20 GB are written")
    parser.add_argument("--index", type=Path, help="an index that scale.py built; it is changed")
    parser.add_argument("--vectors", type=Path, help="the real vectors of that index")
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--step", nargs=4, help="internal: run one step")
    options = parser.parse_args()
    if options.step:
        step, path, chunks, vectors = options.step
        run_step(step, Path(path), int(chunks), Path(vectors))
        return
    result: dict[str, Any] = {**this_run()}
    chunks = str(options.chunks)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        vectors, path = options.vectors, options.index
        if path is None:
            vectors, path = Path(folder) / "real.npy", Path(folder) / "index.e2g"
            np.save(vectors, scale.real_vectors(options.data), allow_pickle=False)
            for step in ("index", "build"):
                run_in_subprocess("scale.py", step, str(path), chunks, str(vectors))
        for step in STEPS:
            result[step] = run_in_subprocess(
                Path(__file__).name, step, str(path), chunks, str(vectors)
            )
            print(step, json.dumps(result[step], indent=2), flush=True)
            if options.out:
                options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    goals = goals_of(result["serve"])
    result["goals"] = [goal.to_dict() for goal in goals]
    print(json.dumps(result["goals"], indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    exit_if_missed(goals)


def goals_of(serving: dict[str, Any]) -> list[Goal]:
    return [
        Goal("seconds to open", serving["seconds to open"], max=10),
        Goal(
            "ms without embedding and extraction, p95 of the fastest pass",
            serving["queries"]["k=10"][scale.FASTEST]["p95"],
            max=80,
        ),
        *(Goal(f"recall, {name}", value, min=0.97) for name, value in serving["recall"].items()),
    ]


if __name__ == "__main__":
    main()
