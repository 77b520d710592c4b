"""Rows to records and back, each held to its checksum."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.store.records import (
    DocumentHead,
    StoredNode,
    canonical_json,
    content_hash,
    decode_segments,
    encode_segments,
)
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.types import Node, SourceDocument

_DROP_UNUSED = (
    "DELETE FROM content WHERE NOT EXISTS (SELECT 1 FROM nodes WHERE content_key = key) "
    "AND NOT EXISTS (SELECT 1 FROM windows WHERE content_key = key)"
)


def checked_row(row: Sequence[Any], path: str, what: str) -> list[Any]:
    """Return a row without its checksum, which stands last.

    Raises:
        CorruptStoreError: If it does not match.
    """
    *fields, crc = row
    if checksum(*fields) != crc:
        raise CorruptStoreError(
            f"{path}: {what} does not match its checksum; run verify(), then restore a backup or "
            "index again"
        )
    return fields


def row_to_head(row: Sequence[Any], path: str) -> DocumentHead:
    """Return a document's row without its text."""
    fields = checked_row(row, path, f"document {row[0]!r}")
    id_, title, _, metadata, segments, *rest = fields
    return DocumentHead(id_, title, json.loads(metadata), decode_segments(segments), *rest)


def row_to_document(row: Sequence[Any], path: str) -> SourceDocument:
    """Return a document's row as the document that was given."""
    id_, title, text, metadata, segments, *_ = checked_row(row, path, f"document {row[0]!r}")
    return SourceDocument(id_, text, title, json.loads(metadata), decode_segments(segments))


def row_to_node(row: Sequence[Any], path: str) -> StoredNode:
    """Return a node's row, without windows."""
    fields = checked_row(row, path, f"node {row[0]} of document {row[1]!r}")
    id_, document_id, level, position, start, end, parent, text, words, key = fields
    node = Node(id_, document_id, level, position, start, end, text, parent)
    return StoredNode(node, words, key)


def insert_document(
    db: sqlite3.Connection, document: SourceDocument, nodes: Sequence[StoredNode]
) -> None:
    """Write a document's row and those of its nodes."""
    hash_ = content_hash(document)
    fields = (
        *(document.id, document.title, document.text),
        canonical_json(dict(document.metadata)),
        encode_segments(document.segments),
        hash_,
        *(len(nodes), sum(len(stored.windows) for stored in nodes)),
        uuid.uuid4().hex,
    )
    db.execute(
        "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*fields, checksum(*fields)),
    )
    for stored in nodes:
        insert_node(db, stored)


def insert_node(db: sqlite3.Connection, stored: StoredNode) -> None:
    """Write a node's row and those of its windows."""
    node = stored.node
    fields = (
        *(node.id, node.document_id, node.level, node.position, node.start, node.end),
        *(node.parent_id, node.text, stored.words, stored.content_key),
    )
    db.execute(
        "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*fields, checksum(*fields))
    )
    for number, (span, key) in enumerate(stored.windows):
        row = (node.id, number, span.start, span.end, key)
        db.execute("INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))


def delete_document(db: sqlite3.Connection, document_id: str) -> list[bytes] | None:
    """Delete a document with its nodes; return their content's keys, None if it is not there."""
    keys = db.execute(
        "SELECT content_key FROM nodes WHERE document_id = :id UNION "
        "SELECT w.content_key FROM windows w JOIN nodes n ON n.id = w.node_id "
        "WHERE n.document_id = :id",
        {"id": document_id},
    ).fetchall()
    gone = db.execute("DELETE FROM documents WHERE id = ?", (document_id,)).rowcount
    return [key for (key,) in keys] if gone else None


def delete_unused_content(db: sqlite3.Connection, keys: Iterable[bytes] | None) -> None:
    """Delete contents that no node and no window links to: of some keys, or of all."""
    if keys is None:
        db.execute(_DROP_UNUSED)
    else:
        db.executemany(f"{_DROP_UNUSED} AND key = ?", ((key,) for key in keys))


def put_manifest(db: sqlite3.Connection, key: str, value: str) -> None:
    """Write a row of the manifest."""
    row = (key, value, checksum(key, value))
    db.execute("INSERT OR REPLACE INTO manifest VALUES (?, ?, ?)", row)
