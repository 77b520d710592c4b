"""Path chunks: where the entities between two names of the question meet, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.graph.entity_graph import EntityGraph

_DEPTH = 4
"""Edges of the longest path, as the paper's largest h."""


def path_chunks(graph: EntityGraph, entities: Sequence[int]) -> NDArray[np.float64]:
    """Return a value for each chunk: above 0 along a shortest path between every two entities.

    A chunk is on the path where it holds both ends of one of its edges; its value is one over the
    path's length. Of several shortest paths that of the heaviest edges, seen from the far end, is
    taken.

    Args:
        graph: Of the index.
        entities: Rows; those that only titles name are on no path.
    """
    found = np.zeros(graph.postings.shape[1])
    inside = [entity for entity in entities if entity < len(graph.names)]
    reach = {entity: graph.distances(entity, _DEPTH) for entity in inside}
    for a, b in combinations(inside, 2):
        path = _path(graph, reach[a], b)
        for one, other in pairwise(path):
            shared = np.intersect1d(graph.chunks(one)[0], graph.chunks(other)[0])
            found[shared] = np.maximum(found[shared], 1 / (len(path) - 1))
    return found


def _path(
    graph: EntityGraph, distance: np.ndarray[tuple[int], np.dtype[np.int8]], end: int
) -> list[int]:
    """Return a shortest path from `end` to where the distances begin, empty without one."""
    if distance[end] < 0:
        return []
    path = [end]
    while distance[path[-1]] > 0:
        row = slice(graph.edges.indptr[path[-1]], graph.edges.indptr[path[-1] + 1])
        neighbors, weights = graph.edges.indices[row], graph.edges.data[row]
        nearer = distance[neighbors] == distance[path[-1]] - 1
        path.append(int(neighbors[nearer][np.argmax(weights[nearer])]))
    return path
