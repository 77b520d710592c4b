"""One worker for each server: sessions, jobs and limits are kept in one process.

The workers of a server, such as those of `uvicorn --workers 2` or gunicorn, answer at the same
address. Each process locks a file for its index and each address at which it answers, and one that
cannot is a second worker. The system releases the lock of a process that ends in any way.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

MESSAGE = (
    "another worker of this server serves the index already, and sessions and jobs are kept in one "
    "process: start the server with one worker, as --workers 1, and without WEB_CONCURRENCY"
)

_WAIT = 6.0
"""Seconds for which a process waits for another one that is ending, as in a restart."""

_PAUSE = 0.1
"""Seconds between two attempts."""


class OneWorker:
    """Whether this process is the only one of its server; used in the event loop only.

    Args:
        index: The path or the URL of the index.
    """

    def __init__(self, index: str) -> None:
        self._index = index
        self._locks: dict[str, FileLock] = {}
        self._has_waited = False
        self._is_claimed = False

    async def is_only(self, *, at_start: bool = False) -> bool:
        """Return whether no other process answers for this index at the address of this one.

        Args:
            at_start: Whether the server starts. Its address may not be known before the first
                request, unless the parent process of its workers has opened it.
        """
        if self._is_claimed:
            return True
        limit = time.monotonic() + (0 if self._has_waited else _WAIT)
        while not self._try():
            if time.monotonic() >= limit:
                self._has_waited = True
                return False
            await asyncio.sleep(_PAUSE)
        self._is_claimed = not at_start
        return True

    def close(self) -> None:
        """Release the locks."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()
        self._is_claimed = False

    def _try(self) -> bool:
        for address in bound_addresses():
            if address in self._locks:
                continue
            lock = FileLock(_file(self._index, address), timeout=0, thread_local=False)
            try:
                lock.acquire()
            except Timeout:
                if _owner(lock.lock_file) == os.getpid():
                    continue  # another application of this process
                return False
            except OSError:
                continue  # the temporary folder cannot be written: nothing can be checked
            with contextlib.suppress(OSError):
                _write_owner(_owner_file(lock.lock_file))
            self._locks[address] = lock
        return True


def bound_addresses() -> set[str]:
    """Return the addresses at which this process accepts connections, or may soon.

    It is empty on systems that do not list the open files of a process, such as Windows.
    """
    return {address for number in _open_files() if (address := _address(number))}


def _open_files() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for path in list(Path("/dev/fd").iterdir()):
            yield int(path.name)


def _address(number: int) -> str:
    """Return the address of a socket that waits for connections; empty for any other file."""
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return ""
        with socket.socket(fileno=os.dup(number)) as own:
            return "" if _is_connected(own) else _address_of(own)
    except OSError:
        return ""


def _is_connected(one: socket.socket) -> bool:
    try:
        one.getpeername()
    except OSError:
        return False
    return True


def _address_of(one: socket.socket) -> str:
    address = one.getsockname() if one.type == socket.SOCK_STREAM else ""
    if isinstance(address, tuple):
        return f"{address[0]} {address[1]}" if address[1] else ""
    return str(address)


def _file(index: str, address: str) -> str:
    key = hashlib.sha256(f"{index}\0{address}".encode("utf-8", "replace")).hexdigest()[:32]
    user = os.getuid() if hasattr(os, "getuid") else 0
    return str(Path(tempfile.gettempdir()) / f"e2graphrag-serve-{user}-{key}.lock")


def _owner_file(lock_file: str) -> Path:
    return Path(f"{lock_file}.pid")


def _write_owner(path: Path) -> None:
    """Write the id of this process, but not through a link: anybody may create one there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))


def _owner(lock_file: str) -> int | None:
    try:
        return int(_owner_file(lock_file).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
