"""The entity graph and the entity-chunk indexes, as compact arrays for reading."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations._utils.lazy import lazy

_PENDING_LIMIT = 1 << 17
"""Mentions gathered before their pairs are summed: bounds memory while building."""

MOST_NEIGHBOURS = 1000
"""Of an entity in the graph: its heaviest edges. The commonest of a novel has about as many; in a
library it would be a neighbor of nearly all (benchmarks/edge_cap.py)."""

_REMEMBERED = 4096
"""Entities whose neighbors are remembered, once they were asked for."""

_LOW = 0xFFFFFFFF
"""Two rows travel in one number of 64 bits: this masks the lower."""


@dataclass(frozen=True, eq=False)
class EntityGraph:
    """Entities, who co-occurs with whom, and which chunks mention them.

    Attributes:
        names: Normal form of each entity, sorted.
        named: Whether any mention of it was a name.
        edges: Symmetric weights, shape (entities, entities), no self-pairs. The weight of a pair
            sums `1 / distinct entities of the sentence` over the sentences that hold both
            (E2GraphRAG, section 3.2). Of each entity the `MOST_NEIGHBOURS` heaviest.
        postings: Mention counts, shape (entities, chunks).
    """

    names: Sequence[str]
    named: NDArray[np.bool_]
    edges: csr_array
    postings: csr_array

    @lazy
    def index(self) -> dict[str, int]:
        """Return the row of each entity's normal form."""
        return {name: row for row, name in enumerate(self.names)}

    @lazy
    def entities_per_chunk(self) -> IntArray:
        """Return the number of distinct entities of each chunk."""
        return np.bincount(self.postings.indices, minlength=self.postings.shape[1])

    def chunks(self, entity: int) -> tuple[IntArray, IntArray]:
        """Return the chunks that mention an entity, ascending, and how often each does."""
        row = slice(self.postings.indptr[entity], self.postings.indptr[entity + 1])
        return self.postings.indices[row], self.postings.data[row]

    def distances(self, source: int, depth: int) -> NDArray[np.int8]:
        """Return each entity's distance in edges from `source`, -1 beyond `depth`."""
        distance = np.full(len(self.names), -1, dtype=np.int8)
        distance[source] = 0
        frontier = np.array([source])
        for step in range(1, depth + 1):
            reached = np.unique(self._neighbors(frontier))
            frontier = reached[distance[reached] < 0]
            if not len(frontier):
                break
            distance[frontier] = step
        return distance

    def _neighbors(self, rows: IntArray) -> IntArray:
        starts, ends = self.edges.indptr[rows], self.edges.indptr[rows + 1]
        neighbors: IntArray = self.edges.indices[concatenated_ranges(starts, ends - starts)]
        return neighbors

    def neighbors(self, entity: int) -> IntArray:
        """Return the entities that share a sentence with one, ascending."""
        row = slice(self.edges.indptr[entity], self.edges.indptr[entity + 1])
        found: IntArray = self.edges.indices[row]
        return found

    def hops(self, entities: Sequence[int], max_hops: int) -> dict[tuple[int, int], int]:
        """Return the distance in edges of every pair of `entities` at most `max_hops` apart.

        Breadth-first search from both ends, which goes no deeper than a pair needs: most are
        neighbors, or have one in common. What is around an entity is remembered.
        """
        found: dict[tuple[int, int], int] = {}
        for a, b in combinations(dict.fromkeys(entities), 2):
            near = self._near(a)
            if b in near:
                distance = 1
            elif not near.isdisjoint(self._near(b)):
                distance = 2
            else:
                distance = self._further(a, b, max_hops)
            if distance <= max_hops:
                found[a, b] = distance
        return found

    def _further(self, a: int, b: int, most: int) -> int:
        """Return the distance of two that have no neighbor in common; beyond `most` any more."""
        reached = [self._around(a), self._around(b)]
        distance = 3
        if distance > most or reached[0][self.neighbors(b)].any():
            return distance
        while distance < most:
            distance += 1
            if (reached[0] & reached[1]).any():
                return distance
            reached.reverse()
            reached[0] = self._with_neighbors(reached[0])
        return most + 1

    @lazy
    def _near(self) -> Callable[[int], frozenset[int]]:
        return lru_cache(_REMEMBERED)(lambda entity: frozenset(self.neighbors(entity).tolist()))

    @lazy
    def _around(self) -> Callable[[int], NDArray[np.bool_]]:
        """Return what gives the mask of an entity, its neighbors and theirs."""
        return lru_cache(_REMEMBERED // 64)(
            lambda entity: self._with_neighbors(self._with_neighbors(self._mask(entity)))
        )

    def _mask(self, entity: int) -> NDArray[np.bool_]:
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[entity] = True
        return mask

    def _with_neighbors(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        wider: NDArray[np.bool_] = mask.copy()
        wider[self._neighbors(np.flatnonzero(mask))] = True
        return wider

    def to_networkx(self) -> Any:
        """Return the graph for people: names with `named` and `chunks`, edges with `weight`."""
        import networkx as nx

        graph = nx.Graph()
        counts = np.diff(self.postings.indptr)
        for row, name in enumerate(self.names):
            graph.add_node(name, named=bool(self.named[row]), chunks=int(counts[row]))
        upper = self.edges.tocoo()
        for a, b, weight in zip(upper.row, upper.col, upper.data, strict=True):
            if a < b:
                graph.add_edge(self.names[a], self.names[b], weight=float(weight))
        return graph


@dataclass(frozen=True, eq=False)
class MentionTable:
    """What a graph is the sum of: every mention, in the order of chunks and sentences.

    Attributes:
        entities: For each mention the row of its normal form.
        named: Whether it is a name.
        sentence_sizes: Mentions of each sentence.
        chunk_sizes: Sentences of each chunk.
    """

    entities: IntArray
    named: NDArray[np.bool_]
    sentence_sizes: IntArray
    chunk_sizes: IntArray


def cap_degrees(edges: csr_array, most: int) -> csr_array:
    """Return symmetric edges without those that are not among the `most` heaviest at both ends.

    Ties go to the earlier neighbor.
    """
    degrees = np.diff(edges.indptr)
    hubs = np.flatnonzero(degrees > most)
    if not len(hubs):
        return edges
    heavy = np.ones(edges.nnz, dtype=np.bool_)
    for hub in hubs.tolist():
        row = slice(edges.indptr[hub], edges.indptr[hub + 1])
        order = np.argsort(-edges.data[row], kind="stable")
        heavy[row.start + order[most:]] = False
    here = csr_array((heavy.astype(np.int8), edges.indices, edges.indptr), shape=edges.shape)
    there = here.T.tocsr()
    there.sort_indices()  # now its entries stand where those of `here` do
    kept = edges.copy()
    kept.data = np.where(heavy & (there.data > 0), edges.data, 0)
    kept.eliminate_zeros()
    return kept


def mention_table(
    chunks: Iterable[Sequence[Sequence[tuple[str, bool]]]],
) -> tuple[list[str], MentionTable]:
    """Return the distinct normal forms, sorted, and the columns of chunks.

    Args:
        chunks: For each chunk in order, for each of its sentences, `(normal form, named)` of each
            mention.
    """
    rows: dict[str, int] = {}
    entities, named = array("q"), array("b")  # as lists of Python's integers they take far more
    sentence_sizes, chunk_sizes = array("q"), array("q")
    for sentences in chunks:
        chunk_sizes.append(len(sentences))
        for sentence in sentences:
            sentence_sizes.append(len(sentence))
            entities.extend([rows.setdefault(name, len(rows)) for name, _ in sentence])
            named.extend([is_named for _, is_named in sentence])
    names = sorted(rows)
    rank = np.empty(len(names), dtype=np.int64)  # arrival order -> sorted order
    rank[[rows[name] for name in names]] = np.arange(len(names))
    return names, MentionTable(
        rank[np.asarray(entities, dtype=np.int64)],
        np.asarray(named).astype(np.bool_),
        np.asarray(sentence_sizes, dtype=np.int64),
        np.asarray(chunk_sizes, dtype=np.int64),
    )


def graph_from_mentions(names: Sequence[str], columns: MentionTable) -> EntityGraph:
    """Return the graph of columns: equal ones give an equal graph, however they came about.

    Args:
        names: Distinct normal forms, sorted, each of which has a mention.
        columns: Whose rows are of `names`.
    """
    builder = GraphBuilder()
    named = np.zeros(len(names), dtype=np.bool_)
    named[columns.entities[columns.named]] = True
    builder.add_columns(
        names, named.tolist(), columns.entities, columns.sentence_sizes, columns.chunk_sizes
    )
    return builder.finish()


def build_graph(chunks: Iterable[Sequence[Sequence[tuple[str, bool]]]]) -> EntityGraph:
    """Sum what each chunk contributes, given as for `mention_table`."""
    return graph_from_mentions(*mention_table(chunks))


class GraphBuilder:
    """Sums contributions chunk by chunk; memory grows with distinct edges only."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._named: list[bool] = []
        self._chunks = 0
        self._sentences = 0
        self._posts: list[tuple[IntArray, IntArray]] = []
        self._pending: list[tuple[IntArray, IntArray]] = []
        self._waiting = 0
        self._pairs = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))

    def add(self, sentences: Sequence[Sequence[tuple[str, bool]]]) -> None:
        """Add the next chunk: per sentence, `(normal form, named)` of each mention."""
        ids = [self._id(name, named) for sentence in sentences for name, named in sentence]
        sizes = [len(sentence) for sentence in sentences]
        self._add(
            np.asarray(ids, dtype=np.int64),
            np.repeat(np.arange(len(sizes)), sizes),
            np.zeros(len(ids), dtype=np.int64),
            len(sizes),
            1,
        )

    def add_columns(
        self,
        names: Sequence[str],
        named: Sequence[bool],
        mentions: IntArray,
        sentence_sizes: IntArray,
        chunk_sizes: IntArray,
    ) -> None:
        """Add the next chunks, many at once.

        Args:
            names: Distinct normal forms.
            named: Whether each is a name somewhere in the chunks.
            mentions: For each mention the row of its normal form.
            sentence_sizes: Mentions of each sentence.
            chunk_sizes: Sentences of each chunk.
        """
        pairs = zip(names, named, strict=True)
        rows = np.asarray([self._id(name, is_named) for name, is_named in pairs], dtype=np.int64)
        sentence = np.repeat(np.arange(len(sentence_sizes)), sentence_sizes)
        chunk = np.repeat(np.arange(len(chunk_sizes)), chunk_sizes)
        self._add(rows[mentions], sentence, chunk[sentence], len(sentence_sizes), len(chunk_sizes))

    def _add(
        self, ids: IntArray, sentence: IntArray, chunk: IntArray, sentences: int, chunks: int
    ) -> None:
        self._posts.append((ids, chunk + self._chunks))
        at = 0
        while at < len(ids):  # whole sentences only
            last = min(len(ids), at + _PENDING_LIMIT) - 1
            end = int(np.searchsorted(sentence, sentence[last], side="right"))
            self._pending.append((sentence[at:end] + self._sentences, ids[at:end]))
            self._waiting += end - at
            at = end
            if self._waiting > _PENDING_LIMIT:
                self._sum_pairs()
        self._sentences += sentences
        self._chunks += chunks

    def _id(self, name: str, named: bool) -> int:
        row = self._ids.setdefault(name, len(self._ids))
        if row == len(self._named):
            self._named.append(named)
        elif named:
            self._named[row] = True
        return row

    def _sum_pairs(self) -> None:
        """Add `1 / distinct entities` of each pending sentence to every pair of them."""
        none = np.empty(0, dtype=np.int64)
        sentences = np.concatenate([none, *(some for some, _ in self._pending)])
        ids = np.concatenate([none, *(some for _, some in self._pending)])
        self._pending, self._waiting = [], 0
        distinct = np.unique((sentences << 32) | ids)
        _, starts, sizes = np.unique(distinct >> 32, return_index=True, return_counts=True)
        entities = distinct & _LOW
        keys, weights = [self._pairs[0]], [self._pairs[1]]
        for size in np.unique(sizes[sizes > 1]).tolist():
            rows = entities[starts[sizes == size][:, None] + np.arange(size)]
            a, b = np.triu_indices(size, 1)
            found = ((rows[:, a] << 32) | rows[:, b]).ravel()
            keys.append(found)
            weights.append(np.full(len(found), 1.0 / size))
        together, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        sums = np.bincount(inverse, weights=np.concatenate(weights), minlength=len(together))
        self._pairs = (together, sums.astype(np.float64))

    def finish(self) -> EntityGraph:
        """Return the graph of all chunks added."""
        self._sum_pairs()
        names = sorted(self._ids)
        rank = np.empty(len(names), dtype=np.int64)  # arrival order -> sorted order
        rank[[self._ids[name] for name in names]] = np.arange(len(names))
        keys, weights = self._pairs
        a, b = rank[keys >> 32], rank[keys & _LOW]
        size = len(names)
        edges = coo_array(
            (np.concatenate([weights, weights]), (np.concatenate([a, b]), np.concatenate([b, a]))),
            shape=(size, size),
        ).tocsr()
        none = np.empty(0, dtype=np.int64)
        rows = rank[np.concatenate([none, *(ids for ids, _ in self._posts)])]
        columns = np.concatenate([none, *(chunks for _, chunks in self._posts)])
        postings = coo_array(
            (np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(size, self._chunks)
        ).tocsr()
        postings.sum_duplicates()
        edges.sort_indices()
        edges = cap_degrees(edges, MOST_NEIGHBOURS)
        named = np.zeros(size, dtype=np.bool_)
        named[rank] = self._named
        return EntityGraph(names, named, edges, postings)
