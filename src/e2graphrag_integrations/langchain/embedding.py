"""`LangChainEmbedder`: LangChain embeddings as an engine embedder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from langchain_core.embeddings import Embeddings

from e2graphrag_integrations._utils.validation import check_instance
from e2graphrag_integrations.embedders.framework import FrameworkEmbedder
from e2graphrag_integrations.protocols import Embedder, FloatArray


class LangChainEmbedder(FrameworkEmbedder):
    """Adapt LangChain embeddings to the `Embedder` protocol.

    Raises:
        InvalidInputError: If the model is not one of LangChain.
    """

    model: Embeddings

    def __init__(self, model: Embeddings, max_tokens: int | None = None) -> None:
        check_instance(
            "embeddings", model, Embeddings, "pass an object such as OpenAIEmbeddings(...)"
        )
        super().__init__(model, max_tokens)

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (n, dimension)."""
        return np.asarray(self.model.embed_documents(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,)."""
        return np.asarray(self.model.embed_query(text), dtype=np.float32)


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
    return embedder.model if isinstance(embedder, LangChainEmbedder) else _FromEmbedder(embedder)
