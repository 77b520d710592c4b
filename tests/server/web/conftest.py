"""Fixtures of the tests of the JSON API."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("starlette")
import uvicorn
from starlette.testclient import TestClient

from e2graphrag_integrations.server.listening import HttpOptions
from e2graphrag_integrations.server.web import WebOptions, make_app
from e2graphrag_integrations.server.web.app import config_of

Serve = Callable[..., TestClient]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that returns a client of the application of an index."""
    clients: list[TestClient] = []

    def start(rag, options: WebOptions = WebOptions(), **arguments) -> TestClient:  # noqa: B008
        client = TestClient(make_app(rag, options), base_url="http://localhost", **arguments)
        clients.append(client)
        return client.__enter__()

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def rag(open_index, story):
    """An index of one document."""
    index = open_index()
    index.add([story])
    return index


@pytest.fixture
def live() -> Iterator[Callable[..., str]]:
    """Return a function that serves an index with uvicorn and returns the URL."""
    with contextlib.ExitStack() as stack:

        def start(rag, options: WebOptions = WebOptions()) -> str:  # noqa: B008
            return stack.enter_context(running(rag, options))

        yield start


@contextlib.contextmanager
def running(rag, options: WebOptions) -> Iterator[str]:
    """Serve an index in a thread of this process."""
    config = config_of(make_app(rag, options), HttpOptions(port=0), options.limits)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    [listening] = server.servers[0].sockets
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()
