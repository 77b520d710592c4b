"""fast-graphrag: with `only_context` a query stops before the answering LLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fast_graphrag import GraphRAG, QueryParam
from fast_graphrag._llm import OpenAIEmbeddingService, OpenAILLMService

from adapters.measure import DIMENSION, Job, run

CALLS_AT_ONCE = 16


class Peer:
    """Uses its OpenAI services. Its `query` reopens its storages for every query."""

    package = "fast-graphrag"

    def __init__(self, job: Job) -> None:
        server: dict[str, Any] = {
            "model": "stub",
            "base_url": job.api,
            "api_key": "none",
            "max_requests_concurrent": CALLS_AT_ONCE,
        }
        self._texts = list(job.texts.values())
        self._rag = GraphRAG(
            working_dir=str(job.folder),
            domain="Read the text: its people, places and what happens between them.",
            example_queries="Who is who?\nWhat happens between two people?",
            entity_types=["person", "place", "organization", "event"],
            config=GraphRAG.Config(
                llm_service=OpenAILLMService(**server),
                embedding_service=OpenAIEmbeddingService(embedding_dim=DIMENSION, **server),
            ),
        )
        self.settings = {
            "chunks": "800 tokens by 4 characters, overlap 100",
            "gleanings": 0,
            "LLM calls at once": CALLS_AT_ONCE,
            "chunks returned": 8,
        }

    def index(self) -> None:
        self._rag.insert(self._texts, show_progress=False)

    def ask(self, question: str, mode: str) -> Sequence[str]:  # noqa: ARG002 - it has only one mode
        context = self._rag.query(question, QueryParam(only_context=True)).context
        return [str(chunk.content) for chunk, _ in context.chunks]


if __name__ == "__main__":
    run(Peer)
