"""What several modules do with arrays of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.integer[Any]]
"""Indices and counts: 64 bits where we make them, 32 where scipy does."""


_SORTED = 100
"""Rows for each key from which on sorting the keys costs less than going over all rows."""


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


def summed(
    keys: IntArray, values: NDArray[np.floating[Any]], size: int
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return the distinct keys, ascending, and the sum of the values of each.

    >>> keys, sums = summed(np.array([5, 2, 5]), np.array([1.0, 0.0, 2.0]), 9)
    >>> keys.tolist(), sums.tolist()
    ([2, 5], [0.0, 3.0])

    Args:
        keys: Below `size`, not negative.
        values: One a key.
        size: Of what the keys are rows of.
    """
    if len(keys) * _SORTED < size:
        distinct, place = np.unique(keys, return_inverse=True)
        return distinct, np.bincount(place, values, len(distinct)).astype(np.float64)
    there = np.zeros(size, dtype=np.bool_)
    there[keys] = True
    found = np.flatnonzero(there)
    sums: NDArray[np.float64] = np.bincount(keys, values, size).astype(np.float64)[found]
    return found, sums
