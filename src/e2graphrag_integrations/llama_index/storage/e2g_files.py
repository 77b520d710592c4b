"""Index files to LlamaIndex indexes and back, with equal answers."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from llama_index.core.schema import Document, MetadataMode

from e2graphrag_integrations.entities.normalize import count_words
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError
from e2graphrag_integrations.indexing.pipeline import extraction_key
from e2graphrag_integrations.indexing.summaries import summary_key
from e2graphrag_integrations.llama_index.indexing.builder import Built, assemble
from e2graphrag_integrations.llama_index.indexing.sources import Source
from e2graphrag_integrations.llama_index.storage.nodes import Origin
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.packing import common_metadata
from e2graphrag_integrations.settings import checked_path, resolve_settings
from e2graphrag_integrations.snapshot.snapshot import Snapshot, build_snapshot
from e2graphrag_integrations.store.records import StoredNode, encode_sentences
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.tree import Grouping, plan_tree, with_child_ids, without_overlap
from e2graphrag_integrations.types import Node, Segment, SourceDocument, Span

_ID = "document_id"


def read_e2g(path: str | os.PathLike[str]) -> tuple[list[Built], dict[str, str]]:
    """Return everything in an index file, ready to be stored, and what it was made with.

    Raises:
        InvalidInputError: If there is no such file.
        StoreError: If it is no index, or damaged.
    """
    name = checked_path(path)
    if not Path(name).is_file():
        raise InvalidInputError(f"there is no index file {name}")
    store = Store(name)
    try:
        with store.consistent():
            snapshot = build_snapshot(store)
            by_document: dict[str, list[StoredNode]] = {id_: [] for id_ in snapshot.documents}
            for stored in store.all_nodes():
                by_document[stored.node.document_id].append(stored)
            built = [_read(store, snapshot, id_, nodes) for id_, nodes in by_document.items()]
            return built, store.manifest()
    finally:
        store.close()


def _read(
    store: Store, snapshot: Snapshot, document_id: str, stored: Sequence[StoredNode]
) -> Built:
    document = store.document(document_id)
    nodes = with_child_ids([s.node for s in stored])
    row_of = {id_: row for row, id_ in enumerate(snapshot.nodes.ids)}
    title = {} if document.title is None else {"title": document.title}
    as_given = Document(
        id_=document.id, text=document.text, metadata={**title, **document.metadata}
    )
    records = snapshot.records
    rows = [
        records.of_node[records.first[row] : records.last[row]].tolist()
        for row in (row_of[n.id] for n in nodes if n.level == 0)
    ]
    used = list(dict.fromkeys(one for chunk in rows for one in chunk))
    values = [{k: v for k, v in records.values[one].items() if k != _ID} for one in used]
    plain = all(value == document.metadata for value in values)
    source = Source(
        replace(document, metadata={}, segments=()),
        as_given.hash,
        document.metadata,
        Origin(
            document.id,
            as_given.hash,
            lambda node: {**title, **common_metadata(snapshot, row_of[node.id])},
        ),
        leaf_metadata=() if plain else values,
        leaf_rows=() if plain else [[used.index(one) for one in chunk] for chunk in rows],
        segments=[(s[0], s[1], s[2]) for s in document.segments],
    )
    return assemble(
        source, [replace(s, node=node) for s, node in zip(stored, nodes, strict=True)], store
    )


def write_e2g(storage: IndexStorage, path: str | os.PathLike[str], embed: Any) -> None:
    """Write an index as an index file, aside first, so that it is there whole or not at all.

    Args:
        storage: Of the index.
        path: Must not exist yet.
        embed: Makes the vectors of texts, for vector stores that do not give theirs out.

    Raises:
        InvalidInputError: If the file is there, or the index holds what a file cannot.
        CorruptStoreError: If the docstore has lost nodes of the index.
    """
    name = checked_path(path)
    if Path(name).exists():
        raise InvalidInputError(f"{name} is there already: delete it, or choose another name")
    aside = f"{name}.new-{uuid.uuid4().hex}"
    store = Store(aside)
    try:
        for record in storage.struct.records():
            _write(store, storage, record, embed)
        store.close()
        Path(aside).rename(name)
    finally:
        store.close()
        for rest in (aside, f"{aside}-wal", f"{aside}-shm"):
            Path(rest).unlink(missing_ok=True)


def _write(store: Store, storage: IndexStorage, record: DocumentRecord, embed: Any) -> None:
    made_with = storage.struct.made_with
    nodes = _with_texts(storage, record)
    text = _text(record, nodes)
    vectors = _vectors(storage, record, nodes, embed)
    renamed = _renamed(record, nodes, text, resolve_settings({}, made_with, storage.where).groups)
    keys = [
        hashlib.sha256(f"vector\0{made_with['embedder']}\0{w.key}".encode()).digest()
        for w in record.windows
    ]
    extractions = {
        extraction_key(made_with["extractor"], node.text): encode_sentences(found)
        for node, found in zip(
            (node for node in nodes if node.level == 0), record.mentions.chunks(), strict=True
        )
    }
    summaries = _summary_keys(nodes, made_with)
    store.put_cached("extraction", extractions)
    store.put_cached("summary", {summaries[n.id]: n.text.encode() for n in nodes if n.level})
    store.put_cached(
        "vector",
        {key: v.astype("<f4").tobytes() for key, v in zip(keys, vectors, strict=True)},
    )
    windows: list[list[tuple[Span, bytes]]] = [[] for _ in nodes]
    for window, key in zip(record.windows, keys, strict=True):
        windows[window.node].append((window.span, key))
    stored = [
        StoredNode(
            new,
            count_words(node.text),
            summaries[node.id] if node.level else extraction_key(made_with["extractor"], node.text),
            tuple(windows[row]),
        )
        for row, (node, new) in enumerate(zip(nodes, renamed, strict=True))
    ]
    metadata = {k: v for k, v in record.metadata.items() if (k, v) != (_ID, record.id)}
    segments = [Segment(*s) for s in record.segments] or _segments(record)
    document = SourceDocument(record.id, text, record.title, metadata, segments)
    store.write_document(document, stored, made_with)


def _with_texts(storage: IndexStorage, record: DocumentRecord) -> list[Node]:
    ids = [node.id for node in record.nodes]
    fetched = storage.context.docstore.get_nodes(ids, raise_error=False)
    texts = {n.node_id: n.get_content(metadata_mode=MetadataMode.NONE) for n in fetched}
    missing = [id_ for id_ in ids if id_ not in texts]
    if missing:
        raise CorruptStoreError(
            f"{storage.where}: node {missing[0]} is not in the docstore: pass the docstore that "
            "the index was made with"
        )
    return [replace(node, text=texts[node.id]) for node in with_child_ids(record.nodes)]


def _text(record: DocumentRecord, nodes: Sequence[Node]) -> str:
    leaves = [node for node in nodes if node.level == 0]
    if leaves and len(record.gaps) != len(leaves) + 1:
        raise InvalidInputError(
            f"document {record.id!r} had nodes deleted from its tree, which an index file cannot "
            "hold: insert it again, or delete the whole document"
        )
    parts, at = list(record.gaps[:1]), 0
    for node, gap in zip(leaves, record.gaps[1:], strict=False):
        parts += [node.text[max(0, at - node.start) :], gap]
        at = max(at, node.end)
    return "".join(parts)


def _vectors(
    storage: IndexStorage, record: DocumentRecord, nodes: Sequence[Node], embed: Any
) -> FloatArray:
    if not record.windows:
        return np.empty((0, 0), dtype=np.float32)
    read = storage.vectors.read([w.stored for w in record.windows])
    if read is not None:
        return read
    texts = [nodes[w.node].text[w.span.start : w.span.end] for w in record.windows]
    made: FloatArray = embed(texts, record.title)
    return made


def _renamed(
    record: DocumentRecord, nodes: Sequence[Node], text: str, grouping: Grouping
) -> list[Node]:
    """Return the nodes with the ids that a file has for them."""
    spans = [Span(node.start, node.end) for node in nodes if node.level == 0]
    planned = plan_tree(record.id, text, spans, grouping).nodes
    if [_place(node) for node in planned] != [_place(node) for node in nodes]:
        raise InvalidInputError(
            f"the tree of document {record.id!r} was not made in groups of {grouping.size}, or "
            "nodes were deleted from it, which an index file cannot hold: insert it again"
        )
    return [replace(plan, text=node.text) for plan, node in zip(planned, nodes, strict=True)]


def _place(node: Node) -> tuple[int, ...]:
    return node.level, node.position, node.start, node.end


def _summary_keys(nodes: Sequence[Node], made_with: Mapping[str, str]) -> dict[str, bytes]:
    by_id = {node.id: node for node in nodes}
    keys = {}
    for node in nodes:
        if node.level:
            below = without_overlap([by_id[child] for child in node.child_ids])
            limit = int(made_with["summary_tokens"])
            keys[node.id] = summary_key(made_with["summarizer"], limit, below, node.level)
    return keys


def _segments(record: DocumentRecord) -> list[Segment]:
    """Return the metadata of chunks as segments; where chunks overlap, the later one's."""
    if not record.leaf_metadata:
        return []
    leaves = record.leaves
    ends = [leaf.start for leaf in leaves[1:]] + [leaves[-1].end]
    return [
        Segment(leaf.start, max(leaf.start, end), record.leaf_metadata[rows[0]])
        for leaf, end, rows in zip(leaves, ends, record.of_leaf, strict=True)
    ]
