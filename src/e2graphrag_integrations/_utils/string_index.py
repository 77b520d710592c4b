"""The rows of very many strings, found without a dictionary of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations._utils.string_array import StringArray

_MIN_STRINGS = 20_000
"""Minimum number of strings for which a dictionary takes too long: 0.4 microseconds per string, in
which no other thread of the process runs."""

_MULTIPLIER = np.uint32(2654435761)  # Knuth's constant for multiplicative hashing

_MAX_BYTES = 1 << 22
"""Number of bytes that are hashed at a time, which limits memory."""


def index_strings(strings: Sequence[str]) -> Mapping[str, int]:
    """Return the row of each string.

    Args:
        strings: Distinct strings.
    """
    if isinstance(strings, StringArray) and len(strings) >= _MIN_STRINGS:
        return StringIndex(strings)
    return {string: row for row, string in enumerate(strings)}


def find_rows(index: Mapping[str, int], strings: Sequence[str]) -> IntArray:
    """Return the row of each of some strings; -1 for one that is not in the index."""
    if isinstance(index, StringIndex):
        return index.find(strings)
    return np.asarray([index.get(string, -1) for string in strings], dtype=np.int64)


class StringIndex(Mapping[str, int]):
    """The row of each string, found by hash. A lookup takes some microseconds.

    Args:
        strings: Distinct strings.
    """

    def __init__(self, strings: StringArray) -> None:
        self._strings = strings
        hashes = _hashes(strings)
        self._rows = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._rows]

    def find(self, strings: Sequence[str]) -> IntArray:
        """Return the row of each of some strings; -1 for one that is not in the index."""
        hashes = _hashes(StringArray.of(strings))
        starts = np.searchsorted(self._hashes, hashes).tolist()
        ends = np.searchsorted(self._hashes, hashes, side="right").tolist()
        rows = np.full(len(strings), -1, dtype=np.int64)
        for number, (string, start, end) in enumerate(zip(strings, starts, ends, strict=True)):
            for row in self._rows[start:end].tolist() if start < end else ():
                if self._strings[row] == string:
                    rows[number] = row
        return rows

    def __getitem__(self, string: str) -> int:
        """Return the row of a string."""
        row = int(self.find([string])[0])
        if row < 0:
            raise KeyError(string)
        return row

    def __iter__(self) -> Iterator[str]:
        """Yield the strings in order."""
        return iter(self._strings)

    def __len__(self) -> int:
        """Return the number of strings."""
        return len(self._strings)


class ExtendedIndex(Mapping[str, int]):
    """The rows of strings, followed by further strings.

    Args:
        first: The row of each of the first strings.
        others: Further strings, which differ from the first ones.
    """

    def __init__(self, first: Mapping[str, int], others: Sequence[str]) -> None:
        self._first = first
        self._others = {string: row for row, string in enumerate(others, len(first))}

    def __getitem__(self, string: str) -> int:
        """Return the row of a string."""
        row = self._others.get(string)
        return self._first[string] if row is None else row

    def __iter__(self) -> Iterator[str]:
        """Yield the strings in order."""
        yield from self._first
        yield from self._others

    def __len__(self) -> int:
        """Return the number of strings."""
        return len(self._first) + len(self._others)


def _hashes(strings: StringArray) -> NDArray[np.uint32]:
    """Return a hash of each string: the sum of its bytes, weighted by their positions."""
    sizes = np.diff(strings.bounds)
    hashes = np.zeros(len(strings), dtype=np.uint32)
    first = 0
    while first < len(strings):
        limit = int(strings.bounds[first]) + _MAX_BYTES
        end = max(first + 1, int(np.searchsorted(strings.bounds, limit, side="right")) - 1)
        hashes[first:end] = _hashes_of(strings, sizes, first, end)
        first = end
    return hashes


def _hashes_of(strings: StringArray, sizes: IntArray, first: int, end: int) -> NDArray[np.uint32]:
    own = sizes[first:end]
    start = int(strings.bounds[first])
    data = strings.data[start : int(strings.bounds[end])]
    places = concatenated_ranges(np.zeros(len(own), dtype=np.int64), own).astype(np.uint32)
    weighted = (data.astype(np.uint32) + np.uint32(1)) * ((places + np.uint32(1)) * _MULTIPLIER)
    weighted ^= weighted >> np.uint32(15)
    weighted *= _MULTIPLIER
    sums = np.concatenate([np.zeros(1, dtype=np.uint32), np.cumsum(weighted, dtype=np.uint32)])
    hashes: NDArray[np.uint32] = np.diff(sums[strings.bounds[first : end + 1] - start])
    hashes ^= hashes >> np.uint32(16)
    return hashes
