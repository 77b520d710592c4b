"""Bringing files of older schema versions up to date, in one transaction, when they are opened."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Mapping

from e2graphrag_integrations.store.records import (
    canonical_json,
    content_hash,
    decode_segments,
)
from e2graphrag_integrations.store.rows import checked_row, put_manifest
from e2graphrag_integrations.store.schema import DOCUMENTS, QUEUE, SCHEMA_VERSION, checksum
from e2graphrag_integrations.types import SourceDocument


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
        id_, title, text, metadata, segments, _, _, _, nodes, windows = checked_row(
            row, path, f"document {row[0]!r}"
        )
        document = SourceDocument(id_, text, title, json.loads(metadata), decode_segments(segments))
        hash_, stamp = content_hash(document), uuid.uuid4().hex
        fields = (id_, title, text, metadata, segments, hash_, nodes, windows, stamp)
        marks = ", ".join("?" * (len(fields) + 1))
        db.execute(f"INSERT INTO documents_2 VALUES ({marks})", (*fields, checksum(*fields)))  # noqa: S608 - marks only
    db.execute("DROP TABLE documents")
    db.execute("ALTER TABLE documents_2 RENAME TO documents")
    db.execute(QUEUE)
    row = db.execute("SELECT * FROM manifest WHERE key = 'made_with'").fetchone()
    if row is not None:
        made_with = json.loads(checked_row(row, path, "made_with in the manifest")[1])
        told = {"chunking": "fixed", "grouping": "fixed"} | made_with
        put_manifest(db, "made_with", canonical_json(told))


_STEPS: Mapping[int, Callable[[sqlite3.Connection, str], None]] = {1: _from_1}
