"""`LangChainEmbedder`: LangChain embeddings as an engine embedder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from langchain_core.embeddings import Embeddings

from e2graphrag_integrations._utils.validation import check_instance
from e2graphrag_integrations.embedders.sentence_transformers import WrappedModel
from e2graphrag_integrations.protocols import Embedder, FloatArray, TokenCounter

_MAX_TOKENS = {"OpenAIEmbeddings": 8191, "AzureOpenAIEmbeddings": 8191}
"""Context length in tokens, by class name, for models that do not report it."""


class LangChainEmbedder:
    """Adapt LangChain embeddings to the `Embedder` protocol.

    Args:
        embeddings: The embedding model.
        max_tokens: Maximum number of tokens per text. None uses the model's own limit, if known.

    Raises:
        InvalidInputError: If `embeddings` is not a LangChain model.
    """

    def __init__(self, embeddings: Embeddings, max_tokens: int | None = None) -> None:
        self.embeddings = check_instance(
            "embeddings", embeddings, Embeddings, "pass an object such as OpenAIEmbeddings(...)"
        )
        self._wrapped = WrappedModel(embeddings)
        self._max_tokens = max_tokens
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Length of each vector; the first access embeds one word to measure it."""
        if self._dimension is None:
            self._dimension = len(self.embeddings.embed_query("dimension"))
        return self._dimension

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens per text, or None if no limit is known."""
        if self._max_tokens is not None:
            return self._max_tokens
        if self._wrapped.max_tokens is not None:
            return self._wrapped.max_tokens
        return _MAX_TOKENS.get(type(self.embeddings).__name__)

    @property
    def tokens(self) -> TokenCounter | None:
        """A counter that uses the model's own tokenizer, or None if it has none in memory."""
        return self._wrapped.tokens

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (n, dimension)."""
        return np.asarray(self.embeddings.embed_documents(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,)."""
        return np.asarray(self.embeddings.embed_query(text), dtype=np.float32)


class _FromEmbedder(Embeddings):
    """Adapt an `Embedder` to LangChain's embeddings."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        vectors: list[list[float]] = np.asarray(self._embedder.embed(texts)).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        vector: list[float] = np.asarray(self._embedder.embed_query(text)).tolist()
        return vector


def as_embeddings(embedder: Embedder) -> Embeddings:
    """Return an embedder as LangChain embeddings: the wrapped model, if it is one of LangChain."""
    return (
        embedder.embeddings if isinstance(embedder, LangChainEmbedder) else _FromEmbedder(embedder)
    )
