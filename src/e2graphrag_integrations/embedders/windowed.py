"""An embedder wrapper that splits long texts into windows and checks and normalizes vectors."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import numpy as np

from e2graphrag_integrations._utils.concurrency import SingleThread, use_one_thread_after_fork
from e2graphrag_integrations._utils.validation import check_int, check_protocol, wrap_errors
from e2graphrag_integrations.errors import EmbeddingError
from e2graphrag_integrations.protocols import Embedder, FloatArray, TokenCounter
from e2graphrag_integrations.text.broken_words import clean_text
from e2graphrag_integrations.text.chunking import chunk_spans
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter, count_tokens, token_spans
from e2graphrag_integrations.types import Span

_TITLE_FRACTION = 4
"""The title may fill at most 1/4 of a window."""

_APPROXIMATE_FRACTION = 2
"""Without the model's tokenizer, windows fill at most 1/2 of its limit: an approximate count may
be half the true count, and the model would silently truncate a longer window."""

_MAX_WINDOW = 256
"""Largest window in tokens, regardless of the model's limit: the vector of a longer text represents
each part poorly, and token budgets are filled with windows (retrieval note D.7)."""

_BALANCE = 1.1
"""Maximum window size relative to the mean, so that windows can end at sentence boundaries without
leaving a short remainder."""


def mean_unit_vector(vectors: Sequence[FloatArray]) -> FloatArray:
    """Return the normalized mean of unit vectors, or the first vector if they cancel out."""
    if len(vectors) == 1:
        return vectors[0]
    mean = np.mean(vectors, axis=0)
    norm = float(np.linalg.norm(mean))
    unit: FloatArray = (mean / norm if norm > 0 else vectors[0]).astype(np.float32)
    return unit


class WindowedEmbedder:
    """Splits texts into windows that the model reads in full, and validates every vector.

    Args:
        embedder: The wrapped embedder. Its vectors may have any norm; they are normalized here.

    Raises:
        EmbeddingError: If reading the embedder's `dimension` or `max_tokens` fails.
        InvalidInputError: If an attribute of the embedder is invalid.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._name = type(embedder).__name__
        self._single_thread = SingleThread()
        self._loaded_in = os.getpid()
        with wrap_errors(
            EmbeddingError, f"{self._name}.dimension or .max_tokens failed", component=embedder
        ):
            dimension, limit = embedder.dimension, embedder.max_tokens
        self.dimension = check_int(f"{self._name}.dimension", dimension)
        if limit is not None:
            limit = check_int(f"{self._name}.max_tokens", limit, most=None)
        counter = getattr(embedder, "tokens", None)
        if counter is not None:
            check_protocol(f"{self._name}.tokens", counter, TokenCounter)
        elif limit is not None:
            limit = max(1, limit // _APPROXIMATE_FRACTION)
        self._counter: TokenCounter = ApproximateTokenCounter() if counter is None else counter
        self._limit = _MAX_WINDOW if limit is None else min(limit, _MAX_WINDOW)

    @property
    def window_tokens(self) -> int:
        """Maximum number of tokens in a window."""
        return self._limit

    def title_prefix(self, title: str | None) -> str:
        """Return the text to prepend to each window: the title, shortened if long, and ". "."""
        if not title or not title.strip():
            return ""
        title = " ".join(title.split())
        spans = token_spans(self._counter, title)[: max(0, self._limit // _TITLE_FRACTION - 1)]
        title = title[: spans[-1, 1]] if len(spans) else ""
        return f"{title}. " if title else ""

    def windows(self, text: str, prefix: str = "") -> list[Span]:
        """Return the spans of `text` to embed separately; together they cover all of it.

        Args:
            text: The text to split.
            prefix: Text that will be prepended to each window; its tokens count toward the limit.
        """
        full_span = [Span(0, len(text))]
        room = max(1, self._limit - (count_tokens(self._counter, prefix) if prefix else 0))
        total = count_tokens(self._counter, text)
        if total <= room:
            return full_span
        count = -(-total // room)
        size = min(room, int(total / count * _BALANCE) + 1)
        while True:
            spans = chunk_spans(text, self._counter, chunk_size=size, chunk_overlap=0) or full_span
            # Part of a word or emoji may have more tokens on its own than within the text.
            longest = max(count_tokens(self._counter, text[start:end]) for start, end in spans)
            if longest <= room or size == 1:
                return spans
            size = min(size - 1, max(1, size * room // longest))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one unit vector per text, shape (n, dimension).

        Raises:
            EmbeddingError: If the embedder fails or returns a wrong shape, NaN, infinity or a zero
                vector. The message quotes the text.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        use_one_thread_after_fork(self._loaded_in)
        with wrap_errors(EmbeddingError, f"{self._name}.embed() failed", component=self.embedder):
            raw = self.embedder.embed([clean_text(text) for text in texts])
        return self._validate(raw, "embed()", texts, (len(texts), self.dimension))

    def embed_query(self, query: str) -> FloatArray:
        """Return the unit vector of a query; for a long query, the mean over its windows.

        PyTorch embeds the query in one thread: see `SingleThread`.

        Raises:
            EmbeddingError: For the same reasons as `embed`.
        """
        use_one_thread_after_fork(self._loaded_in)
        parts = [query[start:end] for start, end in self.windows(query)]
        vectors = []
        for part in parts:
            failure = f"{self._name}.embed_query() failed"
            with (
                wrap_errors(EmbeddingError, failure, component=self.embedder),
                self._single_thread.active(),
            ):
                raw = self.embedder.embed_query(part)
            vectors.append(self._validate(raw, "embed_query()", [part], (self.dimension,))[0])
        return mean_unit_vector(vectors)

    def cache_key(self, text: str, fingerprint: str) -> bytes:
        """Return the cache key of a text's vector."""
        return hashlib.sha256(f"vector\0{fingerprint}\0{text}".encode()).digest()

    def _validate(
        self, raw: object, method: str, texts: Sequence[str], shape: tuple[int, ...]
    ) -> FloatArray:
        with wrap_errors(EmbeddingError, f"{self._name}.{method} must return an array of numbers"):
            array = np.asarray(raw)
            if array.dtype.kind == "c":
                raise TypeError("its numbers are complex")
            vectors = array.astype(np.float32)
        if vectors.shape != shape:
            raise EmbeddingError(
                f"{self._name}.{method} returned shape {vectors.shape} for {len(texts)} texts; "
                f"its dimension={self.dimension} requires {shape}"
            )
        vectors = vectors.reshape(-1, self.dimension)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        invalid = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
        if len(invalid):
            kind = "a zero vector" if norms[invalid[0], 0] == 0 else "NaN or infinity"
            raise EmbeddingError(
                f"{self._name} returned {kind} for the text {texts[invalid[0]][:80]!r}"
            )
        unit: FloatArray = vectors / norms
        return unit
