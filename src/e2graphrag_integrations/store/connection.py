"""Opening the index file, and translating SQLite's errors into this package's errors."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path, PurePath

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    NotAnIndexError,
    StoreError,
    StoreLockedError,
)

MEMORY = ":memory:"
"""Path that stands for an in-memory index."""

_HEADER_BYTES = 100
"""Size of the header that every non-empty SQLite file starts with."""


class _Connection(sqlite3.Connection):
    """A connection that closes itself when its index is dropped, as one in a LlamaIndex index is.

    From Python 3.13 on, `sqlite3` warns of a connection that nobody closed.
    """

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it could not be opened
            self.close()


def connect(path: str, timeout: float, *, create: bool = False) -> sqlite3.Connection:
    """Connect to the index file, in read-only mode if the file cannot be written.

    Args:
        path: The index file, or `":memory:"`.
        timeout: Seconds to wait for SQLite's lock.
        create: Whether to create the file if there is none. Otherwise, SQLite raises an error.

    Raises:
        NotAnIndexError: If the file is too short to be an SQLite file.
    """
    # Absolute, because SQLite may read "file:notes.e2g" as a URI.
    target = path if path == MEMORY else str(Path(path).absolute())
    is_uri = False
    if 0 < file_size(path) < _HEADER_BYTES:
        # SQLite would treat the file as an empty database and overwrite it.
        raise NotAnIndexError(
            f"{path} is not an e2graphrag index: pass a different path or remove the file"
        )
    if is_read_only(path):
        # In WAL mode, even a reader writes a file next to the index. `immutable` avoids that.
        target, is_uri = f"{file_uri(Path(path).absolute())}?mode=ro&immutable=1", True
    elif path != MEMORY and not create:
        target, is_uri = f"{file_uri(Path(path).absolute())}?mode=rw", True
    return sqlite3.connect(
        target,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        uri=is_uri,
        factory=_Connection,
    )


def file_uri(path: PurePath) -> str:
    """Return the URI of an absolute path for SQLite, which refuses the name of a host in it."""
    uri = path.as_uri()
    return uri if uri.startswith("file:///") else uri.replace("file://", "file:////", 1)


def file_identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - runs on every read; building a Path is slower
    except OSError:
        return None
    return status.st_dev, status.st_ino


def file_version(path: str) -> object:
    """Return a value that changes whenever another process writes to an index file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, log_file(path).exists()


def log_file(path: str) -> Path:
    """Return the write-ahead log of an index file, which exists while the file is open.

    SQLite follows symbolic links: the log is in the folder of the file, not in that of the link.
    """
    return Path(f"{os.path.realpath(path)}-wal")


def file_size(path: str) -> int:
    """Return the size of the index file and its write-ahead log in bytes; 0 if in memory."""
    files = () if path == MEMORY else (Path(path), log_file(path))
    return sum(file.stat().st_size for file in files if file.exists())


def is_read_only(path: str) -> bool:
    """Return whether the file exists, cannot be written, and is not open in any process."""
    file = Path(path)
    if path == MEMORY or not file.exists() or log_file(path).exists():
        return False
    return not (os.access(file, os.W_OK) and os.access(log_file(path).parent, os.W_OK))


_PROBLEMS = {
    "readonly": (
        "cannot write {path}: the file or its folder is read-only; copy it to a writable folder"
    ),
    "full": (
        "cannot write {path}: the disk is full; free some space and retry (finished work is saved)"
    ),
    "unable to open": (
        "{path} cannot be opened or created: the file or its folder is protected, a link leads "
        "nowhere, or this process has too many open files"
    ),
}
"""The problem and its remedy, by a part of SQLite's message."""


def translate_error(error: sqlite3.DatabaseError | UnicodeDecodeError, path: str) -> StoreError:
    """Return this package's error for an error raised by SQLite."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreLockedError(
            f"another process is writing {path}: wait for it, or index in one process"
        )
    if "not a database" in text:
        return NotAnIndexError(
            f"{path} is not an e2graphrag index: pass a different path or remove the file"
        )
    if isinstance(error, UnicodeDecodeError) or "malformed" in text or "no such" in text:
        return CorruptStoreError(f"{path} is damaged ({text}): restore a backup or index again")
    for part, message in _PROBLEMS.items():
        if part in text:
            return StoreError(message.format(path=path))
    return StoreError(f"{path}: {text}")
