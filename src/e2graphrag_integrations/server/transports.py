"""Serving MCP over standard input and output, or over HTTP with a token and checks of hosts."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from e2graphrag_integrations.server.listening import HttpOptions, run_server, server_config

PATH = "/mcp"

_MAX_BODY = 1_000_000
"""Maximum number of bytes in a request; a question has at most 32,000 characters."""

_MAX_CONNECTIONS = 100
"""Maximum number of simultaneous connections. The server refuses others with status 503."""

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
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"a valid token is required\n"})
                return
        await self._app(scope, receive, send)


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
    # Without sessions, a client that vanishes leaves nothing behind.
    app: _App = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=_MAX_BODY,
        transport_security=host_checks(options),
    )
    if options.token is not None:
        app = RequiredToken(app, options.token)
    config = server_config(app, options, connections=_MAX_CONNECTIONS)
    run_server(config, options, PATH, on_start)
