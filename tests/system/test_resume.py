"""The queue: what was given is not forgotten, and going on pays for nothing twice."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    E2GraphRAGError,
    ExtractionError,
    IndexingError,
    StoppedError,
    SummaryError,
    UnknownDocumentError,
)
from e2graphrag_integrations.indexing import planning
from e2graphrag_integrations.reports import DeleteReport, DocumentStatus, IndexReport
from e2graphrag_integrations.store.pending_documents import put_pending
from e2graphrag_integrations.store.queue import enqueue, read_queue
from fakes import (
    CountingEmbedder,
    CountingExtractor,
    CountingLLM,
    Failing,
    Held,
    in_thread,
    numbered,
)

FOUR = {"chunk_size": 4, "chunk_overlap": 0, "concurrency": 1}


def states(rag):
    return {state.id: state.status for state in rag.status()}


def failing(word="Zzz"):
    """Return a model's words, but none for a prompt with the word."""
    llm = CountingLLM()

    def summarize(prompt):
        if word in prompt:
            raise ValueError(f"no words for {word}")
        return llm(prompt)

    return summarize, llm


@pytest.fixture
def stuck(tmp_path, open_index):
    """Make an index with one document that is there and one that failed."""
    path = tmp_path / "i.e2g"
    summarize, _ = failing()
    rag = open_index(path, summarizer=summarize, summarizer_id="m", **FOUR)
    rag.add([numbered(2, "good"), SourceDocument("bad", "Zzz came in. Anna met Bert.")])
    assert states(rag) == {"bad": "failed", "good": "done"}
    rag.close()
    return path


def reopened(path, open_index, llm=None):
    return open_index(path, summarizer=llm or CountingLLM(), summarizer_id="m", **FOUR)


# Status


def test_a_new_index_has_nothing_to_tell(open_index):
    assert open_index().status() == []


def test_another_instance_sees_how_far_each_document_is(tmp_path, open_index, monkeypatch):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 1)
    held, path = Held(), tmp_path / "i.e2g"
    rag = open_index(path, summarizer=held, summarizer_id="m", **FOUR)
    rag.add(SourceDocument("c", "Before."))
    other = reopened(path, open_index)
    changed = numbered(3, "c", 20)
    documents = [numbered(3, "a"), numbered(3, "b", 10), changed, numbered(3, "d", 30)]
    adding, outcome = in_thread(lambda: rag.add(documents, on_duplicate="replace"))
    assert held.begun.wait(10)
    deadline = time.monotonic() + 5
    while states(other)["b"] != "processing" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert other.status() == [
        DocumentStatus("a", "processing", None, indexed=False),
        DocumentStatus("b", "processing", None, indexed=False),  # two batches are in work
        DocumentStatus("c", "pending", None, indexed=True),  # its older version answers
        DocumentStatus("d", "pending", None, indexed=False),
    ]
    assert other.verify().checked["waiting documents"] == 4
    held.release.set()
    adding.join(10)
    assert outcome[0].documents == 4
    assert other.status() == [DocumentStatus(id_, "done") for id_ in "abcd"]


def test_a_failed_document_tells_why_and_whether_an_older_version_answers(stuck, open_index):
    summarize, _ = failing("Cleo")
    rag = open_index(stuck, summarizer=summarize, summarizer_id="m", **FOUR)
    with pytest.raises(SummaryError):
        rag.update(SourceDocument("good", "Cleo left. Dora saw it. Emil did not."))
    bad, good = rag.status()
    assert (bad.status, bad.indexed) == ("failed", False)
    assert (good.status, good.indexed) == ("failed", True)
    assert "'good' failed: ValueError: no words for Cleo" in good.reason
    assert rag.document("good") == numbered(2, "good")


def test_a_very_long_reason_is_cut(open_index):
    def summarize(prompt):
        raise ValueError("long " * 10_000)

    rag = open_index(summarizer=summarize, **FOUR)
    with pytest.raises(SummaryError):
        rag.add(numbered(3))
    [state] = rag.status()
    assert len(state.reason) == 2000
    assert rag.verify().ok


# Going on


def test_with_nothing_to_do_it_does_nothing(open_index):
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    assert rag.resume() == IndexReport()
    rag.add(numbered(3))
    before = list(rag.export())
    assert rag.resume() == IndexReport()
    assert list(rag.export()) == before


@pytest.mark.parametrize("at", [0, 5, 9])
def test_after_a_failure_only_what_is_missing_is_paid(tmp_path, open_index, at):
    path, model = tmp_path / "i.e2g", Failing(ValueError("no"), at=at)
    with open_index(path, summarizer=model, **FOUR) as rag, pytest.raises(SummaryError):
        rag.add(numbered(40))  # 8 summaries of chunks, 2 above
    assert model.llm.calls == at
    extractor, embedder = CountingExtractor(), CountingEmbedder()
    rag = open_index(path, summarizer=model, extractor=extractor, embedder=embedder, **FOUR)
    assert rag.estimate(numbered(40)).llm_calls == 10 - at
    report = rag.resume()
    assert (report.documents, report.llm_calls) == (1, 10 - at)
    assert model.llm.calls == 10
    assert extractor.texts == []
    assert len(embedder.texts) == 10  # of the summaries alone
    assert states(rag) == {"numbered": "done"}
    whole = open_index(summarizer=Failing(None, times=0), **FOUR)
    whole.add(numbered(40))
    assert list(rag.export()) == list(whole.export())


async def test_aresume_goes_on_like_resume(stuck, open_index):
    llm = CountingLLM()

    async def summarize(prompt):
        return llm(prompt)

    rag = open_index(stuck, summarizer=summarize, summarizer_id="m", **FOUR)
    assert (await rag.aresume()).documents == 1
    assert states(rag) == {"bad": "done", "good": "done"}
    assert llm.calls == 1


@pytest.mark.parametrize("how", ["stop", "close"])
def test_after_a_stop_only_what_is_missing_is_paid(tmp_path, open_index, how):
    path, gate, llm = tmp_path / "i.e2g", threading.Event(), CountingLLM()
    third = threading.Event()

    def summarize(prompt):
        if llm.calls == 2:
            third.set()
            gate.wait(10)
        return llm(prompt)

    rag = open_index(path, summarizer=summarize, summarizer_id="m", **FOUR)
    adding, outcome = in_thread(lambda: rag.add([numbered(40), numbered(6, "b", 90)]))
    assert third.wait(10)
    stopping, _ = in_thread(getattr(rag, how))
    time.sleep(0.05)
    gate.set()
    adding.join(10)
    stopping.join(10)
    assert isinstance(outcome[0], StoppedError)
    assert "resume()" in str(outcome[0])
    assert llm.calls == 3  # what was in flight is finished and kept
    again = (
        open_index(path, summarizer=summarize, summarizer_id="m", **FOUR) if how == "close" else rag
    )
    assert "done" not in states(again).values()
    assert again.resume().documents == 2
    assert llm.calls == 10 + 2
    assert states(again) == {"b": "done", "numbered": "done"}
    assert again.verify().ok


CRASH = """
import os, sys
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder
from fakes import CountingLLM, NameExtractor, numbered

llm = CountingLLM()

def summarize(prompt):
    with open(sys.argv[2], "a") as calls:
        calls.write("x")
    if llm.calls >= int(sys.argv[3]):
        os._exit(9)
    return llm(prompt)

with E2GraphRAG.open(
    sys.argv[1], embedder=HashingEmbedder(), extractor=NameExtractor(), summarizer=summarize,
    summarizer_id="m", chunk_size=4, chunk_overlap=0, concurrency=3,
) as rag:
    rag.add([numbered(6, "first"), numbered(40, "second", 100), numbered(12, "third", 300)])
"""


@pytest.mark.parametrize("after", [1, 7])
def test_after_a_crash_little_is_paid_twice(tmp_path, open_index, after):
    path, calls = tmp_path / "i.e2g", tmp_path / "calls"
    done = subprocess.run(
        [sys.executable, "-c", CRASH, path, calls, str(after)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (9, b"")
    llm = CountingLLM()
    rag = reopened(path, open_index, llm)
    assert rag.verify().ok
    waiting = {id_ for id_, status in states(rag).items() if status == "processing"}
    assert waiting == {"first", "second", "third"} - set(rag.document_ids)
    assert waiting
    assert rag.resume().documents == len(waiting)
    assert set(states(rag).values()) == {"done"}
    assert not Path(f"{path}.lock").exists()
    paid = len(calls.read_text()) + llm.calls
    assert 2 + 10 + 3 <= paid <= 2 + 10 + 3 + 3
    whole = reopened(tmp_path / "whole.e2g", open_index)
    whole.add([numbered(6, "first"), numbered(40, "second", 100), numbered(12, "third", 300)])
    assert list(rag.export()) == list(whole.export())


def test_what_was_added_meanwhile_is_not_done_again(stuck, open_index):
    rag, other = reopened(stuck, open_index), reopened(stuck, open_index)
    assert other.add(SourceDocument("bad", "Zzz came in. Anna met Bert.")).documents == 1
    assert states(rag) == {"bad": "done", "good": "done"}
    assert rag.resume() == IndexReport()


def test_what_waits_and_is_there_all_the_same_is_forgotten(open_index):
    rag = open_index(**FOUR)
    rag.add(numbered(3))
    enqueue(rag.store, [numbered(3)], {})
    assert rag.resume().skipped == ("numbered",)
    assert states(rag) == {"numbered": "done"}


def test_a_resume_that_fails_again_keeps_it_waiting(stuck, open_index):
    summarize, llm = failing()
    rag = open_index(stuck, summarizer=summarize, summarizer_id="m", **FOUR)
    for _ in range(3):
        with pytest.raises(SummaryError, match="no words for Zzz"):
            rag.resume()
        assert states(rag) == {"bad": "failed", "good": "done"}
    assert llm.calls == 0


def test_a_resume_takes_what_works_and_tells_what_does_not(stuck, open_index):
    rag = reopened(stuck, open_index)
    enqueue(rag.store, [numbered(3, "late", 50)], {})
    rag.close()
    summarize, _ = failing()
    rag = open_index(stuck, summarizer=summarize, summarizer_id="m", **FOUR)
    report = rag.resume()
    assert (report.documents, list(report.failed)) == (1, ["bad"])
    assert states(rag) == {"bad": "failed", "good": "done", "late": "done"}


def test_documents_wait_in_the_order_they_were_given(open_index):
    def refuse(prompt):
        raise KeyboardInterrupt

    rag = open_index(summarizer=refuse, **FOUR)
    for names in ("zb", "ya"):
        with pytest.raises(KeyboardInterrupt):
            rag.add([numbered(3, name) for name in names])
    assert [one.document.id for one in read_queue(rag.store)] == ["z", "b", "y", "a"]


def test_what_is_refused_does_not_wait(stuck, open_index):
    rag = reopened(stuck, open_index)
    with pytest.raises(E2GraphRAGError):
        rag.add([numbered(3, "new"), SourceDocument("good", "Another.")])
    with pytest.raises(UnknownDocumentError):
        rag.update([numbered(3, "new")])
    assert "new" not in states(rag)


def test_an_update_of_what_only_waits_is_refused(stuck, open_index):
    rag = reopened(stuck, open_index)
    with pytest.raises(UnknownDocumentError, match="'bad'"):
        rag.update(SourceDocument("bad", "Anna met Bert."))


# Other versions, deletes


def test_deleting_what_waits_forgets_it(stuck, open_index):
    rag = reopened(stuck, open_index)
    assert rag.delete("bad") == DeleteReport(documents=1, chunks=0, summaries=0)
    assert states(rag) == {"good": "done"}
    assert rag.resume() == IndexReport()
    with pytest.raises(UnknownDocumentError, match="'bad'"):
        rag.delete("bad")


def test_deleting_forgets_a_newer_version_that_waits_too(stuck, open_index):
    rag = reopened(stuck, open_index)
    enqueue(rag.store, [numbered(3, "good", 50)], {})
    assert rag.delete(["good", "bad"]) == DeleteReport(documents=2, chunks=2, summaries=1)
    assert rag.status() == []
    assert rag.store.read("SELECT count(*) FROM content") == [(0,)]


def test_a_delete_that_is_refused_forgets_nothing(stuck, open_index):
    rag = reopened(stuck, open_index)
    with pytest.raises(UnknownDocumentError):
        rag.delete(["bad", "good", "ghost"])
    assert states(rag) == {"bad": "failed", "good": "done"}


def test_a_newer_version_takes_the_place_of_the_one_that_waits(stuck, open_index):
    rag = reopened(stuck, open_index)
    newer = SourceDocument("bad", "Cleo met Dora. Emil left.")
    assert rag.add(newer).documents == 1
    assert rag.document("bad") == newer
    assert rag.resume() == IndexReport()
    assert states(rag) == {"bad": "done", "good": "done"}


def test_of_two_versions_that_failed_the_newer_waits(stuck, open_index):
    summarize, _ = failing()
    rag = open_index(stuck, summarizer=summarize, summarizer_id="m", **FOUR)
    newer = SourceDocument("bad", "Zzz met Dora. Emil left.", title="Newer")
    with pytest.raises(SummaryError):
        rag.add(newer)
    rag.close()
    rag = reopened(stuck, open_index)
    assert rag.resume().documents == 1
    assert rag.document("bad") == newer


@pytest.mark.parametrize("verb", ["add", "update"])
def test_a_version_that_was_taken_back_does_not_come_again(stuck, open_index, verb):
    summarize, _ = failing()
    rag = open_index(stuck, summarizer=summarize, summarizer_id="m", **FOUR)
    with pytest.raises(SummaryError):
        rag.update(SourceDocument("good", "Zzz met Dora. Emil left."))
    getattr(rag, verb)(numbered(2, "good"))  # as it is indexed
    assert states(rag)["good"] == "done"


# What comes back


def test_a_document_comes_back_from_the_queue_as_it_was_given(tmp_path, open_index):
    given = SourceDocument(
        "odd / id \n 文",
        "First\0line.\r\nSecond 😀 line. e\u0301\u2028Third.",
        title="T\0 “q”",
        metadata={"z": [1, None, True, 2.5, 1e-300, 2**70], "a": {"é": "ö", "\u2028": ""}},
        segments=[(0, 5, {"page": 1}), (5, 9, {}), (9, 9, {"x": [{}]})],
    )
    plain = SourceDocument("plain", "Anna met Bert. Cleo left. Dora came.")
    with (
        open_index(tmp_path / "i.e2g", summarizer=failing("")[0], summarizer_id="m", **FOUR) as rag,
        pytest.raises(SummaryError),
    ):
        rag.add([given, plain])
    rag = reopened(tmp_path / "i.e2g", open_index)
    assert [one.document for one in read_queue(rag.store)] == [given, plain]
    assert rag.resume().documents == 2
    assert rag.document(given.id) == given
    assert rag.document("plain") == plain
    assert rag.add([given, plain]).skipped == (given.id, "plain")
    assert rag.verify().ok


def execute(path, statement):
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(statement).rowcount == 1
        db.commit()


@pytest.mark.parametrize(
    "damage",
    [
        "document = replace(document, 'Zzz', 'Yyy')",
        "document = substr(document, 2)",
        "document = '[]'",
        "status = 'done'",
        "reason = NULL",
        "reason = reason || '.'",
        "number = number + 1",
        "id = 'worse'",
        "checksum = checksum + 1",
    ],
)
def test_a_damaged_row_of_the_queue_is_noticed_and_can_be_got_rid_of(stuck, open_index, damage):
    execute(stuck, f"UPDATE queue SET {damage}")  # noqa: S608 - a test's own
    rag = reopened(stuck, open_index)
    with pytest.raises(CorruptStoreError, match=r"waiting document '(bad|worse)' does not match"):
        rag.resume()
    [problem] = rag.verify().problems
    assert "waiting document" in problem
    assert rag.retrieve("Item 1").nodes  # the rest goes on
    rag.delete("worse" if "worse" in damage else "bad")
    assert rag.verify().ok
    assert rag.resume() == IndexReport()


def test_a_damaged_row_of_the_queue_is_no_status(stuck, open_index):
    execute(stuck, "UPDATE queue SET status = 'odd'")
    with pytest.raises(CorruptStoreError):
        reopened(stuck, open_index).status()


def test_noting_a_failure_does_not_make_a_damaged_row_sound(tmp_path, open_index):
    path = tmp_path / "i.e2g"

    def summarize(prompt):
        execute(path, "UPDATE queue SET document = replace(document, 'Anna', 'Olga')")
        raise ValueError("no")

    rag = open_index(path, summarizer=summarize, **FOUR)
    with pytest.raises(CorruptStoreError, match="waiting document 'd'"):
        rag.add(SourceDocument("d", "Anna met Bert. Cleo left."))
    assert not rag.verify().ok


# Beside LangChain's own queue


def test_what_waits_for_a_build_of_langchains_is_not_resumed(tmp_path, open_index):
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain.corpus import Corpus

    class Refuses(CountingExtractor):
        refuse = True

        def extract(self, texts):
            if self.refuse and any("Zzz" in text for text in texts):
                raise RuntimeError("no")
            return super().extract(texts)

    extractor = Refuses()
    rag = open_index(tmp_path / "i.e2g", extractor=extractor, **FOUR)
    with pytest.raises(ExtractionError):
        rag.add(SourceDocument("core", "Zzz came in."))
    corpus = Corpus(rag)
    corpus.upsert([Document("Anna met Bert.", id="one"), Document("Zzz met Cleo.", id="two")])
    assert corpus.is_dirty
    assert states(rag) == {"core": "failed"}
    assert rag.verify().checked["waiting documents"] == 3
    with pytest.raises(IndexingError, match="1 of 2"):
        corpus.build()
    assert corpus.is_dirty
    assert list(states(rag).values()).count("failed") == 1  # the core's own, as before
    extractor.refuse = False
    assert rag.resume().documents == 1
    assert corpus.is_dirty  # still its own business
    corpus.build()
    assert set(states(rag).values()) == {"done"}
    assert len(rag.document_ids) == 3
    assert not corpus.is_dirty


def test_deleting_the_last_document_keeps_what_a_pending_build_has_paid_for(tmp_path, open_index):
    rag = open_index(tmp_path / "i.e2g", **FOUR)
    rag.add(numbered(3))
    put_pending(rag.store, {"source": [["page", "Text.", {}]]})
    rag.store.put_cached("summary", {b"k" * 32: b"paid for"})
    rag.delete("numbered")
    assert rag.store.cached([b"k" * 32])


@pytest.mark.parametrize("how", ["stop", "close"])
def test_an_add_that_waits_for_its_turn_is_stopped_too(tmp_path, open_index, how):
    path, llm = tmp_path / "i.e2g", CountingLLM()
    first, second = reopened(path, open_index), reopened(path, open_index, llm)
    with first.write_lock():
        adding, _ = in_thread(lambda: second.add(numbered(40)))
        time.sleep(0.1)
        stopping, _ = in_thread(getattr(second, how))
        time.sleep(0.1)
    adding.join(10)
    stopping.join(10)
    assert llm.calls == 0
