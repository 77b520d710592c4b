"""Dense search among some of the windows of another search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.search.fusion import Floats


class SubsetSearch(NodeSearch):
    """Searches some of the nodes of another search, such as one in a vector store.

    Args:
        whole: The other search.
        windows: The rows of the windows in it, ascending.
        nodes: The rows of the nodes in it, ascending.
        window_nodes: The node of each window as a place in `nodes`, ascending.
        n_nodes: Number of nodes in the other search.
    """

    def __init__(
        self,
        whole: NodeSearch,
        windows: IntArray,
        nodes: IntArray,
        window_nodes: NDArray[np.int64],
        n_nodes: int,
    ) -> None:
        self.window_nodes = window_nodes
        self._whole = whole
        self._windows = windows
        self._nodes = nodes
        self._n_nodes = n_nodes

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`."""
        mask = np.zeros(self._n_nodes, dtype=np.bool_)
        mask[self._nodes if allowed is None else self._nodes[allowed]] = True
        if not mask.any():
            return np.empty(0, dtype=np.int64), np.empty(0)
        rows, cosines = self._whole.search_windows(query, count, mask)
        places = np.searchsorted(self._windows, rows)
        is_own = np.isin(rows, self._windows)
        return places[is_own], cosines[is_own]

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows. See `NodeSearch`."""
        return self._whole.cosines(query, self._windows[windows])

    def exact_cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the exact cosines of some windows. See `NodeSearch`."""
        return self._whole.exact_cosines(query, self._windows[windows])

    def cosines_of(self, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of several vectors and some windows. See `NodeSearch`."""
        return self._whole.cosines_of(queries, self._windows[windows])
