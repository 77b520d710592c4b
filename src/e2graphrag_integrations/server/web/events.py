"""Server-sent events: the progress of a job, until it ends or the client goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.responses import StreamingResponse

from e2graphrag_integrations.server.web.jobs import Job
from e2graphrag_integrations.server.web.problems import busy
from e2graphrag_integrations.views.json_values import as_object

_HEARTBEAT = 15.0
"""Seconds after which a comment shows proxies and the client that the server is there."""

_PAUSE = 0.1
"""Minimum number of seconds between two events; changes in between are sent together."""


@dataclass
class Streams:
    """The open streams of an application.

    Attributes:
        most: Maximum number of streams.
        open: Number of open streams.
    """

    most: int
    open: int = 0

    def follow(self, job: Job) -> StreamingResponse:
        """Return the events of a job: `progress`, and one named after its final state.

        The data of each is the whole job, and the first is its present state. So a client that
        connects again misses nothing.

        Raises:
            Problem: If there are too many streams.
        """
        if self.open >= self.most:
            raise busy(503, "too many clients follow jobs: ask for the job instead", 10)
        return StreamingResponse(
            self._events(job),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},  # nginx would collect the events
        )

    async def _events(self, job: Job) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            while True:
                changed = job.changed
                name = job.view.state if job.is_final else "progress"
                data = json.dumps(as_object(job.view), ensure_ascii=False, separators=(",", ":"))
                yield f"event: {name}\ndata: {data}\n\n".encode("utf-8", "replace")
                if job.is_final:
                    return
                while not changed.is_set():
                    try:
                        await asyncio.wait_for(changed.wait(), _HEARTBEAT)
                    except TimeoutError:
                        yield b": still there\n\n"
                await asyncio.sleep(_PAUSE)
        finally:
            self.open -= 1
