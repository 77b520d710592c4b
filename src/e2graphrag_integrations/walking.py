"""Personalised PageRank between entities and chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from e2graphrag_integrations.graph import EntityGraph

_FLOOR = 1e-6
"""Keeps an entity that all chunks hold from weighing nothing."""

FloatVector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EntityWalk:
    """The steps of a walk: from chunks to the entities in them, and back.

    Attributes:
        to_entities: Weights of each chunk's entities, sum 1, shape (chunks, entities).
        to_chunks: Weights of each entity's chunks, sum 1, shape (chunks, entities).
    """

    to_entities: csr_array
    to_chunks: csr_array

    @classmethod
    def of(cls, graph: EntityGraph) -> EntityWalk:
        """Return the walk on a graph: W[c, e] = ln(1 + tf) (ln((N + 1) / (df + 1)) + 1e-6)."""
        counts = graph.postings.T.tocsr().astype(np.float64)
        chunks = counts.shape[0]
        held = np.diff(graph.postings.indptr)
        idf = np.log((chunks + 1) / (held + 1)) + _FLOOR
        weights = counts.copy()
        weights.data = np.log1p(counts.data) * idf[counts.indices]
        by_chunk = np.asarray(weights.sum(axis=1)).ravel()
        by_entity = np.asarray(weights.sum(axis=0)).ravel()
        return cls(
            (diags_array(1 / np.where(by_chunk > 0, by_chunk, 1)) @ weights).tocsr(),
            (weights @ diags_array(1 / np.where(by_entity > 0, by_entity, 1))).tocsr(),
        )

    def rank(
        self, seeds: Mapping[int, float], *, damping: float = 0.5, steps: int = 20
    ) -> FloatVector:
        """Return each chunk's share of a walk that starts over at the seeds.

        p <- Wcol e; e <- (1 - d) r + d Wrow^T p (retrieval note D.5, HippoRAG 2's damping).

        Args:
            seeds: Weights of the entities to start from.
            damping: Share of the walk that goes on.
            steps: Rounds.
        """
        start = np.zeros(self.to_entities.shape[1])
        for entity, weight in seeds.items():
            start[entity] = weight
        start /= start.sum()
        entities = start
        chunks: FloatVector = np.zeros(self.to_chunks.shape[0])
        for _ in range(steps):
            chunks = self.to_chunks @ entities
            entities = (1 - damping) * start + damping * (self.to_entities.T @ chunks)
        return chunks
