"""The application: routes, files of the page, headers; and serving it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import E2GraphRAGError, InvalidInputError
from e2graphrag_integrations.server.listening import HttpOptions, run_server, server_config
from e2graphrag_integrations.server.one_worker import MESSAGE
from e2graphrag_integrations.server.web import (
    document_routes,
    edit_routes,
    evaluation_routes,
    graph_routes,
    job_routes,
    metadata_routes,
    retrieval_routes,
    system_routes,
)
from e2graphrag_integrations.server.web.answering import routes as answer_routes
from e2graphrag_integrations.server.web.options import WebOptions
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.service import Service

_ROUTERS = (
    system_routes.public_router,
    system_routes.router,
    system_routes.whole_router,
    retrieval_routes.router,
    answer_routes.router,
    evaluation_routes.router,
    metadata_routes.router,
    document_routes.router,
    document_routes.write_router,
    graph_routes.router,
    edit_routes.router,
    edit_routes.write_router,
    job_routes.router,
)

ROUTES = tuple(route for router in _ROUTERS for route in router.routes)
"""The routes of the API. `include_router` would build them again, at the first request."""

PAGE = Path(__file__).parent / "page"
"""The files of the page."""

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_KINDS = {404: "NotFoundError", 405: "MethodError", 413: "TooLargeError"}


def make_app(rag: E2GraphRAG, options: WebOptions = WebOptions()) -> FastAPI:  # noqa: B008 - immutable
    """Return the JSON API and the page of an index as an ASGI application.

    It can be mounted in another application. It reads and writes through the given index, which the
    caller closes afterwards.

    Args:
        rag: The index.
        options: Clients, host names and limits.

    Sessions and jobs are kept in one process: a second worker of the same server does not start.

    Raises:
        InvalidInputError: If the filter of a client is invalid.
    """
    service = Service(rag, options)

    async def describe(request: Request) -> Response:
        service.access.check_origin(request)
        return JSONResponse(app.openapi())

    async def page(request: Request) -> Response:
        service.access.check_origin(request)
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if not await service.worker.is_only(at_start=True):
            raise InvalidInputError(MESSAGE)
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="e2graphrag serve",
        version=system_routes.version(),
        description="Questions to an index, its documents, and how answers were found.",
        servers=[{"url": "."}],
        openapi_url=None,  # FastAPI would answer other web pages
        routes=[
            *ROUTES,
            Route("/openapi.json", describe),
            Route("/", page),
            Mount("/page", _Files(service)),
        ],
        middleware=[Middleware(_Headers)],
        exception_handlers={HTTPException: _refuse, Problem: _refuse},
        lifespan=lifespan,
        # Questions and ids of documents leave this process only in answers.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    app.state.service = service
    return app


def serve(
    rag: E2GraphRAG,
    http: HttpOptions,
    options: WebOptions = WebOptions(),  # noqa: B008 - immutable
    on_start: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve an index over HTTP until the process is interrupted.

    Args:
        rag: The index.
        http: Where to listen. If it has a token, `options` has a client with it.
        options: Clients and limits.
        on_start: Called with the URL as soon as clients can connect.

    Raises:
        InvalidInputError: If the address or the port cannot be used.
    """
    with contextlib.suppress(E2GraphRAGError):
        rag.retrieve("Load the models.", k=1)  # now, because it delays everything else
    limits = options.limits
    config = server_config(
        make_app(rag, options), http, connections=limits.connections, seconds=limits.body_seconds
    )
    run_server(config, http, "/", on_start)


class _Files(StaticFiles):
    """The files of the page; a browser asks each time whether they changed."""

    def __init__(self, service: Service) -> None:
        super().__init__(directory=PAGE)
        self._service = service

    async def get_response(self, path: str, scope: Scope) -> Response:
        self._service.access.check_origin(Request(scope))
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


async def _refuse(_: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return error.response()
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type
    kind = _KINDS.get(error.status_code, "RequestError")
    headers = error.headers or {}
    return Problem(error.status_code, kind, str(error.detail), headers=headers).response()


class _Headers:
    """Adds security headers to every response, routes by the encoded path, and answers HEAD.

    A parameter in a path, such as the id of a document, may contain an encoded slash.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if scope["method"] == "HEAD":  # the server leaves the body out
            scope = {**scope, "method": "GET"}
        raw = scope.get("raw_path")
        if raw is not None:
            scope = {**scope, "path": raw.partition(b"?")[0].decode("ascii", "replace")}
        await self._app(scope, receive, send_with_headers)
