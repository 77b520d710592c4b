"""Inverted-file index (IVF): approximate nearest neighbors among many vectors.

Vectors are assigned to lists by their nearest centroid, and a query is compared only with the
vectors in the lists of its nearest centroids (Sivic and Zisserman, 2003; Jégou et al., 2011). FAISS
trains the centroids and searches. The centroids, the assignments and the quantized vectors are
persisted. FAISS maps the latter, so that opening a large index reads none of them.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.concurrency import use_one_thread_after_fork
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.protocols import FloatArray

logger = logging.getLogger(__name__)

_NLIST_FACTOR = 4.0
"""Number of lists, as a multiple of the square root of the number of vectors."""

NPROBE = 256
"""Number of lists searched per query. The recall is 0.98 (docs/benchmark_details.md)."""

_NPROBE_SHARE = 16
"""Of more than `_MAX_COMPARED` lists, one in this many is searched."""

_SAMPLES_PER_LIST = 39
"""Number of training vectors per centroid, if the index has enough vectors."""

_IMPORTED_IN = os.getpid()
"""The process that imported this module, which may have started FAISS's threads before a fork."""

_N_ITER = 8
"""Number of k-means iterations."""

_BATCH = 1 << 16
"""Number of vectors assigned or added per call to FAISS."""

_FEW = 1 << 12
"""Number of vectors that become float32 at a time where the index is small."""

_MAX_COMPARED = 8192
"""Number of centroids up to which each vector is compared with all of them. Beyond it, training and
assignment go through groups of centroids, which takes a tenth of the time at 10 million vectors."""

_NEAR_FACTOR = 20
"""Number of the centroids near each group that its vectors are compared with, as a multiple of the
square root of the number of lists."""


class VectorRows(Protocol):
    """Vectors, in one array or not, which become float32 where they are read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of vectors, and their dimension."""

    def __len__(self) -> int:
        """Return the number of vectors."""

    def __getitem__(self, rows: Any, /) -> FloatArray:
        """Return some of the vectors."""


ROW_TYPE = np.dtype(np.int64)
"""The type in which FAISS stores the rows of vectors, after the codes of their list."""


class CodeBytes:
    """The lists of a FAISS index as they are stored, read in blocks.

    The codes of each list are followed by the rows of its vectors.

    Args:
        index: The index, whose codes have one byte per component.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, index: Any) -> None:
        self._index = index
        self._width = index.code_size + ROW_TYPE.itemsize
        sizes = [index.invlists.list_size(number) for number in range(index.nlist)]
        self._bounds = exclusive_sums(np.asarray(sizes, dtype=np.int64))
        self.shape = (int(self._bounds[-1]), self._width)

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        """Return some of the bytes, shape (rows, dimension + 8)."""
        start, end, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        last = int(np.searchsorted(self._bounds, end))
        stored = np.concatenate([self._list(number) for number in range(first, last)])
        origin = int(self._bounds[first])
        block: NDArray[np.uint8] = stored.reshape(-1, self._width)[start - origin : end - origin]
        return block

    def _list(self, number: int) -> NDArray[np.uint8]:
        size = int(self._bounds[number + 1] - self._bounds[number])
        if not size:
            return np.empty(0, dtype=np.uint8)
        lists, view = self._index.invlists, load_faiss().rev_swig_ptr
        codes = view(lists.get_codes(number), size * self._index.code_size)
        return np.concatenate([codes, view(lists.get_ids(number), size).view(np.uint8)])


@dataclass(frozen=True, eq=False)
class ListCodes:
    """The vectors of IVF lists, quantized to 8 bits per component.

    Attributes:
        data: List after list, the codes of its vectors and then their rows as integers of 8 bytes;
            shape (vectors, dimension + 8).
        quantizer: The lowest value of a component, and the difference to the highest.
        path: The `.npy` file that contains `data`; None if it is not stored.
    """

    data: NDArray[np.uint8] | CodeBytes
    quantizer: FloatArray
    path: Path | None = None

    @classmethod
    def of(cls, index: Any) -> Self:
        """Return those of a FAISS index."""
        return cls(CodeBytes(index), load_faiss().vector_to_array(index.sq.trained))


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """The assignment of vectors to IVF lists.

    Attributes:
        centroids: Shape (nlist, dimension).
        assignments: The list of each vector, shape (vectors,).
        codes: The quantized vectors on disk; None if they are not stored.
    """

    centroids: FloatArray
    assignments: IntArray
    codes: ListCodes | None = None

    @classmethod
    def train(cls, vectors: VectorRows) -> Self:
        """Cluster unit vectors with spherical k-means; equal vectors always give equal lists."""
        nlist = min(len(vectors), int(_NLIST_FACTOR * math.sqrt(len(vectors))))
        shuffled = np.random.default_rng(0).permutation(len(vectors))
        sample = np.sort(shuffled[: nlist * _SAMPLES_PER_LIST])
        logger.info("training %d IVF lists on %d of %d vectors", nlist, len(sample), len(vectors))
        train = _cluster if nlist <= _MAX_COMPARED else _cluster_in_groups
        centroids = train(vectors[sample], nlist)
        return cls(centroids, assign_lists(centroids, vectors))

    @property
    def nlist(self) -> int:
        """The number of lists."""
        return len(self.centroids)

    def suits(self, n_vectors: int) -> bool:
        """Return whether `nlist` is within a factor of 2 of the ideal for `n_vectors`."""
        ideal = _NLIST_FACTOR * math.sqrt(n_vectors)
        return ideal / 2 < self.nlist < ideal * 2

    @lazy
    def sizes(self) -> IntArray:
        """Return the number of vectors in each list, shape (nlist,)."""
        sizes: IntArray = np.bincount(self.assignments, minlength=self.nlist)
        return sizes

    def faiss_index(self, vectors: VectorRows) -> Any:
        """Return a FAISS index of the vectors, quantized to 8 bits per component."""
        index = self._empty_index()
        index.train(np.ascontiguousarray(vectors[:: max(1, len(vectors) // _BATCH)]))
        for start in range(0, len(vectors), _BATCH):
            batch = np.ascontiguousarray(vectors[start : start + _BATCH])
            rows = np.arange(start, start + len(batch), dtype=np.int64)
            lists = np.ascontiguousarray(self.assignments[start : start + _BATCH], dtype=np.int64)
            pointers = map(load_faiss().swig_ptr, (batch, rows, lists))
            index.add_core(len(batch), *pointers)
        return index

    def mapped_index(self) -> Any | None:
        """Return the same index with the codes in their file, which is mapped.

        Returns:
            The index; None if the codes are not stored, or cannot be mapped.
        """
        if self.codes is None or self.codes.path is None or not can_map_lists():
            return None
        faiss = load_faiss()
        index = self._empty_index()
        faiss.copy_array_to_vector(np.ascontiguousarray(self.codes.quantizer), index.sq.trained)
        index.is_trained, index.ntotal = True, len(self.assignments)
        try:
            lists = self._mapped_lists(self.codes.path)
        except (OSError, RuntimeError) as error:
            logger.warning("%s cannot be mapped (%s)", self.codes.path, error)
            return None
        index.replace_invlists(lists, True)  # noqa: FBT003 - the index deletes them
        lists.this.disown()
        return index

    def has_codes_of(self, vectors: VectorRows) -> bool:
        """Return whether the codes on disk, if there are any, are those of some vectors."""
        if self.codes is None:
            return True
        expected, stored = CodeBytes(self.faiss_index(vectors)), self.codes.data
        return all(
            np.array_equal(expected[start : start + _BATCH], stored[start : start + _BATCH])
            for start in range(0, len(vectors), _BATCH)
        )

    def _mapped_lists(self, path: Path) -> Any:
        faiss = load_faiss()
        lists = faiss.OnDiskInvertedLists()
        lists.nlist, lists.code_size = self.centroids.shape
        lists.filename, lists.read_only = str(path), True
        lists.totsize = path.stat().st_size
        lists.prefetch_nthread = 0  # otherwise, each search starts threads
        width = lists.code_size + ROW_TYPE.itemsize
        start = lists.totsize - len(self.assignments) * width  # after the header of the file
        place = faiss.OnDiskOneList()
        for size in self.sizes.tolist():
            place.offset, place.size, place.capacity = start, size, size
            lists.lists.push_back(place)
            start += size * width
        lists.do_mmap()
        return lists

    def _empty_index(self) -> Any:
        faiss = load_faiss()
        return faiss.IndexIVFScalarQuantizer(
            _coarse_quantizer(self.centroids),
            self.centroids.shape[1],
            self.nlist,
            faiss.ScalarQuantizer.QT_8bit_uniform,  # a fifth faster than one scale per component
            faiss.METRIC_INNER_PRODUCT,
            False,  # noqa: FBT003 - by_residual, positional in C++: quantize the vectors themselves
        )


def can_map_lists() -> bool:
    """Return whether FAISS can map lists in files, which it cannot on Windows."""
    return hasattr(load_faiss(), "OnDiskInvertedLists")


def stored_rows(codes: NDArray[np.uint8], sizes: IntArray) -> IntArray:
    """Return the rows of the vectors in the order of `ListCodes.data`, shape (vectors,).

    Args:
        codes: The data.
        sizes: The number of vectors in each list.
    """
    data, ends = codes.reshape(-1), np.cumsum(sizes) * codes.shape[1]
    pieces = [np.empty(0, dtype=np.int64)]
    for end, size in zip(ends.tolist(), sizes.tolist(), strict=True):
        pieces.append(data[end - size * ROW_TYPE.itemsize : end].view(ROW_TYPE))
    return np.concatenate(pieces)


def quantized_index(vectors: VectorRows) -> Any:
    """Return a FAISS index that compares all vectors, quantized to 8 bits per component."""
    faiss = load_faiss()
    kind = faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexScalarQuantizer(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    index.train(np.ascontiguousarray(vectors[:: max(1, len(vectors) // _FEW)]))
    for start in range(0, len(vectors), _FEW):
        index.add(np.ascontiguousarray(vectors[start : start + _FEW]))
    return index


def assign_lists(centroids: FloatArray, vectors: VectorRows) -> NDArray[np.int32]:
    """Return the list of each vector: the one with the nearest centroid, shape (vectors,)."""
    if not len(vectors):
        return np.empty(0, dtype=np.int32)
    nearest = _nearest_of_all if len(centroids) <= _MAX_COMPARED else _nearest_by_group
    find = nearest(centroids)
    assignments = np.empty(len(vectors), dtype=np.int32)
    for start in range(0, len(vectors), _BATCH):
        batch = np.ascontiguousarray(vectors[start : start + _BATCH])
        assignments[start : start + len(batch)] = find(batch)
    return assignments


def _cluster(vectors: FloatArray, k: int) -> FloatArray:
    """Return `k` centroids of unit vectors."""
    kmeans = load_faiss().Kmeans(
        vectors.shape[1],
        k,
        niter=_N_ITER,
        spherical=True,
        seed=1,
        min_points_per_centroid=1,  # suppresses a warning about small samples
    )
    kmeans.train(vectors)
    centroids: FloatArray = kmeans.centroids
    return centroids


def _cluster_in_groups(vectors: FloatArray, k: int) -> FloatArray:
    """Return about `k` centroids: those of the groups of a coarser clustering, by their sizes."""
    groups = assign_lists(_cluster(vectors, math.isqrt(k)), vectors)
    order = np.argsort(groups, kind="stable")
    bounds = np.flatnonzero(np.diff(groups[order])) + 1
    members = (vectors[rows] for rows in np.split(order, bounds))
    return np.concatenate([_cluster(own, max(1, k * len(own) // len(vectors))) for own in members])


def _nearest_of_all(centroids: FloatArray) -> Callable[[FloatArray], IntArray]:
    """Return a function that finds the nearest centroid of each vector."""
    quantizer = _coarse_quantizer(centroids)
    return lambda vectors: quantizer.search(vectors, 1)[1][:, 0]


def _nearest_by_group(centroids: FloatArray) -> Callable[[FloatArray], IntArray]:
    """Return the same, but the function compares vectors only with centroids near their group."""
    n_groups = math.isqrt(len(centroids))
    groups = _coarse_quantizer(_cluster(centroids, n_groups))
    count = min(len(centroids), _NEAR_FACTOR * n_groups)
    centers = groups.reconstruct_n(0, n_groups)
    _, near = _coarse_quantizer(centroids).search(centers, count)

    def find(vectors: FloatArray) -> IntArray:
        group_of = groups.search(vectors, 1)[1][:, 0]
        nearest = np.empty(len(vectors), dtype=np.int64)
        for group in np.unique(group_of).tolist():
            rows = np.flatnonzero(group_of == group)
            quantizer = _coarse_quantizer(centroids[near[group]])
            nearest[rows] = near[group][quantizer.search(vectors[rows], 1)[1][:, 0]]
        return nearest

    return find


def least_nprobe(nlist: int) -> int:
    """Return the least number of lists to search, which is more than `NPROBE` if there are many."""
    return 0 if nlist <= _MAX_COMPARED else nlist // _NPROBE_SHARE


def search_parameters(nprobe: int, selector: Any = None) -> Any:
    """Return FAISS search parameters.

    Args:
        nprobe: Number of lists to search.
        selector: A FAISS IDSelector for the vectors that may be returned; None allows all.
    """
    return load_faiss().SearchParametersIVF(nprobe=nprobe, sel=selector)


def _coarse_quantizer(centroids: FloatArray) -> Any:
    quantizer = load_faiss().IndexFlatIP(centroids.shape[1])
    quantizer.add(np.ascontiguousarray(centroids))
    return quantizer


def load_faiss() -> Any:
    """Import FAISS on first use."""
    # A plain import would use FAISS's type stubs, which describe the C++ signatures.
    faiss = importlib.import_module("faiss")
    use_one_thread_after_fork(_IMPORTED_IN)
    return faiss
