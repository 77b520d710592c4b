"""Snapshots of an index struct: what the core's retrieval reads, derived from records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.storage.docstore import BaseDocumentStore

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.graph.entity_graph import EntityGraph, GraphBuilder
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, Mentions
from e2graphrag_integrations.llama_index.storage.vector_stores import Vectors
from e2graphrag_integrations.search.bm25 import BM25Index, build_bm25
from e2graphrag_integrations.snapshot.snapshot import (
    MetadataRecords,
    NodeTable,
    Snapshot,
    node_table,
    window_texts,
)
from e2graphrag_integrations.store.records import NodeGoneError
from e2graphrag_integrations.types import NOUN, Node

RECORD_ID = "e2_tree"
"""Key of the document's id in records: one that users' metadata do not have."""


def build_snapshot(
    struct: E2GraphRAGIndexStruct, vectors: Vectors, docstore: BaseDocumentStore
) -> Snapshot:
    """Derive the snapshot of an index; equal to that of an index file of the same documents.

    Texts are read only when a strategy searches by words.

    Raises:
        CorruptStoreError: If a record is damaged, or its vectors are gone.
    """
    generation = struct.generation
    records = list(struct.records())
    nodes = [node for record in records for node in record.nodes]
    table, chunk_nodes = node_table(nodes, {record.id: i for i, record in enumerate(records)})
    first_row, owners, ids, spans = 0, [], [], []
    for record in records:
        for window in record.windows:
            owners.append(first_row + window.node)
            ids.append(window.stored)
            spans.append(window.span)
        first_row += len(record.nodes)
    documents = [node.document_id for node in nodes]
    return Snapshot(
        generation=generation,
        made_with=dict(struct.made_with),
        documents=[record.id for record in records],
        titles=[record.title for record in records],
        nodes=table,
        chunk_nodes=chunk_nodes,
        words=np.asarray([n for record in records for n in record.words], dtype=np.int64),
        graph=build_graph(records),
        dense=vectors.search(ids, np.asarray(owners, dtype=np.int64), documents),
        window_spans=np.asarray(spans, dtype=np.int64).reshape(-1, 2),
        records=_records(records, table),
        lexical_from=lambda snapshot: _lexical(snapshot, docstore),
    )


def _lexical(snapshot: Snapshot, docstore: BaseDocumentStore) -> BM25Index:
    ids = list(snapshot.nodes.ids)
    found = {n.node_id: n for n in _fetched(docstore, ids)}
    texts = [
        found[id_].get_content(metadata_mode=MetadataMode.NONE) if id_ in found else ""
        for id_ in ids
    ]
    return build_bm25(window_texts(snapshot, texts))


def build_graph(records: Sequence[DocumentRecord]) -> EntityGraph:
    """Sum what each document contributes."""
    builder = GraphBuilder()
    forms: dict[str, str] = {}  # documents of one index have most of their names in common
    for record in records:
        _add(builder, record.mentions, forms)
    return builder.finish()


def _add(builder: GraphBuilder, mentions: Mentions, known: dict[str, str]) -> None:
    name = np.asarray(mentions.name, dtype=np.int64)
    label = np.asarray(mentions.label, dtype=np.int64)
    sentence = np.repeat(np.arange(len(mentions.sentence_sizes)), mentions.sentence_sizes)
    is_name = np.asarray([one != NOUN for one in mentions.labels], dtype=np.bool_)
    known.update((one, normal_form(one)) for one in mentions.names if one not in known)
    forms = [known[one] for one in mentions.names]
    rows = {form: row for row, form in enumerate(dict.fromkeys(form for form in forms if form))}
    row_of = np.asarray([rows.get(form, -1) for form in forms], dtype=np.int64)
    row = row_of[name] if len(name) else name
    kept = row >= 0  # what is left of some names in normal form is nothing
    named = np.zeros(len(rows), dtype=np.bool_)
    if len(name):
        named[row[kept & is_name[label]]] = True
    builder.add_columns(
        list(rows),
        named.tolist(),
        row[kept],
        np.bincount(sentence[kept], minlength=len(mentions.sentence_sizes)),
        np.asarray(mentions.chunk_sizes, dtype=np.int64),
    )


def _records(records: Sequence[DocumentRecord], table: NodeTable) -> MetadataRecords:
    values: list[Mapping[str, Any]] = []
    of_chunk: list[list[int]] = []
    for record in records:
        base = len(values)
        own = record.leaf_metadata or [record.metadata]
        values.extend({**metadata, RECORD_ID: record.id} for metadata in own)
        # A document without chunks leaves its record unused.
        of_chunk.extend([base + row for row in rows] or [base] for rows in record.of_leaf)
    firsts, of_node = [0], list[int]()
    for first, end in zip(table.first_leaf.tolist(), table.end_leaf.tolist(), strict=True):
        of_node.extend(dict.fromkeys(row for chunk in of_chunk[first:end] for row in chunk))
        firsts.append(len(of_node))
    bounds = np.asarray(firsts, dtype=np.int64)
    rows = np.asarray(of_node, dtype=np.int64)
    return MetadataRecords(values, bounds[:-1], bounds[1:], rows, RECORD_ID)


class DocstoreNodes:
    """Reads the texts of nodes from a docstore, and keeps the LlamaIndex nodes for the answer.

    Args:
        docstore: Of the index.
        struct: Tells whether the index has changed meanwhile.
    """

    def __init__(self, docstore: BaseDocumentStore, struct: E2GraphRAGIndexStruct) -> None:
        self._docstore = docstore
        self._struct = struct
        self.found: dict[str, BaseNode] = {}

    def nodes_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Node]:
        """Return nodes from the state that a snapshot was derived from.

        Raises:
            NodeGoneError: If the index has changed, or a node is not in the docstore.
            StoreError: If the docstore failed.
        """
        fetched = _fetched(self._docstore, ids)
        self.found = {node.node_id: node for node in fetched}
        if self._struct.generation != generation:
            raise NodeGoneError("the index was changed meanwhile")
        missing = [id_ for id_ in ids if id_ not in self.found]
        if missing:
            raise NodeGoneError(f"node {missing[0]} is not in the docstore")
        return {id_: _core_node(node) for id_, node in self.found.items()}


def _fetched(docstore: BaseDocumentStore, ids: Sequence[str]) -> list[BaseNode]:
    what = f"{type(docstore).__name__} could not be read"
    with wrap_errors(StoreError, what, "see to the docstore, or restore a backup of it"):
        return docstore.get_nodes(list(ids), raise_error=False)


def _core_node(node: BaseNode) -> Node:
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    metadata = node.metadata
    return Node(
        node.node_id,
        node.ref_doc_id or node.node_id,
        int(metadata.get("e2_level", 0)),
        0,
        start if isinstance(start, int) else 0,
        end if isinstance(end, int) else len(text),
        text,
        None if node.parent_node is None else node.parent_node.node_id,
    )
