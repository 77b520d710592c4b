"""Building a snapshot from the rows in the store."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.entities.chunk_extractor import normalize_mentions
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.graph.builder import apply_edits, graph_from_mentions, mention_table
from e2graphrag_integrations.graph.titles import SubjectTableBuilder
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.search.bm25 import BM25Index, build_bm25
from e2graphrag_integrations.search.dense import FLOAT32, DenseIndex, VectorKind
from e2graphrag_integrations.snapshot.metadata import MetadataRecords, MetadataSections
from e2graphrag_integrations.snapshot.snapshot import NODE_ARRAYS, NodeTable, Snapshot
from e2graphrag_integrations.snapshot.window_texts import window_texts
from e2graphrag_integrations.store.records import (
    DocumentHeader,
    StoredNode,
    canonical_json,
    decode_sentences,
)
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import Node, Segment

logger = logging.getLogger(__name__)

_MAX_TRUSTED_WINDOWS = 10_000
"""Maximum number of windows for which memory is allocated without counting them."""

_BATCH_NODES = 10_000
"""Nodes per batch, which limits the number of rows in memory."""


def build_snapshot(
    store: Store, document_ids: Sequence[str] | None = None, *, kind: VectorKind = FLOAT32
) -> Snapshot:
    """Build the snapshot of the store's current state from all its rows.

    Args:
        store: The store.
        document_ids: Ids of the documents to include, ascending; None includes all documents.
        kind: The kind of the vectors.

    Raises:
        CorruptStoreError: If a row does not match its checksum or references a missing row.
    """
    with store.read_transaction():
        headers = store.document_headers(document_ids)
        edits = stored_edits(store)
        columns = _ColumnBuilder(headers, edits, kind.allocate)
        with invalid_rows(store.path, "a row or one that it references"):
            names, mentions = mention_table(columns.read(store))
        generation, made_with = store.generation, store.manifest()
        tags = store.tag_set()
    table = columns.node_table()
    snapshot = Snapshot(
        generation=generation,
        made_with=made_with,
        documents=[header.id for header in headers],
        titles=[header.title for header in headers],
        nodes=table,
        chunk_nodes=np.flatnonzero(table.level == 0).astype(np.int64),
        chunk_words=_concatenate(columns.chunk_words),
        graph=graph_from_mentions(*apply_edits(names, mentions, edits)),
        dense=DenseIndex(columns.vectors, _concatenate(columns.window_nodes)),
        window_spans=np.concatenate([np.empty((0, 2), dtype=np.int64), *columns.window_spans]),
        records=_metadata_records(headers, columns.segments, columns.text_starts, table),
        bm25_factory=lambda snapshot: bm25_from_store(store, snapshot),
        stamps=[header.stamp for header in headers],
        mentions=mentions,
        mention_names=names if edits else None,
        edits=edits,
        subject_candidates=columns.subjects.table(),
    )
    if tags is None:
        return snapshot
    from e2graphrag_integrations.snapshot.tags import assign_tags

    return replace(snapshot, tags=tags, tags_factory=assign_tags)


def stored_edits(store: Store) -> EntityEdits:
    """Return the user's edits of the entities.

    Raises:
        CorruptStoreError: If a row does not match its checksum, or the edits contradict each other.
    """
    if not store.read("SELECT 1 FROM entity_edits LIMIT 1"):
        return NO_EDITS
    from e2graphrag_integrations.store.tables.entity_edits import read_edits

    return read_edits(store)


class _ColumnBuilder:
    """Builds the arrays for a snapshot, one batch of documents at a time."""

    def __init__(
        self,
        headers: Sequence[DocumentHeader],
        edits: EntityEdits,
        allocate: Callable[[int, int], Any],
    ) -> None:
        self._headers = headers
        self._edits = edits
        self._document_rows = {header.id: row for row, header in enumerate(headers)}
        self._tables: list[NodeTable] = []
        self._windows_read = 0
        self._nodes_read = 0
        self._chunks_read = 0
        self._allocate = allocate
        self.vectors = allocate(0, 0)
        self.window_nodes: list[IntArray] = []
        self.window_spans: list[IntArray] = []
        self.chunk_words: list[IntArray] = []
        self.segments: dict[str, list[Segment]] = {}
        self.text_starts: dict[str, int] = {}
        self.subjects = SubjectTableBuilder()

    def read(self, store: Store) -> Iterator[list[list[tuple[str, str]]]]:
        """Read all rows, and yield the normalized mentions of each chunk."""
        forms: dict[str, str] = {}  # shared, because most names occur in several documents
        windows = sum(header.windows for header in self._headers)
        if windows > _MAX_TRUSTED_WINDOWS:
            # A crafted count must not decide how much memory is allocated. Counting all windows
            # takes a second in a large file.
            [(existing,)] = store.read("SELECT count(*) FROM windows")
            windows = min(existing, windows)
        for headers in self._batches():
            stored = list(store.all_nodes([header.id for header in headers]))
            check_row_counts(store.path, headers, stored)
            vectors = store.cached(key for s in stored for _, key in s.windows)
            self._add(stored, vectors, windows)
            for header in headers:
                if header.segments:
                    text = store.document(header.id).text
                    self.segments[header.id] = _close_gaps(header.segments, text)
                    self.text_starts[header.id] = len(text) - len(text.lstrip())
            chunks = [(s.content_key, s.node.document_id) for s in stored if s.node.level == 0]
            extractions = store.cached(key for key, _ in chunks)
            if self._nodes_read >= _BATCH_NODES:  # the build takes long enough to report progress
                total = sum(header.nodes for header in self._headers)
                logger.info("building the snapshot: %d of %d nodes", self._nodes_read, total)
            for number, (key, id_) in enumerate(chunks, self._chunks_read - len(chunks)):
                sentences = self._edits.read_in(id_, decode_sentences(extractions[key]))
                self.subjects.add(number, split_subjects(sentences)[0])
                yield normalize_mentions(sentences, forms, self._edits)

    def _batches(self) -> Iterator[list[DocumentHeader]]:
        ends = accumulate(header.nodes for header in self._headers)
        numbered = (
            (end // _BATCH_NODES, header) for end, header in zip(ends, self._headers, strict=True)
        )
        for _, batch in groupby(numbered, key=itemgetter(0)):
            yield [header for _, header in batch]

    def _add(
        self, stored: Sequence[StoredNode], vectors: Mapping[bytes, bytes], windows: int
    ) -> None:
        nodes = [s.node for s in stored]
        table, chunks = build_node_table(nodes, self._document_rows, self._chunks_read)
        self._tables.append(table)
        self.chunk_words.append(np.asarray([stored[i].words for i in chunks], dtype=np.int64))
        window_nodes = np.repeat(np.arange(len(stored)), [len(s.windows) for s in stored])
        self.window_nodes.append(window_nodes + self._nodes_read)
        spans = [span for s in stored for span, _ in s.windows]
        self.window_spans.append(np.asarray(spans, dtype=np.int64).reshape(-1, 2))
        keys = (key for s in stored for _, key in s.windows)
        for row, key in enumerate(keys, self._windows_read):
            vector = np.frombuffer(vectors[key], dtype="<f4")
            if row == 0:
                self.vectors = self._allocate(windows, len(vector))
            self.vectors[row] = vector
        self._windows_read += len(spans)
        self._nodes_read += len(stored)
        self._chunks_read += len(chunks)

    def node_table(self) -> NodeTable:
        """Return a table of all nodes that were read."""
        columns = {
            name: _concatenate([getattr(table, name) for table in self._tables])
            for name in NODE_ARRAYS
        }
        return NodeTable(ids=[id_ for table in self._tables for id_ in table.ids], **columns)


def _concatenate(arrays: Sequence[IntArray]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def check_row_counts(
    path: str, headers: Sequence[DocumentHeader], stored: Sequence[StoredNode]
) -> None:
    """Check that no node or window is missing, which row checksums cannot detect.

    Args:
        path: The index file, for the error message.
        headers: The documents.
        stored: All nodes of the documents.

    Raises:
        CorruptStoreError: If a document has the wrong number of nodes or windows.
    """
    nodes = Counter(s.node.document_id for s in stored)
    windows = Counter(s.node.document_id for s in stored for _ in s.windows)
    for header in headers:
        if (nodes[header.id], windows[header.id]) != (header.nodes, header.windows):
            raise CorruptStoreError(
                f"{path}: document {header.id!r} has {nodes[header.id]} of {header.nodes} nodes "
                f"and {windows[header.id]} of {header.windows} vectors; run verify(), then restore "
                "a backup or index again"
            )


def build_node_table(
    nodes: Sequence[Node], document_rows: Mapping[str, int], first_chunk: int = 0
) -> tuple[NodeTable, IntArray]:
    """Return a table of the nodes, and the rows of the chunks in this table.

    Args:
        nodes: Complete trees, ordered by document, level and position.
        document_rows: Row of each document by id.
        first_chunk: Number to assign to the first chunk.
    """
    rows = {node.id: i for i, node in enumerate(nodes)}
    chunk_nodes = [i for i, node in enumerate(nodes) if node.level == 0]
    first = np.full(len(nodes), first_chunk + len(nodes), dtype=np.int64)
    last = np.zeros(len(nodes), dtype=np.int64)
    first[chunk_nodes] = first_chunk + np.arange(len(chunk_nodes))
    last[chunk_nodes] = first[chunk_nodes] + 1
    for i, node in enumerate(nodes):  # children come first: levels ascend
        if node.parent_id is not None:
            parent = rows[node.parent_id]
            first[parent] = min(first[parent], first[i])
            last[parent] = max(last[parent], last[i])
    table = NodeTable(
        ids=[node.id for node in nodes],
        document=np.asarray([document_rows[node.document_id] for node in nodes], dtype=np.int64),
        level=np.asarray([node.level for node in nodes], dtype=np.int64),
        position=np.asarray([node.position for node in nodes], dtype=np.int64),
        start=np.asarray([node.start for node in nodes], dtype=np.int64),
        end=np.asarray([node.end for node in nodes], dtype=np.int64),
        first_leaf=first,
        end_leaf=last,
    )
    return table, np.asarray(chunk_nodes, dtype=np.int64)


# BM25


def bm25_from_store(store: Store, snapshot: Snapshot) -> BM25Index:
    """Build the BM25 index over a snapshot's windows from the texts in the store.

    Raises:
        StaleSnapshotError: If the store has a different generation than the snapshot.
    """

    def texts() -> Iterator[str]:
        ids = snapshot.nodes.ids
        for first in range(0, len(ids), _BATCH_NODES):
            batch = ids[first : first + _BATCH_NODES]
            nodes = store.nodes_at(snapshot.generation, batch)
            yield from (nodes[id_].text for id_ in batch)

    with store.read_transaction():
        return build_bm25(window_texts(snapshot, texts()))


# Metadata


def _close_gaps(segments: Sequence[Segment], text: str) -> list[Segment]:
    """Extend segments over the white space after them, so that this space also matches a segment.

    Segments that contain only white space, such as empty pages, are dropped because no chunk
    overlaps them.
    """
    segments = [s for s in segments if text[s.start : s.end].strip()]
    if not segments:
        return []
    ends = [segment.start for segment in segments[1:]] + [len(text)]
    return [
        segment._replace(end=end) if not text[segment.end : end].strip() else segment
        for segment, end in zip(segments, ends, strict=True)
    ]


def _metadata_records(
    headers: Sequence[DocumentHeader],
    segments: Mapping[str, Sequence[Segment]],
    text_starts: Mapping[str, int],
    table: NodeTable,
) -> MetadataRecords:
    numbers: dict[str, int] = {}
    values: list[Mapping[str, Any]] = []

    def number(record: Mapping[str, Any]) -> int:
        key = canonical_json(record)
        if key not in numbers:
            numbers[key] = len(values)
            values.append(record)
        return numbers[key]

    sections: list[list[tuple[int, int]]] = []
    exact: list[dict[tuple[int, int], int]] = []
    for header in headers:
        record = {**header.metadata, "document_id": header.id}
        document_record = number(record)
        spans = [
            (s.start, s.end, number({**record, **s.metadata})) for s in segments.get(header.id, ())
        ]
        sections.append(divide_text(spans, document_record, text_starts.get(header.id, 0)))
        exact.append(
            {(s.start, s.end): number({**record, **s.metadata}) for s in _overlapping(header)}
        )
    chunks = np.flatnonzero(table.level == 0)
    columns = (column[chunks].tolist() for column in (table.document, table.start, table.end))
    records_of_chunks = [
        [own]
        if (own := exact[document].get((start, end))) is not None
        else _records_of_span(sections[document], start, end)
        for document, start, end in zip(*columns, strict=True)
    ]
    starts, ends, indices = records_of_nodes(table, records_of_chunks)
    return MetadataRecords(
        values,
        starts,
        ends,
        indices,
        sections=MetadataSections.of(
            (document, *section) for document, own in enumerate(sections) for section in own
        ),
        languages={header.id: header.language for header in headers if header.language != ENGLISH},
    )


def _overlapping(header: DocumentHeader) -> list[Segment]:
    """Return the segments that overlap others, as chunks do; all other spans are unambiguous."""
    touching = [b.start < a.end for a, b in pairwise(header.segments)]
    return [
        segment
        for segment, left, right in zip(
            header.segments, [False, *touching], [*touching, False], strict=False
        )
        if left or right
    ]


def records_of_nodes(
    table: NodeTable, records_of_chunks: Sequence[Sequence[int]]
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the records of nodes, which are the distinct records of the chunks under them.

    Args:
        table: The nodes.
        records_of_chunks: The rows of the metadata records of each chunk.

    Returns:
        The starts, ends and indices of `MetadataRecords`.
    """
    bounds, indices = [0], list[int]()
    for first, end in zip(table.first_leaf.tolist(), table.end_leaf.tolist(), strict=True):
        indices.extend(dict.fromkeys(chain.from_iterable(records_of_chunks[first:end])))
        bounds.append(len(indices))
    rows = np.asarray(bounds, dtype=np.int64)
    return rows[:-1], rows[1:], np.asarray(indices, dtype=np.int64)


def divide_text(
    segments: Sequence[tuple[int, int, int]], around: int, text_start: int = 0
) -> list[tuple[int, int]]:
    """Return `(start, record)` of the sections of a text, each up to the start of the next.

    The first section also applies to the white space before it.

    Args:
        segments: `(start, end, record)` of each segment, in order and without overlaps.
        around: The record of the text outside all segments.
        text_start: Length of the white space at the start of the text.
    """
    sections: list[tuple[int, int]] = []
    covered = text_start
    for start, end, record in segments:
        if start > covered:
            sections.append((covered, around))
        if end > start:
            sections.append((start, record))
        covered = end
    sections.append((covered, around))
    return [next(run) for _, run in groupby(sections, key=itemgetter(1))]


def _records_of_span(sections: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """Return the distinct metadata records that apply to a span, in order; see `divide_text`."""
    first = max(bisect_right(sections, start, key=itemgetter(0)) - 1, 0)
    last = bisect_left(sections, end, key=itemgetter(0))
    return list(dict.fromkeys(record for _, record in sections[first:last]))
