"""Server-sent events: the progress of a job, until it ends or the client goes away."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from e2graphrag_integrations.server.web.jobs import Job
from e2graphrag_integrations.server.web.problems import busy
from e2graphrag_integrations.views.json_values import to_json

_HEARTBEAT = 15.0
"""Seconds after which a comment shows proxies and the client that the server is there."""

_PAUSE = 0.1
"""Minimum number of seconds between two events; changes in between are sent together."""


@dataclass
class Streams:
    """The open streams of an application.

    Attributes:
        most: Maximum number of streams; a client has at most half of them.
        open: Number of open streams of each client.
    """

    most: int
    open: Counter[str] = field(default_factory=Counter)

    def follow(self, job: Job, client: str) -> StreamingResponse:
        """Return the events of a job: `progress`, and one named after its final state.

        The data of each is the whole job, and the first is its present state. So a client that
        connects again misses nothing.

        Args:
            job: The job.
            client: Name of the client.

        Raises:
            Problem: If there are too many streams.
        """
        if self.open[client] >= (self.most + 1) // 2:
            raise busy(429, "you follow too many jobs: ask for the job instead", 10)
        if self.open.total() >= self.most:
            raise busy(503, "too many clients follow jobs: ask for the job instead", 10)
        self.open[client] += 1
        return _Stream(_events(job), partial(self._close, client))

    def _close(self, client: str) -> None:
        self.open[client] -= 1
        if not self.open[client]:
            del self.open[client]


class _Stream(StreamingResponse):
    """Events as they come; calls a function when the stream has ended, in whatever way."""

    def __init__(self, events: AsyncIterator[bytes], at_end: Callable[[], None]) -> None:
        headers = {"X-Accel-Buffering": "no"}  # nginx would collect the events
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()


async def _events(job: Job) -> AsyncIterator[bytes]:
    while True:
        changed = job.changed
        name = job.view.state if job.is_final else "progress"
        data = json.dumps(to_json(job.view), ensure_ascii=False, separators=(",", ":"))
        yield f"event: {name}\ndata: {data}\n\n".encode("utf-8", "replace")
        if job.is_final:
            return
        while not changed.is_set():
            try:
                await asyncio.wait_for(changed.wait(), _HEARTBEAT)
            except TimeoutError:
                yield b": still there\n\n"
        await asyncio.sleep(_PAUSE)
