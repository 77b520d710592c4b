"""The entity graph and the entity-chunk index, as compact read-only arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations._utils.bounded_cache import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.strings import index_strings
from e2graphrag_integrations.graph.pair_weights import PairWeights

_CACHED_NEIGHBORS = 4096
"""Number of neighbor sets that `hops` caches."""

_CACHED_MASKS = 64
"""Number of two-hop masks that `hops` caches; each takes one byte per entity in the graph."""


@dataclass(frozen=True, eq=False)
class EntityGraph:
    """Entities, their co-occurrence within sentences, and the chunks that mention them.

    Attributes:
        names: Normal form of each entity, sorted.
        named: Whether at least one mention of the entity is a proper name.
        edges: Symmetric co-occurrence weights, shape (entities, entities), with a zero diagonal.
            Each sentence that mentions both entities adds `1 / distinct entities in the sentence`
            (E2GraphRAG, section 3.2). Each entity keeps at most its `MAX_NEIGHBORS` heaviest
            edges.
        postings: Mention counts, shape (entities, chunks).
        pairs: The weights of all edges, including those that were not kept, to update the graph;
            None if it will not be updated.
    """

    names: Sequence[str]
    named: NDArray[np.bool_]
    edges: csr_array
    postings: csr_array
    pairs: PairWeights | None = None

    @lazy
    def index(self) -> Mapping[str, int]:
        """The row of each normal form."""
        return index_strings(self.names)

    @lazy
    def entities_per_chunk(self) -> IntArray:
        """The number of distinct entities in each chunk, shape (chunks,)."""
        return np.bincount(self.postings.indices, minlength=self.postings.shape[1])

    def chunks(self, entity: int) -> tuple[IntArray, IntArray]:
        """Return the chunks that mention an entity, ascending, and its mention count in each."""
        return row_entries(self.postings, entity)

    def neighbors(self, entity: int) -> IntArray:
        """Return the entities that share a sentence with an entity, ascending."""
        return row_entries(self.edges, entity)[0]

    def distances(self, source: int, depth: int) -> NDArray[np.int8]:
        """Return each entity's distance from `source` in edges, or -1 if it exceeds `depth`."""
        distance = np.full(len(self.names), -1, dtype=np.int8)
        distance[source] = 0
        frontier = np.array([source])
        for step in range(1, depth + 1):
            reached = np.unique(self._neighbors_of_all(frontier))
            frontier = reached[distance[reached] < 0]
            if not len(frontier):
                break
            distance[frontier] = step
        return distance

    def hops(self, entities: Sequence[int], max_hops: int) -> dict[tuple[int, int], int]:
        """Return the distance in edges of every pair of `entities` within `max_hops`.

        For each pair, runs a bidirectional breadth-first search that stops when the two sides meet.
        Most pairs are neighbors or share a neighbor, so neighborhoods are cached.
        """
        distances: dict[tuple[int, int], int] = {}
        for a, b in combinations(dict.fromkeys(entities), 2):
            neighbors = self._neighbor_set(a)
            if b in neighbors:
                distance = 1
            elif not neighbors.isdisjoint(self._neighbor_set(b)):
                distance = 2
            else:
                distance = self._distance_from_three(a, b, max_hops)
            if distance <= max_hops:
                distances[a, b] = distance
        return distances

    def _distance_from_three(self, a: int, b: int, max_hops: int) -> int:
        """Return the distance between two entities that are at least 3 edges apart.

        If the distance exceeds `max_hops`, returns any number greater than `max_hops`.
        """
        reached = [self._two_hop_mask(a), self._two_hop_mask(b)]
        distance = 3
        if distance > max_hops or reached[0][self.neighbors(b)].any():
            return distance
        while distance < max_hops:
            distance += 1
            if (reached[0] & reached[1]).any():
                return distance
            reached.reverse()
            reached[0] = self._expand(reached[0])
        return max_hops + 1

    @cached_method(_CACHED_NEIGHBORS)
    def _neighbor_set(self, entity: int) -> frozenset[int]:
        """Return the neighbors of an entity."""
        return frozenset(self.neighbors(entity).tolist())

    @cached_method(_CACHED_MASKS)
    def _two_hop_mask(self, entity: int) -> NDArray[np.bool_]:
        """Return a mask of the entities within two edges of an entity."""
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[entity] = True
        return self._expand(self._expand(mask))

    def _expand(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the given entities and their neighbors."""
        expanded: NDArray[np.bool_] = mask.copy()
        expanded[self._neighbors_of_all(np.flatnonzero(mask))] = True
        return expanded

    def _neighbors_of_all(self, rows: IntArray) -> IntArray:
        """Return the neighbors of several entities, concatenated."""
        starts, ends = self.edges.indptr[rows], self.edges.indptr[rows + 1]
        neighbors: IntArray = self.edges.indices[concatenated_ranges(starts, ends - starts)]
        return neighbors

    def to_networkx(self) -> Any:
        """Return the graph as a `networkx.Graph` whose nodes are names.

        Nodes have the attributes `named` and `chunks` (a count); edges have `weight`.
        """
        import networkx as nx

        graph = nx.Graph()
        counts = np.diff(self.postings.indptr)
        for row, name in enumerate(self.names):
            graph.add_node(name, named=bool(self.named[row]), chunks=int(counts[row]))
        edges = self.edges.tocoo()
        for a, b, weight in zip(edges.row, edges.col, edges.data, strict=True):
            if a < b:
                graph.add_edge(self.names[a], self.names[b], weight=float(weight))
        return graph


def row_entries(matrix: csr_array, row: int) -> tuple[IntArray, NDArray[Any]]:
    """Return the columns and the values of the entries in one row of a sparse matrix."""
    entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return matrix.indices[entries], matrix.data[entries]
