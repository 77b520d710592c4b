"""The state of an index, and the sentences that say it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.store.database import Writer
from e2graphrag_integrations.store.index_state import IndexState, read_state
from e2graphrag_integrations.store.queue import (
    documents_per_second,
    note_pace,
    set_queue_status,
)
from fakes import NameExtractor

NINE = datetime(2026, 11, 28, 9, tzinfo=UTC)


class Broken(NameExtractor):
    """Fails on texts with the word `broken`."""

    def extract(self, texts):
        if any("broken" in text for text in texts):
            raise ValueError("unreadable")
        return super().extract(texts)


def test_documents_are_counted_by_state(open_index, tmp_path):
    rag = open_index(tmp_path / "a.e2g", extractor=Broken())
    assert rag.state() == IndexState(0)
    rag.add([SourceDocument("done", "Anna met Bert."), SourceDocument("bad", "Emil is broken.")])
    rag.add([SourceDocument(f"new{n}", f"Anna {n}.") for n in range(3)], wait=False)
    rag.pending.put({"chain": [["a", "Dora left.", {}]]}, rag.pending.state())
    assert rag.state() == IndexState(1, pending=4, failed=1, stored=1)
    assert rag.state().unfinished == 5 == rag.freshness().pending
    assert rag.state().resumable == 4


def test_a_document_is_being_indexed_only_while_somebody_writes(open_index, tmp_path):
    rag = open_index(tmp_path / "a.e2g")
    rag.add([SourceDocument("a", "Anna met Bert.")], wait=False)
    set_queue_status(rag.store, {"a": ("processing", None)})
    assert (rag.state().pending, rag.state().processing) == (1, 0)  # its process died
    assert read_state(rag.store, is_writing=True).processing == 1
    with E2GraphRAG.open(tmp_path / "a.e2g") as other, other.write_lock(IndexingRun()):
        state = rag.state()
        assert state.processing == 1
        assert state.writer == other.store.index_lock.own()
    assert rag.state().writer is None


@pytest.mark.parametrize(
    ("state", "described", "lack", "note"),
    [
        (IndexState(0), "The index has no documents.", "", ""),
        (IndexState(1), "1 document is indexed.", "", ""),
        (
            IndexState(0, pending=7864),
            "No document is indexed yet: 7,864 are pending.",
            "Answers lack 7,864 documents that are not indexed yet.",
            (
                "Answers lack 7,864 documents that are not indexed yet. "
                "Run `e2graphrag documents resume` to index them."
            ),
        ),
        (
            IndexState(
                3, processing=1, pending=2, failed=1, writer=Writer(7, "x", "h", since=NINE)
            ),
            "3 documents are indexed, 1 is being indexed, 2 are pending and 1 failed.",
            "Answers lack 3 documents that are not indexed yet and 1 that failed.",
            (
                "Answers lack 3 documents that are not indexed yet and 1 that failed. "
                "The index is being written by process 7 (x) on h since 2026-11-28 09:00:00 UTC. "
                "Ask again when it has finished."
            ),
        ),
        (
            IndexState(2, failed=1),
            "2 documents are indexed and 1 failed.",
            "Answers lack 1 document that failed.",
            "Answers lack 1 document that failed. Run `e2graphrag documents resume` to index it.",
        ),
        (
            IndexState(2, pending=2, stored=2),
            "2 documents are indexed and 2 are pending.",
            "Answers lack 2 documents that are not indexed yet.",
            (
                "Answers lack 2 documents that are not indexed yet. "
                "Run build() of the LangChain or LlamaIndex index that stored them to index them."
            ),
        ),
        (
            IndexState(2, writer=Writer(7, "x", "h")),
            "2 documents are indexed.",
            "",
            "The index is being written by process 7 (x) on h.",
        ),
    ],
)
def test_the_state_is_said_in_sentences(state, described, lack, note):
    assert (state.describe(), state.lack(), state.note()) == (described, lack, note)


def test_the_pace_is_that_of_the_run_that_indexes_the_queue(open_index, tmp_path, monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.indexing.planning._BATCH_CHUNKS", 4)
    rag = open_index(tmp_path / "a.e2g")
    rag.add([SourceDocument(f"d{n:02}", f"Anna {n}.") for n in range(40)], wait=False)
    assert rag.state().documents_per_second is None
    seen = []

    def watch(progress):
        if progress.stage == "write":
            seen.append((progress.done, rag.state(is_writing=True)))

    rag.resume(progress=watch)
    assert all(state.documents_per_second is None for done, state in seen if done <= 4)
    told = [state for done, state in seen if 4 < done < 36]
    assert told
    for state in told:
        rate, left = state.documents_per_second, state.pending + state.processing
        assert state.seconds_left == pytest.approx(left / rate)
        assert "documents per second, about" in state.note()
    assert rag.state().documents_per_second is None  # nothing is being indexed


def test_the_pace_follows_the_last_minutes(open_index):
    store = open_index().store
    assert documents_per_second(store) is None
    note_pace(store, 10, 5.0, is_first=True)
    note_pace(store, 20, 5.0)
    assert documents_per_second(store) == 3
    note_pace(store, 0, 1000.0)
    note_pace(store, 485, 495.0)  # the others count half
    assert documents_per_second(store) == pytest.approx(500 / 1000)
    note_pace(store, 7, 1.0, is_first=True)
    assert documents_per_second(store) == 7


@pytest.mark.parametrize(
    ("rate", "pending", "sentence"),
    [
        (1234.4, 100, "1,234 documents per second, about 1 s left."),
        (12.345, 100, "12.3 documents per second, about 8 s left."),
        (0.5, 1000, "0.5 documents per second, about 33 min left."),
        (0.0123, 1000, "0.0123 documents per second, about 23 h left."),
        (None, 1000, ""),
    ],
)
def test_the_pace_is_said_in_a_sentence(rate, pending, sentence):
    state = IndexState(1, pending=pending, stored=1, processing=1, documents_per_second=rate)
    assert state.pace() == sentence
    assert sentence in state.note()
