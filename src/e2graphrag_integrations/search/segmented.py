"""Dense search in two segments: a large one that stays as it is, and the recent windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import DenseIndex, OwnVectors, kind_of
from e2graphrag_integrations.search.ivf import InvertedLists, assign_lists

_SPARE = 16
"""Number of windows to search for in addition, in case some of the best were removed."""


class SegmentedVectors:
    """The vectors of all windows, which are not adjacent in memory.

    Args:
        base: The vectors of the large segment, shape (base windows, dimension).
        recent: The vectors of the recent windows, shape (recent windows, dimension).
        places: For each window, its row in `base`, or `-1 - row` for a row in `recent`.
    """

    def __init__(self, base: Any, recent: Any, places: IntArray) -> None:
        self.base = base
        self.recent = recent
        self._places = places
        self.shape = (len(places), base.shape[1])
        self.dtype = base.dtype
        self.ndim = base.ndim

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._places)

    def __getitem__(self, windows: Any) -> FloatArray:
        """Return the vectors of some windows, or of one."""
        if isinstance(windows, int | np.integer):
            found: FloatArray = self[np.asarray([windows])][0]
            return found
        places = self._places[windows]
        is_recent = places < 0
        if not is_recent.any():
            unchanged: FloatArray = self.base[places]
            return unchanged
        vectors: FloatArray = np.empty((len(places), self.shape[1]), dtype=self.dtype)
        vectors[~is_recent] = self.base[places[~is_recent]]
        vectors[is_recent] = self.recent[-1 - places[is_recent]]
        return vectors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """Return all vectors in one array."""
        if copy is False:
            raise ValueError("the vectors of two segments cannot become an array without a copy")
        return np.asarray(self[:], dtype=dtype)


class SegmentedIndex(OwnVectors):
    """Searches a large index, of which windows have moved or were removed, and recent windows.

    The result is that of one index of all windows, apart from the windows that the IVF lists of the
    large index miss.

    Args:
        base: The large index.
        base_rows: The row of each window of `base`, ascending, int32; -1 if it was removed.
        recent: The vectors of the other windows, like those of `base`.
        recent_rows: The row of each of these windows, ascending.
        window_nodes: The node of each window, ascending, shape (windows,).
    """

    def __init__(
        self,
        base: OwnVectors,
        base_rows: IntArray,
        recent: Any,
        recent_rows: IntArray,
        window_nodes: NDArray[np.int64],
    ) -> None:
        self.base = base
        self.base_rows = base_rows
        self.recent = recent
        self.recent_rows = recent_rows
        self.window_nodes = window_nodes
        places = np.empty(len(window_nodes), dtype=np.int32)
        is_kept = base_rows >= 0
        places[base_rows[is_kept]] = np.flatnonzero(is_kept)
        places[recent_rows] = -1 - np.arange(len(recent_rows))
        self.vectors = base.kind.mapped(
            lambda old, new: SegmentedVectors(old, new, places), base.vectors, recent
        )
        self._n_removed = len(base_rows) - int(is_kept.sum())

    @property
    def lists(self) -> InvertedLists | None:
        """The IVF lists of all windows, if those of the large index have been trained."""
        trained = self.base.lists
        if trained is None:
            return None
        assignments = np.empty(len(self.window_nodes), dtype=np.int32)
        is_kept = self.base_rows >= 0
        assignments[self.base_rows[is_kept]] = trained.assignments[is_kept]
        assignments[self.recent_rows] = assign_lists(trained.centroids, self.recent)
        return InvertedLists(trained.centroids, assignments)

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`."""
        if count < 1:
            return np.empty(0, dtype=np.int64), np.empty(0)
        rows, cosines = self._search_base(query, count, allowed)
        recent = self.recent_rows
        if allowed is not None:
            recent = recent[allowed[self.window_nodes[recent]]]
        own = self.cosines(query, recent).astype(np.float64) if len(recent) else np.empty(0)
        all_rows, scores = np.concatenate([rows, recent]), np.concatenate([cosines, own])
        order = np.lexsort((all_rows, -scores))[:count]
        return all_rows[order].astype(np.int64), scores[order]

    def _search_base(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[IntArray, NDArray[np.float64]]:
        if allowed is None:
            spare = _SPARE if self._n_removed else 0
            rows, cosines = self._found(*self.base.search_windows(query, count + spare))
            if len(rows) >= count or not self._n_removed:
                return rows[:count], cosines[:count]
        return self._found(*self.base.search_windows(query, count, self._allowed_in_base(allowed)))

    def _found(
        self, windows: IntArray, cosines: NDArray[np.float64]
    ) -> tuple[IntArray, NDArray[np.float64]]:
        """Return the rows of windows of the large index, without those that were removed."""
        rows = self.base_rows[windows]
        return rows[rows >= 0], cosines[rows >= 0]

    def _allowed_in_base(self, allowed: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Return the nodes of the large index that still exist, and are in the mask if given."""
        nodes = self._nodes_of_base
        kept = nodes >= 0
        if allowed is None:
            return kept
        kept[kept] = allowed[nodes[kept]]
        return kept

    @lazy
    def _nodes_of_base(self) -> IntArray:
        """The row of each node of the large index; -1 if it was removed."""
        base_nodes = self.base.window_nodes
        nodes = np.full(int(base_nodes[-1]) + 1, -1, dtype=np.int64)
        is_kept = self.base_rows >= 0
        nodes[base_nodes[is_kept]] = self.window_nodes[self.base_rows[is_kept]]
        return nodes


def taken_vectors(vectors: Any, rows: IntArray | NDArray[np.bool_] | slice) -> Any:
    """Return some vectors, of the same kind."""
    return kind_of(vectors).mapped(lambda part: np.asarray(part[rows]), vectors)


def without_width(vectors: Any) -> Any:
    """Return vectors; if there are none, those of an empty index, whose dimension is unknown."""
    return vectors if len(vectors) else kind_of(vectors).allocate(0, 0)


def segmented(
    older: OwnVectors,
    newer: DenseIndex,
    rows: tuple[IntArray, IntArray],
    window_nodes: NDArray[np.int64],
) -> SegmentedIndex:
    """Return the index of the windows of two others, without copying a large segment.

    Args:
        older: An index, of which some windows may have been removed.
        newer: An index of further windows.
        rows: New row of each window of `older`, -1 if it was removed, and of `newer`; ascending.
        window_nodes: The node of each window, ascending, shape (windows,).
    """
    older_rows, newer_rows = rows[0], rows[1]
    recent: Any
    base, base_rows = older, older_rows
    recent, recent_rows = newer.vectors, newer_rows
    if isinstance(older, SegmentedIndex):
        base = older.base
        base_rows = np.where(older.base_rows >= 0, older_rows[older.base_rows], -1)
        moved = older_rows[older.recent_rows]
        kept = moved >= 0
        recent_rows = np.concatenate([moved[kept], newer_rows])
        order = np.argsort(recent_rows, kind="stable")
        recent_rows = recent_rows[order]
        recent = taken_vectors(older.recent, kept)
        if len(newer_rows):
            recent = base.kind.mapped(lambda *parts: np.concatenate(parts), recent, newer.vectors)
        recent = taken_vectors(recent, order)
    if not len(recent_rows):
        recent = taken_vectors(base.vectors, np.empty(0, dtype=np.int64))
    return SegmentedIndex(base, base_rows.astype(np.int32), recent, recent_rows, window_nodes)
