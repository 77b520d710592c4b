"""Stopped, canceled and concurrent writes lose no work, make no extra calls and never hang."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    IndexingError,
    InvalidInputError,
    StoppedError,
    StoreLockedError,
)
from e2graphrag_integrations.reports import DeleteReport
from e2graphrag_integrations.store.store import Store
from fakes import BlockingLLM, numbered, start_in_thread

FOUR = {"chunk_size": 4, "chunk_overlap": 0, "concurrency": 1}


def test_close_stops_an_add_in_another_thread_before_its_next_call(open_index, tmp_path):
    llm = BlockingLLM()
    rag = open_index(tmp_path / "i.e2g", summarizer=llm, **FOUR)
    adding, outcome = start_in_thread(lambda: rag.add(numbered(26)))
    assert llm.started.wait(10)
    closing_thread, _ = start_in_thread(rag.close)
    time.sleep(0.1)
    llm.release.set()
    adding.join(10)
    closing_thread.join(10)
    assert not adding.is_alive()
    assert not closing_thread.is_alive()
    assert llm.calls == 1
    assert isinstance(outcome[0], StoppedError)
    again = open_index(tmp_path / "i.e2g", summarizer=llm, **FOUR)
    assert again.verify().ok
    assert again.add(numbered(26)).documents == 1


def test_close_stops_an_add_with_an_async_summarizer(open_index):
    calls = []

    async def slow(prompt: str) -> str:
        calls.append(prompt)
        await asyncio.sleep(0.3)
        return f"Summary number {len(calls)}."

    rag = open_index(summarizer=slow, **FOUR)
    adding, outcome = start_in_thread(lambda: rag.add(numbered(26)))
    while not calls:
        time.sleep(0.01)
    rag.close()
    adding.join(10)
    assert not adding.is_alive()
    assert isinstance(outcome[0], StoppedError)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "write", [lambda rag: rag.add(numbered(5, "b")), lambda rag: rag.delete("a")]
)
def test_a_write_in_a_callback_of_a_write_is_refused_rather_than_waiting_for_it(open_index, write):
    refused = []

    def summarize(prompt: str) -> str:
        try:
            write(rag)
        except InvalidInputError as error:
            refused.append(str(error))
        return "A summary."

    rag = open_index(summarizer=summarize, **FOUR)
    adding, _ = start_in_thread(lambda: rag.add(numbered(13)))
    adding.join(10)
    assert not adding.is_alive()
    assert "call it after that operation" in refused[0]
    assert rag.add(numbered(5, "b")).documents == 1


def test_closing_in_a_callback_of_a_write_stops_it_and_closes_afterwards(open_index):
    def summarize(prompt: str) -> str:
        rag.close()
        return "A summary."

    rag = open_index(summarizer=summarize, **FOUR)
    adding, outcome = start_in_thread(lambda: rag.add(numbered(26)))
    adding.join(10)
    assert not adding.is_alive()
    assert isinstance(outcome[0], StoppedError)
    assert rag.store.is_closed


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has no such signal")
def test_closing_in_a_signal_handler_keeps_the_summaries_that_were_paid_for(open_index, tmp_path):
    calls = []

    def summarize(prompt: str) -> str:
        calls.append(prompt)
        os.kill(os.getpid(), signal.SIGUSR1)  # handled by the main thread, which adds
        time.sleep(0.2)
        return f"Summary number {len(calls)}."

    rag = open_index(tmp_path / "i.e2g", summarizer=summarize, **FOUR)
    previous = signal.signal(signal.SIGUSR1, lambda *_: rag.close())
    try:
        with pytest.raises(StoppedError):
            rag.add(numbered(26))
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert rag.store.is_closed
    with closing(Store(str(tmp_path / "i.e2g"))) as store:
        [(kept,)] = store.read("SELECT count(*) FROM content WHERE kind = 'summary'")
        assert kept == len(calls) == 1
        assert [status for (status,) in store.read("SELECT status FROM queue")] == ["pending"]


async def test_canceled_aadd_makes_no_further_calls(open_index):
    calls = []
    started = asyncio.Event()

    async def slow(prompt: str) -> str:
        calls.append(prompt)
        started.set()
        await asyncio.sleep(0.1)
        return f"Summary number {len(calls)}."

    rag = open_index(summarizer=slow, **FOUR)
    task = asyncio.create_task(rag.aadd(numbered(26)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    count = len(calls)
    await asyncio.sleep(0.3)
    assert len(calls) == count <= 2
    assert (await rag.aadd(numbered(26))).documents == 1


def test_second_writer_times_out_with_the_lock_holder_in_the_error(open_index, tmp_path):
    llm = BlockingLLM()
    path = tmp_path / "i.e2g"
    options = {**FOUR, "llm_id": "llm", "lock_timeout": 0.2}
    slow = open_index(path, summarizer=llm, **options)
    other = open_index(path, summarizer=lambda _: "Quick.", **options)
    adding, outcome = start_in_thread(lambda: slow.add(numbered(9)))
    assert llm.started.wait(10)
    theirs = SourceDocument("theirs", "Walter met Anna.")
    for write in (lambda: other.add(theirs), lambda: other.delete("numbered"), other.compact):
        with pytest.raises(StoreLockedError, match=rf"by process {os.getpid()} \(.+\) on .+ since"):
            write()
    assert other.retrieve("Who met Anna?").nodes == ()
    llm.release.set()
    adding.join(10)
    assert outcome[0].documents == 1
    assert other.add(theirs).documents == 1
    assert other.verify().ok
    assert not Path(f"{path}.lock").exists()


def test_add_does_not_overwrite_a_document_written_without_the_lock(open_index, tmp_path):
    llm = BlockingLLM()
    path = tmp_path / "i.e2g"
    slow = open_index(path, summarizer=llm, llm_id="m", **FOUR)
    theirs = SourceDocument("numbered", "Walter met Anna.")
    with open_index(tmp_path / "o.e2g", llm_id="m", summarizer=lambda _: "Quick.", **FOUR) as donor:
        donor.add(theirs)
        manifest = donor.store.manifest()
        contents = {key: donor.store.cached([key])[key] for (key,) in content_keys(donor.store)}
        nodes = list(donor.store.all_nodes())
    adding, outcome = start_in_thread(lambda: slow.add(numbered(9)))
    assert llm.started.wait(10)
    with closing(Store(path)) as unlocked_store:
        unlocked_store.put_cached("any", contents)
        unlocked_store.write_document(theirs, nodes, manifest)
    llm.release.set()
    adding.join(10)
    assert isinstance(outcome[0], DuplicateDocumentError)
    assert "another writer" in str(outcome[0])
    assert slow.document("numbered").text == theirs.text


def content_keys(store):
    return store.read("SELECT key FROM content")


def test_cached_content_survives_a_delete_during_a_build(open_index, tmp_path):
    llm = BlockingLLM()
    path = tmp_path / "i.e2g"
    shared = "Anna met Bert in Oslo."
    other = open_index(path, summarizer=lambda _: "Quick.", llm_id="m", **FOUR)
    other.add(SourceDocument("one", shared))
    slow = open_index(path, summarizer=llm, llm_id="m", **FOUR)
    document = SourceDocument("two", f"{shared} Cleo left Rome for good. Dora wrote to Emil.")
    adding, outcome = start_in_thread(lambda: slow.add(document))
    assert llm.started.wait(10)
    other.store.delete_documents(["one"])  # without the lock
    llm.release.set()
    adding.join(10)
    assert outcome[0].documents == 1
    assert slow.verify().ok


def test_missing_content_at_commit_is_an_error_and_a_retry_succeeds(open_index, tmp_path):
    llm = BlockingLLM()
    path = tmp_path / "i.e2g"
    slow = open_index(path, summarizer=llm, **FOUR)
    adding, outcome = start_in_thread(lambda: slow.add(numbered(9)))
    assert llm.started.wait(10)
    time.sleep(0.3)  # until extraction and vectors are stored
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM content")
    llm.release.set()
    adding.join(10)
    assert isinstance(outcome[0], IndexingError)
    assert "call add() again" in str(outcome[0])
    assert slow.add(numbered(9)).documents == 1
    assert slow.verify().ok


def test_readers_do_not_wait_for_a_writer_that_waits_for_the_lock(open_index, story, tmp_path):
    path = tmp_path / "i.e2g"
    rag = open_index(path, lock_timeout=5)
    rag.add(story)
    rag.retrieve("Where did Anna meet Bert?")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        deleting, outcome = start_in_thread(lambda: rag.delete("story"))
        time.sleep(0.2)
        reading, answer = start_in_thread(lambda: rag.retrieve("Where did Anna meet Bert?"))
        reading.join(3)
        assert not reading.is_alive()
        assert answer[0].nodes
        assert deleting.is_alive()
        holder.execute("ROLLBACK")
    deleting.join(10)
    assert outcome == [DeleteReport(documents=1, chunks=4, summaries=1)]


@pytest.mark.slow
def test_run_of_20_000_brackets_is_processed_in_linear_time():
    # spaCy's tokenizer takes quadratic time for such a run, which would be hours here.
    from e2graphrag_integrations import SpacyEntityExtractor

    [sentences] = SpacyEntityExtractor().extract(["(" * 20_000 + " Who met Elizabeth?"])
    assert [m.entity for s in sentences for m in s if m.named] == ["Elizabeth"]
