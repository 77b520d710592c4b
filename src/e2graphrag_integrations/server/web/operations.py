"""Operations: the routes of the API, with everything that their documentation and checks need."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel
from starlette.requests import Request

from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.server.web.access import Caller
from e2graphrag_integrations.views.documents import Readable

if TYPE_CHECKING:
    from e2graphrag_integrations.server.web.service import Service

T = TypeVar("T")

MAX_NUMBER = 1_000_000_000
MAX_TEXT = 4_000
"""Largest number, and maximum number of characters, of a parameter."""

Rights = Literal["public", "read", "all", "write"]
"""Who may call an operation: everyone; clients with a token; those who see the whole index; or
those who may also write."""


@dataclass(frozen=True)
class Parameter:
    """A parameter in the query string, or a part of the path.

    Attributes:
        name: Its name.
        description: Its meaning.
        default: Value if it is missing. An integer makes the parameter an integer.
        minimum, maximum: Bounds of an integer.
        choices: The allowed values of a text.
        is_number: Whether it is an integer, if there is no default.
        required: Whether it must be given.
    """

    name: str
    description: str
    default: int | str | None = None
    minimum: int = 0
    maximum: int = MAX_NUMBER
    choices: tuple[str, ...] = ()
    is_number: bool = False
    required: bool = False

    def parse(self, text: str) -> int | str:
        """Return the value.

        Raises:
            InvalidInputError: If it is not allowed.
        """
        if self.is_number or isinstance(self.default, int):
            digits = text.removeprefix("-")
            is_number = (
                digits.isdecimal() and digits.isascii() and len(digits) <= len(str(MAX_NUMBER))
            )
            if not (is_number and self.minimum <= int(text) <= self.maximum):
                raise InvalidInputError(
                    f"{self.name} must be a whole number from {self.minimum:,} to {self.maximum:,}"
                )
            return int(text)
        if len(text) > MAX_TEXT or not _is_unicode(text):
            raise InvalidInputError(
                f"{self.name} must be text in UTF-8 of at most {MAX_TEXT:,} characters"
            )
        if self.choices and text not in self.choices:
            raise InvalidInputError(f"{self.name} must be one of {', '.join(self.choices)}")
        return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


@dataclass(frozen=True)
class Call:
    """One call of an operation.

    Attributes:
        service: The application.
        caller: Who is calling.
        request: The request; its body has been read unless the operation reads it.
        arguments: The parameters by name, checked.
        body: The parsed body; None if the operation has none.
    """

    service: Service
    caller: Caller
    request: Request
    arguments: Mapping[str, Any]
    body: Any = None

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

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Return the result of a function that reads the index; the limits apply."""
        return await self.service.admission.run(self.caller.name, work)


Handler = Callable[[Call], Any | Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """A method of a path, its documentation and its function.

    Attributes:
        method: The HTTP method.
        path: The path, with parameters in braces.
        handler: Returns the answer: a data class, JSON values, or a response. A function runs in a
            thread, under the limits of requests that read the index. A coroutine function runs in
            the event loop, so it must not block.
        summary: One line of documentation.
        parameters: The parameters, those of the path included.
        body: Model of the body; None if there is none, or the handler reads it.
        uploads: Whether the body consists of files.
        form: The other fields of a form with files.
        answer: Type of the answer; None if it is not JSON.
        status: Status of an answer.
        rights: Who may call it.
        media: Media type of an answer that is not JSON; empty if there is no content.
        max_body: Maximum number of bytes in the body; None means that of the limits.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: type[BaseModel] | None = None
    uploads: bool = False
    form: tuple[Parameter, ...] = ()
    answer: Any = None
    status: int = 200
    rights: Rights = "read"
    media: str = "application/json"
    max_body: int | None = None

    @cached_property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return inspect.iscoroutinefunction(self.handler)

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        """Names of the parameters in the path."""
        parts = self.path.split("/")
        return tuple(part[1:-1] for part in parts if part.startswith("{"))

    def arguments(self, request: Request) -> dict[str, Any]:
        """Return the checked parameters of a request.

        Raises:
            InvalidInputError: If a parameter is unknown, missing, given twice, or invalid.
        """
        given = request.query_params.multi_items()
        values: dict[str, str] = {}
        known = {one.name: one for one in self.parameters}
        for name, text in given:
            if name not in known or name in self.path_names:
                raise InvalidInputError(
                    f"unknown parameter {name[:100]!r}: "
                    + (f"use {', '.join(known)}" if known else "there are none")
                )
            if name in values:
                raise InvalidInputError(f"{name} is given twice")
            values[name] = text
        for name in self.path_names:
            values[name] = unquote(request.path_params[name], errors="surrogateescape")
        return {name: self._value(one, values) for name, one in known.items()}

    @staticmethod
    def _value(parameter: Parameter, values: Mapping[str, str]) -> Any:
        if parameter.name in values:
            return parameter.parse(values[parameter.name])
        if parameter.required:
            raise InvalidInputError(f"the parameter {parameter.name} is missing")
        return parameter.default
