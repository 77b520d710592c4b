"""The subjects of documents: the names that each document is about, and the documents about a name.

A title names the subject of its document. Without a title, the heading in the first line does, or
the names that the first sentence defines. Both are rules that fit some corpora and not others, so
each is used only where the corpus supports it (`choose_subjects`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.titles import title_form
from e2graphrag_integrations.types import HEADING, Mention

SubjectSource = Literal["title", "heading", "definition"]
"""Where a subject comes from."""

_MIN_HEADINGS_NAMED = 0.05
"""Minimum share of headings that other documents mention by name. Below it, first lines are not
titles: in chat logs they are dates, in transcripts speakers. A heading that another document
mentions is used in any case."""

_MIN_DEFINITIONS = 0.5
"""Minimum share of documents that begin with a definition. It is 91 % in an encyclopedia, and a
third or less in news, chats, transcripts and novels."""


@dataclass(frozen=True, eq=False)
class SubjectTable:
    """The candidates for the subject of each chunk, ordered by chunk.

    Attributes:
        chunks: The chunk of each candidate.
        is_heading: Whether it is a heading; otherwise, it is a defined name.
        names: The candidate as written.
    """

    chunks: IntArray
    is_heading: NDArray[np.bool_]
    names: Sequence[str]

    @classmethod
    def empty(cls) -> Self:
        """Return a table without candidates."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), ())


class SubjectTableBuilder:
    """Collects candidates chunk by chunk."""

    def __init__(self) -> None:
        self._chunks: list[int] = []
        self._is_heading: list[bool] = []
        self._names: list[str] = []

    def add(self, chunk: int, candidates: Sequence[Mention]) -> None:
        """Add the candidates of a chunk; chunks must be ascending."""
        for candidate in candidates:
            self._chunks.append(chunk)
            self._is_heading.append(candidate.label == HEADING)
            self._names.append(candidate.entity)

    def table(self) -> SubjectTable:
        """Return the table."""
        return SubjectTable(
            np.asarray(self._chunks, dtype=np.int64),
            np.asarray(self._is_heading, dtype=np.bool_),
            self._names,
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """What a document is about.

    Attributes:
        names: Its names as written, main name first; empty if it is unknown.
        source: Where the names come from; None if there are none.
    """

    names: tuple[str, ...] = ()
    source: SubjectSource | None = None


def choose_subjects(
    graph: EntityGraph,
    titles: Sequence[str | None],
    candidates: SubjectTable,
    chunk_documents: IntArray,
) -> list[Subject]:
    """Return the subject of each document.

    The title comes first, then the heading in the first line, then the defined names. A heading is
    used if other documents mention it by name, or if they mention at least 5 % of all headings.
    Defined names are used if at least half of all documents begin with a definition.

    Args:
        graph: The entity graph.
        titles: The title of each document.
        candidates: The candidates of all chunks. Only those of a document's first chunk count.
        chunk_documents: The document of each chunk, ascending.
    """
    headings, definitions = _first_candidates(candidates, chunk_documents, len(titles))
    is_mentioned = {
        document: _is_mentioned(title_form(heading), document, graph, chunk_documents)
        for document, heading in headings.items()
        if not titles[document]
    }
    trusts_headings = sum(is_mentioned.values()) >= _MIN_HEADINGS_NAMED * len(is_mentioned)
    trusts_definitions = len(definitions) >= _MIN_DEFINITIONS * len(titles)
    subjects = []
    for document, title in enumerate(titles):
        if title_form(title):
            subjects.append(Subject((title or "",), "title"))
        elif document in headings and (trusts_headings or is_mentioned[document]):
            subjects.append(Subject((headings[document],), "heading"))
        elif document in definitions and trusts_definitions:
            subjects.append(Subject(tuple(definitions[document]), "definition"))
        else:
            subjects.append(Subject())
    return subjects


def _first_candidates(
    candidates: SubjectTable, chunk_documents: IntArray, documents: int
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Return the heading and the defined names in the first chunk of each document."""
    first_chunks = np.searchsorted(chunk_documents, np.arange(documents))
    headings: dict[int, str] = {}
    definitions: dict[int, list[str]] = {}
    owners = chunk_documents[candidates.chunks]
    is_first = candidates.chunks == first_chunks[owners]
    for row in np.flatnonzero(is_first).tolist():
        document, name = int(owners[row]), candidates.names[row]
        if candidates.is_heading[row]:
            headings[document] = name
        else:
            definitions.setdefault(document, []).append(name)
    return headings, definitions


def _is_mentioned(form: str, document: int, graph: EntityGraph, chunk_documents: IntArray) -> bool:
    """Return whether another document mentions the name."""
    entity = graph.index.get(form)
    if entity is None or not graph.named[entity]:
        return False
    chunks, _ = graph.chunks(entity)
    return bool((chunk_documents[chunks] != document).any())


@dataclass(frozen=True, eq=False)
class Subjects:
    """The subjects of all documents, as entities.

    Attributes:
        names: Normal forms: first the graph's, in its order, then those of subjects that no text
            mentions.
        entities, documents_of_entities: The row in `names` and the document of each name of a
            subject, ordered by document.
        of_documents: The subject of each document.
    """

    names: Sequence[str]
    entities: IntArray
    documents_of_entities: IntArray
    of_documents: Sequence[Subject] = field(default=())

    @classmethod
    def from_subjects(cls, graph: EntityGraph, subjects: Sequence[Subject]) -> Self:
        """Combine the graph's entities with the subject of each document."""
        forms = [
            list(dict.fromkeys(form for name in subject.names if (form := title_form(name))))
            for subject in subjects
        ]
        new = dict.fromkeys(f for some in forms for f in some if f not in graph.index)
        rows = {form: len(graph.names) + number for number, form in enumerate(new)}
        entities = [graph.index.get(f, rows.get(f, -1)) for some in forms for f in some]
        return cls(
            [*graph.names, *new],
            np.asarray(entities, dtype=np.int64),
            np.repeat(np.arange(len(forms)), [len(some) for some in forms]),
            subjects,
        )

    def names_of(self, document: int) -> IntArray:
        """Return the rows of the names of a document's subject."""
        first, end = np.searchsorted(self.documents_of_entities, [document, document + 1])
        return self.entities[first:end]

    @lazy
    def index(self) -> dict[str, int]:
        """The row of each normal form."""
        return {name: row for row, name in enumerate(self.names)}

    @lazy
    def subject_index(self) -> dict[str, int]:
        """The row of each normal form that names the subject of a document."""
        return {self.names[row]: row for row in np.unique(self.entities).tolist()}

    @lazy
    def is_subject(self) -> NDArray[np.bool_]:
        """Whether each entity names the subject of a document, shape (entities,)."""
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[self.entities] = True
        return mask

    @lazy
    def documents(self) -> dict[int, list[int]]:
        """For each entity that names a subject, the documents about it, ascending."""
        documents: dict[int, list[int]] = {}
        pairs = zip(self.entities.tolist(), self.documents_of_entities.tolist(), strict=True)
        for entity, document in pairs:
            documents.setdefault(entity, []).append(document)
        return documents
