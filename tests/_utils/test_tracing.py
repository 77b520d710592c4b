"""Spans of OpenTelemetry: their names, tree and attributes, and that they cost nothing unasked."""

from __future__ import annotations

import json
import subprocess
import sys
import timeit

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations._utils.tracing import (
    PREFIX,
    SCOPE,
    Tracer,
    current_tracer,
    recording,
    with_prefix,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval import pipeline
from fakes import CountingLLM

HIDDEN = "Zanzibarine"
STAGES = [
    *(stage.__name__ for stage in (*pipeline.QUESTION, *pipeline.SEARCH)),
    *("mix_summaries", "pack"),
    *(stage.__name__ for stage in pipeline.RESULT),
]


@pytest.fixture
def spans(monkeypatch):
    """The finished spans of a real SDK, which is set up for one test."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter.get_finished_spans


def children_of(found, parent):
    own = [one for one in found if one.parent and one.parent.span_id == parent.context.span_id]
    return sorted(own, key=lambda one: one.start_time)


def named(found, name):
    [one] = [span for span in found if span.name == PREFIX + name]
    return one


def test_a_question_is_a_span_with_its_stages(open_index, spans):
    rag = open_index()
    rag.add([SourceDocument("a", f"Anna met Bert in {HIDDEN}.")])
    known = len(spans())
    result = rag.retrieve(f"Who was in {HIDDEN}?", k=3, where={"document_id": "a"})
    found = spans()[known:]
    root = named(found, "retrieve")
    assert root.parent is None
    assert root.instrumentation_scope.name == SCOPE
    assert dict(root.attributes) == {
        "e2graphrag.strategy": "hybrid",
        "e2graphrag.mode": "auto",
        "e2graphrag.k": 3,
        "e2graphrag.route": result.route,
        "e2graphrag.nodes": len(result.nodes),
    }
    names = [one.name for one in children_of(found, root)]
    assert names == [f"e2graphrag.retrieve.{stage}" for stage in STAGES]
    assert len(found) == len(STAGES) + 1


def test_an_indexing_run_is_a_span_with_its_stages(open_index, spans):
    rag = open_index(summarizer=CountingLLM())
    rag.add([SourceDocument("a", 30 * "Anna met Bert in Oslo. ")])
    found = spans()
    root = named(found, "index")
    assert root.attributes["e2graphrag.documents"] == 1
    assert root.attributes["e2graphrag.failed"] == 0
    assert root.attributes["e2graphrag.llm_calls"] > 0
    names = [one.name for one in children_of(found, root)]
    stages = ("extract", "embed", "summarize", "embed", "commit")
    assert sorted(names) == sorted(f"e2graphrag.index.{stage}" for stage in stages)
    assert named(found, "index.extract").attributes["e2graphrag.chunks"] > 1
    assert named(found, "index.commit").attributes["e2graphrag.documents"] == 1


def test_spans_are_below_the_span_of_the_application(open_index, spans):
    rag = open_index()
    with trace.get_tracer("app").start_as_current_span("request"):
        rag.add([SourceDocument("a", "Anna met Bert.")])
        rag.retrieve("Who met Bert?")
    found = spans()
    [request] = [one for one in found if one.name == "request"]
    assert [one.name for one in children_of(found, request)] == [
        "e2graphrag.index",
        "e2graphrag.retrieve",
    ]


def test_no_span_contains_text_of_documents_questions_or_errors(open_index, spans):
    rag = open_index()
    rag.add([SourceDocument("a", f"Anna met {HIDDEN}.", metadata={"valid_to": HIDDEN})])
    rag.retrieve(f"Who is {HIDDEN}?")
    with pytest.raises(InvalidInputError, match=HIDDEN):
        rag.retrieve(f"Who is {HIDDEN}?", as_of="2024")
    found = spans()
    assert all(HIDDEN not in one.to_json() for one in found)
    failed = [one for one in found if not one.status.is_ok and "error.type" in one.attributes]
    assert {one.name.rpartition(".")[2] for one in failed} == {"retrieve", "apply_dates"}
    assert {one.attributes["error.type"] for one in failed} == {"InvalidInputError"}
    assert not any(one.events for one in found)


def test_results_are_the_same_with_and_without_spans(open_index, spans, monkeypatch):
    rag = open_index()
    rag.add([SourceDocument(f"d{n}", f"Anna met Bert {n} times.") for n in range(5)])
    traced = rag.retrieve("Who met Bert?").nodes
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    count = len(spans())
    assert rag.retrieve("Who met Bert?").nodes == traced
    assert len(spans()) == count


def test_without_a_provider_nothing_is_recorded(monkeypatch):
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    assert current_tracer() == Tracer()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
    assert current_tracer() == Tracer()
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", object())  # while it is imported
    assert current_tracer() == Tracer()
    with Tracer().span("x", a=1) as span, recording(None):
        span.set(with_prefix({"b": 2}))
    assert Tracer().traced(len, "x") is len


@pytest.mark.slow
def test_a_question_imports_no_opentelemetry_and_a_look_costs_microseconds():
    code = (
        "import sys, json, timeit\n"
        "from e2graphrag_integrations import E2GraphRAG, SourceDocument\n"
        "from e2graphrag_integrations._utils.tracing import current_tracer\n"
        "with E2GraphRAG.open(':memory:', embedder='hashing') as rag:\n"
        "    rag.add([SourceDocument('a', 'Anna met Bert.')])\n"
        "    rag.retrieve('Who met Bert?')\n"
        "names = [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "print(json.dumps([names, min(timeit.repeat(current_tracer, number=1000)) / 1000]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, seconds = json.loads(done.stdout)
    assert names == []
    assert seconds < 50e-6
    assert min(timeit.repeat(lambda: Tracer().span("x"), number=1000)) / 1000 < 50e-6
