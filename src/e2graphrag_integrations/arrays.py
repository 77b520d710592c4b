"""What several modules do with arrays of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.integer[Any]]
"""Indices and counts: 64 bits where we make them, 32 where scipy does."""


def before(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return the sum before each size, and of all.

    >>> before(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    each = np.asarray(sizes, dtype=np.int64)
    sums = np.zeros(len(each) + 1, dtype=np.int64)
    np.cumsum(each, out=sums[1:])
    return sums


def stretches(starts: IntArray, sizes: IntArray) -> NDArray[np.int64]:
    """Return the numbers of stretches, one after the other.

    >>> stretches(np.array([7, 3]), np.array([2, 3])).tolist()
    [7, 8, 3, 4, 5]
    """
    total = before(sizes)
    numbers: NDArray[np.int64] = np.repeat(starts - total[:-1], sizes) + np.arange(total[-1])
    return numbers
