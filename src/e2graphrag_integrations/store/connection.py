"""Opening the file, and SQLite's errors in this package's words."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    NotAnIndexError,
    StoreError,
    StoreLockedError,
)

MEMORY = ":memory:"
_HEADER_BYTES = 100
"""Every SQLite file that is not empty has at least its header."""


def connect(path: str, timeout: float) -> sqlite3.Connection:
    """Open the file for reading and writing, or for reading where it cannot be written."""
    target = path
    if path != MEMORY and 0 < _size(path) < _HEADER_BYTES:
        # SQLite would take it for an empty database and write over it.
        raise NotAnIndexError(f"{path} is no e2graphrag index: give another path, or remove it")
    if path != MEMORY and is_read_only(path):
        # In WAL mode even reading writes a file beside the index; `immutable` does without.
        target = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(
        target,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        uri=target != path,
    )


def file_identity(path: str) -> tuple[int, int] | None:
    """Return what tells the file at a path from another put in its place, None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - at every read: making a Path takes longer than this
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_read_only(path: str) -> bool:
    """Tell whether the index is there, closed, and in a place that cannot be written."""
    file = Path(path)
    if not file.exists() or Path(f"{path}-wal").exists():
        return False
    return not (os.access(file, os.W_OK) and os.access(file.absolute().parent, os.W_OK))


def translate_error(error: sqlite3.DatabaseError | UnicodeDecodeError, path: str) -> StoreError:
    """Return the error of this package that says what SQLite's means."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreLockedError(
            f"{path} is being written by another process: wait for it, or index in one process"
        )
    if "not a database" in text:
        return NotAnIndexError(f"{path} is no e2graphrag index: give another path, or remove it")
    if isinstance(error, UnicodeDecodeError) or "malformed" in text or "no such" in text:
        return CorruptStoreError(f"{path} is damaged ({text}): restore a backup or index again")
    if "readonly" in text:
        return StoreError(
            f"{path} cannot be written: it or its folder is read-only; copy it to change it"
        )
    if "full" in text:
        return StoreError(
            f"{path} cannot be written, the disk is full: make room and do the same again; what "
            "was finished is kept"
        )
    return StoreError(f"{path}: {text}")


def _size(path: str) -> int:
    file = Path(path)
    return file.stat().st_size if file.exists() else 0
