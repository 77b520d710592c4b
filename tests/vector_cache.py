"""A cache of real vectors: several tests index the same novel, and embed each text only once."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from e2graphrag_integrations import MultilingualE5Embedder, SentenceTransformerEmbedder

Vectors = NDArray[np.float32]
Encode = Callable[[Any, str, list[str]], Vectors]


class VectorCache:
    """Vectors in a SQLite file, by model, method and text."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(self._open()) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the default embedders embed only unknown texts, in this process."""
        with pytest.MonkeyPatch.context() as patch:
            encode = SentenceTransformerEmbedder._encode
            patch.setattr(SentenceTransformerEmbedder, "_encode", self._wrap(encode, _model))
            embed = self._wrap(_multilingual(MultilingualE5Embedder.embed), _fingerprint)
            patch.setattr(
                MultilingualE5Embedder,
                "embed",
                lambda embedder, texts: embed(embedder, "embed", list(texts)),
            )
            yield

    def _wrap(self, encode: Encode, model_of: Callable[[Any], str]) -> Encode:

        def cached(embedder: Any, method: str, texts: list[str]) -> Vectors:
            keys = [_key(model_of(embedder), method, text) for text in texts]
            known = self._read(keys)
            unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            if unknown:
                vectors = encode(embedder, method, list(unknown.values()))
                new = dict(zip(unknown, vectors, strict=True))
                self._write(new)
                known |= new
            return np.stack([known[key] for key in keys])

        return cached

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=60)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        query = "SELECT vector FROM vectors WHERE key = ?"
        with closing(self._open()) as db:
            found = {key: db.execute(query, (key,)).fetchone() for key in keys}
        return {key: np.frombuffer(row[0], np.float32) for key, row in found.items() if row}

    def _write(self, vectors: dict[bytes, Vectors]) -> None:
        rows = [(key, vector.tobytes()) for key, vector in vectors.items()]
        with closing(self._open()) as db, db:
            db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)


def _model(embedder: SentenceTransformerEmbedder) -> str:
    return embedder.model


def _fingerprint(embedder: MultilingualE5Embedder) -> str:
    return embedder.fingerprint


def _multilingual(embed: Callable[[Any, list[str]], Vectors]) -> Encode:
    return lambda embedder, _, texts: embed(embedder, texts)


def _key(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
