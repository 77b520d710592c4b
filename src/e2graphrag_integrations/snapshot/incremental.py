"""Deriving a snapshot from an older one: only changed documents are read and decoded.

Every array of a snapshot is ordered by document. The new snapshot is therefore assembled from
slices of two others: the older one, for unchanged documents, and one built from the changed
documents alone. The graph is recomputed from the merged mentions, which is cheap. The result is bit
for bit equal to a full build. The same holds for the BM25 index.
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
from e2graphrag_integrations.graph.builder import MentionTable, graph_from_mentions
from e2graphrag_integrations.search.bm25 import BM25Index, merge_bm25
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists, assign_lists
from e2graphrag_integrations.snapshot.snapshot import MetadataRecords, NodeTable, Snapshot

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _DocumentBounds:
    """The slice of each document in every array of a snapshot.

    Each property is an array of shape (documents + 1,): the items of document `i` are those from
    `bounds[i]` to `bounds[i + 1]`.
    """

    snapshot: Snapshot
    mentions: MentionTable
    dense: DenseIndex

    @classmethod
    def of(cls, snapshot: Snapshot) -> _DocumentBounds:
        if snapshot.mentions is None or not isinstance(snapshot.dense, DenseIndex):
            raise TypeError("a snapshot without its mentions and vectors cannot be merged")
        return cls(snapshot, snapshot.mentions, snapshot.dense)

    def _bounds(self, documents: IntArray) -> Ints:
        """Return the bounds of items, given the document of each, ascending."""
        rows = np.arange(len(self.snapshot.documents) + 1)
        return np.searchsorted(documents, rows).astype(np.int64)

    @lazy
    def nodes(self) -> Ints:
        return self._bounds(self.snapshot.nodes.document)

    @lazy
    def chunks(self) -> Ints:
        return self._bounds(self.snapshot.chunk_documents)

    @lazy
    def windows(self) -> Ints:
        return self._bounds(self.snapshot.nodes.document[self.dense.window_nodes])

    @lazy
    def sentences(self) -> Ints:
        return exclusive_sums(self.mentions.chunk_sizes)[self.chunks]

    @lazy
    def mention_rows(self) -> Ints:
        return exclusive_sums(self.mentions.sentence_sizes)[self.sentences]

    @lazy
    def record_values(self) -> Ints:
        records = self.snapshot.records
        rows = {id_: row for row, id_ in enumerate(self.snapshot.documents)}
        documents = [rows[value[records.id_key]] for value in records.values]
        return self._bounds(np.asarray(documents, dtype=np.int64))

    @lazy
    def record_indices(self) -> Ints:
        records = self.snapshot.records
        return np.append(records.starts, len(records.indices)).astype(np.int64)[self.nodes]


class SnapshotMerger:
    """Merges two snapshots into one.

    Args:
        older: Contains the unchanged documents, and possibly others.
        newer: Contains the changed and new documents.
        documents: Ids of all documents of the result, ascending.
    """

    def __init__(self, older: Snapshot, newer: Snapshot, documents: Sequence[str]) -> None:
        self._sources = (older, newer)
        self._bounds = [_DocumentBounds.of(source) for source in self._sources]
        new_rows = {id_: row for row, id_ in enumerate(newer.documents)}
        old_rows = {id_: row for row, id_ in enumerate(older.documents)}
        self._documents = documents
        self._source = np.asarray([id_ in new_rows for id_ in documents], dtype=np.int64)
        rows = [new_rows[id_] if id_ in new_rows else old_rows[id_] for id_ in documents]
        self._row = np.asarray(rows, dtype=np.int64)

    def merge(self, generation: str, made_with: Mapping[str, str]) -> Snapshot:
        """Return the merged snapshot, without a BM25 index.

        Args:
            generation: Generation of the result.
            made_with: Settings and model fingerprints of the result.
        """
        older, newer = self._sources
        nodes = self._merge_nodes()
        names, mentions = self._merge_mentions()
        stamps = [*older.stamps, *newer.stamps]
        titles = [*older.titles, *newer.titles]
        rows = (self._row + self._source * len(older.documents)).tolist()
        return replace(
            newer,
            generation=generation,
            made_with=made_with,
            documents=list(self._documents),
            stamps=[stamps[row] for row in rows],
            titles=[titles[row] for row in rows],
            nodes=nodes,
            chunk_nodes=np.flatnonzero(nodes.level == 0).astype(np.int64),
            chunk_words=self._gather("chunks", older.chunk_words, newer.chunk_words),
            graph=graph_from_mentions(names, mentions),
            mentions=mentions,
            dense=self._merge_dense(),
            window_spans=self._gather("windows", older.window_spans, newer.window_spans),
            records=self._merge_records(),
        )

    def merge_bm25(self, older_bm25: BM25Index) -> BM25Index:
        """Return the BM25 index of all windows, given that of the older snapshot."""
        sizes = [int(bounds.windows[-1]) for bounds in self._bounds]
        items = self._items("windows")
        new_rows = np.full(sum(sizes), -1, dtype=np.int64)
        new_rows[items] = np.arange(len(items))
        older, newer = new_rows[: sizes[0]], new_rows[sizes[0] :]
        return merge_bm25([(older_bm25, older), (self._sources[1].bm25, newer)], len(items))

    # Slices. A kind is the name of a property of `_DocumentBounds`.

    def _slices(self, kind: str) -> tuple[Ints, Ints]:
        """Return the start and the end of each document's slice in its source."""
        bounds = [getattr(source, kind) for source in self._bounds]
        starts = np.concatenate([source[:-1] for source in bounds])
        ends = np.concatenate([source[1:] for source in bounds])
        rows = self._row + self._source * (len(bounds[0]) - 1)
        return starts[rows], ends[rows]

    def _items(self, kind: str) -> Ints:
        """Return the items of the result as rows of the concatenated sources."""
        starts, ends = self._slices(kind)
        older_size = int(getattr(self._bounds[0], kind)[-1])
        return concatenated_ranges(starts + self._source * older_size, ends - starts)

    def _gather(self, kind: str, older: NDArray[Any], newer: NDArray[Any]) -> NDArray[Any]:
        """Return an array of the sources in the order of the result."""
        starts, ends = self._slices(kind)
        targets = exclusive_sums(ends - starts)
        template = older if len(older) else newer  # an empty array may have the wrong width
        shape = (int(targets[-1]), *template.shape[1:])
        gathered = np.empty(shape, np.result_type(older, newer))
        # Runs of documents that are adjacent in one source are copied together. Most are.
        breaks = (self._source[1:] != self._source[:-1]) | (starts[1:] != ends[:-1])
        runs = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(self._documents)]
        for first, end in pairwise(runs):
            if targets[first] < targets[end]:
                source = (older, newer)[self._source[first]]
                gathered[targets[first] : targets[end]] = source[starts[first] : ends[end - 1]]
        return gathered

    def _shifts(self, kind: str, per: str) -> Ints:
        """Return how far the rows of one kind move, for each item of another kind.

        Args:
            kind: The kind of the rows that move.
            per: The kind of the items that refer to those rows.
        """
        starts, ends = self._slices(kind)
        new_starts = exclusive_sums(ends - starts)[:-1]
        per_starts, per_ends = self._slices(per)
        return np.repeat(new_starts - starts, per_ends - per_starts)

    # Arrays

    def _merge_nodes(self) -> NodeTable:
        older, newer = (source.nodes for source in self._sources)
        ids = [*older.ids, *newer.ids]
        starts, ends = self._slices("nodes")
        shifts = self._shifts("chunks", "nodes")

        def gather(name: str) -> IntArray:
            return self._gather("nodes", getattr(older, name), getattr(newer, name))

        return NodeTable(
            ids=[ids[i] for i in self._items("nodes").tolist()],
            document=np.repeat(np.arange(len(self._documents)), ends - starts),
            level=gather("level"),
            position=gather("position"),
            start=gather("start"),
            end=gather("end"),
            first_leaf=gather("first_leaf") + shifts,
            end_leaf=gather("end_leaf") + shifts,
        )

    def _merge_dense(self) -> DenseIndex:
        older, newer = (bounds.dense for bounds in self._bounds)
        vectors = self._gather("windows", older.vectors, newer.vectors)
        nodes = self._gather("windows", older.window_nodes, newer.window_nodes)
        return DenseIndex(
            vectors if len(vectors) else np.empty((0, 0), dtype=np.float32),
            nodes + self._shifts("nodes", "windows"),
            self._merge_ivf(older.ivf, newer, len(vectors)),
        )

    def _merge_ivf(
        self, older: InvertedLists | None, newer: DenseIndex, n_vectors: int
    ) -> InvertedLists | None:
        """Return the older lists with the new vectors assigned, None if they need retraining."""
        if older is None or not older.suits(n_vectors):
            return None
        assignments = assign_lists(older.centroids, newer.vectors)
        return InvertedLists(
            older.centroids, self._gather("windows", older.assignments, assignments)
        )

    def _merge_records(self) -> MetadataRecords:
        older, newer = (source.records for source in self._sources)
        values = [*older.values, *newer.values]
        sizes = self._gather("nodes", older.ends - older.starts, newer.ends - newer.starts)
        bounds = exclusive_sums(sizes)
        indices = self._gather("record_indices", older.indices, newer.indices)
        return MetadataRecords(
            [values[i] for i in self._items("record_values").tolist()],
            bounds[:-1],
            bounds[1:],
            indices + self._shifts("record_values", "record_indices"),
            older.id_key,
        )

    def _merge_mentions(self) -> tuple[list[str], MentionTable]:
        """Return the sorted names of the entities that are still mentioned, and all mentions."""
        older, newer = (bounds.mentions for bounds in self._bounds)
        older_names, newer_names = (source.graph.names for source in self._sources)
        names = [*older_names, *newer_names]
        entities = np.concatenate([older.entities, newer.entities + len(older_names)])
        entities = entities[self._items("mention_rows")]
        used = np.unique(entities)
        merged_names = sorted({names[i] for i in used.tolist()})
        merged_rows = {name: row for row, name in enumerate(merged_names)}
        new_row = np.zeros(len(names), dtype=np.int64)
        new_row[used] = [merged_rows[names[i]] for i in used.tolist()]
        return merged_names, MentionTable(
            new_row[entities],
            self._gather("mention_rows", older.named, newer.named),
            self._gather("sentences", older.sentence_sizes, newer.sentence_sizes),
            self._gather("chunks", older.chunk_sizes, newer.chunk_sizes),
        )
