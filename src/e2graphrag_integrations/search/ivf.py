"""Inverted-file index (IVF): approximate nearest neighbors among many vectors.

Vectors are assigned to lists by their nearest centroid, and a query is compared only with the
vectors in the lists of its nearest centroids (Sivic and Zisserman, 2003; Jégou et al., 2011). FAISS
trains the centroids and searches. Only centroids and assignments are persisted; the FAISS index is
rebuilt from them.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.concurrency import use_one_thread_after_fork
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
        ...

    def __len__(self) -> int:
        """Return the number of vectors."""
        ...

    def __getitem__(self, rows: Any, /) -> FloatArray:
        """Return some of the vectors."""
        ...


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """The assignment of vectors to IVF lists.

    Attributes:
        centroids: Shape (nlist, dimension).
        assignments: The list of each vector, shape (vectors,).
    """

    centroids: FloatArray
    assignments: IntArray

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

    def faiss_index(self, vectors: VectorRows) -> Any:
        """Return a FAISS index of the vectors, quantized to 8 bits per component."""
        faiss = load_faiss()
        index = faiss.IndexIVFScalarQuantizer(
            _coarse_quantizer(self.centroids),
            self.centroids.shape[1],
            self.nlist,
            faiss.ScalarQuantizer.QT_8bit_uniform,  # a fifth faster than one scale per component
            faiss.METRIC_INNER_PRODUCT,
            False,  # noqa: FBT003 - by_residual, positional in C++: quantize the vectors themselves
        )
        index.train(np.ascontiguousarray(vectors[:: max(1, len(vectors) // _BATCH)]))
        for start in range(0, len(vectors), _BATCH):
            batch = np.ascontiguousarray(vectors[start : start + _BATCH])
            rows = np.arange(start, start + len(batch), dtype=np.int64)
            lists = np.ascontiguousarray(self.assignments[start : start + _BATCH], dtype=np.int64)
            pointers = map(faiss.swig_ptr, (batch, rows, lists))
            index.add_core(len(batch), *pointers)
        return index


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
