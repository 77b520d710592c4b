"""Scores to ranks, and ranks to one score: what all lists of a fusion share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges

Floats = NDArray[np.floating[Any]]

_ALIKE = 1e-6
"""Scores that differ by less are the same: vector stores round their last digits."""


def top_rows(scores: Floats, count: int, allowed: NDArray[np.bool_] | None = None) -> IntArray:
    """Return the rows of the `count` best positive scores, best first, ties to the earlier row.

    Args:
        scores: Of all rows.
        count: Rows wanted.
        allowed: Mask over rows; None allows all.
    """
    found = np.flatnonzero(scores > 0 if allowed is None else (scores > 0) & allowed)
    if len(found) > count > 0:
        least = np.partition(scores[found], len(found) - count)[len(found) - count]
        found = found[scores[found] >= least]
    return found[np.lexsort((found, -scores[found]))][:count]


def first_occurrences(keys: IntArray) -> IntArray:
    """Return where each distinct key stands for the first time, in order."""
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    places = np.arange(len(keys))
    first = np.empty(int(keys.max()) + 1, dtype=np.int64)
    first[keys[::-1]] = places[::-1]  # the last to be written stays
    at: IntArray = places[first[keys] == places]
    return at


def scale_scores(scores: Floats, floor: float) -> NDArray[np.float64]:
    """Return scores by their place between a floor (0) and the best of them (1)."""
    if not len(scores):
        return np.empty(0)
    best = float(scores.max())
    if best - floor < _ALIKE:
        return np.ones(len(scores))
    return (scores.astype(np.float64) - floor) / (best - floor)


def smooth_over_neighbors(
    rows: IntArray, values: Floats, bounds: IntArray, share: float, reach: int
) -> tuple[IntArray, NDArray[np.float64]]:
    """Let every row hand `share ** distance` of its value to its neighbors in its group.

    Args:
        rows: Distinct rows that have a value, ascending.
        values: Their values.
        bounds: Where each group begins, ascending, and where the last one ends.
        share: What the next row gets, from 0 to 1.
        reach: How far it goes on both sides.

    Returns:
        All rows that have a value now, ascending, and their values.
    """
    if not len(rows):
        return np.empty(0, dtype=np.int64), np.empty(0)
    group = np.searchsorted(bounds, rows, side="right")
    # What rows reach is laid side by side: together where it overlaps in a group, else apart.
    width = 2 * reach + 1
    gaps = np.minimum(np.diff(rows), width)
    gaps[group[1:] != group[:-1]] = width
    sizes = np.append(gaps, width)
    # "valid", with nothing on either side: of sums of fewer the last bits would differ.
    given = np.zeros(sizes.sum() + 2 * reach)
    given[np.cumsum(sizes) - sizes + 2 * reach] = values
    sums = np.convolve(given, np.power(share, np.abs(np.arange(-reach, reach + 1))), "valid")
    to = concatenated_ranges(rows - reach, sizes)
    inside = (to >= np.repeat(bounds[group - 1], sizes)) & (to < np.repeat(bounds[group], sizes))
    some = np.flatnonzero(inside & (sums > 0))
    return to[some], sums[some]


def reciprocal_rank(ranks: int | IntArray, constant: float) -> Any:
    """Return 1 / (constant + rank), ranks from 1 (reciprocal rank fusion, Cormack et al. 2009)."""
    return 1 / (constant + ranks)
