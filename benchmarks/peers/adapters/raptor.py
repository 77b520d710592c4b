"""RAPTOR, as the LlamaIndex pack: its retriever calls no LLM.

The adapter calls `aretrieve` in one event loop. `retrieve` starts a new loop for each question,
which raises the time to embed a question from 40 ms to half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from llama_index.packs.raptor import RaptorRetriever

from adapters.measure import TIMEOUT, Job, run

CHUNK, OVERLAP, TOP_K = 400, 50, 20


class Peer:
    """Uses the pack's retriever with LlamaIndex's in-memory vector store."""

    package = "llama-index-packs-raptor"

    def __init__(self, job: Job) -> None:
        self._job = job
        self._loop = asyncio.new_event_loop()
        self.settings = {
            "chunks": f"{CHUNK} tokens, overlap {OVERLAP} (chosen here)",
            "tree_depth": 3,
            "similarity_top_k": TOP_K,
        }

    def index(self) -> None:
        server: dict[str, Any] = {
            "api_base": self._job.api,
            "api_key": "none",
            "timeout": TIMEOUT,
        }
        self._retriever = RaptorRetriever(
            [Document(text=text, id_=id_) for id_, text in self._job.texts.items()],
            llm=OpenAILike(model="stub", is_chat_model=True, context_window=128_000, **server),
            embed_model=OpenAILikeEmbedding(model_name="stub", **server),
            transformations=[SentenceSplitter(chunk_size=CHUNK, chunk_overlap=OVERLAP)],
            similarity_top_k=TOP_K,
        )

    def ask(self, question: str, mode: str) -> Sequence[str]:
        results = self._loop.run_until_complete(self._retriever.aretrieve(question, mode))
        return [one.node.get_content() for one in results if one.node.ref_doc_id]  # no summaries


if __name__ == "__main__":
    run(Peer)
