"""Content-defined boundaries: cuts that an edit elsewhere does not move.

Where a rule counts from the beginning, one new sentence moves every later cut. Here a place is a
cut because of what stands there: its hash is the smallest around (local-maximum chunking, Bjørner
et al. 2010; prolly trees choose theirs by hashes, too). So what is cut where is a function of the
text alone, and an edit moves no more than the cuts around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def text_hash(text: str) -> int:
    """Return a number that equal texts share, from 0 to 2^63 - 1."""
    encoded = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big") >> 1


def content_boundaries(
    hashes: Sequence[int], at: Sequence[int], end: int, least: int, most: int
) -> Ints:
    """Return which of some places are cuts, the first of all among them.

    A place is a cut if its hash is the smallest less than `least` away on both sides, the earlier
    of equal ones, and neither end of the whole is that near. What is still longer than `most` is
    split where the hash is smallest among the places that leave `least` on both sides, or, if there
    are none, at the place nearest its middle.

    Args:
        hashes: Of what begins at each place.
        at: Where the places are, strictly ascending, from 0; in tokens, say.
        end: Where the whole ends.
        least: Smallest piece, but for the splits that nothing better was found for.
        most: Largest piece, but for one that has no place inside.

    Returns:
        Indices of places, ascending.
    """
    if not len(at):
        return np.empty(0, dtype=np.int64)
    places = np.asarray(at, dtype=np.int64)
    order = np.lexsort((np.arange(len(places)), np.asarray(hashes, dtype=np.int64)))
    ranks = np.empty(len(places), dtype=np.int64)
    ranks[order] = np.arange(len(places))
    first = np.searchsorted(places, places - least, side="right")
    last = np.searchsorted(places, places + least, side="left")
    minima = _RangeMinima(ranks)
    cut = minima.of(first, last) == ranks
    cut &= (places >= least) & (end - places >= least)
    cut[0] = True
    cuts = np.flatnonzero(cut)
    found: list[int] = []
    for one, following in zip(cuts, [*cuts[1:], len(places)], strict=True):
        stop = end if following == len(places) else int(places[following])
        piece = (int(one), int(following), stop)
        found.append(piece[0])
        if stop - places[one] > most:
            found += _splits(minima, order, places, piece, (least, most))
    return np.asarray(sorted(found), dtype=np.int64)


class _RangeMinima:
    """The least of any stretch of values, by those of all stretches of 1, 2, 4, ... values."""

    def __init__(self, values: Ints) -> None:
        self._table = [values]
        while len(self._table[-1]) > (step := 1 << (len(self._table) - 1)):
            below = self._table[-1]
            self._table.append(np.minimum(below[:-step], below[step:]))

    def of(self, first: Ints, last: Ints) -> Ints:
        """Return the least of `values[first:last]` for each pair, none of them empty."""
        level = np.frexp(last - first)[1].astype(np.int64) - 1
        minima = np.empty(len(first), dtype=np.int64)
        for power, stretches in enumerate(self._table):
            of = np.flatnonzero(level == power)
            if len(of):
                right = stretches[last[of] - (1 << power)]
                minima[of] = np.minimum(stretches[first[of]], right)
        return minima

    def one(self, first: int, last: int) -> int:
        """Return the least of `values[first:last]`, which is not empty."""
        power = (last - first).bit_length() - 1
        stretches = self._table[power]
        return int(min(stretches[first], stretches[last - (1 << power)]))


def _splits(
    minima: _RangeMinima,
    order: Ints,
    places: Ints,
    piece: tuple[int, int, int],
    sizes: tuple[int, int],
) -> list[int]:
    """Return the further cuts of a piece: its first place, the one after its last, and its end.

    Args:
        minima: Of the ranks of places.
        order: The place of each rank.
        places: Where they are.
        piece: To be split.
        sizes: The least and the most that a piece may hold.
    """
    least, most = sizes
    found: list[int] = []
    open_ = [piece]
    while open_:
        first, last, end = open_.pop()
        start = int(places[first])
        if end - start <= most or last - first < 2:  # noqa: PLR2004 - no place is inside
            continue
        low = max(first + 1, int(np.searchsorted(places, start + least, side="left")))
        high = min(last, int(np.searchsorted(places, end - least, side="right")))
        if low < high:
            cut = int(order[minima.one(low, high)])
        else:
            cut = _nearest(places, first + 1, last, start + end)
        found.append(cut)
        open_ += [(first, cut, int(places[cut])), (cut, last, end)]
    return found


def _nearest(places: Ints, first: int, last: int, twice: int) -> int:
    """Return which of `places[first:last]` is nearest to half of `twice`, the earlier of two."""
    at = int(np.searchsorted(places, twice / 2))
    at = min(max(at, first), last)
    near = [one for one in (at - 1, at) if first <= one < last]
    return min(near, key=lambda one: (abs(2 * int(places[one]) - twice), one))
