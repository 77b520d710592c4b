"""The index lock of a Postgres database: an advisory lock of the connection that writes.

Postgres releases the lock when the connection dies, and the process can then no longer write, until
it has acquired the lock again.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from e2graphrag_integrations._utils.concurrency import process_rlock
from e2graphrag_integrations.errors import StoreLockedError
from e2graphrag_integrations.store.database import Writer
from e2graphrag_integrations.store.postgres.connection import named_writer

_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 1.0

_TAKE_TURN = "SELECT pg_try_advisory_lock(%(turn)s)"
_ACQUIRE = "SELECT pg_try_advisory_lock(%(index)s)"
_SHARE = (
    "SELECT CASE WHEN pg_try_advisory_xact_lock_shared(%(turn)s) "
    "THEN pg_try_advisory_lock_shared(%(index)s) ELSE false END"
)
"""Workers share the lock. Whoever waits to have it alone takes the turn first, so that no worker
can share it again before."""

_HOLDER = """
SELECT a.application_name, a.usename, host(a.client_addr),
a.backend_start FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.classid::bigint = ? AND l.objid::bigint = ? AND (l.pid = ?) = ?
"""


def lock_key(purpose: str, schema: str) -> int:
    """Return the number of an advisory lock in the database."""
    digest = hashlib.sha256(f"e2graphrag\0{purpose}\0{schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class LockSession(Protocol):
    """The part of a database that holds the lock."""

    @property
    def path(self) -> str:
        """The URL, for messages."""

    @property
    def session_id(self) -> int:
        """The server's id of the connection that can hold the lock; 0 if there is none."""

    def lock_session(self, query: str, keys: Mapping[str, int]) -> bool:
        """Run a query that tries to acquire an advisory lock; return whether it did."""

    def unlock_session(self) -> None:
        """Release all of them."""

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a query on another connection."""


class PostgresLock:
    """The lock of one index.

    Args:
        database: The database of the index.
        schema: The schema of the index.
        timeout: Seconds to wait for another process to release the lock.
    """

    def __init__(self, database: LockSession, schema: str, timeout: float) -> None:
        self._database = database
        self._key = lock_key("index", schema)
        self._turn = lock_key("turn", schema)  # of those who wait for `acquire`, and then hold it
        self._timeout = timeout
        self._thread_lock = process_rlock()
        self._depth = 0

    @contextlib.contextmanager
    def acquire(self, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Hold the lock while the block runs; see `WriteLock`."""
        with self._hold((_TAKE_TURN, _ACQUIRE), cancelled):
            yield

    @contextlib.contextmanager
    def share(self, cancelled: Callable[[], bool] | None = None) -> Iterator[None]:
        """Hold the lock together with other workers; see `WriteLock`."""
        with self._hold((_SHARE,), cancelled):
            yield

    @contextlib.contextmanager
    def _hold(self, steps: Sequence[str], cancelled: Callable[[], bool] | None) -> Iterator[None]:
        with self._thread_lock:
            self._depth += 1
            try:
                if self._depth == 1:
                    self._wait(steps, cancelled)
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._database.unlock_session()

    def _wait(self, steps: Sequence[str], cancelled: Callable[[], bool] | None) -> None:
        """Run each step until it succeeds."""
        keys = {"turn": self._turn, "index": self._key}
        deadline = time.monotonic() + self._timeout
        pause = _POLL_SECONDS
        for step in steps:
            while not self._database.lock_session(step, keys):
                self._check_wait(deadline, cancelled)
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(2 * pause, _MAX_POLL_SECONDS)

    def _check_wait(self, deadline: float, cancelled: Callable[[], bool] | None) -> None:
        if time.monotonic() >= deadline or (cancelled is not None and cancelled()):
            writer = self.holder() or Writer()
            raise StoreLockedError(
                f"{self._database.path} is being written by {writer}: wait for it, or "
                "increase lock_timeout="
            )

    def own(self) -> Writer | None:
        """Return this handle as a writer if it holds the lock; see `WriteLock`."""
        return next(iter(self._writers(own=True)), None)

    def holder(self) -> Writer | None:
        """Return who else holds the lock now; see `WriteLock`."""
        writers = self._writers(own=False)
        known = [one for one in writers if one.since is not None]
        return next(iter(known or writers), None)

    def _writers(self, *, own: bool) -> list[Writer]:
        high, low = (self._key >> 32) & 0xFFFFFFFF, self._key & 0xFFFFFFFF
        session = self._database.session_id
        return [_writer(*row) for row in self._database.read(_HOLDER, (high, low, session, own))]


def _writer(name: str | None, user: str | None, host: str | None, since: datetime | None) -> Writer:
    """Return the writer of a connection; only some users may see more than that there is one."""
    if since is None:
        return Writer()
    account = f"{user}{f' from {host}' if host else ''}"
    return replace(named_writer(name or ""), account=account, since=since.astimezone(UTC))
