"""Cells: an inverted file of vectors, searched where the question is near.

Many vectors are divided among cells, each around a centroid; a question is compared with those of
its nearest cells alone (IVF; Sivic and Zisserman 2003, Jégou et al. 2011). FAISS finds centroids
and searches; what is kept is which cell each vector is in, from which the rest is made again.
"""

from __future__ import annotations

import importlib
import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.protocols import FloatArray

logger = logging.getLogger(__name__)

_CELLS = 4.0
"""Cells for each root of the number of vectors."""

NPROBE = 256
"""Cells that are searched: .98 of what all would give (docs/benchmarks.md)."""

_SAMPLE = 39
"""Vectors a centroid is found from, where there are so many."""

_ITERATIONS = 8
_BATCH = 1 << 16


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """Which cell each vector is in.

    Attributes:
        centroids: Shape (cells, dimension).
        of_vector: The cell of each vector.
    """

    centroids: FloatArray
    of_vector: IntArray

    @classmethod
    def trained(cls, vectors: FloatArray) -> InvertedLists:
        """Return cells for vectors; equal ones give equal cells."""
        count = min(len(vectors), int(_CELLS * math.sqrt(len(vectors))))
        sample = np.random.default_rng(0).permutation(len(vectors))[: count * _SAMPLE]
        logger.info("finding %d cells for %d vectors", count, len(vectors))
        means = load_faiss().Kmeans(
            vectors.shape[1],
            count,
            niter=_ITERATIONS,
            spherical=True,
            seed=1,
            min_points_per_centroid=1,  # fewer than _SAMPLE are no reason to warn
        )
        means.train(vectors[np.sort(sample)])
        return cls(means.centroids, assign_lists(means.centroids, vectors))

    def fit(self, count: int) -> bool:
        """Tell whether there are about as many cells as so many vectors need."""
        wanted = _CELLS * math.sqrt(count)
        return wanted / 2 < len(self.centroids) < wanted * 2

    def search_index(self, vectors: FloatArray) -> Any:
        """Return the FAISS index that searches the cells of vectors, in eight bits a number."""
        faiss = load_faiss()
        count, dimension = self.centroids.shape
        index = faiss.IndexIVFScalarQuantizer(
            _quantizer(self.centroids),
            dimension,
            count,
            faiss.ScalarQuantizer.QT_8bit_uniform,  # one scale for all: a fifth quicker
            faiss.METRIC_INNER_PRODUCT,
            False,  # noqa: FBT003 - C++: of the vectors themselves, not of what differs from means
        )
        index.train(np.ascontiguousarray(vectors[:: max(1, len(vectors) // _BATCH)]))
        for at in range(0, len(vectors), _BATCH):
            part = np.ascontiguousarray(vectors[at : at + _BATCH])
            rows = np.arange(at, at + len(part), dtype=np.int64)
            cells = np.ascontiguousarray(self.of_vector[at : at + _BATCH], dtype=np.int64)
            pointers = map(faiss.swig_ptr, (part, rows, cells))
            index.add_core(len(part), *pointers)
        return index


def assign_lists(centroids: FloatArray, vectors: FloatArray) -> NDArray[np.int32]:
    """Return the cell that each vector belongs to."""
    if not len(vectors):
        return np.empty(0, dtype=np.int32)
    quantizer = _quantizer(centroids)
    cells = np.empty(len(vectors), dtype=np.int32)
    for at in range(0, len(vectors), _BATCH):
        part = np.ascontiguousarray(vectors[at : at + _BATCH])
        cells[at : at + len(part)] = quantizer.search(part, 1)[1][:, 0]
    return cells


def search_parameters(cells: int, selector: Any = None) -> Any:
    """Return how an index of cells is searched: how many of them, and what may be found."""
    if selector is None:
        return load_faiss().SearchParametersIVF(nprobe=cells)
    return load_faiss().SearchParametersIVF(nprobe=cells, sel=selector)


def _quantizer(centroids: FloatArray) -> Any:
    quantizer = load_faiss().IndexFlatIP(centroids.shape[1])
    quantizer.add(np.ascontiguousarray(centroids))
    return quantizer


def load_faiss() -> Any:
    """Return FAISS, loaded when it is first needed."""
    # Its stubs describe the C++ signatures, not the Python ones.
    return importlib.import_module("faiss")
