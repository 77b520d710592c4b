"""Merging sorted names without decoding those that remain."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.string_array import StringArray, concatenate_strings


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
