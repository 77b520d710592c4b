"""The index lock, which lets only one process at a time change an index.

SQLite's own lock lasts for one transaction. The index lock lasts for a complete operation, so that
two processes never pay for the same summaries. The operating system releases the lock when the
process that holds it dies.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from e2graphrag_integrations._utils.concurrency import process_rlock
from e2graphrag_integrations._utils.files import delete_if_unused
from e2graphrag_integrations.errors import StoreError, StoreLockedError
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.database import Transaction, Writer

_NOTE_AT = 1
"""Where the note begins in the lock file: Windows locks the first byte, even against reading."""

_MAX_NOTE = 2000
"""Maximum number of characters that are read from the lock file."""

_POLL_SECONDS = 0.05
"""Seconds between two attempts to acquire the lock."""

_TURN_SECONDS = 2 * _POLL_SECONDS
"""Seconds for which a worker leaves the lock to others before it takes the lock again."""

_MAX_DOCUMENTS = 256
"""Maximum number of documents that a worker claims at once. Their texts are in memory together, and
others wait for the lock until they are indexed."""

_WITHOUT_LOCKS = frozenset(
    {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}
)
"""Errors of file systems that have no locks, such as some network mounts."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_READ_ONLY = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class IndexLock:
    """The lock of one index: a file named `<index>.lock`, which exists while the lock is held.

    Args:
        path: The index file; an in-memory index is never locked.
        timeout: Seconds to wait for another process to release the lock.
    """

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        # The path is resolved so that symbolic links to the same index share one lock.
        self._file = Path(f"{os.path.realpath(path)}.lock")
        self._file_lock = FileLock(self._file, thread_local=False)
        self._thread_lock = process_rlock()
        self._owner = Writer.here()  # since it acquired the lock
        self._shared_until = -math.inf

    @contextlib.contextmanager
    def acquire(self, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Hold the lock while the block runs; see `WriteLock`."""
        with self._thread_lock:
            if self._path == MEMORY or self._file_lock.is_locked:
                yield
                return
            try:
                self._file_lock.acquire(
                    timeout=self._timeout, poll_interval=_POLL_SECONDS, cancel_check=cancelled
                )
            except Timeout as error:
                raise StoreLockedError(
                    f"{self._path} is being written by {self._read_owner()}: wait for it, or "
                    "increase lock_timeout="
                ) from error
            except OSError as error:
                raise StoreError(
                    f"cannot write {self._path} ({error}): {_reason(error)}"
                ) from error
            try:
                self._owner = Writer.here()
                self._write_owner()
                yield
            finally:
                try:
                    # filelock detects that it was deleted. Windows refuses; there, the file is
                    # deleted when it is released.
                    delete_if_unused(self._file)
                finally:  # an interrupt must not leave the lock held
                    self._file_lock.release()

    @contextlib.contextmanager
    def share(self, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Hold the lock: a file has only one worker at a time. Others get their turn before."""
        time.sleep(max(0.0, self._shared_until + _TURN_SECONDS - time.monotonic()))
        with self.acquire(cancelled):
            try:
                yield
            finally:
                self._shared_until = time.monotonic()

    def own(self) -> Writer | None:
        """Return this handle as a writer if it holds the lock; see `WriteLock`."""
        return self._owner if self._path == MEMORY or self._file_lock.is_locked else None

    def holder(self) -> Writer | None:
        """Return who else holds the lock now; see `WriteLock`."""
        if self._path == MEMORY or self._file_lock.is_locked or not self._file.exists():
            return None
        probe = FileLock(self._file, thread_local=False)
        try:
            probe.acquire(timeout=0)
        except Timeout:
            return self._read_owner()
        except OSError:
            return None
        probe.release()
        return None  # the file was left behind by a process that was killed

    def _write_owner(self) -> None:
        with contextlib.suppress(OSError), self._file.open("r+b", buffering=0) as file:
            file.seek(_NOTE_AT)
            file.write(self._owner.to_json().encode())
            file.truncate()

    def _read_owner(self) -> Writer:
        try:
            with self._file.open("rb", buffering=0) as file:
                file.seek(_NOTE_AT)
                return Writer.from_json(file.read(_MAX_NOTE).decode())
        except (OSError, ValueError):  # the owner may be about to write its note
            return Writer()


def _reason(error: OSError) -> str:
    """Return why the lock file cannot be made or locked, and what to do."""
    if error.errno in _WITHOUT_LOCKS:
        return (
            "the file system has no locks, which keep two processes from writing one index; move "
            "the index to a local disk, or keep it in Postgres"
        )
    if error.errno in _DISK_FULL:
        return "the disk is full; free some space and retry"
    if error.errno in _READ_ONLY:
        return "the file or its folder is read-only; copy it to a writable folder"
    return "check the folder of the index"


_NEXT = "SELECT id FROM queue WHERE status <> 'failed' ORDER BY number, id LIMIT ?"


class FileLeases:
    """Holds documents in the queue of a file, whose lock excludes other workers.

    Args:
        read: Runs a query.
    """

    def __init__(self, read: Callable[[str, Sequence[Any]], list[Any]]) -> None:
        self._read = read
        self._locked: set[str] = set()
        self._lock = threading.Lock()

    def claim(self) -> Mapping[str, int]:
        """Return the ids of the next documents that have not failed."""
        return {id_: 1 for (id_,) in self._read(_NEXT, (_MAX_DOCUMENTS,))}

    def check(self, db: Transaction, document_id: str) -> None:
        """Do nothing: the lock of the file excludes other workers."""

    def release(self) -> None:
        """Do nothing: the documents are held only as long as the lock of the file."""

    def try_lock(self, names: Sequence[str]) -> str | None:
        """Lock the first free name, and return it; None if none is free."""
        with self._lock:
            free = next((name for name in names if name not in self._locked), None)
            if free is not None:
                self._locked.add(free)
            return free

    def unlock(self, name: str) -> None:
        """Unlock a name."""
        with self._lock:
            self._locked.discard(name)

    def close(self) -> None:
        """Do nothing."""
