"""An index as a property graph: nodes with labels and properties, and relations between them.

Exports and graph stores use this description. It is read from a single snapshot, in batches.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import check_bool, check_int, short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.communities import MAX_SEED, MIN_ENTITIES, community_id
from e2graphrag_integrations.pages import merge_metadata
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store

DOCUMENT, CHUNK, SUMMARY, ENTITY, COMMUNITY = NODE_LABELS = (
    *("Document", "Chunk", "Summary", "Entity", "Community"),
)
"""Labels of the nodes."""

PART_OF, PARENT, MENTIONS, CO_OCCURS, IN_COMMUNITY, SUBJECT_OF = RELATION_LABELS = (
    *("PART_OF", "PARENT", "MENTIONS", "CO_OCCURS", "IN_COMMUNITY", "SUBJECT_OF"),
)
"""Labels of the relations: text to document, text or community to the one above it, chunk to
entity, entity to entity, entity to community, and entity to document."""

BATCH_SIZE = 500
"""Number of nodes whose texts are in memory at once."""

METADATA_PREFIX = "meta_"
"""Prefix of the properties that come from metadata."""

_TITLE_ENTITIES = 5
"""Number of entities in the title of a community."""

_DIGITS = 6
"""Decimals of a weight."""

_MAX_INTEGER = 1 << 63
"""Graph databases store integers in 64 bits."""

_NOT_PORTABLE = re.compile('[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff"]')
"""Characters that XML, CSV files or a graph store cannot represent in an id."""

_NOT_IN_TEXTS = re.compile("[\x00\ud800-\udfff]")
"""Characters that databases reject in a text."""

_NOT_IN_NAMES = re.compile(r"\W")

Value = str | int | float | bool


class GraphNode(NamedTuple):
    """A node of a property graph.

    Attributes:
        id: Unique id. Only that of an entity contains no uppercase letter before the first colon.
        label: One of `NODE_LABELS`.
        properties: Values by name.
    """

    id: str
    label: str
    properties: Mapping[str, Value]


class GraphRelation(NamedTuple):
    """A directed relation; there is at most one with the same label between two nodes.

    Attributes:
        label: One of `RELATION_LABELS`.
        source, target: Ids of nodes.
        value: The value of its property, or None if it has none.
    """

    label: str
    source: str
    target: str
    value: float | None = None

    @property
    def properties(self) -> dict[str, Value]:
        """The property by name: the count of a mention, or the weight of a co-occurrence."""
        return {} if self.value is None else {PROPERTY_OF_RELATION[self.label]: self.value}


PROPERTY_OF_RELATION = {MENTIONS: "count", CO_OCCURS: "weight"}
"""The name of the property of a relation, by its label."""


class RelationTable(NamedTuple):
    """All relations with one label, as columns.

    Attributes:
        label: The label.
        sources, targets: Numbers of nodes.
        values: Values of the property; None if the relations have none.
    """

    label: str
    sources: IntArray
    targets: IntArray
    values: NDArray[Any] | None = None

    def selected(self, rows: IntArray | slice, ids: Sequence[str]) -> Iterator[GraphRelation]:
        """Yield some of the relations."""
        sources, targets = self.sources[rows].tolist(), self.targets[rows].tolist()
        values = [None] * len(sources) if self.values is None else self.values[rows].tolist()
        for source, target, value in zip(sources, targets, values, strict=True):
            yield GraphRelation(self.label, ids[source], ids[target], value)


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """The contents of a property graph.

    Attributes:
        texts: Whether chunks and summaries have their text.
        communities: Whether to include the communities of the entities.
        min_weight: Minimum weight of a co-occurrence.
        seed: Seed of the detection of communities.

    Raises:
        InvalidInputError: If a value is invalid.
    """

    texts: bool = True
    communities: bool = True
    min_weight: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_bool("texts", self.texts)
        check_bool("communities", self.communities)
        check_int("seed", self.seed, 0, MAX_SEED)
        weight = self.min_weight
        if not isinstance(weight, int | float) or isinstance(weight, bool) or not weight >= 0:
            raise InvalidInputError(
                f"min_weight={short_repr(weight)} must be a number of at least 0"
            )


class _Community(NamedTuple):
    """A community: its id, level, members as rows of the graph, and number of the one above."""

    id: str
    level: int
    members: IntArray
    parent: int


class PropertyGraph:
    """The property graph of a snapshot.

    Nodes are numbered: first documents, then chunks and summaries, entities and communities. Equal
    indexes have equal graphs.

    Args:
        snapshot: The snapshot.
        source: The texts of its generation.
        options: The contents.
        name: Name of the index: its path or id.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        source: Store,
        options: GraphOptions,
        name: str,
    ) -> None:
        self.options = options
        self.name = name
        self._snapshot = snapshot
        self._source = source
        sizes = [
            *(len(snapshot.documents), len(snapshot.nodes.ids)),
            *(len(snapshot.subjects.names), len(self._communities)),
        ]
        self._texts, self._entities, self._first_community, self._end = exclusive_sums(sizes)[
            1:
        ].tolist()
        self._merged: tuple[tuple[int, ...], Mapping[str, Value]] = ((), {})

    def __len__(self) -> int:
        """Return the number of nodes."""
        return int(self._end)

    @lazy
    def ids(self) -> Sequence[str]:
        """The id of each node."""
        snapshot = self._snapshot
        labels = [CHUNK if level == 0 else SUMMARY for level in snapshot.nodes.level.tolist()]
        texts = (f"{label}:{id_}" for label, id_ in zip(labels, snapshot.nodes.ids, strict=True))
        return [
            *(_portable_id(f"{DOCUMENT}:{id_}") for id_ in snapshot.documents),
            *(_portable_id(id_) for id_ in texts),
            *(_portable_id(name) for name in snapshot.subjects.names),
            *(f"{COMMUNITY}:{community.id}" for community in self._communities),
        ]

    @lazy
    def numbers(self) -> Mapping[str, int]:
        """The number of each node by id."""
        return {id_: number for number, id_ in enumerate(self.ids)}

    @lazy
    def numbers_of_labels(self) -> Mapping[str, IntArray]:
        """The numbers of the nodes with each label, ascending."""
        is_chunk = self._snapshot.is_chunk
        return {
            DOCUMENT: np.arange(self._texts),
            CHUNK: self._texts + np.flatnonzero(is_chunk),
            SUMMARY: self._texts + np.flatnonzero(~is_chunk),
            ENTITY: np.arange(self._entities, self._first_community),
            COMMUNITY: np.arange(self._first_community, self._end),
        }

    def has_text(self, number: int) -> bool:
        """Return whether a node has a text."""
        return self.options.texts and self._texts <= number < self._entities

    def describe(self, number: int) -> tuple[str, dict[str, Value]]:
        """Return the label and the properties of a node, without its text."""
        if number < self._texts:
            return DOCUMENT, self._document(number)
        if number < self._entities:
            return self._text_node(number - self._texts)
        if number < self._first_community:
            return ENTITY, self._entity(number - self._entities)
        return COMMUNITY, self._community(number - self._first_community)

    def stamp(self, number: int) -> str:
        """Return a string that changes whenever the text of a chunk or a summary changes."""
        return self._snapshot.stamps[int(self._snapshot.nodes.document[number - self._texts])]

    def nodes(self, numbers: IntArray) -> Iterator[GraphNode]:
        """Yield nodes with their texts, which are read in batches.

        Raises:
            StaleSnapshotError: If the stored texts are newer than the snapshot.
        """
        for first in range(0, len(numbers), BATCH_SIZE):
            batch = numbers[first : first + BATCH_SIZE].tolist()
            texts = self.read_texts([number for number in batch if self.has_text(number)])
            for number in batch:
                label, properties = self.describe(number)
                if number in texts:
                    properties["text"] = texts[number]
                yield GraphNode(self.ids[number], label, properties)

    def read_texts(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return texts by the number of the node.

        Raises:
            StaleSnapshotError: If the stored texts are newer than the snapshot.
        """
        if not numbers:
            return {}
        snapshot = self._snapshot
        ids = [snapshot.nodes.ids[number - self._texts] for number in numbers]
        found = self._source.nodes_at(snapshot.generation, ids)
        return {
            number: _portable(found[id_].text) for number, id_ in zip(numbers, ids, strict=True)
        }

    @lazy
    def relations(self) -> Sequence[RelationTable]:
        """All relations, one table per label."""
        snapshot = self._snapshot
        graph, nodes, subjects = snapshot.graph, snapshot.nodes, snapshot.subjects
        has_parent = np.flatnonzero(nodes.parents >= 0)
        parents = [(row, one.parent) for row, one in enumerate(self._communities)]
        above = np.asarray(parents, dtype=np.int64).reshape(-1, 2)
        above = above[above[:, 1] >= 0] + self._first_community
        mentions = graph.postings.tocoo()
        by_chunk = np.lexsort((mentions.row, mentions.col))
        edges = graph.edges.tocoo()
        weights = np.round(edges.data.astype(np.float64), _DIGITS)
        upper = (edges.row < edges.col) & (weights >= self.options.min_weight)
        sizes = [len(one.members) for one in self._communities]
        members = [np.empty(0, dtype=np.int64), *(one.members for one in self._communities)]
        about = np.unique(
            np.stack([subjects.documents_of_entities, subjects.entities], axis=1), axis=0
        )
        return (
            RelationTable(PART_OF, self._texts + np.arange(len(nodes.ids)), nodes.document),
            RelationTable(
                PARENT,
                np.concatenate([self._texts + has_parent, above[:, 0]]),
                np.concatenate([self._texts + nodes.parents[has_parent], above[:, 1]]),
            ),
            RelationTable(
                MENTIONS,
                self._texts + snapshot.chunk_nodes[mentions.col[by_chunk]],
                self._entities + mentions.row[by_chunk].astype(np.int64),
                mentions.data[by_chunk],
            ),
            RelationTable(
                CO_OCCURS,
                self._entities + edges.row[upper].astype(np.int64),
                self._entities + edges.col[upper].astype(np.int64),
                weights[upper],
            ),
            RelationTable(
                IN_COMMUNITY,
                self._entities + np.concatenate(members),
                self._first_community + np.repeat(np.arange(len(sizes)), sizes),
            ),
            RelationTable(SUBJECT_OF, self._entities + about[:, 1], about[:, 0]),
        )

    @lazy
    def degrees(self) -> IntArray:
        """The number of relations of each node."""
        degrees = np.zeros(len(self), dtype=np.int64)
        for table in self.relations:
            degrees += np.bincount(table.sources, minlength=len(self))
            degrees += np.bincount(table.targets, minlength=len(self))
        return degrees

    @lazy
    def metadata_types(self) -> Mapping[str, type]:
        """The common type of each property that comes from metadata, ordered by name.

        Integers and floats together are floats; any other mixture of types is strings.
        """
        types: dict[str, type] = {}
        for row in range(len(self._snapshot.records.values)):
            for name, value in self._flat_metadata((row,)).items():
                known = types.setdefault(name, type(value))
                if known is not type(value):
                    types[name] = float if {known, type(value)} == {int, float} else str
        return dict(sorted(types.items()))

    def _document(self, row: int) -> dict[str, Value]:
        snapshot = self._snapshot
        first, end = np.searchsorted(snapshot.chunk_documents, [row, row + 1]).tolist()
        root = int(np.searchsorted(snapshot.nodes.document, row + 1)) - 1
        title = snapshot.titles[row]
        return {
            "document_id": _portable(snapshot.documents[row]),
            **({} if title is None else {"title": _portable(title)}),
            "language": snapshot.languages[row],
            "chunks": end - first,
            **({} if end == first else self._metadata(root)),
        }

    def _text_node(self, row: int) -> tuple[str, dict[str, Value]]:
        nodes = self._snapshot.nodes
        level = int(nodes.level[row])
        return CHUNK if level == 0 else SUMMARY, {
            "node_id": _portable(nodes.ids[row]),
            "document_id": _portable(self._snapshot.documents[int(nodes.document[row])]),
            "level": level,
            "position": int(nodes.position[row]),
            "start": int(nodes.start[row]),
            "end": int(nodes.end[row]),
            **self._metadata(row),
        }

    def _entity(self, row: int) -> dict[str, Value]:
        graph = self._snapshot.graph
        named, mentions, chunks, degree = True, 0, 0, 0  # of a subject that no text mentions
        if row < len(graph.names):
            named, mentions = bool(graph.named[row]), int(self._mention_counts[row])
            chunks = int(graph.postings.indptr[row + 1] - graph.postings.indptr[row])
            degree = int(graph.edges.indptr[row + 1] - graph.edges.indptr[row])
        return {
            "name": _portable(self._snapshot.subjects.names[row]),
            "named": named,
            "type": _portable(self._snapshot.entity_types.of_row(row)),
            "mentions": mentions,
            "chunks": chunks,
            "degree": degree,
        }

    def _community(self, number: int) -> dict[str, Value]:
        community, names = self._communities[number], self._snapshot.graph.names
        counts = self._mention_counts[community.members]
        top = community.members[np.argsort(-counts, kind="stable")[:_TITLE_ENTITIES]]
        return {
            "community_id": community.id,
            "title": _portable(", ".join(names[row] for row in top.tolist())),
            "level": community.level,
            "size": len(community.members),
        }

    @lazy
    def _mention_counts(self) -> IntArray:
        postings = self._snapshot.graph.postings
        return np.asarray(postings.sum(axis=1)).reshape(-1).astype(np.int64)

    @lazy
    def _communities(self) -> Sequence[_Community]:
        """The distinct communities of all levels, each at its coarsest level."""
        if not self.options.communities:
            return ()
        names = self._snapshot.graph.names
        hierarchy = self._snapshot.communities(int(self.options.seed))
        found: list[_Community] = []
        smallest = np.full(len(names), -1, dtype=np.int64)  # so far, of each entity
        for level in range(len(hierarchy.labels)):
            for members in hierarchy.members(level):
                parent = int(smallest[members[0]])
                if len(members) < MIN_ENTITIES or (
                    parent >= 0 and len(found[parent].members) == len(members)
                ):
                    continue
                id_ = community_id([names[row] for row in members.tolist()])
                smallest[members] = len(found)
                found.append(_Community(id_, level, members, parent))
        return found

    def _metadata(self, row: int) -> Mapping[str, Value]:
        """Return the metadata of a text node, without values that no graph can represent."""
        records = self._snapshot.records
        key = tuple(records.indices[int(records.starts[row]) : int(records.ends[row])].tolist())
        if self._merged[0] != key:  # neighbors often share their records
            self._merged = key, self._flat_metadata(key)
        return self._merged[1]

    def _flat_metadata(self, rows: Sequence[int]) -> dict[str, Value]:
        records = self._snapshot.records
        merged = merge_metadata([records.values[row] for row in rows])
        flat: dict[str, Value] = {}
        for key, value in merged.items():
            scalar = _scalar(value)
            if key != records.id_key and scalar is not None:
                flat[self._property_names[key]] = scalar
        return flat

    @lazy
    def _property_names(self) -> Mapping[str, str]:
        """The name of the property of each metadata key; distinct keys have distinct ones."""
        keys = {key for record in self._snapshot.records.values for key in record}
        plain = {key: METADATA_PREFIX + _NOT_IN_NAMES.sub("_", key) for key in keys}
        counts = Counter(plain.values())
        return {
            key: name
            if counts[name] == 1 or name == METADATA_PREFIX + key
            else f"{name}_{_digest(key)}"
            for key, name in plain.items()
        }


def _scalar(value: object) -> Value | None:
    """Return a value that every graph can represent, or None."""
    if isinstance(value, str):
        return _portable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -_MAX_INTEGER <= value < _MAX_INTEGER else str(value)
    return value if isinstance(value, bool) else None


def _portable(text: str) -> str:
    return _NOT_IN_TEXTS.sub("\ufffd", text)


def _portable_id(id_: str) -> str:
    """Return an id without special characters; distinct ids remain distinct."""
    if not _NOT_PORTABLE.search(id_):
        return id_
    return f"{_NOT_PORTABLE.sub(chr(0xFFFD), id_)}#{_digest(id_)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
