"""Validation of arguments and of components that users supply."""

from __future__ import annotations

import difflib
import inspect
import json
import numbers
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from e2graphrag_integrations._utils.failures import CodedText, redact_error
from e2graphrag_integrations.errors import E2GraphRAGError, InvalidInputError

MAX_COUNT = 10_000_000
"""Largest accepted size or count. NumPy does not accept integers of 2**63 or more."""

_MAX_SECONDS = 1_000_000
"""Longest accepted duration, in seconds: about eleven days."""

_MAX_NAME = 100
"""Maximum length of a name for which similar ones are sought."""

_MAX_REPR = 80
"""Maximum number of characters of a value that a message quotes."""

T = TypeVar("T")


def short_repr(value: object) -> str:
    """Return the `repr` of a value for a message, truncated to 80 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer with over 4,300 digits; a deeply nested list
        return f"({type(value).__name__}, too large to print)"
    except Exception:  # noqa: BLE001 - of the user's class
        return f"({type(value).__name__}, cannot be printed)"
    return text if len(text) <= _MAX_REPR else f"{text[:_MAX_REPR]}..."


def distinct_fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object, as `object_pairs_hook` of `json.loads`.

    Raises:
        InvalidInputError: If a field is given twice.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidInputError(f"the field {twice[:100]!r} of a JSON object is given twice")
    return fields


def type_name(value: object) -> str:
    """Return the type of a user's component for a message, since its `repr` may contain a secret.

    >>> type_name({"api_key": "secret"}), type_name(dict)
    ('dict', 'class dict')
    """
    return f"class {value.__name__}" if isinstance(value, type) else type(value).__name__


def invalid_input(code: str, template: str, /, **values: Any) -> InvalidInputError:
    """Return the error for an invalid value, with the arguments of `CodedText`."""
    return InvalidInputError(CodedText(code, template, **values))


def check_int(name: str, value: Any, least: int = 1, most: int | None = MAX_COUNT) -> int:
    """Return an integer as a plain int. NumPy integers are accepted; True and 3.0 are not.

    Raises:
        InvalidInputError: If the value is not an integer from `least` to `most`.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limits = "of at least {least}" if most is None else "from {least} to {most:,}"
        raise invalid_input(
            "no_count" if most is None else "no_count_between",
            f"{{name}}={{value}} must be a whole number {limits}",
            name=name,
            value=short_repr(value),
            least=least,
            most=most,
        )
    return number


def check_seconds(name: str, value: Any) -> float:
    """Return a duration in seconds as a float.

    Raises:
        InvalidInputError: If the value is not a number, is NaN, or is out of range.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MAX_SECONDS:  # also excludes NaN
        raise InvalidInputError(
            f"{name}={short_repr(value)} must be a number of seconds from 0 to {_MAX_SECONDS:,}"
        )
    return float(value)


def check_fraction(name: str, value: Any) -> float:
    """Return a number from 0 to 1 as a float. NumPy numbers are accepted; True is not.

    Raises:
        InvalidInputError: If the value is not a number, is NaN, or is out of range.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:  # also excludes NaN
        raise invalid_input(
            "no_fraction",
            "{name}={value} must be a number from 0 to 1",
            name=name,
            value=short_repr(value),
        )
    return float(value)


def check_bool(name: str, value: object) -> bool:
    """Return a value that must be True or False.

    Raises:
        InvalidInputError: If it is anything else, such as a string.
    """
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name}={short_repr(value)} must be True or False")
    return value


def check_text(what: str, value: object) -> str:
    """Check that a value is a string that can be encoded as UTF-8; return it as a plain `str`.

    A member of a string enumeration would be formatted by its name, and stored as another text.

    Raises:
        InvalidInputError: If the value is not a string or contains a lone surrogate.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a string, not {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{what} contains a lone surrogate at character {error.start}: "
            "decode the source with errors='replace'"
        ) from error
    return str.__str__(value)


def check_name(what: str, value: object) -> str:
    """Check that a value is a string that is not blank and can be encoded as UTF-8; return it.

    Raises:
        InvalidInputError: For any other value.
    """
    text = check_text(what, value)
    if not text.strip():
        raise invalid_input(
            "empty", "{what} must be a non-empty string, not {value!r}", what=what, value=value
        )
    return text


def no_json(value: object) -> Any:
    """Refuse a value that JSON does not have."""
    raise TypeError(f"{type_name(value)} is not a JSON type")


def plain_json(
    metadata: Mapping[str, Any], where: str, default: Callable[[Any], Any] = no_json
) -> dict[str, Any]:
    """Return a copy that went through JSON, so that it equals the metadata read from the store.

    NumPy scalars, such as those of a pandas table, become the Python values that they equal.

    Args:
        metadata: Metadata with string keys.
        where: What has the metadata, for messages.
        default: Turns a value of another type into a JSON value, or raises `TypeError`.

    Raises:
        InvalidInputError: If the metadata cannot be stored as UTF-8 JSON; the message names the
            key.
    """
    try:
        return _through_json(metadata, default)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"metadata of {where} is not plain JSON ({error}){_at_key(metadata, default)}: use "
            "str, int, finite float, bool, None, lists and dicts, such as the isoformat() of a "
            "date, and None for NaN"
        ) from error


def _through_json(metadata: Mapping[str, Any], default: Callable[[Any], Any]) -> dict[str, Any]:
    def convert(value: Any) -> Any:
        is_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
        return value.item() if is_scalar else default(value)

    text = json.dumps(dict(metadata), default=convert, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    plain: dict[str, Any] = json.loads(text)
    return plain


def _at_key(metadata: Mapping[str, Any], default: Callable[[Any], Any]) -> str:
    """Return which key has a value that is not JSON, for the message."""
    for key, value in metadata.items():
        try:
            _through_json({key: value}, default)
        except (TypeError, ValueError, RecursionError):
            return f" at the key {key!r}"
    return ""


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Check that an argument is one of the allowed strings.

    Raises:
        InvalidInputError: If the argument is not one of `choices`.
    """
    if not isinstance(value, str) or value not in choices:
        raise invalid_input(
            "no_choice",
            "{name}={value}: choose one of {choices}",
            name=name,
            value=short_repr(value),
            choices=", ".join(choices),
        )


def article(name: str) -> str:
    """Return the name of a class with its article.

    >>> article("IndexSettings"), article("Models")
    ('an IndexSettings', 'a Models')
    """
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def instance_or_default(name: str, value: Any, kind: type[T], default: type[T] | None = None) -> T:
    """Return the argument, or a new instance of `default`, or else of `kind`, if it is None.

    Raises:
        InvalidInputError: If the argument is not an instance of `kind`.
    """
    if value is None:
        return (default or kind)()
    if not isinstance(value, kind):
        raise InvalidInputError(
            f"{name}={short_repr(value)} must be {article(kind.__name__)}, or None"
        )
    return value


def check_instance(name: str, value: Any, kind: type, advice: str) -> Any:
    """Return an argument that must be an instance of a class.

    Args:
        name: Name of the argument.
        value: The argument.
        kind: The class.
        advice: What to pass, for the end of the message.

    Raises:
        InvalidInputError: If it is anything else.
    """
    if not isinstance(value, kind):
        raise InvalidInputError(
            f"{name} is a {type_name(value)}, not a {kind.__name__}: {advice}"
            if value is not None
            else f"{name} is None: {advice}"
        )
    return value


def check_items(name: str, items: Any, kind: type) -> None:
    """Check that an argument is a list of instances of a class.

    Raises:
        InvalidInputError: If it is anything else; the message names the first wrong item.
    """
    if not isinstance(items, Collection) or isinstance(items, str | bytes | Mapping):
        raise InvalidInputError(
            f"{name}={short_repr(items)} must be a list of {kind.__name__} objects"
        )
    for number, item in enumerate(items):
        if not isinstance(item, kind):
            raise InvalidInputError(
                f"{name}[{number}] is a {type_name(item)}, not a {kind.__name__}"
            )


def check_protocol(name: str, component: object, protocol: type) -> None:
    """Check that a user's component has the members of a protocol.

    Raises:
        InvalidInputError: If the component is a class, or lacks a member.
    """
    with wrap_errors(InvalidInputError, f"{name} could not be inspected"):
        names = sorted(n for n in dir(protocol) if not n.startswith("_"))
        conforms = not inspect.isclass(component) and all(_has(component, name) for name in names)
    if not conforms:
        wanted = ", ".join(names)
        raise InvalidInputError(
            f"{name} ({type_name(component)}) lacks a member: it needs {wanted} "
            f"(see protocols.{protocol.__name__})"
        )


def _has(component: object, name: str) -> bool:
    """Return whether an object has an attribute, without evaluating a property."""
    try:
        inspect.getattr_static(component, name)
    except AttributeError:
        return hasattr(component, name)
    return True


@contextmanager
def wrap_errors(
    kind: type[E2GraphRAGError], what: str, hint: str = "", component: object = None
) -> Iterator[None]:
    """Convert an exception raised by a user's component to an error of this package.

    Args:
        kind: Class of the error to raise.
        what: Description of the failure, for the start of the message.
        hint: Advice to the user, for the end of the message.
        component: The user's component. Its keys are removed from the message.
    """
    try:
        yield
    except E2GraphRAGError:
        raise
    except Exception as error:  # a user's component may raise anything
        advice = f"; {hint}" if hint else ""
        message = redact_error(error, component)
        raise kind(f"{what}: {type(error).__name__}: {message}{advice}") from error


def reject_unknown_arguments(
    unknown: Mapping[str, Any],
    of: Callable[..., Any],
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Reject unknown keyword arguments.

    Args:
        unknown: The arguments.
        of: The function that does not know them.
        elsewhere: Names of options, mapped to how they are passed.

    Raises:
        InvalidInputError: If there is an unknown argument. The message suggests the closest known
            name.
    """
    if not unknown:
        return
    parameters = inspect.signature(of).parameters.values()
    own = [p.name for p in parameters if p.name != "self" and p.kind != p.VAR_KEYWORD]
    raise unknown_argument(next(iter(unknown)), own, elsewhere=elsewhere)


def closest_or_all(name: object, known: Sequence[str], what: str = "the keys are") -> str:
    """Return the end of a message about an unknown name: the closest known one, or all of them.

    >>> closest_or_all("tga", ["tag", "document"]), closest_or_all("", ["tag"])
    ("did you mean 'tag'?", 'the keys are tag')
    """
    text = str(name)
    # Comparing takes longer for longer names.
    near = difflib.get_close_matches(text, known, 1) if len(text) <= _MAX_NAME else []
    return f"did you mean {near[0]!r}?" if near else f"{what} {', '.join(known)}"


def unknown_argument(
    name: str,
    known: Sequence[str],
    what: str = "argument",
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> InvalidInputError:
    """Return the error for an unknown argument: it suggests the closest name and lists all.

    Args:
        name: The unknown name.
        known: The known names.
        what: What the names are, in the singular.
        elsewhere: Other names, such as those in other libraries, mapped to the known names that
            mean the same, or to the arguments to pass instead.
    """
    near = difflib.get_close_matches(str(name), [*known, *elsewhere], 1, 0.6)
    meant = elsewhere.get(near[0], near[0]) if near else ""
    shown = meant if "=" in meant else repr(meant)
    hint = f"did you mean {shown}? The" if near else "the"
    return InvalidInputError(
        f"unknown {what} {short_repr(name)}: {hint} {what}s are {', '.join(known)}"
    )
