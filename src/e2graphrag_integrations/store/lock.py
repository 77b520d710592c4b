"""The writer's lock: one process writes an index at a time, and who waits is told for whom.

SQLite's own lock is held for a transaction; this one for a whole piece of work, so that two
processes never pay for the same summaries. The system takes it back from a process that dies.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from e2graphrag_integrations.errors import StoreError, StoreLockedError
from e2graphrag_integrations.store.connection import MEMORY

_LONGEST_NOTE = 500


class WriterLock:
    """The lock of one index file, `<file>.lock` beside it while it is held.

    Args:
        path: Of the index; one in memory is never locked.
        timeout: Seconds to wait.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        # By the real path: a link to the index is the same index.
        self._file = Path(f"{os.path.realpath(path)}.lock")
        self._threads = threading.RLock()
        self._depth = 0

    @contextlib.contextmanager
    def held(self, given_up: Callable[[], bool] | None = None) -> Iterator[None]:
        """Hold the lock; a thread that holds it may do so again.

        Args:
            given_up: Asked while waiting; if it says so the wait ends as if the time were over.

        Raises:
            StoreLockedError: If another holds it for longer than the time-out; names who.
            StoreError: If the folder cannot be written.
        """
        with self._threads:
            if self._path == MEMORY or self._depth:
                yield
                return
            self._depth += 1
            try:
                with self._file_held(given_up):
                    yield
            finally:
                self._depth -= 1

    @contextlib.contextmanager
    def _file_held(self, given_up: Callable[[], bool] | None) -> Iterator[None]:
        lock = FileLock(self._file, thread_local=False)
        try:
            lock.acquire(timeout=self._timeout, cancel_check=given_up)
        except Timeout as error:
            raise StoreLockedError(
                f"{self._path} is being written by {self._holder()}: wait for it, or give a "
                "greater lock_timeout="
            ) from error
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written ({error}): it or its folder is read-only, or the "
                "disk is full; copy it to change it"
            ) from error
        try:
            self._tell()
            yield
        finally:
            with contextlib.suppress(OSError):  # filelock sees that a file it got is gone
                self._file.unlink()
            lock.release()

    def _tell(self) -> None:
        program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        note = f"process {os.getpid()} ({program}) on {socket.gethostname()} since {since}"
        with contextlib.suppress(OSError):
            self._file.write_text(note, encoding="utf-8")

    def _holder(self) -> str:
        try:
            note = self._file.read_text(encoding="utf-8", errors="replace")[:_LONGEST_NOTE].strip()
        except OSError:
            note = ""
        return note or "another process"
