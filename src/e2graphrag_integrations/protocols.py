"""Protocols of the components that a user can replace.

Any object with these methods works; there is nothing to subclass. A component may have a
`fingerprint: str` that changes whenever its output changes; see `embedders/fingerprints.py`.
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
        """Return the character span of each token, ordered and disjoint."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Converts texts to vectors.

    Longer texts than `max_tokens` are split into windows, never truncated. An embedder may have an
    attribute `tokens`, a `TokenCounter` for its tokenizer, which makes the windows exact.
    """

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """Longest input in tokens, None if unlimited."""
        ...

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (len(texts), dimension)."""
        ...

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,)."""
        ...


@runtime_checkable
class Summarizer(Protocol):
    """Summarizes consecutive texts into one; may be async."""

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return a summary of at most `max_tokens` tokens; `level` is the level of the summary."""
        ...


@runtime_checkable
class EntityExtractor(Protocol):
    """Finds entities in texts."""

    def extract(self, texts: Sequence[str]) -> Sequence[Sentences]:
        """Return, for each text and each of its sentences, the mentions."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a question, for example with a cross-encoder."""

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one score per text; higher is better."""
        ...
