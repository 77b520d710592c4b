"""`EmbedModel`: a LlamaIndex embedding model as an embedder of the core."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding

from e2graphrag_integrations.protocols import FloatArray

_MAX_TOKENS = {"OpenAIEmbedding": 8191, "AzureOpenAIEmbedding": 8191}
"""Context length, in tokens, of models that have no `max_length`, by class name."""


class EmbedModel:
    """Adapt a LlamaIndex embedding model to the `Embedder` protocol, with callbacks and batches.

    Args:
        model: The embedding model.
        max_tokens: Maximum number of tokens per text. None uses the model's own `max_length`.
    """

    def __init__(self, model: BaseEmbedding, max_tokens: int | None = None) -> None:
        self.model = model
        self._max_tokens = max_tokens
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Length of each vector; the first access embeds one word to measure it."""
        if self._dimension is None:
            self._dimension = len(self.model.get_text_embedding("dimension"))
        return self._dimension

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens per text, or None if no limit is known."""
        if self._max_tokens is not None:
            return self._max_tokens
        max_length = getattr(self.model, "max_length", None)
        if isinstance(max_length, int) and max_length > 0:
            return max_length
        return _MAX_TOKENS.get(self.model.class_name())

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (n, dimension)."""
        return np.asarray(self.model.get_text_embedding_batch(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,)."""
        return np.asarray(self.model.get_query_embedding(text), dtype=np.float32)
