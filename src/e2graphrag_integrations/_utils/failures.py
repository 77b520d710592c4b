"""What happens when something fails: undoing, messages without secrets, and their codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Self


class on_error(AbstractContextManager[None]):  # noqa: N801 - used in a `with` statement
    """Call a function if the block raises; the error continues.

    A class, because an ExitStack, and a generator from Python 3.13 on, leave a cycle of errors. If
    `undo` fails, its error refers to frames that refer to it. They keep whatever the block had
    open, such as a lock, until the garbage collector runs.

    Args:
        undo: Called with the error.
        kind: Class of the errors for which it is called. The default includes interrupts.
    """

    def __init__(
        self, undo: Callable[[BaseException], object], kind: type[BaseException] = BaseException
    ) -> None:
        self._undo, self._kind = undo, kind

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, self._kind):
            self._undo(error)


REDACTED = "[redacted]"

_SHAPES = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|pplx|nvapi|ghp|gho|github_pat|glpat|xox[a-z])[-_]"
    r"(?=[\w-]{0,64}\d)[\w-]{12,}"
    r"|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{8,1000}\.[\w-]{8,}(?:\.[\w-]+)?"
)
"""Keys that are recognizable by their prefix. Bounded, because each prefix may start a search."""

_URL_PASSWORD = re.compile(r"(://[^\s:/@]{1,256}:)[^\s/@]{1,256}(?=@)")
"""The user's name and the password in a URL."""

_LABELED = re.compile(
    r"(\b(?:bearer\s+(?=[\w.~+/=-]{12})|token\s+(?=\S{0,64}\d))"
    r"|(?:api[-_ ]?key|access[-_ ]?token|auth[-_ ]?token|authorization|password|secret)"
    r"""(?: provided)?["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)?)"""
    r"""[^\s"',;&)\]}]{7,}[^\s"',;&)\]}.]""",
    re.IGNORECASE,
)
"""A label, and the secret that follows it."""

_SECRET_NAME = re.compile(
    r"(?:api|access|auth|secret|private|subscription|account)_?(?:key|token)"
    r"|^_?(?:key|token)$|password|secret|credential|authorization|bearer",
    re.IGNORECASE,
)
"""Names of attributes that contain secrets."""

_SHORTEST = 8
"""Minimum length of a known secret, in characters. Shorter ones, such as "none", are placeholders
that would remove ordinary words."""

_MAX_DEPTH = 4
_MAX_OBJECTS = 1000
"""Limits of the search for secrets in a component. A client has its key near the surface."""


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text in which known secrets, and strings shaped like keys, are replaced.

    >>> redact("Incorrect API key provided: abcdefgh. Authorization: Bearer 12345678")
    'Incorrect API key provided: [redacted]. Authorization: Bearer [redacted]'
    """
    for secret in sorted(secrets, key=len, reverse=True):  # one may contain another
        text = text.replace(secret, REDACTED)
    text = _URL_PASSWORD.sub(rf"\1{REDACTED}", _SHAPES.sub(REDACTED, text))
    return _LABELED.sub(rf"\1{REDACTED}", text)


def redact_error(error: BaseException, component: object = None) -> str:
    """Return the message of an error without secrets.

    The messages of the error and of its causes are changed as well, because tracebacks contain
    them.

    Args:
        error: The error.
        component: The user's component that raised it. The keys in its attributes are removed.
    """
    secrets = secrets_of(component)
    for one in _chain(error):
        _redact_in_place(one, secrets)
    return redact(str(error), secrets)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            pending += [one.__cause__, one.__context__]


def _redact_in_place(error: BaseException, secrets: frozenset[str]) -> None:
    changed = tuple(redact(a, secrets) if isinstance(a, str) else a for a in error.args)
    if changed != error.args:
        error.args = changed
    message = getattr(error, "message", None)
    if isinstance(message, str) and redact(message, secrets) != message:
        error.message = redact(message, secrets)  # type: ignore[attr-defined]


def secrets_of(component: object) -> frozenset[str]:
    """Return the keys and tokens in the attributes of a component and of the objects in them."""
    found: set[str] = set()
    seen: set[int] = set()
    pending: list[tuple[object, int]] = [(component, 0)]
    while pending and len(seen) < _MAX_OBJECTS:
        owner, depth = pending.pop(0)
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for name, value in _attributes(owner):
            plain = _plain(value)
            if plain is None:
                if depth < _MAX_DEPTH:
                    pending.append((value, depth + 1))
            elif len(plain) >= _SHORTEST and _SECRET_NAME.search(name):
                found.add(plain)
    return frozenset(found)


def _attributes(owner: object) -> list[tuple[str, Any]]:
    """Return the stored attributes of an object, without evaluating a property."""
    if isinstance(owner, type) or owner is None:
        return []
    if isinstance(owner, Mapping):
        return [(str(name), value) for name, value in list(owner.items())[:_MAX_OBJECTS]]
    if isinstance(owner, list | tuple):
        return [("", value) for value in owner[:_MAX_DEPTH]]
    stored = dict(getattr(owner, "__dict__", None) or {})
    stored |= getattr(owner, "__pydantic_private__", None) or {}
    slots = getattr(type(owner), "__slots__", ())
    for name in (slots,) if isinstance(slots, str) else tuple(slots):
        if not name.startswith("__"):
            stored[name] = getattr(owner, name, None)
    return list(stored.items())


def _plain(value: object) -> str | None:
    """Return the text of a string or of pydantic's SecretStr, or None for any other object."""
    if isinstance(value, str):
        return value
    reveal = getattr(type(value), "get_secret_value", None)
    if reveal is None:
        return None
    secret = reveal(value)
    return secret if isinstance(secret, str) else ""


class CodedText(str):
    """An English message with its code and values, from which a page makes it in its language.

    It is a string, so it is the message of any exception.

    Args:
        code: What went wrong; it stays the same when the message changes.
        template: The message, with the names of values in braces, as in `str.format`.
        values: What the message names: texts, numbers, lists of texts, or another coded text.

    >>> text = CodedText("no_list", "{path} needs a list, not {value}", path="$in", value="5")
    >>> text, text.code, text.values["path"]
    ('$in needs a list, not 5', 'no_list', '$in')
    """

    __slots__ = ("code", "values")

    code: str
    values: Mapping[str, Any]

    def __new__(cls, code: str, template: str, /, **values: Any) -> Self:
        """Return the message."""
        one = super().__new__(cls, template.format_map(values))
        one.code, one.values = code, MappingProxyType(values)
        return one

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (str(self), self.code, dict(self.values))


def _restore(text: str, code: str, values: Mapping[str, Any]) -> CodedText:
    escaped = text.replace("{", "{{").replace("}", "}}")
    return CodedText(code, escaped, **values)


def text_of(error: BaseException) -> CodedText | str:
    """Return the message of an error, with its code if it has one."""
    text = error.args[0] if error.args else None
    return text if isinstance(text, CodedText) else str(error)
