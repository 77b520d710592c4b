"""Serving MCP over standard input and output, or over HTTP with a token and checks of hosts."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.errors import InvalidInputError

PATH = "/mcp"

MIN_TOKEN = 16
"""Minimum number of characters of a token."""

_MAX_BODY = 1_000_000
"""Maximum number of bytes in a request; a question has at most 32,000 characters."""

_MAX_CONNECTIONS = 100
"""Maximum number of simultaneous connections. The server refuses others with status 503."""

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve over standard input and output until the input ends.

    Meanwhile, everything else that is printed goes to standard error.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.run_stdio_async())


@dataclass(frozen=True)
class HttpOptions:
    """Where to serve, and to whom.

    Args:
        host: Address to listen on.
        port: Port; 0 lets the system choose.
        token: Token that every request must contain; None allows requests without one.
        allowed_hosts: Further names by which clients reach the server, such as that of a proxy.

    Raises:
        InvalidInputError: If another machine could reach the server without a token, the token is
            short, or the address stands for all addresses and no name is given.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    allowed_hosts: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_int("port", self.port, 0, 65_535)
        if self.token is None and not self._is_loopback:
            raise InvalidInputError(
                f"other machines can reach {self.host}: set a token of at least {MIN_TOKEN} "
                "characters, for example from `openssl rand -hex 32`"
            )
        if self.token is not None and not (
            len(self.token) >= MIN_TOKEN and self.token.isascii() and self.token.isprintable()
        ):
            raise InvalidInputError(
                f"the token must have at least {MIN_TOKEN} ASCII characters without line breaks"
            )
        if self._address is not None and self._address.is_unspecified and not self.allowed_hosts:
            raise InvalidInputError(
                f"{self.host} stands for all addresses: name the hosts that clients use, for "
                "example --allow-host server.example.com"
            )
        for name in self.allowed_hosts:
            if not name or any(letter in name for letter in "/*@ ") or not name.isprintable():
                raise InvalidInputError(f"{name!r} is not the name of a host")

    @property
    def _address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def _is_loopback(self) -> bool:
        address = self._address
        return self.host == "localhost" if address is None else address.is_loopback

    def security(self) -> TransportSecuritySettings:
        """Return the accepted values of the headers Host and Origin.

        They protect a local server from web pages: a page can make its own name resolve to this
        machine, but its requests contain that name.
        """
        own = f"[{self.host}]" if ":" in self.host else self.host
        names = list(dict.fromkeys([*_LOOPBACK, own, *self.allowed_hosts]))
        hosts = [host for name in names for host in (name, f"{name}:*")]
        return TransportSecuritySettings(
            allowed_hosts=hosts,
            allowed_origins=[
                f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts
            ],
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
        transport_security=options.security(),
    )
    if options.token is not None:
        app = RequiredToken(app, options.token)
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=5,
    )
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has closed all connections
        asyncio.run(_Announcing(config, options.host, on_start).serve())


class _Announcing(uvicorn.Server):
    """Reports the URL when the server listens."""

    def __init__(self, config: uvicorn.Config, host: str, on_start: Callable[[str], None]) -> None:
        super().__init__(config)
        self._host = f"[{host}]" if ":" in host else host
        self._on_start = on_start

    async def startup(self, sockets: Any = None) -> None:
        """Listen, then report the URL."""
        try:
            await super().startup(sockets)
        except SystemExit as error:  # uvicorn has logged the reason
            raise InvalidInputError(
                f"cannot listen on {self._host}:{self.config.port}: the port may be in use"
            ) from error
        if self.started:
            [*_, (listening, *_)] = [server.sockets for server in self.servers]
            port = listening.getsockname()[1]
            self._on_start(f"http://{self._host}:{port}{PATH}")
