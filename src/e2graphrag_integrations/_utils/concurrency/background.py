"""One background thread that works on request, and ends when there is nothing to do."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from e2graphrag_integrations._utils.concurrency.processes import process_lock

STOP_SECONDS = 10.0
"""How long `stop` waits for the step in progress. The thread ends after it in any case."""


class BackgroundTask:
    """Calls a function in a thread while there are requests; at most one call at a time.

    The thread starts with the first request and ends when nothing is requested. A forked process
    starts its own. When the interpreter exits, the thread is stopped first: a thread that is inside
    a C++ library at that moment could crash the process.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = process_lock()
        self._is_requested = False
        self._thread: threading.Thread | None = None
        self.stopping = threading.Event()
        """Set when the work should end early, because nobody needs it any more."""
        self._at_exit: weakref.finalize[..., BackgroundTask] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the function is being called, or is about to be."""
        thread = self._thread
        return thread is not None and thread.is_alive()  # False for the thread of a parent process

    def request(self, work: Callable[[], None]) -> None:
        """Call a function in the thread; after the call in progress, if there is one.

        Args:
            work: The function. It must not raise.
        """
        with self._lock:
            if self.stopping.is_set():
                return
            self._is_requested = True
            if self.is_running:
                return
            thread = threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down, or has no more threads
                return
            self._thread = thread
            if self._at_exit is not None:
                self._at_exit.detach()
            self._at_exit = weakref.finalize(self, _stop, self.stopping, thread)

    def _run(self, work: Callable[[], None]) -> None:
        while True:
            with self._lock:
                if not self._is_requested or self.stopping.is_set():
                    self._thread = None
                    return
                self._is_requested = False
            work()

    def cancel(self) -> None:
        """Ask the thread to end, and accept no more requests."""
        with self._lock:
            self._is_requested = False
            self.stopping.set()

    def stop(self) -> bool:
        """Ask the thread to end, wait a bounded time for it, and accept no more requests.

        Returns:
            Whether the thread has ended.
        """
        self.cancel()
        return _stop(self.stopping, self._thread)


def _stop(stopping: threading.Event, thread: threading.Thread | None) -> bool:
    """Ask a thread to end, and return whether it has ended within `STOP_SECONDS`."""
    stopping.set()
    if thread is None or not thread.is_alive():
        return True
    if thread is not threading.current_thread():
        thread.join(STOP_SECONDS)
    return not thread.is_alive()
