"""Endpoints: one request from the first check to the answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.server.web.access import Caller
from e2graphrag_integrations.server.web.operations import Call, Operation
from e2graphrag_integrations.server.web.options import Limits
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.service import Service
from e2graphrag_integrations.views.json_values import to_json

T = TypeVar("T")

GONE = 499
"""Status for the metrics if the client went away; nobody receives it."""

_LARGE = 65_536
"""Number of bytes from which on a body is large."""

_MAX_BRACKETS = 100_000
"""Maximum number of lists and objects in a body. While a million are parsed, nothing else runs."""

_SHOWN = 3
"""Maximum number of invalid fields in a message."""


def route(service: Service, operation: Operation) -> Route:
    """Return the route of an operation."""
    label = f"{operation.method} {operation.path}"

    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        try:
            response = await _answer(service, operation, request)
        except ClientDisconnect:
            response = Response(status_code=GONE)
        except Exception as error:  # noqa: BLE001 - every error becomes an answer
            response = service.explainer.problem(error).response()
        service.metrics.count(label, response.status_code, time.perf_counter() - started)
        return response

    return Route(operation.path, endpoint, methods=[operation.method], name=operation.summary)


async def _answer(service: Service, operation: Operation, request: Request) -> Response:
    service.access.check_origin(request)
    caller = service.access.identify(request, needs_token=operation.rights != "public")
    service.check_rights(caller, operation.rights)
    with contextlib.ExitStack() as places:
        room = partial(service.admission.large_body, caller.name)
        if operation.uploads:
            places.enter_context(room())
            data = b""
        else:
            most = operation.max_body or service.options.limits.body_bytes
            data = await _body(request, service.options.limits, most, room, places)
            _check_type(request, operation)
        return await _handle(service, operation, request, caller, data)


async def _handle(
    service: Service, operation: Operation, request: Request, caller: Caller, data: bytes
) -> Response:
    arguments = operation.arguments(request)

    def call() -> Call:
        return Call(service, caller, request, arguments, _parse(operation.body, data))

    if operation.is_async:
        # A large body takes long to check.
        called = await service.admission.run(caller.name, call) if operation.body else call()
        return _response(operation, await operation.handler(called))
    work = lambda: _response(operation, operation.handler(call()))  # noqa: E731 - of this call
    return await _unless_gone(request, service.admission.run(caller.name, work))


async def _unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return the result of an awaitable, or cancel it if the client goes away.

    Raises:
        ClientDisconnect: If it did.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_until_gone(request.receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _until_gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _response(operation: Operation, answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    values = answer.to_dict() if hasattr(answer, "to_dict") else to_json(answer)
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(
        text.encode("utf-8", "replace"), operation.status, media_type="application/json"
    )


async def _body(
    request: Request,
    limits: Limits,
    most: int,
    room: Callable[[], AbstractContextManager[None]],
    places: contextlib.ExitStack,
) -> bytes:
    """Return the body of a request.

    Args:
        request: The request.
        limits: The limits.
        most: Maximum number of bytes.
        room: Counts a large body.
        places: Where the place of a large body is given back.

    Raises:
        Problem: If it is too large, comes too slowly, or many others are large.
    """
    data, is_large = bytearray(), False
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                data += part
                if len(data) > most:
                    raise Problem(413, "TooLargeError", f"the request has more than {most:,} bytes")
                if len(data) > _LARGE and not is_large:
                    places.enter_context(room())
                    is_large = True
    except TimeoutError:
        raise Problem(
            408, "SlowRequestError", f"the request took more than {limits.body_seconds:g} seconds"
        ) from None
    return bytes(data)


def _check_type(request: Request, operation: Operation) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if operation.body is not None and kind != "application/json":
        raise Problem(415, "MediaTypeError", "send the request as application/json")


def _parse(model: type[BaseModel] | None, data: bytes) -> BaseModel | None:
    """Return the checked body of a request.

    Raises:
        InvalidInputError: If it is not JSON, or a value is invalid.
    """
    if model is None:
        return None
    if data.count(b"[") + data.count(b"{") > _MAX_BRACKETS:
        raise InvalidInputError(
            f"the JSON of the request has more than {_MAX_BRACKETS:,} lists and objects"
        )
    try:
        values = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except InvalidInputError:
        raise
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else "not valid"
        raise InvalidInputError(f"the JSON of the request is {problem}") from error
    try:
        return model.model_validate(values)
    except (ValidationError, RecursionError) as error:
        raise InvalidInputError(_describe(error)) from error


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInputError(f"the JSON of the request contains {name}, which is not a number")


def _describe(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "the JSON of the request is nested too deeply"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    parts = [
        f"{'.'.join(str(key)[:100] for key in one['loc']) or 'the request'}: {one['msg']}"
        for one in found[:_SHOWN]
    ]
    more = len(found) - _SHOWN
    return "; ".join([*parts, *([f"and {more} more"] if more > 0 else [])])
