"""The file's tables, schema version 2.

`content` holds what was paid for, under a hash of what it was made from: summaries, extractions,
vectors. Rows go in as they arrive; a document's transaction then only links to them. So a build
that died resumes without paying twice, and equal texts are paid once.

Each row ends with a checksum over the rest of it. `manifest` has two rows: `made_with`, the
settings and models as JSON, and `generation`. A document's row counts its nodes and windows, so
that rows which are missing are noticed as well, and has a stamp of its own for each time written.
`queue` holds documents that are not indexed yet.
"""

from __future__ import annotations

import zlib

SCHEMA_VERSION = 2
APPLICATION_ID = 0x65326772  # "e2gr"

DOCUMENTS = """CREATE TABLE documents (
    id TEXT PRIMARY KEY, title TEXT, text TEXT NOT NULL, metadata TEXT NOT NULL,
    segments TEXT NOT NULL, content_hash TEXT NOT NULL,
    nodes INTEGER NOT NULL, windows INTEGER NOT NULL, stamp TEXT NOT NULL,
    checksum INTEGER NOT NULL
)"""

QUEUE = """CREATE TABLE queue (
    id TEXT PRIMARY KEY, number INTEGER NOT NULL, document TEXT NOT NULL,
    status TEXT NOT NULL, reason TEXT, checksum INTEGER NOT NULL
)"""

TABLES = f"""
CREATE TABLE manifest (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE content (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL
);
{DOCUMENTS};
{QUEUE};
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


def checksum(*fields: str | float | bytes | None) -> int:
    """Return a CRC-32 over the fields, each with its type and length."""
    parts: list[bytes] = []
    for field in fields:
        if isinstance(field, str):
            data = field.encode("utf-8")
            parts += b"s%d:" % len(data), data
        elif isinstance(field, bytes):
            parts += b"b%d:" % len(field), field
        elif field is None:
            parts.append(b"n0:")
        elif isinstance(field, float):  # nothing writes one: no such row matches
            data = repr(field).encode()
            parts += b"f%d:" % len(data), data
        else:
            data = b"%d" % field
            parts += b"i%d:" % len(data), data
    return zlib.crc32(b"".join(parts))
