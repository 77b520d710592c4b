"""Who is asking: tokens and sessions, and checks against requests that web pages cause."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from e2graphrag_integrations.server.web.limits import Rate
from e2graphrag_integrations.server.web.options import Client, WebOptions
from e2graphrag_integrations.server.web.problems import Problem

_COOKIE = "e2graphrag_session"
"""Start of the name of the cookie; browsers send the cookies of all ports of a host."""

_SESSION_SECONDS = 12 * 3600
_MAX_SESSIONS = 100
"""Maximum number of sessions of a client; the oldest is ended for a new one."""

_MAX_GUESSES = 30
"""Maximum number of wrong tokens from an address per minute."""

_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Caller:
    """The sender of a request.

    Attributes:
        name: Name of the client, or the address.
        client: The client; None if the server needs no token.
    """

    name: str
    client: Client | None = None

    @property
    def is_scoped(self) -> bool:
        """Whether the caller sees only a part of the index."""
        return self.client is not None and self.client.where is not None

    @property
    def can_write(self) -> bool:
        """Whether the caller may add and delete documents, unless the server is read-only."""
        return self.client is None or self.client.write


class Access:
    """Identifies the senders of requests.

    Args:
        options: The clients and hosts.
    """

    def __init__(self, options: WebOptions) -> None:
        self._options = options
        self._digests = [(_digest(one.token), one) for one in options.clients]
        self._sessions: dict[bytes, tuple[float, Client]] = {}
        self._guesses = Rate(_MAX_GUESSES)
        self._cookie = f"{_COOKIE}_{secrets.token_hex(4)}"

    @property
    def needs_token(self) -> bool:
        """Whether requests need a token."""
        return bool(self._digests)

    def check_origin(self, request: Request) -> None:
        """Refuse requests to another host name, and those that other web pages cause.

        Raises:
            Problem: If the request is refused.
        """
        host = request.headers.get("host", "")
        if _name_of(host) not in {name.lower() for name in self._options.hosts}:
            raise Problem(
                403,
                "HostError",
                "the server does not answer under this host name: use its own, or start it with "
                "--allow-host",
            )
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "none")
        if origin is not None:
            is_foreign = _netloc(origin) != host.lower()
        else:
            is_foreign = site not in ("same-origin", "none")
        # Links from other pages to the page itself are harmless.
        is_link = request.method in _SAFE and request.headers.get("sec-fetch-mode") == "navigate"
        if is_foreign and not is_link:
            raise Problem(403, "OriginError", "another web page caused this request")

    def identify(self, request: Request, *, needs_token: bool = True) -> Caller:
        """Return the sender of a request.

        Args:
            request: The request.
            needs_token: Whether the request needs a token, if there are any.

        Raises:
            Problem: If a token is needed and there is none, or a wrong one.
        """
        address = request.client.host if request.client else "unknown"
        if not (self.needs_token and needs_token):
            return Caller(address)
        client = self._by_session(request)
        header = request.headers.get("authorization")
        kind, _, token = (header or "").partition(" ")
        if kind.lower() == "bearer":  # a proxy in front of the page may need another kind
            client = self.find(address, token.strip())
        if client is None:
            raise Problem(
                401,
                "TokenError",
                "a valid token is required: send it as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return Caller(client.name, client)

    def find(self, address: str, token: str) -> Client | None:
        """Return the client with a token, in the same time for every wrong token.

        Raises:
            Problem: If it is wrong, as were many others from the address.
        """
        given = _digest(token)
        found = None
        for digest, client in self._digests:
            if hmac.compare_digest(given, digest):
                found = client
        if found is None:
            self._guesses.check(address)
        return found

    # Sessions

    def open_session(self, request: Request, response: Response, token: str) -> Client | None:
        """Add a session cookie to a response, if the token is valid."""
        client = self.find(request.client.host if request.client else "unknown", token)
        if client is None:
            return None
        key = secrets.token_urlsafe(32)
        own = [digest for digest, (_, one) in self._sessions.items() if one is client]
        if len(own) >= _MAX_SESSIONS:
            del self._sessions[own[0]]
        self._sessions[_digest(key)] = (time.monotonic() + _SESSION_SECONDS, client)
        origin = request.headers.get("origin", "")
        response.set_cookie(
            self._cookie,
            key,
            max_age=_SESSION_SECONDS,
            path=_cookie_path(request),
            secure=request.url.scheme == "https" or origin.startswith("https:"),
            httponly=True,
            samesite="strict",
        )
        return client

    def close_session(self, request: Request, response: Response) -> None:
        """End the session of a request."""
        self._sessions.pop(_digest(request.cookies.get(self._cookie, "")), None)
        response.delete_cookie(
            self._cookie, path=_cookie_path(request), httponly=True, samesite="strict"
        )

    def _by_session(self, request: Request) -> Client | None:
        key = request.cookies.get(self._cookie)
        if key is None:
            return None
        until, client = self._sessions.get(_digest(key), (0.0, None))
        return client if time.monotonic() < until else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _cookie_path(request: Request) -> str:
    return request.scope.get("root_path") or "/"


def _netloc(origin: str) -> str | None:
    """Return the host and the port of an origin; None if it is not valid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name_of(netloc: str) -> str:
    """Return the host of a network location, without the port.

    >>> _name_of("[::1]:8080"), _name_of("Example.com")
    ('[::1]', 'example.com')
    """
    name, separator, port = netloc.rpartition(":")
    return (name if separator and port.isdigit() else netloc).lower()
