"""The order of names as people expect it: "page 2" before "page 10", in upper or lower case."""

from __future__ import annotations

import re
from typing import Any

_DIGITS = re.compile("([0-9]+)")


def natural_key(text: str) -> tuple[Any, ...]:
    """Return a key that sorts texts without case, and numbers in them by value.

    Only equal texts have equal keys, so the order does not depend on the input.
    """
    parts: list[Any] = []
    for place, part in enumerate(_DIGITS.split(text.casefold())):
        # Texts and numbers alternate, so that only parts of the same kind are compared. `int` would
        # refuse a number of thousands of digits.
        digits = part.lstrip("0")
        parts.append((len(digits), digits) if place % 2 else part)
    return (parts, text)
