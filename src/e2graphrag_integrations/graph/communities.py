"""Communities of the entity graph: hierarchical Leiden, and the chunks that prove a community.

Level 0 is the Leiden partition of the whole graph (Traag et al. 2019, modularity with weights).
Each further level divides every community of more than `MAX_SIZE` entities by the same algorithm on
its own subgraph; the others stay as they are. Every level is therefore a partition of the entities
that have edges, and each community lies within one of the level above.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations.graph.builder import SentenceTable

MAX_SIZE = 30
"""A community with more entities is divided on the next level."""

MIN_ENTITIES = 2
"""Minimum size of a community: a single entity has no edge, and so no chunk under it."""

MAX_SEED = 2**32 - 1
"""Largest seed."""

_NAMESPACE = uuid.UUID("5c52a5a2-2f9b-5e0c-9d3e-5b1f6a0a6f0e")
"""Namespace of the ids of communities."""

_MAX_LEVELS = 20
"""Bound on the number of levels; real graphs have three to six."""

_BATCH = 20_000
"""Number of chunks whose sentences are read at once, which bounds the memory."""

_CACHED = 4
"""Number of levels whose evidence is kept."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The chunks under each community of a level.

    A chunk is under a community if one of its sentences mentions at least two of its entities.
    Such sentences prove the edges of the community.

    Attributes:
        chunks: Weight of each chunk under each community, shape (communities, chunks): the sum
            over its sentences of the weights that they add to the edges of the community.
        strengths: For each entity, the sum of the weights of its edges within its community, over
            all sentences.
    """

    chunks: csr_array
    strengths: Floats


class Communities:
    """The communities of one graph.

    Args:
        labels: For each level, the community of each entity, or -1 for an entity without edges.
            The communities of a level are numbered from 0.
        sentences: The sentences that the graph is built from.
        chunks: Number of chunks.

    Attributes:
        labels: See above.
    """

    def __init__(self, labels: Sequence[IntArray], sentences: SentenceTable, chunks: int) -> None:
        self.labels = labels
        self._sentences = sentences
        self._chunks = chunks

    @cached_method(_MAX_LEVELS)
    def members(self, level: int) -> list[IntArray]:
        """Return the entities of each community of a level, ascending."""
        labels = self.labels[level]
        order = np.argsort(labels, kind="stable")
        count = int(labels.max(initial=-1)) + 1
        bounds = np.searchsorted(labels[order], np.arange(count + 1))
        return [order[start:end] for start, end in pairwise(bounds)]

    @cached_method(_CACHED)
    def evidence(self, level: int) -> Evidence:
        """Return the chunks under the communities of a level."""
        labels = self.labels[level]
        count = int(labels.max(initial=-1)) + 1
        parts, strengths = [], np.zeros(len(labels))
        for first in range(0, self._chunks, _BATCH):
            chunks = np.arange(first, min(first + _BATCH, self._chunks))
            rows = self._sentences.of_chunks(chunks)
            own, entities = _mentions_in_communities(rows.entities, labels)
            # Sentences with several members, as packed pairs of sentence and community.
            keys, inverse, members = np.unique(
                own * np.int64(count) + labels[entities], return_inverse=True, return_counts=True
            )
            sentence, community = keys // max(count, 1), keys % max(count, 1)
            sizes = rows.sizes[sentence]
            strengths += np.bincount(
                entities, ((members - 1) / sizes)[inverse], minlength=len(labels)
            )
            has_edge = members > 1
            weights = (members * (members - 1) / 2 / sizes)[has_edge]
            places = community[has_edge], rows.chunks[sentence[has_edge]]
            parts.append((weights, places))
        weights = np.concatenate([np.empty(0), *(part for part, _ in parts)])
        empty = np.empty(0, dtype=np.int64)
        of_community = np.concatenate([empty, *(rows for _, (rows, _) in parts)])
        of_chunk = np.concatenate([empty, *(columns for _, (_, columns) in parts)])
        table = coo_array((weights, (of_community, of_chunk)), shape=(count, self._chunks)).tocsr()
        table.sum_duplicates()
        return Evidence(table, strengths)


def _mentions_in_communities(
    sentences: csr_array, labels: IntArray
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sentence and the entity of each mention of an entity with a community."""
    own = np.repeat(np.arange(sentences.shape[0]), np.diff(sentences.indptr))
    kept = labels[sentences.indices] >= 0
    return own[kept].astype(np.int64), sentences.indices[kept].astype(np.int64)


def find_communities(edges: csr_array, seed: int = 0) -> list[IntArray]:
    """Return the labels of the entities on each level; see `Communities`.

    The labels depend only on the edges and the seed. A community is connected by its own edges.
    The communities of a level are numbered by size, the largest first; ties go to the one with the
    first entity.

    Args:
        edges: Symmetric weights, shape (entities, entities).
        seed: Seed of the random order in which Leiden moves entities.
    """
    labels = np.full(edges.shape[0], -1, dtype=np.int64)
    connected = np.flatnonzero(np.diff(edges.indptr))
    if not len(connected):
        return [labels]
    labels[connected] = _partition(edges[connected][:, connected], seed)
    levels = [_numbered(labels)]
    while len(levels) < _MAX_LEVELS:
        finer = _divided(levels[-1], edges, seed)
        if finer is None:
            break
        levels.append(_numbered(finer))
    return levels


def community_id(names: Sequence[str]) -> str:
    """Return the id of a community with these entities, given in alphabetical order."""
    return str(uuid.uuid5(_NAMESPACE, "\0".join(names)))


def _divided(labels: IntArray, edges: csr_array, seed: int) -> IntArray | None:
    """Return labels in which large communities are divided, or None if none can be."""
    finer, unused = labels.copy(), int(labels.max()) + 1
    for members in _large(labels):
        parts = _partition(edges[members][:, members], seed)
        if parts.max() > 0:
            finer[members] = parts + unused
            unused += int(parts.max()) + 1
    return finer if unused > int(labels.max()) + 1 else None


def _large(labels: IntArray) -> Iterator[IntArray]:
    """Yield the entities of each community that is divided."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels[labels >= 0])
    bounds = exclusive_sums(counts) + int((labels < 0).sum())
    for label in np.flatnonzero(counts > MAX_SIZE).tolist():
        yield order[bounds[label] : bounds[label + 1]]


def _partition(edges: csr_array, seed: int) -> NDArray[np.int64]:
    """Return the Leiden community of each entity of a graph, numbered from 0."""
    from graspologic_native import leiden_csr

    size = edges.shape[0]
    _, of_entity = leiden_csr(
        edges.indptr.astype(np.int64),
        edges.indices.astype(np.int32),
        edges.data.astype(np.float64),
        size,
        seed=seed,
    )
    labels = np.fromiter((of_entity[row] for row in range(size)), np.int64, size)
    # Leiden guarantees connected communities; this makes it independent of the library.
    ends = np.repeat(labels, np.diff(edges.indptr)), labels[edges.indices]
    inner = csr_array(
        ((ends[0] == ends[1]).astype(np.int8), edges.indices, edges.indptr), shape=edges.shape
    )
    inner.eliminate_zeros()
    parts: NDArray[np.int64] = connected_components(inner, directed=False)[1].astype(np.int64)
    return parts


def _numbered(labels: IntArray) -> IntArray:
    """Number the communities by size, the largest first; ties go to the first entity."""
    known = labels >= 0
    old, first, inverse, counts = np.unique(
        labels[known], return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(len(old), dtype=np.int64)
    rank[np.lexsort((first, -counts))] = np.arange(len(old))
    numbered = np.full(len(labels), -1, dtype=np.int64)
    numbered[known] = rank[inverse]
    return numbered
