"""An index in a schema of a Postgres database.

Writes use one connection, which also holds the index lock: if it is lost, so is the lock. Write
transactions of all processes run one after the other, as in SQLite. Each read uses a connection of
a small pool, so that reads wait neither for writes nor for each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import psycopg
from psycopg import sql

from e2graphrag_integrations._utils.concurrency import process_lock, process_rlock
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.files import discard_folder
from e2graphrag_integrations._utils.postgres_urls import PostgresURL, parse_postgres_url
from e2graphrag_integrations.errors import (
    IndexGoneError,
    StoreConnectionError,
    StoreError,
    StoreLockedError,
)
from e2graphrag_integrations.store.database import LeaseHolder, NewestGeneration, Transaction
from e2graphrag_integrations.store.forks import OPEN_DATABASES, ForkableDatabase, leak
from e2graphrag_integrations.store.postgres.connection import (
    Connection,
    ConnectionPool,
    Statements,
    connect,
    is_lost,
    roll_back,
    session_of,
    translate_error,
    translated,
)
from e2graphrag_integrations.store.postgres.leases import HOLDERS, PostgresLeases
from e2graphrag_integrations.store.postgres.listener import ChangeListener
from e2graphrag_integrations.store.postgres.lock import PostgresLock, lock_key
from e2graphrag_integrations.store.postgres.schema import (
    MARKER,
    OWN_TABLES,
    check_version,
    drop_tables,
    is_prepared,
    list_schemas,
    prepare,
    relations,
)
from e2graphrag_integrations.store.rows import GENERATION, manifest_value

T = TypeVar("T")

_READERS = 8
"""Maximum number of connections for reads."""

_DROP_SECONDS = 1.0
"""How long one attempt to delete the tables waits for readers, and how long readers then have."""

_BATCH = 2000
"""Keys per query, which limits the number of rows in memory."""

_REFERENCES = (
    ("nodes", "document_id", "documents", "id"),
    ("nodes", "content_key", "content", "key"),
    ("windows", "node_id", "nodes", "id"),
    ("windows", "content_key", "content", "key"),
)
"""Columns that reference another table."""


class PostgresDatabase(ForkableDatabase):
    """A schema of a Postgres database; safe to share between threads.

    In a forked process, the database can be read but not written.

    Args:
        url: The URL of the index.
        timeout: Seconds to wait for a lock or for a free connection.
        before_creation: Called before the tables are created. If it raises an error, they are not.

    Attributes:
        path: The URL without a password.
        index_lock: Excludes other writers during an operation that spans many transactions.
        reference_error: The error of a statement that references a missing row.

    Raises:
        InvalidInputError: If the URL is invalid.
        StoreConnectionError: If the server cannot be reached, or refuses the connection.
        NotAnIndexError: If the schema contains other tables.
        SchemaVersionError: If the tables have another schema version.
        StoreError: If a privilege is missing.
    """

    reference_error: type[Exception] = psycopg.errors.ForeignKeyViolation

    def __init__(
        self,
        url: str | PostgresURL,
        *,
        timeout: float = 30.0,
        before_creation: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self._url = url if isinstance(url, PostgresURL) else parse_postgres_url(url)
        self.path = self._url.shown
        self._timeout = timeout
        self.index_lock = PostgresLock(self, self._url.schema, timeout)
        self._write_lock = process_rlock()
        self._writer_connection: Connection | None = None
        self._holds_session_lock = False
        self._pool = ConnectionPool(self._url, _READERS, timeout)
        self._held = threading.local()  # the connection of the thread's read transaction
        self._channel = f"e2graphrag_{lock_key('notices', self._url.schema):x}"
        self._newest = NewestGeneration()
        self._listen_lock = process_lock()
        self._listener: ChangeListener | None = None
        self._on_change: Callable[[], Callable[[], None] | None] | None = None
        self._is_prepared = False
        OPEN_DATABASES.add(self)
        with on_error(lambda _: self.close()):
            self._prepare(before_creation)

    def _prepare(self, before_creation: Callable[[], object]) -> None:
        connection = self._pool.take()
        try:
            with translated(self._url):
                self._session = session_of(connection)
                is_complete = is_prepared(connection, self._url)
        finally:
            self._pool.give_back(connection)
        if not is_complete:
            before_creation()
            with self.index_lock.acquire(), self._write_transaction() as writer:
                prepare(writer, self._url)
        self._is_prepared = True

    @property
    def location(self) -> str:
        """The URL with the password."""
        return self._url.complete

    @property
    def session_id(self) -> int:
        """The server's id of the connection that writes; 0 if there is none."""
        connection = self._writer_connection
        return 0 if connection is None else connection.info.backend_pid

    @property
    def snapshot_folder(self) -> Path:
        """A folder in the user's cache. Its name contains no secret.

        Users of the database, and sessions with other options, have different folders, because
        they may see different rows.
        """
        key = hashlib.sha256("\0".join([self.path, *self._session]).encode()).hexdigest()[:32]
        cache = _cache_folder()
        with contextlib.suppress(OSError):  # then the search index stays in memory
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cache / f"{self._url.schema}-{key}.snapshot"

    # Forks: a connection belongs to the process that opened it.

    def before_fork(self, deadline: float) -> None:
        """Do nothing: the child never uses or closes an inherited connection."""

    def after_fork_in_parent(self) -> None:
        """Do nothing."""

    def after_fork_in_child(self) -> None:
        """Leave the inherited connections to the parent."""
        self._process = os.getpid()
        for connection in (self._writer_connection, *self._pool.idle):
            if connection is not None:
                leak(connection)
        held = getattr(self._held, "connection", None)
        if held is not None:
            leak(held)
        self._held = threading.local()
        self._held.is_inherited = held is not None
        self._writer_connection, self._holds_session_lock = None, False
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.leave_to_parent()
        self._pool = ConnectionPool(self._url, _READERS, self._timeout)

    # Writes

    def _writer(self) -> Connection:
        """Return the connection for writes. Needs the write lock."""
        self._check_usable()
        self.check_writable()
        connection = self._writer_connection
        if connection is not None and is_lost(connection):
            connection.close()
            connection = self._writer_connection = None
        if connection is None:
            if self._holds_session_lock:
                raise self._lost_lock_error()
            connection = self._writer_connection = connect(self._url)
        return connection

    def _lost_lock_error(self) -> StoreConnectionError:
        return StoreConnectionError(
            f"the connection to {self.path} was lost during an operation, and with it the lock "
            "against other writers: call again (finished work is saved)"
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run the block in a write transaction: commit at the end, or roll back on an exception."""
        with self._write_transaction() as connection:
            yield Statements(connection)

    @contextlib.contextmanager
    def _write_transaction(self) -> Iterator[Connection]:
        with self._write_lock:
            try:
                with translated(self._url):
                    connection = self._begin()
                    if self._is_prepared:  # the index may have been replaced since
                        check_version(connection, self._url)
                    yield connection
                    connection.execute("COMMIT")
            finally:
                if self._writer_connection is not None:
                    roll_back(self._writer_connection)  # if the commit did not happen

    def insert(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run an insert for each row, in one round trip and without waiting for other writers.

        The order prevents two writers that insert the same rows from waiting for each other.
        """
        ordered = sorted(rows, key=lambda row: row[0])
        with self._write_lock:
            self._on_writer(lambda writer: Statements(writer).executemany(query, ordered))

    def _begin(self) -> Connection:
        """Begin a write transaction that excludes those of other processes."""
        begin = sql.SQL(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {timeout}; "
            "SELECT pg_advisory_xact_lock({key}); SET LOCAL lock_timeout = 0"
        ).format(
            timeout=sql.Literal(max(1, int(self._timeout * 1000))),
            key=sql.Literal(lock_key("write", self._url.schema)),
        )
        return self._on_writer(lambda writer: writer.execute(begin))

    def _on_writer(self, run: Callable[[Connection], object]) -> Connection:
        """Run a first statement on the connection for writes; connect again if it is lost."""
        for is_last in (False, True):
            connection = self._writer()
            try:
                run(connection)
            except psycopg.Error as error:
                roll_back(connection)
                if is_last or not is_lost(connection):
                    raise translate_error(error, self._url) from error
            else:
                return connection
        raise AssertionError("unreachable")

    def lock_session(self, query: str, keys: Mapping[str, int]) -> bool:
        """Run a query that tries to acquire an advisory lock for the connection for writes."""
        with self._write_lock, translated(self._url):
            connection = self._on_writer(lambda writer: writer.execute("SELECT 1"))
            row = connection.execute(query, keys).fetchone()
            is_locked = row is not None and bool(row[0])
            self._holds_session_lock |= is_locked
            return is_locked

    def unlock_session(self) -> None:
        """Release the advisory locks; a lost connection has released them."""
        with self._write_lock:
            self._holds_session_lock = False
            connection = self._writer_connection
            if connection is None or is_lost(connection):
                return
            # An interrupt may have left a transaction, or a lock whose row was not read.
            with contextlib.suppress(psycopg.Error), on_error(lambda _: connection.close()):
                roll_back(connection)
                connection.execute("SELECT pg_advisory_unlock_all()")

    # Reads

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a query and return all rows; once more if the server has closed the connection."""

        def ask(connection: Connection) -> list[Any]:
            return Statements(connection).execute(query, parameters).fetchall()

        held = self._held_connection()
        if held is None:
            return self.read_with(ask)
        with translated(self._url):
            return ask(held)

    def read_with(self, work: Callable[[Connection], T]) -> T:
        """Return the result of a function that reads outside of a read transaction.

        Args:
            work: Called with a connection; once more if the server has closed it.
        """
        self._check_usable()
        for is_last in (False, True):
            connection = self._pool.take(new=is_last)
            try:
                return work(connection)
            except psycopg.Error as error:
                if is_last or not is_lost(connection):
                    raise translate_error(error, self._url) from error
            finally:
                self._pool.give_back(connection)
        raise AssertionError("unreachable")

    def read_keys(self, query: str, column: str, keys: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows that have one of the keys in a column.

        The keys are one parameter, so that the statement is prepared once for any number of them.
        """
        for start in range(0, len(keys), _BATCH):
            batch = list(keys[start : start + _BATCH])
            yield from self.read(query.format(f"WHERE {column} = ANY(?)"), (batch,))

    @contextlib.contextmanager
    def own_connection(self) -> Iterator[Connection]:
        """Open a connection for other transactions than those of the store, and close it.

        Raises:
            StoreError: If this process is a fork of the one that opened the database.
        """
        self._check_usable()
        self.check_writable()
        with contextlib.closing(connect(self._url)) as connection, translated(self._url):
            yield connection

    def _held_connection(self) -> Connection | None:
        self._check_usable()
        if getattr(self._held, "is_inherited", False):
            raise StoreError(
                f"{self.path} was being read when this process was forked, so this process cannot "
                "continue: fork outside of a read transaction"
            )
        connection: Connection | None = getattr(self._held, "connection", None)
        return connection

    @contextlib.contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Run the block in a read transaction, so that all its reads see the same state.

        A nested block joins the outer transaction.
        """
        if self._held_connection() is not None:
            yield
            return
        pool = self._pool
        connection = self._begin_read(pool)
        self._held.connection = connection
        process = os.getpid()
        try:
            yield
        finally:
            if process == os.getpid():
                self._held.connection = None
                with contextlib.suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                pool.give_back(connection)

    def _begin_read(self, pool: ConnectionPool) -> Connection:
        for is_last in (False, True):
            connection = pool.take(new=is_last)
            with contextlib.ExitStack() as undo:
                undo.callback(pool.give_back, connection)
                try:
                    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                except psycopg.Error as error:
                    if is_last or not is_lost(connection):
                        raise translate_error(error, self._url) from error
                else:
                    undo.pop_all()
                    return connection
        raise AssertionError("unreachable")

    # Changes by other processes

    @property
    def newest(self) -> NewestGeneration | None:
        """The newest generation that is known; None for a thread that is in a read transaction."""
        return None if self._held_connection() is not None else self._newest

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call a bound method, in a thread of its own, when another process changed the index."""
        listener = self._listener
        if listener is not None and listener.is_running:
            return
        self._check_usable()
        with self._listen_lock:
            if self._is_closed or (self._listener is not None and self._listener.is_running):
                return
            self._on_change = weakref.WeakMethod(on_change)
            self._listener = ChangeListener(self._url, self._channel, self._check_newest)

    def _check_newest(self, connection: Connection) -> None:
        """Read the name of the newest generation; runs in the thread that listens."""
        began = time.monotonic()
        query = "SELECT * FROM manifest WHERE key = ?"
        row = Statements(connection).execute(query, (GENERATION,)).fetchone()
        is_new = self._newest.learn(manifest_value(row, GENERATION, self.path), began)
        on_change = None if self._on_change is None else self._on_change()
        if is_new and on_change is not None:
            on_change()

    def announce(self, db: Transaction) -> None:
        """Notify all listeners when a write transaction is committed."""
        db.execute("SELECT pg_notify(?, '')", (self._channel,))

    # Workers

    def leases(self, seconds: float) -> PostgresLeases:
        """Return the leases of a new worker."""
        return PostgresLeases(self._url, seconds)

    def lease_holders(self) -> Mapping[str, LeaseHolder]:
        """Return who holds each document that a worker holds, by id."""
        return {id_: LeaseHolder(worker, since) for id_, worker, since in self.read(HOLDERS)}

    # Tables

    def check_structure(self) -> tuple[int, list[str]]:
        """Return the number of checked references, and those to missing rows."""
        problems = []
        for table, column, parent, key in _REFERENCES:
            [(count,)] = self.read(
                f"SELECT count(*) FROM {table} c WHERE NOT EXISTS "  # noqa: S608 - constants
                f"(SELECT 1 FROM {parent} p WHERE p.{key} = c.{column})"
            )
            if count:
                problems.append(f"{count} rows of table {table} reference missing rows of {parent}")
        return len(_REFERENCES), problems

    def size(self) -> int:
        """Return the size of all tables and their indexes in bytes."""
        [(size,)] = self.read(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = current_schema() AND c.relkind = 'r'"
        )
        return int(size)

    def vacuum(self) -> None:
        """Let new rows use the space of deleted ones. Reads continue."""
        with self._write_lock:
            for table in OWN_TABLES:
                vacuum = sql.SQL("VACUUM {}").format(sql.Identifier(self._url.schema, table))
                self._on_writer(partial(Connection.execute, query=vacuum))

    def reopen(self) -> Self:
        """Return a second handle to the same index; never create one.

        Raises:
            IndexGoneError: If the index was dropped.
        """

        def refuse() -> None:
            raise IndexGoneError(
                f"{self.path} was dropped while it was open: close the index, and open it again to "
                "create a new one"
            )

        database = type(self)(self._url, before_creation=refuse)
        database._newest = self._newest  # noqa: SLF001 - of the same class
        return database

    def drop(self) -> None:
        """Delete the tables, the schema if nothing else is in it, and the cached search index.

        Raises:
            StoreLockedError: If another process is writing to the index, or reads it for longer
                than the timeout.
        """
        deadline = time.monotonic() + self._timeout
        with self.index_lock.acquire():
            while not self._is_dropped(is_last=time.monotonic() + _DROP_SECONDS >= deadline):
                time.sleep(_DROP_SECONDS)
        discard_folder(self.snapshot_folder)

    def _is_dropped(self, *, is_last: bool) -> bool:
        """Delete the tables, unless a reader holds them.

        Whoever waits for them lets all new readers wait, so each attempt is short.
        """
        try:
            with self._write_transaction() as connection:
                wait = sql.SQL("SET LOCAL lock_timeout = {}").format(int(_DROP_SECONDS * 1000))
                connection.execute(wait)
                drop_tables(connection, self._url.schema)
        except StoreLockedError:
            if is_last:
                raise
            return False
        return True

    @staticmethod
    def exists(url: PostgresURL) -> bool:
        """Return whether the schema of a URL contains an index."""
        with contextlib.closing(connect(url)) as connection, translated(url):
            return MARKER in (relations(connection, url.schema) or ())

    @staticmethod
    def list(url: PostgresURL) -> Sequence[tuple[str, int | None, int]]:
        """Return the schema, the number of documents and the size of each index in a database."""
        with contextlib.closing(connect(url)) as connection, translated(url):
            return list_schemas(connection)

    def close(self, *, merge_log: bool = True) -> None:
        """Close all connections; idempotent."""
        del merge_log
        with self._write_lock:
            if self._process != os.getpid():
                self.after_fork_in_child()
            self._is_closed = True
            if self._writer_connection is not None:
                self._writer_connection.close()
                self._writer_connection = None
            self._pool.close()
        with self._listen_lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()


def _cache_folder() -> Path:
    """Return the folder for the search indexes of databases."""
    own = os.environ.get("E2GRAPHRAG_CACHE")
    if own:
        return Path(own)
    import platformdirs

    return platformdirs.user_cache_path("e2graphrag", appauthor=False)
