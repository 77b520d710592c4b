"""The interface between the store and the database that keeps its rows.

`store.py` and the other modules of this folder contain all logic and all SQL. A database runs the
SQL in transactions, and implements what differs between SQLite and Postgres: connections, locks,
tables, and errors. The SQL has `?` for parameters and is valid in both.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self

from e2graphrag_integrations._utils.concurrency import process_lock


@dataclass(frozen=True, slots=True)
class KnownGeneration:
    """A generation that was the newest when it was read.

    Attributes:
        name: Name of the generation; empty if none has been read.
        complete_until: The generation contains all changes that were committed before this time of
            `time.monotonic`.
    """

    name: str
    complete_until: float


class NewestGeneration:
    """The newest generation that a statement has read; safe to share between threads.

    A notice of a change is not recorded here. It can be late, so its absence proves nothing: only
    a statement shows that there was no change.
    """

    def __init__(self) -> None:
        self._lock = process_lock()
        self.known = KnownGeneration("", -math.inf)
        """The newest generation that is known."""

    def learn(self, name: str, began: float) -> bool:
        """Record that a statement read the name of the newest generation.

        Args:
            name: The name.
            began: Time of `time.monotonic` before the statement was sent. It must not run in a
                read transaction, which can show an older state.

        Returns:
            Whether the name was unknown.
        """
        with self._lock:
            before = self.known
            if began <= before.complete_until:  # a later statement has read it, too
                return False
            self.known = KnownGeneration(name, began)
        return name != before.name


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement inserted, changed or deleted."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the remaining rows."""


class Transaction(Protocol):
    """A write transaction."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement once for each of the given parameters."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that holds the lock of an index. What is unknown is empty.

    Attributes:
        pid: Number of the process on its machine; 0 if it is unknown.
        program: Name of its program.
        host: Name of its machine.
        account: Its user in the database, and the address from which it connects.
        since: When it acquired the lock, or connected to the database, in UTC.
    """

    pid: int = 0
    program: str = ""
    host: str = ""
    account: str = ""
    since: datetime | None = None

    @classmethod
    def here(cls) -> Writer:
        """Return this process, as a writer that begins now."""
        return cls(os.getpid(), program_name(), socket.gethostname(), since=datetime.now(UTC))

    @classmethod
    def from_json(cls, text: str) -> Writer:
        """Return the writer of a text of `to_json`.

        Raises:
            ValueError: If the text is damaged.
        """
        try:
            found = json.loads(text)
            since = datetime.fromisoformat(found["since"]).astimezone(UTC)
            program, host, account = (str(found[one]) for one in ("program", "host", "account"))
            return cls(int(found["pid"]), program, host, account, since)
        except (LookupError, TypeError, ArithmeticError, RecursionError) as error:
            raise ValueError("not a writer") from error

    def to_json(self) -> str:
        """Return the fields as text; the time must be known."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    def may_be(self, other: Writer) -> bool:
        """Return whether this can be another writer: nothing shows that it is not."""
        return self.since is None or self == other

    def __str__(self) -> str:
        name = f"process {self.pid} ({self.program}) on {self.host}" if self.pid else self.program
        account = f" ({self.account})" if self.account else ""
        since = f" since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since is not None else ""
        return f"{name or 'another process'}{account}{since}"


def program_name() -> str:
    """Return the name of the program of this process."""
    return Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"


class WriteLock(Protocol):
    """Lets only one process at a time change an index, for longer than one transaction."""

    def acquire(self, cancelled: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
        """Hold the lock while the block runs; reentrant within a thread.

        Args:
            cancelled: Called repeatedly while waiting. If it returns True, the wait ends as after a
                timeout.

        Raises:
            StoreLockedError: If the wait ends while another process still holds the lock. The
                message names that process.
            StoreError: If the lock cannot be acquired for another reason.
        """

    def share(self, cancelled: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
        """Hold the lock together with other workers, in a database that supports it.

        It excludes `acquire`, and waits while another process waits for `acquire`. A file has only
        one worker at a time: there it is the same as `acquire`.
        """

    def own(self) -> Writer | None:
        """Return this handle as the writer that others see; None if it does not hold the lock."""

    def holder(self) -> Writer | None:
        """Return who else holds the lock now; None if nobody does, or only this handle.

        Another handle in this process counts as somebody else.
        """


class Leases(Protocol):
    """The documents in the queue that one worker holds, and the names that it has locked.

    A worker holds a document until it writes or releases it, or until its lease expires because the
    worker has died or lost its connection. Thread-safe.
    """

    def claim(self) -> Mapping[str, int]:
        """Claim the next documents, and return the number of claims of each by its id.

        Documents that were written or released do not count. A document whose worker died is
        claimed alone, because it may be the reason.
        """

    def check(self, db: Transaction, document_id: str) -> None:
        """Check in a transaction that this worker holds a document until the transaction ends.

        Raises:
            LeaseLostError: If it does not.
        """

    def release(self) -> None:
        """Let other workers claim all documents that this one holds."""

    def try_lock(self, names: Sequence[str]) -> str | None:
        """Lock the first free name, and return it; None if none is free.

        Names that this worker has locked are not free either.
        """

    def unlock(self, name: str) -> None:
        """Unlock a name. The death of the worker unlocks it, too."""

    def close(self) -> None:
        """Release all documents and names."""


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a document.

    Attributes:
        worker: The process and its host.
        since: When it claimed the document, by the clock of the server.
    """

    worker: str
    since: datetime


class Database(Protocol):
    """A database with the tables of one index; safe to share between threads.

    Every error of the database is raised as one of this package's errors. In a forked process, the
    database can be read but not written.
    """

    @property
    def path(self) -> str:
        """The file or the URL, without a password, for messages."""

    @property
    def location(self) -> str:
        """The file, or the URL with a password, to open the index again. Not for messages."""

    @property
    def index_lock(self) -> WriteLock:
        """Excludes other writers during an operation that spans many transactions."""

    @property
    def reference_error(self) -> type[Exception]:
        """The error of a statement in a transaction that references a missing row."""

    @property
    def is_closed(self) -> bool:
        """Whether the database is closed."""

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that opened the database."""

    @property
    def snapshot_folder(self) -> Path | None:
        """The folder for the search indexes derived from the rows; None keeps them in memory."""

    def check_writable(self) -> None:
        """Reject a write in a forked process.

        Raises:
            StoreError: If this process is a fork of the one that opened the database.
        """

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Run the block in a write transaction: commit at the end, or roll back on an exception.

        Write transactions of all processes run one after the other.
        """

    def insert(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run an insert for each row, in one transaction that need not wait for other writers.

        Args:
            query: An insert that does nothing if the row exists.
            rows: The parameters; the first of each identifies the row.
        """

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a query and return all rows."""

    def read_keys(self, query: str, column: str, keys: Sequence[Any]) -> Iterator[Any]:
        """Yield the rows that have one of the keys in a column, in several queries if necessary.

        Args:
            query: SQL that contains `{}` in the place of the `WHERE` clause.
            column: Name of the column.
            keys: Values of the column to select.
        """

    def read_transaction(self) -> AbstractContextManager[None]:
        """Run the block in a read transaction, so that all its reads see the same state.

        A nested block joins the outer transaction.
        """

    @property
    def newest(self) -> NewestGeneration | None:
        """The newest generation that is known, which each read of its name updates.

        None if it must be read each time: from a file, where that costs little, and by a thread
        that is in a read transaction, which can show an older state.
        """

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call a function, in a thread of its own, when another process has changed the index.

        Later calls do nothing while the thread is running. It ends with `close`.

        Args:
            on_change: A bound method, which must not raise. Its object can be deleted meanwhile. A
                database that sends no notices never calls it.
        """

    def announce(self, db: Transaction) -> None:
        """Notify all listeners of a new generation when a write transaction is committed."""

    def leases(self, seconds: float) -> Leases:
        """Return the leases of a new worker.

        Args:
            seconds: Duration of a lease. It is renewed while the worker lives.
        """

    def lease_holders(self) -> Mapping[str, LeaseHolder]:
        """Return who holds each document that a worker holds, by id."""

    def check_structure(self) -> tuple[int, list[str]]:
        """Return the number of checks by the database itself, and the problems that they found."""

    def size(self) -> int:
        """Return the number of bytes of all rows."""

    def vacuum(self) -> None:
        """Give back the space of deleted rows."""

    def reopen(self) -> Self:
        """Return a second handle to the same database, whose reads do not wait for this one.

        Raises:
            IndexGoneError: If the database is gone. None is created.
        """

    def close(self, *, merge_log: bool = True) -> None:
        """Close the database; idempotent.

        Args:
            merge_log: False only closes it, for a second handle of the same process.
        """
