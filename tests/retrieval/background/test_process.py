"""Readers whose next state another process prepares."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.options import FreshnessPolicy
from e2graphrag_integrations.retrieval.background import process
from fakes import NameExtractor

SECONDS = 30.0


@pytest.fixture
def index_file(tmp_path):
    path = tmp_path / "index.e2g"
    with open_at(path) as rag:
        rag.add([SourceDocument(f"d{n}", f"Anna met Bert in room {n}.") for n in range(5)])
    return path


def open_at(path, process_from: int | None = 0) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        freshness=FreshnessPolicy(read_your_writes=False, process_from=process_from),
    )


def pid_of(rag: E2GraphRAG) -> int | None:
    """Return the id of the process that prepares the states of an index."""
    preparing = rag._session._preparing
    return None if preparing is None else preparing.pid


def wait_until(condition) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def write_and_wait(rag: E2GraphRAG, number: int) -> None:
    """Change the index, and wait until questions are answered from the new state."""
    rag.retrieve("Anna")
    rag.add(SourceDocument(f"more{number}", f"Cleo saw Dora on day {number}."))
    wait_until(lambda: rag.retrieve("Anna").trace.freshness.is_newest)
    result = rag.retrieve(f"Whom did Cleo see on day {number}?", k=9)
    assert f"more{number}" in {node.document_id for node in result.nodes}


@pytest.fixture
def untrusted_folder(tmp_path, monkeypatch):
    """The current folder has a module that must not be imported."""
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("untrusted_folder")
def test_a_change_is_found_and_the_process_ends_with_the_index(index_file):
    with open_at(index_file) as rag:
        assert pid_of(rag) is None, "nothing starts without a change"
        write_and_wait(rag, 1)
        pid = pid_of(rag)
        assert pid is not None
        write_and_wait(rag, 2)
        assert pid_of(rag) == pid
    assert not is_alive(pid)
    assert not list(index_file.with_name("index.e2g.snapshot").glob("new-*"))


@pytest.mark.slow
def test_answers_equal_those_of_a_thread(index_file):
    with open_at(index_file) as rag:
        write_and_wait(rag, 1)
        assert pid_of(rag) is not None
        found = rag.retrieve("Where did Anna meet Bert?", k=9)
    with open_at(index_file, None) as rag:
        expected = rag.retrieve("Where did Anna meet Bert?", k=9)
    assert [(one.node_id, one.score) for one in found.nodes] == [
        (one.node_id, one.score) for one in expected.nodes
    ]


@pytest.mark.slow
def test_an_index_that_is_too_small_or_in_memory_keeps_the_thread(index_file):
    for path, process_from in ((index_file, 1_000), (":memory:", 0), (index_file, None)):
        with open_at(path, process_from) as rag:
            rag.add(SourceDocument("first", "Anna met Bert."))
            write_and_wait(rag, 1)
            assert pid_of(rag) is None
            rag.delete(["first", "more1"])


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the signals are those of POSIX")
def test_a_killed_process_is_replaced(index_file):
    with open_at(index_file) as rag:
        write_and_wait(rag, 1)
        first = pid_of(rag)
        os.kill(first, signal.SIGKILL)
        for number in range(2, 12):  # it is asked again a second after a failure
            write_and_wait(rag, number)
            if pid_of(rag) is not None:
                break
            time.sleep(0.3)
        assert pid_of(rag) not in {None, first}


@pytest.mark.slow
def test_without_a_process_states_are_prepared_here(index_file, monkeypatch, caplog):
    def refuse(*_, **__):
        raise OSError("no more processes")

    monkeypatch.setattr(process.subprocess, "Popen", refuse)
    with open_at(index_file) as rag, caplog.at_level("INFO"):
        for number in range(4):
            write_and_wait(rag, number)
    assert 1 <= caplog.text.count("no more processes") < 4, "it is tried again after a delay"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the signals are those of POSIX")
def test_ctrl_c_is_for_the_program_that_asks(index_file):
    with open_at(index_file) as rag:
        write_and_wait(rag, 1)
        pid = pid_of(rag)
        os.kill(pid, signal.SIGINT)
        write_and_wait(rag, 2)
        assert pid_of(rag) == pid


PROGRAM = """
import os, sys, time
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.options import FreshnessPolicy

rag = E2GraphRAG.open(
    sys.argv[1], embedder=HashingEmbedder(),
    freshness=FreshnessPolicy(read_your_writes=False, process_from=0),
)
rag.add(SourceDocument("one", "Anna met Bert."))
rag.retrieve("Anna")
rag.add(SourceDocument("other", "Anna met Bert again."))
while not rag.retrieve("Anna").trace.freshness.is_newest:
    time.sleep(0.01)
print(rag._session._preparing.pid, flush=True)
if sys.argv[2] == "kill":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the signals are those of POSIX")
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_the_process_ends_with_its_program(tmp_path, end):
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "own.e2g", end],
        stdout=subprocess.PIPE,
        timeout=SECONDS,
        check=False,
    )
    assert program.returncode == (0 if end == "exit" else -signal.SIGKILL)
    pid = int(program.stdout)
    wait_until(lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except FileNotFoundError:
        return False
    return state.split()[0] != "Z"


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("executable", ["", "/usr/bin/uwsgi", "C:/Program Files/Reader.exe"])
def test_a_program_that_is_not_python_is_not_started_again(index_file, monkeypatch, executable):
    monkeypatch.setattr(process.sys, "executable", executable)
    with open_at(index_file) as rag:
        write_and_wait(rag, 1)
        assert pid_of(rag) is None


@pytest.mark.parametrize("invalid", [-1, 0.5, "many"])
def test_an_invalid_size_is_refused(invalid):
    with pytest.raises(InvalidInputError, match="process_from"):
        FreshnessPolicy(process_from=invalid)


@pytest.mark.slow
@pytest.mark.usefixtures("untrusted_folder")
def test_a_module_in_the_current_folder_is_not_imported(index_file):
    with open_at(index_file) as rag:
        write_and_wait(rag, 1)
        assert pid_of(rag) is not None


@pytest.mark.slow
def test_another_version_of_the_package_is_not_asked(index_file, monkeypatch, caplog):
    monkeypatch.setattr(process, "RULES", {"format": 0})
    with open_at(index_file) as rag, caplog.at_level("INFO"):
        write_and_wait(rag, 1)
    assert "the installed package is not that of the running program" in caplog.text


def test_a_question_after_an_own_write_does_not_wait_for_the_process(index_file):
    with E2GraphRAG.open(
        index_file,
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        freshness=FreshnessPolicy(process_from=0),
    ) as rag:
        rag.retrieve("Anna")
        rag.retrieve("Bert")
        rag.add(SourceDocument("own", "Emil wrote to Anna."))
        assert rag.retrieve("Emil").nodes[0].document_id == "own"
        assert pid_of(rag) is None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_fork_leaves_the_process_to_its_program(index_file):
    with open_at(index_file) as rag:
        write_and_wait(rag, 1)
        pid = pid_of(rag)
        child = os.fork()
        if child == 0:
            rag._session._preparing._finish()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        write_and_wait(rag, 2)
        assert pid_of(rag) == pid


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the signals are those of POSIX")
def test_states_in_segments_equal_those_of_a_new_reader_although_the_process_is_killed(tmp_path):
    path = tmp_path / "large.e2g"
    names = [f"{first}{vowel}ra" for first in "BCDFGHKLM" for vowel in "aeiou"]
    rooms = [f"{names[n % 45]} met {names[n % 43]} in room {n}.\n" for n in range(21_000)]
    settings = IndexSettings(chunk_size=8, chunk_overlap=0)
    models = Models(extractor=NameExtractor())
    with E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(),
        models=models,
        settings=settings,
        freshness=FreshnessPolicy(read_your_writes=False, process_from=0),
    ) as rag:
        rag.add(
            [SourceDocument(f"d{n}", "".join(rooms[n : n + 100])) for n in range(0, 21_000, 100)]
        )
        pids = set()
        for number in range(8):
            write_and_wait(rag, number)
            pid = pid_of(rag)
            pids.add(pid)
            if number % 3 == 2 and pid is not None:
                rag.add(SourceDocument(f"killed{number}", f"Emil left room {number}."))
                os.kill(pid, signal.SIGKILL)
                time.sleep(1.1)  # it is asked again a second after a failure
        rag.refresh()
        snapshot = rag._session.snapshot()
        assert snapshot.has_segments
        assert snapshot.segments is not None
        assert len(pids - {None}) > 1
        questions = [
            "Whom did Cleo see on day 3?",
            "Who left room 5?",
            "Where did Bara meet Hura?",
        ]
        found = [rag.retrieve(question, k=9) for question in questions]
    assert not list(tmp_path.glob("large.e2g.snapshot/new-*"))
    with E2GraphRAG.open(path, embedder=HashingEmbedder(), models=models) as rag:
        expected = [rag.retrieve(question, k=9) for question in questions]
    for one, other in zip(found, expected, strict=True):
        assert [node.node_id for node in one.nodes] == [node.node_id for node in other.nodes]
