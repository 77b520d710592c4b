"""Running a user's coroutines from worker threads, in one event loop that stays the same.

Async clients tie their connections to the loop they first ran in, so a fresh loop a call would
break them. `add` uses a loop in a thread of its own; `aadd` uses the caller's.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ContextThreads(ThreadPoolExecutor):
    """Threads that work in the context of who submits: callbacks and counters live in it."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a call in a thread, in a copy of the present context."""
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)


class AwaitableRunner(Protocol):
    """Runs awaitables to their end from a thread without a loop."""

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        ...


@dataclass(frozen=True)
class _Interrupted:
    """An exception that would end the loop's thread, carried out of it."""

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
    """End every other task of this loop, so that nobody waits for one for ever."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class CallerLoop:
    """Runs in a loop that is already running in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        return _run_in(self.loop, awaitable)


class OwnLoop:
    """Runs in a loop of its own, in a thread started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="e2graphrag-loop", daemon=True
                )
                self._thread.start()
        return _run_in(self._loop, awaitable)

    def close(self) -> None:
        """Stop the loop; a later `run` starts another."""
        with self._lock:
            if self._loop is None or self._thread is None:
                return
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None


async def run_in_thread(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run `work` in a thread; when cancelled, call `stop` and wait for what is in flight."""
    # A thread of its own: those of the loop's pool may all be waiting for their turn to write, and
    # the model that one of them waits for may need one.
    threads = ContextThreads(1, "e2graphrag-write")
    task = asyncio.wrap_future(threads.submit(work))
    threads.shutdown(wait=False)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([task])
        task.exception()  # seen: else asyncio would log it as forgotten
        raise
