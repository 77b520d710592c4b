"""The sections of documents: runs of chunks below one heading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.graph.subject_table import SubjectTable
from e2graphrag_integrations.graph.titles import title_entity
from e2graphrag_integrations.text.headings import section_name

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
