"""Workers share a queue: documents are indexed once, whoever dies, and no call is paid twice."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import e2graphrag_integrations.indexing.worker as worker_module
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations._utils.postgres_urls import parse_postgres_url
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    SchemaVersionError,
    SettingsMismatchError,
    StoreConnectionError,
    StoreLockedError,
    SummaryError,
    UnknownDocumentError,
)
from e2graphrag_integrations.store import lock as store_lock
from e2graphrag_integrations.store.postgres.schema import POSTGRES_VERSION
from e2graphrag_integrations.store.records import LeaseLostError
from fakes import BlockingLLM, CountingLLM, Failing, NameExtractor, numbered, start_in_thread
from postgres_server import running_postgres

SCRIPT = Path(__file__).parents[2] / "benchmarks/postgres/run.py"


def documents(count=12):
    """Return documents of which each has the text of another one."""
    return [numbered(20, f"d{number:02}", 100 * (number // 2)) for number in range(count)]


def execute(url, statement, *parameters):
    """Run a statement, with `<s>` for the name of the schema, and return its rows."""
    parsed = parse_postgres_url(url)
    with psycopg.connect(parsed.conninfo, autocommit=True) as db:
        result = db.execute(statement.replace("<s>", parsed.schema), parameters)
        return result.fetchall() if result.description else []


def states(rag):
    return {state.id: state.status for state in rag.status()}


@pytest.fixture
def expected(open_index):
    """The export of an index of `documents()` that one call of `add` made, and its LLM calls."""
    llm = CountingLLM()
    rag = open_index(summarizer=llm, llm_id="llm")
    rag.add(documents())
    return list(rag.export()), llm.calls


def check_finished(rag, expected):
    assert set(states(rag).values()) == {"done"}
    assert rag.verify().ok
    assert list(rag.export()) == expected
    assert not rag.store.has_unused()


# One worker, in a file and in Postgres


@pytest.fixture(params=["file", "postgres"])
def place(request, tmp_path):
    """A path or a URL of an index that does not exist."""
    if request.param == "file":
        return tmp_path / "i.e2g"
    return request.getfixturevalue("postgres_url")


@pytest.mark.fast_cases(1)
def test_without_wait_documents_are_checked_and_a_worker_indexes_them(place, open_index, expected):
    llm = CountingLLM()
    rag = open_index(place, summarizer=llm, llm_id="llm")
    given = documents()
    report = rag.add(given, wait=False)
    assert (report.documents, len(report.queued), llm.calls) == (0, len(given), 0)
    assert set(states(rag).values()) == {"pending"}
    assert rag.add(given, wait=False).skipped == tuple(states(rag))
    with pytest.raises(DuplicateDocumentError):
        rag.add(numbered(3, "d00"), wait=False)
    with pytest.raises(UnknownDocumentError):
        rag.update(numbered(3, "new"), wait=False)
    worker = open_index(place, summarizer=llm, llm_id="llm")
    events = []
    report = worker.work(progress=events.append)
    assert (report.documents, report.llm_calls, llm.calls) == (12, expected[1], expected[1])
    assert {event.stage for event in events} >= {"chunk", "summarize", "write"}
    check_finished(rag, expected[0])
    assert worker.work().documents == 0


def test_a_file_without_a_worker_is_indexed_by_resume(tmp_path, open_index):
    rag = open_index(tmp_path / "i.e2g")
    rag.add(documents(), wait=False)
    assert rag.resume().documents == 12
    assert rag.verify().ok


def test_others_write_to_a_file_between_two_groups_of_its_worker(tmp_path, open_index, monkeypatch):
    monkeypatch.setattr(store_lock, "_MAX_DOCUMENTS", 2)
    is_waiting, left = threading.Event(), []

    def wait(cancelled):
        is_waiting.set()
        return acquire(cancelled)

    def add():
        other.add(numbered(5, "late"), wait=False)
        left.append(other.queued_ids())

    def summarize(prompt):
        if adding.ident is None:
            adding.start()
            assert is_waiting.wait(10)
        return f"Summary {hash(prompt)}."

    options = {"summarizer": summarize, "llm_id": "llm", "concurrency": 1}
    rag, other = (open_index(tmp_path / "i.e2g", **options) for _ in range(2))
    rag.add([numbered(20, f"d{number}", 100 * number) for number in range(6)], wait=False)
    adding, acquire = threading.Thread(target=add), other.store.index_lock.acquire
    monkeypatch.setattr(other.store.index_lock, "acquire", wait)
    assert rag.work().documents == 7
    adding.join(10)
    assert left[0] - {"late"}


async def test_aadd_and_awork_use_the_loop_of_the_caller(place, open_index):
    loops = []

    async def summarize(prompt):
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return f"Summary {len(prompt)}."

    rag = open_index(place, summarizer=summarize, llm_id="llm")
    await rag.aadd(documents(2), wait=False)
    assert (await rag.aupdate(numbered(20, "d00", 7), wait=False)).queued == ("d00",)
    assert (await rag.awork()).documents == 2
    assert set(loops) == {asyncio.get_running_loop()}
    assert rag.document("d00").text == numbered(20, "d00", 7).text


def test_a_worker_that_started_first_uses_the_settings_of_the_queue(place, open_index):
    # Neither the settings nor the embedder are known yet.
    worker = E2GraphRAG.open(place, models=Models(extractor=NameExtractor()))
    rag = open_index(place)
    rag.add(documents(2), wait=False)
    worker.work()
    assert worker.settings == rag.settings
    assert worker.settings.chunk_size == 16
    assert set(states(rag).values()) == {"done"}
    worker.close()


def test_other_settings_or_models_are_rejected_before_anything_is_written(place, open_index):
    open_index(place).add(documents(2), wait=False)
    for options in ({"chunk_size": 20}, {"embedder": HashingEmbedder(64)}):
        other = open_index(place, **options)
        with pytest.raises(SettingsMismatchError):
            other.add(numbered(3, "other"), wait=False)
        with pytest.raises(SettingsMismatchError):
            other.work()
        assert set(states(other).values()) == {"pending"}


def test_a_failed_document_keeps_its_reason_and_the_others_are_indexed(place, open_index):
    llm = Failing(ValueError("no"), at=2)
    rag = open_index(place, summarizer=llm, concurrency=1)
    rag.add(documents(4), wait=False)
    report = rag.work()
    assert len(report.failed) == 1
    [failed] = [state for state in rag.status() if state.status == "failed"]
    assert "ValueError: no" in failed.reason
    assert report.documents == 3
    assert rag.work().documents == 0  # not again
    assert rag.resume().documents == 1


def test_a_failure_with_a_lone_surrogate_is_recorded(place, open_index):
    llm = Failing(ValueError("bad answer: \ud83d"), at=2)
    rag = open_index(place, summarizer=llm, concurrency=1)
    rag.add(documents(4), wait=False)
    assert len(rag.work().failed) == 1
    [failed] = [state for state in rag.status() if state.status == "failed"]
    assert "bad answer: ?" in failed.reason


def test_many_failures_end_the_worker_and_keep_the_documents(place, open_index):
    rag = open_index(place, summarizer=Failing(ValueError("wrong key"), times=100), concurrency=1)
    rag.add([numbered(20, f"d{n}", 100 * n) for n in range(9)], wait=False)
    with pytest.raises(SummaryError, match="wrong key"):
        rag.work()
    found = sorted(states(rag).values())
    assert found == ["failed"] * 3 + ["pending"] * 6


@pytest.mark.parametrize(
    "options",
    [{"llm_limit": 0}, {"llm_limit": "4"}, {"lease": 0}, {"lease": -1}, {"forever": "yes"}],
)
def test_bad_options_are_rejected(open_index, options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        open_index().work(**options)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_stopped_worker_finishes_its_calls_and_releases_its_documents(place, open_index, end):
    llm = BlockingLLM()
    rag = open_index(place, summarizer=llm, llm_id="llm", concurrency=1)
    other = open_index(place, summarizer=llm, llm_id="llm")
    rag.add(documents(), wait=False)
    working, outcome = start_in_thread(lambda: rag.work(forever=True))
    assert llm.started.wait(10)
    ending, _ = start_in_thread(getattr(rag, end))
    time.sleep(0.05)
    llm.release.set()
    working.join(10)
    ending.join(10)
    assert outcome[0].llm_calls == llm.calls == 1
    assert set(states(other).values()) <= {"pending", "processing"}
    assert other.work().documents == 12
    assert other.verify().ok


# Several workers


def run_workers(rags, **options):
    """Run a worker for each open index in a thread, and return their reports."""
    started = [start_in_thread(lambda rag=rag: rag.work(**options)) for rag in rags]
    for thread, _ in started:
        thread.join(60)
        assert not thread.is_alive()
    return [outcome[0] for _, outcome in started]


def test_workers_share_documents_summaries_and_the_limit_of_calls(
    postgres_url, open_index, expected
):
    lock, running, peaks = threading.Lock(), [], []
    llm = CountingLLM()

    def slow(prompt):
        with lock:
            running.append(prompt)
            peaks.append(len(running))
        time.sleep(0.01)
        with lock:
            running.remove(prompt)
        return llm(prompt)

    rags = [open_index(postgres_url, summarizer=slow, llm_id="llm") for _ in range(3)]
    rags[0].add(documents(), wait=False)
    reports = run_workers(rags, llm_limit=2)
    assert sum(report.documents for report in reports) == 12
    assert sum(report.documents > 0 for report in reports) >= 2
    assert llm.calls == expected[1]  # although each text is in two documents
    assert max(peaks) == 2
    check_finished(rags[1], expected[0])


def test_the_status_names_the_worker(postgres_url, open_index):
    llm = BlockingLLM()
    rag = open_index(postgres_url, summarizer=llm, llm_id="llm")
    rag.add(documents(2), wait=False)
    working, _ = start_in_thread(rag.work)
    assert llm.started.wait(10)
    with closing(E2GraphRAG.open(postgres_url)) as reader:
        state = next(one for one in reader.status() if one.worker)
    assert (state.status, state.indexed) == ("processing", False)
    assert f"process {os.getpid()} on " in state.worker
    assert state.since.startswith("20")
    llm.release.set()
    working.join(10)
    assert not [one for one in rag.status() if one.worker]


def test_operations_that_need_the_whole_index_wait_for_workers(postgres_url, open_index):
    llm = BlockingLLM()
    rag = open_index(postgres_url, summarizer=llm, llm_id="llm")
    rag.add(documents(6), wait=False)
    working, _ = start_in_thread(lambda: rag.work(forever=True))
    assert llm.started.wait(10)
    hasty = open_index(postgres_url, lock_timeout=0.05, summarizer=llm, llm_id="llm")
    for operation in (hasty.compact, lambda: hasty.delete("d05"), lambda: hasty.add(numbered(3))):
        with pytest.raises(StoreLockedError, match="is being written by process"):
            operation()
    assert hasty.add(numbered(3), wait=False).queued
    other = open_index(postgres_url, summarizer=llm, llm_id="llm")
    deleting, outcome = start_in_thread(lambda: other.delete("d05"))
    time.sleep(0.15)
    llm.release.set()  # the worker lets the deletion go first
    deleting.join(10)
    assert outcome[0].documents == 1
    while set(states(other).values()) != {"done"}:
        time.sleep(0.01)
    rag.stop()
    working.join(10)
    assert states(other).keys() == {*(f"d0{n}" for n in range(5)), "numbered"}
    assert other.verify().ok


# Leases


def hold_documents(rag, seconds=60.0):
    """Claim documents as a worker that dies before it has written any."""
    leases = rag.store.database.leases(seconds)
    claimed = leases.claim()
    return leases, claimed


def die(leases):
    """End a worker without releasing its documents."""
    leases._closing.set()
    leases._heartbeat.join()
    leases._connection.close()


def expire(url):
    execute(url, "UPDATE <s>.leases SET expires = clock_timestamp() - interval '1 second'")


def test_two_workers_never_hold_one_document(postgres_url, open_index):
    rag = open_index(postgres_url)
    rag.add(documents(4), wait=False)
    held = [hold_documents(rag) for _ in range(4)]
    claimed = [id_ for _, ids in held for id_ in ids]
    assert sorted(claimed) == [document.id for document in documents(4)]
    for leases, _ in held:
        leases.close()
    assert rag.work().documents == 4


def test_the_documents_of_a_dead_worker_are_taken_over_after_the_lease(postgres_url, open_index):
    rag = open_index(postgres_url)
    rag.add(documents(4), wait=False)
    leases, claimed = hold_documents(rag, 0.3)
    time.sleep(0.5)
    again, others = hold_documents(rag)
    assert claimed  # the lease is renewed, so the documents are held
    assert not claimed.keys() & others.keys()
    again.close()
    die(leases)
    assert rag.work().documents == 4
    assert rag.verify().ok


def commit_late(rag, change):
    """Let a worker plan a document, change something, and then let it write."""
    store = rag.store
    leases = store.database.leases(60)
    [id_] = leases.claim()
    change(leases)
    sink = worker_module.LeasedStore(store, leases)
    generation = store.generation
    with pytest.raises(LeaseLostError, match="was not written"):
        sink.write_document(numbered(1, id_), [], {})
    assert store.generation == generation
    leases.close()


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("cause", ["expired", "taken over", "changed", "deleted", "released"])
def test_a_late_commit_is_rejected(postgres_url, open_index, cause):
    rag = open_index(postgres_url)
    rag.add(numbered(20, "one"), wait=False)

    def change(leases):
        if cause in ("expired", "taken over"):
            expire(postgres_url)
        if cause == "taken over":
            rag.work()
        elif cause == "changed":
            rag.update(numbered(20, "one", 7), wait=False)
        elif cause == "deleted":
            rag.delete("one")
        elif cause == "released":
            leases.release()

    commit_late(rag, change)
    if cause != "deleted":
        rag.work()
        assert rag.document("one").text == numbered(20, "one", 7 * (cause == "changed")).text
    assert set(states(rag).values()) <= {"done"}
    assert rag.verify().ok


def test_a_worker_abandons_documents_whose_lease_is_lost_and_goes_on(
    postgres_url, open_index, expected
):
    llm = CountingLLM()

    def summarize(prompt):
        if llm.calls == 1:
            expire(postgres_url)
        return llm(prompt)

    rag = open_index(postgres_url, summarizer=summarize, llm_id="llm", concurrency=1)
    rag.add(documents(), wait=False)
    report = rag.work()
    assert report.documents == 12
    assert not report.failed
    assert llm.calls == expected[1]
    check_finished(rag, expected[0])


def test_a_document_that_kills_its_workers_fails_and_takes_no_other_with_it(
    postgres_url, open_index
):
    rag = open_index(postgres_url)
    rag.add(documents(4), wait=False)
    deaths = 0
    while True:
        leases, claimed = hold_documents(rag)
        if "d00" not in claimed or claimed["d00"] > worker_module._MAX_ATTEMPTS:
            leases._parameters["token"] = "another"  # noqa: S105 - the documents remain claimed
            leases.close()
            break
        assert deaths == 0 or list(claimed) == ["d00"]  # alone
        die(leases)
        expire(postgres_url)
        execute(postgres_url, "UPDATE <s>.leases SET attempts = 0 WHERE id <> 'd00'")
        deaths += 1
    assert deaths == worker_module._MAX_ATTEMPTS
    expire(postgres_url)
    report = rag.work()
    assert "workers died" in report.failed["d00"]
    assert states(rag) == {"d00": "failed", "d01": "done", "d02": "done", "d03": "done"}
    rag.add(documents(1), wait=False)  # counts from the start
    assert rag.work().documents == 1


def test_a_new_version_of_a_queued_document_replaces_it(postgres_url, open_index):
    rag = open_index(postgres_url)
    rag.add(documents(2))
    rag.update(numbered(20, "d00", 500), wait=False)
    rag.update(numbered(20, "d00", 600), wait=False)
    assert states(rag) == {"d00": "pending", "d01": "done"}
    rag.update(numbered(20, "d01"), wait=False)
    rag.update(numbered(20, "d01", 0), wait=False)  # d01 has this text already
    assert rag.work().documents in (1, 2)
    assert rag.document("d00").text == numbered(20, "d00", 600).text
    with closing(E2GraphRAG.open(postgres_url)) as other:
        assert list(other.export()) == list(rag.export())
    assert not rag.store.has_unused()


def test_workers_record_the_extractors_of_all_languages(postgres_url, open_index):
    english = SourceDocument("en", "Anna met Bert in Oslo. Bert gave Anna a map.", language="en")
    german = SourceDocument("de", "Anna traf Bert in Oslo. Bert gab Anna Brot.", language="de")
    extractors = {"en": NameExtractor(), "de": NameExtractor()}
    one = open_index(postgres_url, extractor=extractors)
    two = open_index(postgres_url, extractor=extractors)
    one.add(english, wait=False)
    two.add(german, wait=False)
    one.work()
    entries = one.store.manifest()
    assert {"extractor", "extractor_de"} <= entries.keys()
    two.add(SourceDocument("more", "Cleo met Dora in Rome.", language="en"), wait=False)
    two.work()
    assert one.store.manifest().keys() == entries.keys()


# Connections and servers


@pytest.mark.slow
def test_a_worker_survives_that_its_connections_are_ended(
    postgres, postgres_url, open_index, expected
):
    llm = CountingLLM()

    def summarize(prompt):
        if llm.calls in (2, 5, 8):
            postgres.end_connections()
        return llm(prompt)

    rag = open_index(postgres_url, summarizer=summarize, llm_id="llm", concurrency=1)
    rag.add(documents(), wait=False)
    report = rag.work()
    assert report.documents == 12
    assert llm.calls == expected[1]  # finished calls are saved, too
    check_finished(rag, expected[0])


@pytest.mark.slow
def test_a_server_that_is_gone_ends_the_worker_and_loses_nothing(
    tmp_path, monkeypatch, open_index, expected
):
    monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path / "cache"))
    llm = CountingLLM()
    with running_postgres() as server:

        def summarize(prompt):
            if llm.calls == 3:
                server.stop()
            return llm(prompt)

        options = {"llm_id": "llm", "lock_timeout": 0.2, "concurrency": 1}
        rag = open_index(f"{server.url}?schema=s", summarizer=summarize, **options)
        rag.add(documents(), wait=False)
        with pytest.raises(StoreConnectionError):
            rag.work()
        server.start()
        expire(f"{server.url}?schema=s")
        rag.work()
        check_finished(rag, expected[0])
        assert llm.calls <= expected[1] + 1
        rag.close()


def test_an_exhausted_server_is_a_typed_error(postgres_url, open_index):
    open_index(postgres_url).add(documents(2), wait=False)
    schema = parse_postgres_url(postgres_url).schema
    execute(postgres_url, f"CREATE ROLE r_{schema} LOGIN CONNECTION LIMIT 2")
    execute(postgres_url, f"GRANT ALL ON SCHEMA <s> TO r_{schema}")
    execute(postgres_url, f"GRANT ALL ON ALL TABLES IN SCHEMA <s> TO r_{schema}")
    poor = open_index(postgres_url.replace("e2g@", f"r_{schema}@"), lock_timeout=0.1)
    with pytest.raises(StoreConnectionError, match="close other connections"):
        poor.work()
    assert open_index(postgres_url).work().documents == 2


def test_another_format_version_ends_writers_before_they_write(postgres_url, open_index):
    rag = open_index(postgres_url)
    rag.add(documents(2), wait=False)
    execute(postgres_url, "UPDATE <s>.e2graphrag SET value = 99")
    for write in (rag.work, lambda: rag.add(numbered(3)), lambda: rag.set_tags(["a"])):
        with pytest.raises(SchemaVersionError, match="format version 99"):
            write()
    execute(postgres_url, f"UPDATE <s>.e2graphrag SET value = {POSTGRES_VERSION}")  # noqa: S608 - a number
    assert rag.work().documents == 2


@pytest.mark.slow
def test_processes_that_are_killed_lose_and_repeat_nothing(tmp_path):
    out = tmp_path / "result.json"
    command = [sys.executable, str(SCRIPT), "--part", "workers", "--short"]
    command += ["--data", str(tmp_path), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, timeout=120)
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["kills"] > 0
    for name in (
        "documents that are missing or not done",
        "versions written more than once",
        "problems of verify",
        "lines that differ from the export of a single process",
        "workers that failed",
    ):
        assert result[name] == 0, name
    assert result["repeated LLM calls per kill"] <= result["concurrency"]
