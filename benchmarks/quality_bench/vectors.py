"""A cache of vectors on disk, keyed by the content of the text, so that a text is embedded once."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from e2graphrag_integrations.protocols import Embedder, FloatArray, TokenCounter

_BATCH = 256
"""Texts per call of the model and per transaction, so that an interruption loses little."""

_PATIENCE = 300
"""Maximum number of seconds to wait while another process writes."""


class VectorCache:
    """Vectors by model and text in a SQLite file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        self._lock = threading.Lock()  # the indexing pipeline embeds in several threads
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
        )

    def get(self, model: str, texts: Sequence[str]) -> list[FloatArray | None]:
        """Return the vector of each text, or None if it is not cached."""
        with self._lock:
            return [self._one(_key(model, text)) for text in texts]

    def put(self, model: str, texts: Sequence[str], vectors: FloatArray) -> None:
        rows = [
            (_key(model, text), np.asarray(vector, dtype="<f4").tobytes())
            for text, vector in zip(texts, vectors, strict=True)
        ]
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            self._connection.execute("COMMIT")

    def _one(self, key: bytes) -> FloatArray | None:
        row = self._connection.execute(
            "SELECT vector FROM vectors WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype="<f4")


def _key(model: str, text: str) -> bytes:
    return hashlib.sha256(f"{model}\0{text}".encode()).digest()


class CachedEmbedder:
    """Wraps an embedder so that each text is embedded once, across runs.

    Args:
        inner: The wrapped embedder.
        name: Name of the model, part of the cache keys.
        cache: Where the vectors are kept.
    """

    def __init__(self, inner: Embedder, name: str, cache: VectorCache) -> None:
        self._inner = inner
        self._name = name
        self._cache = cache
        self.fingerprint = f"benchmark cache of {name}"

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    @property
    def max_tokens(self) -> int | None:
        return self._inner.max_tokens

    @property
    def tokens(self) -> TokenCounter:
        return self._inner.tokens  # type: ignore[attr-defined,no-any-return] # models here have it

    def embed(self, texts: Sequence[str]) -> FloatArray:
        return self._cached("document", texts)

    def embed_query(self, text: str) -> FloatArray:
        vector: FloatArray = self._cached("query", [text])[0]
        return vector

    def _cached(self, kind: str, texts: Sequence[str]) -> FloatArray:
        model = f"{self._name} {kind}"
        vectors = self._cache.get(model, texts)
        missing = sorted({t for t, v in zip(texts, vectors, strict=True) if v is None}, key=len)
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            new = (
                self._inner.embed(batch)
                if kind == "document"
                else np.stack([self._inner.embed_query(text) for text in batch])
            )
            self._cache.put(model, batch, new)
        if missing:
            vectors = self._cache.get(model, texts)
        return np.stack([v for v in vectors if v is not None]) if texts else np.empty((0, 0))
