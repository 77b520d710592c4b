"""The index file: transactions in an SQLite database, and reads that do not wait for a writer."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from e2graphrag_integrations._utils.concurrency import process_rlock
from e2graphrag_integrations._utils.decoding import check_format_version
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    IndexGoneError,
    InvalidInputError,
    NotAnIndexError,
    StoreError,
)
from e2graphrag_integrations.store.connection import (
    MEMORY,
    connect,
    file_identity,
    file_size,
    file_version,
    is_read_only,
    log_file,
    translate_error,
)
from e2graphrag_integrations.store.database import LeaseHolder, Transaction
from e2graphrag_integrations.store.forks import OPEN_DATABASES, ForkableDatabase, leak
from e2graphrag_integrations.store.lock import FileLeases, IndexLock
from e2graphrag_integrations.store.rows import new_generation
from e2graphrag_integrations.store.schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    TABLES,
    check_schema,
)

_BATCH = 500
"""Keys per query; below the limit on bound variables in every SQLite build."""

_CHECKPOINT_TIMEOUT = 1000
"""Maximum milliseconds that `vacuum` waits for readers before it keeps the write-ahead log."""


_LONGEST_SUFFIX = "-journal"
"""Longest suffix of the files that must be beside an index."""

_REPLACE_TIMEOUT = 5.0
"""Seconds to wait for a lock on a file that a copy will replace."""


class SQLiteDatabase(ForkableDatabase):
    """An SQLite database in a file or in memory; safe to share between threads.

    In a forked process, the database can be read but not written.

    Args:
        path: The index file, or `":memory:"` to keep everything in memory.
        timeout: Seconds to wait for a lock that another process holds.
        identity: The file that must be at the path (`file_identity`), to open it once more. None
            creates the file if there is none.

    Attributes:
        path: The path as given, for messages.
        location: The absolute path, because the working directory may change; ":memory:" remains.
        index_lock: Excludes other writers during an operation that spans many transactions.
        reference_error: The error of a statement that references a missing row.

    Raises:
        NotAnIndexError: If the file is not an index created by this package.
        SchemaVersionError: If the file has another schema version.
        InvalidInputError: If the path is a folder, or if its parent folder does not exist.
        StoreError: If this process inherited a connection to the file.
        IndexGoneError: If another file, or none, is at the path of the given identity.
    """

    reference_error: type[Exception] = sqlite3.IntegrityError

    def __init__(
        self,
        path: str | Path,
        *,
        timeout: float = 30.0,
        identity: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.path = str(path)
        self.location = self.path if self.path == MEMORY else str(Path(path).absolute())
        self._timeout = timeout
        self._write_lock = process_rlock()
        # A file has a second connection for reads, so that readers do not wait while a writer
        # waits for SQLite's lock. An in-memory database can have only one connection.
        self._read_lock = self._write_lock if self.path == MEMORY else process_rlock()
        if self.path != MEMORY:
            _check_place(self.path)
        self.index_lock = IndexLock(self.path, timeout)
        self._connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None
        self._identity = identity
        self._read_version: object = None  # of a read-only file: SQLite expects no changes
        self._locked_for_fork: list[Any] = []
        self._is_given_up = False
        if file_identity(self.path) in OPEN_DATABASES.given_up:
            raise self._given_up_error()
        OPEN_DATABASES.add(self)
        with on_error(lambda _: self.close()):
            try:
                with self._write_lock, self._read_lock:  # no fork until both connections exist
                    self._open(may_create=identity is None)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error

    def _open(self, *, may_create: bool) -> None:
        if may_create:
            self._connection = connect(self.path, self._timeout, create=True)
            self._identity = file_identity(self.path)
        else:
            self._connection = self._connect_again()
        self._prepare(self._connection, may_create=may_create)
        if self.path == MEMORY:
            self._read_connection = self._connection
        else:
            self._reader()

    def _prepare(self, db: sqlite3.Connection, *, may_create: bool = True) -> None:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA trusted_schema = OFF")
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and application != APPLICATION_ID:
            raise NotAnIndexError(f"{self.path} is an SQLite file but not an e2graphrag index")
        if (empty and not may_create) or (application == APPLICATION_ID and (empty or version < 1)):
            raise CorruptStoreError(f"the tables in {self.path} are missing: restore a backup")
        if not empty:
            check_format_version(self.path, version, SCHEMA_VERSION)
            check_schema(db, self.path)
        if is_read_only(self.path):
            return
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if empty:
            self._create()

    def _create(self) -> None:
        with self.transaction() as db:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return  # another process created the tables first
            for statement in TABLES.split(";"):
                if statement.strip():
                    db.execute(statement)
            new_generation(db)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @property
    def snapshot_folder(self) -> Path | None:
        """The folder next to the file; None for an in-memory database."""
        return None if self.path == MEMORY else Path(f"{self.location}.snapshot")

    def check_writable(self) -> None:
        """Reject a write in a forked process, and to a file that is gone.

        Raises:
            StoreError: If this process is a fork of the one that opened the database.
            IndexGoneError: If the file was deleted, moved or replaced.
        """
        super().check_writable()
        if not self._is_closed:
            self._check_identity()

    def _writer(self) -> sqlite3.Connection:
        """Return the connection for writes. Needs the write lock."""
        self._check_usable()
        self.check_writable()
        if self._connection is None:  # closed before a fork
            self._connection = self._connect_again()
        return self._connection

    def _reader(self) -> sqlite3.Connection:
        """Return the connection for reads. Needs the read lock."""
        self._check_usable()
        db = self._read_connection
        if db is not None and not self._is_outdated(db):
            return db
        if db is not None:
            db.close()
        self._read_connection = None
        self._read_version = file_version(self.location) if is_read_only(self.location) else None
        self._read_connection = db = self._connect_again()
        return db

    def _is_outdated(self, db: sqlite3.Connection) -> bool:
        """Return whether somebody who may write has changed a file that is read-only here."""
        if self._read_version is None or db.in_transaction:
            return False
        return self._read_version != file_version(self.location)

    def _connect_again(self) -> sqlite3.Connection:
        self._check_identity()
        try:
            connection = connect(self.location, self._timeout)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.DatabaseError as error:
            self._check_identity()  # it may have gone just now
            raise translate_error(error, self.path) from error
        return connection

    def _check_usable(self) -> None:
        super()._check_usable()
        if self._is_given_up:
            raise self._given_up_error()

    def _given_up_error(self) -> StoreError:
        return StoreError(
            f"{self.path} was in use when this process was forked, so this process cannot use it: "
            "fork while no thread uses the index, open the index only after the fork, or start "
            "the process with 'spawn'"
        )

    def before_fork(self, deadline: float) -> None:
        """Close the connections, and keep other threads from opening new ones; see `forks`."""
        for lock in dict.fromkeys((self._write_lock, self._read_lock)):
            if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return
            self._locked_for_fork.append(lock)
        if self.path != MEMORY and not self._in_transaction():
            self._close_connections()

    def after_fork_in_parent(self) -> None:
        """Allow connections again."""
        while self._locked_for_fork:
            self._locked_for_fork.pop().release()

    def after_fork_in_child(self) -> None:
        """Give up the connections that are still open."""
        self._process = os.getpid()
        was_idle = len(self._locked_for_fork) == len({self._write_lock, self._read_lock})
        self._locked_for_fork = []
        inherited = [one for one in (self._connection, self._read_connection) if one is not None]
        if not inherited or (self.path == MEMORY and was_idle and not self._in_transaction()):
            return
        self._is_given_up = True
        for connection in inherited:
            leak(connection)
        self._connection = self._read_connection = None
        if self._identity is not None:
            OPEN_DATABASES.given_up.add(self._identity)

    def _in_transaction(self) -> bool:
        connections = (self._connection, self._read_connection)
        return any(one is not None and one.in_transaction for one in connections)

    def _check_identity(self) -> None:
        """Raise if the path now has a different file: reads would be stale and writes lost."""
        if self.path == MEMORY:
            return
        found = file_identity(self.location)
        if found is None:
            raise IndexGoneError(
                f"{self.path} was deleted or moved while it was open: put the file back, or close "
                "the index and open the file where it is now"
            )
        if found != self._identity:
            raise IndexGoneError(
                f"{self.path} was replaced by another file while it was open: close the index and "
                "open it again"
            )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a write transaction: commit at the end, or roll back on an exception."""
        with self._write_lock:
            db = self._writer()
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error
            finally:
                if db.in_transaction:  # the commit did not happen
                    db.execute("ROLLBACK")

    def insert(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run an insert for each row, in one transaction."""
        with self.transaction() as db:
            db.executemany(query, rows)

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a query and return all rows."""
        with self._read_lock:
            db = self._reader()
            self._check_identity()
            try:
                return db.execute(query, parameters).fetchall()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error

    def read_keys(self, query: str, column: str, keys: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows that have one of the keys in a column, in batches."""
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            placeholders = ",".join("?" * len(batch))
            yield from self.read(query.format(f"WHERE {column} IN ({placeholders})"), batch)

    @property
    def newest(self) -> None:
        """None: reading the name of the newest generation from the file costs little."""
        return

    def listen(self, on_change: Callable[[], None]) -> None:
        """Do nothing: a file sends no notices."""

    def announce(self, db: Transaction) -> None:
        """Do nothing: a file sends no notices."""

    @contextlib.contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Run the block in a read transaction, so that all its reads see the same state.

        A nested block joins the outer transaction.
        """
        with self._read_lock:
            db = self._reader()
            if db.in_transaction:
                yield
                return
            try:
                db.execute("BEGIN")
                yield
            finally:
                if db.in_transaction:  # SQLite itself rolls back after a severe error
                    db.execute("ROLLBACK")

    def leases(self, seconds: float) -> FileLeases:
        """Return the leases of a new worker, which last as long as it holds the lock."""
        del seconds
        return FileLeases(self.read)

    def lease_holders(self) -> Mapping[str, LeaseHolder]:
        """Return nothing: only the process that holds the lock indexes documents."""
        return {}

    def check_structure(self) -> tuple[int, list[str]]:
        """Return the number of checks by SQLite, and the problems that they found."""
        lines = [line for (line,) in self.read("PRAGMA integrity_check")]
        problems = [f"SQLite: {line}" for line in lines if line != "ok"]
        problems += [
            f"row {row} of table {table} references a missing row of table {parent}"
            for table, row, parent, _ in self.read("PRAGMA foreign_key_check")
        ]
        return len(lines), problems

    def size(self) -> int:
        """Return the size of the database in bytes."""
        if self.path != MEMORY:
            return file_size(self.location)
        [(pages,)] = self.read("PRAGMA page_count")
        [(page_size,)] = self.read("PRAGMA page_size")
        return int(pages) * int(page_size)

    def reopen(self) -> Self:
        """Return a second handle to the file; an in-memory database has only one."""
        if self.path == MEMORY:
            return self
        self._check_identity()
        return type(self)(self.location, identity=self._identity)

    def vacuum(self) -> None:
        """Rewrite the file without its free pages, and merge the write-ahead log into it."""
        with self._write_lock:
            db = self._writer()
            try:
                db.execute("VACUUM")
                # If a reader is active, the log remains, and the next `close` merges it.
                [(timeout,)] = db.execute("PRAGMA busy_timeout").fetchall()
                db.execute(f"PRAGMA busy_timeout = {min(timeout, _CHECKPOINT_TIMEOUT)}")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                db.execute(f"PRAGMA busy_timeout = {timeout}")
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error

    def dump(self) -> bytes:
        """Return the content of an in-memory database."""
        with self._read_lock:
            return self._reader().serialize()

    def load(self, content: bytes) -> None:
        """Replace the content of an in-memory database by the result of `dump`.

        Raises:
            CorruptStoreError: If the content is damaged.
        """
        with self._write_lock, contextlib.closing(sqlite3.connect(MEMORY)) as source:
            try:
                source.deserialize(content)
                source.backup(self._writer())  # a deserialized database has a maximum size
                self._prepare(self._writer())
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error

    def copy_to(self, path: str | Path) -> None:
        """Copy the current state to a different file, atomically.

        Raises:
            StoreError: If the copy cannot be written, or the file was opened meanwhile.
        """
        from e2graphrag_integrations._utils.new_path import new_path

        new = new_path(Path(path), replace=True, check=lambda: check_no_log(str(path)))
        try:
            with new as temporary, self._read_lock:
                db = self._reader()
                self._check_identity()
                db.execute("VACUUM INTO ?", (str(temporary.absolute()),))
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise translate_error(error, str(path)) from error

    def close(self, *, merge_log: bool = True) -> None:
        """Merge the write-ahead log into the file, then close the file; idempotent.

        Args:
            merge_log: False only closes the file, for a second handle of the same process.
        """
        with self._write_lock, self._read_lock:
            if self._process != os.getpid():
                self.after_fork_in_child()
            self._is_closed = True
            if self._connection is not None and merge_log and not self._is_replaced():
                # A damaged file cannot be merged.
                with contextlib.suppress(sqlite3.DatabaseError, UnicodeDecodeError):
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._close_connections()

    def _close_connections(self) -> None:
        # SQLite finds the log by its name, and would delete that of the new file.
        end = leak if self._is_replaced() else sqlite3.Connection.close
        for connection in {self._read_connection, self._connection}:
            if connection is not None:
                end(connection)
        self._connection = self._read_connection = None

    def _is_replaced(self) -> bool:
        """Return whether another file now has the path."""
        return file_identity(self.location) not in (None, self._identity)


def _check_place(path: str) -> None:
    """Check that there may be a file at a path.

    Raises:
        InvalidInputError: If the path is a folder, its parent folder does not exist, or its name is
            too long.
    """
    if Path(path).is_dir():
        raise InvalidInputError(f"{path} is a folder: pass the path of a file")
    if not Path(path).absolute().parent.is_dir():
        raise InvalidInputError(f"the folder {Path(path).absolute().parent} does not exist")
    try:
        Path(f"{path}{_LONGEST_SUFFIX}").stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be used: {error}") from error


def check_replaceable(path: str) -> None:
    """Check that the file at a path, if there is one, is an index, which a copy may replace.

    Raises:
        InvalidInputError: If the path is a folder, or if its parent folder does not exist.
        NotAnIndexError: If it is another file.
        StoreError: If it cannot be read.
    """
    _check_place(path)
    if not Path(path).exists():
        check_no_log(path)
        return
    if not file_size(path):
        return
    try:
        with contextlib.closing(connect(path, _REPLACE_TIMEOUT)) as db:
            application = db.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise translate_error(error, path) from error
    if application != APPLICATION_ID:
        raise NotAnIndexError(f"{path} is an SQLite file but not an e2graphrag index")
    check_no_log(path)  # that of a process which was killed is gone now


def check_no_log(path: str) -> None:
    """Check that nobody has the file at a path open, so that another file can take its place.

    SQLite would take the log of the old file for that of the new one.

    Raises:
        StoreError: If somebody has.
    """
    log = log_file(path)
    if log.exists():
        raise StoreError(
            f"cannot write {path}, because it is open: close it in this and all other processes "
            f"(if no process has it open, delete {log}), or choose another path"
        )
