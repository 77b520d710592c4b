"""Browsing the entities of an index: their counts, and the evidence for one of them.

Under a filter, only chunks that match it count. The title of a document counts for all its chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.display import HtmlFields, block, heading, muted, table
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import (
    check_int,
    check_name,
    check_text,
    short_repr,
)
from e2graphrag_integrations.entities.entity_types import OTHER, PERSON, PLACE
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.errors import InvalidInputError, UnknownEntityError
from e2graphrag_integrations.graph.entity_graph import row_entries
from e2graphrag_integrations.graph.visible_graph import VisibleGraph
from e2graphrag_integrations.retrieval.entities.entity_editing import (
    NAMES_HINT,
    names_meant,
    suggestion,
)
from e2graphrag_integrations.retrieval.entities.sentence_text import sentence_span
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.retrieval.strategy import NodeFilter
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.broken_words import on_one_line
from e2graphrag_integrations.text.letters import simplified
from e2graphrag_integrations.text.sentences import sentence_spans

TypesArgument = str | Iterable[str]
"""A type of entities, or several."""

_BATCH = 500
"""Maximum number of chunks whose mentions are read at once."""


@dataclass(frozen=True, slots=True)
class EntityInfo(HtmlFields):
    """An entity and how often it occurs.

    Attributes:
        name: The normal form of its name.
        named: Whether at least one mention is a proper name.
        mentions: Number of mentions in all chunks. The overlap of two chunks counts twice.
        chunks: Number of chunks that mention it.
        documents: Number of documents that mention it or have it as their subject.
        degree: Number of entities that share a sentence with it.
        aliases: The user's aliases of it, as written.
        type: `person`, `place`, `organization`, `work`, `product`, `other` or `noun`, or a type of
            the extractor or of the user's `EntityRules`. It is that of most mentions.
    """

    name: str
    named: bool
    mentions: int
    chunks: int
    documents: int
    degree: int
    aliases: tuple[str, ...] = ()
    type: str = OTHER


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A place where a text mentions an entity.

    Attributes:
        document_id: The document.
        node_id: The chunk.
        start, end: Span of the mention in the document.
        text: The mention as written.
        sentence_start, sentence_end: Span of the sentence around it in the document, as far as it
            lies in the chunk.
        sentence: The text of that span.
    """

    document_id: str
    node_id: str
    start: int
    end: int
    text: str
    sentence_start: int
    sentence_end: int
    sentence: str


@dataclass(frozen=True, slots=True)
class EntityNeighbor:
    """An entity that shares sentences with another one.

    Attributes:
        name: The normal form of its name.
        weight: `1 / distinct entities in the sentence`, summed over the shared sentences.
        type: Its type; see `EntityInfo`.
    """

    name: str
    weight: float
    type: str = OTHER


@dataclass(frozen=True, slots=True)
class EntityDetails:
    """An entity with its evidence.

    Attributes:
        info: Its name and counts.
        mentions: Its first mentions, in the order of documents and spans, each once.
        neighbors: Its heaviest neighbors.
        documents: Ids of the documents that mention it or have it as their subject.
        subject_of: Ids of the documents that are about it.
    """

    info: EntityInfo
    mentions: tuple[EntityMention, ...]
    neighbors: tuple[EntityNeighbor, ...]
    documents: tuple[str, ...]
    subject_of: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the details as JSON values."""
        return asdict(self)

    def _repr_html_(self) -> str:
        info = self.info
        counts = [
            f"{count:,} {unit}{'' if count == 1 else 's'}"
            for count, unit in (
                (info.mentions, "mention"),
                (info.chunks, "chunk"),
                (info.documents, "document"),
            )
        ]
        mentions = [
            (one.document_id, f"{one.start}-{one.end}", on_one_line(one.sentence))
            for one in self.mentions
        ]
        neighbors = [(one.name, one.weight) for one in self.neighbors]
        return block(
            heading(info.name),
            muted(", ".join([info.type, *counts])),
            table(("document", "span", "sentence"), mentions),
            table(("neighbor", "weight"), neighbors),
        )


def list_entities(
    snapshot: Snapshot,
    where: NodeFilter | None,
    prefix: str = "",
    top: int | None = None,
    types: TypesArgument | None = None,
) -> list[EntityInfo]:
    """Return entities, most mentioned first; see `E2GraphRAG.entities`.

    Raises:
        InvalidInputError: If an argument is invalid.
    """
    top = None if top is None else check_int("top", top)
    view = EntityView(snapshot, where)
    return view.infos(view.ranked_rows(prefix, types)[:top])


def describe_entity(
    snapshot: Snapshot,
    source: NodeSource,
    where: NodeFilter | None,
    name: str,
    top: int | None = 100,
) -> EntityDetails:
    """Return an entity with its evidence; see `E2GraphRAG.entity`.

    Raises:
        InvalidInputError: If an argument is invalid.
        UnknownEntityError: If there is no such entity in the chunks that match the filter.
        StaleSnapshotError: If the stored nodes are newer than the snapshot.
    """
    top = None if top is None else check_int("top", top)
    view = EntityView(snapshot, where)
    entity = view.find(check_name("entity", name))
    [info] = view.infos(np.asarray([entity]))
    weights = view.weights(np.asarray([entity]))
    order = np.argsort(-weights.data, kind="stable")[:top]
    neighbors, names = weights.indices[order], snapshot.subjects.names
    columns = (weights.data[order].tolist(), snapshot.entity_types.of_rows(neighbors))
    ids = snapshot.documents
    return EntityDetails(
        info,
        tuple(_mentions(view, NodeReader(snapshot, source), entity, top)),
        tuple(
            EntityNeighbor(names[row], round(weight, 6), type_)
            for row, weight, type_ in zip(neighbors.tolist(), *columns, strict=True)
        ),
        tuple(ids[row] for row in view.documents_of(entity)),
        tuple(ids[row] for row in view.subject_of(entity)),
    )


def entity_name(snapshot: Snapshot, name: str) -> str:
    """Return the normal form of the entity that a name or an alias means.

    Raises:
        InvalidInputError: If the name is not a string, or is blank.
        UnknownEntityError: If there is no such entity.
    """
    view = EntityView(snapshot, None)
    return view.subjects.names[view.find(check_name("entity", name))]


def checked_types(types: TypesArgument) -> tuple[str, ...]:
    """Return the types in an argument.

    Raises:
        InvalidInputError: If there are none, or one is not a non-empty string.
    """
    given = (types,) if isinstance(types, str) else types
    if not isinstance(given, Iterable) or isinstance(given, bytes | Mapping):
        raise InvalidInputError(
            f"types={short_repr(types)} must be types, such as {PERSON!r} or {[PERSON, PLACE]!r}"
        )
    checked = tuple(check_name("a type in types", one) for one in given)
    if not checked:
        raise InvalidInputError("types is empty: name a type, or pass None for all")
    return checked


class EntityView:
    """The entities of a snapshot, counted in the chunks that match a filter."""

    def __init__(self, snapshot: Snapshot, where: NodeFilter | None) -> None:
        self.snapshot = snapshot
        self.subjects = snapshot.subjects
        allowed = None if where is None else where(snapshot)
        self.allowed = None if allowed is None else allowed[snapshot.chunk_nodes]
        self._visible_graph = VisibleGraph(snapshot.graph, lambda: snapshot.sentences, self.allowed)

    @lazy
    def _postings(self) -> tuple[IntArray, IntArray, IntArray]:
        """The entity, the chunk and the mention count of each visible posting."""
        postings = self.snapshot.graph.postings
        entities = np.repeat(np.arange(postings.shape[0]), np.diff(postings.indptr))
        chunks, counts = postings.indices, postings.data
        if self.allowed is not None:
            kept = self.allowed[chunks]
            entities, chunks, counts = entities[kept], chunks[kept], counts[kept]
        return entities, chunks, counts

    @lazy
    def mentions(self) -> IntArray:
        """The number of mentions of each entity."""
        entities, _, counts = self._postings
        sums = np.bincount(entities, weights=counts, minlength=len(self.subjects.names))
        return sums.astype(np.int64)

    @lazy
    def _has_visible_subject(self) -> NDArray[np.bool_]:
        """Whether the name of the subject of each document is visible.

        Titles and files belong to all chunks of a document, other names to the first one.
        """
        owners = self.snapshot.chunk_documents
        visible = np.zeros(len(self.snapshot.documents), dtype=np.bool_)
        if self.allowed is None:
            return ~visible
        visible[owners[self.allowed]] = True
        for row in np.flatnonzero(visible).tolist():
            source = self.subjects.choice.of_documents[row].source
            if source in {"heading", "definition"}:
                visible[row] = self.allowed[np.searchsorted(owners, row)]
        return visible

    @lazy
    def is_visible(self) -> NDArray[np.bool_]:
        """Whether a visible chunk mentions each entity, or has it as its subject."""
        visible: NDArray[np.bool_] = self.mentions > 0
        about = self._has_visible_subject[self.subjects.documents_of_entities]
        visible[self.subjects.entities[about]] = True
        for form, section in self.subjects.choice.sections:
            if self.allowed is None or self.allowed[section.first]:
                visible[self.subjects.index[form]] = True
        return visible

    def ranked_rows(self, prefix: str, types: TypesArgument | None = None) -> IntArray:
        """Return the visible entities whose name or alias starts with a prefix.

        The most mentioned ones come first.

        Args:
            prefix: The prefix.
            types: The types of the entities; None means all.

        Raises:
            InvalidInputError: If the prefix is not a string, or a type is none.
        """
        start = normal_form(check_text("prefix", prefix))
        rows = self._rows_with_prefix(start)
        if not len(rows):
            rows = self._rows_with_prefix(simplified(start))
        rows = rows[self.is_visible[rows]]
        if types is not None:
            rows = rows[self.snapshot.entity_types.are(checked_types(types))[rows]]
        return rows[np.argsort(-self.mentions[rows], kind="stable")]  # names are sorted

    def _rows_with_prefix(self, prefix: str) -> IntArray:
        """Return the entities of which the name or an alias starts with a prefix, by name."""
        edits, names = self.snapshot.edits, self.subjects.names
        found = {row: name for row, name in enumerate(names) if name.startswith(prefix)}
        for form in edits.alias_forms if prefix else ():
            row = self.subjects.index.get(edits.resolve(form))
            if row is not None and form.startswith(prefix):
                found[row] = names[row]
        by_name = sorted(found, key=found.__getitem__)
        return np.asarray(by_name, dtype=np.int64)

    def find(self, name: str) -> int:
        """Return the visible entity that a name means.

        Raises:
            UnknownEntityError: If there is none.
        """
        edits = self.snapshot.edits
        form = edits.entity_of(name)
        index = self.subjects.index
        row = index[form] if form in index else index.get(edits.resolve(simplified(form)))
        if row is not None and self.is_visible[row]:
            return row
        if self.allowed is not None:
            raise UnknownEntityError(
                f"no entity {name!r} in the documents that match the filter", name=name
            )
        if not form and normal_form(name):
            raise UnknownEntityError(
                f"{name!r} is stopped: undo the edit to see the entity", name=name, is_stopped=True
            )
        meant = names_meant(name, self.snapshot)
        raise UnknownEntityError(
            f"no entity {name!r} in the index{suggestion(meant)}",
            NAMES_HINT,
            name=name,
            meant=meant,
        )

    def infos(self, rows: IntArray) -> list[EntityInfo]:
        """Return entities with their counts."""
        names = self.subjects.names
        in_graph = rows < len(self.snapshot.graph.names)
        chunks = np.bincount(self._postings[0], minlength=len(names))
        degrees = np.zeros(len(rows), dtype=np.int64)
        degrees[in_graph] = self._degrees(rows[in_graph])
        documents = self._count_documents(rows)
        named = np.ones(len(rows), dtype=np.bool_)  # the subjects of documents are names
        named[in_graph] = self.snapshot.graph.named[rows[in_graph]]
        return [
            EntityInfo(
                names[row],
                is_named,
                mentions,
                count,
                n_documents,
                degree,
                self.aliases(row),
                type_,
            )
            for row, is_named, mentions, count, n_documents, degree, type_ in zip(
                rows.tolist(),
                named.tolist(),
                self.mentions[rows].tolist(),
                chunks[rows].tolist(),
                documents.tolist(),
                degrees.tolist(),
                self.snapshot.entity_types.of_rows(rows),
                strict=True,
            )
        ]

    def aliases(self, entity: int) -> tuple[str, ...]:
        """Return the user's aliases of an entity; under a filter, none.

        An alias may be a name that only other documents mention.
        """
        if self.allowed is not None:
            return ()
        return self.snapshot.edits.aliases_of(self.subjects.names[entity])

    def weights(self, rows: IntArray) -> Any:
        """Return the weights of the visible edges of entities, as a sparse matrix."""
        graph = self.snapshot.graph
        in_graph = rows[rows < len(graph.names)]
        return (
            graph.edges[in_graph] if self.allowed is None else self._visible_graph.weights(in_graph)
        )

    def _degrees(self, rows: IntArray) -> IntArray:
        if self.allowed is None:
            bounds = self.snapshot.graph.edges.indptr
            return np.asarray(bounds[rows + 1] - bounds[rows])
        return np.asarray(np.diff(self.weights(rows).indptr))

    def _count_documents(self, rows: IntArray) -> IntArray:
        """Return the number of visible documents of each entity."""
        size = len(self.subjects.names)
        wanted = np.zeros(size, dtype=np.bool_)
        wanted[rows] = True
        entities, chunks, _ = self._postings
        kept = wanted[entities]
        owners = self.snapshot.chunk_documents[chunks[kept]]
        about = self.subjects.documents_of_entities
        own = wanted[self.subjects.entities] & self._has_visible_subject[about]
        pairs = np.concatenate(
            [
                entities[kept] * len(self.snapshot.documents) + owners,
                self.subjects.entities[own] * len(self.snapshot.documents) + about[own],
            ]
        )
        owned = np.unique(pairs) // max(1, len(self.snapshot.documents))
        return np.bincount(owned, minlength=size)[rows]

    def chunks_of(self, entity: int) -> IntArray:
        """Return the visible chunks that mention an entity."""
        if entity >= len(self.snapshot.graph.names):
            return np.empty(0, dtype=np.int64)
        chunks, _ = row_entries(self.snapshot.graph.postings, entity)
        return chunks if self.allowed is None else chunks[self.allowed[chunks]]

    def subject_of(self, entity: int) -> list[int]:
        """Return the visible documents that are about an entity."""
        documents = self.subjects.documents.get(entity, [])
        return [row for row in dict.fromkeys(documents) if self._has_visible_subject[row]]

    def documents_of(self, entity: int) -> list[int]:
        """Return the visible documents that mention an entity or are about it, ascending."""
        mentioning = self.snapshot.chunk_documents[self.chunks_of(entity)].tolist()
        return sorted({*mentioning, *self.subject_of(entity)})


def _mentions(
    view: EntityView, reader: NodeReader, entity: int, top: int | None
) -> Sequence[EntityMention]:
    """Return the first mentions of an entity, each once, although chunks may overlap."""
    found: dict[tuple[str, int, int], EntityMention] = {}
    rows = view.snapshot.chunk_nodes[view.chunks_of(entity)].tolist()
    batch = _BATCH if top is None else min(_BATCH, top)  # each chunk has at least one mention
    for first in range(0, len(rows), batch):
        for one in _mentions_in(rows[first : first + batch], view, reader, entity):
            if len(found) == top:
                return [*found.values()]
            found.setdefault((one.document_id, one.start, one.end), one)
    return [*found.values()]


def _mentions_in(
    rows: Sequence[int], view: EntityView, reader: NodeReader, entity: int
) -> Iterator[EntityMention]:
    name, edits = view.subjects.names[entity], view.snapshot.edits
    for node, sentences in zip(reader.read(rows), reader.read_mentions(rows), strict=True):
        spans = sentence_spans(node.text)
        for mention in (m for s in split_subjects(sentences)[1] for m in s):
            if edits.entity_of(mention.entity) != name:
                continue
            around = sentence_span(spans, [mention])
            yield EntityMention(
                node.document_id,
                node.id,
                node.start + mention.start,
                node.start + mention.end,
                node.text[mention.start : mention.end],
                node.start + around.start,
                node.start + around.end,
                node.text[around.start : around.end],
            )
