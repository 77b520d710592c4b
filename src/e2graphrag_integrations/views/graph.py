"""Views of the entity graph: lists of entities, neighborhoods, edges with their sentences, paths.

Each view reads a bounded part of the graph, so that it can be drawn for an index of any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.validation import check_int, check_name
from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath, Hop
from e2graphrag_integrations.retrieval.entities.entity_view import (
    EntityDetails,
    EntityInfo,
    EntityView,
    describe_entity,
)
from e2graphrag_integrations.retrieval.entities.path_evidence import connect, shared_sentences
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.views.source import SnapshotReader

MAX_ENTITIES = 500
"""Maximum number of entities in one list."""

MAX_DETAILS = 200
"""Maximum number of mentions, of neighbors and of documents in the details of an entity."""

MAX_NODES = 200
"""Maximum number of entities in one neighborhood."""

MAX_SENTENCES = 200
"""Maximum number of sentences of one edge."""


@dataclass(frozen=True, slots=True)
class EntityList:
    """A part of the entities, most mentioned first.

    Attributes:
        items: The entities with their counts.
        total: Number of all entities with the prefix.
    """

    items: tuple[EntityInfo, ...]
    total: int


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An entity in a neighborhood.

    Attributes:
        name: The normal form of its name.
        mentions: Number of mentions in all chunks.
        documents: Number of documents that mention it or are about it.
        degree: Number of entities that share a sentence with it, in the whole graph.
    """

    name: str
    mentions: int
    documents: int
    degree: int


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """Two entities that share sentences; the weight is that of the entity graph."""

    source: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """An entity, the entities that share the most sentences with it, and all edges among these.

    Attributes:
        center: The normal form of the entity's name.
        nodes: The entity, and its neighbors by descending weight.
        edges: The edges between these nodes, the heaviest first.
        omitted: Number of neighbors that were left out.
    """

    center: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    omitted: int


@dataclass(frozen=True, slots=True)
class EdgeSentences:
    """The first sentences that mention two entities.

    Attributes:
        sentences: The sentences, in the order of the documents.
        has_more: Whether there are more.
    """

    sentences: tuple[Hop, ...]
    has_more: bool


def list_entities(
    reader: SnapshotReader, prefix: str = "", offset: int = 0, limit: int = 50
) -> EntityList:
    """Return a part of the entities whose name, or alias, starts with a prefix.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
    """
    first = check_int("offset", offset, 0)
    stop = first + check_int("limit", limit, 1, MAX_ENTITIES)

    def entities(snapshot: Snapshot, _: object) -> EntityList:
        view = EntityView(snapshot, None)
        rows = view.ranked_rows(prefix)
        return EntityList(tuple(view.infos(rows[first:stop])), len(rows))

    return reader.read_snapshot(entities)


def entity_details(reader: SnapshotReader, name: str, limit: int = 50) -> EntityDetails:
    """Return an entity with its first mentions, neighbors and documents, at most `limit` of each.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
        UnknownEntityError: If the index has no such entity.
    """
    top = check_int("limit", limit, 1, MAX_DETAILS)
    found = reader.read_snapshot(
        lambda snapshot, nodes: describe_entity(snapshot, nodes, None, name, top)
    )
    return replace(found, documents=found.documents[:top], subject_of=found.subject_of[:top])


def neighborhood(reader: SnapshotReader, name: str, limit: int = 40) -> Neighborhood:
    """Return an entity with its heaviest neighbors, at most `limit` entities in all.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
        UnknownEntityError: If the index has no such entity.
    """
    [found] = neighborhoods(reader, [check_name("entity", name)], limit)
    return found


def neighborhoods(
    reader: SnapshotReader, names: Sequence[str], limit: int = 40
) -> list[Neighborhood]:
    """Return the neighborhoods of several entities; see `neighborhood`.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
        UnknownEntityError: If the index has no such entity.
    """
    size = check_int("limit", limit, 1, MAX_NODES)

    def around(snapshot: Snapshot, _: object) -> list[Neighborhood]:
        view = EntityView(snapshot, None)
        rows_of = [_heaviest(view, view.find(name), size) for name in names]
        needed = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *rows_of]))
        counted = dict(zip(needed.tolist(), view.infos(needed), strict=True))
        return [
            _neighborhood(view, rows, [counted[row] for row in rows.tolist()]) for rows in rows_of
        ]

    return reader.read_snapshot(around)


def edge_sentences(
    reader: SnapshotReader, source: str, target: str, limit: int = 20
) -> EdgeSentences:
    """Return the first sentences that mention both entities.

    Raises:
        InvalidInputError: If an argument is invalid or out of range, or if both names mean the same
            entity.
        UnknownEntityError: If the index has no such entity.
    """
    size = check_int("limit", limit, 1, MAX_SENTENCES)
    hops = reader.read_snapshot(
        lambda snapshot, nodes: shared_sentences(snapshot, nodes, source, target, size + 1)
    )
    return EdgeSentences(hops[:size], len(hops) > size)


def find_connection(reader: SnapshotReader, source: str, target: str) -> tuple[EntityPath, ...]:
    """Return the paths between two entities, best first, each hop with a sentence.

    Raises:
        InvalidInputError: If both names mean the same entity.
        UnknownEntityError: If the index has no such entity.
    """
    return reader.read_snapshot(lambda snapshot, nodes: connect(snapshot, nodes, source, target))


def _heaviest(view: EntityView, center: int, limit: int) -> IntArray:
    """Return an entity and its heaviest neighbors, at most `limit` in all."""
    weights = view.weights(np.asarray([center]))
    heaviest = np.argsort(-weights.data, kind="stable")[: limit - 1]
    rows: IntArray = np.concatenate([[center], weights.indices[heaviest]])
    return rows


def _neighborhood(view: EntityView, rows: IntArray, infos: Sequence[EntityInfo]) -> Neighborhood:
    names = view.subjects.names
    edges = []
    if len(rows) > 1:
        among = view.weights(rows)[:, rows].tocoo()
        edges = [
            GraphEdge(names[rows[a]], names[rows[b]], round(weight, 6))
            for a, b, weight in zip(
                among.row.tolist(), among.col.tolist(), among.data.tolist(), strict=True
            )
            if a < b
        ]
    return Neighborhood(
        infos[0].name,
        tuple(GraphNode(one.name, one.mentions, one.documents, one.degree) for one in infos),
        tuple(sorted(edges, key=lambda edge: (-edge.weight, edge.source, edge.target))),
        infos[0].degree - len(rows) + 1,
    )
