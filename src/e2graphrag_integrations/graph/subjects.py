"""The subjects of documents: the names that each document is about, and the documents about a name.

A title names the subject of its document. Without a title, the heading in the first line does, the
file name, or the names that the first sentence defines. These are rules that fit some corpora and
not others, so each is used only where the corpus supports it (`choose_subjects`). The heading of a
section is a further subject of its chunks, with less weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.strings import ExtendedIndex, StringArray, find_rows
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.metadata_names import NamesInMetadata
from e2graphrag_integrations.graph.titles import (
    MIN_DEFINITIONS,
    Section,
    SubjectTable,
    TitleForms,
    are_entries,
    named_sections,
    sections_in_texts,
)
from e2graphrag_integrations.text.letters import simplified

SubjectSource = Literal["title", "metadata", "heading", "file", "definition", "section"]
"""Where a subject comes from: the title, a title in the metadata, the heading in the first line,
the file name, the names that the first sentence defines, or the heading of a section."""

_MIN_TEXT = 5
"""Minimum number of chunks of a document that a question can be about as a whole. The title of a
shorter one names a passage."""

_MIN_HEADINGS_NAMED = 0.05
"""Minimum share of headings that other documents mention by name. Below it, first lines are not
titles: in chat logs they are dates, in transcripts speakers. A heading that another document
mentions is used in any case."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a document is about.

    Attributes:
        names: Its names as written, main name first; empty if it is unknown.
        source: Where the names come from; None if there are none.
    """

    names: tuple[str, ...] = ()
    source: SubjectSource | None = None


@dataclass(frozen=True, eq=False)
class SubjectChoice:
    """The subjects of documents and sections.

    Attributes:
        of_documents: The subject of each document.
        sections: The sections whose headings count, with the normal form of the heading.
        trusted: The sources that the corpus supports, so that all their names are used.
    """

    of_documents: Sequence[Subject]
    sections: Sequence[tuple[str, Section]] = ()
    trusted: frozenset[SubjectSource] = frozenset()


def choose_subjects(
    graph: EntityGraph,
    titles: Sequence[str | None],
    candidates: SubjectTable,
    chunk_documents: IntArray,
    metadata: NamesInMetadata | None = None,
    *,
    edits: EntityEdits = NO_EDITS,
    forms: TitleForms | None = None,
) -> SubjectChoice:
    """Return the subject of each document, and the sections whose headings count.

    The first of these sources that applies is used: the title, a title in the metadata, the heading
    in the first line, the file name, and the defined names. A heading or file name is used if other
    documents mention it by name, or if they mention at least 5 % of all of its kind. Defined names
    are used if at least half of all documents begin with a definition, and the headings of sections
    if at least half of all sections do.

    Args:
        graph: The entity graph.
        titles: The title of each document.
        candidates: The candidates of all chunks. A candidate that is not a heading counts only in
            the first chunk of its document.
        chunk_documents: The document of each chunk, ascending.
        metadata: The names in the metadata.
        edits: The user's entity edits.
        forms: Entities of titles that are already known.
    """
    forms = TitleForms(edits) if forms is None else forms
    metadata = metadata or NamesInMetadata([None] * len(titles), [None] * len(titles))
    known: list[Subject] = [
        _titled(title, other, forms) for title, other in zip(titles, metadata.titles, strict=True)
    ]
    headings, definitions = _first_candidates(candidates, chunk_documents, len(titles))
    files = {document: name for document, name in enumerate(metadata.files) if name}
    trusted: set[SubjectSource] = set()
    if definitions and len(definitions) >= MIN_DEFINITIONS * len(titles):
        trusted.add("definition")
    lower: list[tuple[SubjectSource, dict[int, str]]] = [("heading", headings), ("file", files)]
    for source, names in lower:
        unknown = {d: name for d, name in names.items() if not known[d].names}
        entities = _entities_of(unknown.values(), graph, forms)
        is_mentioned = {
            document: _is_mentioned(entities[name][1], document, graph, chunk_documents)
            for document, name in unknown.items()
        }
        if unknown and sum(is_mentioned.values()) >= _MIN_HEADINGS_NAMED * len(unknown):
            trusted.add(source)
        for document, name in unknown.items():
            if source in trusted or is_mentioned[document]:
                known[document] = Subject((name,), source)
    if "definition" in trusted:
        for document, defined in definitions.items():
            if not known[document].names:
                known[document] = Subject(tuple(defined), "definition")
    sections = named_sections(metadata.titled, edits)
    headings_of_sections = [*metadata.sections, *sections_in_texts(candidates, chunk_documents)]
    defining_chunks = set(candidates.chunks[candidates.is_definition].tolist())
    if are_entries(headings_of_sections, defining_chunks):
        sections += named_sections(headings_of_sections, edits)
        trusted.add("section")
    return SubjectChoice(known, sections, frozenset(trusted))


def _titled(title: str | None, in_metadata: str | None, forms: TitleForms) -> Subject:
    sources: tuple[tuple[str | None, SubjectSource], ...] = (
        (title, "title"),
        (in_metadata, "metadata"),
    )
    for name, source in sources:
        if name and forms.is_subject(name):
            return Subject((name,), source)
    return Subject()


def _first_candidates(
    candidates: SubjectTable, chunk_documents: IntArray, documents: int
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Return the heading and the defined names in the first chunk of each document."""
    first_chunks = np.searchsorted(chunk_documents, np.arange(documents))
    headings: dict[int, str] = {}
    definitions: dict[int, list[str]] = {}
    owners = chunk_documents[candidates.chunks]
    is_first = (candidates.chunks == first_chunks[owners]) & (candidates.levels <= 0)
    is_heading = candidates.is_first_line
    for row in np.flatnonzero(is_first).tolist():
        document, name = int(owners[row]), candidates.names[row]
        if is_heading[row]:
            headings.setdefault(document, name)
        else:
            definitions.setdefault(document, []).append(name)
    return headings, definitions


def _entities_of(
    names: Iterable[str], graph: EntityGraph, forms: TitleForms
) -> dict[str, tuple[str, int]]:
    """Return the entity that each name means, and its row in the graph; -1 if it has none.

    The extractor for Chinese writes names in simplified characters. If the graph contains only such
    an entity, the name means that.
    """
    distinct = list(dict.fromkeys(names))
    entities = [forms.entity(name) for name in distinct]
    rows = find_rows(graph.index, entities).tolist()
    for place, (entity, row) in enumerate(zip(entities, rows, strict=True)):
        if row < 0 and (other := simplified(entity)) != entity and other in graph.index:
            entities[place] = forms.resolve(other)
            rows[place] = graph.index.get(entities[place], -1)
    return dict(zip(distinct, zip(entities, rows, strict=True), strict=True))


def _is_mentioned(
    entity: int, document: int, graph: EntityGraph, chunk_documents: IntArray
) -> bool:
    """Return whether another document mentions an entity by name."""
    if entity < 0 or not graph.named[entity]:
        return False
    chunks, _ = graph.chunks(entity)
    return bool((chunk_documents[chunks] != document).any())


def _joined(names: Sequence[str], others: Sequence[str]) -> Sequence[str]:
    """Return all names, without decoding those that are stored in an array."""
    if isinstance(names, StringArray):
        return StringArray.joined([names, StringArray.of(others)])
    return [*names, *others]


@dataclass(frozen=True, eq=False)
class Subjects:
    """The subjects of all documents and sections, as entities.

    Attributes:
        names: Normal forms: first the graph's, in its order, then those of subjects that no text
            mentions.
        entities, documents_of_entities: The row in `names` and the document of each name of a
            subject, ordered by document.
        section_entities, section_chunks: Each chunk in a section, and the entity that the heading
            of the section names, ordered by chunk and entity.
        choice: Where the subjects come from.
        index: The row of each normal form.
    """

    names: Sequence[str]
    entities: IntArray
    documents_of_entities: IntArray
    section_entities: IntArray
    section_chunks: IntArray
    choice: SubjectChoice
    index: Mapping[str, int]

    @classmethod
    def from_choice(
        cls,
        graph: EntityGraph,
        choice: SubjectChoice,
        edits: EntityEdits = NO_EDITS,
        forms: TitleForms | None = None,
    ) -> Self:
        """Combine the graph's entities with the subjects of documents and sections."""
        forms = TitleForms(edits) if forms is None else forms
        all_names = chain.from_iterable(subject.names for subject in choice.of_documents)
        known = _entities_of(all_names, graph, forms)
        of_sections = list(dict.fromkeys(form for form, _ in choice.sections))
        rows = dict(zip(of_sections, find_rows(graph.index, of_sections).tolist(), strict=True))
        rows = {entity: row for entity, row in known.values() if entity} | rows
        new = [entity for entity, row in rows.items() if row < 0]
        rows |= {entity: row for row, entity in enumerate(new, len(graph.names))}
        of_documents = [
            list(dict.fromkeys(rows[known[name][0]] for name in subject.names if known[name][0]))
            for subject in choice.of_documents
        ]
        pairs = {
            (chunk, rows[form])
            for form, section in choice.sections
            for chunk in range(section.first, section.end)
        }
        in_sections = np.asarray(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        columns = (
            np.asarray([*chain.from_iterable(of_documents)], dtype=np.int64),
            np.repeat(np.arange(len(of_documents)), [len(some) for some in of_documents]),
            np.ascontiguousarray(in_sections[:, 1]),
            np.ascontiguousarray(in_sections[:, 0]),
        )
        return cls.of(graph, new, columns, choice)

    @classmethod
    def of(
        cls,
        graph: EntityGraph,
        new: Sequence[str],
        columns: Sequence[IntArray],
        choice: SubjectChoice,
    ) -> Self:
        """Return the subjects with these attributes.

        Args:
            graph: The entity graph.
            new: The names that are not in the graph.
            columns: The attributes `entities` to `section_chunks`.
            choice: Where the subjects come from.
        """
        entities, documents, section_entities, section_chunks = columns
        return cls(
            _joined(graph.names, new),
            entities,
            documents,
            section_entities,
            section_chunks,
            choice,
            ExtendedIndex(graph.index, new),
        )

    def names_of(self, document: int) -> IntArray:
        """Return the rows of the names of a document's subject."""
        first, end = np.searchsorted(self.documents_of_entities, [document, document + 1])
        return self.entities[first:end]

    def sections_of(self, chunk: int) -> IntArray:
        """Return the rows of the entities that the headings above a chunk name, ascending."""
        first, end = np.searchsorted(self.section_chunks, [chunk, chunk + 1])
        return self.section_entities[first:end]

    def source_of(self, entity: int) -> SubjectSource | None:
        """Return where an entity comes from as a subject, or None if it is no subject."""
        if entity in self.documents:
            return self.choice.of_documents[self.documents[entity][0]].source
        return "section" if entity in self.sections else None

    @lazy
    def can_link(self) -> bool:
        """Whether a title link can exist: between two documents, or between two sections."""
        has_documents = len(self.choice.of_documents) > 1 and len(self.entities) > 0
        return has_documents or len(self.section_entities) > 0

    @lazy
    def subject_index(self) -> dict[str, int]:
        """The row of each normal form that names the subject of a document or section."""
        rows = np.union1d(self.entities, self.section_entities)
        return {self.names[row]: row for row in rows.tolist()}

    def of_texts(self, chunk_documents: IntArray) -> frozenset[str]:
        """Return the names of subjects of documents that are longer than a passage.

        Args:
            chunk_documents: The document of each chunk, shape (chunks,).
        """
        sizes = np.bincount(chunk_documents, minlength=len(self.choice.of_documents))
        rows = self.entities[sizes[self.documents_of_entities] >= _MIN_TEXT]
        return frozenset(self.names[row] for row in np.unique(rows).tolist())

    @lazy
    def is_subject(self) -> NDArray[np.bool_]:
        """Whether each entity names the subject of a document or section, shape (entities,)."""
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[self.entities] = True
        mask[self.section_entities] = True
        return mask

    @lazy
    def documents(self) -> dict[int, list[int]]:
        """For each entity that names a subject, the documents about it, ascending."""
        documents: dict[int, list[int]] = {}
        pairs = zip(self.entities.tolist(), self.documents_of_entities.tolist(), strict=True)
        for entity, document in pairs:
            documents.setdefault(entity, []).append(document)
        return documents

    @lazy
    def sections(self) -> dict[int, list[Section]]:
        """For each entity that the headings of sections name, the sections, ascending."""
        sections: dict[int, list[Section]] = {}
        for form, section in sorted(self.choice.sections, key=lambda one: one[1].first):
            sections.setdefault(self.index[form], []).append(section)
        return sections
