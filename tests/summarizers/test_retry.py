import threading
import time

import pytest
import tenacity

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.summarizers.retry import RetryPolicy, is_transient


class Response:
    def __init__(self, status=None, headers=None):
        self.status_code = status
        self.headers = headers or {}


class StatusError(Exception):
    """An error as the openai and anthropic clients raise it."""

    def __init__(self, status, headers=None):
        super().__init__(status)
        self.status_code = status
        self.response = Response(status, headers)


class HTTPError(Exception):
    """An error as requests and httpx raise it: only the response has a status."""

    def __init__(self, status):
        super().__init__(status)
        self.response = Response(status)


def error_named(name, base=Exception):
    return type(name, (base,), {})()


@pytest.mark.parametrize("kind", [StatusError, HTTPError])
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_retryable_statuses_are_transient(status, kind):
    assert is_transient(kind(status))


@pytest.mark.parametrize("kind", [StatusError, HTTPError])
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 501])
def test_other_statuses_are_permanent(status, kind):
    assert not is_transient(kind(status))


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
        error_named("APIConnectionError"),
        error_named("ReadTimeout", type("TransportError", (Exception,), {})),
        error_named("ConnectTimeout", type("Timeout", (OSError,), {})),
        error_named("ConnectionError", OSError),
        error_named("ResourceExhausted"),
    ],
)
def test_timeouts_and_connection_errors_are_transient(error):
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [ValueError(), KeyError("x"), OSError(), error_named("AuthenticationError"), SystemExit()],
)
def test_other_errors_are_permanent(error):
    assert not is_transient(error)


def test_status_takes_precedence_over_the_class_name():
    error = error_named("InternalServerError")
    error.status_code = 400
    assert not is_transient(error)


class Flaky:
    """A function that raises the given errors, one per call, then returns."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "result"


@pytest.fixture
def waits(monkeypatch):
    """The seconds that tenacity would have slept."""
    slept = []
    monkeypatch.setattr(tenacity.nap.time, "sleep", slept.append)
    return slept


def test_transient_errors_are_retried_until_success(waits):
    call = Flaky(TimeoutError(), StatusError(503), HTTPError(429))
    assert RetryPolicy(first_wait=0).retrying()(call) == "result"
    assert call.calls == 4
    assert waits == [0, 0, 0]


def test_permanent_errors_are_raised_immediately(waits):
    call = Flaky(StatusError(401))
    with pytest.raises(StatusError):
        RetryPolicy().retrying()(call)
    assert (call.calls, waits) == (1, [])


def test_permanent_error_after_a_transient_one_stops_retrying(waits):
    call = Flaky(StatusError(500), ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        RetryPolicy(first_wait=0).retrying()(call)
    assert call.calls == 2


def test_last_error_is_raised_after_all_attempts(waits):
    call = Flaky(*(StatusError(500 + 2 * (i % 2)) for i in range(9)))
    with pytest.raises(StatusError, match="500"):
        RetryPolicy(attempts=3, first_wait=0).retrying()(call)
    assert call.calls == 3
    assert len(waits) == 2


def test_wait_bounds_double_up_to_the_longest_wait(waits):
    call = Flaky(*(TimeoutError() for _ in range(7)))
    RetryPolicy(attempts=8, first_wait=1, longest_wait=8).retrying()(call)
    # Random between 0 and 1, 2, 4, 8, 8, ...
    bounds = [1, 2, 4, 8, 8, 8, 8]
    assert all(0 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    assert any(waits)


def test_retry_after_header_sets_the_wait(waits):
    call = Flaky(StatusError(429, {"retry-after": "7"}), StatusError(503, {"retry-after": "0.5"}))
    RetryPolicy(first_wait=0).retrying()(call)
    assert waits == [7.0, 0.5]


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2026 07:28:00 GMT", "-3", "nan", None, ""])
def test_invalid_retry_after_header_is_ignored(waits, value):
    RetryPolicy(first_wait=0).retrying()(Flaky(StatusError(429, {"retry-after": value})))
    assert waits == [0]


def test_custom_transient_function_decides_on_retries(waits):
    policy = RetryPolicy(first_wait=0, transient=lambda error: isinstance(error, ValueError))
    assert policy.retrying()(Flaky(ValueError())) == "result"
    with pytest.raises(TimeoutError):
        policy.retrying()(Flaky(TimeoutError()))


def test_waits_fixture_patches_the_sleep_of_tenacity():
    assert tenacity.nap.time is time


def test_stop_event_ends_the_wait_and_further_attempts():
    stop_event = threading.Event()
    calls = []

    def call():
        calls.append(1)
        stop_event.set()
        raise TimeoutError

    with pytest.raises(TimeoutError):
        RetryPolicy(first_wait=3600, longest_wait=3600).retrying(stop_event)(call)
    assert calls == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"attempts": 0}, "attempts=0", id="attempts_zero"),
        pytest.param({"attempts": "x"}, "attempts='x'", id="attempts_type"),
        pytest.param({"first_wait": -1}, "first_wait=-1", id="first_wait_negative"),
        pytest.param({"longest_wait": float("nan")}, "longest_wait=nan", id="longest_wait_nan"),
        pytest.param({"transient": 5}, "transient=5", id="transient_type"),
    ],
)
def test_invalid_retry_settings_are_rejected(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        RetryPolicy(**arguments)
