"""The writer's lock: one process at a time; who waits is told for whom; the dead hold nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import StoreError, StoreLockedError
from e2graphrag_integrations.store.lock import WriterLock
from fakes import as_nobody, numbered

HOLDER = """
import sys
from e2graphrag_integrations.store.lock import WriterLock

with WriterLock(sys.argv[1], 10).held():
    print("held", flush=True)
    sys.stdin.readline()
print("let go", flush=True)
"""


@contextmanager
def held_elsewhere(path):
    """Hold the lock of an index in another process."""
    script = path.parent / "night_job.py"
    script.write_text(HOLDER)
    with subprocess.Popen(
        [sys.executable, script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def in_a_thread(work):
    """Run `work` in a thread; return the thread and the list its outcome goes to."""
    outcome = []

    def run():
        try:
            outcome.append(work())
        except StoreError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


@pytest.fixture
def path(tmp_path, open_index):
    """Make a closed index of one document."""
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(numbered(3, "old"))
    return path


def file_of(path):
    return Path(f"{path}.lock")


def test_another_process_is_waited_for_named_and_followed_when_it_is_killed(path, open_index):
    rag = open_index(path, lock_timeout=0.3)
    patient = open_index(path, lock_timeout=30)
    with held_elsewhere(path) as process:
        began = time.monotonic()
        with pytest.raises(StoreLockedError) as caught:
            rag.add(numbered(3, "new"))
        assert 0.3 <= time.monotonic() - began < 5
        message = str(caught.value)
        assert message.startswith(f"{path} is being written by process {process.pid} ")
        assert f"(night_job.py) on {socket.gethostname()} since 20" in message
        assert "lock_timeout=" in message
        for work in (
            lambda: rag.update(SourceDocument("old", "Anna.")),
            lambda: rag.delete("old"),
            rag.resume,
            rag.compact,
        ):
            with pytest.raises(StoreLockedError, match=f"process {process.pid} "):
                work()
        assert rag.retrieve("Item 1").nodes  # readers wait for nobody
        assert (rag.verify().ok, [s.status for s in rag.status()]) == (True, ["done"])
        waiting, outcome = in_a_thread(lambda: patient.add(numbered(3, "new")))
        time.sleep(0.1)
        assert waiting.is_alive()
        process.kill()  # SIGKILL: it cannot clean up
        waiting.join(10)
    assert outcome[0].documents == 1
    assert rag.document_ids == ["new", "old"]
    assert not file_of(path).exists()


def test_what_a_killed_process_left_does_not_hinder(path, open_index):
    with held_elsewhere(path) as process:
        process.kill()
        process.wait()
    assert file_of(path).exists()
    rag = open_index(path, lock_timeout=0)
    assert rag.add(numbered(3, "new")).documents == 1
    assert not file_of(path).exists()


def test_a_process_that_lets_go_is_followed_at_once_and_leaves_nothing(path, open_index):
    rag = open_index(path, lock_timeout=30)
    with held_elsewhere(path) as process:
        waiting, outcome = in_a_thread(lambda: rag.add(numbered(3, "new")))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "let go\n"
        waiting.join(10)
    assert outcome[0].documents == 1
    assert not file_of(path).exists()


def test_it_may_be_taken_again_by_who_holds_it(path):
    lock, other = WriterLock(str(path), 1), WriterLock(str(path), 0)
    with lock.held():
        with lock.held(), lock.held():
            pass
        assert file_of(path).exists()
        with pytest.raises(StoreLockedError), other.held():
            pass
    assert not file_of(path).exists()
    with other.held():
        pass


def test_an_error_within_lets_go_of_it(path):
    lock, other = WriterLock(str(path), 0), WriterLock(str(path), 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock.held(), lock.held():
            raise ZeroDivisionError
        assert not file_of(path).exists()
        with other.held():
            pass


@pytest.mark.parametrize("instances", [1, 4])
def test_threads_take_turns(path, instances):
    """Whether they share an instance or have their own: never two at once."""
    locks = [WriterLock(str(path), 30) for _ in range(instances)]
    inside, most = [], []

    def work(number):
        for _ in range(5):
            with locks[number % instances].held():
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.001)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 20
    assert not file_of(path).exists()


def test_a_link_to_the_index_is_the_same_index(path, tmp_path, monkeypatch):
    link = tmp_path / "elsewhere" / "link.e2g"
    link.parent.mkdir()
    link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    with WriterLock(str(path), 0).held():
        for other in (str(link), "i.e2g", str(link.parent / ".." / "i.e2g")):
            with pytest.raises(StoreLockedError), WriterLock(other, 0).held():
                pass
    with WriterLock(str(link), 0).held():
        assert file_of(path).exists()
        assert not file_of(link).exists()


def test_it_stays_the_same_when_the_process_goes_to_another_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lock = WriterLock("i.e2g", 0)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    with lock.held():
        assert file_of(path).exists()


def test_indexes_in_memory_are_never_locked(open_index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with WriterLock(":memory:", 0).held(), WriterLock(":memory:", 0).held():
        pass
    one, other = open_index(lock_timeout=0), open_index(lock_timeout=0)
    with one.writer.exclusive():
        assert other.add(numbered(3)).documents == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("note", "named"),
    [(b"", "another process"), (b"\xff\xfe" * 9, "\ufffd"), (b"x" * 90_000, "x" * 500)],
)
def test_a_note_that_says_nothing_is_no_crash(path, note, named):
    with WriterLock(str(path), 0).held():
        file_of(path).write_bytes(note)
        with (
            pytest.raises(StoreLockedError, match=named) as caught,
            WriterLock(str(path), 0).held(),
        ):
            pass
    assert len(str(caught.value)) < 1000


def test_a_lock_file_that_someone_removed_is_no_crash(path):
    lock = WriterLock(str(path), 0)
    with lock.held():
        file_of(path).unlink()
    with lock.held():
        assert file_of(path).exists()


def test_nothing_is_left_after_any_work(path, open_index):
    rag = open_index(path)
    rag.add(numbered(3, "new"))
    rag.update(numbered(4, "new"))
    rag.delete("old")
    rag.resume()
    rag.compact()
    rag.close()
    assert [file.name for file in path.parent.iterdir()] == ["i.e2g"]


@pytest.mark.skipif(
    not hasattr(os, "fork") or os.getuid() != 0, reason="needs root, to become a user who is not"
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_in_a_folder_that_cannot_be_written_it_is_a_clear_error():
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        path = Path(name) / "i.e2g"
        path.touch()
        Path(name).chmod(0o555)

        def hold():
            with WriterLock(str(path), 0.1).held():
                return "held"

        said = as_nobody(hold)
        assert said.startswith(f"StoreError: {path} cannot be written (")
        assert "read-only" in said
        assert not file_of(path).exists()
