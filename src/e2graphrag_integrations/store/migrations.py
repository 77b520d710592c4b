"""Migrations, which upgrade a file with an older schema version when it is opened."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Mapping

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.languages.detection import detect_language, main_script
from e2graphrag_integrations.languages.scripts import LATIN
from e2graphrag_integrations.store.records import canonical_json, content_hash
from e2graphrag_integrations.store.rows import checked_row, new_generation, put_manifest
from e2graphrag_integrations.store.schema import (
    DOCUMENTS,
    ENTITY_EDITS,
    LANGUAGE_COLUMN,
    QUEUE,
    SCHEMA_VERSION,
    STAMPS_INDEX,
    checksum,
)
from e2graphrag_integrations.types import SourceDocument

_READ = 4000
"""Number of characters of a document from which a migration finds its language."""


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Migrate a file to the current schema version.

    The caller must open the transaction and disable foreign keys.

    Raises:
        CorruptStoreError: If a row to migrate does not match its checksum.
    """
    [version] = db.execute("PRAGMA user_version").fetchone()
    with invalid_rows(path, f"a row of schema version {version}"):
        for step in range(version, SCHEMA_VERSION):
            _MIGRATIONS[step](db, path)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _migrate_from_1(db: sqlite3.Connection, path: str) -> None:
    """Migrate from version 1 to version 2.

    - The table `documents` loses the columns `status` and `reason` and gets the column `stamp`.
    - `content_hash` no longer includes the document's id.
    - The table `queue` is new.
    - The manifest now names the chunking and grouping methods. Version 1 had only one of each.
    """
    table = DOCUMENTS.format("")
    db.execute(table.replace("CREATE TABLE documents", "CREATE TABLE documents_2"))
    for row in db.execute("SELECT * FROM documents").fetchall():
        id_, title, text, metadata, segments, _, _, _, nodes, windows = checked_row(
            row, path, f"document {row[0]!r}"
        )
        document = SourceDocument(id_, text, title, json.loads(metadata), json.loads(segments))
        hash_, stamp = content_hash(document), uuid.uuid4().hex
        fields = (id_, title, text, metadata, segments, hash_, nodes, windows, stamp)
        placeholders = ", ".join("?" * (len(fields) + 1))
        db.execute(f"INSERT INTO documents_2 VALUES ({placeholders})", (*fields, checksum(*fields)))  # noqa: S608 - placeholders only
    db.execute("DROP TABLE documents")
    db.execute("ALTER TABLE documents_2 RENAME TO documents")
    db.execute(QUEUE)
    row = db.execute("SELECT * FROM manifest WHERE key = 'made_with'").fetchone()
    if row is not None:
        made_with = json.loads(checked_row(row, path, "made_with in the manifest")[1])
        migrated = {"chunking": "fixed", "grouping": "fixed"} | made_with
        put_manifest(db, "made_with", canonical_json(migrated))


def _migrate_from_2(db: sqlite3.Connection, path: str) -> None:  # noqa: ARG001 - all migrations have one signature
    """Migrate from version 2 to version 3: the table `entity_edits` is new."""
    db.execute(ENTITY_EDITS)


def _migrate_from_3(db: sqlite3.Connection, path: str) -> None:  # noqa: ARG001 - all migrations have one signature
    """Migrate from version 3 to version 4: the column `language` of `documents` is new.

    It is NULL, which means English, except for documents in another script.
    """
    db.execute(f"ALTER TABLE documents ADD COLUMN {LANGUAGE_COLUMN}")
    languages = {}
    for id_, start in db.execute(f"SELECT id, substr(text, 1, {_READ}) FROM documents"):  # noqa: S608 - a number
        if isinstance(start, str) and main_script(start) not in (None, LATIN):
            languages[id_] = detect_language(start)
    for id_, language in languages.items():
        *fields, crc, _ = db.execute("SELECT * FROM documents WHERE id = ?", (id_,)).fetchone()
        if checksum(*fields) == crc:  # `verify` reports a damaged row
            stamp = uuid.uuid4().hex  # no snapshot copies the document from an older one
            changed = checksum(*fields[:-1], stamp, language)
            db.execute(
                "UPDATE documents SET stamp = ?, language = ?, checksum = ? WHERE id = ?",
                (stamp, language, changed, id_),
            )
    if languages:
        new_generation(db)  # snapshots contain the languages


def _migrate_from_4(db: sqlite3.Connection, path: str) -> None:  # noqa: ARG001 - all migrations have one signature
    """Migrate from version 4 to version 5: an index of the stamps is new."""
    db.execute(STAMPS_INDEX)


_MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection, str], None]] = {
    1: _migrate_from_1,
    2: _migrate_from_2,
    3: _migrate_from_3,
    4: _migrate_from_4,
}
"""For each old schema version, the migration to the next version."""
