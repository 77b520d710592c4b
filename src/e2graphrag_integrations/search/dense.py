"""Dense search by inner product over the unit vectors of every node's windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.search.ivf import (
    NPROBE,
    InvertedLists,
    ListCodes,
    VectorRows,
    can_map_lists,
    least_nprobe,
    load_faiss,
    quantized_index,
    search_parameters,
)

_BLOCK = 1 << 14
"""Number of vectors that are encoded at a time."""

_EXACT_LIMIT = 20_000
"""Maximum number of windows for which the search is exact. An exact search of this many windows
takes one or two milliseconds."""

_FEW_WINDOWS = 2_000
"""Maximum number of windows of which computing all cosines takes less time than selecting some."""

_FETCH_FACTOR = 4
"""Factor by which to increase the windows fetched, or lists searched, after too few results."""


class NodeSearch(ABC):
    """Finds windows by cosine, and nodes by the cosine of their best window."""

    window_nodes: NDArray[np.int64]
    """The node of each window, ascending, shape (windows,)."""

    exact_count: int | None = None
    """Number of the best windows of a search whose cosines are exact; None means all."""

    @abstractmethod
    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines.

        The earlier window wins ties.

        Args:
            query: Unit vector, shape (dimension,).
            count: Maximum number of windows.
            allowed: Mask over nodes; None allows all.
        """

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows, shape (windows,).

        By default, this is a search among all windows of their nodes. If it misses a window, the
        result for that window is the lowest cosine found.

        Args:
            query: Unit vector, shape (dimension,).
            windows: Window rows, of which there is at least one.
        """
        allowed = np.zeros(int(self.window_nodes[-1]) + 1, dtype=np.bool_)
        allowed[self.window_nodes[windows]] = True
        rows, cosines = self.search_windows(query, len(self.window_nodes), allowed)
        found = dict(zip(rows.tolist(), cosines.tolist(), strict=True))
        lowest = min(found.values(), default=0.0)
        return np.asarray([found.get(window, lowest) for window in windows.tolist()])

    def exact_cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the exact cosines of some windows, shape (windows,), however long that takes.

        Args:
            query: Unit vector, shape (dimension,).
            windows: Window rows, of which there is at least one.
        """
        return self.cosines(query, windows)

    def cosines_of_all_nodes(self, query: FloatArray) -> Floats | None:  # noqa: ARG002 - for `DenseIndex`
        """Return the cosine of each node's best window, or None if it is faster to read only some.

        Args:
            query: Unit vector, shape (dimension,).
        """
        return None

    def cosines_of(self, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of several unit vectors and some windows, shape (windows, queries).

        Args:
            queries: Unit vectors, shape (queries, dimension).
            windows: Window rows, of which there is at least one.
        """
        return np.stack([self.exact_cosines(query, windows) for query in queries], axis=1)

    def best_cosines(self, query: FloatArray, nodes: IntArray) -> NDArray[np.float64]:
        """Return the cosine of each node's best window, or 0 if it is negative; shape (nodes,).

        Args:
            query: Unit vector, shape (dimension,).
            nodes: Node rows.
        """
        windows, owners = self.windows_of(nodes)
        best = np.zeros(len(nodes))
        if len(windows):
            np.maximum.at(best, owners, self.cosines(query, windows))
        return best

    def windows_of(self, nodes: IntArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all windows of some nodes, and for each window, the position of its node."""
        first, end = self._ranges_of_windows(nodes)
        sizes = end - first
        return concatenated_ranges(first, sizes), np.repeat(np.arange(len(nodes)), sizes)

    def window_counts(self, nodes: IntArray) -> IntArray:
        """Return the number of windows of each of some nodes, shape (nodes,)."""
        first, end = self._ranges_of_windows(nodes)
        counts: IntArray = end - first
        return counts

    def _ranges_of_windows(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the windows of each of some nodes begin and end, shape (nodes,)."""
        return (
            np.searchsorted(self.window_nodes, nodes),
            np.searchsorted(self.window_nodes, nodes, "right"),
        )

    def search(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, float]]:
        """Return up to `count` distinct nodes, best first, with the cosine of their best window.

        The earlier node wins ties.

        Args:
            query: Unit vector, shape (dimension,).
            count: Maximum number of nodes.
            allowed: Mask over nodes; None allows all.
        """
        fetch = count + 1
        while count > 0:
            windows, cosines = self.search_windows(query, fetch, allowed)
            best: dict[int, float] = {}
            nodes = self.window_nodes[windows].tolist()
            for node, cosine in zip(nodes, cosines.tolist(), strict=True):
                best.setdefault(node, cosine)
            ranked = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
            # A window that was not fetched may tie with the last score.
            if len(windows) < fetch or (len(ranked) == count and cosines[-1] < ranked[-1][1]):
                return ranked
            fetch *= _FETCH_FACTOR
        return []


@dataclass(frozen=True)
class VectorKind:
    """How vectors are kept in memory and in snapshots.

    The vectors of a kind are read as float32, like an array. They consist of arrays with one row
    for each window, such as codes and scales, so what moves windows moves the rows of each array.
    `snapshot/files.py` lists the kinds.

    Attributes:
        name: The value of `vectors=` that chooses it, and the subfolder of its snapshots.
        allocate: Returns vectors to be set row by row, given their number and dimension.
        arrays: Returns the arrays of vectors by file name, without the suffix.
        restored: The inverse of `arrays`.
        are_valid: Whether arrays from a file fit together.
        rescored: Returns the search that computes the cosines of the best windows from the exact
            vectors, given the search in the own ones; None if the own ones are exact.
    """

    name: str
    allocate: Callable[[int, int], Any]
    arrays: Callable[[Any], Mapping[str, Any]]
    restored: Callable[[Mapping[str, Any]], Any]
    are_valid: Callable[[Any], bool]
    rescored: Callable[[Any, Callable[[IntArray], FloatArray]], NodeSearch] | None = None

    def mapped(self, change: Callable[..., Any], *vectors: Any) -> Any:
        """Return the vectors whose arrays are made from the arrays of others, one by one."""
        arrays = [self.arrays(one) for one in vectors]
        return self.restored({name: change(*(a[name] for a in arrays)) for name in arrays[0]})

    def encoded(self, vectors: Any) -> Any:
        """Return the vectors of this kind that are nearest to others."""
        made = self.allocate(len(vectors), vectors.shape[1])
        for start in range(0, len(vectors), _BLOCK):
            made[start : start + _BLOCK] = vectors[start : start + _BLOCK]
        return made


FLOAT32 = VectorKind(
    "",
    lambda windows, dimension: np.empty((windows, dimension), np.float32),
    lambda vectors: {"vectors": vectors},
    lambda arrays: arrays["vectors"],
    lambda vectors: bool(vectors.dtype == np.float32 and vectors.ndim == 2),  # noqa: PLR2004
)


def kind_of(vectors: Any) -> VectorKind:
    """Return the kind of vectors."""
    kind: VectorKind = getattr(vectors, "kind", FLOAT32)
    return kind


class OwnVectors(NodeSearch):
    """A search in the vectors of a snapshot, which are in one segment or in two."""

    vectors: VectorRows
    """Unit vectors, shape (windows, dimension), of any kind."""

    @property
    @abstractmethod
    def lists(self) -> InvertedLists | None:
        """The IVF lists of all windows, if they have been trained."""

    @property
    def kind(self) -> VectorKind:
        """The kind of the vectors."""
        return kind_of(self.vectors)

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows. See `NodeSearch`."""
        # Not `@`: for equal rows, BLAS may return products that differ in their last bits.
        cosines: Floats = np.einsum("ij,j->i", self.vectors[windows], query)
        return cosines

    def cosines_of(self, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of several vectors and some windows. See `NodeSearch`."""
        cosines: Floats = np.einsum("ij,kj->ik", self.vectors[windows], queries).astype(np.float64)
        return cosines


class DenseIndex(OwnVectors):
    """Searches vectors in memory: exactly if there are few, otherwise through IVF lists.

    IVF candidates are reranked by exact cosine; the recall of the top 200 is 0.98.

    Args:
        vectors: Unit vectors, shape (windows, dimension), of any kind.
        window_nodes: The node of each window, ascending, shape (windows,).
        ivf: Previously trained lists; None trains them on the first search that needs them.
        on_build: Called to persist lists that were trained, and again when their vectors were
            quantized.
        exact_limit: Maximum number of windows for which the search is exact.
    """

    def __init__(
        self,
        vectors: VectorRows,
        window_nodes: NDArray[np.int64],
        ivf: InvertedLists | None = None,
        on_build: Callable[[InvertedLists], None] | None = None,
        *,
        exact_limit: int = _EXACT_LIMIT,
    ) -> None:
        self.vectors = vectors
        self.ivf = ivf
        self.window_nodes = window_nodes
        self._on_build = on_build
        self._exact_limit = exact_limit

    @property
    def lists(self) -> InvertedLists | None:
        """The lists, if they have been trained."""
        return self.ivf

    def prepare(self) -> None:
        """Build the index that the first search without a filter would build."""
        if len(self.window_nodes) > self._exact_limit:
            _ = self._ivf_index
        elif len(self.window_nodes):
            _ = self._flat_index

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`."""
        mask = None if allowed is None else allowed[self.window_nodes]
        usable = len(self.window_nodes) if mask is None else int(mask.sum())
        if count < 1 or not usable:
            return np.empty(0, dtype=np.int64), np.empty(0)
        if len(self.window_nodes) <= self._exact_limit:
            return self._search_flat(query, count, mask, usable)
        if mask is not None and usable <= self._exact_limit:
            return self._rerank_exactly(np.flatnonzero(mask), query, count)
        return self._search_ivf(query, count, mask, usable)

    def cosines_of_all_nodes(self, query: FloatArray) -> Floats | None:
        """Return the cosine of each node's best window if there are few. See `NodeSearch`."""
        if not 0 < len(self.window_nodes) <= _FEW_WINDOWS:
            return None
        cosines = np.einsum("ij,j->i", self.vectors[:], query)
        best: Floats = np.maximum.reduceat(cosines, self._first_windows)
        return best

    @lazy
    def _first_windows(self) -> IntArray:
        return np.flatnonzero(np.diff(self.window_nodes, prepend=-1))

    @lazy
    def _flat_index(self) -> Any:
        if self.kind.rescored is not None:
            return quantized_index(self.vectors)
        index = load_faiss().IndexFlatIP(self.vectors.shape[1])
        index.add(np.ascontiguousarray(self.vectors, dtype=np.float32))
        return index

    @lazy
    def _ivf_index(self) -> Any:
        if self.ivf is None:
            self.ivf = InvertedLists.train(self.vectors)
            if self._on_build is not None:
                self._on_build(self.ivf)
        mapped = self.ivf.mapped_index()
        if mapped is not None:
            return mapped
        built = self.ivf.faiss_index(self.vectors)
        if self._on_build is not None and self.ivf.codes is None and can_map_lists():
            self._on_build(replace(self.ivf, codes=ListCodes.of(built)))
        return built

    def _search_flat(
        self, query: FloatArray, count: int, mask: NDArray[np.bool_] | None, usable: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        parameters = None if mask is None else load_faiss().SearchParameters(sel=_selector(mask))
        fetch = min(usable, count + 1)
        if self.kind.rescored is not None:  # FAISS rounds the vectors again
            fetch = min(usable, 2 * count)
            _, [rows] = self._flat_index.search(query[None, :], fetch, params=parameters)
            return self._rerank_exactly(rows[rows >= 0], query, count)
        while True:
            [scores], [rows] = self._flat_index.search(query[None, :], fetch, params=parameters)
            order = np.lexsort((rows, -scores))[:count]
            # A window that was not fetched may tie with the last score.
            if fetch == usable or scores[-1] < scores[order[-1]]:
                return rows[order], scores[order].astype(np.float64)
            fetch = min(usable, fetch * _FETCH_FACTOR)

    def _search_ivf(
        self, query: FloatArray, count: int, mask: NDArray[np.bool_] | None, usable: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Search the nearest lists, and more of them if they have too few matching windows."""
        selector = None if mask is None else _selector(mask)
        fetch, nprobe = min(usable, 2 * count), max(NPROBE, least_nprobe(self._ivf_index.nlist))
        while True:
            parameters = search_parameters(nprobe, selector)
            [quantized], [rows] = self._ivf_index.search(query[None, :], fetch, params=parameters)
            found = rows[rows >= 0]  # FAISS pads with -1
            if len(found) < min(count, usable) and nprobe < self._ivf_index.nlist:
                nprobe *= _FETCH_FACTOR
                continue
            best, scores = self._rerank_exactly(found, query, count)
            # A window in these lists that was not fetched may tie with the last one.
            exhausted = len(found) < fetch or fetch == usable
            if exhausted or set(best).isdisjoint(rows[quantized == quantized[-1]]):
                return best, scores
            fetch = min(usable, fetch * _FETCH_FACTOR)

    def _rerank_exactly(
        self, rows: NDArray[np.int64], query: FloatArray, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        scores = self.cosines(query, rows)
        order = np.lexsort((rows, -scores))[:count]
        return rows[order], scores[order].astype(np.float64)


def _selector(mask: NDArray[np.bool_]) -> Any:
    bitmap = np.packbits(mask, bitorder="little")
    selector = load_faiss().IDSelectorBitmap(bitmap)
    selector.bitmap_array = bitmap  # FAISS stores a bare pointer; this keeps the array alive
    return selector
