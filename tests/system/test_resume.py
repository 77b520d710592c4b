"""The queue: documents survive failures, stops and crashes, and resuming repeats no paid work."""

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
from e2graphrag_integrations.store.queue import enqueue, read_queue
from e2graphrag_integrations.store.tables.pending_documents import put_pending
from fakes import (
    BlockingLLM,
    CountingEmbedder,
    CountingExtractor,
    CountingLLM,
    Failing,
    numbered,
    start_in_thread,
)

FOUR = {"chunk_size": 4, "chunk_overlap": 0, "concurrency": 1}


def statuses(rag):
    return {state.id: state.status for state in rag.status()}


def failing_summarizer(word="Zzz"):
    """Return a summarizer that fails on prompts with the word, and its LLM."""
    llm = CountingLLM()

    def summarize(prompt):
        if word in prompt:
            raise ValueError(f"cannot summarize {word}")
        return llm(prompt)

    return summarize, llm


@pytest.fixture
def path_with_failure(tmp_path, open_index):
    """The path of an index with one indexed and one failed document."""
    path = tmp_path / "i.e2g"
    summarize, _ = failing_summarizer()
    rag = open_index(path, summarizer=summarize, llm_id="m", **FOUR)
    rag.add([numbered(2, "good"), SourceDocument("bad", "Zzz came in. Anna met Bert.")])
    assert statuses(rag) == {"bad": "failed", "good": "done"}
    rag.close()
    return path


def reopen(path, open_index, llm=None):
    return open_index(path, summarizer=llm or CountingLLM(), llm_id="m", **FOUR)


# Status


def test_new_index_has_an_empty_status(open_index):
    assert open_index().status() == []


def test_other_instances_see_the_status_of_each_document(tmp_path, open_index, monkeypatch):
    monkeypatch.setattr(planning, "_BATCH_CHUNKS", 1)
    blocking, path = BlockingLLM(), tmp_path / "i.e2g"
    rag = open_index(path, summarizer=blocking, llm_id="m", **FOUR)
    rag.add(SourceDocument("c", "Before."))
    other = reopen(path, open_index)
    changed = numbered(3, "c", 20)
    documents = [numbered(3, "a"), numbered(3, "b", 10), changed, numbered(3, "d", 30)]
    adding, outcome = start_in_thread(lambda: rag.add(documents, on_duplicate="replace"))
    assert blocking.started.wait(10)
    deadline = time.monotonic() + 5
    while statuses(other)["b"] != "processing" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert other.status() == [
        DocumentStatus("a", "processing", None, indexed=False),
        DocumentStatus(
            "b", "processing", None, indexed=False
        ),  # two batches are processed at a time
        DocumentStatus("c", "pending", None, indexed=True),  # the older version stays indexed
        DocumentStatus("d", "pending", None, indexed=False),
    ]
    assert other.verify().checked["waiting documents"] == 4
    blocking.release.set()
    adding.join(10)
    assert outcome[0].documents == 4
    assert other.status() == [DocumentStatus(id_, "done") for id_ in "abcd"]


def test_failed_status_has_the_reason_and_whether_an_older_version_is_indexed(
    path_with_failure, open_index
):
    summarize, _ = failing_summarizer("Cleo")
    rag = open_index(path_with_failure, summarizer=summarize, llm_id="m", **FOUR)
    with pytest.raises(SummaryError):
        rag.update(SourceDocument("good", "Cleo left. Dora saw it. Emil did not."))
    bad, good = rag.status()
    assert (bad.status, bad.indexed) == ("failed", False)
    assert (good.status, good.indexed) == ("failed", True)
    assert "'good' failed: ValueError: cannot summarize Cleo" in good.reason
    assert rag.document("good") == numbered(2, "good")


def test_very_long_reason_is_truncated(open_index):
    def summarize(prompt):
        raise ValueError("long " * 10_000)

    rag = open_index(summarizer=summarize, **FOUR)
    with pytest.raises(SummaryError):
        rag.add(numbered(3))
    [state] = rag.status()
    assert len(state.reason) == 2000
    assert rag.verify().ok


# Resume


def test_resume_of_an_empty_queue_changes_nothing(open_index):
    rag = open_index(summarizer=CountingLLM(), **FOUR)
    assert rag.resume() == IndexReport()
    rag.add(numbered(3))
    before = list(rag.export())
    assert rag.resume() == IndexReport()
    assert list(rag.export()) == before


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("successes", [0, 5, 9])
def test_resume_after_a_failure_pays_only_for_missing_work(tmp_path, open_index, successes):
    path, model = tmp_path / "i.e2g", Failing(ValueError("no"), at=successes)
    before, embedded_before = CountingExtractor(), CountingEmbedder()
    with (
        open_index(
            path, summarizer=model, extractor=before, embedder=embedded_before, **FOUR
        ) as rag,
        pytest.raises(SummaryError),
    ):
        rag.add(numbered(40))  # 8 summaries of chunks and 2 above them
    assert model.llm.calls == successes
    extractor, embedder = CountingExtractor(), CountingEmbedder()
    rag = open_index(path, summarizer=model, extractor=extractor, embedder=embedder, **FOUR)
    assert rag.estimate(numbered(40)).llm_calls == 10 - successes
    report = rag.resume()
    assert (report.documents, report.llm_calls) == (1, 10 - successes)
    assert model.llm.calls == 10
    # The failure may stop the extraction and the embedding, which run in parallel.
    assert len({*before.texts, *extractor.texts}) == len(before.texts) + len(extractor.texts) == 40
    assert len(embedded_before.texts) + len(embedder.texts) == 50  # chunks and summaries
    assert statuses(rag) == {"numbered": "done"}
    expected = open_index(summarizer=Failing(None, times=0), **FOUR)
    expected.add(numbered(40))
    assert list(rag.export()) == list(expected.export())


async def test_aresume_continues_like_resume(path_with_failure, open_index):
    llm = CountingLLM()

    async def summarize(prompt):
        return llm(prompt)

    rag = open_index(path_with_failure, summarizer=summarize, llm_id="m", **FOUR)
    assert (await rag.aresume()).documents == 1
    assert statuses(rag) == {"bad": "done", "good": "done"}
    assert llm.calls == 1


@pytest.mark.parametrize("how", ["stop", "close"])
def test_resume_after_a_stop_pays_only_for_missing_work(tmp_path, open_index, how):
    path, release, llm = tmp_path / "i.e2g", threading.Event(), CountingLLM()
    third_call = threading.Event()

    def summarize(prompt):
        if llm.calls == 2:
            third_call.set()
            release.wait(10)
        return llm(prompt)

    rag = open_index(path, summarizer=summarize, llm_id="m", **FOUR)
    adding, outcome = start_in_thread(lambda: rag.add([numbered(40), numbered(6, "b", 90)]))
    assert third_call.wait(10)
    stopping, _ = start_in_thread(getattr(rag, how))
    time.sleep(0.05)
    release.set()
    adding.join(10)
    stopping.join(10)
    assert isinstance(outcome[0], StoppedError)
    assert "resume()" in str(outcome[0])
    assert llm.calls == 3  # the call in flight finishes and is stored
    again = open_index(path, summarizer=summarize, llm_id="m", **FOUR) if how == "close" else rag
    assert "done" not in statuses(again).values()
    assert again.resume().documents == 2
    assert llm.calls == 10 + 2
    assert statuses(again) == {"b": "done", "numbered": "done"}
    assert again.verify().ok


CRASH = """
import os, sys
from e2graphrag_integrations import (
    E2GraphRAG, HashingEmbedder, IndexSettings, Models, WriteOptions
)
from fakes import CountingLLM, NameExtractor, numbered

llm = CountingLLM()

def summarize(prompt):
    with open(sys.argv[2], "a") as calls:
        calls.write("x")
    if llm.calls >= int(sys.argv[3]):
        os._exit(9)
    return llm(prompt)

with E2GraphRAG.open(
    sys.argv[1],
    embedder=HashingEmbedder(),
    summarizer=summarize,
    settings=IndexSettings(chunk_size=4, chunk_overlap=0),
    models=Models(extractor=NameExtractor(), llm_id="m"),
    writes=WriteOptions(concurrency=3),
) as rag:
    rag.add([numbered(6, "first"), numbered(40, "second", 100), numbered(12, "third", 300)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 7])
def test_resume_after_a_crash_repeats_at_most_the_calls_in_flight(tmp_path, open_index, after):
    path, calls = tmp_path / "i.e2g", tmp_path / "calls"
    done = subprocess.run(
        [sys.executable, "-c", CRASH, path, calls, str(after)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (9, b"")
    llm = CountingLLM()
    rag = reopen(path, open_index, llm)
    assert rag.verify().ok
    waiting = {id_ for id_, status in statuses(rag).items() if status == "processing"}
    assert waiting == {"first", "second", "third"} - set(rag.document_ids)
    assert waiting
    assert rag.resume().documents == len(waiting)
    assert set(statuses(rag).values()) == {"done"}
    assert not Path(f"{path}.lock").exists()
    paid = len(calls.read_text()) + llm.calls
    assert 2 + 10 + 3 <= paid <= 2 + 10 + 3 + 3
    expected = reopen(tmp_path / "expected.e2g", open_index)
    expected.add([numbered(6, "first"), numbered(40, "second", 100), numbered(12, "third", 300)])
    assert list(rag.export()) == list(expected.export())


def test_resume_skips_documents_that_another_instance_added(path_with_failure, open_index):
    rag, other = reopen(path_with_failure, open_index), reopen(path_with_failure, open_index)
    assert other.add(SourceDocument("bad", "Zzz came in. Anna met Bert.")).documents == 1
    assert statuses(rag) == {"bad": "done", "good": "done"}
    assert rag.resume() == IndexReport()


def test_queued_document_that_is_already_indexed_is_skipped(open_index):
    rag = open_index(**FOUR)
    rag.add(numbered(3))
    enqueue(rag.store, [numbered(3)], {})
    assert rag.resume().skipped == ("numbered",)
    assert statuses(rag) == {"numbered": "done"}


def test_document_stays_queued_if_resume_fails_again(path_with_failure, open_index):
    summarize, llm = failing_summarizer()
    rag = open_index(path_with_failure, summarizer=summarize, llm_id="m", **FOUR)
    for _ in range(3):
        with pytest.raises(SummaryError, match="cannot summarize Zzz"):
            rag.resume()
        assert statuses(rag) == {"bad": "failed", "good": "done"}
    assert llm.calls == 0


def test_resume_indexes_what_it_can_and_reports_failures(path_with_failure, open_index):
    rag = reopen(path_with_failure, open_index)
    enqueue(rag.store, [numbered(3, "late", 50)], {})
    rag.close()
    summarize, _ = failing_summarizer()
    rag = open_index(path_with_failure, summarizer=summarize, llm_id="m", **FOUR)
    report = rag.resume()
    assert (report.documents, list(report.failed)) == (1, ["bad"])
    assert statuses(rag) == {"bad": "failed", "good": "done", "late": "done"}


def test_queue_keeps_the_order_of_documents(open_index):
    def refuse(prompt):
        raise KeyboardInterrupt

    rag = open_index(summarizer=refuse, **FOUR)
    for names in ("zb", "ya"):
        with pytest.raises(KeyboardInterrupt):
            rag.add([numbered(3, name) for name in names])
    assert [one.id for one in read_queue(rag.store)] == ["z", "b", "y", "a"]


def test_rejected_documents_are_not_queued(path_with_failure, open_index):
    rag = reopen(path_with_failure, open_index)
    with pytest.raises(E2GraphRAGError):
        rag.add([numbered(3, "new"), SourceDocument("good", "Another.")])
    with pytest.raises(UnknownDocumentError):
        rag.update([numbered(3, "new")])
    assert "new" not in statuses(rag)


def test_update_of_a_document_that_is_only_queued_is_rejected(path_with_failure, open_index):
    rag = reopen(path_with_failure, open_index)
    with pytest.raises(UnknownDocumentError, match="'bad'"):
        rag.update(SourceDocument("bad", "Anna met Bert."))


# Newer versions and deletes


def test_delete_removes_a_queued_document(path_with_failure, open_index):
    rag = reopen(path_with_failure, open_index)
    assert rag.delete("bad") == DeleteReport(documents=1, chunks=0, summaries=0)
    assert statuses(rag) == {"good": "done"}
    assert rag.resume() == IndexReport()
    with pytest.raises(UnknownDocumentError, match="'bad'"):
        rag.delete("bad")


def test_delete_removes_the_queued_newer_version_too(path_with_failure, open_index):
    rag = reopen(path_with_failure, open_index)
    enqueue(rag.store, [numbered(3, "good", 50)], {})
    assert rag.delete(["good", "bad"]) == DeleteReport(documents=2, chunks=2, summaries=1)
    assert rag.status() == []
    assert rag.store.read("SELECT count(*) FROM content") == [(0,)]


def test_rejected_delete_removes_nothing_from_the_queue(path_with_failure, open_index):
    rag = reopen(path_with_failure, open_index)
    with pytest.raises(UnknownDocumentError):
        rag.delete(["bad", "good", "ghost"])
    assert statuses(rag) == {"bad": "failed", "good": "done"}


def test_newer_version_replaces_the_queued_one(path_with_failure, open_index):
    rag = reopen(path_with_failure, open_index)
    newer = SourceDocument("bad", "Cleo met Dora. Emil left.")
    assert rag.add(newer).documents == 1
    assert rag.document("bad") == newer
    assert rag.resume() == IndexReport()
    assert statuses(rag) == {"bad": "done", "good": "done"}


def test_newer_of_two_failed_versions_is_queued(path_with_failure, open_index):
    summarize, _ = failing_summarizer()
    rag = open_index(path_with_failure, summarizer=summarize, llm_id="m", **FOUR)
    newer = SourceDocument("bad", "Zzz met Dora. Emil left.", title="Newer")
    with pytest.raises(SummaryError):
        rag.add(newer)
    rag.close()
    rag = reopen(path_with_failure, open_index)
    assert rag.resume().documents == 1
    assert rag.document("bad") == newer


@pytest.mark.parametrize("verb", ["add", "update"])
def test_readding_the_indexed_version_clears_the_queued_one(path_with_failure, open_index, verb):
    summarize, _ = failing_summarizer()
    rag = open_index(path_with_failure, summarizer=summarize, llm_id="m", **FOUR)
    with pytest.raises(SummaryError):
        rag.update(SourceDocument("good", "Zzz met Dora. Emil left."))
    getattr(rag, verb)(numbered(2, "good"))  # the indexed version
    assert statuses(rag)["good"] == "done"


# Round trips and damage


def test_queued_document_round_trips_unchanged(tmp_path, open_index):
    unusual = SourceDocument(
        "odd / id \n 文",
        "First\0line.\r\nSecond 😀 line. e\u0301\u2028Third.",
        title="T\0 “q”",
        metadata={"z": [1, None, True, 2.5, 1e-300, 2**70], "a": {"é": "ö", "\u2028": ""}},
        segments=[(0, 5, {"page": 1}), (5, 9, {}), (9, 9, {"x": [{}]})],
    )
    plain = SourceDocument("plain", "Anna met Bert. Cleo left. Dora came.")
    with (
        open_index(
            tmp_path / "i.e2g", summarizer=failing_summarizer("")[0], llm_id="m", **FOUR
        ) as rag,
        pytest.raises(SummaryError),
    ):
        rag.add([unusual, plain])
    rag = reopen(tmp_path / "i.e2g", open_index)
    assert list(read_queue(rag.store)) == [unusual, plain]
    assert rag.resume().documents == 2
    assert rag.document(unusual.id) == unusual
    assert rag.document("plain") == plain
    assert rag.add([unusual, plain]).skipped == (unusual.id, "plain")
    assert rag.verify().ok


def execute(path, statement):
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(statement).rowcount == 1
        db.commit()


@pytest.mark.fast_cases(4)
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
def test_damaged_queue_row_is_reported_and_can_be_deleted(path_with_failure, open_index, damage):
    execute(path_with_failure, f"UPDATE queue SET {damage}")  # noqa: S608 - constants of this test
    rag = reopen(path_with_failure, open_index)
    with pytest.raises(CorruptStoreError, match=r"waiting document '(bad|worse)' does not match"):
        rag.resume()
    [problem] = rag.verify().problems
    assert "waiting document" in problem
    assert rag.retrieve("Item 1").nodes  # other documents still work
    rag.delete("worse" if "worse" in damage else "bad")
    assert rag.verify().ok
    assert rag.resume() == IndexReport()


def test_status_rejects_a_damaged_queue_row(path_with_failure, open_index):
    execute(path_with_failure, "UPDATE queue SET status = 'odd'")
    with pytest.raises(CorruptStoreError):
        reopen(path_with_failure, open_index).status()


def test_recording_a_failure_does_not_repair_a_damaged_row(tmp_path, open_index):
    path = tmp_path / "i.e2g"

    def summarize(prompt):
        execute(path, "UPDATE queue SET document = replace(document, 'Anna', 'Olga')")
        raise ValueError("no")

    rag = open_index(path, summarizer=summarize, **FOUR)
    with pytest.raises(CorruptStoreError, match="waiting document 'd'"):
        rag.add(SourceDocument("d", "Anna met Bert. Cleo left."))
    assert not rag.verify().ok


# LangChain's own queue


def test_resume_leaves_documents_of_a_pending_langchain_build(tmp_path, open_index):
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document

    from e2graphrag_integrations.corpus.corpus import Corpus
    from e2graphrag_integrations.langchain.conversion import LangChainDocuments

    class FailingExtractor(CountingExtractor):
        is_failing = True

        def extract(self, texts):
            if self.is_failing and any("Zzz" in text for text in texts):
                raise RuntimeError("no")
            return super().extract(texts)

    extractor = FailingExtractor()
    rag = open_index(tmp_path / "i.e2g", extractor=extractor, **FOUR)
    with pytest.raises(ExtractionError):
        rag.add(SourceDocument("core", "Zzz came in."))
    corpus = Corpus(rag, LangChainDocuments())
    corpus.store([Document("Anna met Bert.", id="one"), Document("Zzz met Cleo.", id="two")])
    assert corpus.is_dirty
    assert statuses(rag) == {"core": "failed"}
    assert rag.verify().checked["waiting documents"] == 3
    with pytest.raises(IndexingError, match="1 of 2"):
        corpus.build()
    assert corpus.is_dirty
    assert list(statuses(rag).values()).count("failed") == 1  # still the one of the core
    extractor.is_failing = False
    assert rag.resume().documents == 1
    assert corpus.is_dirty  # resume() does not build it
    corpus.build()
    assert set(statuses(rag).values()) == {"done"}
    assert len(rag.document_ids) == 3
    assert not corpus.is_dirty


def test_deleting_the_last_document_keeps_the_cache_of_a_pending_build(tmp_path, open_index):
    rag = open_index(tmp_path / "i.e2g", **FOUR)
    rag.add(numbered(3))
    put_pending(rag.store, {"source": [["page", "Text.", {}]]})
    rag.store.put_cached("summary", {b"k" * 32: b"cached"})
    rag.delete("numbered")
    assert rag.store.cached([b"k" * 32])


@pytest.mark.parametrize("how", ["stop", "close"])
def test_add_that_waits_for_the_write_lock_can_be_stopped(tmp_path, open_index, how):
    path, llm = tmp_path / "i.e2g", CountingLLM()
    first, second = reopen(path, open_index), reopen(path, open_index, llm)
    with first.write_lock():
        adding, _ = start_in_thread(lambda: second.add(numbered(40)))
        time.sleep(0.1)
        stopping, _ = start_in_thread(getattr(second, how))
        time.sleep(0.1)
    adding.join(10)
    stopping.join(10)
    assert llm.calls == 0
