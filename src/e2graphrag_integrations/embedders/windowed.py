"""Between the core and any embedder: windows for long texts, checked and normalized vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from e2graphrag_integrations._utils.validation import check_int, check_protocol, wrap_errors
from e2graphrag_integrations.errors import EmbeddingError
from e2graphrag_integrations.protocols import Embedder, FloatArray, TokenCounter
from e2graphrag_integrations.text.chunking import chunk_spans
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter, count_tokens, token_spans
from e2graphrag_integrations.types import Span

_TITLE_SHARE = 4
"""A title may take one part in this many of a window."""

_GUESS_SHARE = 2
"""Without the model's tokenizer, fill one part in this many of its limit: a guessed count may be
half the true one, and a window too long would be cut silently."""

_LONGEST = 256
"""Tokens of a window, however much the model reads: a vector of more says little of any part, and
windows are what a token budget is filled with (retrieval note D.7)."""

_BALANCE = 1.1
"""Room above the mean window size for sentence borders, so that no short rest is left over."""


def mean_unit_vector(vectors: Sequence[FloatArray] | FloatArray) -> FloatArray:
    """Return the unit vector of the mean of unit vectors; the first where they cancel out."""
    if len(vectors) == 1:
        return vectors[0]
    mean = np.mean(vectors, axis=0)
    norm = float(np.linalg.norm(mean))
    unit: FloatArray = (mean / norm if norm > 0 else vectors[0]).astype(np.float32)
    return unit


class WindowedEmbedder:
    """An embedder that never cuts a text silently and never lets a bad vector through.

    Args:
        embedder: The user's; vectors may have any length, they are normalized here.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._name = type(embedder).__name__
        with wrap_errors(EmbeddingError, f"{self._name}.dimension or .max_tokens failed"):
            dimension, limit = embedder.dimension, embedder.max_tokens
        self.dimension = check_int(f"{self._name}.dimension", dimension)
        if limit is not None:
            limit = check_int(f"{self._name}.max_tokens", limit, most=None)
        own = getattr(embedder, "tokens", None)
        if own is not None:
            check_protocol(f"{self._name}.tokens", own, TokenCounter)
        self._counter: TokenCounter = ApproximateTokenCounter() if own is None else own
        if limit is not None and own is None:
            limit = max(1, limit // _GUESS_SHARE)
        self._limit = _LONGEST if limit is None else min(limit, _LONGEST)

    def prefix(self, title: str | None) -> str:
        """Return what is put before each window: the title and a stop, cut where it is long."""
        if not title or not title.strip():
            return ""
        title = " ".join(title.split())
        spans = token_spans(self._counter, title)[: max(0, self._limit // _TITLE_SHARE - 1)]
        title = title[: spans[-1, 1]] if len(spans) else ""
        return f"{title}. " if title else ""

    def windows(self, text: str, prefix: str = "") -> list[Span]:
        """Return the spans of `text` that one vector each covers, all of it together."""
        all_of_it = [Span(0, len(text))]
        room = max(1, self._limit - (count_tokens(self._counter, prefix) if prefix else 0))
        total = count_tokens(self._counter, text)
        if total <= room:
            return all_of_it
        count = -(-total // room)
        size = min(room, int(total / count * _BALANCE) + 1)
        while True:
            spans = chunk_spans(text, self._counter, chunk_size=size, chunk_overlap=0) or all_of_it
            # A piece of a word, or of an emoji, may count more by itself than it did in the text.
            longest = max(count_tokens(self._counter, text[start:end]) for start, end in spans)
            if longest <= room or size == 1:
                return spans
            size = min(size - 1, max(1, size * room // longest))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors, shape (n, dimension).

        Raises:
            EmbeddingError: If the embedder fails; for the wrong shape, NaN, infinity or a zero
                vector; names the text.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        with wrap_errors(EmbeddingError, f"{self._name}.embed() failed"):
            raw = self.embedder.embed(texts)
        return self._checked(raw, "embed()", texts, (len(texts), self.dimension))

    def embed_question(self, question: str) -> FloatArray:
        """Return the unit vector of a question; of a long one, the mean over its windows.

        Raises:
            EmbeddingError: As `embed`.
        """
        pieces = [question[start:end] for start, end in self.windows(question)]
        vectors = np.concatenate([self._embed_piece(piece) for piece in pieces])
        return mean_unit_vector(vectors)

    def _embed_piece(self, piece: str) -> FloatArray:
        with wrap_errors(EmbeddingError, f"{self._name}.embed_query() failed"):
            raw = self.embedder.embed_query(piece)
        return self._checked(raw, "embed_query()", [piece], (self.dimension,))

    def key(self, text: str, fingerprint: str) -> bytes:
        """Return the cache key of a text's vector."""
        return hashlib.sha256(f"vector\0{fingerprint}\0{text}".encode()).digest()

    def _checked(
        self, raw: object, call: str, texts: Sequence[str], shape: tuple[int, ...]
    ) -> FloatArray:
        with wrap_errors(EmbeddingError, f"{self._name}.{call} returned no array of numbers"):
            given = np.asarray(raw)
            if given.dtype.kind == "c":
                raise TypeError("they are complex")
            vectors = given.astype(np.float32)
        if vectors.shape != shape:
            raise EmbeddingError(
                f"{self._name}.{call} returned shape {vectors.shape} for {len(texts)} texts; "
                f"expected {shape} by its `dimension`"
            )
        vectors = vectors.reshape(-1, self.dimension)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
        if len(bad):
            kind = "a zero vector" if norms[bad[0], 0] == 0 else "NaN or infinity"
            raise EmbeddingError(
                f"{self._name} returned {kind} for the text {texts[bad[0]][:80]!r}"
            )
        unit: FloatArray = vectors / norms
        return unit
