"""Copying an index between a file and a Postgres database, row by row.

The copy has the same rows, and therefore the same ids, stamps, cached content and queue.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.files import delete_if_unused
from e2graphrag_integrations._utils.new_path import new_path
from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations._utils.validation import check_seconds
from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.settings import checked_path
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.location import drop_index, index_exists, shown_path
from e2graphrag_integrations.store.rows import checked_row, row_to_header
from e2graphrag_integrations.store.sqlite import check_no_log
from e2graphrag_integrations.store.store import Store

_KEYS: Mapping[str, tuple[str, ...]] = {
    "manifest": ("key",),
    "content": ("key",),
    "documents": ("id",),
    "queue": ("id",),
    "entity_edits": ("id",),
    "nodes": ("id",),
    "windows": ("node_id", "number"),
    "pending": ("id",),
    "mirrored": ("store", "id"),
}
"""The primary key of each table, in its first columns; each table after those it references."""

_WITHOUT_CHECKSUM = frozenset({"mirrored"})

_BATCH = 500
_DOCUMENTS = 20
"""Rows per batch; documents may be long."""


def copy_index(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, lock_timeout: float = 30.0
) -> None:
    """Copy an index: from a file or a Postgres database to another file or database.

    Args:
        source: The index file or URL to read.
        target: The index file or URL to create.
        lock_timeout: Seconds to wait while another process is writing.

    Raises:
        InvalidInputError: If the source does not exist, the target does, or `lock_timeout` is no
            number of seconds.
        CorruptStoreError: If a row of the source is damaged.
        StoreError: If the source cannot be read, the target cannot be written, or a deleted index
            at its path is open.
        MissingDependencyError: If psycopg is needed and not installed.
    """
    origin, destination = checked_path(source), checked_path(target)
    lock_timeout = check_seconds("lock_timeout", lock_timeout)
    if MEMORY in (origin, destination):
        raise InvalidInputError("an in-memory index cannot be copied: pass a file or a URL")
    if not index_exists(origin):
        raise InvalidInputError(f"{shown_path(origin)} does not exist")
    if not is_postgres_url(destination) and index_exists(destination):
        raise InvalidInputError(f"{destination} already exists: choose a new file")
    with contextlib.closing(Store(origin, timeout=lock_timeout)) as store:
        copy_store(store, destination, timeout=lock_timeout)


def copy_store(store: Store, target: str, *, replace: bool = False, timeout: float = 30.0) -> None:
    """Copy the current state of an open index to a new one, atomically.

    Args:
        store: The index to read.
        target: The index file or URL to create.
        replace: Whether to replace an existing file.
        timeout: Seconds to wait for a lock.

    Raises:
        InvalidInputError: If the target exists.
        CorruptStoreError: If a row is damaged.
        StoreError: If the target cannot be written.
    """
    if is_postgres_url(target):
        _copy_to_database(store, target, timeout)
        return
    with new_index(target, replace=replace) as copy:
        _copy_rows(store, copy)


@contextlib.contextmanager
def new_index(target: str, *, replace: bool = False) -> Iterator[Store]:
    """Yield an index that gets its name after the block; nothing is left after an error.

    Raises:
        InvalidInputError: If the target exists, unless it is replaced.
        StoreError: If the target cannot be written, or is open.
    """
    check_no_log(target)
    with new_path(Path(target), replace=replace, check=lambda: check_no_log(target)) as temporary:
        try:
            with contextlib.closing(Store(temporary)) as store:
                yield store
        finally:
            for suffix in ("-wal", "-shm"):
                delete_if_unused(Path(f"{temporary}{suffix}"))


def _copy_to_database(store: Store, target: str, timeout: float) -> None:
    is_new = not index_exists(target)

    def undo(_: BaseException) -> None:
        if is_new:
            with contextlib.suppress(StoreError, InvalidInputError):
                with contextlib.closing(Store(target, timeout=0)) as copy:
                    _check_empty(copy)
                drop_index(target, lock_timeout=0)

    with (
        on_error(undo),
        contextlib.closing(Store(target, timeout=timeout)) as copy,
        copy.index_lock.acquire(),
    ):
        _copy_rows(store, copy)


def _check_empty(store: Store) -> None:
    for table in ("documents", "queue", "pending", "content"):
        if store.read(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608 - constants
            raise InvalidInputError(f"{store.path} already contains an index: choose a new schema")


def _copy_rows(source: Store, target: Store) -> None:
    """Copy all rows in one transaction.

    Raises:
        InvalidInputError: If the target is not empty.
        CorruptStoreError: If a row does not match its checksum.
    """
    with source.read_transaction(), target.transaction() as db:
        _check_empty(target)
        db.execute("DELETE FROM manifest")
        db.execute("DELETE FROM entity_edits")
        for table in _KEYS:
            for rows in _batches(source, table):
                places = ", ".join("?" * len(rows[0]))
                db.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608 - placeholders only
        target.database.announce(db)


def _batches(store: Store, table: str) -> Iterator[list[Sequence[Any]]]:
    keys = _KEYS[table]
    columns = ", ".join(keys)
    size = _DOCUMENTS if table == "documents" else _BATCH
    order = f"ORDER BY {columns} LIMIT {size}"
    after = f"WHERE ({columns}) > ({', '.join('?' * len(keys))}) {order}"
    rows = store.read(f"SELECT * FROM {table} {order}")  # noqa: S608 - constants
    while rows:
        yield [_checked(row, table, store.path) for row in rows]
        last = rows[-1][: len(keys)]
        rows = store.read(f"SELECT * FROM {table} {after}", last)  # noqa: S608 - constants


def _checked(row: Sequence[Any], table: str, path: str) -> Sequence[Any]:
    if table == "documents":
        row_to_header(row, path)
    elif table not in _WITHOUT_CHECKSUM:
        checked_row(row, path, f"a row of {table}")
    return row
