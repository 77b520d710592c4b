"""Parse `--where` conditions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from e2graphrag_integrations._utils.validation import distinct_fields
from e2graphrag_integrations.errors import InvalidInputError


def parse_where(conditions: Sequence[str]) -> dict[str, Any] | None:
    """Parse conditions into one metadata filter that requires all of them.

    Args:
        conditions: Each is `KEY=VALUE` or a JSON object, `{...}`. A value that is valid JSON is
            parsed, and one that begins with "{" must be; any other value is a string. A repeated
            key matches any of its values.

    Returns:
        The filter, or None if there are no conditions.

    Raises:
        InvalidInputError: If a condition has neither form, is nested too deeply, or repeats a key
            that has operators.
    """
    values: dict[str, list[Any]] = {}
    filters: list[dict[str, Any]] = []
    for condition in conditions:
        if condition.startswith("{"):
            filters.append(parse_object("--where", condition))
            continue
        key, separator, text = condition.partition("=")
        if not separator or not key:
            raise InvalidInputError(f"--where {condition!r} must be KEY=VALUE or a JSON object")
        parse = parse_object if text.startswith("{") else parse_value
        values.setdefault(key, []).append(parse(f"--where {key}", text))
    if values:
        filters.append({key: _match_any(key, options) for key, options in values.items()})
    return {"$and": filters} if len(filters) > 1 else next(iter(filters), None)


def parse_value(name: str, text: str) -> Any:
    """Parse a value that is valid JSON; any other text is returned unchanged.

    Raises:
        InvalidInputError: If it is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=distinct_fields)
    except RecursionError:
        raise InvalidInputError(f"{name}: the value is nested too deeply") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from error
    except ValueError:
        return text


def parse_object(option: str, text: str) -> dict[str, Any]:
    """Parse a filter that is a JSON object.

    Raises:
        InvalidInputError: If it is not a JSON object.
    """
    try:
        value = json.loads(text, object_pairs_hook=distinct_fields)
    except RecursionError:
        raise InvalidInputError(f"{option} {{...}}: the filter is nested too deeply") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{option} {{...}}: {error}") from error
    except ValueError as error:
        form = "KEY=VALUE or " if option == "--where" else ""
        raise InvalidInputError(
            f"{option} {text!r} is not valid JSON ({error}): "
            f"""use {form}'{{"year": {{"$gte": 1890}}}}'"""
        ) from error
    if not isinstance(value, dict):
        raise InvalidInputError(f"{option} {text!r} must be a JSON object")
    return value


def _match_any(key: str, options: list[Any]) -> Any:
    if len(options) == 1:
        return options[0]
    if any(isinstance(value, dict) and any(k.startswith("$") for k in value) for value in options):
        raise InvalidInputError(
            f"--where {key}: write all operators in one condition, for example "
            f"""'{key}={{"$gte": 1890, "$lt": 1900}}'"""
        )
    return {"$in": options}
