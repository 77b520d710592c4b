"""`compact` reclaims disk space and deletes only unused content."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import ClosedError, StoreError, SummaryError
from e2graphrag_integrations.reports import CompactReport
from e2graphrag_integrations.store.queue import dequeue, enqueue
from e2graphrag_integrations.store.tables.pending_documents import drop_pending, put_pending
from fakes import CountingLLM, numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}
QUESTIONS = ("Where did Anna meet Bert?", "Item 1", "harbour")
UNUSED = {b"k" * 32: b"a summary of an interrupted build"}


def answers(rag):
    return [rag.retrieve(question, k=5).nodes for question in QUESTIONS]


def size(path):
    return path.stat().st_size


@pytest.fixture
def path(tmp_path):
    return tmp_path / "i.e2g"


@pytest.mark.slow
def test_compact_shrinks_the_file_and_keeps_the_answers(path, open_index, story):
    rag = open_index(path, **FOUR)
    rag.add([story, numbered(400)])
    rag.delete("numbered")
    expected, export = answers(rag), list(rag.export())
    rag.close()
    before = size(path)
    rag = open_index(path, **FOUR)
    generation = rag.store.generation
    report = rag.compact()
    assert (report.bytes_before, report.dropped) == (
        before,
        0,
    )  # delete already removed unused content
    assert report.bytes_after < before / 3
    assert answers(rag) == expected
    assert list(rag.export()) == export
    assert rag.verify().ok
    assert rag.store.generation == generation  # so the snapshot is not rebuilt
    rag.close()
    assert size(path) == report.bytes_after
    with open_index(path, **FOUR) as again:
        assert answers(again) == expected
        assert again.add([story]).skipped == ("story",)


def test_a_second_compact_changes_nothing(path, open_index, story):
    rag = open_index(path)
    rag.add(story)
    first = rag.compact()
    assert rag.compact() == CompactReport(first.bytes_after, first.bytes_after, 0)


def test_an_empty_index_can_be_compacted(path, open_index):
    report = open_index(path).compact()
    assert report.dropped == 0
    assert report.bytes_after <= report.bytes_before


@pytest.mark.slow
def test_an_index_in_memory_shrinks(open_index, story):
    rag = open_index(**FOUR)
    rag.add([story, numbered(300)])
    rag.delete("numbered")
    expected = answers(rag)
    report = rag.compact()
    assert 0 < report.bytes_after < report.bytes_before
    assert answers(rag) == expected
    assert rag.verify().ok


def test_only_unused_content_is_deleted(open_index, story):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, **FOUR)
    rag.add([story, SourceDocument("copy", story.text)])
    rag.store.put_cached("summary", UNUSED)
    rag.delete("copy")
    report = rag.compact()
    assert report.dropped == 1
    assert rag.store.cached(UNUSED) == {}
    assert rag.verify().ok
    paid = llm.calls
    rag.add(SourceDocument("copy", story.text, title=story.title))
    assert llm.calls == paid  # content in use is still cached


def test_unused_content_is_kept_while_documents_are_waiting(open_index, story):
    rag = open_index(**FOUR)
    rag.add(story)
    rag.store.put_cached("summary", UNUSED)
    page = {"source": [["page", "Text.", {}]]}
    enqueue(rag.store, [numbered(3)], {})
    put_pending(rag.store, page)
    assert rag.compact().dropped == 0
    dequeue(rag.store, ["numbered"])
    assert rag.compact().dropped == 0
    drop_pending(rag.store, page)
    assert rag.compact().dropped == 1
    assert rag.store.cached(UNUSED) == {}


def test_compact_between_a_failure_and_resume_costs_no_extra_calls(path, open_index):
    llm, calls_left = CountingLLM(), [4]

    def summarize(prompt):
        if not calls_left[0]:
            raise ValueError("no")
        calls_left[0] -= 1
        return llm(prompt)

    options = {"summarizer": summarize, "llm_id": "m", "concurrency": 1, **FOUR}
    with open_index(path, **options) as rag:
        with pytest.raises(SummaryError):
            rag.add(numbered(40))
        assert rag.compact().dropped == 0
        calls_left[0] = 99
        assert rag.resume().llm_calls == 6
        assert rag.compact().dropped == 0
    assert llm.calls == 10


@pytest.mark.slow
def test_other_instances_can_read_during_compact(path, open_index, story):
    rag = open_index(path, lock_timeout=0.2, **FOUR)  # the time it waits for readers
    other = open_index(path, **FOUR)
    rag.add([story, numbered(200)])
    rag.delete("numbered")
    expected = answers(other)
    with other.store.read_transaction():  # an active reader
        before = other.document_ids
        rag.compact()
        assert other.document_ids == before
        assert answers(other) == expected
    stop, failures = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                if answers(other) != expected or not other.verify().ok:
                    failures.append("another answer")
            except StoreError as error:
                failures.append(repr(error))

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(8):
        rag.compact()
    stop.set()
    thread.join()
    assert failures == []
    assert answers(rag) == expected
    other.add(numbered(3, "later"))
    assert "later" in rag.document_ids


def test_a_full_disk_raises_a_store_error_and_changes_nothing(path, open_index, story, monkeypatch):
    rag = open_index(path, **FOUR)
    rag.add([story, numbered(100)])
    rag.delete("numbered")
    expected = answers(rag)
    rag.store.put_cached("summary", UNUSED)

    class FullDisk:
        def __init__(self, db):
            self._db = db

        def execute(self, statement, *parameters):
            if statement == "VACUUM":
                raise sqlite3.OperationalError("database or disk is full")
            return self._db.execute(statement, *parameters)

        def __getattr__(self, name):
            return getattr(self._db, name)

    with monkeypatch.context() as patch:
        database = rag.store.database
        patch.setattr(database, "_connection", FullDisk(database._connection))
        with pytest.raises(StoreError, match="disk is full"):
            rag.compact()
    assert answers(rag) == expected
    assert rag.verify().ok
    assert rag.compact().bytes_after > 0


def test_a_closed_index_raises_closed_error(path, open_index):
    rag = open_index(path)
    rag.close()
    with pytest.raises(ClosedError):
        rag.compact()
    assert [file.name for file in path.parent.iterdir()] == ["i.e2g"]
