"""A snapshot of some of the nodes of another one, as if the others had never been indexed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.strings import StringArray
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.graph.builder import MentionTable, apply_edits, graph_from_mentions
from e2graphrag_integrations.graph.titles import SubjectTable
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch, OwnVectors
from e2graphrag_integrations.search.segmented import taken_vectors, without_width
from e2graphrag_integrations.search.subset import SubsetSearch
from e2graphrag_integrations.snapshot.metadata import MetadataRecords, MetadataSections
from e2graphrag_integrations.snapshot.snapshot import NodeTable, Snapshot
from e2graphrag_integrations.snapshot.tags import assign_tags


class SnapshotSubsets:
    """Takes subsets of a snapshot. What all of them need is computed once.

    The vectors are copied if they are in memory; so a subset then does not refer to the snapshot.

    Args:
        snapshot: The snapshot.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @lazy
    def _first_sentences(self) -> IntArray:
        return exclusive_sums(self._snapshot.unedited_mentions.chunk_sizes)

    @lazy
    def _first_mentions(self) -> IntArray:
        return exclusive_sums(self._snapshot.unedited_mentions.sentence_sizes)

    def take(self, visible: NDArray[np.bool_], edits: EntityEdits) -> Snapshot:
        """Return the snapshot of some nodes.

        A document of which some nodes are not visible has no title: it describes all of them. Every
        array equals that of a full build of the visible nodes, except that metadata records which
        apply to no visible node are left out.

        Args:
            visible: Mask over the nodes. If a summary is visible, all nodes under it are, too.
            edits: The entity edits that apply. They read names as those of the snapshot do.
        """
        whole = self._snapshot
        nodes, rows = whole.nodes, np.flatnonzero(visible)
        visible_chunks = visible[whole.chunk_nodes]
        chunks, new_chunks = np.flatnonzero(visible_chunks), exclusive_sums(visible_chunks)
        documents, owners = np.unique(nodes.document[rows], return_inverse=True)
        totals = np.searchsorted(nodes.document, documents, "right") - np.searchsorted(
            nodes.document, documents
        )
        is_whole = totals == np.bincount(owners, minlength=len(documents))
        table = NodeTable(
            ids=_take(nodes.ids, rows),
            document=owners.astype(np.int64),
            level=nodes.level[rows],
            position=nodes.position[rows],
            start=nodes.start[rows],
            end=nodes.end[rows],
            first_leaf=new_chunks[nodes.first_leaf[rows]],
            end_leaf=new_chunks[nodes.end_leaf[rows]],
        )
        windows, dense = self._dense(rows)
        names, mentions = self._mentions(chunks)
        ids = [whole.documents[row] for row in documents.tolist()]
        taken = replace(
            whole,
            documents=ids,
            titles=[
                whole.titles[row] if all_visible else None
                for row, all_visible in zip(documents.tolist(), is_whole.tolist(), strict=True)
            ],
            stamps=[whole.stamps[row] for row in documents.tolist()],
            nodes=table,
            chunk_nodes=np.flatnonzero(table.level == 0).astype(np.int64),
            chunk_words=whole.chunk_words[chunks],
            dense=dense,
            window_spans=whole.window_spans[windows],
            records=self._records(rows, documents, ids),
            bm25_factory=_no_bm25,
            mentions=mentions,
            mention_names=names,
            mentions_factory=None,
            prebuilt_bm25=None,
            subject_candidates=self._subjects(visible_chunks, new_chunks),
            tags_factory=assign_tags,
            title_forms=None,
            segments=None,
            partial_documents=np.flatnonzero(~is_whole).tolist(),
        )
        return with_edits(taken, edits)

    def _dense(self, rows: IntArray) -> tuple[IntArray, NodeSearch]:
        """Return the windows of nodes, and the search among them."""
        dense = self._snapshot.dense
        windows, owners = dense.windows_of(rows)
        if not isinstance(dense, OwnVectors):
            return windows, SubsetSearch(dense, windows, rows, owners, len(self._snapshot.is_chunk))
        return windows, DenseIndex(without_width(taken_vectors(dense.vectors, windows)), owners)

    def _mentions(self, chunks: IntArray) -> tuple[Sequence[str], MentionTable]:
        """Return the names that chunks mention, sorted, and their mentions."""
        mentions = self._snapshot.unedited_mentions
        chunk_sizes = mentions.chunk_sizes[chunks]
        sentences = concatenated_ranges(self._first_sentences[chunks], chunk_sizes)
        sentence_sizes = mentions.sentence_sizes[sentences]
        places = concatenated_ranges(self._first_mentions[sentences], sentence_sizes)
        used, entities = np.unique(mentions.entities[places], return_inverse=True)
        taken = MentionTable(
            entities.astype(np.int64),
            mentions.label_numbers[places],
            sentence_sizes,
            chunk_sizes,
            mentions.labels,
        )
        return _take(self._snapshot.unedited_names, used), taken.with_used_labels()

    def _records(self, rows: IntArray, documents: IntArray, ids: Sequence[str]) -> MetadataRecords:
        records = self._snapshot.records
        sizes = records.ends[rows] - records.starts[rows]
        used, indices = np.unique(
            records.indices[concatenated_ranges(records.starts[rows], sizes)], return_inverse=True
        )
        bounds = exclusive_sums(sizes)
        return MetadataRecords(
            [records.values[row] for row in used.tolist()],
            bounds[:-1],
            bounds[1:],
            indices.astype(np.int64),
            records.id_key,
            self._sections(documents, used),
            {id_: records.languages[id_] for id_ in ids if id_ in records.languages},
        )

    def _sections(self, documents: IntArray, used: IntArray) -> MetadataSections:
        sections = self._snapshot.records.sections
        first = np.searchsorted(sections.documents, documents)
        sizes = np.searchsorted(sections.documents, documents, "right") - first
        rows = concatenated_ranges(first, sizes)
        owners = np.repeat(np.arange(len(documents)), sizes)
        is_used = np.isin(sections.records[rows], used)
        return MetadataSections(
            owners[is_used],
            sections.starts[rows[is_used]],
            np.searchsorted(used, sections.records[rows[is_used]]),
        )

    def _subjects(self, visible_chunks: NDArray[np.bool_], new_chunks: IntArray) -> SubjectTable:
        candidates = self._snapshot.subject_candidates
        taken = candidates.select(visible_chunks[candidates.chunks])
        return replace(taken, chunks=new_chunks[taken.chunks])


def with_edits(snapshot: Snapshot, edits: EntityEdits) -> Snapshot:
    """Return a snapshot with other entity edits that do not change how names are read."""
    names, mentions = snapshot.unedited_names, snapshot.unedited_mentions
    return replace(
        snapshot,
        edits=edits,
        graph=graph_from_mentions(*apply_edits(names, mentions, edits)),
        mention_names=names if edits else None,
        title_forms=None,
    )


def _take(strings: Sequence[str], rows: IntArray) -> Sequence[str]:
    if isinstance(strings, StringArray):
        return list(strings.take(rows))
    return [strings[row] for row in rows.tolist()]


def _no_bm25(snapshot: Snapshot) -> BM25Index:
    raise TypeError(f"the BM25 index of a subset of {snapshot.generation} must be given")
