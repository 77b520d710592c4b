"""Serving MCP over standard input and output, or over HTTP with a token and checks of hosts."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from e2graphrag_integrations.server.listening import (
    CONNECTIONS,
    SECONDS,
    HttpOptions,
    run_server,
    server_config,
)

PATH = "/mcp"

_MAX_BODY = 1_000_000
"""Maximum number of bytes in a request; a question has at most 32,000 characters."""

_App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve over standard input and output until the input ends.

    Meanwhile, everything else that is printed goes to standard error.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.run_stdio_async())


def host_checks(options: HttpOptions) -> TransportSecuritySettings:
    """Return the accepted values of the headers Host and Origin."""
    hosts = [host for name in options.hosts for host in (name, f"{name}:*")]
    return TransportSecuritySettings(
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )


class RequiredToken:
    """Passes a request on only if it contains the token.

    Args:
        app: The application.
        token: The token.
    """

    def __init__(self, app: _App, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                header = (b"www-authenticate", b"Bearer")
                await _refuse(send, 401, "a valid token is required", header)
                return
        await self._app(scope, receive, send)


class ReceivedBody:
    """Passes a request on when its body has been received: in time, and not too large.

    Args:
        app: The application, which waits for a body without limit.
        seconds: Time for the body.
    """

    def __init__(self, app: _App, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        messages: deque[Any] = deque()
        try:
            async with asyncio.timeout(self._seconds):
                size, is_more = 0, scope["type"] == "http"
                while is_more and size <= _MAX_BODY:
                    messages.append(await receive())
                    size += len(messages[-1].get("body", b""))
                    is_more = messages[-1].get("more_body", False)
        except TimeoutError:
            await _refuse(send, 408, f"the request took more than {self._seconds:g} seconds")
            return
        if size > _MAX_BODY:
            await _refuse(send, 413, f"the request has more than {_MAX_BODY:,} bytes")
            return

        async def replay() -> Any:
            return messages.popleft() if messages else await receive()

        await self._app(scope, replay, send)


async def _refuse(send: Any, status: int, message: str, *headers: tuple[bytes, bytes]) -> None:
    start = {"type": "http.response.start", "status": status}
    more = [*headers, (b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({**start, "headers": more})
    await send({"type": "http.response.body", "body": f"{message}\n".encode()})


def http_config(
    server: MCPServer[Any],
    options: HttpOptions,
    *,
    connections: int = CONNECTIONS,
    seconds: float = SECONDS,
) -> uvicorn.Config:
    """Return how uvicorn serves MCP, with the limits of `e2graphrag serve`.

    Args:
        server: The server.
        options: Where to serve, and to whom.
        connections: Maximum number of connections.
        seconds: Time for a client to send headers or a body, or to receive a part of an answer.
    """
    # Without sessions, a client that vanishes leaves nothing behind.
    app: _App = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=_MAX_BODY,
        transport_security=host_checks(options),
    )
    app = ReceivedBody(app, seconds)
    if options.token is not None:
        app = RequiredToken(app, options.token)
    return server_config(app, options, connections=connections, seconds=seconds)


def serve_http(
    server: MCPServer[Any], options: HttpOptions, on_start: Callable[[str], None]
) -> None:
    """Serve over HTTP until the process is interrupted.

    Args:
        server: The server.
        options: Where to serve, and to whom.
        on_start: Called with the URL as soon as clients can connect.

    Raises:
        InvalidInputError: If the address or the port cannot be used.
    """
    run_server(http_config(server, options), options, PATH, on_start)
