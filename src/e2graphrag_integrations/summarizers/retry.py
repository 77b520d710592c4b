"""Retries of failed model calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tenacity

from e2graphrag_integrations._utils.validation import check_int, check_seconds, short_repr
from e2graphrag_integrations.errors import InvalidInputError

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TRANSIENT_NAMES = frozenset(
    {"APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError"}
    | {"TransportError", "ServiceUnavailableError", "ServerError", "ResourceExhausted"}
    # From requests and aiohttp; these do not derive from the built-in errors.
    | {"ConnectionError", "Timeout", "ClientConnectionError", "TimeoutError"}
)
"""Class names of transient errors in common HTTP and model clients."""


def is_transient(error: BaseException) -> bool:
    """Return whether a failed call may succeed when retried.

    Transient errors are timeouts, connection errors, and HTTP statuses such as 429 and 503. They
    are recognized by type, by the `status_code` of the error or its `response`, or by the class
    names that common clients use.
    """
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    status = getattr(error, "status_code", None)
    if status is None:
        status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status in _TRANSIENT_STATUS
    return any(cls.__name__ in _TRANSIENT_NAMES for cls in type(error).__mro__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries failed calls with exponential backoff and jitter.

    Attributes:
        attempts: Maximum number of calls, including the first.
        first_wait: Upper bound on the first wait, in seconds; doubles after each attempt.
        longest_wait: Upper bound on every wait, in seconds, including a server's Retry-After.
        transient: Returns whether to retry after an error.

    Raises:
        InvalidInputError: If a number is out of range or `transient` is not callable.
    """

    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    transient: Callable[[BaseException], bool] = is_transient

    def __post_init__(self) -> None:
        object.__setattr__(self, "attempts", check_int("attempts", self.attempts))
        for name in ("first_wait", "longest_wait"):
            object.__setattr__(self, name, check_seconds(name, getattr(self, name)))
        if not callable(self.transient):
            raise InvalidInputError(
                f"transient={short_repr(self.transient)} must be a function that takes an error"
            )

    def retrying(self, stop_event: threading.Event | None = None) -> tenacity.Retrying:
        """Return a new tenacity controller for one call.

        Args:
            stop_event: Once set, the current wait ends and no further attempt is made.
        """
        stop: Any = tenacity.stop_after_attempt(self.attempts)
        if stop_event is not None:
            stop |= tenacity.stop_when_event_set(stop_event)
        backoff = tenacity.wait_random_exponential(
            multiplier=self.first_wait, max=self.longest_wait
        )

        def wait(state: tenacity.RetryCallState) -> float:
            requested = _retry_after(state.outcome.exception() if state.outcome else None)
            return max(backoff(state), min(requested, self.longest_wait))

        return tenacity.Retrying(
            stop=stop,
            sleep=tenacity.sleep if stop_event is None else tenacity.sleep_using_event(stop_event),
            wait=wait,
            retry=tenacity.retry_if_exception(self.transient),
            reraise=True,
        )


def _retry_after(error: BaseException | None) -> float:
    """Return the seconds in the response's Retry-After header, or 0."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except (TypeError, ValueError):  # the header may contain a date
        return 0.0
