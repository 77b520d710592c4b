"""Array operations on row numbers, shared by several modules."""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.integer[Any]]
"""Indices and counts: 64-bit arrays from NumPy, or 32-bit arrays from SciPy's sparse matrices."""


_SPARSE = 50
"""If there are more than this many rows per key, sorting the keys is faster than building a mask
over all rows."""

_SMALL = 10_000
"""Up to this number of rows, computing a sum for every row is faster than first finding the
distinct keys."""

_MAX_INT32 = np.iinfo(np.int32).max


def check_array_size(file: BinaryIO, size: int) -> None:
    """Check that the header of an array in NumPy's format matches the size of its data.

    NumPy allocates the memory that a header asks for before it reads the data.

    Args:
        file: The file, positioned at its start.
        size: Size of the file in bytes.

    Raises:
        ValueError: If the sizes differ, or if the array would contain Python objects.
    """
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"version {version} of NumPy's format, not (1, 0)")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject or math.prod((*shape, dtype.itemsize)) != size - file.tell():
        raise ValueError(f"an array of shape {shape} does not match its size of {size} bytes")
    if math.prod(length for length in shape if length) > max(size, _MAX_INT32):
        raise ValueError(f"an empty array has the shape {shape}")


def exclusive_sums(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return the cumulative sums, preceded by 0; the result has one more entry than `sizes`.

    >>> exclusive_sums(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    counts = np.asarray(sizes, dtype=np.int64)
    sums = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def concatenated_ranges(starts: IntArray, sizes: IntArray) -> NDArray[np.int64]:
    """Return the concatenated ranges `range(start, start + size)`, one per start and size.

    >>> concatenated_ranges(np.array([7, 3]), np.array([2, 3])).tolist()
    [7, 8, 3, 4, 5]
    """
    offsets = exclusive_sums(sizes)
    numbers: NDArray[np.int64] = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
    return numbers


def sum_by_key(
    keys: IntArray, values: NDArray[np.floating[Any]], size: int
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return the distinct keys in ascending order, and the sum of the values of each key.

    >>> keys, sums = sum_by_key(np.array([5, 2, 5]), np.array([1.0, 0.0, 2.0]), 9)
    >>> keys.tolist(), sums.tolist()
    ([2, 5], [0.0, 3.0])

    Args:
        keys: Row numbers from 0 to `size` - 1.
        values: One value per key.
        size: Number of rows.
    """
    if size <= _SMALL:
        distinct = _distinct(keys, size)
        return distinct, np.bincount(keys, values, size)[distinct].astype(np.float64)
    distinct, inverse = unique_inverse(keys, size)
    return distinct, np.bincount(inverse, values, len(distinct)).astype(np.float64)


def values_at(
    wanted: IntArray, keys: IntArray, values: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Return the value of each wanted key; 0 for one that has none.

    Args:
        wanted: Distinct keys, ascending, of which there is at least one.
        keys: Distinct keys, in any order.
        values: The value of each of `keys`.
    """
    found = np.zeros(len(wanted))
    places = np.searchsorted(wanted, keys)
    is_wanted = wanted.take(places, mode="clip") == keys
    found[places[is_wanted]] = values[is_wanted]
    return found


def unique_inverse(keys: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct keys in ascending order, and each key's index in that array.

    The result equals `np.unique(keys, return_inverse=True)`, but not all keys are sorted.

    >>> distinct, inverse = unique_inverse(np.array([5, 2, 5]), 9)
    >>> distinct.tolist(), inverse.tolist()
    ([2, 5], [1, 0, 1])

    Args:
        keys: Row numbers from 0 to `size` - 1.
        size: Number of rows.
    """
    places = np.empty(size, dtype=smallest_int_type(size))  # only entries at keys are read
    if len(keys) * _SPARSE < size:
        order = np.arange(len(keys), dtype=places.dtype)
        places[keys] = order  # the last of equal keys wins
        distinct: IntArray = np.sort(keys[places[keys] == order])
    else:
        distinct = _distinct(keys, size)
    places[distinct] = np.arange(len(distinct))
    return distinct, places[keys]


def _distinct(keys: IntArray, size: int) -> IntArray:
    present = np.zeros(size, dtype=np.bool_)
    present[keys] = True
    return np.flatnonzero(present)


def sorted_union(*parts: IntArray) -> IntArray:
    """Return the distinct numbers of several arrays in ascending order.

    >>> sorted_union(np.array([5, 2]), np.array([2, 3])).tolist()
    [2, 3, 5]
    """
    numbers = np.sort(np.concatenate(parts))
    is_first = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    return numbers[is_first]


def smallest_int_type(maximum: int) -> type[np.int32 | np.int64]:
    """Return int32 if it can represent `maximum`, else int64."""
    return np.int32 if maximum <= _MAX_INT32 else np.int64
