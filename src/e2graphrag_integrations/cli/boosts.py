"""Parse the boosts of a query and the files of tag sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from e2graphrag_integrations._utils.files import unread_reason
from e2graphrag_integrations.errors import InvalidInputError


def parse_weights(option: str, given: Sequence[str]) -> dict[str, float]:
    """Parse weights such as `billing=2`; the last "=" separates a name from its weight.

    Raises:
        InvalidInputError: If one has another form, or a name is given twice.
    """
    weights: dict[str, float] = {}
    for text in given:
        name, separator, number = text.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            separator = ""
        if not separator or not name:
            raise InvalidInputError(f"{option} {text!r} must be NAME=WEIGHT, such as billing=2")
        if name in weights:
            raise InvalidInputError(f"{option} {text!r}: {name!r} is given twice")
        weights[name] = weight
    return weights


def read_tags(names: Sequence[str], file: str | None) -> list[Any]:
    """Return the tags in a JSON file, and those given by name.

    Raises:
        InvalidInputError: If the file cannot be read, or is not a JSON list.
    """
    if file is None:
        return list(names)
    try:
        tags = json.loads(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{file} cannot be read as JSON: {unread_reason(error)}") from error
    if not isinstance(tags, list):
        raise InvalidInputError(
            f"{file} must contain a JSON list of names or of objects with the keys name, "
            "description and examples"
        )
    return [*tags, *names]
