"""Questions during changes: answered from the last complete state, never from a deleted text."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from e2graphrag_integrations import E2GraphRAG, Freshness, HashingEmbedder, SourceDocument
from e2graphrag_integrations._utils import concurrency
from e2graphrag_integrations.errors import ClosedError, CorruptStoreError, InvalidInputError
from e2graphrag_integrations.options import FreshnessPolicy, grouped
from e2graphrag_integrations.retrieval import generations, session
from e2graphrag_integrations.snapshot import array_files, files
from fakes import NameExtractor

PLACES = ["Oslo", "Bonn", "Riga", "Lima", "Cork", "Nice", "Bern", "Kiel", "Graz", "Lodz"]
N_DOCUMENTS = 30


def document(number: int, version: int = 0) -> SourceDocument:
    """Return a document in which every version has a name of its own."""
    place = PLACES[number % len(PLACES)]
    text = f"Version {version} starts. " * (version % 3) + (
        f"Anna met Bert in {place}. Bert sold map {number} to Cleo. Name{number}v{version} left."
    )
    return SourceDocument(f"d{number:02}", text, metadata={"version": version})


class Gate:
    """Stops builds of snapshots until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.error: Exception | None = None
        self.threads: list[str] = []

    def pass_through(self, build):
        def gated(store, older=None, **options):
            self.threads.append(threading.current_thread().name)
            self.entered.set()
            assert self.opened.wait(30)
            if self.error is not None:
                raise self.error
            return build(store, older, **options)

        return gated


@pytest.fixture
def gate(monkeypatch) -> Iterator[Gate]:
    """Return a gate that is open until a test closes it."""
    gate = Gate()
    gate.opened.set()
    monkeypatch.setattr(
        session, "load_or_build_snapshot", gate.pass_through(session.load_or_build_snapshot)
    )
    yield gate
    gate.opened.set()
    join_background_threads()


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """An index file with 30 documents and no snapshot."""
    path = tmp_path_factory.mktemp("session") / "i.e2g"
    with E2GraphRAG.open(path, **grouped(options())) as rag:
        rag.add([document(number) for number in range(N_DOCUMENTS)])
    return path


@pytest.fixture
def index_file(made_once, tmp_path):
    """A copy of the index file."""
    return shutil.copyfile(made_once, tmp_path / "i.e2g")


def options():
    return {
        "embedder": HashingEmbedder(),
        "extractor": NameExtractor(),
        "chunk_size": 16,
        "chunk_overlap": 4,
    }


def background_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "e2graphrag-refresh"]


def join_background_threads() -> None:
    for thread in background_threads():
        thread.join(30)
        assert not thread.is_alive()


def ask(rag, question="Who left?", **arguments):
    """Ask, and check that the answer is exact against the current documents."""
    result = rag.retrieve(question, k=500, **arguments)
    for node in result.nodes:
        now = rag.document(node.document_id)  # raises if it was deleted
        assert node.metadata == now.metadata
        assert node.level or now.text[node.start : node.end] == node.text
    return result


def found(result) -> set[str]:
    return {node.document_id for node in result.nodes}


# How old an answer may be


@pytest.mark.parametrize(
    ("policy", "required"),
    [
        (FreshnessPolicy(), 90.0),
        (FreshnessPolicy(read_your_writes=False), -math.inf),
        (FreshnessPolicy(5), 95.0),
        (FreshnessPolicy(20), 90.0),
        (FreshnessPolicy(20, read_your_writes=False), 80.0),
        (FreshnessPolicy(0, read_your_writes=False), 100.0),
    ],
)
def test_the_policy_decides_which_changes_an_answer_must_contain(policy, required):
    assert policy.required_time(now=100.0, last_write=90.0) == required


@pytest.mark.parametrize(
    "invalid",
    [
        {"max_staleness": -1},
        {"max_staleness": math.nan},
        {"max_staleness": "5"},
        {"max_staleness": True},
        {"read_your_writes": "no"},
        {"read_your_writes": None},
    ],
)
def test_invalid_settings_are_rejected_before_a_file_is_created(tmp_path, open_index, invalid):
    with pytest.raises(InvalidInputError, match=next(iter(invalid))):
        open_index(tmp_path / "i.e2g", **invalid)
    assert not list(tmp_path.iterdir())


def test_no_thread_is_started_without_a_change(index_file, open_index):
    rag = open_index(index_file)
    assert rag.freshness() == Freshness("", is_newest=False, max_age=math.inf)
    for _ in range(3):
        freshness = ask(rag).trace.freshness
    assert freshness == rag.freshness() == Freshness(rag.store.generation, is_newest=True)
    assert not background_threads()
    rag.close()
    with pytest.raises(ClosedError):
        rag.freshness()


def test_a_program_that_only_writes_prepares_nothing(index_file, open_index, gate):
    rag = open_index(index_file)
    rag.update(document(1, 1))
    rag.delete("d02")
    assert not gate.threads
    assert not background_threads()


def test_a_question_does_not_wait_for_changes_of_others(index_file, open_index, gate):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    gate.opened.clear()
    gate.entered.clear()
    writer.add(document(99))
    old = ask(reader)
    assert gate.entered.wait(30)
    assert "d99" not in found(old)
    freshness = ask(reader).trace.freshness
    assert not freshness.is_newest
    assert freshness.is_preparing
    assert freshness.max_age > 0
    assert not freshness.waited
    assert reader.freshness().is_preparing
    assert "an older state" in old.trace.explain()
    gate.opened.set()
    join_background_threads()
    new = ask(reader)
    assert "d99" in found(new)
    assert new.trace.freshness.is_newest
    assert "freshness" not in new.trace.explain()
    assert gate.threads[1:] == ["e2graphrag-refresh"]


def test_an_answer_contains_what_was_written_through_the_same_object(index_file, open_index):
    rag = open_index(index_file)
    ask(rag)
    for version in range(1, 4):
        rag.update(document(5, version))
        assert "d05" in found(ask(rag, f"Name5v{version}"))
    rag.delete("d05")
    assert "d05" not in found(ask(rag))


def test_without_read_your_writes_a_question_does_not_wait_for_own_changes(
    index_file, open_index, gate
):
    rag = open_index(index_file, read_your_writes=False)
    ask(rag)
    gate.opened.clear()
    rag.add(document(99))
    assert gate.entered.wait(30)  # the next state is prepared right after the write
    assert "d99" not in found(ask(rag))
    gate.opened.set()
    join_background_threads()
    assert "d99" in found(ask(rag))


def test_two_readers_of_a_file_have_their_own_settings(index_file, open_index, gate):
    patient = open_index(index_file, max_staleness=0)
    hasty = open_index(index_file, max_staleness=3600)
    writer = open_index(index_file)
    ask(patient)
    ask(hasty)
    writer.add(document(99))
    assert "d99" not in found(ask(hasty))
    result = ask(patient)
    assert "d99" in found(result)
    assert result.trace.freshness.waited > 0
    assert result.trace.timings["wait"] == result.trace.freshness.waited
    join_background_threads()
    assert "d99" in found(ask(hasty))


def test_an_answer_is_at_most_as_old_as_allowed(index_file, open_index, monkeypatch):
    reader, writer = open_index(index_file, max_staleness=60), open_index(index_file)
    ask(reader)
    writer.add(document(99))
    assert "d99" not in found(ask(reader))
    join_background_threads()
    writer.add(document(98))
    clock = generations.time.monotonic
    monkeypatch.setattr(generations.time, "monotonic", lambda: clock() + 61)
    assert "d98" in found(ask(reader))


def test_refresh_prepares_the_newest_state(index_file, open_index):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    writer.add(document(99))
    reader.refresh()
    assert "d99" in found(ask(reader))
    writer.delete("d99")
    asyncio.run(reader.arefresh())
    assert ask(reader).trace.freshness.is_newest


def test_parts_that_questions_need_are_prepared_before_the_swap(index_file, open_index, gate):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader, "Anna and Berrt in Oslo")
    before = reader._session.snapshot()
    writer.add(document(99))
    ask(reader)
    join_background_threads()
    after = reader._session._generations._last.snapshot
    assert after is not before
    for part in ("bm25", "personalized_pagerank", "subjects", "aliases"):
        assert part in vars(before)
        assert part in vars(after)
    assert vars(before.dense).keys() <= vars(after.dense).keys()


# Documents that changed


def test_deleted_and_replaced_texts_are_never_returned(index_file, open_index, gate):
    reader, writer = open_index(index_file), open_index(index_file)
    assert {"d03", "d04"} <= found(ask(reader))
    gate.opened.clear()
    writer.delete("d03")
    writer.update(document(4, 1))
    result = ask(reader)
    assert found(result) == {document(n).id for n in range(N_DOCUMENTS)} - {"d03", "d04"}
    assert result.trace.freshness.left_out == 2
    assert "2 changed document(s) left out" in result.trace.explain()
    # With a filter, too.
    assert found(ask(reader, where={"document_id": {"$in": ["d03", "d05"]}})) == {"d05"}
    assert found(ask(reader, paths=True, token_budget=5000)) == found(result)


def test_an_unchanged_chunk_of_a_changed_document_is_left_out(index_file, open_index, gate):
    """Its id and its text are those of the old version, but its metadata is not."""
    reader, writer = open_index(index_file), open_index(index_file)
    before = ask(reader, where={"document_id": "d07"}).nodes
    gate.opened.clear()
    longer = f"{document(7).text} Emil arrived. Fritz stayed in Kiel for a while."
    writer.update(SourceDocument("d07", longer, metadata={"version": 2}))
    assert writer.nodes([node.node_id for node in before])
    assert not ask(reader, where={"document_id": "d07"}).nodes


@pytest.mark.slow
def test_a_reader_keeps_an_old_state_while_fifty_changes_pass(index_file, open_index, gate):
    """Two of 30 documents change, each many times; all others are found at any time."""
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    before = reader._session._generations._last.name
    gate.opened.clear()
    present = {document(n).id for n in range(N_DOCUMENTS)}
    for step in range(50):
        number = step % 2
        if step % 10 == 9 and f"d{number:02}" in writer.document_ids:
            writer.delete(f"d{number:02}")
        else:
            writer.add(document(number, step + 1), on_duplicate="replace")
        result = ask(reader)
        assert found(result) - {"d00", "d01"} == present - {"d00", "d01"}
        assert not found(result) & {"d00", "d01"} or step == 0
        assert result.trace.freshness.generation == before
    gate.opened.set()
    join_background_threads()
    assert ask(reader).trace.freshness.is_newest
    assert found(ask(reader)) == set(writer.document_ids)


def test_a_question_waits_if_too_many_documents_changed(index_file, open_index):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    writer.update([document(number, 1) for number in range(10)])
    result = ask(reader)
    assert found(result) == {document(n).id for n in range(N_DOCUMENTS)}
    assert result.trace.freshness.waited > 0


def test_many_changes_that_cannot_be_prepared_are_left_out(index_file, open_index, gate):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    gate.error = OSError(errno.EIO, "the disk failed")
    writer.delete([document(number).id for number in range(10)])
    result = ask(reader)
    assert found(result) == {document(n).id for n in range(10, N_DOCUMENTS)}
    assert "the disk failed" in result.trace.freshness.problem


def test_answers_are_exact_while_threads_ask_and_another_object_writes(index_file, open_index):
    reader, writer = open_index(index_file, read_your_writes=False), open_index(index_file)
    texts = {document(n).id: {document(n).text} for n in range(N_DOCUMENTS)}
    done, errors = threading.Event(), []

    def loop():
        while not done.is_set():
            for node in reader.retrieve("Who left?", k=99).nodes:
                known = {text[node.start : node.end] for text in texts[node.document_id]}
                if node.level == 0 and node.text not in known:
                    errors.append(node)

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for version in range(1, 9):
        new = document(version % 3, version)
        texts[new.id].add(new.text)
        writer.update(new)
        if version == 4:
            writer.delete("d29")
    done.set()
    for thread in threads:
        thread.join(30)
    join_background_threads()
    assert not errors
    assert "d29" not in found(ask(reader))


# Faults


def test_the_last_state_answers_if_the_next_cannot_be_prepared(
    index_file, open_index, gate, caplog, monkeypatch
):
    monkeypatch.setattr(generations, "_RETRY_SECONDS", 0.0)
    reader, writer = open_index(index_file), open_index(index_file)
    strict = open_index(index_file, max_staleness=0)
    ask(reader)
    ask(strict)
    gate.error = CorruptStoreError("row 7 is damaged; run verify()")
    writer.add(document(99))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert "d99" not in found(ask(reader))
            join_background_threads()
    assert [record.getMessage().count("row 7 is damaged") for record in caplog.records] == [1]
    result = ask(reader)
    assert "row 7 is damaged" in result.trace.freshness.problem
    assert "row 7 is damaged" in result.trace.explain()
    assert "row 7 is damaged" in reader.freshness().problem
    with pytest.raises(CorruptStoreError, match="row 7"):
        ask(strict)
    with pytest.raises(CorruptStoreError, match="row 7"):
        reader.refresh()
    gate.error = None
    ask(reader)
    join_background_threads()
    assert "d99" in found(ask(reader))
    assert not reader.freshness().problem


def test_own_writes_that_cannot_be_prepared_raise(index_file, open_index, gate):
    rag = open_index(index_file)
    ask(rag)
    gate.error = MemoryError("no memory for the vectors")
    rag.add(document(99))
    with pytest.raises(MemoryError):
        ask(rag)
    gate.error = None
    assert "d99" in found(ask(rag))


def test_failures_are_retried_with_a_growing_delay(index_file, open_index, gate, monkeypatch):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    clock, elapsed = generations.time.monotonic, [0.0]
    monkeypatch.setattr(generations.time, "monotonic", lambda: clock() + elapsed[0])
    gate.error = OSError(errno.EIO, "the disk failed")
    attempts = []
    writer.add(document(99))
    for _ in range(8):
        ask(reader)
        join_background_threads()
        attempts.append(len(gate.threads))
        elapsed[0] += 0.9
    assert attempts[0] == 2  # the first state, and the first failure
    assert attempts[-1] < 2 + 8 // 2


def test_a_full_disk_keeps_the_next_state_in_memory(index_file, open_index, monkeypatch):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(files, "save_arrays", full)
    writer.add(document(99))
    ask(reader)
    join_background_threads()
    assert "d99" in found(ask(reader))
    assert not reader.freshness().problem


def test_a_damaged_snapshot_of_the_next_state_is_rebuilt(index_file, open_index):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    writer.add(document(99))
    writer.refresh()
    folder = index_file.with_name("i.e2g.snapshot") / writer.store.generation
    for path in folder.rglob("*.npy"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 255
        path.write_bytes(content)
    assert array_files.load_arrays(folder) is None
    ask(reader)
    join_background_threads()
    assert "d99" in found(ask(reader))


def test_a_real_damaged_row_stops_no_answer(index_file, open_index):
    reader, writer = open_index(index_file), open_index(index_file)
    expected = found(ask(reader))
    writer.add(document(99))
    with writer.store.transaction() as db:
        db.execute("UPDATE nodes SET text = 'damaged' WHERE document_id = 'd99'")
    for _ in range(2):
        assert found(ask(reader)) == expected
        join_background_threads()
    assert "checksum" in reader.freshness().problem


def test_changes_while_bm25_is_built_from_the_texts(index_file, open_index, monkeypatch):
    monkeypatch.setattr(files, "_MIN_UNCHANGED", 2)  # no part of the last state is reused
    reader, writer = open_index(index_file, max_staleness=0), open_index(index_file)
    ask(reader)
    build, changes = session.load_or_build_snapshot, iter([98, 97])

    def build_then_change(store, older=None, **options):
        built = build(store, older, **options)
        for number in changes:
            writer.add(document(number))
            break
        return built

    monkeypatch.setattr(session, "load_or_build_snapshot", build_then_change)
    writer.add(document(99))
    assert {"d98", "d99"} <= found(ask(reader))
    assert {"d97", "d98", "d99"} <= found(ask(reader))


@pytest.mark.slow
def test_a_killed_writer_leaves_a_state_that_readers_find(index_file, open_index):
    reader = open_index(index_file)
    ask(reader)
    code = """
import os, sys
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.testing import CapitalizedWordExtractor
models = Models(extractor=CapitalizedWordExtractor())
rag = E2GraphRAG.open(sys.argv[1], embedder=HashingEmbedder(), models=models)
rag.add(SourceDocument("d99", "Anna left Name99v0."))
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(index_file)], check=False, capture_output=True, timeout=60
    )
    assert done.returncode == -9, done.stderr.decode()
    ask(reader)
    join_background_threads()
    assert "d99" in found(ask(reader))


# Threads, event loops, and the end


def test_an_event_loop_runs_while_a_question_waits(index_file, open_index, gate):
    reader, writer = open_index(index_file, max_staleness=0), open_index(index_file)
    ask(reader)
    gate.opened.clear()
    gate.entered.clear()
    writer.add(document(99))

    async def run():
        waiting = asyncio.create_task(reader.aretrieve("Who left?", k=50))
        assert await asyncio.to_thread(gate.entered.wait, 30)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        gate.opened.set()
        return await waiting

    assert "d99" in found(asyncio.run(run()))


def test_questions_of_many_threads_prepare_the_next_state_once(index_file, open_index, gate):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    writer.add(document(99))
    gate.opened.clear()
    threads = [threading.Thread(target=lambda: ask(reader)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)  # none waits for the gate
    gate.opened.set()
    join_background_threads()
    assert len(gate.threads) == 2


def test_close_does_not_wait_long_for_a_build(index_file, open_index, gate, monkeypatch):
    monkeypatch.setattr(concurrency, "STOP_SECONDS", 0.05)
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    gate.opened.clear()
    gate.entered.clear()
    writer.add(document(99))
    ask(reader)
    assert gate.entered.wait(30)
    reader.close()
    assert background_threads()
    gate.opened.set()
    join_background_threads()


@pytest.mark.slow
def test_a_build_that_close_interrupts_reports_no_problem(index_file, open_index, caplog):
    reader, writer = open_index(index_file), open_index(index_file)
    ask(reader)
    for number in range(90, 95):
        writer.add(document(number))
        ask(reader)
    reader.close()
    join_background_threads()
    assert not caplog.records


def test_an_in_memory_index_prepares_in_the_background(open_index, gate):
    rag = open_index(read_your_writes=False)
    rag.add([document(number) for number in range(N_DOCUMENTS)])
    ask(rag)
    gate.opened.clear()
    rag.delete("d03")
    result = ask(rag)
    assert "d03" not in found(result)
    assert not result.trace.freshness.is_newest
    gate.opened.set()
    join_background_threads()
    assert ask(rag).trace.freshness.is_newest


@pytest.mark.slow
def test_the_interpreter_exits_cleanly_during_a_refresh(index_file):
    code = """
import sys
from e2graphrag_integrations import (
    E2GraphRAG, FreshnessPolicy, HashingEmbedder, Models, SourceDocument
)
from e2graphrag_integrations.testing import CapitalizedWordExtractor
models = Models(extractor=CapitalizedWordExtractor())
freshness = FreshnessPolicy(read_your_writes=False)
rag = E2GraphRAG.open(
    sys.argv[1], embedder=HashingEmbedder(), models=models, freshness=freshness
)
rag.retrieve("Anna")
rag.add(SourceDocument("d99", "Anna left Name99v0."))
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code, str(index_file)],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_a_refreshed_reader_answers_like_a_new_one_with_real_vectors(
    tmp_path, real_embedder, real_extractor
):
    settings = {
        "embedder": real_embedder,
        "extractor": real_extractor,
        "chunk_size": 24,
        "chunk_overlap": 4,
    }
    path = tmp_path / "i.e2g"
    questions = ["Did Anna meet Bert in Oslo?", "Who sold map 7?", "Who left?", "Annna Berrt"]
    with (
        E2GraphRAG.open(path, **grouped(settings)) as reader,
        E2GraphRAG.open(path, **grouped(settings)) as writer,
    ):
        writer.add([document(number) for number in range(N_DOCUMENTS)])
        for question in questions:
            reader.retrieve(question)
        writer.update(document(7, 1))
        writer.delete("d01")
        stale = reader.retrieve("Who sold map 7?")
        assert not {"d01", "d07"} & found(stale)
        join_background_threads()
        with E2GraphRAG.open(path, **grouped(settings)) as new:
            for question in questions:
                ours, theirs = reader.retrieve(question), new.retrieve(question)
                assert ours.trace.freshness.is_newest
                assert ours.nodes == theirs.nodes


def test_documents_that_another_process_indexes_are_not_resumed(tmp_path, caplog):
    path = tmp_path / "i.e2g"
    with (
        E2GraphRAG.open(path, embedder="hashing") as reader,
        E2GraphRAG.open(path, embedder="hashing") as writer,
    ):
        writer.add(document(1))
        writer.add(document(2), wait=False)
        with writer.write_lock():
            reader.retrieve("Who met Bert?")
    [warning] = [one for one in caplog.messages if "not indexed yet" in one]
    assert "Answers lack 1 document that is not indexed yet. The index is being written" in warning
    assert "resume" not in warning


def test_documents_that_are_indexed_meanwhile_are_no_warning(tmp_path, caplog, monkeypatch):
    with E2GraphRAG.open(tmp_path / "i.e2g", embedder="hashing") as rag:
        rag.add(document(1))
        monkeypatch.setattr(session, "count_unfinished", lambda _: 1)
        rag.retrieve("Who met Bert?")
    assert not [one for one in caplog.messages if str(tmp_path) in one]
