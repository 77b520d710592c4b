"""Servers in threads of the test process, and bare connections to them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import uvicorn


@contextlib.contextmanager
def running(config: uvicorn.Config) -> Iterator[str]:
    """Serve in a thread of this process; yield the URL."""
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    [listening] = server.servers[0].sockets
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


def connection(url: str) -> socket.socket:
    """Connect to a server, and send nothing."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


def received(sock: socket.socket) -> bytes:
    """Return all that the server sends until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := sock.recv(65_536):
            parts.append(part)
    return b"".join(parts)
