"""Errors of pydantic about fields, as the errors of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from e2graphrag_integrations._utils.validation import reject_unknown_arguments, short_repr
from e2graphrag_integrations.errors import E2GraphRAGError, InvalidInputError


@contextmanager
def typed_errors(kind: type[Exception]) -> Iterator[None]:
    """Raise the first error about a field as an `InvalidInputError`, without pydantic's report.

    Pydantic wraps each `ValueError` of a validator, and so also the errors of this package.

    Args:
        kind: The `ValidationError` of pydantic, which this module does not import.
    """
    try:
        yield
    except kind as error:
        raise _typed(error) from None


@contextmanager
def checked_fields(
    component: type[Any], fields: Mapping[str, Any], kind: type[Exception]
) -> Iterator[None]:
    """Refuse unknown fields of a component of LlamaIndex, and raise typed errors about the others.

    Args:
        component: The class, a model of pydantic.
        fields: The arguments. LlamaIndex serializes the class name with them.
        kind: The `ValidationError` of pydantic.
    """
    known = {*component.model_fields, "class_name"}
    unknown = {name: value for name, value in fields.items() if name not in known}
    reject_unknown_arguments(unknown, component)
    with typed_errors(kind):
        yield


def _typed(error: Any) -> E2GraphRAGError:
    """Return an error of this package for a `ValidationError`."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, E2GraphRAGError):
        return cause
    if first["type"] == "missing":
        return InvalidInputError(f"{first['loc'][0]}= is missing")
    what = first["msg"][:1].lower() + first["msg"][1:]
    place = f"{first['loc'][0]}={short_repr(first['input'])}: " if first["loc"] else ""
    return InvalidInputError(f"{place}{what}")
