"""One call of the API: who calls, the index that the caller sees, and the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, unquote

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BeforeValidator, Field
from starlette.requests import ClientDisconnect

from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.server.web.access import Caller
from e2graphrag_integrations.server.web.service import Service
from e2graphrag_integrations.views.documents import Readable
from e2graphrag_integrations.views.json_values import to_json

T = TypeVar("T")

MAX_NUMBER = 1_000_000_000
MAX_TEXT = 4_000
"""Largest number, and maximum number of characters, of a parameter."""


MISSING_SHARDS = "E2GraphRAG-Missing-Shards"
"""Header with the names of the shards that an answer lacks, percent-encoded."""

CALLER = "e2graphrag.caller"
"""Key of the caller in the scope, which no other request shares, unlike `request.state`."""


@dataclass(frozen=True)
class Call:
    """One call of a route.

    Attributes:
        service: The application.
        caller: Who is calling.
        request: The request.
    """

    service: Service
    caller: Caller
    request: Request

    @property
    def reader(self) -> Readable:
        """The index as the caller sees it: all of it, or the scope of the token."""
        return self.service.reader(self.caller)

    @property
    def rag(self) -> E2GraphRAG:
        """The whole index.

        Raises:
            Problem: If the caller sees only a part of it.
        """
        self.service.check_rights(self.caller, "all")
        return self.service.rag

    async def in_thread(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Return the result of a function that reads the index; the limits apply.

        Args:
            work: The function.
            seconds: Maximum time; None means that of the limits.
        """
        return await self.service.admission.run(self.caller.name, work, seconds)

    async def answer(self, work: Callable[[], Any], seconds: float | None = None) -> Response:
        """Return the result of a function that reads the index as JSON; the limits apply.

        A header names the shards that the answer lacks, because they cannot be asked.

        Args:
            work: The function.
            seconds: Maximum time; None means that of the limits.

        Raises:
            ClientDisconnect: If the client goes away before.
        """

        def respond() -> Response:
            result, missing = self.service.with_missing(work)
            response = as_response(result)
            if missing:
                response.headers[MISSING_SHARDS] = ", ".join(quote(one) for one in missing)
            return response

        return await _unless_gone(self.request, self.in_thread(respond, seconds))


async def call_of(request: Request) -> Call:
    """Return the call that a request makes; `GuardedRoute` has checked the caller."""
    return Call(request.app.state.service, request.scope[CALLER], request)


ACall = Annotated[Call, Depends(call_of)]


async def large_body(call: ACall) -> AsyncIterator[None]:
    """Count a request with files among those with a large body, until it is answered."""
    with call.service.admission.large_body(call.caller.name):
        yield


def as_response(answer: Any, status: int = 200) -> Response:
    """Return a data class, or JSON values, as the answer to a request."""
    values = answer.to_dict() if hasattr(answer, "to_dict") else to_json(answer)
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


async def _unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return the result of an awaitable, or cancel it if the client goes away."""
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


# Parameters


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError("must be text in UTF-8") from error


Text = Annotated[str, Field(max_length=MAX_TEXT)]

PathText = Annotated[Text, BeforeValidator(_decoded)]
"""A part of the path, which may contain encoded slashes."""

DocumentId = Annotated[PathText, Path(alias="id", description="Id of the document.")]

Number = Annotated[int, Field(ge=0, le=MAX_NUMBER)]

Offset = Annotated[Number, Query(description="Number of items to skip.")]
