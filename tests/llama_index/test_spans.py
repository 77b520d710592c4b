"""The stages of a retrieval in LlamaIndex's instrumentation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core import Document
from llama_index.core.bridge.pydantic import Field
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler

from e2graphrag_integrations import Models
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.spans import spans_of
from e2graphrag_integrations.retrieval import pipeline

QUESTION = "Who met Bert?"


class Handler(SimpleSpanHandler):
    """Also keeps what spans return."""

    results: dict[str, Any] = Field(default_factory=dict)

    def prepare_to_exit_span(self, id_, bound_args, instance=None, result=None, **options):
        self.results[id_] = result
        return super().prepare_to_exit_span(id_, bound_args, instance, result, **options)


@pytest.fixture
def index(names):
    pages = [Document(id_="a", text="Anna met Bert.", metadata={"valid_to": "soon"})]
    models = Models(extractor=names)
    return E2GraphRAGIndex.from_documents(pages, embed_model="hashing", models=models)


@pytest.fixture
def handler(monkeypatch):
    found = Handler()
    root = get_dispatcher()
    monkeypatch.setattr(root, "span_handlers", [*root.span_handlers, found])
    return found


def name_of(span):
    return span.id_[: -len("-01234567-89ab-cdef-0123-456789abcdef")]


@pytest.mark.parametrize("is_async", [False, True])
def test_stages_are_spans_below_the_retriever(index, handler, is_async):
    retriever = index.as_retriever()
    hits = asyncio.run(retriever.aretrieve(QUESTION)) if is_async else retriever.retrieve(QUESTION)
    assert len(hits) == 1
    spans = {name_of(one): one for one in handler.completed_spans}
    root = spans["e2graphrag.retrieve"]
    assert name_of(next(s for s in spans.values() if s.id_ == root.parent_id)).startswith(
        "E2GraphRAGRetriever."
    )
    for stage in (*pipeline.QUESTION, *pipeline.SEARCH, *pipeline.RESULT):
        assert spans[f"e2graphrag.retrieve.{stage.__name__}"].parent_id == root.id_
    assert root.tags["e2graphrag.strategy"] == "hybrid"
    assert handler.results[root.id_]["e2graphrag.nodes"] == 1
    assert handler.open_spans == {}


def test_a_failed_stage_is_dropped(index, handler):
    with pytest.raises(InvalidInputError):
        index.as_retriever(as_of="2024").retrieve(QUESTION)
    dropped = {name_of(one) for one in handler.dropped_spans}
    assert {"e2graphrag.retrieve", "e2graphrag.retrieve.apply_dates"} <= dropped


def test_without_a_handler_nothing_is_recorded(index):
    assert spans_of(get_dispatcher("e2graphrag_integrations.llama_index.retriever")) is None
    assert index.as_retriever().retrieve(QUESTION)
