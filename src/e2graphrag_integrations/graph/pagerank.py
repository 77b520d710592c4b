"""Personalized PageRank between entities and chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.titles import TitledEntities

_FLOOR = 1e-6
"""Keeps an entity that all chunks hold from weighing nothing."""

_TITLE_MENTIONS = 3
"""A title counts as so many mentions in each chunk under it: ln(1 + 3) = 2 ln(1 + 1), so a document
about an entity weighs twice one that mentions it once."""

_EXACT = 20_000
"""Up to so many chunks every step goes over the whole graph; beyond, over the part that matters."""

_DENSE = 500
"""Chunks up to which a step is one product with a matrix of chunks by chunks, 2 MB of it."""

_LINKS = (20_000, 3_000, 1_000)
"""Links from entities to chunks that the part grows by, time after time, of one entity at least.
Of the question's names only those that a large
share of all chunks hold are ever left out, which the gate leaves next to no weight. Recall of the
exact walk's best is in docs/benchmarks.md."""

_KEPT = 2_000
"""Chunks that the part grows by at most."""

_FARTHER = 4, 2
"""So many times the links, and the chunks, where not all chunks may be seen: the best of those that
may are farther from the names."""

_WEIGHED = 5
"""Where not all chunks may be seen, those that may are all weighed when the walk has ended, up to
so many times the chunks that exact steps go over."""

_LEAST = 1e-9
"""Keeps what is divided by above nothing."""

FloatVector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PersonalizedPageRank:
    """Where a walk from chunks to the entities in them, and back, may go.

    Attributes:
        by_chunk: Weight of each entity in each chunk, shape (chunks, entities).
        by_entity: The same by entities, shape (entities, chunks).
        exact: Chunks up to which every step goes over the whole graph.
    """

    by_chunk: csr_array
    by_entity: csr_array
    exact: int = _EXACT

    @classmethod
    def of(
        cls, graph: EntityGraph, subjects: TitledEntities, document_of_chunk: IntArray
    ) -> PersonalizedPageRank:
        """Return the walk on a graph: W[c, e] = ln(1 + tf) (ln((N + 1) / (df + 1)) + 1e-6).

        Args:
            graph: Whose postings are walked on.
            subjects: Whose titles count as mentions in all chunks of their documents.
            document_of_chunk: The document of each chunk.
        """
        weights = _counts(graph, subjects, document_of_chunk)
        chunks, entities = weights.shape
        held = np.bincount(weights.indices, minlength=entities)
        idf = np.log((chunks + 1) / (held + 1)) + _FLOOR
        weights.data = np.log1p(weights.data) * idf[weights.indices]
        return cls(weights, weights.T.tocsr())

    @lazy
    def held(self) -> IntArray:
        """Return how many chunks hold each entity."""
        held: IntArray = np.diff(self.by_entity.indptr)
        return held

    @lazy
    def _sums(self) -> tuple[FloatVector, FloatVector]:
        """Return the weights of all entities of each chunk, and of all chunks of each entity."""
        of_chunk = np.asarray(self.by_chunk.sum(axis=1)).ravel()
        of_entity = np.asarray(self.by_chunk.sum(axis=0)).ravel()
        return np.where(of_chunk > 0, of_chunk, 1), np.where(of_entity > 0, of_entity, 1)

    @lazy
    def _returned(self) -> FloatVector:
        """Return the share of what a chunk gives to its entities that comes straight back."""
        of_chunk, of_entity = self._sums
        squares = csr_array(
            (self.by_chunk.data**2, self.by_chunk.indices, self.by_chunk.indptr),
            shape=self.by_chunk.shape,
        )
        returned: FloatVector = (squares @ (1 / of_entity)) / of_chunk
        return returned

    def chunks_of(self, entity: int) -> IntArray:
        """Return the chunks that hold an entity, or lie under it as their title."""
        row = slice(self.by_entity.indptr[entity], self.by_entity.indptr[entity + 1])
        chunks: IntArray = self.by_entity.indices[row]
        return chunks

    def entities_of(self, chunk: int) -> IntArray:
        """Return the entities that a chunk holds, its document's title among them."""
        row = slice(self.by_chunk.indptr[chunk], self.by_chunk.indptr[chunk + 1])
        entities: IntArray = self.by_chunk.indices[row]
        return entities

    def rank(
        self,
        seeds: Mapping[int, float],
        *,
        damping: float = 0.5,
        steps: int = 10,
        seen: NDArray[np.bool_] | None = None,
    ) -> tuple[IntArray, FloatVector]:
        """Return the chunks that a walk comes to that starts over at the seeds, and their shares.

        p <- Wcol e; e <- (1 - d) r + d Wrow^T p (retrieval note D.5, HippoRAG 2's damping). In a
        large graph the walk keeps to a part that is grown from the seeds by the entities that have
        most for each of their chunks, as in Andersen, Chung and Lang (2006).

        Args:
            seeds: Weights of the entities to start from.
            damping: Share of the walk that goes on.
            steps: Rounds.
            seen: Mask over the chunks that are of use; the walk goes through all. None: all are.

        Returns:
            Chunks, ascending, and the share of each.
        """
        entities = np.asarray(list(seeds), dtype=np.int64)
        weights = np.asarray(list(seeds.values()), dtype=np.float64)
        weights /= weights.sum()
        if self.by_chunk.shape[0] > self.exact:
            return self._in_part(entities, weights, damping, steps, seen)
        chunks = self._stepped(entities, weights, damping, steps)
        reached = np.flatnonzero(chunks if seen is None else chunks * seen)
        return reached, chunks[reached]

    def _stepped(
        self, entities: IntArray, weights: FloatVector, damping: float, steps: int
    ) -> FloatVector:
        of_chunk, of_entity = self._sums
        first = np.zeros(len(of_chunk))
        for entity, given in zip(entities, weights / of_entity[entities], strict=True):
            row = slice(self.by_entity.indptr[entity], self.by_entity.indptr[entity + 1])
            first[self.by_entity.indices[row]] += self.by_entity.data[row] * given
        anew, between = (1 - damping) * first, self._between
        chunks = first
        for _ in range(steps - 1):
            if between is not None:
                further = between @ chunks
            else:
                further = self.by_chunk @ ((self.by_entity @ (chunks / of_chunk)) / of_entity)
            chunks = anew + damping * further
        return chunks

    @lazy
    def _between(self) -> FloatVector | None:
        """Return what goes from each chunk to each through the entities of both, if they are few.

        One product with it then stands for the two of a step.
        """
        if self.by_chunk.shape[0] > _DENSE:
            return None
        of_chunk, of_entity = self._sums
        shares = self.by_chunk @ diags_array(1 / of_entity) @ self.by_entity
        between: FloatVector = shares.toarray() / of_chunk
        return between

    def _in_part(
        self,
        entities: IntArray,
        weights: FloatVector,
        damping: float,
        steps: int,
        seen: NDArray[np.bool_] | None,
    ) -> tuple[IntArray, FloatVector]:
        chunks, rows = self._part(entities, weights, damping, seen)
        held, places = unique_inverse(
            np.concatenate([rows.indices, entities]), self.by_chunk.shape[1]
        )
        rows = csr_array(
            (rows.data, places[: rows.nnz], rows.indptr), shape=(len(chunks), len(held))
        )
        of_chunk, of_entity = self._sums[0][chunks], self._sums[1][held]
        start = np.zeros(len(held))
        start[places[rows.nnz :]] = weights
        columns = rows.T
        given = start / of_entity  # what each entity gives for each weight
        for _ in range(steps - 1):
            back = columns @ ((rows @ given) / of_chunk)
            given = ((1 - damping) * start + damping * back) / of_entity
        if seen is not None and seen.sum() <= _WEIGHED * self.exact:
            # They may lie outside the part, most of which may not be seen.
            chunks = np.flatnonzero(seen)
            whole = np.zeros(self.by_chunk.shape[1])
            whole[held] = given
            shares = self.by_chunk[chunks] @ whole
        else:
            shares = rows @ given if seen is None else (rows @ given) * seen[chunks]
        return chunks[shares > 0], shares[shares > 0]

    def _part(
        self,
        entities: IntArray,
        weights: FloatVector,
        damping: float,
        seen: NDArray[np.bool_] | None,
    ) -> tuple[IntArray, csr_array]:
        """Return the chunks that the walk comes to first, ascending, and what they hold."""
        of_chunk, of_entity = self._sums
        farther, wider = (1, 1) if seen is None else _FARTHER
        most = wider * _KEPT
        reached = []
        for number, links in enumerate(_LINKS, 1):
            entities, weights = self._worth_following(entities, weights, farther * links)
            given = weights / of_entity[entities]
            chunks, shares = _columns(self.by_entity, entities, given)
            if len(chunks) > most:
                kept = self._kept(chunks, shares, damping, most, seen)
                # They stand for those left out, too.
                chunks, shares = chunks[kept], shares[kept] * (shares.sum() / shares[kept].sum())
            reached.append(chunks)
            if number < len(_LINKS):
                given = shares / of_chunk[chunks]
                entities, weights = _columns(self.by_chunk, chunks, given)
        part = sorted_union(*reached)
        return part, self.by_chunk[part]

    def _worth_following(
        self, entities: IntArray, weights: FloatVector, most: int
    ) -> tuple[IntArray, FloatVector]:
        """Return entities with most for each of their chunks: one, or more of `most` links."""
        held = np.maximum(self.held[entities], 1)
        worth = weights / held
        first = np.arange(len(worth))
        if len(worth) > most:  # each has a link or more
            first = np.sort(np.argpartition(-worth, most)[:most])
        order = first[np.argsort(-worth[first], kind="stable")]
        links = np.cumsum(held[order])
        kept = order[: max(1, int(np.searchsorted(links, most, side="right")))]
        return entities[kept], weights[kept]

    def _kept(
        self,
        chunks: IntArray,
        shares: FloatVector,
        damping: float,
        most: int,
        seen: NDArray[np.bool_] | None,
    ) -> IntArray:
        """Return the places of chunks that will have most, of all and of those that may be seen.

        A common name gives all its chunks about the same at first. How they are told apart in the
        end is foretold by what returns to each by itself: p = (1 - d) first + d returned p.
        """
        foretold = shares / np.maximum(1 - damping * self._returned[chunks], _LEAST)
        kept = _largest(foretold, most)
        if seen is None:
            return np.sort(kept)
        visible = np.flatnonzero(seen[chunks])
        return sorted_union(kept, visible[_largest(foretold[visible], most)])


def _largest(values: FloatVector, count: int) -> IntArray:
    """Return where the largest values are, in no order."""
    if len(values) <= count:
        return np.arange(len(values))
    largest: IntArray = np.argpartition(values, -count)[-count:]
    return largest


def _columns(
    matrix: csr_array, rows: IntArray, weights: FloatVector
) -> tuple[IntArray, FloatVector]:
    """Return the columns that weighted rows lead to, ascending, and the sums they are given."""
    starts = matrix.indptr[rows]
    sizes = matrix.indptr[rows + 1] - starts
    links = concatenated_ranges(starts, sizes)
    given = matrix.data[links] * np.repeat(weights, sizes)
    return sum_by_key(matrix.indices[links], given, matrix.shape[1])


def _counts(graph: EntityGraph, subjects: TitledEntities, document_of_chunk: IntArray) -> csr_array:
    """Return how often each chunk mentions each entity, titles counted in."""
    mentions = graph.postings.T.tocoo()
    titles = subjects.of_document[document_of_chunk]
    titled = np.flatnonzero(titles >= 0)
    shape = graph.postings.shape[1], len(subjects.names)
    places = [
        np.concatenate([mentions.row, titled]),
        np.concatenate([mentions.col, titles[titled]]),
    ]
    kind = smallest_int_type(max(*shape, len(places[0])))
    counts = coo_array(
        (
            np.concatenate([mentions.data, np.full(len(titled), _TITLE_MENTIONS)]).astype(float),
            tuple(place.astype(kind) for place in places),
        ),
        shape=shape,
    ).tocsr()
    counts.sum_duplicates()
    return counts
