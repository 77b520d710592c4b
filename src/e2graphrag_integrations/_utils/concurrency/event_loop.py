"""Run coroutines from worker threads, always in the same event loop.

An async client binds its connections to the event loop of its first call, so a new loop for each
call would break it. `add` starts a loop in a separate thread; `aadd` uses the caller's loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from e2graphrag_integrations._utils.concurrency.processes import process_lock

T = TypeVar("T")


class ContextThreads(ThreadPoolExecutor):
    """A thread pool that runs each call in a copy of the submitting thread's context."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call that runs in a copy of the current context."""
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)


class AwaitableRunner(Protocol):
    """Runs awaitables to completion from a thread without an event loop."""

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        ...


@dataclass(frozen=True)
class _Interrupted:
    """Wraps an exception that would stop the loop's thread if it were raised there."""

    error: BaseException


async def _await(awaitable: Awaitable[T]) -> T | _Interrupted:
    try:
        return await awaitable
    except (KeyboardInterrupt, SystemExit) as error:
        return _Interrupted(error)


def _run_in(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[T]) -> T:
    outcome = asyncio.run_coroutine_threadsafe(_await(awaitable), loop).result()
    if isinstance(outcome, _Interrupted):
        raise outcome.error
    return outcome


async def _cancel_others() -> None:
    """Cancel all other tasks in this loop, so that no thread waits forever for their results."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class CallerLoop:
    """Runs awaitables in a loop that is already running in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        return _run_in(self.loop, awaitable)


class OwnLoop:
    """Runs awaitables in a new loop, in a thread that is started on first use."""

    def __init__(self) -> None:
        self._lock = process_lock()
        self._started_in = os.getpid()
        self._inherited: list[object] = []  # a discarded loop would warn that it is not closed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        with self._lock:
            self._forget_inherited_loop()
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="e2graphrag-loop", daemon=True
                )
                self._thread.start()
        return _run_in(self._loop, awaitable)

    def close(self) -> None:
        """Stop the loop and its thread. The next call of `run` starts new ones."""
        with self._lock:
            self._forget_inherited_loop()
            if self._loop is None or self._thread is None:
                return
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def _forget_inherited_loop(self) -> None:
        """After a fork, drop the parent's loop: its thread exists only in the parent."""
        if self._started_in != os.getpid():
            self._started_in = os.getpid()
            self._inherited.append(self._loop)
            self._loop = self._thread = None


async def run_in_thread(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run `work` in a thread. If cancelled, call `stop` and wait until `work` returns."""
    # The loop's default thread pool could deadlock: all its threads may wait for the write lock,
    # while the model call of the thread that has the lock needs one of them.
    threads = ContextThreads(1, "e2graphrag-write")
    task = asyncio.wrap_future(threads.submit(work))
    threads.shutdown(wait=False)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([task])
        task.exception()  # otherwise asyncio logs that the exception was never retrieved
        raise
