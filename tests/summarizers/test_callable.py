import asyncio
import threading
import time

import pytest
import tenacity

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.summarizers.callable import (
    CallableSummarizer,
    Prompts,
    RetryPolicy,
    is_transient,
)


def test_prompts_hold_the_texts_and_ask_for_fewer_words_than_tokens():
    prompts = Prompts(chunks="{words} words of:\n{text}", summaries="merge {text} in {words}")
    # 100 tokens * 0.6 = 60 words.
    assert prompts.render(["a", "b"], level=1, max_tokens=100) == "60 words of:\na\n\nb"
    assert prompts.render(["a", "b"], level=2, max_tokens=100) == "merge a\n\nb in 60"
    assert prompts.render(["a"], level=3, max_tokens=1) == "merge a in 10"


def test_braces_in_texts_and_templates_stay_as_they_are():
    prompts = Prompts(chunks='{"json": true} {text}')
    text = "{words} {text} {0} {"
    assert prompts.render([text], level=1, max_tokens=100) == f'{{"json": true}} {text}'


def test_the_fingerprint_of_prompts_changes_with_each():
    made = [Prompts(), Prompts(chunks="x{text}"), Prompts(summaries="x{text}")]
    assert len({prompts.fingerprint for prompts in made}) == 3
    assert Prompts().fingerprint == Prompts().fingerprint


def test_a_function_is_called_with_the_prompt():
    summarizer = CallableSummarizer(str.upper, prompts=Prompts("sum {text}"))
    assert isinstance(summarizer, Summarizer)
    assert summarizer.summarize(["a"], level=1, max_tokens=10) == "SUM A"
    assert summarizer.prompt(["a"], level=1, max_tokens=10) == "sum a"


def test_an_async_functions_coroutine_is_handed_on():
    async def function(prompt):
        return prompt

    answer = CallableSummarizer(function, prompts=Prompts("{text}")).summarize(
        ["a"], level=1, max_tokens=10
    )
    assert asyncio.run(answer) == "a"


def test_only_an_id_gives_a_fingerprint_that_is_shared():
    assert CallableSummarizer(str.upper).fingerprint is None
    one = CallableSummarizer(str.upper, "m").fingerprint
    assert one == CallableSummarizer(str.lower, "m").fingerprint
    assert one != CallableSummarizer(str.upper, "n").fingerprint
    assert one != CallableSummarizer(str.upper, "m", Prompts("x{text}")).fingerprint


class Response:
    def __init__(self, status=None, headers=None):
        self.status_code = status
        self.headers = headers or {}


class StatusError(Exception):
    """As the openai and anthropic clients raise it."""

    def __init__(self, status, headers=None):
        super().__init__(status)
        self.status_code = status
        self.response = Response(status, headers)


class HTTPError(Exception):
    """As requests and httpx raise it: the status stands on the response alone."""

    def __init__(self, status):
        super().__init__(status)
        self.response = Response(status)


def named(name, base=Exception):
    return type(name, (base,), {})()


@pytest.mark.parametrize("kind", [StatusError, HTTPError])
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_statuses_that_ask_for_patience_are_transient(status, kind):
    assert is_transient(kind(status))


@pytest.mark.parametrize("kind", [StatusError, HTTPError])
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 501])
def test_other_statuses_are_permanent(status, kind):
    assert not is_transient(kind(status))


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        asyncio.TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
        named("APIConnectionError"),
        named("ReadTimeout", type("TransportError", (Exception,), {})),
        named("ConnectTimeout", type("Timeout", (OSError,), {})),
        named("ConnectionError", OSError),
        named("ResourceExhausted"),
    ],
)
def test_time_outs_and_broken_connections_are_transient(error):
    assert is_transient(error)


@pytest.mark.parametrize(
    "error", [ValueError(), KeyError("x"), OSError(), named("AuthenticationError"), SystemExit()]
)
def test_other_errors_are_permanent(error):
    assert not is_transient(error)


def test_a_status_decides_even_where_the_name_says_otherwise():
    error = named("InternalServerError")
    error.status_code = 400
    assert not is_transient(error)


class Flaky:
    """Raises the errors given, one a call, then answers."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.fixture
def waits(monkeypatch):
    """The seconds that would have been slept."""
    slept = []
    monkeypatch.setattr(tenacity.nap.time, "sleep", slept.append)
    return slept


def test_transient_errors_are_repeated_until_an_answer(waits):
    call = Flaky(TimeoutError(), StatusError(503), HTTPError(429))
    assert RetryPolicy(first_wait=0).retrying()(call) == "answer"
    assert call.calls == 4
    assert waits == [0, 0, 0]


def test_permanent_errors_are_raised_at_once(waits):
    call = Flaky(StatusError(401))
    with pytest.raises(StatusError):
        RetryPolicy().retrying()(call)
    assert (call.calls, waits) == (1, [])


def test_a_permanent_error_after_a_transient_one_ends_it(waits):
    call = Flaky(StatusError(500), ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        RetryPolicy(first_wait=0).retrying()(call)
    assert call.calls == 2


def test_the_last_error_is_raised_after_all_attempts(waits):
    call = Flaky(*(StatusError(500 + 2 * (i % 2)) for i in range(9)))
    with pytest.raises(StatusError, match="500"):
        RetryPolicy(attempts=3, first_wait=0).retrying()(call)
    assert call.calls == 3
    assert len(waits) == 2


def test_waits_grow_at_most_twofold_up_to_the_longest(waits):
    call = Flaky(*(TimeoutError() for _ in range(7)))
    RetryPolicy(attempts=8, first_wait=1, longest_wait=8).retrying()(call)
    # Random between 0 and 1, 2, 4, 8, 8, ...
    bounds = [1, 2, 4, 8, 8, 8, 8]
    assert all(0 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    assert any(waits)


def test_retry_after_is_honored(waits):
    call = Flaky(StatusError(429, {"retry-after": "7"}), StatusError(503, {"retry-after": "0.5"}))
    RetryPolicy(first_wait=0).retrying()(call)
    assert waits == [7.0, 0.5]


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2026 07:28:00 GMT", "-3", "nan", None, ""])
def test_a_retry_after_that_is_no_number_of_seconds_leaves_the_back_off(waits, value):
    RetryPolicy(first_wait=0).retrying()(Flaky(StatusError(429, {"retry-after": value})))
    assert waits == [0]


def test_what_is_transient_can_be_decided_by_the_user(waits):
    policy = RetryPolicy(first_wait=0, transient=lambda error: isinstance(error, ValueError))
    assert policy.retrying()(Flaky(ValueError())) == "answer"
    with pytest.raises(TimeoutError):
        policy.retrying()(Flaky(TimeoutError()))


def test_sleeping_is_patched_where_it_happens():
    """Guards the fixture above."""
    assert tenacity.nap.time is time


def test_a_stop_ends_the_wait_and_the_repeats():
    stopping = threading.Event()
    calls = []

    def call():
        calls.append(1)
        stopping.set()
        raise TimeoutError

    with pytest.raises(TimeoutError):
        RetryPolicy(first_wait=3600, longest_wait=3600).retrying(stopping)(call)
    assert calls == [1]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Prompts("no place"), r"prompt for chunks has no \{text\}"),
        (lambda: Prompts("{text}", ""), r"prompt for summaries has no \{text\}"),
        (lambda: Prompts(5), "prompt for chunks must be a string, not int"),
        (lambda: Prompts("{text}\ud800"), "lone surrogate"),
        (lambda: RetryPolicy(attempts=0), "attempts=0"),
        (lambda: RetryPolicy(attempts="x"), "attempts='x'"),
        (lambda: RetryPolicy(first_wait=-1), "first_wait=-1"),
        (lambda: RetryPolicy(longest_wait=float("nan")), "longest_wait=nan"),
        (lambda: RetryPolicy(transient=5), "transient=5"),
    ],
)
def test_prompts_and_patience_that_make_no_sense_are_refused(make, match):
    with pytest.raises(InvalidInputError, match=match):
        make()
