"""Personalized PageRank on the bipartite graph of entities and chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from e2graphrag_integrations._utils.arrays import (
    IntArray,
    concatenated_ranges,
    smallest_int_type,
    sorted_union,
    sum_by_key,
    unique_inverse,
)
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.graph.entity_graph import EntityGraph, places_of_rows, row_entries
from e2graphrag_integrations.graph.subjects import Subjects

_MIN_IDF = 1e-6
"""Added to every idf, so that an entity in all chunks still has a positive weight."""

_TITLE_MENTIONS = 3
"""Number of mentions that a document's title adds to each of its chunks. ln(1 + 3) = 2 ln(1 + 1),
so the title's entity has twice the weight of an entity that the chunk mentions once."""

_HEADING_MENTIONS = 1
"""Number of mentions that the heading of a section adds to each of its chunks."""

_EXACT_LIMIT = 20_000
"""Maximum number of chunks for which each iteration covers the whole graph. In a larger index, it
covers only a subgraph."""

_MATRIX_LIMIT = 500
"""Maximum number of chunks for which an iteration is one product with a dense chunk-by-chunk matrix
(2 MB)."""

_EDGE_BUDGETS = (20_000, 3_000, 1_000)
"""Maximum number of entity-chunk edges followed in each expansion of the subgraph. An expansion
always follows at least one entity. Among the seeds, the budget drops only entities that occur in a
large fraction of all chunks, and their weight is close to zero anyway. docs/benchmark_details.md
reports the recall relative to the exact ranking."""

_CHUNK_BUDGET = 2_000
"""Maximum number of chunks that each expansion adds to the subgraph."""

_FILTER_EDGE_FACTOR, _FILTER_CHUNK_FACTOR = 4, 2
"""Multipliers for the edge and chunk budgets under a metadata filter: matching chunks tend to lie
further from the seeds."""

_SCORE_ALL_FACTOR = 5
"""If a filter matches at most this many times `exact_limit` chunks, every matching chunk is scored
after the last iteration, including those outside the subgraph."""

_EPSILON = 1e-9
"""Lower bound for a divisor, so that it is never zero."""

FloatVector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PersonalizedPageRank:
    """Ranks chunks by personalized PageRank from a query's entities.

    Attributes:
        chunk_entities: Weight of each entity in each chunk, shape (chunks, entities).
        entity_chunks: The transpose, shape (entities, chunks).
        exact_limit: Maximum number of chunks for which each iteration covers the whole graph.
        known_sums, known_returns: The values of `sums` and `return_probability`, if they were
            computed before.
    """

    chunk_entities: csr_array
    entity_chunks: csr_array
    exact_limit: int = _EXACT_LIMIT
    known_sums: tuple[FloatVector, FloatVector] | None = None
    known_returns: FloatVector | None = None

    @classmethod
    def from_graph(cls, graph: EntityGraph, entities: Subjects, chunk_documents: IntArray) -> Self:
        """Return the ranker with weights W[c, e] = ln(1 + tf) (ln((N + 1) / (df + 1)) + 1e-6).

        Args:
            graph: Provides the mention counts.
            entities: The graph's entities and titles. A title counts as mentions in each chunk of
                its document.
            chunk_documents: The document of each chunk, shape (chunks,).
        """
        weights = _mention_counts(graph, entities, chunk_documents)
        doc_freq = np.diff(weights.indptr)
        idf = np.log((weights.shape[1] + 1) / (doc_freq + 1)) + _MIN_IDF
        weights.data = np.log1p(weights.data) * np.repeat(idf, doc_freq)
        return cls(weights.T.tocsr(), weights)

    @lazy
    def doc_freq(self) -> IntArray:
        """The number of chunks that `chunks_of` returns for each entity, shape (entities,)."""
        return np.asarray(np.diff(self.entity_chunks.indptr))

    def chunks_of(self, entity: int) -> IntArray:
        """Return the chunks that mention an entity or have it as their title, ascending."""
        return row_entries(self.entity_chunks, entity)[0]

    def mentions_at(self, entries: IntArray, entities: IntArray) -> FloatVector:
        """Return the mention counts behind entries of `entity_chunks`, shape (entries,).

        They are recovered from the weights of `from_graph`; a title counts as three.

        Args:
            entries: Positions in `entity_chunks.data`.
            entities: The entity of each.
        """
        idf = np.log((self.chunk_entities.shape[0] + 1) / (self.doc_freq[entities] + 1)) + _MIN_IDF
        return np.asarray(np.expm1(self.entity_chunks.data[entries] / idf))

    def entities_of(self, chunk: int) -> IntArray:
        """Return the entities in a chunk, including its document's title."""
        return row_entries(self.chunk_entities, chunk)[0]

    def rank(
        self,
        seeds: Mapping[int, float],
        *,
        damping: float = 0.5,
        n_iter: int = 10,
        allowed: NDArray[np.bool_] | None = None,
    ) -> tuple[IntArray, FloatVector]:
        """Return the chunks reached from the seeds and their scores.

        Iterates p <- Wcol e; e <- (1 - d) r + d Wrow^T p with HippoRAG 2's damping (retrieval note
        D.5). In a large graph, the iteration covers a subgraph that grows from the seeds,
        following the entities with the highest probability per chunk first, as in Andersen,
        Chung and Lang (2006).

        Args:
            seeds: Weights of the entities to start from.
            damping: Probability of continuing instead of restarting at the seeds.
            n_iter: Number of iterations.
            allowed: Mask over the chunks to return; None returns all. Probability still flows
                through the others.

        Returns:
            Chunks, ascending, and the score of each. Without a subgraph, the scores of all chunks
            sum to 1.
        """
        entities = np.asarray(list(seeds), dtype=np.int64)
        weights = np.asarray(list(seeds.values()), dtype=np.float64)
        weights /= weights.sum()
        if self.chunk_entities.shape[0] > self.exact_limit:
            return self._rank_in_subgraph(entities, weights, damping, n_iter, allowed)
        scores = self._iterate_exact(entities, weights, damping, n_iter)
        reached = np.flatnonzero(scores if allowed is None else scores * allowed)
        return reached, scores[reached]

    @lazy
    def sums(self) -> tuple[FloatVector, FloatVector]:
        """The total weight of each chunk and of each entity; totals of 0 are replaced by 1."""
        if self.known_sums is not None:
            return self.known_sums
        chunk_sums = np.asarray(self.chunk_entities.sum(axis=1)).ravel()
        entity_sums = np.asarray(self.chunk_entities.sum(axis=0)).ravel()
        return np.where(chunk_sums > 0, chunk_sums, 1), np.where(entity_sums > 0, entity_sums, 1)

    @lazy
    def return_probability(self) -> FloatVector:
        """The probability of returning from a chunk to itself through one entity, per chunk."""
        if self.known_returns is not None:
            return self.known_returns
        chunk_sums, entity_sums = self.sums
        matrix = self.chunk_entities
        squares = csr_array((matrix.data**2, matrix.indices, matrix.indptr), shape=matrix.shape)
        probability: FloatVector = (squares @ (1 / entity_sums)) / chunk_sums
        return probability

    @lazy
    def _transitions(self) -> FloatVector | None:
        """The transition probabilities between chunks through entities; None in a large graph.

        One product with this matrix replaces the two products of an iteration.
        """
        if self.chunk_entities.shape[0] > _MATRIX_LIMIT:
            return None
        chunk_sums, entity_sums = self.sums
        weights = self.chunk_entities @ diags_array(1 / entity_sums) @ self.entity_chunks
        transitions: FloatVector = weights.toarray() / chunk_sums
        return transitions

    def _iterate_exact(
        self, entities: IntArray, weights: FloatVector, damping: float, n_iter: int
    ) -> FloatVector:
        """Return the score of every chunk, iterating over the whole graph."""
        chunk_sums, entity_sums = self.sums
        first = np.zeros(len(chunk_sums))
        for entity, flow in zip(entities, weights / entity_sums[entities], strict=True):
            chunks, entity_weights = row_entries(self.entity_chunks, entity)
            first[chunks] += entity_weights * flow
        restart, transitions = (1 - damping) * first, self._transitions
        scores = first
        for _ in range(n_iter - 1):
            if transitions is not None:
                propagated = transitions @ scores
            else:
                propagated = self.chunk_entities @ (
                    (self.entity_chunks @ (scores / chunk_sums)) / entity_sums
                )
            scores = restart + damping * propagated
        return scores

    def _rank_in_subgraph(
        self,
        seeds: IntArray,
        weights: FloatVector,
        damping: float,
        n_iter: int,
        allowed: NDArray[np.bool_] | None,
    ) -> tuple[IntArray, FloatVector]:
        chunks = self._grow_subgraph(seeds, weights, damping, allowed)
        rows = self.chunk_entities[chunks]
        n_entities = self.chunk_entities.shape[1]
        entities, columns = unique_inverse(np.concatenate([rows.indices, seeds]), n_entities)
        local = csr_array(
            (rows.data, columns[: rows.nnz], rows.indptr), shape=(len(chunks), len(entities))
        )
        local_transposed = local.T
        chunk_sums, entity_sums = self.sums[0][chunks], self.sums[1][entities]
        restart = np.zeros(len(entities))
        restart[columns[rows.nnz :]] = weights
        flow = restart / entity_sums  # probability that each entity sends per unit of weight
        for _ in range(n_iter - 1):
            returned = local_transposed @ ((local @ flow) / chunk_sums)
            flow = ((1 - damping) * restart + damping * returned) / entity_sums
        if allowed is not None and allowed.sum() <= _SCORE_ALL_FACTOR * self.exact_limit:
            # Most of the subgraph may be filtered out, and matching chunks may lie outside it.
            chunks = np.flatnonzero(allowed)
            all_flow = np.zeros(n_entities)
            all_flow[entities] = flow
            scores = self.chunk_entities[chunks] @ all_flow
        else:
            scores = local @ flow if allowed is None else (local @ flow) * allowed[chunks]
        return chunks[scores > 0], scores[scores > 0]

    def _grow_subgraph(
        self,
        entities: IntArray,
        weights: FloatVector,
        damping: float,
        allowed: NDArray[np.bool_] | None,
    ) -> IntArray:
        """Return the chunks of the subgraph that grows from the seeds, ascending."""
        edge_factor = 1 if allowed is None else _FILTER_EDGE_FACTOR
        max_chunks = _CHUNK_BUDGET * (1 if allowed is None else _FILTER_CHUNK_FACTOR)
        reached = []
        for expansion, max_edges in enumerate(_EDGE_BUDGETS, 1):
            entities, weights = self._within_edge_budget(entities, weights, edge_factor * max_edges)
            chunks, scores = self.expand(entities, weights, max_chunks, damping, allowed)
            reached.append(chunks)
            if expansion < len(_EDGE_BUDGETS):
                entities, weights = self.spread(chunks, scores)
        return sorted_union(*reached)

    def expand(
        self,
        entities: IntArray,
        weights: FloatVector,
        max_chunks: int,
        damping: float,
        allowed: NDArray[np.bool_] | None,
    ) -> tuple[IntArray, FloatVector]:
        """Return the best chunks of some entities, ascending, and the weight that reaches each.

        Args:
            entities: The entities.
            weights: Their weights.
            max_chunks: Maximum number of chunks, and of allowed chunks.
            damping: As for `rank`.
            allowed: As for `rank`.
        """
        flow = weights / self.sums[1][entities]
        chunks, scores = _propagate(self.entity_chunks, entities, flow)
        if len(chunks) <= max_chunks:
            return chunks, scores
        top = self._top_chunks(chunks, scores, damping, max_chunks, allowed)
        # Rescale, so that the probability of the dropped chunks is not lost.
        return chunks[top], scores[top] * (scores.sum() / scores[top].sum())

    def spread(self, chunks: IntArray, scores: FloatVector) -> tuple[IntArray, FloatVector]:
        """Return the entities in some chunks, ascending, and the weight that reaches each."""
        flow = scores / self.sums[0][chunks]
        return _propagate(self.chunk_entities, chunks, flow)

    def _within_edge_budget(
        self, entities: IntArray, weights: FloatVector, max_edges: int
    ) -> tuple[IntArray, FloatVector]:
        """Return the entities with the most weight per chunk that fit the budget; at least one."""
        degrees = np.maximum(self.doc_freq[entities], 1)
        priority = weights / degrees
        candidates = np.arange(len(priority))
        if len(priority) > max_edges:  # each entity has at least one edge
            candidates = np.sort(np.argpartition(-priority, max_edges)[:max_edges])
        order = candidates[np.argsort(-priority[candidates], kind="stable")]
        edges = np.cumsum(degrees[order])
        top = order[: max(1, int(np.searchsorted(edges, max_edges, side="right")))]
        return entities[top], weights[top]

    def _top_chunks(
        self,
        chunks: IntArray,
        scores: FloatVector,
        damping: float,
        max_chunks: int,
        allowed: NDArray[np.bool_] | None,
    ) -> IntArray:
        """Return the positions of the chunks with the highest predicted final scores.

        Under a filter, the best matching chunks are returned in addition to the best of all chunks.

        Initially, a frequent entity gives all its chunks about the same score. The final score is
        predicted from the return probability r alone: p = (1 - d) first + d r p.
        """
        predicted = scores / np.maximum(1 - damping * self.return_probability[chunks], _EPSILON)
        top = _largest(predicted, max_chunks)
        if allowed is None:
            return np.sort(top)
        matching = np.flatnonzero(allowed[chunks])
        return sorted_union(top, matching[_largest(predicted[matching], max_chunks)])


def _largest(values: FloatVector, count: int) -> IntArray:
    """Return the positions of the largest values, unordered."""
    if len(values) <= count:
        return np.arange(len(values))
    positions: IntArray = np.argpartition(values, -count)[-count:]
    return positions


def _propagate(
    matrix: csr_array, rows: IntArray, flow: FloatVector
) -> tuple[IntArray, FloatVector]:
    """Return the columns reached from weighted rows, ascending, and the weighted sum at each."""
    edges, sizes = places_of_rows(matrix, rows)
    weighted = matrix.data[edges] * np.repeat(flow, sizes)
    return sum_by_key(matrix.indices[edges], weighted, matrix.shape[1])


def _mention_counts(graph: EntityGraph, entities: Subjects, chunk_documents: IntArray) -> csr_array:
    """Return the mentions of each entity in each chunk, including titles and headings.

    The shape is (entities, chunks).
    """
    postings = graph.postings
    shape = len(entities.names), postings.shape[1]
    more = np.full(shape[0] - postings.shape[0], postings.indptr[-1], postings.indptr.dtype)
    bounds = np.concatenate([postings.indptr, more])  # subjects without mentions are last
    in_texts = csr_array((postings.data.astype(float), postings.indices, bounds), shape=shape)
    # Every chunk of a document mentions each name of the document's subject.
    first = np.searchsorted(entities.documents_of_entities, chunk_documents)
    sizes = np.searchsorted(entities.documents_of_entities, chunk_documents, side="right") - first
    titled = np.repeat(np.arange(len(chunk_documents)), sizes)
    titles = entities.entities[concatenated_ranges(first, sizes)]
    in_sections = np.full(len(entities.section_chunks), _HEADING_MENTIONS)
    rows = np.concatenate([titles, entities.section_entities])
    columns = np.concatenate([titled, entities.section_chunks])
    values = np.concatenate([np.full(len(titled), _TITLE_MENTIONS), in_sections]).astype(float)
    index_type = smallest_int_type(max(*shape, len(rows), len(postings.indices)))
    coordinates = rows.astype(index_type), columns.astype(index_type)
    as_subjects = coo_array((values, coordinates), shape=shape).tocsr()
    as_subjects.sum_duplicates()
    return in_texts + as_subjects
