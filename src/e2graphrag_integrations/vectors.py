"""Dense search: FAISS inner product over the unit vectors of all windows of all nodes."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.protocols import FloatArray


class NodeSearch(Protocol):
    """Finds nodes by cosine; a node scores as its best window."""

    @property
    def nodes(self) -> NDArray[np.int64]:
        """The node of each window."""
        ...

    def search(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, float]]:
        """Return up to `count` distinct nodes, best first, with their cosines."""
        ...


class DenseIndex:
    """Finds nodes by cosine; a node scores as its best window.

    Args:
        vectors: Unit vectors, shape (windows, dimension), float32.
        nodes: The node of each window, shape (windows,).
    """

    def __init__(self, vectors: FloatArray, nodes: NDArray[np.int64]) -> None:
        self.vectors = vectors
        self.nodes = nodes

    @property
    def dimension(self) -> int:
        """Length of the vectors, 0 for an empty index."""
        return int(self.vectors.shape[1]) if len(self.vectors) else 0

    @cached_property
    def _index(self) -> Any:
        faiss = _faiss()
        index = faiss.IndexFlatIP(self.vectors.shape[1])
        index.add(np.ascontiguousarray(self.vectors, dtype=np.float32))
        return index

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
        usable = len(self.nodes) if allowed is None else int(allowed[self.nodes].sum())
        if count < 1 or not usable:
            return []
        parameters = None if allowed is None else self._selector(allowed)
        fetch = min(usable, count + 1)
        while True:
            scores, rows = self._index.search(query[None, :], fetch, params=parameters)
            best: dict[int, float] = {}
            for score, row in zip(scores[0].tolist(), rows[0].tolist(), strict=True):
                if row >= 0:
                    best.setdefault(int(self.nodes[row]), score)
            ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
            # What is not fetched may still tie with the last score.
            if fetch == usable or (len(ranked) == count and scores[0, -1] < ranked[-1][1]):
                return ranked
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
