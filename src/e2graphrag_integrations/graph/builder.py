"""Building the entity graph from the mentions in each chunk."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.graph.entity_graph import EntityGraph

MAX_NEIGHBORS = 1000
"""Maximum number of edges per entity; the heaviest are kept. The most frequent entity in a novel
has about this many neighbors. In a large corpus without this limit, the most frequent entity
would neighbor almost every other entity (benchmarks/edge_cap.py)."""

_PENDING_LIMIT = 1 << 17
"""Number of mentions buffered before their pairs are summed. Limits memory during the build."""

_LOW_32 = 0xFFFFFFFF
"""Mask for the second of two 32-bit rows packed into one 64-bit integer."""


@dataclass(frozen=True, eq=False)
class MentionTable:
    """Every mention in the index, ordered by chunk and sentence, to compute the graph from.

    Attributes:
        entities: The entity row of each mention.
        named: Whether each mention is a proper name.
        sentence_sizes: Number of mentions per sentence.
        chunk_sizes: Number of sentences per chunk.
    """

    entities: IntArray
    named: NDArray[np.bool_]
    sentence_sizes: IntArray
    chunk_sizes: IntArray


def mention_table(
    chunks: Iterable[Sequence[Sequence[tuple[str, bool]]]],
) -> tuple[list[str], MentionTable]:
    """Return the distinct normal forms, sorted, and the mentions as arrays.

    Args:
        chunks: The mentions in each sentence of each chunk, as pairs `(normal form, named)`.
    """
    rows: dict[str, int] = {}
    entities, named = array("q"), array("b")  # lists of Python integers need far more memory
    sentence_sizes, chunk_sizes = array("q"), array("q")
    for sentences in chunks:
        chunk_sizes.append(len(sentences))
        for sentence in sentences:
            sentence_sizes.append(len(sentence))
            entities.extend([rows.setdefault(name, len(rows)) for name, _ in sentence])
            named.extend([is_named for _, is_named in sentence])
    names, sorted_row = _sort_names(rows)
    return names, MentionTable(
        sorted_row[np.asarray(entities, dtype=np.int64)],
        np.asarray(named).astype(np.bool_),
        np.asarray(sentence_sizes, dtype=np.int64),
        np.asarray(chunk_sizes, dtype=np.int64),
    )


def graph_from_mentions(names: Sequence[str], mentions: MentionTable) -> EntityGraph:
    """Build the graph from a mention table. Equal tables give equal graphs.

    Args:
        names: Distinct normal forms, sorted. Each has at least one mention.
        mentions: The mentions; their `entities` refer to rows in `names`.
    """
    builder = GraphBuilder()
    named = np.zeros(len(names), dtype=np.bool_)
    named[mentions.entities[mentions.named]] = True
    builder.add_columns(
        names, named.tolist(), mentions.entities, mentions.sentence_sizes, mentions.chunk_sizes
    )
    return builder.finish()


def build_graph(chunks: Iterable[Sequence[Sequence[tuple[str, bool]]]]) -> EntityGraph:
    """Build the graph from chunks in the format that `mention_table` expects."""
    return graph_from_mentions(*mention_table(chunks))


class GraphBuilder:
    """Builds a graph chunk by chunk; memory use grows with the number of mentions and edges."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._named: list[bool] = []
        self._chunks = 0
        self._sentences = 0
        self._postings: list[tuple[IntArray, IntArray]] = []  # (entities, chunks)
        self._pending: list[tuple[IntArray, IntArray]] = []  # (sentences, entities)
        self._pending_mentions = 0
        # Packed pairs of rows, ascending, and the edge weight of each.
        self._pairs = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))

    def add(self, sentences: Sequence[Sequence[tuple[str, bool]]]) -> None:
        """Add the next chunk: the pairs `(normal form, named)` of the mentions in each sentence."""
        entities = [self._row(name, named) for sentence in sentences for name, named in sentence]
        sizes = [len(sentence) for sentence in sentences]
        self._add(
            np.asarray(entities, dtype=np.int64),
            np.repeat(np.arange(len(sizes)), sizes),
            np.zeros(len(entities), dtype=np.int64),
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
        """Add the next chunks from arrays.

        Args:
            names: Distinct normal forms.
            named: Whether any mention of each normal form is a proper name.
            mentions: For each mention, its row in `names`.
            sentence_sizes: Number of mentions per sentence.
            chunk_sizes: Number of sentences per chunk.
        """
        pairs = zip(names, named, strict=True)
        rows = np.asarray([self._row(name, is_named) for name, is_named in pairs], dtype=np.int64)
        sentence = np.repeat(np.arange(len(sentence_sizes)), sentence_sizes)
        chunk = np.repeat(np.arange(len(chunk_sizes)), chunk_sizes)
        self._add(rows[mentions], sentence, chunk[sentence], len(sentence_sizes), len(chunk_sizes))

    def finish(self) -> EntityGraph:
        """Return the graph of all added chunks."""
        self._sum_pairs()
        names, sorted_row = _sort_names(self._rows)
        size = len(names)
        keys, weights = self._pairs
        a, b = sorted_row[keys >> 32], sorted_row[keys & _LOW_32]
        edges = coo_array(
            (np.concatenate([weights, weights]), (np.concatenate([a, b]), np.concatenate([b, a]))),
            shape=(size, size),
        ).tocsr()
        edges.sort_indices()
        empty = np.empty(0, dtype=np.int64)
        rows = sorted_row[np.concatenate([empty, *(entities for entities, _ in self._postings)])]
        columns = np.concatenate([empty, *(chunks for _, chunks in self._postings)])
        postings = coo_array(
            (np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(size, self._chunks)
        ).tocsr()
        postings.sum_duplicates()
        named = np.zeros(size, dtype=np.bool_)
        named[sorted_row] = self._named
        return EntityGraph(names, named, cap_degrees(edges, MAX_NEIGHBORS), postings)

    def _add(
        self, entities: IntArray, sentence: IntArray, chunk: IntArray, sentences: int, chunks: int
    ) -> None:
        self._postings.append((entities, chunk + self._chunks))
        start = 0
        while start < len(entities):  # in batches of complete sentences
            last = min(len(entities), start + _PENDING_LIMIT) - 1
            end = int(np.searchsorted(sentence, sentence[last], side="right"))
            self._pending.append((sentence[start:end] + self._sentences, entities[start:end]))
            self._pending_mentions += end - start
            start = end
            if self._pending_mentions > _PENDING_LIMIT:
                self._sum_pairs()
        self._sentences += sentences
        self._chunks += chunks

    def _row(self, name: str, named: bool) -> int:
        row = self._rows.setdefault(name, len(self._rows))
        if row == len(self._named):
            self._named.append(named)
        elif named:
            self._named[row] = True
        return row

    def _sum_pairs(self) -> None:
        """Add `1 / distinct entities` to the weight of every entity pair in a pending sentence."""
        empty = np.empty(0, dtype=np.int64)
        sentences = np.concatenate([empty, *(sentence for sentence, _ in self._pending)])
        mentions = np.concatenate([empty, *(entities for _, entities in self._pending)])
        self._pending, self._pending_mentions = [], 0
        distinct = np.unique((sentences << 32) | mentions)
        _, starts, sizes = np.unique(distinct >> 32, return_index=True, return_counts=True)
        entities = distinct & _LOW_32
        keys, weights = [self._pairs[0]], [self._pairs[1]]
        for size in np.unique(sizes[sizes > 1]).tolist():
            rows = entities[starts[sizes == size][:, None] + np.arange(size)]
            a, b = np.triu_indices(size, 1)
            packed = ((rows[:, a] << 32) | rows[:, b]).ravel()
            keys.append(packed)
            weights.append(np.full(len(packed), 1.0 / size))
        pairs, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        sums = np.bincount(inverse, weights=np.concatenate(weights), minlength=len(pairs))
        self._pairs = (pairs, sums.astype(np.float64))


def cap_degrees(edges: csr_array, max_degree: int) -> csr_array:
    """Return the edges that are among the `max_degree` heaviest edges of both endpoints.

    The earlier neighbor wins ties.

    Args:
        edges: Symmetric weights with sorted indices.
        max_degree: Maximum number of edges to keep per entity.
    """
    hubs = np.flatnonzero(np.diff(edges.indptr) > max_degree)
    if not len(hubs):
        return edges
    heavy = np.ones(edges.nnz, dtype=np.bool_)
    for hub in hubs.tolist():
        row = slice(edges.indptr[hub], edges.indptr[hub + 1])
        order = np.argsort(-edges.data[row], kind="stable")
        heavy[row.start + order[max_degree:]] = False
    matrix = csr_array((heavy.astype(np.int8), edges.indices, edges.indptr), shape=edges.shape)
    reverse = matrix.T.tocsr()
    reverse.sort_indices()  # its entries now have the same order as the edges
    capped = edges.copy()
    capped.data = np.where(heavy & (reverse.data > 0), edges.data, 0)
    capped.eliminate_zeros()
    return capped


def _sort_names(rows: dict[str, int]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the sorted names, and a mapping from each name's insertion row to its sorted row."""
    names = sorted(rows)
    sorted_row = np.empty(len(names), dtype=np.int64)
    sorted_row[[rows[name] for name in names]] = np.arange(len(names))
    return names, sorted_row
