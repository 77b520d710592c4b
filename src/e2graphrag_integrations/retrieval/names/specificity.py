"""How specific something is that occurs in some of the chunks, such as a name or a code."""

from __future__ import annotations

from math import log


def specificity(count: int, total: int) -> float:
    """Return inverse document frequency (Spärck Jones 1972), scaled by its maximum, in [0, 1].

    This is `ln((N + 1) / (n + 1)) / ln((N + 1) / 2)`: 1 in a single chunk, and 0 in all chunks.

    Args:
        count: Number of chunks that have it, at least 1.
        total: Number of all chunks, at least 2.

    >>> specificity(1, 100), specificity(100, 100), round(specificity(9, 100), 2)
    (1.0, 0.0, 0.59)
    """
    return log((total + 1) / (count + 1)) / log((total + 1) / 2)
