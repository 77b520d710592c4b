"""What many modules ask of values that come from outside: one message each, always typed."""

from __future__ import annotations

import difflib
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from e2graphrag_integrations.errors import E2GraphRAGError, InvalidInputError

MAX_COUNT = 10_000_000
"""No size or count has a meaning beyond this, and NumPy takes no integers beyond 2**63."""

_MOST_SECONDS = 1_000_000
_SHOWN = 80

T = TypeVar("T")


def short_repr(value: object) -> str:
    """Return a value for a message, however long, deep or large it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of 5000 digits; a list in itself many times over
        return f"({type(value).__name__}, too large to show)"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def type_name(value: object) -> str:
    """Return what a user's part is for a message: its repr may hold a secret.

    >>> kind_of({"api_key": "secret"}), kind_of(dict)
    ('dict', 'class dict')
    """
    return f"class {value.__name__}" if isinstance(value, type) else type(value).__name__


def check_int(name: str, value: Any, least: int = 1, most: int | None = MAX_COUNT) -> int:
    """Return a whole number as a plain int; NumPy's are taken, True and 3.0 are not.

    Raises:
        InvalidInputError: For anything else, and out of range.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise InvalidInputError(f"{name}={short_repr(value)} must be a whole number {limits}")
    return number


def check_seconds(name: str, value: Any) -> float:
    """Return a span of time as a float.

    Raises:
        InvalidInputError: For no number, NaN, and out of range.
    """
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not 0 <= value <= _MOST_SECONDS:  # NaN is in no range
        raise InvalidInputError(
            f"{name}={short_repr(value)} must be a number of seconds from 0 to {_MOST_SECONDS:,}"
        )
    return float(value)


def check_text(what: str, value: object) -> str:
    """Return a string that can be stored, which a lone surrogate cannot.

    Raises:
        InvalidInputError: For anything else.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a string, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{what} holds a lone surrogate at character {error.start}: "
            "decode the source with errors='replace'"
        ) from error
    return value


def check_name(what: str, value: object) -> str:
    """Return a string that can be stored and is not blank.

    Raises:
        InvalidInputError: For anything else.
    """
    if not check_text(what, value).strip():
        raise InvalidInputError(f"{what} must be a non-empty string, not {value!r}")
    return str(value)


def instance_or_default(name: str, value: Any, kind: type[T]) -> T:
    """Return an argument, or an object made with defaults for None.

    Raises:
        InvalidInputError: For an object of another class.
    """
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InvalidInputError(f"{name}={short_repr(value)} must be a {kind.__name__}, or None")
    return value


def check_protocol(name: str, component: object, port: type) -> None:
    """Hold a user's part to its port.

    Raises:
        InvalidInputError: For a class, or an object that lacks something.
    """
    with wrap_errors(InvalidInputError, f"{name} could not be looked at"):
        names = sorted(n for n in dir(port) if not n.startswith("_"))
        fits = not inspect.isclass(component) and all(_has(component, name) for name in names)
    if not fits:
        wanted = ", ".join(names)
        raise InvalidInputError(
            f"{name} ({type_name(component)}) does not fit: it needs {wanted} "
            f"(see protocols.{port.__name__})"
        )


def _has(component: object, name: str) -> bool:
    """Tell whether an object has an attribute, without computing a property: it may cost a call."""
    try:
        inspect.getattr_static(component, name)
    except AttributeError:
        return hasattr(component, name)
    return True


@contextmanager
def wrap_errors(kind: type[E2GraphRAGError], what: str, hint: str = "") -> Iterator[None]:
    """Turn whatever a user's part raises into an error of this package that names the part.

    Args:
        kind: Of the error.
        what: Failed, before the reason.
        hint: What to do, after it.
    """
    try:
        yield
    except E2GraphRAGError:
        raise
    except Exception as error:
        advice = f"; {hint}" if hint else ""
        raise kind(f"{what}: {type(error).__name__}: {error}{advice}") from error


def reject_unknown_arguments(unknown: Mapping[str, Any], of: Callable[..., Any]) -> None:
    """Refuse arguments that nothing would read.

    Raises:
        InvalidInputError: With the name that may have been meant.
    """
    if not unknown:
        return
    name = next(iter(unknown))
    own = [p.name for p in inspect.signature(of).parameters.values() if p.name != "self"]
    near = difflib.get_close_matches(name, own[:-1], 1, 0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(own[:-1])}"
    raise InvalidInputError(f"unknown argument {name!r}: {hint}")
