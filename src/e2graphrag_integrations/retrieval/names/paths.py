"""Path chunks: chunks along the shortest paths between the entities of a query."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.graph.entity_graph import EntityGraph, row_entries

_MAX_EDGES = 4
"""Maximum number of edges in a path: the largest h in the paper (arXiv 2505.24226)."""


def path_closeness(graph: EntityGraph, entities: Sequence[int]) -> NDArray[np.float64]:
    """Return how closely each chunk connects two of the entities.

    A chunk is on a path if it mentions both ends of one of the path's edges. Its closeness is 1
    divided by the number of edges in that path, or 0 if it is on no path. If a chunk is on several
    paths, the shortest one is used. If two entities are connected by several shortest paths, only
    the one that follows the heaviest edge at each step back from the second entity is used.

    Args:
        graph: The entity graph.
        entities: Entity rows. Entities that occur only as titles are ignored, because the graph
            does not contain them.

    Returns:
        Closeness in [0, 1], shape (chunks,).
    """
    closeness = np.zeros(graph.postings.shape[1])
    in_graph = [entity for entity in entities if entity < len(graph.names)]
    distances = {entity: graph.distances(entity, _MAX_EDGES) for entity in in_graph}
    for a, b in combinations(in_graph, 2):
        path = _shortest_path(graph, distances[a], b)
        for one, other in pairwise(path):
            shared = np.intersect1d(graph.chunks(one)[0], graph.chunks(other)[0])
            closeness[shared] = np.maximum(closeness[shared], 1 / (len(path) - 1))
    return closeness


def _shortest_path(graph: EntityGraph, distances: NDArray[np.int8], end: int) -> list[int]:
    """Return a shortest path from `end` back to the entity at distance 0; empty if none exists.

    See `EntityGraph.distances`.
    """
    if distances[end] < 0:
        return []
    path = [end]
    while distances[path[-1]] > 0:
        neighbors, weights = row_entries(graph.edges, path[-1])
        closer = distances[neighbors] == distances[path[-1]] - 1
        path.append(int(neighbors[closer][np.argmax(weights[closer])]))
    return path
