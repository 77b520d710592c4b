"""Candidates for subjects as arrays, and the sections of documents: chunks below a heading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.graph.titles import title_entity
from e2graphrag_integrations.text.headings import section_name
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


_MAX_BLANK = 2
"""A heading that starts at most this many characters after the start of a chunk begins it."""


MIN_DEFINITIONS = 0.5
"""Minimum share of texts that begin with a definition, so that the first names and the headings of
all texts count. It is 91 % in an encyclopedia, and a third or less in news, chats, transcripts,
manuals and novels."""


class Section(NamedTuple):
    """Chunks below one heading, or with one heading in their metadata.

    Attributes:
        name: The heading.
        first, end: The chunks, half-open.
        begins_chunk: Whether the first chunk begins with the heading, or with the text below it.
    """

    name: str
    first: int
    end: int
    begins_chunk: bool = True


def sections_in_texts(candidates: SubjectTable, chunk_documents: IntArray) -> Iterator[Section]:
    """Yield the sections that the headings in the texts begin.

    A section ends where a heading of its level or above begins, or with its document. A chunk that
    contains the end of one section and the start of another belongs to both.
    """
    headings = candidates.select(candidates.levels > 0)
    columns = (column.tolist() for column in (headings.chunks, headings.levels, headings.starts))
    is_open: list[tuple[int, Section]] = []  # with the level
    last_chunk = 0
    for chunk, level, start, name in zip(*columns, headings.names, strict=True):
        if is_open and chunk_documents[last_chunk] != chunk_documents[chunk]:
            yield from _close(is_open, 0, _end_of_document(last_chunk, chunk_documents))
        begins_chunk = start <= _MAX_BLANK
        yield from _close(is_open, level, chunk if begins_chunk else chunk + 1)
        is_open.append((level, Section(name, chunk, chunk + 1, begins_chunk)))
        last_chunk = chunk
    yield from _close(is_open, 0, _end_of_document(last_chunk, chunk_documents))


def _close(is_open: list[tuple[int, Section]], level: int, end: int) -> Iterator[Section]:
    """Remove and yield the open sections of a level and below."""
    while is_open and is_open[-1][0] >= level:
        _, section = is_open.pop()
        yield section._replace(end=max(end, section.end))


def _end_of_document(chunk: int, chunk_documents: IntArray) -> int:
    if not len(chunk_documents):
        return 0
    return int(np.searchsorted(chunk_documents, chunk_documents[chunk], side="right"))


def are_entries(sections: Iterable[Section], defining_chunks: AbstractSet[int]) -> bool:
    """Return whether at least half of the sections begin with a definition, as in an encyclopedia.

    Only sections that begin a chunk are considered, and only those whose heading has a name.

    Args:
        sections: The sections.
        defining_chunks: The chunks that begin with a definition.
    """
    defines = [
        one.first in defining_chunks
        for one in sections
        if one.begins_chunk and section_name(one.name)
    ]
    return bool(defines) and sum(defines) >= MIN_DEFINITIONS * len(defines)


def named_sections(
    sections: Iterable[Section], edits: EntityEdits = NO_EDITS
) -> list[tuple[str, Section]]:
    """Return the sections whose heading names an entity, with this entity.

    "Introduction", "Chapter 3" and "1.2 Results" have none.
    """
    forms: dict[str, str] = {}
    named = []
    for section in sections:
        if section.name not in forms:
            forms[section.name] = title_entity(section_name(section.name), edits)
        if forms[section.name]:
            named.append((forms[section.name], section))
    return named
