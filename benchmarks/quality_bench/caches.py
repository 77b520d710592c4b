"""Caches on disk, keyed by content, so that a text is embedded once across runs."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from e2graphrag_integrations.protocols import Embedder, FloatArray, TokenCounter

_BATCH = 256
"""Texts per call of the model and per transaction, so that an interruption loses little."""

_PATIENCE = 300
"""Maximum number of seconds to wait while another process writes."""


class DiskCache:
    """Values by the hash of a text, in a SQLite file that several processes may write."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        # From Python 3.13 on, a connection that nobody closed is a warning.
        weakref.finalize(self, self._connection.close)
        self._lock = threading.Lock()  # the indexing pipeline embeds in several threads
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        # Vectors were cached first; another name would discard those of earlier runs.
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
        )

    def get(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return the value of each text, or None if it is not cached."""
        query = "SELECT vector FROM vectors WHERE key = ?"
        with self._lock:
            rows = [self._connection.execute(query, (_key(text),)).fetchone() for text in texts]
        return [row and row[0] for row in rows]

    def put(self, values: Mapping[str, bytes]) -> None:
        rows = [(_key(text), value) for text, value in values.items()]
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
            self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class CachedEmbedder:
    """Wraps an embedder so that each text is embedded once, across runs.

    Args:
        inner: The wrapped embedder.
        name: Name of the model, part of the cache keys.
        cache: Where the vectors are kept.
    """

    def __init__(self, inner: Embedder, name: str, cache: DiskCache) -> None:
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
        prefix = f"{self._name} {kind}\0"
        keys = [prefix + text for text in texts]
        found = dict(zip(texts, self._cache.get(keys), strict=True))
        missing = sorted((text for text, value in found.items() if value is None), key=len)
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            new = (
                self._inner.embed(batch)
                if kind == "document"
                else np.stack([self._inner.embed_query(text) for text in batch])
            )
            values = [np.asarray(vector, dtype="<f4").tobytes() for vector in new]
            self._cache.put({prefix + text: one for text, one in zip(batch, values, strict=True)})
            found |= dict(zip(batch, values, strict=True))
        if not texts:
            return np.empty((0, 0))
        return np.stack([np.frombuffer(found[text] or b"", dtype="<f4") for text in texts])
