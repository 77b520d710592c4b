"""Titles, candidates for subjects, and sections: chunks of a document below a heading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.normalize import ARTICLES, normal_form
from e2graphrag_integrations.text.headings import is_junk_title, section_name
from e2graphrag_integrations.types import HEADING, SECTION_LABELS, Mention

_PARENTHESIS = re.compile(r"[()（）]")
_WORD = re.compile(r"\w+")
_PLAIN = re.compile("[\x00-\x7f‘’“”–—]*")
"""Texts whose words begin where those of their normal form do."""

_MAX_WORDS = 8
"""Maximum number of words of a title that is found in a text."""


def title_form(title: str | None) -> str:
    """Return the normal form of a title without trailing parentheses.

    >>> title_form("Dune (novel)")
    'dune'
    """
    if not title:
        return ""
    plain = _without_trailing_parentheses(" ".join(title.split()))
    return normal_form(plain) or normal_form(title)


def title_entity(title: str | None, edits: EntityEdits) -> str:
    """Return the entity that a title names; empty if it names none.

    Parentheses at the end are kept if an edit contains the title with them.

    >>> from e2graphrag_integrations.entities.edits import EntityEdit
    >>> edits = EntityEdits((EntityEdit("separate", ("Dune (novel)", "Dune (film)")),))
    >>> title_entity("Dune (novel)", edits), title_entity("Dune (game)", edits)
    ('dune (novel', 'dune')
    """
    form = title_form(title)
    if not edits or not title:
        return form
    full = edits.form(title)
    if full in edits.named_forms:
        return edits.resolve(full)
    plain = _without_trailing_parentheses(" ".join(title.split()))
    return edits.resolve(edits.form(plain) or full)


@dataclass(frozen=True, eq=False)
class TextTitles:
    """The titles of documents that are longer than a passage, for finding one in a question.

    Attributes:
        forms: Their normal forms.
    """

    forms: frozenset[str]

    @lazy
    def first_words(self) -> frozenset[str]:
        """The first word of each."""
        return frozenset(one for form in self.forms for one in _WORD.findall(form)[:1])

    def find(self, text: str) -> tuple[int, int] | None:
        """Return the span of the longest title of at most 8 words in a text, or None.

        The first of equally long titles counts.
        """
        if not self.forms:
            return None
        words = [match.span() for match in _WORD.finditer(text)]
        may_begin = self._may_begin(text, words)
        for length in range(min(_MAX_WORDS, len(words)), 0, -1):
            for first in range(len(words) - length + 1):
                if may_begin[first]:
                    start, end = words[first][0], words[first + length - 1][1]
                    if normal_form(text[start:end]) in self.forms:
                        return start, end
        return None

    def _may_begin(self, text: str, words: Sequence[tuple[int, int]]) -> list[bool]:
        """Return whether a title may begin with each word.

        The normal form of a plain text begins with its first word that is not an article. Computing
        one for each of all parts takes longer than ranking.
        """
        if not _PLAIN.fullmatch(text):
            return [True] * len(words)
        found: list[bool] = []
        for start, end in reversed(words):
            word = text[start:end].casefold()
            follows = bool(found) and found[-1]
            found.append(word in self.first_words or (word in ARTICLES and follows))
        return found[::-1]


class TitleForms:
    """The entities that titles name, each computed once.

    Args:
        edits: The user's entity edits.
    """

    def __init__(self, edits: EntityEdits) -> None:
        self._edits = edits
        self._entities: dict[str, str] = {}
        self._subjects: dict[str, bool] = {}

    def __len__(self) -> int:
        """Return the number of titles."""
        return len(self._entities)

    def entity(self, title: str) -> str:
        """Return the entity that a title names; see `title_entity`."""
        entity = self._entities.get(title)
        if entity is None:
            entity = self._entities[title] = title_entity(title, self._edits)
        return entity

    def resolve(self, entity: str) -> str:
        """Return the entity that another one means after the edits."""
        return self._edits.resolve(entity)

    def is_subject(self, title: str) -> bool:
        """Return whether a title may name the subject of its document."""
        is_subject = self._subjects.get(title)
        if is_subject is None:
            is_subject = bool(title_form(title)) and not is_junk_title(title)
            self._subjects[title] = is_subject
        return is_subject


def _without_trailing_parentheses(title: str) -> str:
    """Remove parentheses at the end, but not the entire title; single spaces separate the words."""
    positions = [match.start() for match in _PARENTHESIS.finditer(title)]
    end = len(title)
    while len(positions) > 1:
        closing, opening = positions.pop(), positions.pop()
        if closing != end - 1 or title[closing] not in ")）" or title[opening] not in "(（":
            break
        shorter = opening - 1 if title[opening - 1 : opening] == " " else opening
        if not shorter:
            break
        end = shorter
    return title[:end]


def with_title(title: str | None, text: str) -> str:
    """Return a text with its document's title prepended, as BM25 indexes it."""
    title = (title or "").strip()
    return f"{title}. {text}" if title else text


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
    entity_of = cache(lambda heading: title_entity(section_name(heading), edits))
    named = ((entity_of(section.name), section) for section in sections)
    return [(entity, section) for entity, section in named if entity]
