"""The leases of a worker of an index in Postgres, and the names that it has locked.

A lease is a row that expires by the clock of the server unless its worker renews it. Names are
advisory locks of a connection, which are free when it ends. They keep workers from creating content
twice, and limit the calls of all workers.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from e2graphrag_integrations._utils.postgres_urls import PostgresURL
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.store.database import Transaction
from e2graphrag_integrations.store.postgres.connection import (
    Connection,
    connect,
    is_lost,
    translate_error,
    translated,
)
from e2graphrag_integrations.store.postgres.lock import lock_key
from e2graphrag_integrations.store.records import LeaseLostError

_MAX_DOCUMENTS = 32
"""Maximum number of documents that a worker claims at once."""

_MAX_BYTES = 256_000
"""A worker claims no further documents once those that it has claimed have this compressed size."""

_CLAIM = """
INSERT INTO leases SELECT id, number, %(token)s, %(worker)s, clock_timestamp(),
clock_timestamp() + make_interval(secs => %(seconds)s), 1 FROM picked
ON CONFLICT (id) DO UPDATE SET number = excluded.number, token = excluded.token,
worker = excluded.worker, since = excluded.since, expires = excluded.expires,
attempts = CASE WHEN leases.number = excluded.number THEN leases.attempts ELSE 0 END + 1
WHERE leases.number <> excluded.number OR leases.expires <= clock_timestamp()
RETURNING id, attempts
"""
"""The condition is checked again, because another worker may have claimed a document since it was
picked."""

_CLAIM_INTERRUPTED = f"""
WITH picked AS (
    SELECT q.id, q.number FROM leases l JOIN queue q ON q.id = l.id AND q.number = l.number
    WHERE q.status <> 'failed' AND l.attempts > 0 AND l.expires <= clock_timestamp()
    ORDER BY q.number, q.id LIMIT 1 FOR UPDATE OF q SKIP LOCKED
)
{_CLAIM}
"""  # noqa: S608 - constants

_CLAIM_NEXT = f"""
WITH waiting AS (
    SELECT count(*) AS count FROM
    (SELECT FROM queue WHERE status <> 'failed' LIMIT {32 * _MAX_DOCUMENTS}) limited
), workers AS (
    SELECT 1 + count(DISTINCT token) AS count FROM leases
    WHERE token NOT IN ('', %(token)s) AND expires > clock_timestamp()
), candidates AS (
    SELECT q.id, q.number, pg_column_size(q.document)::bigint AS size
    FROM queue q LEFT JOIN leases l ON l.id = q.id AND l.number = q.number
    WHERE q.status <> 'failed'
    AND (l.id IS NULL OR (l.attempts = 0 AND l.expires <= clock_timestamp()))
    ORDER BY q.number, q.id
    LIMIT (
        SELECT greatest(1, least({_MAX_DOCUMENTS}, waiting.count / (2 * workers.count)))
        FROM waiting, workers
    ) FOR UPDATE OF q SKIP LOCKED
), picked AS (
    SELECT id, number FROM
    (SELECT *, sum(size) OVER (ORDER BY number, id) - size AS before FROM candidates) sized
    WHERE before < {_MAX_BYTES}
)
{_CLAIM}
"""  # noqa: S608 - constants
"""As the queue gets short, each worker claims half of its part, so that all end together."""

_RENEW = """
UPDATE leases SET expires = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE token = %(token)s AND expires > clock_timestamp()
"""

_RELEASE = """
UPDATE leases SET token = '', expires = clock_timestamp(), attempts = attempts - 1
WHERE token = %(token)s
"""

_CHECK = """
SELECT 1 FROM queue q JOIN leases l ON l.id = q.id AND l.number = q.number
WHERE q.id = ? AND l.token = ? AND l.expires > clock_timestamp() FOR UPDATE
"""

HOLDERS = """
SELECT l.id, l.worker, l.since FROM leases l JOIN queue q ON q.id = l.id AND q.number = l.number
WHERE l.token <> '' AND l.expires > clock_timestamp()
"""
"""The id, the worker and the time of each lease."""


class PostgresLeases:
    """Holds documents and names for one worker, on a connection of its own; thread-safe.

    Args:
        url: The index.
        seconds: Duration of a lease. A thread renews it three times as often.

    Raises:
        StoreConnectionError: If the server cannot be reached.
    """

    def __init__(self, url: PostgresURL, seconds: float) -> None:
        self._url = url
        self._parameters = {
            "token": uuid.uuid4().hex,
            "worker": f"process {os.getpid()} on {socket.gethostname()}",
            "seconds": seconds,
        }
        self._locked: dict[str, int] = {}  # keys by name
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closing = threading.Event()
        self._heartbeat = threading.Thread(
            target=self._renew, args=(seconds / 3,), name="e2graphrag-heartbeat", daemon=True
        )
        with self._lock:
            self._connected()
        self._heartbeat.start()

    def claim(self) -> Mapping[str, int]:
        """Hold the next documents; see `Leases`."""
        return dict(self._run(_CLAIM_INTERRUPTED) or self._run(_CLAIM_NEXT))

    def check(self, db: Transaction, document_id: str) -> None:
        """Check that this worker holds a document; see `Leases`."""
        if not db.execute(_CHECK, (document_id, self._parameters["token"])).fetchall():
            raise LeaseLostError(
                f"document {document_id!r} was not written to {self._url.shown}: the lease of this "
                "worker has expired, or the document was changed or deleted meanwhile. Another "
                "worker indexes the current version"
            )

    def release(self) -> None:
        """Let other workers claim all documents that this one holds."""
        self._run(_RELEASE)

    def try_lock(self, names: Sequence[str]) -> str | None:
        """Lock the first free name, and return it; None if none is free."""
        with self._lock:
            free = [name for name in names if name not in self._locked]
            if not free:
                return None
            keys = [lock_key(name, self._url.schema) for name in free]
            # The branches of CASE are evaluated in order, and only as far as necessary.
            branches = " ".join(
                f"WHEN pg_try_advisory_lock(%s) THEN {number}" for number in range(len(keys))
            )
            number: int | None
            [(number,)] = self._execute(f"SELECT CASE {branches} END", keys)
            if number is None:
                return None
            self._locked[free[number]] = keys[number]
            return free[number]

    def unlock(self, name: str) -> None:
        """Unlock a name."""
        with self._lock:
            key = self._locked.pop(name)
            with contextlib.suppress(StoreError):  # a lost connection has unlocked it
                self._execute("SELECT pg_advisory_unlock(%s)", (key,))

    def close(self) -> None:
        """Release all documents and names."""
        self._closing.set()
        self._heartbeat.join()
        with contextlib.suppress(StoreError):  # then the leases expire
            self.release()
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _run(self, query: str) -> list[Any]:
        with self._lock:
            return self._execute(query, self._parameters)

    def _execute(self, query: str, parameters: Any) -> list[Any]:
        """Run a statement, on a new connection if the old one is lost. Needs the lock."""
        for is_last in (False, True):
            connection = self._connected()
            try:
                cursor = connection.execute(query, parameters)
                return cursor.fetchall() if cursor.description else []
            except psycopg.Error as error:
                if is_last or not is_lost(connection):
                    raise translate_error(error, self._url) from error
        raise AssertionError("unreachable")

    def _connected(self) -> Connection:
        """Return the connection. On a new one, lock the names again that no other worker has."""
        connection = self._connection
        if connection is None or is_lost(connection):
            if connection is not None:
                connection.close()
            connection = self._connection = connect(self._url)
            with translated(self._url):
                for key in self._locked.values():
                    connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))
        return connection

    def _renew(self, pause: float) -> None:
        while not self._closing.wait(pause):
            with contextlib.suppress(StoreError):  # the next time, or the leases expire
                self._run(_RENEW)
