"""nano-graphrag: with `only_need_context` a query stops before the answering LLM."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from nano_graphrag import GraphRAG, QueryParam
from nano_graphrag._utils import compute_args_hash, wrap_embedding_func_with_attrs
from openai import AsyncOpenAI

from adapters.measure import DIMENSION, Job, run

_SOURCES = re.compile(r'^\d+,\t"(.*?)"\s*$(?=\n\d+,\t|\n?```|\Z)', re.MULTILINE | re.DOTALL)


class Peer:
    """Uses its file storages, and OpenAI functions that take a URL, which its own do not."""

    package = "nano-graphrag"

    def __init__(self, job: Job) -> None:
        client = AsyncOpenAI(base_url=job.api, api_key="none")

        async def complete(
            prompt: str,
            system_prompt: str | None = None,
            history_messages: Sequence[dict[str, str]] = (),
            hashing_kv: Any = None,
            **options: Any,
        ) -> str:
            system = [{"role": "system", "content": system_prompt}] if system_prompt else []
            messages = [*system, *history_messages, {"role": "user", "content": prompt}]
            key = compute_args_hash("stub", messages)
            cached = await hashing_kv.get_by_id(key)
            if cached is not None:
                return str(cached["return"])
            reply = await client.chat.completions.create(model="stub", messages=messages, **options)
            answer = reply.choices[0].message.content or ""
            await hashing_kv.upsert({key: {"return": answer, "model": "stub"}})
            return answer

        @wrap_embedding_func_with_attrs(embedding_dim=DIMENSION, max_token_size=8192)
        async def embed(texts: list[str]) -> Any:
            reply = await client.embeddings.create(model="stub", input=texts)
            return np.array([one.embedding for one in reply.data])

        self._texts = list(job.texts.values())
        self._rag = GraphRAG(
            working_dir=str(job.folder),
            enable_naive_rag=True,
            best_model_func=complete,
            cheap_model_func=complete,
            embedding_func=embed,
        )
        self.settings = {
            "chunks": "1200 tokens, overlap 100",
            "gleanings": self._rag.entity_extract_max_gleaning,
            "LLM calls at once": self._rag.best_model_max_async,
            "top_k": QueryParam().top_k,
        }

    def index(self) -> None:
        self._rag.insert(self._texts)

    def ask(self, question: str, mode: str) -> Sequence[str]:
        context = self._rag.query(question, QueryParam(mode=mode, only_need_context=True)) or ""
        if mode == "naive":
            return context.split("--New Chunk--\n")
        return _SOURCES.findall(context.partition("-----Sources-----")[2])


if __name__ == "__main__":
    run(Peer)
