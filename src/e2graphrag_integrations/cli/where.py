"""Reading the conditions of `--where`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from e2graphrag_integrations.errors import InvalidInputError


def read_where(conditions: Sequence[str]) -> dict[str, Any] | None:
    """Read KEY=VALUE pairs and whole filters, `{...}`, which must all hold.

    A value that is JSON is taken as such, a repeated key as `$in`.
    """
    values: dict[str, list[Any]] = {}
    filters: list[dict[str, Any]] = []
    for condition in conditions:
        if condition.startswith("{"):
            filters.append(_whole_filter(condition))
            continue
        key, equals, text = condition.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"--where {condition!r}: write KEY=VALUE")
        try:
            value = json.loads(text)
        except RecursionError:
            raise InvalidInputError(f"--where {key}: its value is nested too deep") from None
        except ValueError:
            value = text
        values.setdefault(key, []).append(value)
    if values:
        filters.append({key: _any_of(key, found) for key, found in values.items()})
    return {"$and": filters} if len(filters) > 1 else next(iter(filters), None)


def _whole_filter(text: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise InvalidInputError("--where {...}: it is nested too deep") from None
    except ValueError as error:
        raise InvalidInputError(
            f"--where {text!r} is no JSON ({error}): "
            """write KEY=VALUE or '{"year": {"$gte": 1890}}'"""
        ) from error
    return value


def _any_of(key: str, values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    if any(isinstance(value, dict) and any(k.startswith("$") for k in value) for value in values):
        raise InvalidInputError(
            f"--where {key}: give its operators once, together: "
            f"""'{key}={{"$gte": 1890, "$lt": 1900}}'"""
        )
    return {"$in": values}
