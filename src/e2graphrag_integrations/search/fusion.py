"""Array functions for fusing ranked lists: top rows, score scaling, smoothing, reciprocal ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges

Floats = NDArray[np.floating[Any]]

_TOLERANCE = 1e-6
"""Scores that differ by less than this are treated as equal, because vector stores round the last
digits."""


_FEW_ROWS = 8192
"""Up to this number of rows, it is faster to smooth all rows than to find the neighborhoods."""


def top_rows(scores: Floats, count: int, allowed: NDArray[np.bool_] | None = None) -> IntArray:
    """Return the rows of the `count` highest positive scores, best first.

    The earlier row wins ties.

    Args:
        scores: Scores, one per row.
        count: Maximum number of rows.
        allowed: Mask over rows; None allows all.
    """
    found = np.flatnonzero(scores > 0 if allowed is None else (scores > 0) & allowed)
    if len(found) > count > 0:
        cutoff = np.partition(scores[found], len(found) - count)[len(found) - count]
        found = found[scores[found] >= cutoff]
    return found[np.argsort(-scores[found], kind="stable")][:count]


def first_occurrences(keys: IntArray) -> IntArray:
    """Return the position of the first occurrence of each distinct key, ascending.

    Args:
        keys: Nonnegative integers.
    """
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    positions = np.arange(len(keys))
    first = np.empty(int(keys.max()) + 1, dtype=np.int64)
    first[keys[::-1]] = positions[::-1]  # for repeated keys, NumPy keeps the last assignment
    occurrences: IntArray = positions[first[keys] == positions]
    return occurrences


def scale_scores(scores: Floats, floor: float) -> NDArray[np.float64]:
    """Return scores scaled linearly, so that `floor` becomes 0 and the best score becomes 1.

    If no score exceeds the floor, all scores become 1.
    """
    if not len(scores):
        return np.empty(0)
    best = float(scores.max())
    if best - floor < _TOLERANCE:
        return np.ones(len(scores))
    return (scores.astype(np.float64) - floor) / (best - floor)


def smooth_over_neighbors(
    rows: IntArray, values: Floats, bounds: IntArray, neighbor_decay: float, reach: int
) -> tuple[IntArray, NDArray[np.float64]]:
    """Add `neighbor_decay ** distance` times each row's value to its neighbors in its group.

    Args:
        rows: Distinct rows with a value, ascending.
        values: The value of each of these rows.
        bounds: The first row of each group, ascending, and the end of the last group.
        neighbor_decay: Fraction of a value that the adjacent row receives, in [0, 1].
        reach: Maximum distance, in rows, in either direction.

    Returns:
        All rows with a value after smoothing, ascending, and their values.
    """
    if not len(rows):
        return np.empty(0, dtype=np.int64), np.empty(0)
    kernel = np.power(neighbor_decay, np.abs(np.arange(-reach, reach + 1)))
    if bounds[-1] <= _FEW_ROWS:
        return _smooth_all_rows(rows, values, bounds, kernel)
    group = np.searchsorted(bounds, rows, side="right")
    # Lay out the neighborhoods of all rows on one line. They overlap only within a group.
    width = 2 * reach + 1
    gaps = np.minimum(np.diff(rows), width)
    gaps[group[1:] != group[:-1]] = width
    sizes = np.append(gaps, width)
    # Pad and use "valid": shorter sums at the ends would differ in their last bits.
    line = np.zeros(sizes.sum() + 2 * reach)
    line[np.cumsum(sizes) - sizes + 2 * reach] = values
    sums = np.convolve(line, kernel, "valid")
    targets = concatenated_ranges(rows - reach, sizes)
    in_group = (targets >= np.repeat(bounds[group - 1], sizes)) & (
        targets < np.repeat(bounds[group], sizes)
    )
    positive = np.flatnonzero(in_group & (sums > 0))
    return targets[positive], sums[positive]


def _smooth_all_rows(
    rows: IntArray, values: Floats, bounds: IntArray, kernel: Floats
) -> tuple[IntArray, NDArray[np.float64]]:
    """Return the result of `smooth_over_neighbors` from a line of all rows, not only of neighbors.

    This takes half the time if there are few rows.
    """
    reach = len(kernel) // 2
    # Each group begins `reach` places after the end of the one before.
    groups = np.arange(len(bounds) - 1)
    places = np.arange(bounds[-1]) + np.repeat(groups * reach, np.diff(bounds))
    line = np.zeros(bounds[-1] + (len(bounds) + 1) * reach)
    line[places[rows] + reach] = values
    sums = np.convolve(line, kernel, "valid")[places]
    reached = np.flatnonzero(sums > 0)
    return reached, sums[reached]


def reciprocal_rank(ranks: int | IntArray, rrf_k: float) -> Any:
    """Return 1 / (rrf_k + rank) (reciprocal rank fusion; Cormack et al., 2009).

    Args:
        ranks: Ranks from 1.
        rrf_k: Smoothing constant; a smaller value favors the top ranks.
    """
    return 1 / (rrf_k + ranks)
