"""Errors of pydantic about fields, as the errors of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import E2GraphRAGError, InvalidInputError


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the first error about a field as an `InvalidInputError`, without pydantic's report.

    Pydantic wraps each `ValueError` of a validator, and so also the errors of this package.
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, E2GraphRAGError):
            raise cause from None
        if first["type"] == "missing":
            raise InvalidInputError(f"{first['loc'][0]}= is missing") from None
        what = first["msg"][:1].lower() + first["msg"][1:]
        place = f"{first['loc'][0]}={short_repr(first['input'])}: " if first["loc"] else ""
        raise InvalidInputError(f"{place}{what}") from None
