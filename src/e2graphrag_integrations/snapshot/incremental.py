"""Deriving a snapshot from an older one, which reads and decodes only the changed documents.

Every array in a snapshot is ordered by document. The new snapshot is therefore assembled from
slices of two others: the older snapshot, for unchanged documents, and a snapshot that is built from
the changed documents alone. The graph is recomputed from the merged mentions, which is cheap. The
merged snapshot and its BM25 index are bit-for-bit identical to those of a full build.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations.graph.builder import MentionTable, graph_from_mentions
from e2graphrag_integrations.graph.edited_mentions import apply_edits
from e2graphrag_integrations.graph.subject_table import SubjectTable
from e2graphrag_integrations.search.bm25 import BM25Index, merge_bm25
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists, assign_lists
from e2graphrag_integrations.snapshot.snapshot import (
    MetadataRecords,
    MetadataSections,
    NodeTable,
    Snapshot,
)

Ints = NDArray[np.int64]


def _document_bounds(snapshot: Snapshot) -> dict[str, Ints]:
    """Return the bounds of each document's items in the arrays of a snapshot, by kind of item.

    The items of document `i` are at `bounds[i]:bounds[i + 1]`.
    """
    rows = {id_: row for row, id_ in enumerate(snapshot.documents)}
    records = snapshot.records
    mentions, dense = snapshot.stored_parts()
    record_documents = [rows[value[records.id_key]] for value in records.values]

    def bounds(documents: ArrayLike) -> Ints:
        """Return the bounds, given the row of each item's document, ascending."""
        return np.searchsorted(documents, np.arange(len(rows) + 1)).astype(np.int64)

    nodes, chunks = bounds(snapshot.nodes.document), bounds(snapshot.chunk_documents)
    sentences = exclusive_sums(mentions.chunk_sizes)[chunks]
    return {
        "nodes": nodes,
        "chunks": chunks,
        "windows": bounds(snapshot.nodes.document[dense.window_nodes]),
        "sentences": sentences,
        "mentions": exclusive_sums(mentions.sentence_sizes)[sentences],
        "record_values": bounds(np.asarray(record_documents, dtype=np.int64)),
        "sections": bounds(records.sections.documents),
        "subjects": np.searchsorted(snapshot.subject_candidates.chunks, chunks).astype(np.int64),
        "record_indices": np.append(records.starts, len(records.indices)).astype(np.int64)[nodes],
    }


class SnapshotMerger:
    """Merges two snapshots into one.

    Args:
        older: A snapshot that contains the unchanged documents, and possibly others.
        newer: A snapshot of the changed and new documents.
        documents: Ids of all documents in the result, ascending.
    """

    def __init__(self, older: Snapshot, newer: Snapshot, documents: Sequence[str]) -> None:
        self._sources = (older, newer)
        self._parts = [source.stored_parts() for source in self._sources]
        self._bounds = [_document_bounds(source) for source in self._sources]
        self._documents = documents
        # For each document in the result, its row in the concatenated sources.
        rows = {id_: row for row, id_ in enumerate([*older.documents, *newer.documents])}
        self._rows = np.asarray([rows[id_] for id_ in documents], dtype=np.int64)
        self._source = (self._rows >= len(older.documents)).astype(np.int64)

    def merge(self, generation: str, made_with: Mapping[str, str]) -> Snapshot:
        """Return the merged snapshot, without a BM25 index.

        Args:
            generation: Generation of the merged snapshot.
            made_with: Settings and model fingerprints of the merged snapshot.
        """
        older, newer = self._sources
        nodes = self._merge_nodes()
        names, mentions = self._merge_mentions()
        stamps = [*older.stamps, *newer.stamps]
        titles = [*older.titles, *newer.titles]
        rows = self._rows.tolist()
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
            graph=graph_from_mentions(*apply_edits(names, mentions, newer.edits)),
            mentions=mentions,
            mention_names=names if newer.edits else None,
            dense=self._merge_dense(),
            window_spans=self._gather("windows", older.window_spans, newer.window_spans),
            records=self._merge_records(),
            subject_candidates=self._merge_subjects(),
        )

    def merge_bm25(self, older_bm25: BM25Index) -> BM25Index:
        """Return the BM25 index over all windows, given the BM25 index of the older snapshot."""
        sizes = [int(bounds["windows"][-1]) for bounds in self._bounds]
        items = self._items("windows")
        new_rows = np.full(sum(sizes), -1, dtype=np.int64)
        new_rows[items] = np.arange(len(items))
        older, newer = new_rows[: sizes[0]], new_rows[sizes[0] :]
        return merge_bm25([(older_bm25, older), (self._sources[1].bm25, newer)], len(items))

    # Slices. A `kind` is a key of the dictionary that `_document_bounds` returns.

    def _slices(self, kind: str) -> tuple[Ints, Ints]:
        """Return the start and end of each document's slice in its source snapshot."""
        starts = np.concatenate([bounds[kind][:-1] for bounds in self._bounds])
        ends = np.concatenate([bounds[kind][1:] for bounds in self._bounds])
        return starts[self._rows], ends[self._rows]

    def _items(self, kind: str) -> Ints:
        """Return, for each item in the result, its row in the concatenated sources."""
        starts, ends = self._slices(kind)
        older_size = int(self._bounds[0][kind][-1])
        return concatenated_ranges(starts + self._source * older_size, ends - starts)

    def _gather(self, kind: str, older: NDArray[Any], newer: NDArray[Any]) -> NDArray[Any]:
        """Merge an array from both sources, in the order of the result."""
        starts, ends = self._slices(kind)
        targets = exclusive_sums(ends - starts)
        template = older if len(older) else newer  # an empty array may have the wrong width
        shape = (int(targets[-1]), *template.shape[1:])
        gathered = np.empty(shape, np.result_type(older, newer))
        # Documents that are adjacent in one source, as most are, are copied together.
        breaks = (self._source[1:] != self._source[:-1]) | (starts[1:] != ends[:-1])
        runs = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(self._documents)]
        for first, end in pairwise(runs):
            if targets[first] < targets[end]:
                source = (older, newer)[self._source[first]]
                gathered[targets[first] : targets[end]] = source[starts[first] : ends[end - 1]]
        return gathered

    def _shifts(self, kind: str, per: str) -> Ints:
        """Return how far the rows that each item refers to move in the merge.

        Args:
            kind: The kind of the rows.
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
        older, newer = (dense for _, dense in self._parts)
        vectors = self._gather("windows", older.vectors, newer.vectors)
        nodes = self._gather("windows", older.window_nodes, newer.window_nodes)
        ivf = None  # trained on first use
        if older.ivf is not None and older.ivf.suits(len(vectors)):
            centroids = older.ivf.centroids
            assignments = assign_lists(centroids, newer.vectors)
            assignments = self._gather("windows", older.ivf.assignments, assignments)
            ivf = InvertedLists(centroids, assignments)
        return DenseIndex(
            vectors if len(vectors) else np.empty((0, 0), dtype=np.float32),
            nodes + self._shifts("nodes", "windows"),
            ivf,
        )

    def _merge_records(self) -> MetadataRecords:
        older, newer = (source.records for source in self._sources)
        values = [*older.values, *newer.values]
        changed = {*self._sources[1].documents}
        languages = {
            **{id_: code for id_, code in older.languages.items() if id_ not in changed},
            **newer.languages,
        }
        sizes = self._gather("nodes", older.ends - older.starts, newer.ends - newer.starts)
        bounds = exclusive_sums(sizes)
        indices = self._gather("record_indices", older.indices, newer.indices)
        return MetadataRecords(
            [values[i] for i in self._items("record_values").tolist()],
            bounds[:-1],
            bounds[1:],
            indices + self._shifts("record_values", "record_indices"),
            older.id_key,
            self._merge_sections(),
            {id_: code for id_ in self._documents if (code := languages.get(id_)) is not None},
        )

    def _merge_sections(self) -> MetadataSections:
        older, newer = (source.records.sections for source in self._sources)
        starts, ends = self._slices("sections")
        records = self._gather("sections", older.records, newer.records)
        return MetadataSections(
            np.repeat(np.arange(len(self._documents)), ends - starts),
            self._gather("sections", older.starts, newer.starts),
            records + self._shifts("record_values", "sections"),
        )

    def _merge_subjects(self) -> SubjectTable:
        older, newer = (source.subject_candidates for source in self._sources)
        names = [*older.names, *newer.names]
        chunks = self._gather("subjects", older.chunks, newer.chunks)
        return SubjectTable(
            chunks + self._shifts("chunks", "subjects"),
            self._gather("subjects", older.levels, newer.levels),
            self._gather("subjects", older.starts, newer.starts),
            [names[i] for i in self._items("subjects").tolist()],
        )

    def _merge_mentions(self) -> tuple[list[str], MentionTable]:
        """Return the sorted names that are still mentioned, and all mentions, before the edits."""
        older, newer = (mentions for mentions, _ in self._parts)
        older_names, newer_names = (source.unedited_names for source in self._sources)
        names = [*older_names, *newer_names]
        entities = np.concatenate([older.entities, newer.entities + len(older_names)])
        entities = entities[self._items("mentions")]
        used = np.unique(entities)
        merged_names = sorted({names[i] for i in used.tolist()})
        merged_rows = {name: row for row, name in enumerate(merged_names)}
        new_row = np.zeros(len(names), dtype=np.int64)
        new_row[used] = [merged_rows[names[i]] for i in used.tolist()]
        return merged_names, MentionTable(
            new_row[entities],
            self._gather("mentions", older.named, newer.named),
            self._gather("sentences", older.sentence_sizes, newer.sentence_sizes),
            self._gather("chunks", older.chunk_sizes, newer.chunk_sizes),
        )
