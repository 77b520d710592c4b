"""Server-sent events, such as the progress of a job, until they end or the client goes away."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from e2graphrag_integrations.server.web.jobs import Job
from e2graphrag_integrations.server.web.problems import busy
from e2graphrag_integrations.views.json_values import to_json

HEARTBEAT = 15.0
"""Seconds after which a comment shows proxies and the client that the server is there."""

STILL_THERE = b": still there\n\n"
"""A comment that clients ignore."""

_PAUSE = 0.1
"""Minimum number of seconds between two events; changes in between are sent together."""


@dataclass
class Streams:
    """The open streams of an application.

    Attributes:
        most: Maximum number of streams; a client has at most half of them.
        refusal: What a client with too many streams is told.
        refusal_of_all: What a client is told if all clients together have too many.
        open: Number of open streams of each client.
    """

    most: int
    refusal: str
    refusal_of_all: str
    open: Counter[str] = field(default_factory=Counter)

    def send(self, events: AsyncGenerator[bytes], client: str) -> StreamingResponse:
        """Return events as they come.

        Args:
            events: The events.
            client: Name of the client.

        Raises:
            Problem: If there are too many streams.
        """
        if self.open[client] >= (self.most + 1) // 2:
            raise busy(429, self.refusal, 10, code="too_many_streams")
        if self.open.total() >= self.most:
            raise busy(503, self.refusal_of_all, 10, code="busy")
        self.open[client] += 1
        return _Stream(events, partial(self._close, client))

    def _close(self, client: str) -> None:
        self.open[client] -= 1
        if not self.open[client]:
            del self.open[client]


class _Stream(StreamingResponse):
    """Events as they come; calls a function when the stream has ended, in whatever way."""

    def __init__(self, events: AsyncGenerator[bytes], at_end: Callable[[], None]) -> None:
        headers = {"X-Accel-Buffering": "no"}  # nginx would collect the events
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._events = events
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()
            await self._events.aclose()  # now, although the client is gone


async def job_events(job: Job) -> AsyncGenerator[bytes]:
    """Yield the events of a job: `progress`, and one named after its final state.

    The data of each is the whole job, and the first is its present state. So a client that
    connects again misses nothing.
    """
    while True:
        changed = job.changed
        is_final, view = job.is_final, job.view
        name = view.state if is_final else "progress"
        yield await asyncio.to_thread(event, name, view)  # a result may be large
        if is_final:
            return
        while not changed.is_set():
            try:
                await asyncio.wait_for(changed.wait(), HEARTBEAT)
            except TimeoutError:
                yield STILL_THERE
        await asyncio.sleep(_PAUSE)


def event(name: str, data: Any) -> bytes:
    """Return an event, whose data are those of a data class or JSON values."""
    text = json.dumps(to_json(data), ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode("utf-8", "replace")
