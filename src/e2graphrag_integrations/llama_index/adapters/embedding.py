"""Any LlamaIndex embedding model as an embedder of the core."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding

from e2graphrag_integrations.protocols import FloatArray

_DEFAULT_LENGTHS = {"OpenAIEmbedding": 8191, "AzureOpenAIEmbedding": 8191}


class EmbedModel:
    """A LlamaIndex embedding model behind the core's port, with its callbacks and batches.

    Args:
        model: The model.
        max_tokens: Longest text it reads; None takes its own `max_length` where it tells one.
    """

    def __init__(self, model: BaseEmbedding, max_tokens: int | None = None) -> None:
        self.model = model
        self._max_tokens = max_tokens
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Length of every vector, found out with one call at first use."""
        if self._dimension is None:
            self._dimension = len(self.model.get_text_embedding("dimension"))
        return self._dimension

    @property
    def max_tokens(self) -> int | None:
        """Longest text read, None if it is not known to be limited."""
        if self._max_tokens is not None:
            return self._max_tokens
        own = getattr(self.model, "max_length", None)
        if isinstance(own, int) and own > 0:
            return own
        return _DEFAULT_LENGTHS.get(self.model.class_name())

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector a text, shape (n, dimension)."""
        return np.asarray(self.model.get_text_embedding_batch(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a question, shape (dimension,)."""
        return np.asarray(self.model.get_query_embedding(text), dtype=np.float32)
