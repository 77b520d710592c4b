"""Exclusive access for writing: one thread of one process changes an index at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from e2graphrag_integrations._utils.event_loop import CallerLoop
from e2graphrag_integrations.errors import InvalidInputError, StoppedError, StoreLockedError
from e2graphrag_integrations.indexing.run import IndexingRun, StopSignal
from e2graphrag_integrations.store.sqlite import Store

_POLL_SECONDS = 0.05
"""Seconds between checks whether a waiting operation was stopped."""


class WriteAccess:
    """Grants exclusive access to a file, and closes the file when no operation runs.

    Args:
        store: The file.
        on_close: Called before the file closes.
    """

    def __init__(self, store: Store, on_close: Callable[[], None]) -> None:
        self._store = store
        self._on_close = on_close
        self._thread_lock = threading.RLock()
        self._stops: set[StopSignal] = set()
        self._loops: list[asyncio.AbstractEventLoop] = []  # that running operations need
        self._closing = False

    @contextlib.contextmanager
    def exclusive(self, run: IndexingRun | None = None) -> Iterator[None]:
        """Exclude other threads and processes from writing. Reentrant.

        Args:
            run: Options of an indexing run; its `stop` also ends the wait for access.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            StoppedError: If the operation was stopped while it waited.
            InvalidInputError: If the running operation needs the event loop of this thread, so
                that waiting here would never end.
        """
        if self._needs_this_loop():
            raise InvalidInputError(
                "an operation that is writing needs this event loop, so waiting for it here would "
                "deadlock: await it first, or await aadd(), aupdate() or adelete()"
            )
        stop = run.stop if run is not None else StopSignal()
        self._stops.add(stop)
        try:
            with (
                self._exclude_threads(stop, run),
                self._store.index_lock.acquire(stop.no_new_work.is_set),
            ):
                _check_stop(stop)
                yield
        except StoreLockedError:
            _check_stop(stop)
            raise
        finally:
            self._stops.discard(stop)

    @contextlib.contextmanager
    def _exclude_threads(self, stop: StopSignal, run: IndexingRun | None) -> Iterator[None]:
        """Wait for the other threads. On exit, close the file if `close` was called meanwhile."""
        while not self._thread_lock.acquire(timeout=_POLL_SECONDS):
            _check_stop(stop)
        loops = [run.runner.loop] if run and isinstance(run.runner, CallerLoop) else []
        self._loops += loops
        try:
            yield
        finally:
            for loop in loops:
                self._loops.remove(loop)
            if self._closing and not self._store.is_closed:
                self._close()
            self._thread_lock.release()

    def stop(self) -> None:
        """Stop running and waiting operations. Calls in flight finish."""
        for stop in list(self._stops):
            stop.stop_all()

    def close(self) -> None:
        """Stop all operations and close the file; idempotent.

        If a running operation needs this event loop, the file closes when that operation ends.
        """
        self._closing = True
        self.stop()
        if not self._needs_this_loop():
            with self._thread_lock:
                self._close()

    def _close(self) -> None:
        self._on_close()
        self._store.close()

    def _needs_this_loop(self) -> bool:
        """Return whether a running operation needs the event loop that this thread runs."""
        try:
            return asyncio.get_running_loop() in self._loops
        except RuntimeError:
            return False


def _check_stop(stop: StopSignal) -> None:
    if stop.no_new_work.is_set():
        raise StoppedError("the operation was stopped before it started: call it again")
