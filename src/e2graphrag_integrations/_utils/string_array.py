"""Many strings in two arrays, which need no parsing and little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums

_BATCH = 1 << 12


class StringArray(Sequence[str]):
    """A sequence of strings as their UTF-8 bytes, and where each begins.

    Args:
        data: Bytes of all.
        bounds: Where each begins and the last ends, one number more than strings.
    """

    def __init__(self, data: NDArray[np.uint8], bounds: IntArray) -> None:
        self.data = data
        self.bounds = bounds

    @classmethod
    def of(cls, texts: Sequence[str]) -> StringArray:
        """Return strings as arrays."""
        if isinstance(texts, StringArray):
            return texts
        encoded = [text.encode() for text in texts]
        bounds = exclusive_sums(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), bounds)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        """Return one, or a list of some."""
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        row = range(len(self.bounds) - 1)[at]
        start, end = self.bounds[row : row + 2].tolist()
        return self.data[start:end].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        """Yield all, decoded many at a time."""
        for first in range(0, len(self), _BATCH):
            bounds = self.bounds[first : first + _BATCH + 1].tolist()
            block = self.data[bounds[0] : bounds[-1]].tobytes()
            for start, end in pairwise(bounds):
                yield block[start - bounds[0] : end - bounds[0]].decode()

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence has the same strings."""
        if not isinstance(other, Sequence) or isinstance(other, str):
            return False
        return len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # like a list

    def __repr__(self) -> str:
        """Return the strings as those of a list."""
        return repr(list(self))
