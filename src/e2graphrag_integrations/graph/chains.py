"""Chains of entities: short paths of strong edges between the entities of a question.

The cost of an edge between u and v is `ln(1 + sqrt(df(u) * df(v)) / weight)`, where df is the
number of chunks that mention an entity. An entity that occurs everywhere therefore joins others
only if nothing more specific does. The cost of a chain is the sum of the costs of its edges.
docs/paths.md compares it with another cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.graph.entity_graph import row_entries
from e2graphrag_integrations.graph.visible_graph import VisibleGraph

MAX_HOPS = 3
"""Maximum number of edges in a chain."""

MAX_CHAINS = 10
"""Maximum number of chains for a question."""

_PER_PAIR = 2
"""Maximum number of chains between two entities."""

_MAX_ENDS = 8
"""Maximum number of entities of the question that are joined, rarest first."""

_NEAREST = 200
"""A chain of three edges leads only through this many of the nearest neighbors of each end."""

_DIGITS = 9
"""Costs are compared up to this many decimals, so that the order of sums does not matter."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chain:
    """A path in the entity graph.

    Attributes:
        entities: Entity rows from end to end, all different.
        weights: Weights of the edges between them.
        cost: Cost of the chain; lower is better.
    """

    entities: tuple[int, ...]
    weights: tuple[float, ...]
    cost: float

    @property
    def key(self) -> tuple[float, int, tuple[int, ...]]:
        """The sort key: by cost, then by length and names."""
        return round(self.cost, _DIGITS), len(self.entities), self.entities


def find_chains(graph: VisibleGraph, entities: Sequence[int]) -> list[Chain]:
    """Return the chains that join the entities of a question.

    Two entities that share an edge are joined by it alone. For any other pair, up to two chains of
    at most `MAX_HOPS` edges are found. The best chain of each pair comes before the second ones,
    each in the order of their cost.

    Args:
        graph: The visible entity graph.
        entities: Entity rows, in the order of the question. Entities that no allowed chunk mentions
            are ignored, and so are all but the eight rarest.
    """
    ends = _rarest(graph, entities)
    if len(ends) < 2:  # noqa: PLR2004 - a chain has two ends
        return []
    search = _Search(graph, np.asarray(ends))
    ranked = []
    for first, second in combinations(range(len(ends)), 2):
        found = sorted(search.between(first, second), key=lambda chain: chain.key)
        ranked += list(enumerate(found[:_PER_PAIR]))
    ranked.sort(key=lambda item: (item[0], item[1].key))
    return [chain for _, chain in ranked[:MAX_CHAINS]]


def _rarest(graph: VisibleGraph, entities: Sequence[int]) -> list[int]:
    distinct = np.asarray(list(dict.fromkeys(entities)), dtype=np.int64)
    if not len(distinct):
        return []
    doc_freq = graph.doc_freq(distinct)
    order = [place for place in np.lexsort((distinct, doc_freq)).tolist() if doc_freq[place]]
    return [int(distinct[place]) for place in sorted(order[:_MAX_ENDS])]


class _Search:
    """The edges around the ends, and the chains between pairs of them."""

    def __init__(self, graph: VisibleGraph, ends: IntArray) -> None:
        self._ends = ends
        edges = graph.weights(ends)
        known = np.union1d(ends, edges.indices)
        self._known, self._doc_freq = known, graph.doc_freq(known)
        self._edges = [self._edges_of(edges, place) for place in range(len(ends))]
        near = [
            others[np.lexsort((others, np.round(costs, _DIGITS)))[:_NEAREST]]
            for others, _, costs in self._edges
        ]
        self._middle = np.unique(np.concatenate(near)) if near else ends
        inner = coo_array(graph.weights(self._middle, self._middle))
        self._inner = inner.coords, inner.data, self._inner_costs(inner)
        self._near = [
            self._costs_at_middle(edges, nearest)
            for edges, nearest in zip(self._edges, near, strict=True)
        ]

    def between(self, first: int, second: int) -> Iterator[Chain]:
        """Yield the candidates for the best chains between two ends, given by their places."""
        a, b = int(self._ends[first]), int(self._ends[second])
        rows, weights, costs = self._edges[first]
        other_rows, other_weights, other_costs = self._edges[second]
        for place in np.flatnonzero(rows == b).tolist():
            yield Chain((a, b), (float(weights[place]),), float(costs[place]))
            return  # the sentences that prove a detour often mention both ends, too
        common, here, there = np.intersect1d(
            rows, other_rows, assume_unique=True, return_indices=True
        )
        total = costs[here] + other_costs[there]
        for place in _best(total, common):
            yield Chain(
                (a, int(common[place]), b),
                (float(weights[here[place]]), float(other_weights[there[place]])),
                float(total[place]),
            )
        yield from self._through_two(first, second)

    def _through_two(self, first: int, second: int) -> Iterator[Chain]:
        (left, right), inner_weights, inner_costs = self._inner
        a, b = int(self._ends[first]), int(self._ends[second])
        near, far = self._near[first], self._near[second]
        total = near[0][left] + inner_costs + far[0][right]
        total[(self._middle[left] == b) | (self._middle[right] == a)] = np.inf
        found = np.flatnonzero(np.isfinite(total))
        for place in found[_best(total[found], left[found], right[found])].tolist():
            one, other = int(left[place]), int(right[place])
            yield Chain(
                (a, int(self._middle[one]), int(self._middle[other]), b),
                (float(near[1][one]), float(inner_weights[place]), float(far[1][other])),
                float(total[place]),
            )

    def _edges_of(self, edges: csr_array, place: int) -> tuple[IntArray, Floats, Floats]:
        """Return the other ends of the edges of an end, their weights and their costs."""
        others, weights = row_entries(edges, place)
        own = self._doc_freq_of(self._ends[[place]])
        return others, weights, _cost(own, self._doc_freq_of(others), weights)

    def _inner_costs(self, inner: coo_array) -> Floats:
        left, right = inner.coords
        frequent = self._doc_freq_of(self._middle)
        return _cost(frequent[left], frequent[right], inner.data)

    def _costs_at_middle(
        self, edges: tuple[IntArray, Floats, Floats], nearest: IntArray
    ) -> tuple[Floats, Floats]:
        """Return the cost and the weight of the edge from an end to each entity in the middle."""
        others, weights, costs = edges
        cost, weight = np.full(len(self._middle), np.inf), np.zeros(len(self._middle))
        places = np.searchsorted(self._middle, nearest)
        kept = np.searchsorted(others, nearest)
        cost[places], weight[places] = costs[kept], weights[kept]
        return cost, weight

    def _doc_freq_of(self, entities: IntArray) -> IntArray:
        return self._doc_freq[np.searchsorted(self._known, entities)]


def _cost(doc_freq: IntArray, other_doc_freq: IntArray, weights: Floats) -> Floats:
    frequent = np.sqrt(doc_freq.astype(np.float64) * other_doc_freq)
    costs: Floats = np.log1p(frequent / weights)
    return costs


def _best(costs: Floats, *entities: IntArray) -> list[int]:
    """Return the places of the lowest costs; entities break ties, the first one foremost."""
    keys = (*reversed(entities), np.round(costs, _DIGITS))
    return [int(place) for place in np.lexsort(keys)[:_PER_PAIR]]
