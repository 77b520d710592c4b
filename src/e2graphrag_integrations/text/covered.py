"""Whether spans cover a text."""

from __future__ import annotations

from collections.abc import Iterable


def is_covered(text: str, spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether spans, in order, cover all of a text but white space.

    >>> is_covered("One. Two.", [(0, 4), (5, 9)]), is_covered("One. Two.", [(0, 4)])
    (True, False)
    """
    end = 0
    for first, last in spans:
        if text[end:first].strip():
            return False
        end = max(end, last)
    return not text[end:].strip()
