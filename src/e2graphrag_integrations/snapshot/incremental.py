"""Deriving a snapshot from an older one, which reads and decodes only the changed documents.

Every array in a snapshot is ordered by document. The new snapshot is therefore assembled from
slices of two others: the older snapshot, for unchanged documents, and a snapshot that is built from
the changed documents alone. The graph is updated. The merged snapshot and its BM25 index are
bit-for-bit identical to those of a full build.

The vectors and the term frequencies take most of the space. In a large index, they are not copied
either: a segment that stays as it is and the recent windows are searched together. On disk, a
segment is the snapshot of some documents. It never changes. A document that has changed is in
several segments, of which the last one counts, as in the segments of Lucene.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.strings import (
    MergedNames,
    StringArray,
    concatenate_strings,
    find_rows,
    index_strings,
    merge_names,
)
from e2graphrag_integrations.graph.builder import (
    MentionTable,
    apply_edits,
    graph_from_mentions,
    graph_of,
    renumbered,
)
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.incremental import updated_pairs, weights_of_sentences
from e2graphrag_integrations.graph.titles import SubjectTable, TitleForms
from e2graphrag_integrations.search.bm25 import BM25Index, append_bm25, merge_bm25
from e2graphrag_integrations.search.dense import DenseIndex, kind_of
from e2graphrag_integrations.search.ivf import InvertedLists, assign_lists
from e2graphrag_integrations.search.segmented import (
    SegmentedIndex,
    SegmentedVectors,
    segmented,
    taken_vectors,
    without_width,
)
from e2graphrag_integrations.snapshot.metadata import MetadataRecords, MetadataSections
from e2graphrag_integrations.snapshot.snapshot import NodeTable, Snapshot

Ints = NDArray[np.int64]
Rows = NDArray[Any] | SegmentedVectors

_MIN_SEGMENTED = 20_000
"""Minimum number of unchanged windows that are not copied. Fewer are copied in milliseconds."""

_MAX_RECENT = 20_000
"""Maximum number of recent windows in addition to the others. Each query compares all of them,
which takes two or three milliseconds."""

_MIN_KEPT = 0.8
"""Minimum share of the unchanged windows that still exist. Queries search the others in vain."""


def needs_merge(snapshot: Snapshot) -> bool:
    """Return whether the segments of a snapshot should become one before there are too many."""
    dense = snapshot.dense
    return isinstance(dense, SegmentedIndex) and len(dense.recent_rows) > _MAX_RECENT // 2


def merged_segments(snapshot: Snapshot) -> Snapshot:
    """Return the same snapshot in one segment."""
    _, dense = snapshot.stored_parts()
    return replace(
        snapshot,
        dense=DenseIndex(
            taken_vectors(dense.vectors, slice(None)), dense.window_nodes, dense.lists
        ),
        prebuilt_bm25=BM25Index.of(snapshot.bm25.postings),
        segments=None,
    )


def is_large(snapshot: Snapshot) -> bool:
    """Return whether a small change to a snapshot does not copy all of it."""
    return len(snapshot.dense.window_nodes) >= _MIN_SEGMENTED


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

    def merge(
        self,
        generation: str,
        made_with: Mapping[str, str],
        bm25: BM25Index | None,
        *,
        may_segment: bool = True,
    ) -> Snapshot:
        """Return the merged snapshot.

        Args:
            generation: Generation of the merged snapshot.
            made_with: Settings and model fingerprints of the merged snapshot.
            bm25: The BM25 index of the older snapshot; None leaves the merged one without.
            may_segment: Whether to leave most of a large index where it is.
        """
        older, newer = self._sources
        nodes = self._merge_nodes()
        names, mentions = self._merge_mentions()
        stamps = [*older.stamps, *newer.stamps]
        titles = [*older.titles, *newer.titles]
        rows = self._rows.tolist()
        in_segments = may_segment and bm25 is not None and self._is_small_change
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
            graph=self._merge_graph(names, mentions),
            mentions=mentions,
            mention_names=names if newer.edits else None,
            dense=self._append_dense() if in_segments else self._merge_dense(),
            window_spans=self._gather("windows", older.window_spans, newer.window_spans),
            records=self._merge_records(),
            subject_candidates=self._merge_subjects(),
            prebuilt_bm25=None if bm25 is None else self._merge_bm25(bm25, in_segments=in_segments),
            title_forms=self._title_forms,
            segments=None,
        )

    @property
    def _title_forms(self) -> TitleForms:
        """The entities of titles, unless most of them are of titles that no longer exist."""
        older, newer = self._sources
        forms = older.title_forms
        if forms is None or older.edits != newer.edits or len(forms) > 2 * len(self._documents):
            return TitleForms(newer.edits)
        return forms

    @property
    def _is_small_change(self) -> bool:
        """Whether most of a large index remains as it is."""
        (_, older), (_, newer) = self._parts
        total, recent = len(older.window_nodes), 0
        if isinstance(older, SegmentedIndex):
            total, recent = len(older.base_rows), len(older.recent_rows)
        unchanged = int((self._new_windows[0] >= 0).sum())
        return (
            unchanged - recent >= max(_MIN_SEGMENTED, _MIN_KEPT * total)
            and recent + len(newer.window_nodes) <= _MAX_RECENT
        )

    def _merge_bm25(self, older_bm25: BM25Index, *, in_segments: bool) -> BM25Index:
        older, newer = self._new_windows
        parts = [(older_bm25, older), (self._sources[1].bm25, newer)]
        merge = append_bm25 if in_segments else merge_bm25
        return merge(parts, len(self._items("windows")))

    @lazy
    def _new_windows(self) -> tuple[Ints, Ints]:
        """The row in the result of each window of both sources; -1 for one that is dropped."""
        sizes = [int(bounds["windows"][-1]) for bounds in self._bounds]
        items = self._items("windows")
        new_rows = np.full(sum(sizes), -1, dtype=np.int64)
        new_rows[items] = np.arange(len(items))
        return new_rows[: sizes[0]], new_rows[sizes[0] :]

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

    def _gather(self, kind: str, older: Rows, newer: Rows) -> NDArray[Any]:
        """Merge an array from both sources, in the order of the result."""
        template = older if len(older) else newer  # an empty array may have the wrong width
        sizes = np.subtract(*reversed(self._slices(kind)))
        shape = (int(sizes.sum()), *template.shape[1:])
        gathered = np.empty(shape, np.result_type(older, newer))
        target = 0
        for source, start, end in self._runs(kind):
            gathered[target : target + end - start] = (older, newer)[source][start:end]
            target += end - start
        return gathered

    def _gather_strings(self, kind: str, older: Sequence[str], newer: Sequence[str]) -> StringArray:
        """Merge strings from both sources, in the order of the result."""
        sources = StringArray.of(older), StringArray.of(newer)
        runs = self._runs(kind)
        return concatenate_strings([(sources[source], start, end) for source, start, end in runs])

    def _runs(self, kind: str) -> Iterator[tuple[int, int, int]]:
        """Yield the source, start and end of adjacent items that remain adjacent in the result.

        Documents that are adjacent in one source, as most are, are copied together.
        """
        starts, ends = self._slices(kind)
        breaks = (self._source[1:] != self._source[:-1]) | (starts[1:] != ends[:-1])
        bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(self._documents)]
        for first, end in pairwise(bounds):
            if first < end and starts[first] < ends[end - 1]:
                yield int(self._source[first]), int(starts[first]), int(ends[end - 1])

    def _shifts(self, kind: str, per: str) -> Ints:
        """Return how far the row of a kind to which each item of the kind `per` refers moves."""
        starts, ends = self._slices(kind)
        new_starts = exclusive_sums(ends - starts)[:-1]
        per_starts, per_ends = self._slices(per)
        return np.repeat(new_starts - starts, per_ends - per_starts)

    # Arrays

    def _merge_nodes(self) -> NodeTable:
        older, newer = (source.nodes for source in self._sources)
        starts, ends = self._slices("nodes")
        shifts = self._shifts("chunks", "nodes")

        def gather(name: str) -> IntArray:
            return self._gather("nodes", getattr(older, name), getattr(newer, name))

        return NodeTable(
            ids=self._gather_strings("nodes", older.ids, newer.ids),
            document=np.repeat(np.arange(len(self._documents)), ends - starts),
            level=gather("level"),
            position=gather("position"),
            start=gather("start"),
            end=gather("end"),
            first_leaf=gather("first_leaf") + shifts,
            end_leaf=gather("end_leaf") + shifts,
        )

    def _append_dense(self) -> SegmentedIndex:
        older, newer = (dense for _, dense in self._parts)
        if not isinstance(newer, DenseIndex):
            raise TypeError("recent documents must be in one segment")
        return segmented(older, newer, self._new_windows, self._merge_window_nodes())

    def _merge_window_nodes(self) -> NDArray[np.int64]:
        older, newer = (dense.window_nodes for _, dense in self._parts)
        nodes: NDArray[np.int64] = self._gather("windows", older, newer)
        return nodes + self._shifts("nodes", "windows")

    def _merge_dense(self) -> DenseIndex:
        older, newer = (dense for _, dense in self._parts)
        gather = partial(self._gather, "windows")
        vectors = kind_of(older.vectors).mapped(gather, older.vectors, newer.vectors)
        ivf = None  # trained on first use
        lists = older.lists
        if lists is not None and lists.suits(len(vectors)):
            assignments = assign_lists(lists.centroids, newer.vectors)
            assignments = self._gather("windows", lists.assignments, assignments)
            ivf = InvertedLists(lists.centroids, assignments)
        return DenseIndex(without_width(vectors), self._merge_window_nodes(), ivf)

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
        chunks = self._gather("subjects", older.chunks, newer.chunks)
        return SubjectTable(
            chunks + self._shifts("chunks", "subjects"),
            self._gather("subjects", older.levels, newer.levels),
            self._gather("subjects", older.starts, newer.starts),
            self._gather_strings("subjects", older.names, newer.names),
        )

    def _merge_mentions(self) -> tuple[Sequence[str], MentionTable]:
        """Return the sorted names that are still mentioned, and all mentions, before the edits."""
        older, newer = (mentions for mentions, _ in self._parts)
        merged = self._names
        entities = self._gather(
            "mentions", merged.older_rows[older.entities], merged.newer_rows[newer.entities]
        )
        labels = sorted({*older.labels, *newer.labels})
        numbers = (renumbered(one.label_numbers, one.labels, labels) for one in (older, newer))
        return merged.names, MentionTable(
            entities,
            self._gather("mentions", *numbers),
            self._gather("sentences", older.sentence_sizes, newer.sentence_sizes),
            self._gather("chunks", older.chunk_sizes, newer.chunk_sizes),
            labels,
        ).with_used_labels()

    @lazy
    def _names(self) -> MergedNames:
        """The names before the edits."""
        older, newer = (source.unedited_names for source in self._sources)
        entities, _ = self._dropped_mentions
        counts = np.bincount(self._parts[0][0].entities, minlength=len(older))
        dropped = np.bincount(entities, minlength=len(older))
        return merge_names(older, newer, np.flatnonzero(counts == dropped))

    @lazy
    def _dropped_mentions(self) -> tuple[IntArray, IntArray]:
        """The mentions in documents of the older snapshot that are dropped, and sentence sizes."""
        mentions, _ = self._parts[0]
        bounds = self._bounds[0]
        is_dropped = np.ones(len(bounds["chunks"]) - 1, dtype=np.bool_)
        is_dropped[self._rows[self._source == 0]] = False

        def items(kind: str) -> Ints:
            starts = bounds[kind][:-1][is_dropped]
            return concatenated_ranges(starts, bounds[kind][1:][is_dropped] - starts)

        return mentions.entities[items("mentions")], mentions.sentence_sizes[items("sentences")]

    def _merge_graph(self, names: Sequence[str], mentions: MentionTable) -> EntityGraph:
        """Return the graph of the merged mentions."""
        older, newer = self._sources
        edits = newer.edits
        entities, edited = apply_edits(names, mentions, edits)
        if older.graph.pairs is None or newer.graph.pairs is None or older.edits != edits:
            return graph_from_mentions(entities, edited)
        if edits:
            index = index_strings(entities)
            before, after = older.graph.names, newer.graph.names
            rows = find_rows(index, before), find_rows(index, after)
        else:
            rows = self._names.older_rows, self._names.newer_rows
        removed = weights_of_sentences(
            *self._dropped_mentions, older.unedited_names, older.graph, edits
        )
        pairs = updated_pairs((older.graph.pairs, rows[0]), (newer.graph.pairs, rows[1]), removed)
        return graph_of(entities, edited, pairs)


def join_segments(
    parts: Sequence[Snapshot], deleted: AbstractSet[str], *, may_segment: bool = False
) -> Snapshot:
    """Return one snapshot of the documents in several segments, with its BM25 index.

    Args:
        parts: The segments, oldest first. Each can load its BM25 index. The last one contains no
            document that was deleted since.
        deleted: Ids of the documents that were deleted.
        may_segment: Whether to leave most of the first segment where it is.
    """
    *older, joined = parts
    for part in reversed(older):  # so that the newer one of two contains no outdated document
        documents = sorted({*part.documents, *joined.documents} - deleted)
        merger = SnapshotMerger(part, joined, documents)
        joined = merger.merge(
            joined.generation, joined.made_with, part.bm25, may_segment=may_segment
        )
    return joined
