"""HTTP with deadlines: clients that send or receive too slowly lose their connection."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """The HTTP protocol of uvicorn, which closes connections of slow clients.

    uvicorn itself waits without limit for the headers of a request, and for a client that does not
    read its answer.

    Args:
        seconds: Time for the headers of a request, for the rest of a request that has been
            answered, and for a client to read a part of an answer.
        connections: Maximum number of connections; further ones are closed at once, because each
            takes a file descriptor of the process.
        arguments: Those of `H11Protocol`.
    """

    def __init__(self, *, seconds: float, connections: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._seconds = seconds
        self._most = connections
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            transport.abort()
        else:
            self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Pass data on, and wait for the rest of the headers if they are not complete."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_headers()
        else:
            self._stop_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_reading()
        self._stop_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait until the client has read."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self._seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, because the client has read."""
        self._stop_writing()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the rest of the request, or for the next one, which may be there already."""
        answered = self.cycle
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(self._seconds, self._close_unfinished, answered)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_headers()

    def _close_unfinished(self, answered: object) -> None:
        if self.cycle is answered and self.conn.their_state is h11.SEND_BODY:
            self.transport.close()

    def _expect_headers(self) -> None:
        if self._reading is None:
            self._reading = self.loop.call_later(self._seconds, self.transport.abort)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
