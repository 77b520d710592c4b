"""Routes that check who calls, and receive the body of a request within the limits.

FastAPI receives a body before it resolves dependencies. A client without a token could make the
server receive and parse megabytes, so these checks come before FastAPI's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, NoReturn

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect

from e2graphrag_integrations._utils.validation import distinct_fields
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.server.web.access import Caller
from e2graphrag_integrations.server.web.calls import CALLER
from e2graphrag_integrations.server.web.problems import ErrorAnswer, Problem, describe
from e2graphrag_integrations.server.web.service import Rights, Service

GONE = 499
"""Status for the metrics if the client went away; nobody receives it."""

_LARGE = 65_536
"""Number of bytes from which on a body is large."""

_MAX_BRACKETS = 100_000
"""Maximum number of lists and objects in a body. While a million are parsed, nothing else runs."""

_MAX_FIELDS = 1_000
"""Maximum number of fields of an object at the first three levels of a body."""

_MAX_FIELD_DEPTH = 2


def guarded_router(rights: Rights = "read", max_body: int | None = None) -> APIRouter:
    """Return a router for clients with some rights.

    Args:
        rights: Who may call its routes.
        max_body: Maximum number of bytes in a body; None means that of the limits.
    """
    route = type("Route", (GuardedRoute,), {"rights": rights, "max_body": max_body})
    # The route checks the token; the dependency describes it in OpenAPI.
    token = Depends(HTTPBearer(scheme_name="token", auto_error=False))
    return APIRouter(
        route_class=route,
        dependencies=[] if rights == "public" else [token],
        responses={
            "default": {"model": ErrorAnswer, "description": "The request is refused, or failed"}
        },
        generate_unique_id_function=lambda route: route.name,
    )


class GuardedRoute(APIRoute):
    """A route that checks and counts each request.

    Attributes:
        rights: Who may call it.
        max_body: Maximum number of bytes in a body; None means that of the limits.
    """

    rights: ClassVar[Rights] = "write"
    max_body: ClassVar[int | None] = None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a function that answers a request, also if it is refused or fails."""
        handle = super().get_route_handler()
        label = f"{min(self.methods or ())} {self.path_format}"

        async def guarded(request: Request) -> Response:
            started = time.perf_counter()
            service: Service = request.app.state.service
            try:
                response = await self._handle(service, request, handle)
            except ClientDisconnect:
                response = Response(status_code=GONE)
            except Exception as error:  # noqa: BLE001 - every error becomes an answer
                response = service.explainer.problem(self._in_words(error)).response()
            service.metrics.count(label, response.status_code, time.perf_counter() - started)
            return response

        return guarded

    async def _handle(
        self,
        service: Service,
        request: Request,
        handle: Callable[[Request], Coroutine[Any, Any, Response]],
    ) -> Response:
        await service.check_worker()
        service.access.check_origin(request)
        caller = service.access.identify(request, needs_token=self.rights != "public")
        service.check_rights(caller, self.rights)
        request.scope[CALLER] = caller
        self._check_query(request)
        if self.body_field is None:
            return await handle(request)
        with contextlib.ExitStack() as places:
            most = self.max_body or service.options.limits.body_bytes
            data = await _receive(service, caller, request, most, places)
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Problem(415, "MediaTypeError", "send the request as application/json")
            return await handle(_Received(request, _parse(data)))

    def _check_query(self, request: Request) -> None:
        """Check the names in the query string, because FastAPI ignores those that it does not know.

        Raises:
            InvalidInputError: If a parameter is unknown or given twice.
        """
        known = [one.alias for one in self.dependant.query_params]
        seen = set()
        for name, _ in request.query_params.multi_items():
            if name not in known:
                names = f"use {', '.join(known)}" if known else "there are none"
                raise InvalidInputError(f"unknown parameter {name[:100]!r}: {names}")
            if name in seen:
                raise InvalidInputError(f"{name} is given twice")
            seen.add(name)

    def _in_words(self, error: Exception) -> Exception:
        """Return an error with a message for the client if FastAPI found invalid values."""
        if not isinstance(error, RequestValidationError):
            return error
        body: Any = self.body_field and self.body_field.field_info.annotation
        known = ", ".join(getattr(body, "model_fields", ()))
        found = []
        for one in error.errors():
            place = one["loc"][1:]  # a location begins with `query`, `path` or `body`
            is_unknown = one["type"] == "extra_forbidden" and len(place) == 1
            message = f"there is no such field: use {known}" if is_unknown else one["msg"]
            found.append({**one, "loc": place, "msg": message})
        return InvalidInputError(describe(found))


class _Received(Request):
    """A request whose body has been received and parsed."""

    def __init__(self, request: Request, values: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._values = values

    async def body(self) -> bytes:
        """Return something, because FastAPI asks only whether there is a body."""
        return b"received"

    async def json(self) -> Any:
        """Return the parsed body."""
        return self._values


async def _receive(
    service: Service, caller: Caller, request: Request, most: int, places: contextlib.ExitStack
) -> bytes:
    """Return the body of a request.

    Args:
        service: The application.
        caller: Who is calling.
        request: The request.
        most: Maximum number of bytes.
        places: Receives the place that a large body took.

    Raises:
        Problem: If it is too large, comes too slowly, or many others are large.
    """
    data, seconds = bytearray(), service.options.limits.body_seconds
    message = f"the request has more than {most:,} bytes"
    too_large = Problem(413, "TooLargeError", message, "too_large", {"most": most})
    if declared_length(request) > most:
        raise too_large
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                was_large = len(data) > _LARGE
                data += part
                if len(data) > most:
                    raise too_large
                if len(data) > _LARGE and not was_large:
                    places.enter_context(service.admission.large_body(caller.name))
    except TimeoutError:
        raise Problem(
            408, "SlowRequestError", f"the request took more than {seconds:g} seconds"
        ) from None
    return bytes(data)


def declared_length(request: Request) -> int:
    """Return the number of bytes in a body according to its header; 0 if that is not known."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


def _parse(data: bytes) -> Any:
    """Return the JSON values of a body.

    Raises:
        InvalidInputError: If it is not JSON, or has too many lists and objects.
    """
    if data.count(b"[") + data.count(b"{") > _MAX_BRACKETS:
        raise InvalidInputError(
            f"the JSON of the request has more than {_MAX_BRACKETS:,} lists and objects"
        )
    try:
        values = json.loads(
            data.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=distinct_fields
        )
    except InvalidInputError:
        raise
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else "not valid"
        raise InvalidInputError(f"the JSON of the request is {problem}") from error
    _check_fields(values)
    return values


def _check_fields(values: Any, depth: int = 0) -> None:
    """Refuse an object with far too many fields: the message for each unknown one takes time."""
    if not isinstance(values, dict) or depth > _MAX_FIELD_DEPTH:
        return
    if len(values) > _MAX_FIELDS:
        raise InvalidInputError(f"an object of the request has more than {_MAX_FIELDS:,} fields")
    for value in values.values():
        _check_fields(value, depth + 1)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInputError(f"the JSON of the request contains {name}, which is not a number")
