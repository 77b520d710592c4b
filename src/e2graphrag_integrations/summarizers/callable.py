"""Summaries by any language model: prompts, a wrapper for plain callables, and retries."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tenacity

from e2graphrag_integrations._utils.validation import (
    check_int,
    check_seconds,
    check_text,
    short_repr,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import Summarizer

TextFunction = Callable[[str], "str | Awaitable[str]"]

_WORDS_PER_TOKEN = 0.6
"""Words asked for per token allowed: below the true ratio, so that a model's overshoot fits."""

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TRANSIENT_NAMES = frozenset(
    {"APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError"}
    | {"TransportError", "ServiceUnavailableError", "ServerError", "ResourceExhausted"}
    # Of requests, aiohttp, and asyncio before Python 3.11: no subclasses of the built-in ones.
    | {"ConnectionError", "Timeout", "ClientConnectionError", "TimeoutError"}
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """The two prompts. `{text}` is replaced by the material, `{words}` by the length asked for.

    Raises:
        InvalidInputError: For a prompt that is no text or has no place for the material.
    """

    chunks: str = (
        "{text}\n\n---\nSummarise the passages above in at most {words} words. Keep the names, "
        "places, events and causes that matter. Answer with the summary alone, in the language "
        "of the passages."
    )
    summaries: str = (
        "{text}\n\n---\nThe texts above are summaries of consecutive parts of one document. Merge "
        "them in one summary of at most {words} words. Keep the thread and the names. Answer with "
        "the summary alone, in the language of the texts."
    )

    def __post_init__(self) -> None:
        for name, prompt in (("chunks", self.chunks), ("summaries", self.summaries)):
            if "{text}" not in check_text(f"the prompt for {name}", prompt):
                raise InvalidInputError(
                    f"the prompt for {name} has no {{text}}, where the material goes: "
                    f"{short_repr(prompt)}"
                )

    def render(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt for the summary of `texts` at `level`."""
        template = self.chunks if level == 1 else self.summaries
        words = max(10, int(max_tokens * _WORDS_PER_TOKEN))
        # Not str.format: the material may hold braces, and so may a user's template.
        head, _, tail = template.partition("{text}")
        material = "\n\n".join(texts)
        return head.replace("{words}", str(words)) + material + tail.replace("{words}", str(words))

    @property
    def fingerprint(self) -> str:
        """Changes with the wording."""
        return hashlib.sha256(f"{self.chunks}\0{self.summaries}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class CallableSummarizer:
    """Summarizes by a function from prompt to text, sync or async.

    Args:
        function: Called with the prompt; its answer is the summary.
        summarizer_id: Names model and settings, for example `"gpt-4o-mini@0"`. With it, finished
            summaries are shared between runs; without it, they are reused in this process only.
        prompts: The prompts.
    """

    function: TextFunction
    summarizer_id: str | None = None
    prompts: Prompts = field(default_factory=Prompts)

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` would send."""
        return self.prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the function's answer to the prompt."""
        return self.function(self.prompt(texts, level=level, max_tokens=max_tokens))

    @property
    def fingerprint(self) -> str | None:
        """Id and prompts, None without an id."""
        if self.summarizer_id is None:
            return None
        return f"callable:{self.summarizer_id}:{self.prompts.fingerprint}"


@dataclass(frozen=True, slots=True)
class NamedSummarizer:
    """A summarizer without a fingerprint of its own, under the name that its user gave it."""

    summarizer: Summarizer
    summarizer_id: str

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return what the summarizer returns."""
        return self.summarizer.summarize(texts, level=level, max_tokens=max_tokens)

    @property
    def uses_llm(self) -> bool:
        """As the summarizer says; True where it says nothing."""
        return bool(getattr(self.summarizer, "uses_llm", True))

    @property
    def fingerprint(self) -> str:
        """The name."""
        prompts = getattr(self.summarizer, "prompts", None)
        return f"named:{self.summarizer_id}:{getattr(prompts, 'fingerprint', '')}"


def is_transient(error: BaseException) -> bool:
    """Tell whether a failed call may succeed when repeated.

    Time-outs, broken connections and the HTTP statuses that ask for patience, recognized by type,
    by the `status_code` that HTTP clients attach to the error or its `response`, or by the names
    that the common clients use.
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
    """How often and how patiently a failed call is repeated.

    Args:
        attempts: Calls in all, the first included.
        first_wait: Seconds before the second call; doubles each time, with jitter.
        longest_wait: Bound of the doubling, and of what a server may ask for, in seconds.
        transient: Decides which errors are worth another call.

    Raises:
        InvalidInputError: For a number out of range, or no function.
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
                f"transient={short_repr(self.transient)} must be a function of an error"
            )

    def retrying(self, stopping: threading.Event | None = None) -> tenacity.Retrying:
        """Return a fresh tenacity controller for one call; `stopping` ends waits and repeats."""
        stop: Any = tenacity.stop_after_attempt(self.attempts)
        if stopping is not None:
            stop |= tenacity.stop_when_event_set(stopping)
        backoff = tenacity.wait_random_exponential(
            multiplier=self.first_wait, max=self.longest_wait
        )

        def wait(state: tenacity.RetryCallState) -> float:
            hint = _retry_after(state.outcome.exception() if state.outcome else None)
            return max(backoff(state), min(hint, self.longest_wait))

        return tenacity.Retrying(
            stop=stop,
            sleep=tenacity.sleep if stopping is None else tenacity.sleep_using_event(stopping),
            wait=wait,
            retry=tenacity.retry_if_exception(self.transient),
            reraise=True,
        )


def _retry_after(error: BaseException | None) -> float:
    """Return the seconds a server asked for in a Retry-After header, 0 if it did not."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except (TypeError, ValueError):  # the header may hold a date: the back-off does
        return 0.0
