"""Retrieval snapshots, built from the records of an index struct."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore import BaseDocumentStore
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.string_index import index_strings
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.graph.builder import GraphBuilder, MentionTable
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.subject_table import SubjectTable, SubjectTableBuilder
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.nodes import LEVEL, TREE, node_text
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, MentionColumns
from e2graphrag_integrations.llama_index.storage.vector_stores import VectorStoreAdapter
from e2graphrag_integrations.search.bm25 import BM25Index, build_bm25
from e2graphrag_integrations.snapshot.build import (
    build_node_table,
    divide_text,
    records_of_nodes,
    window_texts,
)
from e2graphrag_integrations.snapshot.snapshot import (
    MetadataRecords,
    MetadataSections,
    NodeTable,
    Snapshot,
)
from e2graphrag_integrations.snapshot.tags import assign_tags
from e2graphrag_integrations.store.records import StaleSnapshotError, canonical_json
from e2graphrag_integrations.types import NOUN, SUBJECT_LABELS, Node, Sentences

RECORD_ID = "e2_tree"
"""Reserved metadata key of the document id; user metadata never contains it."""


def build_snapshot(
    struct: E2GraphRAGIndexStruct, vectors: VectorStoreAdapter, docstore: BaseDocumentStore
) -> Snapshot:
    """Build the snapshot of an index; an index file with the same documents gives an equal one.

    The docstore is read only when a strategy first needs BM25.

    Raises:
        CorruptStoreError: If a record is damaged.
    """
    generation, edits = struct.generation, struct.edits
    records = list(struct.records())
    nodes = [node for record in records for node in record.nodes]
    table, chunk_nodes = build_node_table(nodes, {record.id: i for i, record in enumerate(records)})
    first_row, owners, ids, spans = 0, [], [], []
    for record in records:
        for window in record.windows:
            owners.append(first_row + window.node_row)
            ids.append(window.vector_id)
            spans.append(window.span)
        first_row += len(record.nodes)
    documents = [node.document_id for node in nodes]
    return Snapshot(
        generation=generation,
        made_with=dict(struct.made_with),
        documents=[record.id for record in records],
        titles=[record.title for record in records],
        stamps=[_stamp(struct.payloads[record.id]) for record in records],
        nodes=table,
        chunk_nodes=chunk_nodes,
        chunk_words=np.asarray([n for r in records for n in r.word_counts], dtype=np.int64),
        graph=build_graph(records, edits),
        dense=vectors.search(ids, np.asarray(owners, dtype=np.int64), documents),
        window_spans=np.asarray(spans, dtype=np.int64).reshape(-1, 2),
        records=_metadata_records(records, table),
        bm25_factory=lambda snapshot: build_bm25_of(snapshot, docstore),
        mention_names=_unedited_names(records, edits) if edits else None,
        edits=edits,
        subject_candidates=_subject_candidates(records),
        mentions_factory=lambda names: _mention_table(records, names, edits),
        tag_set=struct.tags(),
        tags_factory=assign_tags,
    )


def _stamp(payload: str) -> str:
    """Return a string that differs between the records of two versions of a tree."""
    return hashlib.blake2b(payload.encode(), digest_size=16).hexdigest()


def _unedited_names(records: Sequence[DocumentRecord], edits: EntityEdits) -> list[str]:
    surfaces = {name for record in records for name in record.mentions.names}
    return sorted({form for name in surfaces if (form := edits.form(name))})


def _subject_candidates(records: Sequence[DocumentRecord]) -> SubjectTable:
    builder, chunk = SubjectTableBuilder(), 0
    for record in records:
        has_candidates = not SUBJECT_LABELS.isdisjoint(record.mentions.labels)
        for number, sentences in enumerate(record.mentions.to_chunks() if has_candidates else ()):
            builder.add(chunk + number, split_subjects(sentences)[0])
        chunk += len(record.mentions.chunk_sizes)
    return builder.table()


def build_bm25_of(snapshot: Snapshot, docstore: BaseDocumentStore) -> BM25Index:
    """Build the BM25 index of a snapshot from the texts in a docstore."""
    ids = list(snapshot.nodes.ids)
    texts = {n.node_id: node_text(n) for n in _get_nodes(docstore, ids)}
    return build_bm25(window_texts(snapshot, [texts.get(id_, "") for id_ in ids]))


def build_graph(records: Sequence[DocumentRecord], edits: EntityEdits = NO_EDITS) -> EntityGraph:
    """Build the entity graph from the mentions of all documents, after the user's edits."""
    builder = GraphBuilder()
    entities: dict[str, str] = {}  # shared by all documents, which repeat most names
    for record in records:
        columns = _columns(record.mentions, entities, edits)
        builder.add_columns(
            columns.names,
            columns.named,
            columns.mentions,
            columns.sentence_sizes,
            columns.chunk_sizes,
        )
    return builder.finish()


def _mention_table(
    records: Sequence[DocumentRecord], names: Sequence[str], edits: EntityEdits
) -> MentionTable:
    """Return the mentions before the edits, whose entities are rows of `names`."""
    index = index_strings(names)
    empty: IntArray = np.empty(0, dtype=np.int64)
    entities, named, sentence_sizes, chunk_sizes = ([empty] for _ in range(4))
    for record in records:
        mentions = record.mentions
        forms = [index.get(edits.form(name), -1) for name in mentions.names]
        counted = _counted(mentions, np.asarray(forms, dtype=np.int64))
        entities.append(counted.rows)
        named.append(counted.named.astype(np.int64))
        sentence_sizes.append(counted.sentence_sizes)
        chunk_sizes.append(np.asarray(mentions.chunk_sizes, dtype=np.int64))
    return MentionTable(
        np.concatenate(entities),
        np.concatenate(named).astype(np.bool_),
        np.concatenate(sentence_sizes),
        np.concatenate(chunk_sizes),
    )


class _EntityColumns(NamedTuple):
    """The mentions of a document as entities, without those that mean none.

    Attributes:
        names: Names of the distinct entities.
        named: Whether any mention of each entity is a proper name.
        mentions: For each mention, its row in `names`.
        sentence_sizes: Number of mentions per sentence.
        chunk_sizes: Number of sentences per chunk.
    """

    names: Sequence[str]
    named: Sequence[bool]
    mentions: IntArray
    sentence_sizes: IntArray
    chunk_sizes: IntArray


def _columns(
    mentions: MentionColumns, entities: dict[str, str], edits: EntityEdits
) -> _EntityColumns:
    """Return the mentions of a document; `entities` are those of known names, and get new ones."""
    entities.update((n, edits.entity_of(n)) for n in mentions.names if n not in entities)
    forms = [entities[name] for name in mentions.names]
    form_row = {form: row for row, form in enumerate(dict.fromkeys(form for form in forms if form))}
    row_of_name = np.asarray([form_row.get(form, -1) for form in forms], dtype=np.int64)
    counted = _counted(mentions, row_of_name)
    named = np.zeros(len(form_row), dtype=np.bool_)
    named[counted.rows[counted.named]] = True
    return _EntityColumns(
        list(form_row),
        named.tolist(),
        counted.rows,
        counted.sentence_sizes,
        np.asarray(mentions.chunk_sizes, dtype=np.int64),
    )


class _Counted(NamedTuple):
    """The mentions of a document that count, in text order.

    Attributes:
        rows: The row of each mention's name.
        named: Whether each mention is a proper name.
        sentence_sizes: Number of mentions per sentence.
    """

    rows: IntArray
    named: NDArray[np.bool_]
    sentence_sizes: IntArray


def _counted(mentions: MentionColumns, row_of_name: IntArray) -> _Counted:
    """Return the mentions whose names have a row of at least 0, without subject candidates."""
    name_rows = np.asarray(mentions.name_rows, dtype=np.int64)
    label_rows = np.asarray(mentions.label_rows, dtype=np.int64)
    sentence = np.repeat(np.arange(len(mentions.sentence_sizes)), mentions.sentence_sizes)
    n_sentences = len(mentions.sentence_sizes)
    if not len(name_rows):
        return _Counted(name_rows, name_rows.astype(np.bool_), np.zeros(n_sentences, np.int64))
    is_name = np.asarray([label != NOUN for label in mentions.labels], dtype=np.bool_)
    is_candidate = np.asarray([lb in SUBJECT_LABELS for lb in mentions.labels], dtype=np.bool_)
    rows = row_of_name[name_rows]
    kept = (rows >= 0) & ~is_candidate[label_rows]  # some names mean no entity
    return _Counted(
        rows[kept],
        is_name[label_rows[kept]],
        np.bincount(sentence[kept], minlength=n_sentences),
    )


def _metadata_records(records: Sequence[DocumentRecord], table: NodeTable) -> MetadataRecords:
    values: list[Mapping[str, Any]] = []
    rows_of_chunk: list[list[int]] = []
    sections: list[tuple[int, int, int]] = []
    for document, record in enumerate(records):
        first_row = len(values)
        own = record.leaf_metadata or [record.metadata]
        values.extend({**metadata, RECORD_ID: record.id} for metadata in own)
        sections.extend((document, start, first_row + row) for start, row in _sections(record))
        rows_of_chunk.extend(
            [first_row + row for row in rows] or [first_row] for rows in record.leaf_metadata_rows
        )
    languages = {one.id: one.language for one in records if one.language != ENGLISH}
    return MetadataRecords(
        values,
        *records_of_nodes(table, rows_of_chunk),
        RECORD_ID,
        MetadataSections.of(sections),
        languages,
    )


def _sections(record: DocumentRecord) -> list[tuple[int, int]]:
    """Return `(start, row in leaf_metadata)` of the sections of a document."""
    if not record.leaf_metadata:
        return [(0, 0)]
    if not record.segments:  # where chunks overlap, the later chunk wins
        starts = {
            leaf.start: rows[0]
            for leaf, rows in zip(record.leaves, record.leaf_metadata_rows, strict=True)
        }
        return sorted(starts.items())
    row_of = {canonical_json(own): row for row, own in enumerate(record.leaf_metadata)}
    segments = [
        (start, end, row_of.get(canonical_json({**record.metadata, **metadata}), -1))
        for start, end, metadata in record.segments
    ]
    around = row_of.get(canonical_json(record.metadata), -1)
    # No chunk overlaps a segment without a row, such as an empty page.
    return [section for section in divide_text(segments, around) if section[1] >= 0]


class DocstoreReader:
    """Reads node texts from a docstore and keeps the LlamaIndex nodes for the answer.

    Attributes:
        text_nodes: The LlamaIndex nodes read by all calls, by id.
    """

    def __init__(
        self, docstore: BaseDocumentStore, struct: E2GraphRAGIndexStruct, table: NodeTable
    ) -> None:
        self._docstore = docstore
        self._struct = struct
        self._table = table
        self.text_nodes: dict[str, BaseNode] = {}

    def nodes_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Node]:
        """Return nodes from one generation of the index, by id.

        Raises:
            StaleSnapshotError: If the index has changed or the docstore lacks a node.
            StoreError: If the docstore failed.
        """
        self.text_nodes |= {node.node_id: node for node in _get_nodes(self._docstore, ids)}
        if self._struct.generation != generation:
            raise StaleSnapshotError("the index has changed")
        missing = [id_ for id_ in ids if id_ not in self.text_nodes]
        if missing:
            raise StaleSnapshotError(f"node {missing[0]} is not in the docstore")
        return {id_: self._core_node(self.text_nodes[id_]) for id_ in ids}

    def mentions_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Sentences]:
        """Return the mentions in each sentence of chunks from one generation, by id.

        Raises:
            StaleSnapshotError: If the index has changed.
        """
        if self._struct.generation != generation:
            raise StaleSnapshotError("the index has changed")
        chunks: dict[str, Sequence[Sentences]] = {}
        found = {}
        for id_ in ids:
            row = self._table.row_of[id_]
            tree = sorted(self._struct.payloads)[int(self._table.document[row])]
            if tree not in chunks:
                chunks[tree] = self._struct.record(tree).mentions.to_chunks()
            found[id_] = chunks[tree][int(self._table.position[row])]
        return found

    def _core_node(self, node: BaseNode) -> Node:
        row, level = self._table.row_of[node.node_id], node.metadata.get(LEVEL, 0)
        source = node.ref_doc_id or node.node_id
        return Node(
            node.node_id,
            str(node.metadata.get(TREE, source)),
            level if isinstance(level, int) else 0,
            0,
            # The offsets of the text node refer to its SOURCE, which may be a part of the tree.
            int(self._table.start[row]),
            int(self._table.end[row]),
            node_text(node),
            None if node.parent_node is None else node.parent_node.node_id,
        )


def _get_nodes(docstore: BaseDocumentStore, ids: Sequence[str]) -> list[BaseNode]:
    problem = f"{type(docstore).__name__} could not be read"
    with wrap_errors(StoreError, problem, "fix the docstore, or restore a backup of it"):
        return docstore.get_nodes(list(ids), raise_error=False)
