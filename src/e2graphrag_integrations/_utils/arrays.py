"""What several modules do with arrays of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.integer[Any]]
"""Indices and counts: 64 bits where we make them, 32 where scipy does."""


_SPARSE = 50
"""Rows for each key from which on looking at keys alone costs less than going over all rows."""

_SMALL = 10_000
"""Rows up to which a sum for each costs less than finding those that have a key first."""

_MOST_IN_32 = np.iinfo(np.int32).max


def exclusive_sums(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return the sum before each size, and of all.

    >>> before(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    each = np.asarray(sizes, dtype=np.int64)
    sums = np.zeros(len(each) + 1, dtype=np.int64)
    np.cumsum(each, out=sums[1:])
    return sums


def concatenated_ranges(starts: IntArray, sizes: IntArray) -> NDArray[np.int64]:
    """Return the numbers of stretches, one after the other.

    >>> stretches(np.array([7, 3]), np.array([2, 3])).tolist()
    [7, 8, 3, 4, 5]
    """
    total = exclusive_sums(sizes)
    numbers: NDArray[np.int64] = np.repeat(starts - total[:-1], sizes) + np.arange(total[-1])
    return numbers


def sum_by_key(
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
    if size <= _SMALL:
        distinct = _distinct(keys, size)
        return distinct, np.bincount(keys, values, size)[distinct].astype(np.float64)
    distinct, places = unique_inverse(keys, size)
    return distinct, np.bincount(places, values, len(distinct)).astype(np.float64)


def unique_inverse(keys: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct keys, ascending, and the place of each key among them.

    >>> distinct, places = numbered(np.array([5, 2, 5]), 9)
    >>> distinct.tolist(), places.tolist()
    ([2, 5], [1, 0, 1])

    Args:
        keys: Below `size`, not negative.
        size: Of what the keys are rows of.
    """
    places = np.empty(size, dtype=smallest_int_type(size))  # only those of keys are read
    if len(keys) * _SPARSE < size:
        order = np.arange(len(keys), dtype=places.dtype)
        places[keys] = order  # of the same key the last to be written stays
        distinct: IntArray = np.sort(keys[places[keys] == order])
    else:
        distinct = _distinct(keys, size)
    places[distinct] = np.arange(len(distinct))
    return distinct, places[keys]


def _distinct(keys: IntArray, size: int) -> IntArray:
    there = np.zeros(size, dtype=np.bool_)
    there[keys] = True
    return np.flatnonzero(there)


def sorted_union(*parts: IntArray) -> IntArray:
    """Return the distinct numbers of several arrays, ascending.

    >>> union(np.array([5, 2]), np.array([2, 3])).tolist()
    [2, 3, 5]
    """
    together = np.sort(np.concatenate(parts))
    other = np.ones(len(together), dtype=np.bool_)
    np.not_equal(together[1:], together[:-1], out=other[1:])
    return together[other]


def smallest_int_type(most: int) -> type[np.int32 | np.int64]:
    """Return the smaller type that holds numbers up to `most`: half the memory where it does."""
    return np.int32 if most <= _MOST_IN_32 else np.int64
