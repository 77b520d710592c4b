"""The file itself: opening, transactions, and reading beside a writer."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from e2graphrag_integrations.errors import (
    ClosedError,
    CorruptStoreError,
    InvalidInputError,
    NotAnIndexError,
    SchemaVersionError,
    StoreError,
)
from e2graphrag_integrations.store.connection import (
    MEMORY,
    connect,
    file_identity,
    is_read_only,
    translate_error,
)
from e2graphrag_integrations.store.lock import WriterLock
from e2graphrag_integrations.store.migrations import migrate
from e2graphrag_integrations.store.rows import put_manifest
from e2graphrag_integrations.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES

GENERATION = "generation"

_CHECKPOINT_PATIENCE = 1000
"""Milliseconds to wait for readers."""


class Database:
    """One SQLite file, or one in memory; safe to share between threads.

    Args:
        path: The file; `":memory:"` keeps everything in memory.
        timeout: Seconds to wait for another process's write lock.

    Attributes:
        writer: Held for a whole piece of writing, which is of many transactions.

    Raises:
        NotAnIndexError: If the file is something else.
        SchemaVersionError: If a newer version made it, or an older one and it cannot be written.
        InvalidInputError: If its folder does not exist.
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        self.path = str(path)
        self._writing = threading.RLock()
        # In memory there is but one connection; a file has one for reading, whose users need not
        # wait while another waits for the write lock.
        self._reading = self._writing if self.path == MEMORY else threading.RLock()
        if self.path != MEMORY:
            if Path(path).is_dir():
                raise InvalidInputError(f"{path} is a folder; name a file for the index")
            if not Path(path).absolute().parent.is_dir():
                raise InvalidInputError(f"folder {Path(path).absolute().parent} does not exist")
        self.writer = WriterLock(self.path, timeout)
        self._connection: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        try:
            self._connection = connect(self.path, timeout)
            self._place = file_identity(self.path)
            self._prepare()
            self._reader = self._connection if self.path == MEMORY else connect(self.path, timeout)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError):
                raise translate_error(error, self.path) from error
            raise

    def _prepare(self) -> None:
        db = self._db
        db.execute("PRAGMA foreign_keys = ON")
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and application != APPLICATION_ID:
            raise NotAnIndexError(f"{self.path} is an SQLite file but no e2graphrag index")
        if application == APPLICATION_ID and (empty or version < 1):
            raise CorruptStoreError(f"{self.path} has lost its tables: restore a backup")
        if version > SCHEMA_VERSION:
            raise SchemaVersionError(
                f"{self.path} has schema version {version}, this package reads up to "
                f"{SCHEMA_VERSION}: upgrade e2graphrag-integrations"
            )
        old = not empty and version < SCHEMA_VERSION
        if self.path != MEMORY and is_read_only(self.path):
            if old:
                raise SchemaVersionError(
                    f"{self.path} has schema version {version}, which is to be brought to "
                    f"{SCHEMA_VERSION}, and cannot be written: copy it to where it can"
                )
            return
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if empty:
            self._create()
        elif old:
            self._migrate()

    def _create(self) -> None:
        with self.transaction() as db:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return  # another process was quicker
            for statement in TABLES.split(";"):
                if statement.strip():
                    db.execute(statement)
            new_generation(db)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _migrate(self) -> None:
        self._db.execute("PRAGMA foreign_keys = OFF")  # tables are replaced, not emptied
        try:
            with self.transaction() as db:
                migrate(db, self.path)
        finally:
            self._db.execute("PRAGMA foreign_keys = ON")

    @property
    def is_closed(self) -> bool:
        """Whether `close()` was called."""
        return self._connection is None

    @property
    def _db(self) -> sqlite3.Connection:
        return self._open(self._connection)

    def _open(self, connection: sqlite3.Connection | None) -> sqlite3.Connection:
        if connection is None:
            raise ClosedError(f"index {self.path} is closed; open it again")
        return connection

    def _check_place(self) -> None:
        """Refuse to go on with a file that is no longer the one at its path.

        What is written to it would be lost, and what is read from it would be old.
        """
        if self.path != MEMORY and self._place != file_identity(self.path):
            raise StoreError(
                f"{self.path} was replaced or removed while it was open: close it and open it again"
            )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock; commit at the end, or roll back if the block raises."""
        with self._writing:
            db = self._db
            self._check_place()
            try:
                db.execute("BEGIN IMMEDIATE")
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error
            try:
                yield db
                db.execute("COMMIT")
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error
            finally:
                if db.in_transaction:  # not committed
                    db.execute("ROLLBACK")

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a query and return all its rows."""
        with self._reading:
            db = self._open(self._reader)
            self._check_place()
            try:
                return db.execute(query, parameters).fetchall()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error

    @contextlib.contextmanager
    def consistent(self) -> Iterator[None]:
        """Hold one state of the file for several reads; within another such block, its state."""
        with self._reading:
            db = self._open(self._reader)
            if db.in_transaction:
                yield
                return
            db.execute("BEGIN")
            try:
                yield
            finally:
                if db.in_transaction:  # SQLite ends it by itself after a severe error
                    db.execute("ROLLBACK")

    def vacuum(self) -> None:
        """Write the file anew without its free pages, and fold the write-ahead log into it."""
        with self._writing:
            db = self._db
            self._check_place()
            try:
                db.execute("VACUUM")
                # Readers in the middle of something keep the log; the next close folds it in.
                [(patience,)] = db.execute("PRAGMA busy_timeout").fetchall()
                db.execute(f"PRAGMA busy_timeout = {min(patience, _CHECKPOINT_PATIENCE)}")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                db.execute(f"PRAGMA busy_timeout = {patience}")
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                raise translate_error(error, self.path) from error

    def copy_to(self, path: str | Path) -> None:
        """Write the present state as a file of its own, there whole or not at all.

        Raises:
            StoreError: If it cannot be written.
        """
        aside = Path(f"{path}.new-{uuid.uuid4().hex}")
        try:
            with self._reading:
                db = self._open(self._reader)
                self._check_place()
                db.execute("VACUUM INTO ?", (str(aside),))
            aside.replace(path)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise translate_error(error, str(path)) from error
        except OSError as error:
            raise StoreError(f"{path} could not be written: {error}") from error
        finally:
            aside.unlink(missing_ok=True)

    def close(self) -> None:
        """Fold the write-ahead log into the file and let go of it; safe to call twice."""
        with self._writing, self._reading:
            if self._reader is not None and self._reader is not self._connection:
                self._reader.close()
            self._reader = None
            if self._connection is None:
                return
            with contextlib.suppress(sqlite3.DatabaseError, UnicodeDecodeError):  # or it is damaged
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
            self._connection = None


def new_generation(db: sqlite3.Connection) -> None:
    """Give the file's state a new name."""
    # Random, not counted: a restored backup must never meet a snapshot of its other future.
    put_manifest(db, GENERATION, uuid.uuid4().hex)
