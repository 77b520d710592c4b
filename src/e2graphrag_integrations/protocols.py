"""The ports: what a user's own embedder, summarizer, extractor or tokenizer must offer.

Any object with these methods plugs in; nothing has to be subclassed. Each may carry a
`fingerprint: str` that changes whenever its output would; see `fingerprints.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.types import Sentences

FloatArray = NDArray[np.float32]


@runtime_checkable
class TokenCounter(Protocol):
    """Counts and locates tokens, for chunk sizes and budgets."""

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        ...

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return each token's character span, in order and not overlapping."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors.

    `max_tokens` is the longest text the model reads, None if it has no limit; longer texts are
    split into windows, never cut. An embedder may carry `tokens`, a `TokenCounter` of its own
    tokenizer, which makes those windows exact.
    """

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """Longest text read, in the model's tokens."""
        ...

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector a text, shape (n, dimension)."""
        ...

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a question, shape (dimension,)."""
        ...


@runtime_checkable
class Summarizer(Protocol):
    """Summarizes consecutive texts in one; may be async."""

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return a summary of at most `max_tokens` tokens; `level` is that of the summary."""
        ...


@runtime_checkable
class EntityExtractor(Protocol):
    """Finds entities, sentence by sentence."""

    def extract(self, texts: Sequence[str]) -> Sequence[Sentences]:
        """Return for each text, for each of its sentences, the mentions in it."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Reads a question together with each text, as a cross-encoder does."""

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return for each text how well it answers, higher is better."""
        ...
