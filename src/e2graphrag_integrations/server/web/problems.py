"""Errors as answers: the status and the message that a client sees."""

from __future__ import annotations

import errno
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from starlette.responses import Response

from e2graphrag_integrations._utils.failures import CodedText, redact, text_of
from e2graphrag_integrations.errors import (
    ClosedError,
    DuplicateDocumentError,
    E2GraphRAGError,
    FileLimitError,
    IndexGoneError,
    InvalidInputError,
    MissingDependencyError,
    ShardUnavailableError,
    StoreConnectionError,
    StoreError,
    StoreLockedError,
    UnknownDocumentError,
    UnknownEntityError,
    UnknownNodeError,
    VectorIndexError,
)

logger = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[E2GraphRAGError], int], ...] = (
    (UnknownDocumentError, 404),
    (UnknownEntityError, 404),
    (UnknownNodeError, 404),
    (DuplicateDocumentError, 409),
    (FileLimitError, 413),
    (InvalidInputError, 400),
)
"""Errors whose message helps the client, and their status. The messages of others stay here."""

_HIDDEN: tuple[tuple[type[E2GraphRAGError], int, str], ...] = (
    (StoreLockedError, 409, "the index is being written elsewhere: try again later"),
    (StoreConnectionError, 503, "the database server cannot be reached: try again later"),
    (ShardUnavailableError, 503, "a part of the index cannot be asked: try again later"),
    (
        IndexGoneError,
        503,
        "the index was deleted, moved or replaced while the server ran: start the server again",
    ),
    (VectorIndexError, 503, "the server of the vectors refuses the request; see the server's log"),
    (ClosedError, 503, "the server is stopping"),
    (MissingDependencyError, 500, "the server lacks a package for this; see its log"),
    (
        StoreError,
        503,
        "the index cannot be used: its file may be missing or damaged; see the server's log",
    ),
)

_MAX_MESSAGE = 2_000
"""Maximum number of characters of a message, which may quote the request."""

_UNREAD = (408, 413, 429, 503)
"""Statuses of requests that may not have been received in full."""

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The places between the words of the name of a type."""

_SHOWN = 3
"""Maximum number of invalid values in a message."""


@dataclass(frozen=True)
class ErrorDetails:
    """An error in words, and what makes the same message in another language.

    Attributes:
        type: The type of the error.
        message: The message in English.
        code: What went wrong; it stays the same when the message changes.
        values: What the message names, by name; one may be a further message with `code`, `values`
            and `text`, or a list of them.
    """

    type: str
    message: str
    code: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CodedMessage:
    """A message that is no error, or part of one; see `ErrorDetails`."""

    code: str
    values: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class ErrorAnswer:
    """The answer to a request that is refused, or that failed."""

    error: ErrorDetails


@dataclass
class Problem(Exception):  # noqa: N818 - the word for it in RFC 9457
    """A request that is refused.

    Attributes:
        status: The HTTP status.
        kind: The type of the error in the answer.
        message: The message in the answer.
        code: What went wrong; empty means the name of the type: `unknown_job` for
            `UnknownJobError`.
        values: What the message names, by name.
        headers: Further headers.
    """

    status: int
    kind: str
    message: str
    code: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def details(self) -> ErrorDetails:
        """The error in the answer."""
        code = self.code or code_of(self.kind)
        return ErrorDetails(self.kind, self.message[:_MAX_MESSAGE], code, self.values)

    def response(self) -> Response:
        """Return the answer."""
        text = json.dumps({"error": asdict(self.details)}, ensure_ascii=False)
        content = text.encode("utf-8", "replace")
        headers = dict(self.headers)
        if self.status in _UNREAD:  # do not wait for the rest of the request
            headers["Connection"] = "close"
        return Response(content, self.status, headers, "application/json")


def code_of(kind: str) -> str:
    """Return the code of an error by its type.

    >>> code_of("UnknownJobError"), code_of("LLMCallLimitError")
    ('unknown_job', 'llm_call_limit')
    """
    return _CAPITAL.sub("_", kind.removesuffix("Error")).lower()


def describe(errors: Sequence[Any]) -> str:
    """Return which values of a request are invalid, and why.

    Args:
        errors: The errors that Pydantic found.
    """
    parts = [
        f"{'.'.join(str(key)[:100] for key in one['loc']) or 'the request'}: "
        + one["msg"].removeprefix("Value error, ")
        for one in errors[:_SHOWN]
    ]
    more = len(errors) - _SHOWN
    return "; ".join([*parts, *([f"and {more} more"] if more > 0 else [])])


def busy(
    status: int, message: str, seconds: float = 1, *, code: str = "", **values: Any
) -> Problem:
    """Return the refusal of a client that should try again after some seconds."""
    kind = {429: "TooManyRequestsError", 503: "OverloadedError"}[status]
    headers = {"Retry-After": str(max(1, round(seconds)))}
    return Problem(status, kind, message, code, values, headers)


@dataclass(frozen=True)
class Explainer:
    """Turns exceptions into answers that reveal neither paths nor secrets.

    Attributes:
        location: The path or the URL of the index. No message contains it, unless it is a
            single word, which messages can contain for another reason.
    """

    location: str

    def shown(self, text: str) -> str:
        """Return a text without secrets, and without the path of the index."""
        is_word = re.fullmatch(r"\w+", self.location)
        return redact(text if is_word else text.replace(self.location, "the index"))

    def problem(self, error: BaseException) -> Problem:
        """Return the answer to an exception. The log gets the message if the client does not."""
        if isinstance(error, Problem):
            return error
        name = type(error).__name__
        for kind, status in _STATUSES:
            if isinstance(error, kind):
                return self._explained(error, status)
        logger.warning("%s: %s", name, redact(str(error)), exc_info=_trace_of(error))
        for hidden, status, message in _HIDDEN:
            if isinstance(error, hidden):
                return Problem(status, name, message, code_of(hidden.__name__))
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return Problem(507, "NoSpaceError", "the server has no space left for this")
        if isinstance(error, E2GraphRAGError):
            message = f"the request failed ({name}); see the log of the server"
            return Problem(500, name, message, "failed", {"type": name})
        return Problem(500, "InternalError", "the request failed; see the log of the server")

    def reason(self, error: E2GraphRAGError) -> ErrorDetails:
        """Return why something could not be done, without the log that a request gets."""
        text = text_of(error)
        code, values = self._coded(text) if isinstance(text, CodedText) else ("", {})
        return ErrorDetails(type(error).__name__, self.shown(str(error)), code, values)

    def message(self, text: CodedText) -> CodedMessage:
        """Return a message for the client."""
        return CodedMessage(*self._coded(text), self.shown(text))

    def _coded(self, text: CodedText) -> tuple[str, dict[str, Any]]:
        """Return the code and the values of a message for the client."""
        return text.code, {name: self._value(value) for name, value in text.values.items()}

    def _value(self, value: Any) -> Any:
        if isinstance(value, CodedText):
            return asdict(self.message(value))
        if isinstance(value, list | tuple):
            return [self._value(one) for one in value]
        return self.shown(value) if isinstance(value, str) else value

    def _explained(self, error: E2GraphRAGError, status: int) -> Problem:
        """Return the answer to an error whose message helps the client."""
        if isinstance(error, UnknownDocumentError) and error.document_id:
            values = {"id": self.shown(error.document_id)}
            return Problem(status, type(error).__name__, self.shown(str(error)), "", values)
        if not isinstance(error, UnknownEntityError):
            found = self.reason(error)
            return Problem(status, found.type, found.message, found.code, found.values)
        # The hint of an unknown entity names a method of Python.
        code = "unknown_entity_meant" if error.meant else ""
        code = "stopped_entity" if error.is_stopped else code
        names = [self.shown(name) for name in error.meant]
        about = {"entity": self.shown(error.name), "names": names}
        return Problem(status, type(error).__name__, self.shown(error.problem), code, about)


def _trace_of(error: BaseException) -> BaseException | None:
    """Return an error of which the log should contain the trace: a defect of the program.

    The trace of the others would repeat their message, which may contain a secret.
    """
    return None if isinstance(error, E2GraphRAGError | OSError) else error
