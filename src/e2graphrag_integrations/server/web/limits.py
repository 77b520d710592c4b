"""Limits of a running server: rates, simultaneous requests, and the threads that read the index."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from e2graphrag_integrations.server.web.options import Limits
from e2graphrag_integrations.server.web.problems import busy

T = TypeVar("T")

_MAX_CLIENTS = 10_000
"""Maximum number of clients whose rates are known; those that were idle longest are forgotten."""


class Rate:
    """Counts events per client: a bucket of tokens that is refilled at a constant rate.

    Args:
        per_minute: Number of events per minute, and of events at once.
    """

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._per_second = per_minute / 60
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, client: str) -> None:
        """Count an event.

        Raises:
            Problem: If the client has to wait.
        """
        now = self._now()
        left, since = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_second)
        is_allowed = left >= 1
        self._left[client] = (left - 1 if is_allowed else left, now)
        while len(self._left) > _MAX_CLIENTS:
            self._left.popitem(last=False)
        if not is_allowed:
            raise busy(
                429, "too many requests in a minute: slow down", (1 - left) / self._per_second
            )


class Admission:
    """Runs functions that read the index in a bounded number of threads.

    A request that is cancelled while it waits gives its place back at once. A function that already
    runs cannot be interrupted, so its thread is free when it returns.

    Args:
        limits: The limits.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.parallel, "e2graphrag-web")
        self._slots = asyncio.Semaphore(limits.parallel)
        self._rate = Rate(limits.per_minute)
        self._by_client: Counter[str] = Counter()

    @property
    def in_progress(self) -> int:
        """Number of requests that run or wait."""
        return self._by_client.total()

    def check_rate(self, client: str) -> None:
        """Count a request that starts a job.

        Raises:
            Problem: If the client has to wait.
        """
        self._rate.check(client)

    async def run(self, client: str, work: Callable[[], T]) -> T:
        """Return the result of a function.

        Args:
            client: Name of the client.
            work: The function.

        Raises:
            Problem: If a limit is exceeded.
        """
        limits = self._limits
        if self.in_progress >= limits.waiting:
            raise busy(503, "too many requests are waiting: try again later", 2)
        if self._by_client[client] >= limits.per_client:
            raise busy(429, f"you have {limits.per_client} requests in progress: wait for them")
        self._rate.check(client)
        self._by_client[client] += 1
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._in_thread(work)
        except TimeoutError:
            raise busy(
                503, f"no answer within {limits.seconds:g} seconds: try again later"
            ) from None
        finally:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    async def _in_thread(self, work: Callable[[], T]) -> T:
        await self._slots.acquire()
        loop = asyncio.get_running_loop()

        def release(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._slots.release)

        try:
            future = self._threads.submit(work)
        except BaseException:
            self._slots.release()
            raise
        future.add_done_callback(release)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the threads when their functions return."""
        self._threads.shutdown(wait=False, cancel_futures=True)
