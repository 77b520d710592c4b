"""Views of the entity graph: lists of entities, neighborhoods, edges with their sentences, paths.

Each view reads a bounded part of the graph, so that it can be drawn for an index of any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.validation import check_int, check_name
from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath, Hop
from e2graphrag_integrations.retrieval.entities.entity_view import (
    EntityDetails,
    EntityInfo,
    EntityView,
    TypesArgument,
    describe_entity,
)
from e2graphrag_integrations.retrieval.entities.path_evidence import connect, shared_sentences
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.views.spellings import spellings

MAX_ENTITIES = 500
"""Maximum number of entities in one list."""

MAX_DETAILS = 200
"""Maximum number of mentions, of neighbors and of documents in the details of an entity."""

MAX_NODES = 200
"""Maximum number of entities in one neighborhood."""

MAX_SENTENCES = 200
"""Maximum number of sentences of one edge."""


@dataclass(frozen=True, slots=True)
class ListedEntity(EntityInfo):
    """An entity in a list.

    Attributes:
        label: Its name as the texts most often write it.
        is_name: Whether most of its mentions are names, or are in documents about it.
    """

    label: str = ""
    is_name: bool = True


@dataclass(frozen=True, slots=True)
class EntityList:
    """A part of the entities, most mentioned first.

    Attributes:
        items: The entities with their counts.
        total: Number of all entities with the prefix.
    """

    items: tuple[ListedEntity, ...]
    total: int


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An entity in a neighborhood.

    Attributes:
        name: The normal form of its name.
        mentions: Number of mentions in all chunks.
        documents: Number of documents that mention it or are about it.
        degree: Number of entities that share a sentence with it, in the whole graph.
        label: Its name as the texts most often write it.
        is_name: Whether most of its mentions are names, or are in documents about it.
        type: Its type; see `EntityInfo`.
    """

    name: str
    mentions: int
    documents: int
    degree: int
    label: str
    is_name: bool
    type: str


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
        nouns: Number of those that were left out because they are common nouns.
    """

    center: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    omitted: int
    nouns: int


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
    reader: IndexReader,
    prefix: str = "",
    offset: int = 0,
    limit: int = 50,
    *,
    names_only: bool = False,
    types: TypesArgument | None = None,
) -> EntityList:
    """Return a part of the entities whose name, or alias, starts with a prefix.

    Args:
        reader: The index.
        prefix: The start of the name or of an alias.
        offset: Number of entities to skip.
        limit: Maximum number of entities.
        names_only: Leave out common nouns.
        types: The types of the entities; None means all.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
    """
    first = check_int("offset", offset, 0)
    stop = first + check_int("limit", limit, 1, MAX_ENTITIES)

    def entities(snapshot: Snapshot, nodes: NodeSource) -> EntityList:
        view = EntityView(snapshot, None)
        rows = view.ranked_rows(prefix, types)
        if names_only:
            rows = rows[snapshot.mostly_names[rows]]
        return EntityList(tuple(_listed(view, nodes, rows[first:stop])), len(rows))

    return reader.read_snapshot(entities)


def entity_details(reader: IndexReader, name: str, limit: int = 50) -> EntityDetails:
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


def neighborhood(
    reader: IndexReader, name: str, limit: int = 40, *, names_only: bool = False
) -> Neighborhood:
    """Return an entity with its heaviest neighbors, at most `limit` entities in all.

    Args:
        reader: The index.
        name: The entity, which may be a common noun.
        limit: Maximum number of entities.
        names_only: Leave out neighbors that are common nouns.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
        UnknownEntityError: If the index has no such entity.
    """
    checked = [check_name("entity", name)]
    [found] = neighborhoods(reader, checked, limit, names_only=names_only)
    return found


def neighborhoods(
    reader: IndexReader, names: Sequence[str], limit: int = 40, *, names_only: bool = False
) -> list[Neighborhood]:
    """Return the neighborhoods of several entities; see `neighborhood`.

    Raises:
        InvalidInputError: If an argument is invalid or out of range.
        UnknownEntityError: If the index has no such entity.
    """
    size = check_int("limit", limit, 1, MAX_NODES)

    def around(snapshot: Snapshot, nodes: NodeSource) -> list[Neighborhood]:
        view = EntityView(snapshot, None)
        kept = snapshot.mostly_names if names_only else None
        chosen = [_heaviest(view, view.find(name), size, kept) for name in names]
        empty = np.empty(0, dtype=np.int64)
        needed = np.unique(np.concatenate([empty, *(rows for rows, _ in chosen)]))
        listed = _listed(view, nodes, needed)
        counted = dict(zip(needed.tolist(), map(_node, listed), strict=True))
        return [
            _neighborhood(view, rows, [counted[row] for row in rows.tolist()], nouns)
            for rows, nouns in chosen
        ]

    return reader.read_snapshot(around)


def path_nodes(reader: IndexReader, paths: Iterable[EntityPath]) -> tuple[GraphNode, ...]:
    """Return the entities of paths, each once, apart from those that a writer has removed."""
    names = dict.fromkeys(name for path in paths for name in path.entities)

    def nodes(snapshot: Snapshot, source: NodeSource) -> tuple[GraphNode, ...]:
        view = EntityView(snapshot, None)
        rows = [view.subjects.index[name] for name in names if name in view.subjects.index]
        found = np.asarray(rows, dtype=np.int64)
        return tuple(map(_node, _listed(view, source, found)))

    return reader.read_snapshot(nodes)


def edge_sentences(reader: IndexReader, source: str, target: str, limit: int = 20) -> EdgeSentences:
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


def find_connection(reader: IndexReader, source: str, target: str) -> tuple[EntityPath, ...]:
    """Return the paths between two entities, best first, each hop with a sentence.

    Raises:
        InvalidInputError: If both names mean the same entity.
        UnknownEntityError: If the index has no such entity.
    """
    return reader.read_snapshot(lambda snapshot, nodes: connect(snapshot, nodes, source, target))


def _listed(view: EntityView, source: NodeSource, rows: IntArray) -> list[ListedEntity]:
    """Return entities with their counts, as the texts write them."""
    spelled = spellings(view, source, rows.tolist())
    are_names = view.snapshot.mostly_names[rows].tolist()
    return [
        ListedEntity(**asdict(info), label=label, is_name=is_name)
        for info, label, is_name in zip(view.infos(rows), spelled, are_names, strict=True)
    ]


def _node(one: ListedEntity) -> GraphNode:
    return GraphNode(
        one.name, one.mentions, one.documents, one.degree, one.label, one.is_name, one.type
    )


def _heaviest(
    view: EntityView, center: int, limit: int, kept: NDArray[np.bool_] | None
) -> tuple[IntArray, int]:
    """Return an entity and its heaviest neighbors, at most `limit` in all.

    The second result is the number of neighbors that the mask `kept` leaves out; None shows all.
    """
    weights = view.weights(np.asarray([center]))
    neighbors, data = weights.indices, weights.data
    total = len(neighbors)
    if kept is not None:
        shown = kept[neighbors]
        neighbors, data = neighbors[shown], data[shown]
    heaviest = np.argsort(-data, kind="stable")[: limit - 1]
    rows: IntArray = np.concatenate([[center], neighbors[heaviest]])
    return rows, total - len(neighbors)


def _neighborhood(
    view: EntityView, rows: IntArray, nodes: Sequence[GraphNode], nouns: int
) -> Neighborhood:
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
        nodes[0].name,
        tuple(nodes),
        tuple(sorted(edges, key=lambda edge: (-edge.weight, edge.source, edge.target))),
        nodes[0].degree - len(rows) + 1,
        nouns,
    )
