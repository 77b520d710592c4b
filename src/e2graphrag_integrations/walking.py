"""Personalised PageRank between entities and chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from e2graphrag_integrations.graph import EntityGraph, IntArray
from e2graphrag_integrations.lazy import lazy
from e2graphrag_integrations.titles import Subjects

_FLOOR = 1e-6
"""Keeps an entity that all chunks hold from weighing nothing."""

_TITLE_MENTIONS = 3
"""A title counts as so many mentions in each chunk under it: ln(1 + 3) = 2 ln(1 + 1), so a document
about an entity weighs twice one that mentions it once."""

FloatVector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EntityWalk:
    """The steps of a walk: from chunks to the entities in them, and back.

    Attributes:
        to_entities: Weights of each chunk's entities, sum 1, shape (chunks, entities).
        to_chunks: Weights of each entity's chunks, sum 1, shape (entities, chunks).
        of_entity: The chunks that hold each entity, shape (entities, chunks).
    """

    to_entities: csr_array
    to_chunks: csr_array
    of_entity: csr_array

    @classmethod
    def of(cls, graph: EntityGraph, subjects: Subjects, document_of_chunk: IntArray) -> EntityWalk:
        """Return the walk on a graph: W[c, e] = ln(1 + tf) (ln((N + 1) / (df + 1)) + 1e-6).

        Args:
            graph: Whose postings are walked on.
            subjects: Whose titles count as mentions in all chunks of their documents.
            document_of_chunk: The document of each chunk.
        """
        counts = _counts(graph, subjects, document_of_chunk)
        chunks, entities = counts.shape
        held = np.bincount(counts.indices, minlength=entities)
        idf = np.log((chunks + 1) / (held + 1)) + _FLOOR
        weights = counts.copy()
        weights.data = np.log1p(counts.data) * idf[counts.indices]
        by_chunk = np.asarray(weights.sum(axis=1)).ravel()
        by_entity = np.asarray(weights.sum(axis=0)).ravel()
        return cls(
            (diags_array(1 / np.where(by_chunk > 0, by_chunk, 1)) @ weights).tocsr(),
            (weights @ diags_array(1 / np.where(by_entity > 0, by_entity, 1))).T.tocsr(),
            counts.T.tocsr(),
        )

    @property
    def held(self) -> IntArray:
        """Return how many chunks hold each entity."""
        held: IntArray = np.diff(self.of_entity.indptr)
        return held

    def chunks_of(self, entity: int) -> IntArray:
        """Return the chunks that hold an entity, or lie under it as their title."""
        row = slice(self.of_entity.indptr[entity], self.of_entity.indptr[entity + 1])
        chunks: IntArray = self.of_entity.indices[row]
        return chunks

    def entities_of(self, chunk: int) -> IntArray:
        """Return the entities that a chunk holds, its document's title among them."""
        row = slice(self.to_entities.indptr[chunk], self.to_entities.indptr[chunk + 1])
        entities: IntArray = self.to_entities.indices[row]
        return entities

    def rank(
        self, seeds: Mapping[int, float], *, damping: float = 0.5, steps: int = 10
    ) -> FloatVector:
        """Return each chunk's share of a walk that starts over at the seeds.

        p <- Wcol e; e <- (1 - d) r + d Wrow^T p (retrieval note D.5, HippoRAG 2's damping).

        Args:
            seeds: Weights of the entities to start from.
            damping: Share of the walk that goes on.
            steps: Rounds.
        """
        start = np.zeros(self.to_chunks.shape[0])
        start[list(seeds)] = list(seeds.values())
        start /= start.sum()
        # Transposed once: the steps are many and short.
        from_entities, from_chunks = self._transposed
        entities = start
        chunks: FloatVector = np.zeros(self.to_chunks.shape[1])
        for step in range(steps):
            chunks = from_entities @ entities
            if step < steps - 1:
                entities = (1 - damping) * start + damping * (from_chunks @ chunks)
        return chunks

    @lazy
    def _transposed(self) -> tuple[csr_array, csr_array]:
        return self.to_chunks.T.tocsr(), self.to_entities.T.tocsr()


def _counts(graph: EntityGraph, subjects: Subjects, document_of_chunk: IntArray) -> csr_array:
    """Return how often each chunk mentions each entity, titles counted in."""
    mentions = graph.postings.T.tocoo()
    titles = subjects.of_document[document_of_chunk]
    titled = np.flatnonzero(titles >= 0)
    counts = coo_array(
        (
            np.concatenate([mentions.data, np.full(len(titled), _TITLE_MENTIONS)]).astype(float),
            (
                np.concatenate([mentions.row, titled]),
                np.concatenate([mentions.col, titles[titled]]),
            ),
        ),
        shape=(graph.postings.shape[1], len(subjects.names)),
    ).tocsr()
    counts.sum_duplicates()
    return counts
