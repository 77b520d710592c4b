"""Vector indexes in servers: recall against an exact search, times, and sizes.

pgvector runs in the server of this part. Qdrant is its engine, Qdrant Edge, behind the HTTP server
of the tests. Queries use one core of the client and one of the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psycopg
from numpy.typing import NDArray

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, copy_index
from e2graphrag_integrations.search import vector_index
from e2graphrag_integrations.search.vector_index import VectorIndexSearch
from goals import Goal
from postgres.part import Part
from qdrant_server import QdrantServer, running_qdrant
from runs import percentiles, timed
from scale import HELD_OUT, open_index
from synthetic import (
    Corpus,
    FirstTextSummarizer,
    Floats,
    LineSplitter,
    MixtureEmbedder,
    SyntheticNameExtractor,
)

COUNT = 200
"""Number of windows that a question needs."""

QUESTIONS = 100
SHORT_CHUNKS = 3_000
LEAST_RECALL = 0.98


def _parts(*numbers: int) -> Mapping[str, Any]:
    return {"part": {"$in": list(numbers)}}


FILTERS: Mapping[str, Mapping[str, Any] | None] = {
    "no filter": None,
    "90% of the documents": _parts(*range(9)),
    "50% of the documents": _parts(*range(5)),
    "20% of the documents": _parts(0, 1),
    "10% of the documents": _parts(0),
    "1% of the documents": {"document_id": {"$in": [f"d{n:07d}" for n in range(0, 1000, 100)]}},
    "chunks only": None,
}
"""Filters of the questions. Up to 50,000 windows are searched exactly."""


def measure(part: Part) -> dict[str, Any]:
    """Measure pgvector and Qdrant with the same index."""
    file, real = _index(part)
    with psycopg.connect(part.server.url, autocommit=True) as db:
        db.execute("CREATE EXTENSION vector")
        version = db.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        [name] = version.fetchone() or ("",)
    url = f"{part.server.url}?schema=vectors"
    _, copied = timed(lambda: copy_index(str(file), url))
    result: dict[str, Any] = {"pgvector version": name, "copy to Postgres, s": round(copied, 1)}
    with _open(url, real, "pgvector") as rag:
        result["pgvector"] = _measure_index(rag, real, lambda: None)
        [(size,)] = rag.store.read("SELECT pg_total_relation_size('vectors')")
        result["pgvector"]["size, MB"] = round(size / 1e6)
    with running_qdrant() as server, _open(url, real, f"{server.url}/vectors") as rag:
        result["Qdrant Edge"] = _measure_index(rag, real, lambda: _build_graphs(server))
    with _open(url, real, None) as rag:
        result["own vectors"] = _questions(rag)
    return result


def _index(part: Part) -> tuple[Path, Floats]:
    """Return an index file and the real vectors from which its vectors are mixed."""
    if part.indexes is not None:
        return part.indexes / "100000.e2g", np.load(part.indexes / "real.npy")
    random = np.random.default_rng(0).standard_normal((2 * HELD_OUT, 64), np.float32)
    real = random / np.linalg.norm(random, axis=1, keepdims=True)
    path = part.folder / "index.e2g"
    with open_index(path, real) as rag:
        rag.add(Corpus(SHORT_CHUNKS).documents())
    return path, real


def _open(path: str | Path, real: Floats, vectors: str | None) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        embedder=MixtureEmbedder(real[HELD_OUT:], real[:HELD_OUT]),
        models=Models(extractor=SyntheticNameExtractor()),
        summarizer=FirstTextSummarizer(),
        settings=IndexSettings(splitter=LineSplitter()),
        vectors=vectors,
    )


def _build_graphs(server: QdrantServer) -> None:
    for shard in server.collections.values():
        shard.optimize()


def _measure_index(
    rag: E2GraphRAG, real: Floats, build_graphs: Callable[[], None]
) -> dict[str, Any]:
    rag.refresh()  # builds the snapshot
    report, seconds = timed(rag.update_vectors)
    _, built = timed(build_graphs)
    result: dict[str, Any] = {
        "vectors": report.vectors,
        "first update, s": round(seconds, 1),
        "graph, s": round(built, 1),
        "update without changes, s": round(timed(rag.update_vectors)[1], 2),
        "reading the contents, s": round(timed(rag.refresh)[1], 2),
    }
    search = rag._session.snapshot().dense  # noqa: SLF001 - no public access
    if not isinstance(search, VectorIndexSearch):
        raise TypeError("the index was opened without a vector index")
    filters = {}
    for name in FILTERS:
        filters[name] = _recall(rag, search, real, name)
    result["filters"] = filters
    with mock.patch.object(vector_index, "_EXACT_LIMIT", 0):
        result["without exact searches"] = {
            name: _recall(rag, search, real, name)
            for name in ("20% of the documents", "10% of the documents")
        }
    return {**result, "questions": _questions(rag)}


def _mask(rag: E2GraphRAG, name: str) -> NDArray[np.bool_] | None:
    from e2graphrag_integrations.retrieval.filters.where import metadata_filter

    snapshot = rag._session.snapshot()  # noqa: SLF001 - no public access
    if name == "chunks only":
        return snapshot.is_chunk
    where = FILTERS[name]
    return None if where is None else metadata_filter(where)(snapshot)


def _recall(rag: E2GraphRAG, search: VectorIndexSearch, real: Floats, name: str) -> dict[str, Any]:
    """Return the recall at 200 against all cosines, and the times of both."""
    allowed = _mask(rag, name)
    windows = np.arange(len(search.window_nodes))
    if allowed is not None:
        windows = np.flatnonzero(allowed[search.window_nodes])
    vectors = np.asarray(search.own.vectors[windows])
    recalls, seconds, exact_seconds, reasons = [], [], [], set[str]()
    for question in real[:QUESTIONS]:
        began = time.perf_counter()
        search._best(question, COUNT, windows)  # noqa: SLF001 - the exact search
        exact_seconds.append(time.perf_counter() - began)
        scores = vectors @ question
        best = windows[np.argpartition(-scores, min(COUNT, len(scores) - 1))[:COUNT]]
        with search.recording() as use:
            began = time.perf_counter()
            found, _ = search.search_windows(question, COUNT, allowed)
            seconds.append(time.perf_counter() - began)
            reasons.update(use().reasons)  # type: ignore[union-attr] # it was used
        recalls.append(len(np.intersect1d(found, best)) / max(1, len(best)))
    return {
        "windows": len(windows),
        "recall at 200": round(float(np.mean(recalls)), 4),
        "lowest": round(min(recalls), 3),
        "search, ms": percentiles(seconds),
        "exact search, ms": percentiles(exact_seconds),
        "instead of the server": sorted(reasons),
    }


def _questions(rag: E2GraphRAG) -> dict[str, float]:
    """Return the times of complete answers."""
    texts = Corpus(len(rag.document_ids) * 100).questions(QUESTIONS + 10)
    for text in texts[:10]:
        rag.retrieve(text)
    seconds = [timed(lambda t=text: rag.retrieve(t))[1] for text in texts[10:]]
    return percentiles(seconds)


def goals(result: Mapping[str, Any]) -> list[Goal]:
    """Return the goals of the figures."""
    return [
        Goal(f"{index}, {name}: recall at 200", one["recall at 200"], min=LEAST_RECALL)
        for index in ("pgvector", "Qdrant Edge")
        for name, one in result[index]["filters"].items()
    ]
