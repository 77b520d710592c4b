"""Errors of pydantic about fields, as the errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2graphrag_integrations._utils.validation import short_repr
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
