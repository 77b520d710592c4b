"""A snapshot from an older one: what did not change is copied, only what did is read and decoded.

The arrays of a snapshot lie document after document, so a new one is put together from stretches of
two: the older one, for documents that are as they were, and one of the others alone. The graph is
summed anew from the mentions, which costs little; so the result equals, bit by bit, what reading
everything gives. So does the index of words, where the older one has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.graph.entity_graph import MentionTable, graph_from_mentions
from e2graphrag_integrations.search.bm25 import BM25Index, merge_bm25
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists, assign_lists
from e2graphrag_integrations.snapshot.snapshot import MetadataRecords, NodeTable, Snapshot

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Bounds:
    """Where each document's part of every array begins and ends: documents + 1 numbers each."""

    snapshot: Snapshot
    mentions: MentionTable
    dense: DenseIndex

    def _of(self, documents: IntArray) -> Ints:
        numbers = np.arange(len(self.snapshot.documents) + 1)
        return np.searchsorted(documents, numbers).astype(np.int64)

    @lazy
    def nodes(self) -> Ints:
        return self._of(self.snapshot.nodes.document)

    @lazy
    def chunks(self) -> Ints:
        return self._of(self.snapshot.nodes.document[self.snapshot.chunk_nodes])

    @lazy
    def windows(self) -> Ints:
        return self._of(self.snapshot.nodes.document[self.dense.nodes])

    @lazy
    def sentences(self) -> Ints:
        return exclusive_sums(self.mentions.chunk_sizes)[self.chunks]

    @lazy
    def words(self) -> Ints:
        """Of mentions."""
        return exclusive_sums(self.mentions.sentence_sizes)[self.sentences]

    @lazy
    def values(self) -> Ints:
        """Of metadata records, each of which names its document."""
        records = self.snapshot.records
        rows = {id_: row for row, id_ in enumerate(self.snapshot.documents)}
        own = [rows[value[records.id_key]] for value in records.values]
        return self._of(np.asarray(own, dtype=np.int64))

    @lazy
    def entries(self) -> Ints:
        """Of the nodes' records."""
        records = self.snapshot.records
        return np.append(records.first, len(records.of_node)).astype(np.int64)[self.nodes]


class SnapshotMerge:
    """Puts a snapshot together.

    Args:
        older: Has the documents that are as they were, and others.
        newer: Has those that are not.
        documents: Ids of all, in order.
    """

    def __init__(self, older: Snapshot, newer: Snapshot, documents: Sequence[str]) -> None:
        self.sources = (older, newer)
        self.bounds = [_bounds(source) for source in self.sources]
        new = {id_: row for row, id_ in enumerate(newer.documents)}
        old = {id_: row for row, id_ in enumerate(older.documents)}
        self.documents = documents
        self.side = np.asarray([id_ in new for id_ in documents], dtype=np.int64)
        self.row = np.asarray([new[d] if d in new else old[d] for d in documents], dtype=np.int64)

    def snapshot(self, generation: str, made_with: Mapping[str, str]) -> Snapshot:
        """Return the whole."""
        older, newer = self.sources
        nodes = self._nodes()
        names, mentions = self._mentions()
        stamps = [*older.stamps, *newer.stamps]
        titles = [*older.titles, *newer.titles]
        at = self.row + self.side * len(older.documents)
        return replace(
            newer,
            generation=generation,
            made_with=made_with,
            documents=list(self.documents),
            stamps=[stamps[i] for i in at.tolist()],
            titles=[titles[i] for i in at.tolist()],
            nodes=nodes,
            chunk_nodes=np.flatnonzero(nodes.level == 0).astype(np.int64),
            words=self._taken("chunks", older.words, newer.words),
            graph=graph_from_mentions(names, mentions),
            mentions=mentions,
            dense=self._dense(),
            window_spans=self._taken("windows", older.window_spans, newer.window_spans),
            records=self._records(),
        )

    def lexical(self, words: BM25Index) -> BM25Index:
        """Return the words of all windows, by those of the older ones."""
        sizes = [int(bounds.windows[-1]) for bounds in self.bounds]
        places = self._places("windows")
        rows = np.full(sum(sizes), -1, dtype=np.int64)
        rows[places] = np.arange(len(places))
        older, newer = rows[: sizes[0]], rows[sizes[0] :]
        return merge_bm25([(words, older), (self.sources[1].lexical, newer)], len(places))

    # Stretches.

    def _limits(self, kind: str) -> tuple[Ints, Ints]:
        """Return where the stretch of each document begins and ends in its source."""
        bounds = [getattr(one, kind) for one in self.bounds]
        first = np.concatenate([one[:-1] for one in bounds])
        last = np.concatenate([one[1:] for one in bounds])
        at = self.row + self.side * (len(bounds[0]) - 1)
        return first[at], last[at]

    def _places(self, kind: str) -> Ints:
        """Return the places of what is taken in the two sources' arrays, one after the other."""
        first, last = self._limits(kind)
        size = int(getattr(self.bounds[0], kind)[-1])
        return concatenated_ranges(first + self.side * size, last - first)

    def _taken(self, kind: str, older: NDArray[Any], newer: NDArray[Any]) -> NDArray[Any]:
        """Return one of the sources' arrays in the order of the documents."""
        first, last = self._limits(kind)
        to = exclusive_sums(last - first)
        whole = older if len(older) else newer  # of one that is empty the width is unknown
        taken = np.empty((int(to[-1]), *whole.shape[1:]), np.result_type(older, newer))
        # Documents that lie side by side in a source are copied as one: most of them do.
        ends = np.flatnonzero((self.side[1:] != self.side[:-1]) | (first[1:] != last[:-1])) + 1
        bounds = [0, *ends.tolist(), len(self.documents)]
        for one, end in pairwise(bounds):
            if to[one] < to[end]:
                source = (older, newer)[self.side[one]]
                taken[to[one] : to[end]] = source[first[one] : last[end - 1]]
        return taken

    def _moved(self, kind: str, per: str) -> Ints:
        """Return by how much numbers of a kind move, for each item of another kind."""
        first, last = self._limits(kind)
        now = exclusive_sums(last - first)[:-1]
        begin, end = self._limits(per)
        return np.repeat(now - first, end - begin)

    # Arrays.

    def _nodes(self) -> NodeTable:
        older, newer = (source.nodes for source in self.sources)
        ids = [*older.ids, *newer.ids]
        first, last = self._limits("nodes")
        moved = self._moved("chunks", "nodes")

        def taken(name: str) -> IntArray:
            return self._taken("nodes", getattr(older, name), getattr(newer, name))

        return NodeTable(
            ids=[ids[i] for i in self._places("nodes").tolist()],
            document=np.repeat(np.arange(len(self.documents)), last - first),
            level=taken("level"),
            position=taken("position"),
            start=taken("start"),
            end=taken("end"),
            first_leaf=taken("first_leaf") + moved,
            end_leaf=taken("end_leaf") + moved,
        )

    def _dense(self) -> DenseIndex:
        older, newer = (bounds.dense for bounds in self.bounds)
        vectors = self._taken("windows", older.vectors, newer.vectors)
        owners = self._taken("windows", older.nodes, newer.nodes)
        return DenseIndex(
            vectors if len(vectors) else np.empty((0, 0), dtype=np.float32),
            owners + self._moved("nodes", "windows"),
            self._cells(older.known_cells, newer, len(vectors)),
        )

    def _cells(
        self, older: InvertedLists | None, newer: DenseIndex, count: int
    ) -> InvertedLists | None:
        """Return the older cells with what is new in them, unless others are needed by now."""
        if older is None or not older.fit(count):
            return None
        of_new = assign_lists(older.centroids, newer.vectors)
        return InvertedLists(older.centroids, self._taken("windows", older.of_vector, of_new))

    def _records(self) -> MetadataRecords:
        older, newer = (source.records for source in self.sources)
        values = [*older.values, *newer.values]
        sizes = self._taken("nodes", older.last - older.first, newer.last - newer.first)
        bounds = exclusive_sums(sizes)
        of_node = self._taken("entries", older.of_node, newer.of_node)
        return MetadataRecords(
            [values[i] for i in self._places("values").tolist()],
            bounds[:-1],
            bounds[1:],
            of_node + self._moved("values", "entries"),
            older.id_key,
        )

    def _mentions(self) -> tuple[list[str], MentionTable]:
        older, newer = (bounds.mentions for bounds in self.bounds)
        names = [source.graph.names for source in self.sources]
        entities = np.concatenate([older.entities, newer.entities + len(names[0])])
        entities = entities[self._places("words")]
        both = [*names[0], *names[1]]
        used = np.unique(entities)
        together = sorted({both[i] for i in used.tolist()})
        rows = {name: row for row, name in enumerate(together)}
        moved = np.zeros(len(both), dtype=np.int64)
        moved[used] = [rows[both[i]] for i in used.tolist()]
        return together, MentionTable(
            moved[entities],
            self._taken("words", older.named, newer.named),
            self._taken("sentences", older.sentence_sizes, newer.sentence_sizes),
            self._taken("chunks", older.chunk_sizes, newer.chunk_sizes),
        )


def _bounds(snapshot: Snapshot) -> _Bounds:
    if snapshot.mentions is None or not isinstance(snapshot.dense, DenseIndex):
        raise TypeError("a snapshot without its own mentions and vectors cannot be merged")
    return _Bounds(snapshot, snapshot.mentions, snapshot.dense)
