"""Updating the graph in a graph store: only the differences to its state are written.

Graph stores can add nodes and relations, and delete a node with all its relations, but many neither
delete a single relation nor change its property. Therefore, a relation is removed by deleting one
of its nodes and writing that node again with its other relations.

An update has three steps: delete nodes, write nodes, write relations. Before each write to the
graph, the state records which nodes it concerns. If it is interrupted, the next update deletes
these nodes and writes them again.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.errors import GraphStoreError
from e2graphrag_integrations.portability.graph_state import (
    GraphState,
    Header,
    NodeEntry,
    NodePage,
    RelationPage,
    StateEntries,
    StoreTraits,
    page_count,
    page_of,
)
from e2graphrag_integrations.portability.property_graph import (
    BATCH_SIZE,
    ENTITY,
    NODE_LABELS,
    RELATION_LABELS,
    GraphNode,
    GraphRelation,
    PropertyGraph,
    Value,
)
from e2graphrag_integrations.reports import GraphReport
from e2graphrag_integrations.store.records import canonical_json

T = TypeVar("T")

_RELATIONS = 2_000
"""Number of relations per call to the graph store."""

_ABSENT = object()


class GraphTarget(StateEntries, Protocol):
    """A graph store. All methods raise `GraphStoreError` if it fails."""

    @property
    def where(self) -> str:
        """Name of the graph store in error messages."""

    def upsert_nodes(self, nodes: Sequence[GraphNode]) -> None:
        """Add or replace nodes."""

    def upsert_relations(self, relations: Sequence[GraphRelation]) -> None:
        """Add relations whose nodes exist."""

    def delete_nodes(self, ids: Sequence[str]) -> None:
        """Delete nodes with all their relations; ignore unknown ids."""

    def find_traits(self) -> StoreTraits:
        """Find out how the graph store behaves, by trying."""


def update_graph(
    graph: PropertyGraph,
    target: GraphTarget,
    *,
    take_over: bool = False,
    rebuild: bool = False,
) -> GraphReport:
    """Make the graph in a graph store equal to that of an index.

    Args:
        graph: The graph of the index.
        target: The graph store.
        take_over: Whether to replace the graph of another index.
        rebuild: Whether to delete and write all nodes and relations.

    Raises:
        GraphStoreError: If the graph store refuses a batch or does not keep the state, or if it
            contains the graph of another index.
        StaleSnapshotError: If the stored texts are newer than the graph.
    """
    started = time.perf_counter()
    report = _Update(graph, target).run(take_over=take_over, rebuild=rebuild)
    return replace(report, seconds=time.perf_counter() - started)


@dataclass
class _Differences:
    """The differences between the graph and the state of the graph store.

    Attributes:
        added, updated, removed, unchanged: Number of nodes and relations, by label.
        deleted: Ids of the nodes that the index no longer contains.
        reshaped: Ids of the nodes that have other properties than before. Writing a node does not
            remove a property.
        loose: Sources and targets of the relations that must be deleted, though their nodes stay.
        stamped: Number of texts that were written again without a change.
    """

    added: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    deleted: set[str] = field(default_factory=set)
    reshaped: set[str] = field(default_factory=set)
    loose: list[tuple[str, str]] = field(default_factory=list)
    stamped: int = 0

    @property
    def written(self) -> int:
        """Number of new and updated nodes and relations."""
        return self.added.total() + self.updated.total()

    def __bool__(self) -> bool:
        return bool(self.written or self.removed or self.stamped)


class _Update:
    """One update of a graph store."""

    def __init__(self, graph: PropertyGraph, target: GraphTarget) -> None:
        self._graph = graph
        self._target = target
        self._state = GraphState(target, target.where)
        self._digests: dict[int, str] = {}
        self._written = 0

    def run(self, *, take_over: bool, rebuild: bool) -> GraphReport:
        """Update the graph store; see `update_graph`."""
        header = self._open(take_over=take_over, rebuild=rebuild)
        suspects = {*header.rewritten, *self._state.read_writing()}
        pages = page_count(len(self._graph), header.pages)
        # After an interruption, some stores delete nothing until the graph is repaired.
        if pages != header.pages and not suspects:
            header = self._state.divide(header, pages)
        parts = _Parts(self._graph, header.pages)
        found = self._differences(header, parts, suspects)
        deleted = found.deleted | found.reshaped | suspects | self._nodes_to_rewrite(found.loose)
        if deleted:
            header = replace(header, rewritten=tuple(sorted(deleted)))
            self._state.write_header(header)
            self._delete(header, parts, deleted, is_repair=bool(suspects))
        if found or deleted:
            self._write_nodes(header, parts, deleted)
            self._write_relations(header, parts, deleted)
            self._state.write_writing(())
        if deleted:
            self._state.write_header(replace(header, rewritten=()))
        columns = (found.added, found.updated, found.removed, found.unchanged)
        added, updated, removed, unchanged = (_ordered(counts) for counts in columns)
        rewritten = max(0, self._written - found.written)
        return GraphReport(added, updated, removed, unchanged, rewritten)

    def _open(self, *, take_over: bool, rebuild: bool) -> Header:
        """Return the header of the state, which is created if necessary."""
        best, owner = page_count(len(self._graph)), self._graph.name
        header = self._state.read_header(ignore_damage=rebuild)
        if header is None:
            header = Header(owner, best, self._target.find_traits())
            self._state.create(header)
            return header
        if header.owner != owner and not take_over:
            raise GraphStoreError(
                f"{self._target.where} contains the graph of {header.owner}, not of {owner}: pass "
                "namespace= to keep both graphs, or take_over=True to replace it, for example "
                "because the index was moved"
            )
        if rebuild:
            known = self._state.known_ids(header) | {*self._graph.ids}
            header = replace(header, owner=owner, rewritten=tuple(sorted(known)))
            self._state.write_header(header)
            emptied = replace(header, pages=best)
            self._state.create(emptied)
            return emptied
        if header.owner != owner:
            header = replace(header, owner=owner)
            self._state.write_header(header)
        return header

    # Differences

    def _differences(self, header: Header, parts: _Parts, suspects: set[str]) -> _Differences:
        found = _Differences()
        for page in range(header.pages):
            self._compare_nodes(self._state.read_nodes(header, page), parts.nodes(page), found)
        for page in range(header.pages):
            stored = self._state.read_relations(header, page)
            current = parts.relations(page)
            loose = self._compare_relations(stored, current, header.traits, found)
            found.loose += [pair for pair in loose if suspects.isdisjoint(pair)]
        return found

    def _compare_nodes(self, stored: NodePage, numbers: IntArray, found: _Differences) -> None:
        graph, remaining = self._graph, set(stored)
        newer = []
        for number in numbers.tolist():
            id_ = graph.ids[number]
            label, shape, version = self._version(number)
            entry = stored.get(id_)
            remaining.discard(id_)
            if entry is None:
                found.added[label] += 1
            elif entry.shape != shape:
                found.updated[label] += 1
                found.reshaped.add(id_)
            elif entry.version == version:
                found.unchanged[label] += 1
            elif graph.has_text(number):
                newer.append(number)
            else:
                found.updated[label] += 1
        for node in graph.nodes(np.asarray(newer, dtype=np.int64)):
            is_same = stored[node.id].digest == self._remember_digest(node)
            found.stamped += is_same
            (found.unchanged if is_same else found.updated)[node.label] += 1
        found.removed.update(stored[id_].label for id_ in remaining)
        found.deleted |= remaining

    def _compare_relations(
        self,
        stored: RelationPage,
        current: RelationPage,
        traits: StoreTraits,
        found: _Differences,
    ) -> Iterator[tuple[str, str]]:
        """Yield the source and the target of each relation that must be deleted."""
        for key, value in current.items():
            label = key[0]
            if key not in stored:
                found.added[label] += 1
            elif stored[key] == value:
                found.unchanged[label] += 1
            else:
                found.updated[label] += 1
                if not traits.changes_relations:
                    yield key[1:]
        numbers = self._graph.numbers
        for label, source, target in stored.keys() - current.keys():
            found.removed[label] += 1
            if source in numbers and target in numbers:
                yield source, target

    def _version(self, number: int) -> tuple[str, str, str]:
        """Return the label of a node, and the digests of its property names and of its version."""
        label, properties = self._graph.describe(number)
        stamp = self._graph.stamp(number) if self._graph.has_text(number) else ""
        shape = f"{zlib.crc32(chr(0).join(sorted(properties)).encode()):x}"
        return label, shape + "t" * bool(stamp), _digest(label, properties, stamp)

    def _remember_digest(self, node: GraphNode) -> str:
        digest = _digest(node.label, node.properties)
        self._digests[self._graph.numbers[node.id]] = digest
        return digest

    def _nodes_to_rewrite(self, loose: Sequence[tuple[str, str]]) -> set[str]:
        """Return nodes such that each of these relations has one of them, with few relations."""
        counts = Counter(id_ for pair in loose for id_ in pair)
        numbers, degrees = self._graph.numbers, self._graph.degrees
        cost = {id_: int(degrees[numbers[id_]]) / count for id_, count in counts.items()}
        chosen: set[str] = set()
        for pair in sorted(loose):
            if chosen.isdisjoint(pair):
                chosen.add(min(pair, key=lambda id_: (cost[id_], id_)))
        return chosen

    # Writing

    def _delete(self, header: Header, parts: _Parts, ids: set[str], *, is_repair: bool) -> None:
        if not header.traits.deletes_neighbors:
            for batch in _batches(sorted(ids), BATCH_SIZE):
                self._target.delete_nodes(batch)
            return
        if is_repair:  # the interrupted deletion may have deleted neighbors that relations need
            self._target.upsert_nodes([GraphNode(id_, ENTITY, {}) for id_ in sorted(ids)])
            self._restore(header, parts, ids)
        self._target.delete_nodes(sorted(ids))
        self._restore(header, parts, ids)

    def _restore(self, header: Header, parts: _Parts, deleted: set[str]) -> None:
        """Write the nodes that should be in the graph store, without their relations."""
        for page in range(header.pages):
            kept = self._state.read_nodes(header, page).keys() - deleted
            rows = [n for n in parts.nodes(page).tolist() if self._graph.ids[n] in kept]
            self._upsert_nodes(np.asarray(rows, dtype=np.int64), {})

    def _write_nodes(self, header: Header, parts: _Parts, deleted: set[str]) -> None:
        graph = self._graph
        for page in range(header.pages):
            stored = self._state.read_nodes(header, page)
            current: NodePage = {}
            missing = []
            for number in parts.nodes(page).tolist():
                id_ = graph.ids[number]
                label, shape, version = self._version(number)
                entry = stored.get(id_) if id_ not in deleted else None
                digest = version if entry is None or not graph.has_text(number) else entry.digest
                digest = self._digests.get(number, digest)
                current[id_] = NodeEntry(label, shape, version, digest)
                if entry is None or digest != entry.digest:
                    missing.append(number)
            if missing:
                self._state.write_writing(graph.ids[number] for number in missing)
                self._written += len(missing)
                self._upsert_nodes(np.asarray(missing, dtype=np.int64), current)
            if missing or current != stored:
                self._state.write_nodes(header, page, current)

    def _upsert_nodes(self, numbers: IntArray, entries: NodePage) -> None:
        """Write nodes, and record the digests of their texts in the entries."""
        for batch in _batches(self._graph.nodes(numbers), BATCH_SIZE):
            self._target.upsert_nodes(batch)
            for node in batch:
                if node.id in entries and "text" in node.properties:
                    digest = _digest(node.label, node.properties)
                    entries[node.id] = entries[node.id]._replace(digest=digest)

    def _write_relations(self, header: Header, parts: _Parts, deleted: set[str]) -> None:
        for page in range(header.pages):
            stored, current = self._state.read_relations(header, page), parts.relations(page)
            missing = [
                GraphRelation(*key, value)
                for key, value in current.items()
                if stored.get(key, _ABSENT) != value or not deleted.isdisjoint(key[1:])
            ]
            if missing:
                self._state.write_writing({one.source for one in missing})
                self._written += len(missing)
                for batch in _batches(missing, _RELATIONS):
                    self._target.upsert_relations(batch)
            if missing or current.keys() != stored.keys():
                self._state.write_relations(header, page, current)


class _Parts:
    """The nodes and relations of a graph, divided like the pages of a state."""

    def __init__(self, graph: PropertyGraph, pages: int) -> None:
        self._graph = graph
        own = np.fromiter((page_of(id_, pages) for id_ in graph.ids), np.int64, len(graph))
        self._nodes = _Groups.of(own, pages)
        self._relations = [_Groups.of(own[table.sources], pages) for table in graph.relations]

    def nodes(self, page: int) -> IntArray:
        """Return the numbers of the nodes of a page, ascending."""
        return self._nodes.rows(page)

    def relations(self, page: int) -> RelationPage:
        """Return the relations that start at the nodes of a page."""
        return {
            (one.label, one.source, one.target): one.value
            for table, groups in zip(self._graph.relations, self._relations, strict=True)
            for one in table.selected(groups.rows(page), self._graph.ids)
        }


class _Groups(NamedTuple):
    """Rows grouped by a number."""

    order: IntArray
    bounds: IntArray

    @classmethod
    def of(cls, groups: IntArray, count: int) -> Self:
        order = np.argsort(groups, kind="stable")
        return cls(order, np.searchsorted(groups[order], np.arange(count + 1)))

    def rows(self, group: int) -> IntArray:
        return self.order[self.bounds[group] : self.bounds[group + 1]]


def _digest(label: str, properties: Mapping[str, Value], stamp: str = "") -> str:
    plain = canonical_json([label, dict(properties), stamp])
    return hashlib.blake2b(plain.encode(), digest_size=9).hexdigest()


def _ordered(counts: Counter[str]) -> dict[str, int]:
    labels = (*NODE_LABELS, *RELATION_LABELS)
    return {label: counts[label] for label in labels if counts[label]}


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
