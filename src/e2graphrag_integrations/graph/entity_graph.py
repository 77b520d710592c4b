"""The entity graph and the entity-chunk index, as compact read-only arrays.

The weight of a pair is an exact sum of integers, which does not depend on the order of the terms,
and from which a term can be subtracted again. Therefore, a graph that is updated after a change
equals one that is built anew, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from e2graphrag_integrations._utils.arrays import (
    IntArray,
    concatenated_ranges,
    exclusive_sums,
    smallest_int_type,
    sorted_union,
)
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.strings import index_strings

UNIT = math.lcm(*range(1, 21)) << 14
"""The weight 1 as an integer. The share `1 / n` of a sentence with n entities is exact up to
n = 22, and rounded to 13 digits above. Sums below 2 million do not overflow."""

MAX_ENTITIES = 1 << 31
"""Maximum number of entities: a pair of rows is packed into one 64-bit integer."""

_LOW_32 = 0xFFFFFFFF
"""Mask for the second of two 32-bit rows packed into one 64-bit integer."""

_MAX_MENTIONS = 1 << 17
"""Number of mentions whose pairs are summed at a time. Limits memory."""

_EMPTY: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PairWeights:
    """The weights of all pairs of entities that share a sentence.

    Attributes:
        keys: Packed rows of both entities, the lower row first, ascending.
        units: Weight of each pair in multiples of `1 / UNIT`.
    """

    keys: IntArray
    units: IntArray

    @classmethod
    def empty(cls) -> Self:
        """Return the weights of no pairs."""
        return cls(_EMPTY, _EMPTY)

    @classmethod
    def from_mentions(cls, entities: IntArray, sentence_sizes: IntArray) -> PairWeights:
        """Return the weights of all pairs in some sentences.

        Args:
            entities: The entity of each mention, in the order of the sentences.
            sentence_sizes: Number of mentions per sentence.
        """
        bounds = exclusive_sums(sentence_sizes)
        parts: list[PairWeights] = []
        start = 0
        while start < len(sentence_sizes):  # in batches of complete sentences
            limit = bounds[start] + _MAX_MENTIONS
            end = max(start + 1, int(np.searchsorted(bounds, limit, side="right")) - 1)
            mentions = entities[bounds[start] : bounds[end]]
            parts.append(_weights_in(mentions, sentence_sizes[start:end]))
            # Like a merge sort: each weight is copied only a logarithmic number of times.
            while len(parts) > 1 and len(parts[-1].keys) * 2 > len(parts[-2].keys):
                parts[-2:] = [combine_weights(parts[-2:])]
            start = end
        return combine_weights(parts)

    def renumbered(self, rows: IntArray) -> PairWeights:
        """Return the same weights after rows have moved.

        Args:
            rows: New row of each entity; increasing, apart from -1 for entities without pairs.
        """
        return PairWeights((rows[self.keys >> 32] << 32) | rows[self.keys & _LOW_32], self.units)

    def changed(self, removed: PairWeights, added: PairWeights) -> PairWeights:
        """Return these weights without some, and with others. All refer to the same rows.

        Args:
            removed: Weights that these contain.
            added: Further weights.
        """
        change = combine_weights([PairWeights(removed.keys, -removed.units), added])
        places = np.searchsorted(self.keys, change.keys)
        is_known = np.zeros(len(change.keys), dtype=np.bool_)
        if len(self.keys):
            is_known = self.keys.take(places, mode="clip") == change.keys
        units = self.units.copy()
        units[places[is_known]] += change.units[is_known]
        zeros = places[is_known][units[places[is_known]] == 0]
        keys = self.keys
        if len(zeros):  # otherwise, both would be copied for nothing
            keys, units = np.delete(keys, zeros), np.delete(units, zeros)
        is_new = ~is_known & (change.units != 0)
        if not is_new.any():
            return PairWeights(keys, units)
        places = np.searchsorted(keys, change.keys[is_new])
        return PairWeights(
            np.insert(keys, places, change.keys[is_new]),
            np.insert(units, places, change.units[is_new]),
        )

    def heaviest(self, entities: int, max_degree: int) -> PairWeights:
        """Return the weights that are among the highest of both entities of their pair.

        The earlier neighbor wins ties.

        Args:
            entities: Number of entities.
            max_degree: Maximum number of weights to keep per entity.
        """
        first = (self.keys >> 32).astype(np.int32)
        second = (self.keys & _LOW_32).astype(np.int32)
        starts = exclusive_sums(np.bincount(first, minlength=entities))
        degrees = np.diff(starts) + np.bincount(second, minlength=entities)
        hubs = np.flatnonzero(degrees > max_degree)
        if not len(hubs):
            return self
        number = np.full(entities, len(hubs), dtype=np.min_scalar_type(len(hubs)))
        number[hubs] = np.arange(len(hubs))
        # The pairs whose second entity is a hub, grouped by hub.
        numbers = number[second]
        below = np.flatnonzero(numbers < len(hubs))
        below = below[np.argsort(numbers[below], kind="stable")]
        bounds = exclusive_sums(np.bincount(numbers[below], minlength=len(hubs)))
        is_kept = np.ones(len(self.keys), dtype=np.bool_)
        for position, hub in enumerate(hubs.tolist()):
            pairs = below[bounds[position] : bounds[position + 1]]  # in the order of the neighbors
            after = slice(starts[hub], starts[hub + 1])
            units = np.concatenate([self.units[pairs], self.units[after]])
            # NumPy sorts integers several times as fast as it partitions them.
            lowest = np.sort(units)[len(units) - max_degree]
            is_heavy = units > lowest
            ties = np.flatnonzero(units == lowest)
            is_heavy[ties[: max_degree - int(is_heavy.sum())]] = True
            is_kept[pairs] &= is_heavy[: len(pairs)]
            is_kept[after] &= is_heavy[len(pairs) :]
        return PairWeights(self.keys[is_kept], self.units[is_kept])

    def matrix(self, entities: int) -> csr_array:
        """Return the symmetric matrix of the weights, with sorted indices.

        Args:
            entities: Number of entities.
        """
        index_type = smallest_int_type(max(entities, 2 * len(self.keys)))
        sizes = np.bincount(self.keys >> 32, minlength=entities)
        upper = csr_array(
            (
                self.units / UNIT,
                (self.keys & _LOW_32).astype(index_type),
                exclusive_sums(sizes).astype(index_type),
            ),
            shape=(entities, entities),
        )
        return upper + upper.T.tocsr()


def combine_weights(parts: Sequence[PairWeights]) -> PairWeights:
    """Return the sums of weights that refer to the same rows."""
    if len(parts) == 1:
        return parts[0]
    keys = np.concatenate([_EMPTY, *(part.keys for part in parts)])
    order = np.argsort(keys, kind="stable")  # fast, as each part is sorted
    keys = keys[order]
    units = np.concatenate([_EMPTY, *(part.units for part in parts)])[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return PairWeights(keys[starts], np.add.reduceat(units, starts) if len(starts) else _EMPTY)


def _weights_in(entities: IntArray, sentence_sizes: IntArray) -> PairWeights:
    """Return `1 / distinct entities` for every pair of entities in each sentence, summed."""
    sentences = np.repeat(np.arange(len(sentence_sizes)), sentence_sizes)
    distinct = sorted_union((sentences << 32) | entities)
    starts = np.flatnonzero(np.diff(distinct >> 32, prepend=-1))
    sizes = np.diff(starts, append=len(distinct))
    rows = distinct & _LOW_32
    keys, units = [_EMPTY], [_EMPTY]
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        if size > 1:
            members = rows[starts[sizes == size][:, None] + np.arange(size)]
            a, b = np.triu_indices(size, 1)
            keys.append(((members[:, a] << 32) | members[:, b]).ravel())
            units.append(np.full(len(keys[-1]), _share(size), dtype=np.int64))
    all_keys, all_units = np.concatenate(keys), np.concatenate(units)
    order = np.argsort(all_keys)
    return combine_weights([PairWeights(all_keys[order], all_units[order]), PairWeights.empty()])


def _share(size: int) -> int:
    """Return the weight of a pair in a sentence with this many entities, rounded."""
    return (2 * UNIT + size) // (2 * size)


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
        neighbors: IntArray = self.edges.indices[places_of_rows(self.edges, rows)[0]]
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


def places_of_rows(matrix: csr_array, rows: IntArray) -> tuple[NDArray[np.int64], IntArray]:
    """Return the places of the entries of some rows of a sparse matrix, and their numbers."""
    starts = matrix.indptr[rows]
    sizes: IntArray = matrix.indptr[rows + 1] - starts
    return concatenated_ranges(starts, sizes), sizes
