"""The index lock admits one process at a time, names it in errors, and survives its death."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.errors import StoreError, StoreLockedError
from e2graphrag_integrations.store.lock import IndexLock
from fakes import numbered, run_without_override

LOCK_SCRIPT = """
import sys

from e2graphrag_integrations.store.lock import IndexLock

with IndexLock(sys.argv[1], 10).acquire():
    print("locked", flush=True)
    sys.stdin.readline()
print("released", flush=True)
"""


@contextmanager
def locked_by_another_process(path):
    """Take the lock of an index in another process."""
    script = path.parent / "night_job.py"
    script.write_text(LOCK_SCRIPT)
    with subprocess.Popen(
        [sys.executable, script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def in_a_thread(work):
    """Run `work` in a thread; return the thread and a list that receives the outcome."""
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
    """Create an index of one document, and close it."""
    path = tmp_path / "i.e2g"
    with open_index(path) as rag:
        rag.add(numbered(3, "old"))
    return path


def lock_file(path):
    return Path(f"{path}.lock")


def test_a_writer_waits_for_another_process_and_names_it_on_timeout(path, open_index):
    rag = open_index(path, lock_timeout=0.3)
    patient = open_index(path, lock_timeout=30)
    with locked_by_another_process(path) as process:
        began = time.monotonic()
        with pytest.raises(StoreLockedError) as caught:
            rag.add(numbered(3, "new"))
        assert 0.3 <= time.monotonic() - began < 5
        message = str(caught.value)
        assert message.startswith(f"{path} is being written by process {process.pid} ")
        assert f"(night_job.py) on {socket.gethostname()} since 20" in message
        assert "lock_timeout" in message
        for work in (
            lambda: rag.update(SourceDocument("old", "Anna.")),
            lambda: rag.delete("old"),
            rag.resume,
            rag.compact,
        ):
            with pytest.raises(StoreLockedError, match=f"process {process.pid} "):
                work()
        assert rag.retrieve("Item 1").nodes  # readers do not wait
        assert (rag.verify().ok, [s.status for s in rag.status()]) == (True, ["done"])
        waiting, outcome = in_a_thread(lambda: patient.add(numbered(3, "new")))
        time.sleep(0.1)
        assert waiting.is_alive()
        process.kill()  # SIGKILL: the process cannot clean up
        waiting.join(10)
    assert outcome[0].documents == 1
    assert rag.document_ids == ["new", "old"]
    assert not lock_file(path).exists()


def test_the_lock_file_of_a_killed_process_blocks_nobody(path, open_index):
    with locked_by_another_process(path) as process:
        process.kill()
        process.wait()
    assert lock_file(path).exists()
    rag = open_index(path, lock_timeout=0)
    assert rag.add(numbered(3, "new")).documents == 1
    assert not lock_file(path).exists()


def test_a_waiting_writer_continues_when_the_other_process_releases_the_lock(path, open_index):
    rag = open_index(path, lock_timeout=30)
    with locked_by_another_process(path) as process:
        waiting, outcome = in_a_thread(lambda: rag.add(numbered(3, "new")))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "released\n"
        waiting.join(10)
    assert outcome[0].documents == 1
    assert not lock_file(path).exists()


def test_an_interrupt_while_the_lock_file_is_deleted_releases_the_lock(path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    lock = IndexLock(str(path), 0)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupt)
        with pytest.raises(KeyboardInterrupt), lock.acquire():
            pass
    with IndexLock(str(path), 0).acquire():
        pass


def test_the_lock_is_reentrant(path):
    lock, other = IndexLock(str(path), 1), IndexLock(str(path), 0)
    with lock.acquire():
        with lock.acquire(), lock.acquire():
            pass
        assert lock_file(path).exists()
        with pytest.raises(StoreLockedError), other.acquire():
            pass
    assert not lock_file(path).exists()
    with other.acquire():
        pass


def test_an_error_in_the_block_releases_the_lock(path):
    lock, other = IndexLock(str(path), 0), IndexLock(str(path), 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock.acquire(), lock.acquire():
            raise ZeroDivisionError
        assert not lock_file(path).exists()
        with other.acquire():
            pass


@pytest.mark.parametrize("instances", [1, 4])
def test_only_one_thread_at_a_time_has_the_lock(path, instances):
    """Threads may share an instance or have their own."""
    locks = [IndexLock(str(path), 30) for _ in range(instances)]
    inside, counts = [], []

    def work(number):
        for _ in range(5):
            with locks[number % instances].acquire():
                inside.append(number)
                counts.append(len(inside))
                time.sleep(0.001)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counts == [1] * 20
    assert not lock_file(path).exists()


def test_threads_cannot_make_the_lock_of_a_file_twice(path, monkeypatch):
    made = []

    def make(*arguments, **options):
        made.append(FileLock(*arguments, **options))
        return made[-1]

    monkeypatch.setattr("e2graphrag_integrations.store.lock.FileLock", make)
    lock = IndexLock(str(path), 0)
    assert len(made) == 1  # before a thread can use it
    with lock.acquire():
        assert made[0].is_locked
    assert len(made) == 1


def test_a_symbolic_link_shares_the_lock_of_its_index(path, tmp_path, monkeypatch):
    link = tmp_path / "elsewhere" / "link.e2g"
    link.parent.mkdir()
    link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    with IndexLock(str(path), 0).acquire():
        for other in (str(link), "i.e2g", str(link.parent / ".." / "i.e2g")):
            with pytest.raises(StoreLockedError), IndexLock(other, 0).acquire():
                pass
    with IndexLock(str(link), 0).acquire():
        assert lock_file(path).exists()
        assert not lock_file(link).exists()


def test_changing_the_working_directory_does_not_change_the_lock(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lock = IndexLock("i.e2g", 0)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    with lock.acquire():
        assert lock_file(path).exists()


def test_indexes_in_memory_are_never_locked(open_index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with IndexLock(":memory:", 0).acquire(), IndexLock(":memory:", 0).acquire():
        pass
    one, other = open_index(lock_timeout=0), open_index(lock_timeout=0)
    with one.write_lock():
        assert other.add(numbered(3)).documents == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("note", [b"", b"\xff\xfe" * 9, b"x" * 90_000, b"[" * 2000, b'{"pid": []}'])
def test_an_unreadable_lock_file_still_gives_a_clear_error(path, note):
    with IndexLock(str(path), 0).acquire():
        lock_file(path).write_bytes(note)
        with (
            pytest.raises(StoreLockedError, match="another process") as caught,
            IndexLock(str(path), 0).acquire(),
        ):
            pass
    assert len(str(caught.value)) < 1000


def test_a_deleted_lock_file_does_not_break_the_lock(path):
    lock = IndexLock(str(path), 0)
    with lock.acquire():
        lock_file(path).unlink()
    with lock.acquire():
        assert lock_file(path).exists()


def test_no_operation_leaves_a_lock_file(path, open_index):
    rag = open_index(path)
    rag.add(numbered(3, "new"))
    rag.update(numbered(4, "new"))
    rag.delete("old")
    rag.resume()
    rag.compact()
    rag.close()
    assert [file.name for file in path.parent.iterdir()] == ["i.e2g"]


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="needs root on Linux, to drop its rights"
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_read_only_folder_gives_a_clear_error(tmp_path):
    path = tmp_path / "folder" / "i.e2g"
    path.parent.mkdir()
    path.touch()
    path.parent.chmod(0o555)

    def lock():
        with IndexLock(str(path), 0.1).acquire():
            return "locked"

    message = run_without_override(lock)
    assert message.startswith(f"StoreError: cannot write {path} (")
    assert "read-only" in message
    assert not lock_file(path).exists()


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOLCK, "has no locks"),
        (errno.EOPNOTSUPP, "has no locks"),
        (errno.ENOSPC, "disk is full"),
        (errno.EROFS, "is read-only"),
        (errno.EIO, "check the folder"),
    ],
)
def test_an_error_names_its_own_reason_only(tmp_path, monkeypatch, number, advice):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(FileLock, "acquire", fail)
    with (
        pytest.raises(StoreError, match=advice) as caught,
        IndexLock(str(tmp_path / "i.e2g"), 0).acquire(),
    ):
        pass
    reasons = ["has no locks", "disk is full", "is read-only", "check the folder"]
    assert sum(one in str(caught.value) for one in reasons) == 1


def test_a_lock_tells_others_who_holds_it_and_since_when(tmp_path):
    own, other = (IndexLock(str(tmp_path / "i.e2g"), 0) for _ in range(2))
    assert own.holder() is None
    with other.acquire():
        shown = rf"process {os.getpid()} \(.*\) on .* since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        assert re.fullmatch(shown, str(own.holder()))
        assert (own.holder(), own.own(), other.holder()) == (other.own(), None, None)
    assert own.holder() is None
    (tmp_path / "i.e2g.lock").write_text("process 1 on this host", encoding="utf-8")
    assert own.holder() is None  # the process was killed
    assert IndexLock(":memory:", 0).holder() is None
