"""Connections to Postgres, the texts and statements on them, and its errors."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg import errors, sql
from psycopg.abc import Buffer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader, TextLoader

from e2graphrag_integrations._utils.failures import on_error, redact
from e2graphrag_integrations._utils.postgres_urls import PostgresURL
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    StoreConnectionError,
    StoreError,
    StoreLockedError,
)
from e2graphrag_integrations.store.database import Writer, program_name

Connection = psycopg.Connection[Any]

_MAX_NAME = 63
"""Maximum length of an application's name."""

_NAME = re.compile(r"e2graphrag (.*) process (\d{1,9}) on (.*)", re.DOTALL)

_DEFAULTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq: a server that disappears is noticed within a minute."""

_SERVER_SETTINGS: tuple[LiteralString, ...] = (
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)
"""The server notices within a minute that a machine has disappeared, and releases its locks."""

_WITH_SESSION_TIMEOUT = 140000
"""First server that ends idle sessions. A writer is idle while models work, and holds a lock."""

_OLDEST = 120000
"""Oldest supported server: Postgres 12."""

_ESCAPED = {0: "\1\2", 1: "\1\3"}
"""Postgres cannot store NUL in texts. These escapes keep the order of texts."""


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.translate(_ESCAPED) if "\0" in obj or "\1" in obj else obj)


def _unescaped(text: Any) -> Any:
    return text.replace("\1\2", "\0").replace("\1\3", "\1") if "\1" in text else text


class _TextLoader(TextLoader):
    def load(self, data: Buffer) -> Any:
        return _unescaped(super().load(data))


class _BinaryTextLoader(TextBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return _unescaped(super().load(data))


def _statement(query: str) -> Any:
    return query.replace("%", "%%").replace("?", "%s")


class Statements:
    """Runs statements with `?` for parameters on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, query: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        """Run a statement."""
        return self._connection.execute(_statement(query), parameters, binary=True)

    def executemany(
        self, query: str, parameters: Iterable[Sequence[Any]], /
    ) -> psycopg.Cursor[Any]:
        """Run a statement once for each of the given parameters."""
        cursor = self._connection.cursor()
        cursor.executemany(_statement(query), parameters)
        return cursor


def application_name() -> str:
    """Return the name by which a connection tells others which process it is."""
    name = f"e2graphrag {program_name()[:20]} process {os.getpid()} on {socket.gethostname()}"
    return name.encode("ascii", "replace").decode()[:_MAX_NAME]


def named_writer(name: str) -> Writer:
    """Return the process that a name describes; the URL of a user may set another name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return Writer(program=name)
    program, pid, host = found.groups()
    return Writer(int(pid), program, host)


def connect(url: PostgresURL) -> Connection:
    """Connect to a database; statements find the tables of the index.

    Raises:
        InvalidInputError: If the URL contains an unknown parameter, or the database is unsuitable.
        StoreConnectionError: If the server cannot be reached, or refuses the connection.
    """
    try:
        parameters = conninfo_to_dict(url.conninfo)
    except psycopg.Error as error:
        problem = redact(str(error), _secrets(url)).strip()
        raise InvalidInputError(f"{url.shown} is not a valid URL: {problem}") from None
    settings: dict[str, Any] = {"application_name": application_name(), **_DEFAULTS, **parameters}
    settings["client_encoding"] = "UTF8"
    try:
        connection = psycopg.connect(**settings, autocommit=True)
    except psycopg.Error as error:
        raise _refused(error, url) from None  # the cause might repeat the password
    except UnicodeError:
        raise InvalidInputError(f"{url.shown} has an invalid host name") from None
    with on_error(lambda _: connection.close()), translated(url):
        _check_server(connection, url)
        path = sql.SQL("SET search_path = {}, pg_temp").format(sql.Identifier(url.schema))
        statements = [path, *map(sql.SQL, _SERVER_SETTINGS)]
        if connection.info.server_version >= _WITH_SESSION_TIMEOUT:
            statements.append(sql.SQL("SET idle_session_timeout = 0"))
        connection.execute(sql.SQL("; ").join(statements))
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_loader("text", _TextLoader)
    connection.adapters.register_loader("text", _BinaryTextLoader)
    return connection


def _check_server(connection: Connection, url: PostgresURL) -> None:
    if connection.info.server_version < _OLDEST:
        raise InvalidInputError(f"{url.shown}: Postgres 12 or newer is required")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InvalidInputError(
            f"{url.shown}: the database has the encoding {encoding}: create one with ENCODING "
            "'UTF8' TEMPLATE template0"
        )


def _secrets(url: PostgresURL) -> list[str]:
    """Return the passwords in a URL, as they are and as they stand in the URL."""
    login = url.conninfo.partition("://")[2].rpartition("@")[0]
    encoded = login.partition(":")[2]
    found = {encoded}
    try:
        parameters = conninfo_to_dict(url.conninfo)
    except psycopg.Error:
        parameters = {}
    found |= {str(parameters.get(name) or "") for name in ("password", "sslpassword")}
    return [one for one in found if one]


def _refused(error: psycopg.Error, url: PostgresURL) -> StoreError:
    text = " ".join(redact(str(error), _secrets(url)).split())
    if "no password supplied" in text or "password authentication failed" in text:
        advice = "check the user and the password in the URL, in PGPASSWORD or in ~/.pgpass"
    elif "does not exist" in text:
        advice = "create it, or correct the URL"
    elif "too many" in text or "remaining connection slots" in text:
        advice = "close other connections, or raise max_connections of the server"
    else:
        advice = "check the URL, and whether the server runs and accepts connections"
    return StoreConnectionError(f"cannot connect to {url.shown} ({text}): {advice}")


def session_of(connection: Connection) -> tuple[str, ...]:
    """Return what decides which rows a connection sees: its server, database, user and options.

    They come from the URL, from variables such as PGUSER, and from the file of PGSERVICE.
    """
    info = connection.info
    return info.host, str(info.port), info.dbname, info.user, info.options


def is_lost(connection: Connection) -> bool:
    """Return whether a connection cannot be used any more."""
    return connection.closed or connection.broken


def in_transaction(connection: Connection) -> bool:
    """Return whether a transaction is open on a connection."""
    return not connection.closed and connection.info.transaction_status in (
        TransactionStatus.INTRANS,
        TransactionStatus.INERROR,
        TransactionStatus.ACTIVE,
    )


def roll_back(connection: Connection) -> None:
    """End a transaction, if one is open. If that fails, close the connection."""
    if in_transaction(connection):
        with contextlib.suppress(psycopg.Error), on_error(lambda _: connection.close()):
            connection.execute("ROLLBACK")


def translate_error(error: psycopg.Error, url: PostgresURL) -> StoreError:  # noqa: PLR0911 - one per kind of error
    """Return this package's error for an error of Postgres."""
    text, path = " ".join(redact(str(error)).split()), url.shown
    if isinstance(error, errors.LockNotAvailable):
        return StoreLockedError(
            f"another process is writing {path}: wait for it, or increase lock_timeout="
        )
    if isinstance(error, errors.SerializationFailure | errors.DeadlockDetected):
        return StoreLockedError(f"another process changed {path} at the same time: try again")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"{path}: {text}: ask the owner to GRANT the role USAGE on the schema {url.schema}, "
            "SELECT on its tables to read, INSERT, UPDATE and DELETE to write, and CREATE on the "
            "database to create an index"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreError(f"cannot write {path}: the server is read-only; write to the primary")
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return StoreError(
            f"{path}: the tables of the index are missing ({text}): the index was dropped; open it "
            "again, or restore a backup"
        )
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return CorruptStoreError(f"{path} is damaged ({text}): restore a backup or index again")
    if isinstance(error, errors.DiskFull | errors.OutOfMemory):
        return StoreError(
            f"cannot write {path}: the server has no space left ({text}); free some and retry "
            "(finished work is saved)"
        )
    if isinstance(error, errors.QueryCanceled):
        return StoreError(
            f"{path}: the server canceled a query ({text}): raise its statement_timeout"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreConnectionError(
            f"the connection to {path} was lost ({text}): check that the server runs, then call "
            "again (finished work is saved)"
        )
    return StoreError(f"{path}: {text}")


@contextlib.contextmanager
def translated(url: PostgresURL) -> Iterator[None]:
    """Raise the errors of Postgres in a `with` block as those of this package."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error, url) from error


class ConnectionPool:
    """Idle connections for reads, of one process.

    Args:
        url: The database.
        size: Maximum number of connections.
        timeout: Seconds to wait for a connection if all are in use.
    """

    def __init__(self, url: PostgresURL, size: int, timeout: float) -> None:
        self._url = url
        self._size = size
        self._timeout = timeout
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(size)
        self._is_closed = False

    def take(self, *, new: bool = False) -> Connection:
        """Return a connection that no other thread uses.

        Args:
            new: Whether to connect again, because the server has closed a connection.

        Raises:
            StoreConnectionError: If all connections stay in use, or the server cannot be reached.
        """
        if not self._places.acquire(timeout=self._timeout):
            raise StoreConnectionError(
                f"all {self._size} connections to {self._url.shown} have been in use for "
                f"{self._timeout:g} seconds: use fewer threads, or open the index again for some"
            )
        with on_error(lambda _: self._places.release()):
            with self._lock:
                idle, kept = (self._idle, []) if new else ([], self._idle)
                self._idle = kept
                found = self._idle.pop() if self._idle else None
            for connection in idle:  # they are probably closed, too
                connection.close()
            return connect(self._url) if found is None else found

    def give_back(self, connection: Connection) -> None:
        """Allow others to use a connection; close it if it is lost or in a transaction."""
        with self._lock:
            is_usable = not (self._is_closed or is_lost(connection) or in_transaction(connection))
            if is_usable:
                self._idle.append(connection)
        if not is_usable:
            connection.close()
        self._places.release()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @property
    def idle(self) -> list[Connection]:
        """The connections that no thread uses."""
        return list(self._idle)
