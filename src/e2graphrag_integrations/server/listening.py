"""Where a server listens and to whom it answers; running it with uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn

from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.server.protocol import TimedProtocol

MIN_TOKEN = 16
"""Minimum number of characters of a token."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine in the header Host."""

CONNECTIONS = 600
"""Default maximum number of connections."""

SECONDS = 30.0
"""Default time for a client to send headers or a request, or to receive a part of an answer."""

_REFUSED = 20
"""Number of connections above the limit whose requests are refused with status 503."""

_BACKLOG = 100
"""Maximum number of connections that are accepted before those beyond the limit are closed.

A process can often open only 1,024 files, and connections count among them."""

_SHUTDOWN = 5
"""Seconds that open requests have to end when the server stops."""


def check_secret(token: str) -> str:
    """Return a token that is long enough and fits into a header.

    Raises:
        InvalidInputError: If it is not.
    """
    if not (
        isinstance(token, str)
        and len(token) >= MIN_TOKEN
        and token.isascii()
        and token.isprintable()
    ):
        raise InvalidInputError(
            f"the token must have at least {MIN_TOKEN} ASCII characters without line breaks"
        )
    return token


def check_hosts(names: Sequence[str]) -> None:
    """Check names of hosts.

    Raises:
        InvalidInputError: If a name is not that of a host.
    """
    for name in names:
        if not name or any(letter in name for letter in "/*@ ") or not name.isprintable():
            raise InvalidInputError(f"{name!r} is not the name of a host")


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
        if self.token is not None:
            check_secret(self.token)
        if self._address is not None and self._address.is_unspecified and not self.allowed_hosts:
            raise InvalidInputError(
                f"{self.host} stands for all addresses: name the hosts that clients use, for "
                "example --allow-host server.example.com"
            )
        check_hosts(self.allowed_hosts)

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

    @property
    def url_host(self) -> str:
        """The address as part of a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def hosts(self) -> tuple[str, ...]:
        """The accepted names in the header Host, without ports.

        They protect a local server from web pages: a page can make its own name resolve to this
        machine, but its requests contain that name.
        """
        return tuple(dict.fromkeys([*LOOPBACK, self.url_host, *self.allowed_hosts]))


def server_config(
    app: Any, options: HttpOptions, *, connections: int = CONNECTIONS, seconds: float = SECONDS
) -> uvicorn.Config:
    """Return how uvicorn serves an application, with deadlines for slow clients.

    Args:
        app: The ASGI application.
        options: Where to serve.
        connections: Maximum number of connections, at most half of the files that the process may
            open. Some more get status 503, and others are closed.
        seconds: Time for a client to send headers, or to receive a part of an answer.
    """
    most = min(connections, _max_files() // 2)
    return uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client could choose the address that limits count
        ws="none",
        http=partial(TimedProtocol, seconds=seconds, connections=most + _REFUSED),  # type: ignore[arg-type]  # called like a class
        limit_concurrency=most,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_SHUTDOWN,
    )


def _max_files() -> int:
    """Return how many files and connections this process may have open."""
    if sys.platform == "win32":  # has no such limit
        return 2**31
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft


def run_server(
    config: uvicorn.Config, options: HttpOptions, path: str, on_start: Callable[[str], None]
) -> None:
    """Serve until the process is interrupted.

    Args:
        config: The configuration.
        options: The options from which it was made.
        path: Path of the URL.
        on_start: Called with the URL as soon as clients can connect.

    Raises:
        InvalidInputError: If the address or the port cannot be used.
    """
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has closed all connections
        asyncio.run(_Announcing(config, options.url_host, path, on_start).serve())


class _Announcing(uvicorn.Server):
    """Reports the URL when the server listens."""

    def __init__(
        self, config: uvicorn.Config, host: str, path: str, on_start: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._host = host
        self._path = path
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
            self._on_start(f"http://{self._host}:{port}{self._path}")
