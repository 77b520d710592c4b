"""Sorted names as arrays: kept as bytes, looked up by name, and merged without decoding all."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums

_BATCH = 1 << 12
"""Number of strings decoded at a time during iteration."""


class StringArray(Sequence[str]):
    """An immutable sequence of strings, stored as UTF-8 bytes and offsets.

    Args:
        data: The bytes of all strings, shape (bytes,).
        bounds: The offset of each string in `data` and the end of the last, shape (strings + 1,).
    """

    def __init__(self, data: NDArray[np.uint8], bounds: IntArray) -> None:
        self.data = data
        self.bounds = bounds

    @classmethod
    def of(cls, texts: Sequence[str]) -> StringArray:
        """Encode strings. A `StringArray` is returned unchanged."""
        if isinstance(texts, StringArray):
            return texts
        encoded = [text.encode() for text in texts]
        bounds = exclusive_sums(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), bounds)

    @classmethod
    def joined(cls, parts: Sequence[StringArray]) -> StringArray:
        """Return the strings of several arrays in one."""
        return concatenate_strings([(part, 0, len(part)) for part in parts])

    def take(self, rows: IntArray) -> StringArray:
        """Return the strings at some rows."""
        starts = self.bounds[rows]
        sizes = self.bounds[rows + 1] - starts
        return StringArray(self.data[concatenated_ranges(starts, sizes)], exclusive_sums(sizes))

    def compress(self, mask: NDArray[np.bool_]) -> StringArray:
        """Return the strings where a mask is True, shape (strings,)."""
        sizes = np.diff(self.bounds)
        data = self.data[self.bounds[0] : self.bounds[-1]]
        return StringArray(data[np.repeat(mask, sizes)], exclusive_sums(sizes[mask]))

    def __len__(self) -> int:
        """Return the number of strings."""
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return one string, or a list of strings for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self.bounds) - 1)[index]
        start, end = self.bounds[row : row + 2].tolist()
        return self.data[start:end].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        """Yield all strings, decoded in batches."""
        for first in range(0, len(self), _BATCH):
            bounds = self.bounds[first : first + _BATCH + 1].tolist()
            block = self.data[bounds[0] : bounds[-1]].tobytes()
            for start, end in pairwise(bounds):
                yield block[start - bounds[0] : end - bounds[0]].decode()

    def __eq__(self, other: object) -> bool:
        """Compare with any sequence of strings."""
        if not isinstance(other, Sequence) or isinstance(other, str):
            return False
        return len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # unhashable, like a list

    def __repr__(self) -> str:
        """Return the representation of the strings as a list."""
        return repr(list(self))


def concatenate_strings(pieces: Sequence[tuple[StringArray, int, int]]) -> StringArray:
    """Return the strings of several arrays without decoding them.

    Args:
        pieces: An array, the first string of it to take, and the one after the last.
    """
    used = [(one, first, end) for one, first, end in pieces if first < end]
    data = [np.empty(0, dtype=np.uint8)]
    bounds: list[IntArray] = [np.zeros(1, dtype=np.int64)]
    size = 0
    for one, first, end in used:
        start = int(one.bounds[first])
        data.append(one.data[start : int(one.bounds[end])])
        bounds.append(one.bounds[first + 1 : end + 1] + (size - start))
        size += len(data[-1])
    return StringArray(np.concatenate(data), np.concatenate(bounds))


_MIN_STRINGS = 20_000
"""Minimum number of strings for which a dictionary takes too long: 0.4 microseconds per string, in
which no other thread of the process runs."""

_MULTIPLIER = np.uint32(2654435761)  # Knuth's constant for multiplicative hashing

_LOW_32 = 0xFFFFFFFF
"""Mask for arithmetic modulo 2 ** 32."""

_MAX_BYTES = 1 << 17
"""Number of bytes that are hashed at a time. More do not fit into the cache of a processor."""


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
        self._rows = np.argsort(hashes).astype(np.int32)
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
        own = np.uint32(_hash_of(string.encode()))  # 40 microseconds faster than for an array
        start = int(np.searchsorted(self._hashes, own))
        while start < len(self._hashes) and self._hashes[start] == own:
            row = int(self._rows[start])
            if self._strings[row] == string:
                return row
            start += 1
        raise KeyError(string)

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


def _hash_of(data: bytes) -> int:
    """Return the hash of one string; see `_hashes`."""
    multiplier, total = int(_MULTIPLIER), 0
    for place, byte in enumerate(data, 1):
        weighted = (byte + 1) * (place * multiplier & _LOW_32) & _LOW_32
        total += (weighted ^ weighted >> 15) * multiplier
    total &= _LOW_32
    return total ^ total >> 16


@dataclass(frozen=True, eq=False)
class MergedNames:
    """Names from two sources.

    Attributes:
        names: The distinct names, sorted.
        older_rows: The row of each older name; -1 if it is removed.
        newer_rows: The row of each newer name.
    """

    names: StringArray
    older_rows: IntArray
    newer_rows: IntArray


def merge_names(older: Sequence[str], newer: Sequence[str], removed: IntArray) -> MergedNames:
    """Return the names of both sources without those that are removed.

    Args:
        older: Distinct names, sorted.
        newer: Distinct names, sorted; usually few.
        removed: Rows of older names to leave out, unless they are among the newer ones.
    """
    before, after = StringArray.of(older), StringArray.of(newer)
    count = len(before)
    places = np.asarray([bisect_left(before, name) for name in newer], dtype=np.int64)
    is_known = np.asarray(
        [p < count and before[p] == name for p, name in zip(places.tolist(), newer, strict=True)],
        dtype=np.bool_,
    )
    is_removed = np.zeros(count + 1, dtype=np.bool_)
    is_removed[removed] = True
    is_removed[places[is_known]] = False
    inserted = places[~is_known]
    removed_before: IntArray = np.cumsum(is_removed) - is_removed
    inserted_until = np.cumsum(np.bincount(inserted, minlength=count + 1))
    older_rows = np.where(is_removed, -1, np.arange(count + 1) + inserted_until - removed_before)
    newer_rows = older_rows[places]
    newer_rows[~is_known] = inserted + np.arange(len(inserted)) - removed_before[inserted]
    new = np.flatnonzero(~is_known).tolist()
    # A new name comes before the older name at its place, which may be removed.
    cuts = [(place, 0, row) for place, row in zip(inserted.tolist(), new, strict=True)]
    cuts += [(row, 1, row) for row in np.flatnonzero(is_removed).tolist()]
    pieces = []
    start = 0
    for place, is_deletion, row in sorted(cuts):
        pieces.append((before, start, place))
        if not is_deletion:
            pieces.append((after, row, row + 1))
        start = place + is_deletion
    pieces.append((before, start, count))
    return MergedNames(concatenate_strings(pieces), older_rows[:count], newer_rows)
