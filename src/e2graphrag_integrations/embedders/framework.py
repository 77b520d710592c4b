"""`FrameworkEmbedder`: an embedding model of LlamaIndex or LangChain as an `Embedder`."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from e2graphrag_integrations.embedders.sentence_transformers import WrappedModel
from e2graphrag_integrations.protocols import FloatArray, TokenCounter

_MAX_TOKENS = dict.fromkeys(
    ("OpenAIEmbedding", "AzureOpenAIEmbedding", "OpenAIEmbeddings", "AzureOpenAIEmbeddings"), 8191
)
"""Context length in tokens, by class name, of models that do not report it."""


class FrameworkEmbedder(abc.ABC):
    """Adapts an embedding model of a framework to the `Embedder` protocol.

    Args:
        model: The embedding model.
        max_tokens: Maximum number of tokens per text. None uses the model's own limit, if known.
    """

    def __init__(self, model: Any, max_tokens: int | None = None) -> None:
        self.model = model
        self._wrapped = WrappedModel(model)
        self._max_tokens = max_tokens
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Length of each vector; the first access embeds one word to measure it."""
        if self._dimension is None:
            self._dimension = len(self.embed_query("dimension"))
        return self._dimension

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens per text, or None if no limit is known."""
        if self._max_tokens is not None:
            return self._max_tokens
        if self._wrapped.max_tokens is not None:
            return self._wrapped.max_tokens
        max_length = getattr(self.model, "max_length", None)
        if isinstance(max_length, int) and max_length > 0:
            return max_length
        names = [cls.__name__ for cls in type(self.model).__mro__]
        return next((_MAX_TOKENS[name] for name in names if name in _MAX_TOKENS), None)

    @property
    def tokens(self) -> TokenCounter | None:
        """A counter that uses the model's own tokenizer, or None if it has none in memory."""
        return self._wrapped.tokens

    @abc.abstractmethod
    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (n, dimension)."""

    @abc.abstractmethod
    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,)."""
