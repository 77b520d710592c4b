"""Fixtures of the tests of the JSON API."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

from e2graphrag_integrations.server.listening import HttpOptions, server_config
from e2graphrag_integrations.server.web import WebOptions, make_app
from running_server import running

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
            limits = options.limits
            config = server_config(
                make_app(rag, options),
                HttpOptions(port=0),
                connections=limits.connections,
                seconds=limits.body_seconds,
            )
            return stack.enter_context(running(config))

        yield start
