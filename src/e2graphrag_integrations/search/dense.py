"""Dense search: FAISS inner product over the unit vectors of all windows of all nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.ivf import NPROBE, InvertedLists, load_faiss, search_parameters

_EXACT = 20_000
"""Windows up to which all are looked at: that costs a millisecond or two."""


class NodeSearch(ABC):
    """Finds windows by cosine, and nodes by their best window."""

    @property
    @abstractmethod
    def nodes(self) -> NDArray[np.int64]:
        """The node of each window, ascending."""

    @abstractmethod
    def windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, with their cosines; ties to the earlier one.

        Args:
            query: Unit vector, shape (dimension,).
            count: Windows wanted.
            allowed: Mask over nodes; None allows all.
        """

    def search(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, float]]:
        """Return up to `count` distinct nodes, best first, with their cosines.

        Windows are fetched until they cover enough nodes. Ties go to the earlier node.

        Args:
            query: Unit vector, shape (dimension,).
            count: Nodes wanted.
            allowed: Mask over nodes; None allows all.
        """
        fetch = count + 1
        while count > 0:
            windows, cosines = self.windows(query, fetch, allowed)
            best: dict[int, float] = {}
            owners = self.nodes[windows].tolist()
            for node, cosine in zip(owners, cosines.tolist(), strict=True):
                best.setdefault(node, cosine)
            ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
            # What is not fetched may still tie with the last score.
            if len(windows) < fetch or (len(ranked) == count and cosines[-1] < ranked[-1][1]):
                return ranked
            fetch *= 4
        return []


class DenseIndex(NodeSearch):
    """Searches vectors that are at hand: few of them exactly, many by cells.

    What cells find is ranked by exact cosines; of the best 200 among all, .98 are found.

    Args:
        vectors: Unit vectors, shape (windows, dimension), float32.
        nodes: The node of each window, shape (windows,).
        cells: Of the vectors, if they are known; else they are found at the first search of many.
        keep: Called with cells that were found.
        exact: Windows up to which all are looked at.
    """

    def __init__(
        self,
        vectors: FloatArray,
        nodes: NDArray[np.int64],
        cells: InvertedLists | None = None,
        keep: Callable[[InvertedLists], None] | None = None,
        *,
        exact: int = _EXACT,
    ) -> None:
        self.vectors = vectors
        self.known_cells = cells
        self._nodes = nodes
        self._keep = keep
        self._exact = exact

    @property
    def nodes(self) -> NDArray[np.int64]:
        """The node of each window."""
        return self._nodes

    @property
    def dimension(self) -> int:
        """Length of the vectors, 0 for an empty index."""
        return int(self.vectors.shape[1]) if len(self.vectors) else 0

    @lazy
    def _flat(self) -> Any:
        index = load_faiss().IndexFlatIP(self.vectors.shape[1])
        index.add(np.ascontiguousarray(self.vectors, dtype=np.float32))
        return index

    @lazy
    def _divided(self) -> Any:
        if self.known_cells is None:
            self.known_cells = InvertedLists.trained(self.vectors)
            if self._keep is not None:
                self._keep(self.known_cells)
        return self.known_cells.search_index(self.vectors)

    def windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, with their cosines; ties to the earlier one."""
        mask = None if allowed is None else allowed[self.nodes]
        usable = len(self.nodes) if mask is None else int(mask.sum())
        if count < 1 or not usable:
            return np.empty(0, dtype=np.int64), np.empty(0)
        if len(self.nodes) <= self._exact:
            return self._among_all(query, count, mask, usable)
        if mask is not None and usable <= self._exact:
            return self._best_of(np.flatnonzero(mask), query, count)
        return self._near(query, count, mask, usable)

    def _among_all(
        self, query: FloatArray, count: int, mask: NDArray[np.bool_] | None, usable: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        parameters = None if mask is None else load_faiss().SearchParameters(sel=_selector(mask))
        fetch = min(usable, count + 1)
        while True:
            [scores], [rows] = self._flat.search(query[None, :], fetch, params=parameters)
            order = np.lexsort((rows, -scores))[:count]
            # What is not fetched may still tie with the last score.
            if fetch == usable or scores[-1] < scores[order[-1]]:
                return rows[order], scores[order].astype(np.float64)
            fetch = min(usable, fetch * 4)

    def _near(
        self, query: FloatArray, count: int, mask: NDArray[np.bool_] | None, usable: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return windows of the nearest cells; of more cells, if those hold too few."""
        selector = None if mask is None else _selector(mask)
        fetch, cells = min(usable, 2 * count), NPROBE
        while True:
            parameters = search_parameters(cells, selector)
            [near], [rows] = self._divided.search(query[None, :], fetch, params=parameters)
            found = rows[rows >= 0]
            if len(found) < min(count, usable) and cells < self._divided.nlist:
                cells *= 4
                continue
            best, scores = self._best_of(found, query, count)
            # What these cells hold and is not fetched may still tie with the last one.
            whole = len(found) < fetch or fetch == usable
            if whole or not np.isin(rows[near == near[-1]], best).any():
                return best, scores
            fetch = min(usable, fetch * 4)

    def _best_of(
        self, rows: NDArray[np.int64], query: FloatArray, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        # Not `@`: of equal rows BLAS may give sums that differ in their last bits.
        scores = np.einsum("ij,j->i", self.vectors[rows], query)
        order = np.lexsort((rows, -scores))[:count]
        return rows[order], scores[order].astype(np.float64)


def _selector(mask: NDArray[np.bool_]) -> Any:
    bitmap = np.packbits(mask, bitorder="little")
    selector = load_faiss().IDSelectorBitmap(bitmap)
    selector.kept_alive = bitmap  # FAISS keeps a bare pointer to it
    return selector
