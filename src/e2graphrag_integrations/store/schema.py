"""The tables of an index file, schema version 6.

`content` caches summaries, extractions and vectors. Each key is a hash of the inputs that produced
the content. A row is inserted as soon as a model returns its content; the transaction that writes a
document only references the row. An interrupted build therefore resumes without repeating model
calls, and equal texts need only one call.

Every row ends with a checksum of its other fields. `manifest` has two main rows: `made_with`, the
settings and model fingerprints as JSON, and `generation`, a name for the current state of the file.
`tags` holds the tag set of the user, if there is one, and `file:ID` the file of a document.
Each row of `documents` contains the number of the document's nodes and windows, which reveals
missing rows, and a stamp, which every write of the document replaces. `queue` contains the
documents that are not indexed yet. `entity_edits` contains the user's corrections of entities.
`pending` and `mirrored` belong to the integrations: changes that are not indexed yet, and the
vectors that a user's vector store holds. Rows of `windows` with a negative number are no windows:
they link a node to the content that a stage has attached to it (`ChunkStage`).
"""

from __future__ import annotations

import re
import sqlite3

from e2graphrag_integrations.errors import CorruptStoreError

SCHEMA_VERSION = 6
"""Version of the tables below, stored in the `user_version` pragma. Other versions are refused."""

APPLICATION_ID = 0x65326772  # "e2gr"
"""Identifies an SQLite file as an index created by this package."""

TABLES = """
CREATE TABLE manifest (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE content (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE documents (
    id TEXT PRIMARY KEY, title TEXT, text TEXT NOT NULL, metadata TEXT NOT NULL,
    segments TEXT NOT NULL, content_hash TEXT NOT NULL,
    nodes INTEGER NOT NULL, windows INTEGER NOT NULL, stamp TEXT NOT NULL, language TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX documents_by_stamp ON documents (id, stamp, content_hash, language);
CREATE TABLE queue (
    id TEXT PRIMARY KEY, number INTEGER NOT NULL, document TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT, checksum INTEGER NOT NULL
);
CREATE TABLE entity_edits (
    id TEXT PRIMARY KEY, edit TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE pending (
    id TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE mirrored (
    store TEXT, id TEXT, PRIMARY KEY (store, id)
);
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    document_id TEXT NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    level INTEGER NOT NULL, position INTEGER NOT NULL,
    start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    parent_id TEXT, text TEXT NOT NULL, words INTEGER NOT NULL,
    content_key BLOB NOT NULL REFERENCES content (key), checksum INTEGER NOT NULL
);
CREATE UNIQUE INDEX nodes_by_place ON nodes (document_id, level, position);
CREATE INDEX nodes_by_content ON nodes (content_key);
CREATE TABLE windows (
    node_id TEXT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    number INTEGER NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    content_key BLOB NOT NULL REFERENCES content (key), checksum INTEGER NOT NULL,
    PRIMARY KEY (node_id, number)
) WITHOUT ROWID;
CREATE INDEX windows_by_content ON windows (content_key);
"""
"""Each write reads the hashes and languages of all documents, and each refresh their stamps; the
index `documents_by_stamp` contains them without the texts."""

_OWN_TABLES = frozenset(
    "manifest content documents queue nodes windows entity_edits pending mirrored".split()
)

_COMPUTED = re.compile(r"\b(GENERATED|AS|CHECK|DEFAULT|SELECT|USING)\b", re.IGNORECASE)
"""Words in the definition of a table that make SQLite compute something when it is read or
written. The tables of this package contain none of them."""


def check_schema(db: sqlite3.Connection, path: str) -> None:
    """Check that the tables of a file are plain tables.

    A crafted file may contain a view, a virtual table or a computed column instead, whose query
    never ends, or a trigger that runs with each write.

    Raises:
        CorruptStoreError: If they are not.
    """
    for kind, name, table, sql in db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
        if not isinstance(name, str) or not isinstance(table, str):
            problem = "an invalid entry"
        elif kind == "trigger":
            problem = f"the trigger {name[:80]!r}"
        elif name.lower() in _OWN_TABLES and kind != "table":
            problem = f"the {kind} {name[:80]!r} instead of a table"
        elif table.lower() in _OWN_TABLES and _COMPUTED.search(sql or ""):
            problem = f"computed values in the {kind} {name[:80]!r}"
        else:
            continue
        raise CorruptStoreError(
            f"{path} contains {problem}, which this package never creates: restore a backup"
        )
