"""The sections of documents: runs of chunks below one heading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.subject_table import SubjectTable
from e2graphrag_integrations.graph.titles import title_form
from e2graphrag_integrations.text.title_rules import section_name

_MAX_BLANK = 2
"""A heading that starts at most this many characters after the start of a chunk begins it."""


_MIN_NAMED = 0.2
"""Minimum share of headings that other documents mention by name. It is 24 % in pages that consist
of encyclopedic entries, and 13 % or less in web pages and manuals."""


class Section(NamedTuple):
    """Chunks below one heading, or with one heading in their metadata.

    Attributes:
        name: The heading.
        first, end: The chunks, half-open.
    """

    name: str
    first: int
    end: int


def sections_in_texts(candidates: SubjectTable, chunk_documents: IntArray) -> Iterator[Section]:
    """Yield the sections that the headings in the texts begin.

    A section ends where a heading of its level or above begins, or with its document. A chunk that
    contains the end of one section and the start of another belongs to both.
    """
    headings = candidates.select(candidates.levels > 0)
    columns = (column.tolist() for column in (headings.chunks, headings.levels, headings.starts))
    is_open: list[tuple[int, int, str]] = []  # level, first chunk and name
    last_chunk = 0
    for chunk, level, start, name in zip(*columns, headings.names, strict=True):
        if is_open and chunk_documents[last_chunk] != chunk_documents[chunk]:
            yield from _close(is_open, 0, _end_of_document(last_chunk, chunk_documents))
        yield from _close(is_open, level, chunk if start <= _MAX_BLANK else chunk + 1)
        is_open.append((level, chunk, name))
        last_chunk = chunk
    yield from _close(is_open, 0, _end_of_document(last_chunk, chunk_documents))


def _close(is_open: list[tuple[int, int, str]], level: int, end: int) -> Iterator[Section]:
    """Remove and yield the open sections of a level and below."""
    while is_open and is_open[-1][0] >= level:
        _, first, name = is_open.pop()
        yield Section(name, first, max(end, first + 1))


def _end_of_document(chunk: int, chunk_documents: IntArray) -> int:
    if not len(chunk_documents):
        return 0
    return int(np.searchsorted(chunk_documents, chunk_documents[chunk], side="right"))


@dataclass(frozen=True, slots=True)
class SectionChoice:
    """The sections whose headings count.

    Attributes:
        sections: The normal form of each heading, and its section.
        are_trusted: Whether the corpus supports all headings.
    """

    sections: Sequence[tuple[str, Section]] = ()
    are_trusted: bool = False


def choose_sections(
    sections: Iterable[Section], graph: EntityGraph, chunk_documents: IntArray
) -> SectionChoice:
    """Return the sections whose heading names what they are about.

    A heading counts if a chunk outside of the section mentions it by name. If other documents
    mention at least 20 % of all headings, all count. Headings such as "Introduction" or "Chapter 3"
    never count.
    """
    forms: dict[str, str] = {}
    named: list[tuple[str, Section]] = []
    mentioned: list[tuple[str, Section]] = []
    elsewhere: set[str] = set()
    for section in sections:
        if section.name not in forms:
            forms[section.name] = title_form(section_name(section.name))
        form = forms[section.name]
        if not form:
            continue
        named.append((form, section))
        entity = graph.index.get(form)
        if entity is not None and graph.named[entity]:
            chunks, _ = graph.chunks(entity)
            if _has_other(chunks, section.first, section.end):
                mentioned.append((form, section))
            bounds = chunk_documents[section.first] + np.arange(2)
            if _has_other(chunks, *np.searchsorted(chunk_documents, bounds).tolist()):
                elsewhere.add(form)
    are_trusted = len(elsewhere) >= max(1, _MIN_NAMED * len({form for form, _ in named}))
    return SectionChoice(named if are_trusted else mentioned, are_trusted)


def _has_other(chunks: IntArray, first: int, end: int) -> bool:
    """Return whether some of the ascending chunks are outside a range."""
    inside = np.searchsorted(chunks, [first, end])
    return bool(inside[1] - inside[0] < len(chunks))
