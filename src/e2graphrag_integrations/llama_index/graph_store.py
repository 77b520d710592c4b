"""Keeping the graph of an index in a LlamaIndex `PropertyGraphStore`, such as Neo4j or FalkorDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from llama_index.core.graph_stores.types import (
    ChunkNode,
    EntityNode,
    LabelledNode,
    PropertyGraphStore,
    Relation,
)

from e2graphrag_integrations._utils.validation import check_text, short_repr, type_name, wrap_errors
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import GraphStoreError, InvalidInputError
from e2graphrag_integrations.portability.graph_state import StoreTraits
from e2graphrag_integrations.portability.graph_sync import update_graph
from e2graphrag_integrations.portability.property_graph import (
    CHUNK,
    CO_OCCURS,
    GraphNode,
    GraphOptions,
    GraphRelation,
)
from e2graphrag_integrations.reports import GraphReport
from e2graphrag_integrations.retrieval.reader import HasReader, reader_of

STATE_LABEL = "E2GraphRAGState"
"""Label of the nodes that contain the state of the graph."""

_STATE = "state"
_STATE_ENTRIES = 50
"""Number of entries of the state per call to the graph store."""

_NAMESPACE = re.compile(r"[\w.\-]*")
_ADVICE = (
    "fix the cause, then update again: the state in the graph store names the nodes concerned, and "
    "the next update repairs them"
)


def update_property_graph(
    index: E2GraphRAG | HasReader,
    store: PropertyGraphStore,
    *,
    namespace: str = "",
    texts: bool = True,
    communities: bool = True,
    min_weight: float = 0.0,
    take_over: bool = False,
    rebuild: bool = False,
) -> GraphReport:
    """Make the graph in a property graph store equal to that of an index.

    The first update writes everything, later ones only the differences. An update that fails or is
    killed leaves a state that the next one repairs. The index does not change. Run one update of a
    namespace at a time.

    Args:
        index: The index: `E2GraphRAG`, or the `E2GraphRAGIndex` of LlamaIndex or LangChain.
        store: Any property graph store that keeps the properties of nodes and relations.
        namespace: Name of the graph, if the store contains the graphs of several indexes: letters,
            digits, `.`, `-` and `_`. All ids and names then start with it.
        texts: Whether chunks and summaries have their texts.
        communities: Whether to include the communities of the entities.
        min_weight: Minimum weight of a co-occurrence.
        take_over: Whether to replace the graph of another index, or of this one if it was moved.
        rebuild: Whether to delete and write all nodes and relations, for example after someone
            changed them in the store.

    Returns:
        The counts of added, updated and removed nodes and relations, by label.

    Raises:
        InvalidInputError: If an argument is invalid.
        GraphStoreError: If the store refuses a batch or does not keep the properties of nodes, or
            if it contains the graph of another index.
    """
    if not isinstance(store, PropertyGraphStore):
        raise InvalidInputError(
            f"store={short_repr(store)} must be a PropertyGraphStore of LlamaIndex"
        )
    if not _NAMESPACE.fullmatch(check_text("namespace", namespace)):
        raise InvalidInputError(
            f"namespace={namespace!r} may contain only letters, digits, '.', '-' and '_'"
        )
    options = GraphOptions(bool(texts), bool(communities), min_weight)
    target = _Target(store, namespace)
    rag = reader_of(index)
    if not isinstance(rag, E2GraphRAG):
        raise InvalidInputError(
            f"index={short_repr(index)} must be an E2GraphRAG, or an E2GraphRAGIndex"
        )
    return rag.read_graph(
        lambda graph: update_graph(graph, target, take_over=bool(take_over), rebuild=bool(rebuild)),
        options,
    )


class _Target:
    """A property graph store, seen as the target of an update.

    The id of an entity node is its name, as LlamaIndex requires. In a namespace, the name has a
    prefix, and the property `entity` contains the plain name.
    """

    def __init__(self, store: PropertyGraphStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        # Entities are in lowercase, so no id without a namespace starts like this.
        self._prefix = f"Index:{namespace}:" if namespace else ""
        self.where = type_name(store) + (f", namespace {namespace!r}" if namespace else "")

    # The graph

    def upsert_nodes(self, nodes: Sequence[GraphNode]) -> None:
        with self._explained("upsert_nodes", [node.id for node in nodes]):
            self._store.upsert_nodes([self._node(node) for node in nodes])

    def upsert_relations(self, relations: Sequence[GraphRelation]) -> None:
        ids = [f"{one.source} {one.label} {one.target}" for one in relations]
        with self._explained("upsert_relations", ids):
            self._store.upsert_relations([self._relation(one) for one in relations])

    def delete_nodes(self, ids: Sequence[str]) -> None:
        if ids:  # without ids, some stores delete everything
            with self._explained("delete", ids):
                self._store.delete(ids=[self._prefix + id_ for id_ in ids])

    def find_traits(self) -> StoreTraits:
        probes = [GraphNode(f"Probe:{name}", "Entity", {"name": name}) for name in "ab"]
        first, second = (one.id for one in probes)
        self.upsert_nodes(probes)
        for value in (1.0, 2.0):
            self.upsert_relations([GraphRelation(CO_OCCURS, first, second, value)])
        found: set[object] = set()
        with suppress(Exception):  # a store that cannot answer counts as one that changes nothing
            triplets = self._store.get_triplets(entity_names=[self._prefix + first])
            found = {relation.properties.get("weight") for _, relation, _ in triplets}
        self.delete_nodes([first])
        remaining = self._get([self._prefix + second])
        self.delete_nodes([second])
        return StoreTraits(found == {2.0}, not remaining)

    # The state

    def read_state(self, names: Iterable[str]) -> Mapping[str, str]:
        ids = {self._state_id(name): name for name in names}
        found = {node.id: node.properties.get(_STATE) for node in self._get(list(ids))}
        return {ids[id_]: text for id_, text in found.items() if isinstance(text, str)}

    def write_state(self, entries: Mapping[str, str]) -> None:
        nodes = [
            EntityNode(name=self._state_id(name), label=STATE_LABEL, properties={_STATE: text})
            for name, text in entries.items()
        ]
        for first in range(0, len(nodes), _STATE_ENTRIES):
            batch = nodes[first : first + _STATE_ENTRIES]
            with self._explained("upsert_nodes", [node.id for node in batch]):
                self._store.upsert_nodes(batch)

    def delete_state(self, names: Iterable[str]) -> None:
        ids = [self._state_id(name) for name in names]
        with self._explained("delete", ids):
            self._store.delete(ids=ids)

    def _state_id(self, name: str) -> str:
        return f"{self._prefix}State:{name}"

    def _get(self, ids: list[str]) -> list[LabelledNode]:
        with self._explained("get", ids):
            return [node for node in self._store.get(ids=ids) if node.id in ids]

    # Conversion

    def _node(self, node: GraphNode) -> LabelledNode:
        properties = dict(node.properties)
        if self._namespace:
            properties["namespace"] = self._namespace
        if node.label == CHUNK:
            text = str(properties.pop("text", ""))
            id_ = self._prefix + node.id
            return ChunkNode(id_=id_, text=text, label=CHUNK, properties=properties)
        name = properties.pop("name", None)
        if self._namespace and name is not None:
            properties["entity"] = name
        return EntityNode(name=self._prefix + node.id, label=node.label, properties=properties)

    def _relation(self, relation: GraphRelation) -> Relation:
        return Relation(
            label=relation.label,
            source_id=self._prefix + relation.source,
            target_id=self._prefix + relation.target,
            properties=relation.properties,
        )

    def _explained(self, method: str, ids: Sequence[str]) -> AbstractContextManager[None]:
        what = f"{self.where} failed in {method}() for {len(ids)} items, from {ids[0]!r}"
        return wrap_errors(GraphStoreError, what, _ADVICE, self._store)
