"""What happens when a block raises: undoing, messages without secrets, and their codes."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import subprocess
import sys
import weakref
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, PrivateAttr, SecretStr

from e2graphrag_integrations._utils.failures import (
    REDACTED,
    CodedText,
    on_error,
    redact,
    redact_error,
    secrets_of,
    text_of,
)
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import EmbeddingError, InvalidInputError, UnknownEntityError


def test_nothing_is_undone_without_an_error():
    undone = []
    with on_error(undone.append):
        pass
    assert undone == []


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt()])
def test_an_error_is_undone_and_continues(error):
    undone = []
    with pytest.raises(type(error)) as raised, on_error(undone.append):
        raise error
    assert undone == [error]
    assert raised.value is error


def test_only_errors_of_the_given_class_are_undone():
    undone = []
    with pytest.raises(KeyboardInterrupt), on_error(undone.append, Exception):
        raise KeyboardInterrupt
    assert undone == []


def test_a_failure_to_undo_frees_what_the_block_had_open_at_once():
    class Open:
        pass

    def fail(_):
        raise OSError("cannot undo")

    def work():
        held = Open()
        found.append(weakref.ref(held))
        with on_error(fail):
            raise ValueError("wrong")

    found = []
    gc.disable()
    try:
        with contextlib.suppress(OSError):
            work()
        assert found[0]() is None
    finally:
        gc.enable()


KEY = "plainlookingvalue"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("bad key sk-proj-abc_0123456789, sorry", f"bad key {REDACTED}, sorry"),
        ("Authorization: Bearer abcdefghijk", f"Authorization: Bearer {REDACTED}"),
        ("{'api_key': 'abcdefghijk'}", f"{{'api_key': '{REDACTED}'}}"),
        ("?api-key=abcdefghijk&x=1", f"?api-key={REDACTED}&x=1"),
        ("Incorrect API key provided: abcdefghijk.", f"Incorrect API key provided: {REDACTED}."),
        ("sent bearer abc123def456", f"sent bearer {REDACTED}"),
        ("AKIAIOSFODNN7EXAMPLE", REDACTED),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", REDACTED),
        ("hf_abcdefgh12345678", REDACTED),
    ],
)
def test_strings_shaped_like_keys_are_redacted(text, redacted):
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "the environment variable OPENAI_API_KEY contains no API key",
        "pass api_key=None or llm=Settings.llm",
        "scikit sk-learn and hf_hub_download failed",
        "the token counter returned 12345678 tokens",
        "max_tokens: 12345678",
        "summary 0 of level 1 of document 'task-force-2' failed",
        "9b2f6a5e-3c1d-5e7f-8a9b-0c1d2e3f4a5b",
    ],
)
def test_ordinary_messages_stay_the_same(text):
    assert redact(text) == text


class Private(BaseModel):
    openai_api_key: SecretStr
    model_name: str = "a-long-model-name"
    _token: str = PrivateAttr(default="private-token")


@dataclass(slots=True)
class Slotted:
    password: str


class Wrapper:
    def __init__(self, inner):
        self._llm = inner
        self.again = self  # a cycle
        self.options = {"api_key": "in-a-mapping", "base_url": "http://localhost"}


def test_keys_are_found_in_the_attributes_of_a_component():
    wrapper = Wrapper([Private(openai_api_key=SecretStr(KEY)), Slotted("in-a-slot")])
    assert secrets_of(wrapper) == {KEY, "private-token", "in-a-mapping", "in-a-slot"}
    assert secrets_of(Slotted("none")) == secrets_of(None) == frozenset()


def test_an_error_and_its_causes_lose_the_keys():
    error = ValueError(f"no {KEY}", 5)
    error.message = f"no {KEY}"
    error.__cause__ = RuntimeError(f"server says {KEY}")
    error.__cause__.__context__ = error  # a cycle
    assert KEY not in redact_error(error, Slotted(KEY))
    assert error.args == (f"no {REDACTED}", 5)
    assert (error.message, str(error.__cause__)) == (f"no {REDACTED}", f"server says {REDACTED}")


def test_wrapped_errors_have_no_keys():
    def fail():
        with wrap_errors(EmbeddingError, "embed() failed", "try again", Slotted(KEY)):
            raise ValueError(f"401: {KEY}")

    with pytest.raises(EmbeddingError) as caught:
        fail()
    assert str(caught.value) == f"embed() failed: ValueError: 401: {REDACTED}; try again"
    assert KEY not in str(caught.value.__cause__)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("part", ["sk-", "eyJ-", "token ", "://a:", "Bearer a", "password="])
def test_the_time_for_a_hostile_message_is_linear(part):
    """In a subprocess: quadratic time would be minutes."""
    code = (
        "from e2graphrag_integrations._utils.failures import redact\n"
        f"text = redact({part!r} * (500_000 // {len(part)}) + ' Bearer abcdefghijklmnop')\n"
        "assert 'abcdefghijklmnop' not in text"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("https://user:hunter2hunter2@host/v1 failed", "https://user:[redacted]@host/v1 failed"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [redacted]"),
        ("sent Bearer abcdefghijklmnop", "sent Bearer [redacted]"),
        ("see https://host:8080/v1", "see https://host:8080/v1"),
        ("the bearer of bad news", "the bearer of bad news"),
    ],
)
def test_passwords_in_urls_and_bearer_tokens_are_removed(message, expected):
    assert redact(message) == expected


def pickled(error: Exception) -> Exception:
    """Return a copy, as another process gets it."""
    copied: Exception = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    return copied


def test_a_message_is_made_from_its_values():
    text = CodedText("too_many", "{name!r} has {count:,} items", name="a", count=1234)
    assert text == "'a' has 1,234 items"
    assert (text.code, dict(text.values)) == ("too_many", {"name": "a", "count": 1234})
    with pytest.raises(TypeError):
        text.values["name"] = "b"  # type: ignore[index]


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_an_error_keeps_the_code(copied):
    error = copied(InvalidInputError(CodedText("deep", "more than {most} deep", most=50)))
    assert (str(error), error.args[0].code) == ("more than 50 deep", "deep")
    assert dict(error.args[0].values) == {"most": 50}


def test_the_text_of_an_error_has_a_code_if_its_message_has_one():
    text = CodedText("deep", "more than {most} deep", most=50)
    assert text_of(InvalidInputError(text)) is text
    assert text_of(InvalidInputError("plain")) == "plain"
    assert text_of(InvalidInputError()) == ""
    assert text_of(UnknownEntityError("no entity", "see entities()")) == "no entity: see entities()"
