"""An embedder that needs no model: feature hashing, for tests and dry runs."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from e2graphrag_integrations.protocols import FloatArray

_WORD = re.compile(r"\w+|[^\w\s]")
_MIN_TRIGRAM_WORD = 4
"""Minimum length, in characters, of words that also contribute their trigrams."""


class HashingEmbedder:
    """Hashes words and character trigrams to signed dimensions (Weinberger et al., 2009).

    Deterministic across processes and machines. Texts that share words get similar vectors;
    synonyms do not.

    Args:
        dimension: Length of the vectors.
        max_tokens: Simulated input limit, in tokens; None for no limit.
    """

    def __init__(self, dimension: int = 256, max_tokens: int | None = None) -> None:
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.fingerprint = f"hashing:1:{dimension}:{max_tokens}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the arguments of the constructor."""
        return type(self), (self.dimension, self.max_tokens)

    @property
    def recorded_name(self) -> str:
        """The name in `embedder=` and in index files; empty if an argument is not the default."""
        return "hashing" if self.fingerprint == HashingEmbedder().fingerprint else ""

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one unit vector per text, shape (n, dimension)."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for feature in _features(text.casefold()):
                code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                vector[code % self.dimension] += 1.0 if code & 0x80000000 else -1.0
            if not vector.any():  # no features, or they cancel out
                vector[0] = 1.0
            np.divide(vector, np.linalg.norm(vector), out=vector)
        return vectors

    def embed_query(self, text: str) -> FloatArray:
        """Return the unit vector of a query, shape (dimension,)."""
        vector: FloatArray = self.embed([text])[0]
        return vector


def _features(text: str) -> list[str]:
    words = _WORD.findall(text)
    trigrams = [
        f"#{word[i : i + 3]}"
        for word in words
        if len(word) >= _MIN_TRIGRAM_WORD
        for i in range(len(word) - 2)
    ]
    return words * 2 + trigrams
