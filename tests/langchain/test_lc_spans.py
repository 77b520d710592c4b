"""The stages of a retrieval as runs of LangChain's tracers."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.tracers import BaseTracer

from e2graphrag_integrations import Models
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.retrieval import pipeline

QUESTION = "Who met Bert?"
STAGES = [
    f"e2graphrag.retrieve.{stage.__name__}"
    for stage in (*pipeline.QUESTION, *pipeline.SEARCH, *pipeline.RESULT)
]


class Recorder(BaseTracer):
    """Keeps the runs at the top, as LangSmith's tracer sends them."""

    def __init__(self):
        super().__init__()
        self.roots = []

    def _persist_run(self, run):
        self.roots.append(run)


class Starts(BaseCallbackHandler):
    """Counts runs; it is no tracer."""

    def __init__(self):
        self.names = []

    def on_chain_start(self, *_, **options):
        self.names.append(options.get("name"))


@pytest.fixture
def index(names):
    pages = [Document("Anna met Bert.", id="a", metadata={"valid_to": "soon"})]
    with E2GraphRAGIndex.from_documents(pages, "hashing", models=Models(extractor=names)) as one:
        yield one


@pytest.mark.parametrize("is_async", [False, True])
def test_stages_are_runs_below_the_retriever(index, is_async):
    recorder, starts = Recorder(), Starts()
    retriever, config = index.as_retriever(k=1), {"callbacks": [recorder, starts]}
    called = asyncio.run(retriever.ainvoke(QUESTION, config)) if is_async else None
    hits = called or retriever.invoke(QUESTION, config)
    assert len(hits) == 1
    [run] = recorder.roots
    [child] = run.child_runs
    assert child.name == "e2graphrag.retrieve"
    assert child.inputs == {
        "e2graphrag.strategy": "hybrid",
        "e2graphrag.mode": "auto",
        "e2graphrag.k": 1,
    }
    assert child.outputs["e2graphrag.nodes"] == 1
    assert set(STAGES) <= {one.name for one in child.child_runs}
    assert not any(one.child_runs or one.error for one in child.child_runs)
    assert starts.names == []


def test_a_failed_stage_has_its_error(index):
    recorder = Recorder()
    with pytest.raises(InvalidInputError):
        index.as_retriever(as_of="2024").invoke(QUESTION, {"callbacks": [recorder]})
    [run] = recorder.roots
    failed = [one.name for one in run.child_runs[0].child_runs if one.error]
    assert failed == ["e2graphrag.retrieve.apply_dates"]
