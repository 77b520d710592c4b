"""LightRAG: `aquery_data` returns the retrieved data and stops before the answering LLM."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from lightrag import LightRAG, QueryParam
from lightrag.llm.openai import openai_complete_if_cache, openai_embed
from lightrag.utils import EmbeddingFunc

from adapters.measure import DIMENSION, TIMEOUT, Job, run


class Peer:
    """Uses its OpenAI functions and file storages."""

    package = "lightrag-hku"

    def __init__(self, job: Job) -> None:
        server: dict[str, Any] = {"base_url": job.api, "api_key": "none"}
        self._texts = job.texts
        self._loop = asyncio.new_event_loop()
        self._rag = LightRAG(
            working_dir=str(job.folder),
            default_embedding_timeout=TIMEOUT,
            llm_model_func=partial(openai_complete_if_cache, "stub", **server),
            embedding_func=EmbeddingFunc(
                DIMENSION, partial(openai_embed.func, model="stub", **server)
            ),
        )
        self.settings = {
            "chunks": "1200 tokens, overlap 100",
            "gleanings": self._rag.entity_extract_max_gleaning,
            "LLM calls at once": self._rag.llm_model_max_async,
            "top_k": QueryParam().top_k,
            "chunk_top_k": QueryParam().chunk_top_k,
            "reranker": None,
        }

    def index(self) -> None:
        self._loop.run_until_complete(self._insert())

    async def _insert(self) -> None:
        await self._rag.initialize_storages()
        ids = list(self._texts)
        await self._rag.ainsert(list(self._texts.values()), ids=ids, file_paths=ids)
        failed = (await self._rag.get_processing_status()).get("failed", 0)
        if failed:
            raise RuntimeError(f"{failed} of {len(ids)} documents failed")

    def ask(self, question: str, mode: str) -> Sequence[str]:
        param = QueryParam(mode=mode, enable_rerank=False)
        result = self._loop.run_until_complete(self._rag.aquery_data(question, param))
        return [chunk["content"] for chunk in result["data"].get("chunks", ())]


if __name__ == "__main__":
    run(Peer)
