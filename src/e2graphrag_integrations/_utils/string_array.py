"""A sequence of strings stored in two arrays, which can be memory-mapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
