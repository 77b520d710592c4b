"""Numbers, dates and measures in several notations and languages."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """A number, a date, or another code in a text.

    Attributes:
        start, end: Its characters, half-open.
        forms: The forms that it may have, the most likely first.
    """

    start: int
    end: int
    forms: tuple[str, ...]
