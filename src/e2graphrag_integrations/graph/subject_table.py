"""The candidates for the subjects of all chunks, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.types import HEADING, SECTION_LABELS, Mention

_DEFINITION, _FIRST_LINE = -1, 0
"""Levels of candidates that are not the headings of sections."""

_LEVELS = {HEADING: _FIRST_LINE, **{label: n for n, label in enumerate(SECTION_LABELS, 1)}}


@dataclass(frozen=True, eq=False)
class SubjectTable:
    """The candidates for the subject of each chunk, ordered by chunk.

    Attributes:
        chunks: The chunk of each candidate.
        levels: 1 to 6 for the heading of a section, 0 for the heading in the first line, -1 for a
            defined name.
        starts: Where each candidate starts in its chunk.
        names: The candidate as written.
    """

    chunks: IntArray
    levels: IntArray
    starts: IntArray
    names: Sequence[str]

    @classmethod
    def empty(cls) -> Self:
        """Return a table without candidates."""
        empty = np.empty(0, dtype=np.int64)
        return cls(empty, empty, empty, ())

    @property
    def is_definition(self) -> NDArray[np.bool_]:
        """Whether each candidate is a defined name."""
        mask: NDArray[np.bool_] = self.levels == _DEFINITION
        return mask

    @property
    def is_first_line(self) -> NDArray[np.bool_]:
        """Whether each candidate is the heading in the first line."""
        mask: NDArray[np.bool_] = self.levels == _FIRST_LINE
        return mask

    def select(self, mask: NDArray[np.bool_]) -> SubjectTable:
        """Return some of the candidates."""
        rows = np.flatnonzero(mask)
        names = [self.names[row] for row in rows.tolist()]
        return SubjectTable(self.chunks[rows], self.levels[rows], self.starts[rows], names)


class SubjectTableBuilder:
    """Collects candidates chunk by chunk."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []
        self._names: list[str] = []

    def add(self, chunk: int, candidates: Sequence[Mention]) -> None:
        """Add the candidates of a chunk; chunks must be ascending."""
        for candidate in candidates:
            level = _LEVELS.get(candidate.label, _DEFINITION)
            self._rows.append((chunk, level, candidate.start))
            self._names.append(candidate.entity)

    def table(self) -> SubjectTable:
        """Return the table."""
        columns = np.asarray(self._rows, dtype=np.int64).reshape(-1, 3)
        chunks, levels, starts = np.ascontiguousarray(columns.T)
        return SubjectTable(chunks, levels, starts, self._names)
