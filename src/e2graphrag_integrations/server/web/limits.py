"""Limits of a running server: rates, simultaneous requests, and the threads that read the index."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations.server.web.options import Limits
from e2graphrag_integrations.server.web.problems import busy

T = TypeVar("T")

_MAX_CLIENTS = 10_000
"""Maximum number of clients whose rates are known; those that were idle longest are forgotten."""

_MAX_LARGE = 16
"""Maximum number of requests with a large body at once; of one client, a quarter of it."""


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
                429,
                "too many requests in a minute: slow down",
                (1 - left) / self._per_second,
                code="too_fast",
            )


class Turns:
    """A number of places. Clients that wait for one get it in turn, however many wait of each.

    Used in one event loop only.

    Args:
        places: The number.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def acquire(self, client: str) -> None:
        """Wait for a place."""
        if self._free:  # then nobody waits
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)

        def give_back(_: BaseException) -> None:
            if turn.done() and not turn.cancelled():
                self.release()

        with on_error(give_back):
            await turn

    def release(self) -> None:
        """Give a place to the next client, or back."""
        while self._waiting:
            client, turns = self._waiting.popitem(last=False)
            while turns and turns[0].done():  # cancelled
                turns.popleft()
            if turns:
                turns.popleft().set_result(None)
                if turns:
                    self._waiting[client] = turns
                return
        self._free += 1


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
        self._turns = Turns(limits.parallel)
        self._large: Counter[str] = Counter()
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

    async def run(self, client: str, work: Callable[[], T], seconds: float | None = None) -> T:
        """Return the result of a function.

        Args:
            client: Name of the client.
            work: The function.
            seconds: Maximum time with the wait; None means that of the limits.

        Raises:
            Problem: If a limit is exceeded.
        """
        limits = self._limits
        most = limits.seconds if seconds is None else seconds
        if self.in_progress >= limits.waiting:
            raise busy(503, "too many requests are waiting: try again later", 2, code="busy")
        if self._by_client[client] >= limits.per_client:
            message = f"you have {limits.per_client} requests in progress: wait for them"
            raise busy(429, message, code="too_many_requests", count=limits.per_client)
        self._rate.check(client)
        self._by_client[client] += 1
        try:
            async with asyncio.timeout(most):
                return await self._in_thread(client, work)
        except TimeoutError:
            message = f"no answer within {most:g} seconds: try again later"
            raise busy(503, message, code="too_slow", time=most) from None
        finally:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    @contextlib.contextmanager
    def large_body(self, client: str) -> Iterator[None]:
        """Count a request with a large body, as long as it is in memory.

        Raises:
            Problem: If there are too many.
        """
        if self._large.total() >= _MAX_LARGE or self._large[client] >= _MAX_LARGE // 4:
            raise busy(503, "too many large requests at once: try again later", 5, code="busy")
        self._large[client] += 1
        try:
            yield
        finally:
            self._large[client] -= 1
            if not self._large[client]:
                del self._large[client]

    async def _in_thread(self, client: str, work: Callable[[], T]) -> T:
        await self._turns.acquire(client)
        loop = asyncio.get_running_loop()

        def release(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._turns.release)

        with on_error(lambda _: self._turns.release()):
            future = self._threads.submit(work)
        future.add_done_callback(release)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the threads when their functions return."""
        self._threads.shutdown(wait=False, cancel_futures=True)
