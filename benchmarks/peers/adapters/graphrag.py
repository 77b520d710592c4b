"""Microsoft GraphRAG: local search builds its context without an LLM; the benchmark stops there.

`GRAPHRAG_METHOD` selects `standard` indexing, with the LLM, or `fast`, with noun phrases. The
default noun phrase extractor needs NLTK data that no package contains. The benchmark uses
GraphRAG's own alternative, a context-free grammar over a spaCy pipeline.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pandas as pd
from graphrag.api import build_index
from graphrag.config.embeddings import entity_description_embedding
from graphrag.config.models.graph_rag_config import GraphRagConfig
from graphrag.query.factory import get_local_search_engine
from graphrag.query.indexer_adapters import (
    read_indexer_entities,
    read_indexer_relationships,
    read_indexer_reports,
    read_indexer_text_units,
)
from graphrag.utils.api import get_embedding_store

from adapters.measure import DIMENSION, Job, run

COMMUNITY_LEVEL = 2
TABLES = ("entities", "communities", "community_reports", "text_units", "relationships")


class Peer:
    """Uses its default settings with the stub's models."""

    package = "graphrag"

    def __init__(self, job: Job) -> None:
        self._texts = job.titled
        self._folder = job.folder
        self._method = os.environ.get("GRAPHRAG_METHOD", "standard")
        self._config = config(job)
        self._engine: Any = None
        local = self._config.local_search
        self.settings = {
            "method": self._method,
            "chunks": f"{self._config.chunking.size} tokens, "
            f"overlap {self._config.chunking.overlap}",
            "gleanings": self._config.extract_graph.max_gleanings,
            "LLM calls at once": self._config.concurrent_requests,
            "community level": COMMUNITY_LEVEL,
            "top_k entities and relationships": [local.top_k_entities, local.top_k_relationships],
        }
        if self._method == "fast":
            self.settings["noun phrases"] = "cfg over the bundled pipeline of e2graphrag"

    def index(self) -> None:
        documents = pd.DataFrame(
            {
                "id": list(self._texts),
                "human_readable_id": range(len(self._texts)),
                "title": list(self._texts),
                "text": list(self._texts.values()),
                "creation_date": "2026-01-01",
                "raw_data": None,
            }
        )
        outputs = asyncio.run(build_index(self._config, self._method, input_documents=documents))
        for output in outputs:
            if output.error:
                raise output.error

    def ask(self, question: str, mode: str) -> Sequence[str]:  # noqa: ARG002 - local is the only mode
        self._engine = self._engine or self._open_engine()
        context = self._engine.context_builder.build_context(
            query=question, **self._engine.context_builder_params
        )
        sources = context.context_records.get("sources")
        return [] if sources is None or sources.empty else list(sources["text"])

    def _open_engine(self) -> Any:
        """Return local search over tables that are read once; the API always reads them again."""
        frames = {
            name: pd.read_parquet(self._folder / "output" / f"{name}.parquet") for name in TABLES
        }
        communities, level = frames["communities"], COMMUNITY_LEVEL
        return get_local_search_engine(
            config=self._config,
            reports=read_indexer_reports(frames["community_reports"], communities, level),
            text_units=read_indexer_text_units(frames["text_units"]),
            entities=read_indexer_entities(frames["entities"], communities, level),
            relationships=read_indexer_relationships(frames["relationships"]),
            covariates={},
            description_embedding_store=get_embedding_store(
                self._config.vector_store, entity_description_embedding
            ),
            response_type="Multiple Paragraphs",
        )


def config(job: Job) -> GraphRagConfig:
    """Return the default settings with the stub's models and all files in the job's folder."""
    server = {"model_provider": "openai", "api_base": job.api, "api_key": "none"}
    folder = job.folder
    return GraphRagConfig(
        completion_models={"default_completion_model": {**server, "model": "gpt-4.1"}},
        embedding_models={"default_embedding_model": {**server, "model": "text-embedding-3-large"}},
        input_storage={"base_dir": str(folder / "input")},
        output_storage={"base_dir": str(folder / "output")},
        update_output_storage={"base_dir": str(folder / "update")},
        cache={"type": "json", "storage": {"type": "file", "base_dir": str(folder / "cache")}},
        reporting={"type": "file", "base_dir": str(folder / "logs")},
        vector_store={"db_uri": str(folder / "lancedb"), "vector_size": DIMENSION},
        extract_graph_nlp={
            "text_analyzer": {
                "extractor_type": "cfg",
                "model_name": os.environ.get("SPACY_PIPELINE", ""),
            }
        },
    )


if __name__ == "__main__":
    run(Peer)
