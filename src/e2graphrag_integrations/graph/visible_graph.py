"""The entity graph of the chunks that a filter allows, computed only around given entities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.graph.builder import SentenceTable
from e2graphrag_integrations.graph.entity_graph import EntityGraph

_MAX_READ = 50_000
"""Maximum number of chunks whose sentences are read without a filter. If the entities occur in
more, the edges of the graph are used, which lack the lightest edges of very frequent entities."""


class VisibleGraph:
    """Edges that sentences in allowed chunks prove; it equals the graph of an index of only these.

    Args:
        graph: The graph of all chunks.
        sentences: Returns the sentences of all chunks.
        allowed: Mask of the allowed chunks, shape (chunks,); None allows all.
    """

    def __init__(
        self,
        graph: EntityGraph,
        sentences: Callable[[], SentenceTable],
        allowed: NDArray[np.bool_] | None,
    ) -> None:
        self.graph = graph
        self.allowed = allowed
        self._sentences = sentences

    def doc_freq(self, entities: IntArray) -> IntArray:
        """Return the number of allowed chunks that mention each entity."""
        bounds = self.graph.postings.indptr
        if self.allowed is None:
            counts: IntArray = bounds[entities + 1] - bounds[entities]
            return counts
        chunks = self.graph.postings[entities]
        return np.asarray(csr_array(chunks > 0) @ self.allowed.astype(np.int64))

    def chunks_of(self, entities: IntArray) -> IntArray:
        """Return the allowed chunks that mention at least one of the entities, ascending."""
        chunks: IntArray = np.unique(self.graph.postings[entities].indices)
        return chunks if self.allowed is None else chunks[self.allowed[chunks]]

    def weights(self, entities: IntArray, others: IntArray | None = None) -> csr_array:
        """Return the weights of the edges of entities.

        Args:
            entities: Entity rows.
            others: Entity rows at the other ends of the edges; None means all entities.

        Returns:
            Weights, shape (entities, others), without explicit zeros.
        """
        if self.allowed is None and self.doc_freq(entities).sum() > _MAX_READ:
            edges = self.graph.edges[entities]
            return edges if others is None else edges[:, others]
        rows = self._sentences().of_chunks(self.chunks_of(entities))
        members = rows.entities[:, entities].T.tocsr()
        members.data /= rows.sizes[members.indices]
        found = csr_array(members @ (rows.entities if others is None else rows.entities[:, others]))
        ends = np.arange(found.shape[1]) if others is None else others
        row_of = np.repeat(np.arange(len(entities)), np.diff(found.indptr))
        found.data[entities[row_of] == ends[found.indices]] = 0.0
        found.eliminate_zeros()
        found.sort_indices()
        return found
