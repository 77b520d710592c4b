"""Progress events and the bar that frameworks draw from them."""

from __future__ import annotations

import asyncio
import io
import re
import sys

import pytest

from e2graphrag_integrations import Progress, RetryPolicy, SourceDocument
from e2graphrag_integrations.indexing import planning
from e2graphrag_integrations.indexing.run import ProgressBar
from e2graphrag_integrations.indexing.stages import embedding, extraction
from fakes import CountingLLM, numbered

STAGES = ("chunk", "extract", "embed", "summarize", "write")
FOUR = {"chunk_size": 4, "chunk_overlap": 0, "group_size": 4}


class FailsFor:
    """A summarizer that fails for one document."""

    fingerprint = "fake:fails"

    def summarize(self, texts, *, level, max_tokens):
        if any("Item 33" in text for text in texts):
            raise ValueError("content filter")
        return f"Summary of {len(texts)} texts."


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 6)
    monkeypatch.setattr(extraction, "_SLICE_SIZE", 4)
    monkeypatch.setattr(embedding, "_SLICE_SIZE", 4)


def check(events: list[Progress]) -> dict[str, int]:
    """Check the promises of `Progress`, and return the totals."""
    events = [event for event in events if not event.note]
    first = [event for event in events if not event.done]
    assert first == events[: len(first)]  # all stages are announced before any work
    totals = {event.stage: event.total for event in first}
    assert list(totals) == [stage for stage in STAGES if stage in totals]
    for stage, total in totals.items():
        steps = [event for event in events if event.stage == stage]
        done = [step.done for step in steps]
        assert done == sorted(set(done)), stage
        assert {step.total for step in steps} == {total}, stage
        assert done[-1] == total, stage
        assert [s.seconds for s in steps] == sorted(s.seconds for s in steps), stage
    assert {event.stage for event in events} == set(totals)
    return totals


@pytest.mark.parametrize("with_llm", [False, True])
@pytest.mark.usefixtures("small_batches")
def test_totals_are_known_at_the_first_event_and_no_stage_goes_back(open_index, with_llm):
    events = []
    rag = open_index(**({"summarizer": CountingLLM()} if with_llm else {}), **FOUR)
    documents = [numbered(7, "a"), numbered(7, "b"), numbered(13, "c")]
    rag.add(documents, progress=events.append)
    # 7 + 7 + 13 chunks; 2 + 2 + 3 summaries and one root each; 3 documents
    stats = rag.stats()
    assert check(events) == {
        "chunk": stats.chunks,
        "extract": stats.chunks,
        "embed": stats.chunks + stats.summaries,
        "summarize": stats.summaries,
        "write": 3,
    }
    again = []
    rag.delete(["a", "b"])  # everything is cached or repeated
    rag.add(documents, progress=again.append)
    check(again)


@pytest.mark.usefixtures("small_batches")
def test_failed_documents_count_as_finished(open_index):
    events = []
    rag = open_index(summarizer=FailsFor(), retry=RetryPolicy(attempts=1), **FOUR)
    documents = [
        numbered(7, "a"),
        numbered(7, "b", 30),
        numbered(13, "c"),
        SourceDocument("d", " "),
    ]
    report = rag.add(documents, progress=events.append)
    assert list(report.failed) == ["b"]
    assert check(events)["write"] == 4


@pytest.mark.usefixtures("small_batches")
def test_progress_of_an_async_run_keeps_the_same_promises(open_index):
    events = []
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    asyncio.run(rag.aadd([numbered(7, "a"), numbered(13, "c")], progress=events.append))
    assert check(events)["write"] == 2


def test_a_custom_splitter_is_called_once_for_a_document(open_index):
    texts = []

    def split(text):
        texts.append(text)
        return [(0, 5), (5, len(text))]

    rag = open_index(splitter=split)
    documents = [SourceDocument("a", "Anna met Bert."), SourceDocument("b", "Cleo met Dora.")]
    rag.add(documents, progress=lambda _: None)
    assert sorted(texts) == [document.text for document in documents]
    rag.add(SourceDocument("c", "Emil met Fred."))
    assert texts[2:] == ["Emil met Fred."]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("with_llm", [False, True])
@pytest.mark.usefixtures("small_batches")
def test_the_bar_never_goes_back_and_is_full_only_at_the_end(open_index, with_llm, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = ProgressBar()
    events, percents = [], []

    def listen(event):
        bar(event)
        events.append(event)
        percents.append(bar._bar.n)

    rag = open_index(**({"summarizer": CountingLLM()} if with_llm else {}), **FOUR)
    rag.add([numbered(7, "a"), numbered(70, "b"), numbered(13, "c")], progress=listen)
    bar.close()
    check(events)
    assert percents == sorted(percents)
    assert len(set(percents)) > 5
    assert percents[-1] == 100
    assert percents[-2] < 100
    drawn = sys.stderr.getvalue()
    assert drawn.index("loading models") < drawn.index("100%")
    assert [int(p) for p in re.findall(r"(\d+)%", drawn)] == sorted(
        int(p) for p in re.findall(r"(\d+)%", drawn)
    )
