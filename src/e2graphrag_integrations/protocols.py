"""Protocols of the components that users can replace.

Any object with the required methods and properties works; no base class is needed. A component may
have a `fingerprint: str` that changes whenever its output changes; see `embedders/fingerprints.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.types import Sentences

FloatArray = NDArray[np.float32]


@runtime_checkable
class TokenCounter(Protocol):
    """Counts and locates tokens, for chunk sizes and token budgets."""

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`."""

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return the character span of each token, ordered and disjoint."""


@runtime_checkable
class Embedder(Protocol):
    """Converts texts to vectors.

    Texts longer than `max_tokens` are split into windows and never truncated. An embedder may have
    an attribute `tokens`, a `TokenCounter` for its tokenizer, so that window sizes are exact.
    """

    @property
    def dimension(self) -> int:
        """Length of each vector."""

    @property
    def max_tokens(self) -> int | None:
        """Maximum input length in tokens; None if unlimited."""

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, as an array of shape (len(texts), dimension)."""

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, as an array of shape (dimension,)."""


@runtime_checkable
class Summarizer(Protocol):
    """Summarizes consecutive texts as one text, synchronously or asynchronously."""

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return a summary of texts, which follow each other in a document.

        Args:
            texts: Texts of the chunks or summaries on the level below.
            level: Level of the summary in the tree, from 1.
            max_tokens: Maximum number of tokens of the summary.
        """


@runtime_checkable
class EntityExtractor(Protocol):
    """Finds entities in texts."""

    def extract(self, texts: Sequence[str]) -> Sequence[Sentences]:
        """Return the mentions in each sentence of each text."""


@runtime_checkable
class Reranker(Protocol):
    """Scores texts for a question, for example with a cross-encoder."""

    def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one finite score per text, in the order of the texts; higher is better.

        Args:
            question: The question.
            texts: Texts of the candidates, best first.
        """


def object_fingerprint(component: Any) -> str:
    """Return the component's `fingerprint`, or its qualified class name."""
    declared = getattr(component, "fingerprint", None)
    if declared is not None:
        return str(declared)
    cls = type(component)
    return f"{cls.__module__}.{cls.__qualname__}"
