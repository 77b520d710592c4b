"""Vectors of one byte per component, and a search that rescores the best windows exactly.

Each vector has a scale: its largest component is 127 or -127 times the scale. So a vector never
depends on others, and a merged snapshot equals one that is built from all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import NodeSearch, OwnVectors, VectorKind
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.search.segmented import SegmentedVectors

_MAX_CODE = 127
"""The largest code."""

_RESCORED = 64
"""Number of the best windows, or of given ones, whose vectors are read from the index for their
exact cosines. Reading so many takes about a millisecond."""

_Rows = NDArray[Any] | SegmentedVectors


class Int8Vectors:
    """Vectors of one byte per component, which become float32 where they are read.

    Args:
        codes: The components, shape (windows, dimension), int8.
        scales: The factor of each vector, shape (windows, 1), float32.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, codes: _Rows, scales: _Rows) -> None:
        self.codes = codes
        self.scales = scales

    @classmethod
    def zeros(cls, windows: int, dimension: int) -> Self:
        """Return vectors to be set one by one."""
        return cls(np.zeros((windows, dimension), np.int8), np.zeros((windows, 1), np.float32))

    @property
    def kind(self) -> VectorKind:
        """Their kind."""
        return INT8

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of vectors, and their dimension."""
        return tuple(self.codes.shape)

    @property
    def is_valid(self) -> bool:
        """Whether the arrays fit together."""
        return (
            self.codes.dtype == np.int8
            and self.codes.ndim == self.scales.ndim == self.ndim
            and self.scales.dtype == np.float32
            and tuple(self.scales.shape) == (len(self.codes), 1)
        )

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self.codes)

    def __getitem__(self, rows: Any) -> FloatArray:
        """Return some vectors, or one, as float32."""
        vectors: FloatArray = self.codes[rows] * self.scales[rows]
        return vectors

    def __setitem__(self, rows: slice | int, vectors: FloatArray) -> None:
        """Replace vectors by those nearest to others."""
        if not (isinstance(self.codes, np.ndarray) and isinstance(self.scales, np.ndarray)):
            raise TypeError("the vectors of several segments cannot be changed")
        largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0).astype(np.float32)
        scales = largest / np.float32(_MAX_CODE)
        divisors = np.where(scales > 0, scales, np.float32(1))
        self.codes[rows] = np.clip(np.rint(vectors / divisors), -_MAX_CODE, _MAX_CODE)
        self.scales[rows] = scales

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """Return all vectors in one array of float32."""
        if copy is False:
            raise ValueError("vectors of one byte cannot become float32 without a copy")
        return np.asarray(self[:], dtype=dtype)


ReadVectors = Callable[[IntArray], FloatArray]
"""Returns the vectors of some windows from the index, shape (windows, dimension), float32."""


class RescoredSearch(NodeSearch):
    """Searches vectors of one byte per component, and rescores the best windows exactly.

    Args:
        own: The search in the vectors of one byte per component.
        read: Returns the exact vectors of windows.
    """

    exact_count = _RESCORED

    def __init__(self, own: OwnVectors, read: ReadVectors) -> None:
        self.own = own
        self.window_nodes = own.window_nodes
        self._read = read

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`.

        The cosines of the first 64 are exact, and those of the others within about .002.
        """
        if count < 1:
            return np.empty(0, dtype=np.int64), np.empty(0)
        rows, cosines = self.own.search_windows(query, max(count, _RESCORED), allowed)
        best = rows[:_RESCORED]
        if len(best):
            cosines = np.concatenate([self.exact_cosines(query, best), cosines[_RESCORED:]])
        order = np.lexsort((rows, -cosines))[:count]
        return rows[order], cosines[order].astype(np.float64)

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows, which are exact if they are few. See `NodeSearch`."""
        if len(windows) <= _RESCORED:
            return self.exact_cosines(query, windows)
        return self.own.cosines(query, windows)

    def exact_cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the exact cosines of some windows. See `NodeSearch`."""
        cosines: Floats = np.einsum("ij,j->i", self._read(windows), query)
        return cosines

    def cosines_of(self, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of several vectors and some windows. See `NodeSearch`."""
        return self.own.cosines_of(queries, windows)


INT8 = VectorKind(
    "int8",
    Int8Vectors.zeros,
    lambda vectors: {"vectors": vectors.codes, "vector_scales": vectors.scales},
    lambda arrays: Int8Vectors(arrays["vectors"], arrays["vector_scales"]),
    lambda vectors: vectors.is_valid,
    RescoredSearch,
)
