"""Any LangChain `Embeddings` as an embedder of the core."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from langchain_core.embeddings import Embeddings

from e2graphrag_integrations.protocols import FloatArray

_KNOWN_LIMITS = {"OpenAIEmbeddings": 8191, "AzureOpenAIEmbeddings": 8191}


class LangChainEmbedder:
    """LangChain's embeddings behind the core's port.

    Args:
        embeddings: The model.
        max_tokens: Longest text it reads; None takes what is known of the model, if anything.
    """

    def __init__(self, embeddings: Embeddings, max_tokens: int | None = None) -> None:
        self.embeddings = embeddings
        self._max_tokens = max_tokens
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Length of every vector, found out with one call at first use."""
        if self._dimension is None:
            self._dimension = len(self.embeddings.embed_query("dimension"))
        return self._dimension

    @property
    def max_tokens(self) -> int | None:
        """Longest text read, None if it is not known to be limited."""
        if self._max_tokens is not None:
            return self._max_tokens
        # langchain-huggingface holds a SentenceTransformer, which tells.
        model = getattr(self.embeddings, "_client", None)
        own = getattr(model, "max_seq_length", None)
        if isinstance(own, int) and own > 0:
            return own
        return _KNOWN_LIMITS.get(type(self.embeddings).__name__)

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector a text, shape (n, dimension)."""
        return np.asarray(self.embeddings.embed_documents(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a question, shape (dimension,)."""
        return np.asarray(self.embeddings.embed_query(text), dtype=np.float32)
