"""Forks: a forked process must not use the SQLite connections of its parent.

A connection holds locks that a fork does not inherit, although SQLite's own memory says that it
does. If the child used or closed the connection, or even opened the same file again, it could
delete the write-ahead log while other processes write to it, and their writes would be lost. A
thread that is inside SQLite at the moment of the fork also leaves SQLite's own mutexes locked in
the child.

Therefore, every database closes its connections just before a fork and opens them again on the next
use, in each process. The fork waits until the current transactions of other threads end. If one
takes too long, or if the fork bypassed Python's hooks, the child refuses to use the file.
"""

from __future__ import annotations

import abc
import contextlib
import ctypes
import os
import threading
import time
from weakref import WeakSet

from e2graphrag_integrations.errors import ClosedError, StoreError

WAIT_SECONDS = 10.0
"""How long a fork waits for the transactions of other threads."""


class ForkableDatabase(abc.ABC):
    """A database that prepares for forks. In a forked process, it can be read but not written.

    Attributes:
        path: The file, or the URL without a password, for messages.
    """

    path: str

    def __init__(self) -> None:
        self._is_closed = False
        self._owner = self._process = os.getpid()

    @property
    def is_closed(self) -> bool:
        """Whether the database is closed."""
        return self._is_closed

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that opened the database."""
        return self._owner != os.getpid()

    def check_writable(self) -> None:
        """Reject a write in a forked process.

        Raises:
            StoreError: If this process is a fork of the one that opened the database.
        """
        if self.is_forked:
            self._check_usable()
            raise StoreError(
                f"{self.path} was opened by process {self._owner}, of which this process is a "
                "fork: a forked process can only read; to write, open the index again in this "
                "process"
            )

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClosedError(f"index {self.path} is closed: open it again")
        if self._process != os.getpid():  # a fork that bypassed Python's hooks
            self.after_fork_in_child()

    @abc.abstractmethod
    def before_fork(self, deadline: float) -> None:
        """Close the connections, and keep other threads from opening new ones."""

    @abc.abstractmethod
    def after_fork_in_parent(self) -> None:
        """Allow connections again."""

    @abc.abstractmethod
    def after_fork_in_child(self) -> None:
        """Give up connections that are still open."""


class _OpenDatabases:
    """The open databases of this process.

    Attributes:
        given_up: Device and inode of files that this process must not open, because it inherited a
            connection to them.
    """

    def __init__(self) -> None:
        self.given_up: set[tuple[int, int]] = set()
        self._databases: WeakSet[ForkableDatabase] = WeakSet()
        self._lock = threading.Lock()
        self._forking: list[ForkableDatabase] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before,
                after_in_parent=self._after_in_parent,
                after_in_child=self._after_in_child,
            )

    def add(self, database: ForkableDatabase) -> None:
        """Prepare the database for forks from now on."""
        with self._lock:
            self._databases.add(database)

    def _before(self) -> None:
        self._lock.acquire()
        self._forking = list(self._databases)
        deadline = time.monotonic() + WAIT_SECONDS
        for database in self._forking:
            database.before_fork(deadline)

    def _after_in_parent(self) -> None:
        for database in self._forking:
            database.after_fork_in_parent()
        self._forking = []
        self._lock.release()

    def _after_in_child(self) -> None:
        self._lock = threading.Lock()
        self._forking = []
        for database in list(self._databases):
            database.after_fork_in_child()


OPEN_DATABASES = _OpenDatabases()
"""The only state of the package that belongs to a process: hooks for forks cannot be removed, so
one set of hooks serves all databases."""


def leak(connection: object) -> None:
    """Keep a connection from being closed, even when the interpreter exits."""
    with contextlib.suppress(AttributeError):  # not CPython
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
