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
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def content_cuts(hashes: Sequence[int], at: Sequence[int], end: int, least: int, most: int) -> Ints:
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
    cut = _minima(ranks, first, last) == ranks
    cut &= (places >= least) & (end - places >= least)
    cut[0] = True
    cuts = np.flatnonzero(cut)
    found: list[int] = []
    for one, following in zip(cuts, [*cuts[1:], len(places)], strict=True):
        stop = end if following == len(places) else int(places[following])
        piece = (int(one), int(following), stop)
        found += [piece[0], *_splits(ranks, places, piece, (least, most))]
    return np.asarray(sorted(found), dtype=np.int64)


def _minima(values: Ints, first: Ints, last: Ints) -> Ints:
    """Return the least of `values[first:last]` for each pair, none of them empty."""
    sizes = last - first
    level = np.frexp(sizes)[1].astype(np.int64) - 1
    table = [values]  # of every stretch of 1, 2, 4, ... values
    for power in range(int(level.max())):
        below, step = table[-1], 1 << power
        table.append(np.minimum(below[:-step], below[step:]) if len(below) > step else below)
    minima = np.empty(len(first), dtype=np.int64)
    for power, stretches in enumerate(table):
        of = np.flatnonzero(level == power)
        if len(of):
            right = stretches[last[of] - (1 << power)]
            minima[of] = np.minimum(stretches[first[of]], right)
    return minima


def _splits(
    ranks: Ints, places: Ints, piece: tuple[int, int, int], sizes: tuple[int, int]
) -> list[int]:
    """Return the further cuts of a piece: its first place, the one after its last, and its end."""
    least, most = sizes
    found: list[int] = []
    open_ = [piece]
    while open_:
        first, last, end = open_.pop()
        start = int(places[first])
        if end - start <= most or last - first < 2:  # noqa: PLR2004 - no place is inside
            continue
        within = np.arange(first + 1, last)
        fair = within[(places[within] - start >= least) & (end - places[within] >= least)]
        if len(fair):
            cut = int(fair[np.argmin(ranks[fair])])
        else:
            cut = int(within[np.argmin(np.abs(2 * places[within] - start - end))])
        found.append(cut)
        open_ += [(first, cut, int(places[cut])), (cut, last, end)]
    return found
