"""Conversion between `E2GraphRAG` index files and LlamaIndex indexes, with identical results."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from llama_index.core.schema import Document

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.routing import extractor_fingerprint
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.extraction import extraction_key
from e2graphrag_integrations.indexing.summaries import summary_key
from e2graphrag_integrations.llama_index.indexing.assemble import assemble
from e2graphrag_integrations.llama_index.indexing.inputs import DocumentInput
from e2graphrag_integrations.llama_index.indexing.pages import PageTree, page_of
from e2graphrag_integrations.llama_index.storage.nodes import (
    InheritedFields,
    NodeSource,
    texts_below,
)
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, IndexedDocument
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.pages import PAGE_ID
from e2graphrag_integrations.portability.copying import copy_store
from e2graphrag_integrations.retrieval.hydrate import common_metadata
from e2graphrag_integrations.settings import Settings, checked_path
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.entity_edits import write_edits
from e2graphrag_integrations.store.location import check_is_index, index_exists, shown_path
from e2graphrag_integrations.store.records import StoredNode, encode_sentences
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.text.tags import TagSet
from e2graphrag_integrations.text.words import count_words
from e2graphrag_integrations.tree import Grouping, plan_tree, with_child_ids
from e2graphrag_integrations.types import Node, Segment, SourceDocument, Span

_DOCUMENT_ID = "document_id"
"""Metadata key that index files reserve for the document id."""


# Import


@dataclass(frozen=True)
class E2gContent:
    """The content of an index file.

    Attributes:
        documents: All documents.
        made_with: Settings and model fingerprints.
        edits: The entity edits.
        tag_set: The tags that chunks can have.
    """

    documents: list[IndexedDocument]
    made_with: dict[str, str]
    edits: EntityEdits
    tag_set: TagSet


def read_e2g(path: str | os.PathLike[str]) -> E2gContent:
    """Read an index file.

    Raises:
        InvalidInputError: If the file does not exist.
        StoreError: If the file is damaged or is not an index file.
    """
    name = checked_path(path)
    check_is_index(name)
    with closing(Store(name)) as store, store.read_transaction():
        snapshot = build_snapshot(store)
        nodes: dict[str, list[StoredNode]] = {id_: [] for id_ in snapshot.documents}
        for stored in store.all_nodes():
            nodes[stored.node.document_id].append(stored)
        documents = [_read_document(store, snapshot, id_, own) for id_, own in nodes.items()]
        return E2gContent(documents, store.manifest(), snapshot.edits, snapshot.tag_set)


def _read_document(
    store: Store, snapshot: Snapshot, document_id: str, stored: Sequence[StoredNode]
) -> IndexedDocument:
    document = store.document(document_id)
    nodes = with_child_ids([s.node for s in stored])
    row_of = {id_: row for row, id_ in enumerate(snapshot.nodes.ids)}
    title = {} if document.title is None else {"title": document.title}
    metadata = {**title, **document.metadata}
    hash_ = Document(id_=document.id, text=document.text, metadata=metadata).hash
    leaf_metadata, leaf_metadata_rows = _leaf_metadata(
        snapshot, document, [row_of[node.id] for node in nodes if node.level == 0]
    )
    tree = _page_tree(document)
    inherited = InheritedFields(
        lambda _: NodeSource(document.id, hash_),
        lambda node: {**title, **common_metadata(snapshot, row_of[node.id])},
    )
    source = DocumentInput(
        replace(document, metadata={}, segments=()),
        hash_ if tree is None else tree.hash,
        document.metadata,
        inherited if tree is None else tree.fields(),
        leaf_metadata=leaf_metadata,
        leaf_metadata_rows=leaf_metadata_rows,
        segments=[(s[0], s[1], s[2]) for s in document.segments],
        page_tree=tree,
    )
    stored = [replace(s, node=node) for s, node in zip(stored, nodes, strict=True)]
    return assemble(source, stored, store)


def _page_tree(document: SourceDocument) -> PageTree | None:
    """Return the pages of a document that was built from several LlamaIndex or LangChain documents.

    Their hashes are those of LlamaIndex documents with the stored texts and metadata.
    """
    segments = [Segment(*segment) for segment in document.segments]
    ids = [segment.metadata.get(PAGE_ID) for segment in segments]
    if document.metadata or not ids or None in ids or len(set(ids)) < len(ids):
        return None
    pages = []
    for id_, (start, end, metadata) in zip(ids, segments, strict=True):
        own = {key: value for key, value in metadata.items() if key != PAGE_ID}
        pages.append(page_of(Document(id_=str(id_), text=document.text[start:end], metadata=own)))
    spans = [Span(start, end) for start, end, _ in segments]
    return PageTree(document.id, document.text, pages, spans)


def _leaf_metadata(
    snapshot: Snapshot, document: SourceDocument, chunk_rows: Sequence[int]
) -> tuple[Sequence[Mapping[str, object]], Sequence[Sequence[int]]]:
    """Return the distinct metadata of a document's chunks, and each chunk's rows in that list."""
    records = snapshot.records
    record_rows = [
        records.indices[records.starts[row] : records.ends[row]].tolist() for row in chunk_rows
    ]
    used = list(dict.fromkeys(record_row for rows in record_rows for record_row in rows))
    metadata = [
        {k: v for k, v in records.values[record_row].items() if k != _DOCUMENT_ID}
        for record_row in used
    ]
    if all(own == document.metadata for own in metadata):
        return (), ()
    return metadata, [[used.index(record_row) for record_row in rows] for rows in record_rows]


# Export


def write_e2g(
    storage: IndexStorage, path: str | os.PathLike[str], components: Callable[[], Components]
) -> None:
    """Write an index to a new index file; leave no file on failure.

    Args:
        storage: The storage of the index.
        path: Path of the file; must not exist.
        components: Returns the models. The embedder is called only if the vector store cannot
            return the vectors.

    Raises:
        InvalidInputError: If the file exists, or a tree cannot be stored in an index file.
        CorruptStoreError: If nodes are missing from the docstore.
    """
    name = checked_path(path)
    if index_exists(name):
        raise InvalidInputError(f"{shown_path(name)} exists: delete it, or choose another name")
    temporary = MEMORY if is_postgres_url(name) else f"{name}.new-{uuid.uuid4().hex}"
    try:
        with closing(Store(temporary)) as store:
            for record in storage.struct.records():
                _write_document(store, storage, record, components)
            if storage.struct.edits:
                write_edits(store, storage.struct.edits)
            if storage.struct.tag_set:
                store.put_tag_set(storage.struct.tags())
            if temporary == MEMORY:
                copy_store(store, name)
        if temporary != MEMORY:
            Path(temporary).rename(name)
    finally:
        if temporary != MEMORY:
            for leftover in (temporary, f"{temporary}-wal", f"{temporary}-shm"):
                Path(leftover).unlink(missing_ok=True)


def _write_document(
    store: Store,
    storage: IndexStorage,
    record: DocumentRecord,
    components: Callable[[], Components],
) -> None:
    made_with = storage.struct.made_with
    nodes = storage.tree_nodes(record)
    chunks = [node for node in nodes if node.level == 0]
    text = _document_text(record, chunks)
    vectors = storage.read_vectors(record)
    if vectors is None:
        embedder = components().embedder
        prefix = embedder.title_prefix(record.title)
        vectors = embedder.embed([prefix + text for text in record.window_texts(nodes)])
    grouping = Settings.from_manifest(made_with, storage.where).groups
    file_nodes = _nodes_with_file_ids(record, nodes, text, grouping)
    vector_keys = [
        hashlib.sha256(f"vector\0{made_with['embedder']}\0{w.key}".encode()).digest()
        for w in record.windows
    ]
    extractor = extractor_fingerprint(made_with, record.language)
    content_keys = {chunk.id: extraction_key(extractor, chunk.text) for chunk in chunks}
    store.put_cached(
        "extraction",
        {
            content_keys[chunk.id]: encode_sentences(sentences)
            for chunk, sentences in zip(chunks, record.mentions.to_chunks(), strict=True)
        },
    )
    below = texts_below(nodes)
    summaries = [node for node in nodes if node.level]
    fingerprint, limit = made_with["summarizer"], int(made_with["summary_tokens"])
    content_keys |= {
        node.id: summary_key(fingerprint, limit, below[node.id], node.level) for node in summaries
    }
    store.put_cached("summary", {content_keys[n.id]: n.text.encode() for n in summaries})
    store.put_cached(
        "vector",
        {key: v.astype("<f4").tobytes() for key, v in zip(vector_keys, vectors, strict=True)},
    )
    windows: list[list[tuple[Span, bytes]]] = [[] for _ in nodes]
    for window, key in zip(record.windows, vector_keys, strict=True):
        windows[window.node_row].append((window.span, key))
    stored = [
        StoredNode(file_node, count_words(node.text), content_keys[node.id], tuple(own))
        for node, file_node, own in zip(nodes, file_nodes, windows, strict=True)
    ]
    metadata = {k: v for k, v in record.metadata.items() if (k, v) != (_DOCUMENT_ID, record.id)}
    segments = [Segment(*s) for s in record.segments] or _segments(record)
    document = SourceDocument(record.id, text, record.title, metadata, segments, record.language)
    store.write_document(document, stored, made_with)


def _document_text(record: DocumentRecord, chunks: Sequence[Node]) -> str:
    """Rebuild the text of a document from its chunks and the gaps between them."""
    if chunks and len(record.gaps) != len(chunks) + 1:
        raise InvalidInputError(
            f"document {record.id!r} had nodes deleted from its tree, which an index file cannot "
            "represent: insert it again, or delete the whole document"
        )
    parts, end = list(record.gaps[:1]), 0
    for chunk, gap in zip(chunks, record.gaps[1:], strict=False):
        parts += [chunk.text[max(0, end - chunk.start) :], gap]
        end = max(end, chunk.end)
    return "".join(parts)


def _nodes_with_file_ids(
    record: DocumentRecord, nodes: Sequence[Node], text: str, grouping: Grouping
) -> list[Node]:
    """Return the nodes with the ids that `E2GraphRAG` would give them.

    Raises:
        InvalidInputError: If `E2GraphRAG` would build a different tree.
    """
    spans = [Span(node.start, node.end) for node in nodes if node.level == 0]
    planned = plan_tree(record.id, text, spans, grouping).nodes
    if [_position(node) for node in planned] != [_position(node) for node in nodes]:
        raise InvalidInputError(
            f"the tree of document {record.id!r} has groups of a size other than {grouping.size}, "
            "or had nodes deleted from it, which an index file cannot represent: insert it again"
        )
    return [replace(plan, text=node.text) for plan, node in zip(planned, nodes, strict=True)]


def _position(node: Node) -> tuple[int, ...]:
    return node.level, node.position, node.start, node.end


def _segments(record: DocumentRecord) -> list[Segment]:
    """Return the metadata of chunks as segments; where chunks overlap, the later chunk wins."""
    if not record.leaf_metadata:
        return []
    leaves = record.leaves
    ends = [leaf.start for leaf in leaves[1:]] + [leaves[-1].end]
    # The segments are chunks, not the pages with these ids.
    metadata = [
        {key: value for key, value in own.items() if key != PAGE_ID} for own in record.leaf_metadata
    ]
    return [
        Segment(leaf.start, max(leaf.start, end), metadata[rows[0]])
        for leaf, end, rows in zip(leaves, ends, record.leaf_metadata_rows, strict=True)
    ]
