"""Waiting for notices that another process has changed an index, in a thread of its own.

A notice only says that it is time to read the name of the newest generation. The name is also read
at intervals, because a connection can be lost without an error, and some servers send no notices.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import weakref
from collections.abc import Callable, Iterator

import psycopg
from psycopg import sql

from e2graphrag_integrations._utils.postgres_urls import PostgresURL
from e2graphrag_integrations.errors import E2GraphRAGError
from e2graphrag_integrations.store.forks import leak
from e2graphrag_integrations.store.postgres.connection import Connection, connect, is_lost

logger = logging.getLogger(__name__)

_CHECK_SECONDS = 30.0
"""Seconds after which the name is read although there was no notice."""

_POLL_SECONDS = 1.0
"""The same on a server that sends no notices, such as a standby."""

_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 60.0
"""Delay before the next attempt to connect; it doubles with every failure."""

_STOP_SECONDS = 2.0
"""How long `stop` waits for the thread, which may be connecting."""

Check = Callable[[Connection], None]


class ChangeListener:
    """Calls a function whenever an index may have changed.

    The thread ends with `stop`, when the function's object is deleted, or with the interpreter. A
    forked process must start a listener of its own.

    Args:
        url: The index.
        channel: Name of the channel of its notices.
        check: A bound method, which is called in the thread with a connection: at the start, after
            notices, and at intervals. An error closes the connection, and is logged.
    """

    def __init__(self, url: PostgresURL, channel: str, check: Check) -> None:
        self._state = _State()
        self._thread = threading.Thread(
            target=_run,
            args=(self._state, url, channel, weakref.WeakMethod(check)),
            name="e2graphrag-listen",
            daemon=True,
        )
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter is shutting down, or has no more threads
            self._state.close()
        self._at_exit = weakref.finalize(self, _stop, self._state, self._thread)

    @property
    def is_running(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ask the thread to end, and wait a bounded time for it; idempotent."""
        self._at_exit()

    def leave_to_parent(self) -> None:
        """Forget the thread of the parent process, whose connection stays open."""
        self._at_exit.detach()
        if self._state.connection is not None:
            leak(self._state.connection)
        self._state.close()


class _State:
    """State that a listener shares with its thread: the connection, and whether to end."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.is_stopping = False
        self._receiver, self._sender = socket.socketpair()

    def wait(self, seconds: float, connection: Connection | None = None) -> None:
        """Wait until there is something to read from the connection, for `stop`, or for a time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._receiver, selectors.EVENT_READ)
            if connection is not None:
                selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.select(seconds)

    def stop(self) -> None:
        self.is_stopping = True
        with contextlib.suppress(OSError):  # the thread has ended
            self._sender.send(b"\0")

    def close(self) -> None:
        self._receiver.close()
        self._sender.close()


def _stop(state: _State, thread: threading.Thread) -> None:
    state.stop()
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join(_STOP_SECONDS)


def _run(state: _State, url: PostgresURL, channel: str, check: weakref.WeakMethod[Check]) -> None:
    delay = _RETRY_SECONDS
    try:
        while not state.is_stopping and check() is not None:
            try:
                with contextlib.closing(connect(url)) as state.connection:
                    for _ in _changes(state, state.connection, channel):
                        if not _called(check, state.connection):
                            return
                        delay = _RETRY_SECONDS
            except (psycopg.Error, E2GraphRAGError) as error:
                if not state.is_stopping:
                    logger.info("%s: no notices of changes for %g s (%s)", url.shown, delay, error)
                    state.wait(delay)
                delay = min(2 * delay, _MAX_RETRY_SECONDS)
    finally:
        state.close()


def _called(check: weakref.WeakMethod[Check], connection: Connection) -> bool:
    """Call a method, and return whether its object still exists.

    The thread must not keep a reference to the object while it waits.
    """
    function = check()
    if function is None:
        return False
    function(connection)
    return True


def _changes(state: _State, connection: Connection, channel: str) -> Iterator[None]:
    """Yield at once, after each notice, and at intervals, until the listener is stopped."""
    noticed: list[object] = []
    connection.add_notify_handler(noticed.append)  # for those that arrive with other results
    interval = _CHECK_SECONDS
    try:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    except psycopg.Error as error:
        if is_lost(connection):
            raise
        logger.info("the server sends no notices of changes (%s)", error)
        interval = _POLL_SECONDS
    while not state.is_stopping:
        noticed.clear()
        yield
        if not noticed:
            state.wait(interval, connection)
            connection.pgconn.consume_input()
            while connection.pgconn.notifies() is not None:
                pass  # one check is enough for all of them
