"""Content-defined boundaries, which do not move when the text changes elsewhere.

With chunks of a fixed size, one new sentence moves every later boundary. Here, a position is a
boundary if the hash of the text at that position is the smallest nearby (local-maximum chunking,
Bjørner et al., 2010; prolly trees use hashes in the same way). Boundaries depend on the text alone,
and an edit moves only those close to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def text_hash(text: str) -> int:
    """Return a 63-bit hash of a text."""
    encoded = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big") >> 1


def content_boundaries(
    hashes: Sequence[int], at: Sequence[int], end: int, least: int, most: int
) -> Ints:
    """Choose boundaries among candidate positions. The first candidate is always a boundary.

    A candidate is a boundary if its hash is the smallest within a distance of `least` on both sides
    (ties broken by the earlier candidate) and if it is at least `least` away from both ends. A
    piece longer than `most` is split at the candidate with the smallest hash among those that leave
    at least `least` on both sides. If there are none, it is split at the candidate nearest to its
    middle.

    Args:
        hashes: The hash of the text at each candidate.
        at: Positions of the candidates, strictly ascending from 0, for example in tokens.
        end: End of the last piece.
        least: Minimum length of a piece. A piece may be shorter if an overlong piece has no better
            candidate to split at.
        most: Maximum length of a piece. A piece with no candidate inside it may be longer.

    Returns:
        Ascending indices into `at`.
    """
    if not len(at):
        return np.empty(0, dtype=np.int64)
    positions = np.asarray(at, dtype=np.int64)
    order = np.lexsort((np.arange(len(positions)), np.asarray(hashes, dtype=np.int64)))
    ranks = np.empty(len(positions), dtype=np.int64)
    ranks[order] = np.arange(len(positions))
    first = np.searchsorted(positions, positions - least, side="right")
    last = np.searchsorted(positions, positions + least, side="left")
    minima = _RangeMinima(ranks)
    cut = minima.of(first, last) == ranks
    cut &= (positions >= least) & (end - positions >= least)
    cut[0] = True
    cuts = np.flatnonzero(cut)
    found: list[int] = []
    for one, following in zip(cuts, [*cuts[1:], len(positions)], strict=True):
        stop = end if following == len(positions) else int(positions[following])
        piece = (int(one), int(following), stop)
        found.append(piece[0])
        if stop - positions[one] > most:
            found += _splits(minima, order, positions, piece, (least, most))
    return np.asarray(sorted(found), dtype=np.int64)


class _RangeMinima:
    """A sparse table, which returns the minimum of any range of values in constant time."""

    def __init__(self, values: Ints) -> None:
        self._table = [values]
        while len(self._table[-1]) > (step := 1 << (len(self._table) - 1)):
            below = self._table[-1]
            self._table.append(np.minimum(below[:-step], below[step:]))

    def of(self, first: Ints, last: Ints) -> Ints:
        """Return the minimum of `values[first:last]` for each pair. No range may be empty."""
        level = np.frexp(last - first)[1].astype(np.int64) - 1
        minima = np.empty(len(first), dtype=np.int64)
        for power, ranges in enumerate(self._table):
            rows = np.flatnonzero(level == power)
            if len(rows):
                right = ranges[last[rows] - (1 << power)]
                minima[rows] = np.minimum(ranges[first[rows]], right)
        return minima

    def one(self, first: int, last: int) -> int:
        """Return the minimum of the non-empty range `values[first:last]`."""
        power = (last - first).bit_length() - 1
        ranges = self._table[power]
        return int(min(ranges[first], ranges[last - (1 << power)]))


def _splits(
    minima: _RangeMinima,
    order: Ints,
    positions: Ints,
    piece: tuple[int, int, int],
    sizes: tuple[int, int],
) -> list[int]:
    """Return the boundaries that split a piece longer than the maximum.

    Args:
        minima: Range minima over the hash ranks of the candidates.
        order: The candidate that has each rank.
        positions: Positions of the candidates.
        piece: First candidate, end (exclusive) of the candidates, and end position of the piece.
        sizes: Minimum and maximum length of a piece.
    """
    least, most = sizes
    found: list[int] = []
    open_ = [piece]
    while open_:
        first, last, end = open_.pop()
        start = int(positions[first])
        if end - start <= most or last - first < 2:  # noqa: PLR2004 - no candidate inside
            continue
        low = max(first + 1, int(np.searchsorted(positions, start + least, side="left")))
        high = min(last, int(np.searchsorted(positions, end - least, side="right")))
        if low < high:
            cut = int(order[minima.one(low, high)])
        else:
            cut = _nearest(positions, first + 1, last, start + end)
        found.append(cut)
        open_ += [(first, cut, int(positions[cut])), (cut, last, end)]
    return found


def _nearest(positions: Ints, first: int, last: int, twice: int) -> int:
    """Return the index from `first` to `last` - 1 of the position nearest to `twice / 2`.

    Ties are broken by the lower index.
    """
    at = int(np.searchsorted(positions, twice / 2))
    at = min(max(at, first), last)
    near = [one for one in (at - 1, at) if first <= one < last]
    return min(near, key=lambda one: (abs(2 * int(positions[one]) - twice), one))
