"""Errors as answers: the status and the message that a client sees."""

from __future__ import annotations

import errno
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations.errors import (
    ClosedError,
    DuplicateDocumentError,
    E2GraphRAGError,
    FileLimitError,
    InvalidInputError,
    MissingDependencyError,
    ShardUnavailableError,
    StoreConnectionError,
    StoreError,
    StoreLockedError,
    UnknownDocumentError,
    UnknownEntityError,
    UnknownNodeError,
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

_SHOWN = 3
"""Maximum number of invalid values in a message."""


@dataclass(frozen=True)
class ErrorDetails:
    """The type of an error, and its message."""

    type: str
    message: str


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
        headers: Further headers.
    """

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """Return the answer."""
        error = {"type": self.kind, "message": self.message[:_MAX_MESSAGE]}
        content = json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")
        headers = dict(self.headers)
        if self.status in _UNREAD:  # do not wait for the rest of the request
            headers["Connection"] = "close"
        return Response(content, self.status, headers, "application/json")


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


def busy(status: int, message: str, seconds: float = 1) -> Problem:
    """Return the refusal of a client that should try again after some seconds."""
    kind = {429: "TooManyRequestsError", 503: "OverloadedError"}[status]
    return Problem(status, kind, message, {"Retry-After": str(max(1, round(seconds)))})


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
                # The hint of an unknown entity names a method of Python.
                text = error.problem if isinstance(error, UnknownEntityError) else str(error)
                return Problem(status, name, self.shown(text))
        logger.warning("%s: %s", name, redact(str(error)), exc_info=_trace_of(error))
        for hidden, status, message in _HIDDEN:
            if isinstance(error, hidden):
                return Problem(status, name, message)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return Problem(507, "NoSpaceError", "the server has no space left for this")
        if isinstance(error, E2GraphRAGError):
            return Problem(500, name, f"the request failed ({name}); see the log of the server")
        return Problem(500, "InternalError", "the request failed; see the log of the server")


def _trace_of(error: BaseException) -> BaseException | None:
    """Return an error of which the log should contain the trace: a defect of the program.

    The trace of the others would repeat their message, which may contain a secret.
    """
    return None if isinstance(error, E2GraphRAGError | OSError) else error
