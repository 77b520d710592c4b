"""The leases of the only worker of an index file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from e2graphrag_integrations.store.database import Transaction


class FileLeases:
    """Holds all documents in the queue of a file, whose lock excludes other workers.

    Args:
        read: Runs a query.
    """

    def __init__(self, read: Callable[[str], list[Any]]) -> None:
        self._read = read
        self._locked: set[str] = set()
        self._lock = threading.Lock()

    def claim(self) -> Mapping[str, int]:
        """Return the ids of all documents that have not failed."""
        return {id_: 1 for (id_,) in self._read("SELECT id FROM queue WHERE status <> 'failed'")}

    def check(self, db: Transaction, document_id: str) -> None:
        """Do nothing: the lock of the file excludes other workers."""

    def release(self) -> None:
        """Do nothing: the documents are held only as long as the lock of the file."""

    def try_lock(self, names: Sequence[str]) -> str | None:
        """Lock the first free name, and return it; None if none is free."""
        with self._lock:
            free = next((name for name in names if name not in self._locked), None)
            if free is not None:
                self._locked.add(free)
            return free

    def unlock(self, name: str) -> None:
        """Unlock a name."""
        with self._lock:
            self._locked.discard(name)

    def close(self) -> None:
        """Do nothing."""
