"""Assembly of everything that the stores need for one document."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode, NodeRelationship, TextNode

from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.llama_index.indexing.inputs import DocumentInput
from e2graphrag_integrations.llama_index.storage.nodes import (
    NODE,
    link_levels,
    set_position,
    tree_to_nodes,
    vector_entry,
)
from e2graphrag_integrations.llama_index.storage.record import (
    DocumentRecord,
    IndexedDocument,
    MentionColumns,
    Window,
)
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.store.records import (
    ContentCache,
    StoredNode,
    canonical_json,
    decode_sentences,
)
from e2graphrag_integrations.types import Node

_NAMESPACE = uuid.UUID("5b0c7f9e-2d34-5a6e-8f1b-7c9d0e2a4b61")
"""Namespace of vector ids. Never change it: stored ids depend on it."""


def assemble(
    document: DocumentInput, stored: Sequence[StoredNode], contents: ContentCache
) -> IndexedDocument:
    """Assemble the record, the nodes and the vectors of a finished tree.

    Args:
        document: The input document.
        stored: All nodes in its tree, ordered by level and position, with texts and `child_ids`.
        contents: Cache that contains the nodes' extractions and vectors.
    """
    nodes = [s.node for s in stored]
    text_nodes = _text_nodes(document, nodes)
    chunks = [s for s in stored if s.node.level == 0]
    extractions = contents.cached(s.content_key for s in chunks)
    vectors = contents.cached(key for s in stored for _, key in s.windows)
    windows: list[Window] = []
    entries: list[TextNode] = []
    for row, (s, text_node) in enumerate(zip(stored, text_nodes, strict=True)):
        for number, (span, key) in enumerate(s.windows):
            vector: FloatArray = np.frombuffer(vectors[key], dtype="<f4")
            entry = vector_entry(text_node, s.node, span, vector)
            entry.id_ = _vector_id(s.node.id, number, vectors[key], entry.metadata)
            windows.append(Window(row, span, entry.id_, entry.id_))
            entries.append(entry)
    tree = document.page_tree
    leaf_metadata, rows = document.leaf_metadata, document.leaf_metadata_rows
    if tree is not None and not leaf_metadata:
        leaf_metadata, rows = tree.leaf_metadata([s.node for s in chunks])
    record = DocumentRecord(
        id=document.id,
        hash=document.hash,
        title=document.source.title,
        metadata=document.metadata,
        leaf_metadata=leaf_metadata if chunks else (),
        leaf_metadata_rows=rows or [()] * len(chunks),
        segments=document.segments,
        gaps=_gaps(document.source.text, [s.node for s in chunks]),
        nodes=[replace(node, text="", child_ids=()) for node in nodes],
        word_counts=[s.words for s in chunks],
        windows=windows,
        mentions=MentionColumns.from_chunks(
            [decode_sentences(extractions[s.content_key]) for s in chunks]
        ),
        pages=[] if tree is None else tree.records,
        keeps_chunks=document.keeps_chunks,
        language=document.source.language or ENGLISH,
    )
    return IndexedDocument(record, text_nodes, entries)


def _text_nodes(document: DocumentInput, nodes: Sequence[Node]) -> list[BaseNode]:
    """Convert a tree to LlamaIndex nodes; nodes that the user passed keep their other fields."""
    text_nodes = tree_to_nodes(document.inherited, nodes)
    for row, node in enumerate(nodes):
        user_node = document.user_nodes.get(node.id)
        if user_node is not None:
            text_nodes[row] = user_node.model_copy(deep=True)
            if document.page_tree is not None:  # the neighbors may have been on a deleted page
                text_nodes[row].relationships.pop(NodeRelationship.PREVIOUS, None)
                text_nodes[row].relationships.pop(NodeRelationship.NEXT, None)
            set_position(text_nodes[row], node)
    if document.user_nodes:
        link_levels(text_nodes, nodes)
    return text_nodes


def _vector_id(node_id: str, number: int, vector: bytes, metadata: Mapping[str, Any]) -> str:
    """Return the id of a vector; the id changes when the vector or its metadata changes.

    An update can therefore add new vectors before it removes old ones, in any store.
    """
    plain = canonical_json({k: v for k, v in metadata.items() if k != NODE})
    digest = hashlib.sha256(vector).hexdigest()
    return str(uuid.uuid5(_NAMESPACE, f"{node_id}\0{number}\0{digest}\0{plain}"))


def _gaps(text: str, chunks: Sequence[Node]) -> list[str]:
    """Return the text before, between and after the chunks."""
    gaps, end = [], 0
    for chunk in chunks:
        gaps.append(text[end : max(end, chunk.start)])
        end = max(end, chunk.end)
    return [*gaps, text[end:]]
