"""Dense search: FAISS inner product over the unit vectors of all windows of all nodes."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.lazy import lazy
from e2graphrag_integrations.protocols import FloatArray


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
    """Searches vectors that are at hand, exactly.

    Args:
        vectors: Unit vectors, shape (windows, dimension), float32.
        nodes: The node of each window, shape (windows,).
    """

    def __init__(self, vectors: FloatArray, nodes: NDArray[np.int64]) -> None:
        self.vectors = vectors
        self._nodes = nodes

    @property
    def nodes(self) -> NDArray[np.int64]:
        """The node of each window."""
        return self._nodes

    @property
    def dimension(self) -> int:
        """Length of the vectors, 0 for an empty index."""
        return int(self.vectors.shape[1]) if len(self.vectors) else 0

    @lazy
    def _index(self) -> Any:
        faiss = _faiss()
        index = faiss.IndexFlatIP(self.vectors.shape[1])
        index.add(np.ascontiguousarray(self.vectors, dtype=np.float32))
        return index

    def windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, with their cosines; ties to the earlier one."""
        usable = len(self.nodes) if allowed is None else int(allowed[self.nodes].sum())
        if count < 1 or not usable:
            return np.empty(0, dtype=np.int64), np.empty(0)
        parameters = None if allowed is None else self._selector(allowed)
        fetch = min(usable, count + 1)
        while True:
            [scores], [rows] = self._index.search(query[None, :], fetch, params=parameters)
            order = np.lexsort((rows, -scores))[:count]
            # What is not fetched may still tie with the last score.
            if fetch == usable or scores[-1] < scores[order[-1]]:
                return rows[order], scores[order].astype(np.float64)
            fetch = min(usable, fetch * 4)

    def _selector(self, allowed: NDArray[np.bool_]) -> Any:
        faiss = _faiss()
        bitmap = np.packbits(allowed[self.nodes], bitorder="little")
        parameters = faiss.SearchParameters()
        selector = faiss.IDSelectorBitmap(bitmap)
        parameters.sel = selector
        # FAISS keeps bare pointers to both: hold them as long as the parameters live.
        parameters.kept_alive = (selector, bitmap)
        return parameters


def _faiss() -> Any:
    # Its stubs describe the C++ signatures, not the Python ones.
    return importlib.import_module("faiss")
