"""Bringing files of older schema versions up to date, in one transaction, when they are opened."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace

from e2graphrag_integrations.store.records import (
    StoredNode,
    canonical_json,
    content_hash,
    decode_segments,
    stamp_of,
)
from e2graphrag_integrations.store.rows import checked, node_of, put_manifest
from e2graphrag_integrations.store.schema import DOCUMENTS, QUEUE, SCHEMA_VERSION, checksum
from e2graphrag_integrations.types import SourceDocument, Span


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring a file to the present schema, within the caller's transaction; foreign keys are off.

    Raises:
        CorruptStoreError: If a row to be rewritten does not match its checksum.
    """
    [version] = db.execute("PRAGMA user_version").fetchone()
    for step in range(version, SCHEMA_VERSION):
        _STEPS[step](db, path)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _from_1(db: sqlite3.Connection, path: str) -> None:
    """Status and reason leave `documents`, the content hash leaves the id out, the queue comes.

    The manifest tells how texts are cut, for which there was but one way.
    """
    db.execute(DOCUMENTS.replace("CREATE TABLE documents", "CREATE TABLE documents_2"))
    for row in db.execute("SELECT * FROM documents").fetchall():
        id_, title, text, metadata, segments, _, _, _, nodes, windows = checked(
            row, path, f"document {row[0]!r}"
        )
        document = SourceDocument(id_, text, title, json.loads(metadata), decode_segments(segments))
        hash_ = content_hash(document)
        stamp = stamp_of(hash_, _nodes(db, path, id_))
        fields = (id_, title, text, metadata, segments, hash_, nodes, windows, stamp)
        marks = ", ".join("?" * (len(fields) + 1))
        db.execute(f"INSERT INTO documents_2 VALUES ({marks})", (*fields, checksum(*fields)))  # noqa: S608 - marks only
    db.execute("DROP TABLE documents")
    db.execute("ALTER TABLE documents_2 RENAME TO documents")
    db.execute(QUEUE)
    row = db.execute("SELECT * FROM manifest WHERE key = 'made_with'").fetchone()
    if row is not None:
        made_with = json.loads(checked(row, path, "made_with in the manifest")[1])
        told = {"chunking": "fixed", "grouping": "fixed"} | made_with
        put_manifest(db, "made_with", canonical_json(told))


def _nodes(db: sqlite3.Connection, path: str, document_id: str) -> list[StoredNode]:
    found = []
    query = (
        'SELECT id, document_id, level, position, start, "end", parent_id, text, words, '
        "content_key, checksum FROM nodes WHERE document_id = ? ORDER BY level, position"
    )
    for row in db.execute(query, (document_id,)).fetchall():
        windows = tuple(
            (Span(start, end), key)
            for start, end, key in db.execute(
                'SELECT start, "end", content_key FROM windows WHERE node_id = ? ORDER BY number',
                (row[0],),
            )
        )
        found.append(replace(node_of(row, path), windows=windows))
    return found


_STEPS: Mapping[int, Callable[[sqlite3.Connection, str], None]] = {1: _from_1}
