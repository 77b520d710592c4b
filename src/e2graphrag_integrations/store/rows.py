"""The rows of the tables of an index (`schema.py`), which are checked when they are read."""

from __future__ import annotations

import hashlib
import json
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import Any

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.languages.language import ENGLISH, checked_code
from e2graphrag_integrations.store.database import Transaction
from e2graphrag_integrations.store.records import (
    DocumentHeader,
    StoredNode,
    canonical_json,
    content_hash,
    document_fields,
)
from e2graphrag_integrations.types import Node, Segment, SourceDocument, Span

REEMBEDDING = "reembedding"
"""Manifest key that exists while new vectors are computed; see `reembedding.py`."""

REPORT = "report"
"""Kind of the content that is a community report."""

REPORT_INDEX = "report index"
"""Kind of the content that lists the chunks of each report."""

REPORT_INDEX_KEY = hashlib.sha256(REPORT_INDEX.encode()).digest()
"""Key of the content that lists the chunks of each report."""


_PUT_WINDOW = "INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?)"


def checksum(*fields: str | float | bytes | None) -> int:
    """Return a CRC-32 of the fields, each encoded with its type and length."""
    parts: list[bytes] = []
    for field in fields:
        if isinstance(field, str):
            prefix, data = b"s%d:", field.encode()
        elif isinstance(field, bytes):
            prefix, data = b"b%d:", field
        elif field is None:
            prefix, data = b"n%d:", b""
        elif isinstance(field, float):  # floats are never written: the row is damaged
            prefix, data = b"f%d:", repr(field).encode()
        else:
            prefix, data = b"i%d:", b"%d" % field
        parts += prefix % len(data), data
    return zlib.crc32(b"".join(parts))


GENERATION = "generation"
"""Manifest key for the generation: the name of the file's current state."""

SOURCE_FILE = "file:"
"""Prefix of the manifest keys of the files that documents were read from; the id follows."""


def checked_row(row: Sequence[Any], path: str, what: str) -> list[Any]:
    """Return the fields of a row without its checksum, which is the last field.

    Args:
        row: All columns of the row.
        path: The index file, for the error message.
        what: A description of the row, for the error message.

    Raises:
        CorruptStoreError: If the row does not match its checksum.
    """
    *fields, crc = row
    if checksum(*fields) != crc:
        raise CorruptStoreError(
            f"{path}: {what} does not match its checksum; run verify(), then restore a backup or "
            "index again"
        )
    return fields


def manifest_value(row: Sequence[Any] | None, key: str, path: str) -> str:
    """Return the value in a row of the manifest; the row is None if it does not exist.

    Raises:
        CorruptStoreError: If the row is missing, or does not match its checksum.
    """
    if row is None:
        raise CorruptStoreError(f"{path}: {key} is missing from the manifest: restore a backup")
    return str(checked_row(row, path, f"{key} in the manifest")[1])


def row_to_header(row: Sequence[Any], path: str) -> DocumentHeader:
    """Return the document in a row, without its text."""
    id_, title, _, metadata, segments, *rest = _document_fields(row, path)
    with invalid_rows(path, f"document {id_!r}"):
        decoded = tuple(Segment(*segment) for segment in json.loads(segments))
        _check_types(rest, (str, int, int, str, str))
        if min(rest[1:3]) < 0:
            raise ValueError("a count is negative")
        _, nodes, windows, stamp, language = rest
        plain = dict(json.loads(metadata))
        code = checked_code(language)
        return DocumentHeader(id_, title, plain, decoded, nodes, windows, stamp, code)


def row_to_document(row: Sequence[Any], path: str) -> SourceDocument:
    """Return the document in a row."""
    id_, title, text, metadata, segments, *_, language = _document_fields(row, path)
    with invalid_rows(path, f"document {id_!r}"):
        plain = json.loads(metadata), json.loads(segments)
        return SourceDocument(id_, text, title, *plain, checked_code(language))


def _document_fields(row: Sequence[Any], path: str) -> list[Any]:
    """Return the fields of a document's row without its checksum."""
    return checked_row(row, path, f"document {row[0]!r}")


def row_to_node(row: Sequence[Any], path: str) -> StoredNode:
    """Return the node in a row, without its windows."""
    fields = checked_row(row, path, f"node {row[0]} of document {row[1]!r}")
    id_, document_id, level, position, start, end, parent, text, words, key = fields
    with invalid_rows(path, f"node {id_!r}"):
        typed = (*fields[:6], parent or "", *fields[7:])
        _check_types(typed, (str, str, int, int, int, int, str, str, int, bytes))
        if min(level, position, start, words) < 0 or end < start:
            raise ValueError("a number is negative")
    node = Node(id_, document_id, level, position, start, end, text, parent)
    return StoredNode(node, words, key)


def _check_types(values: Sequence[Any], types: Sequence[type]) -> None:
    """Check the types of values: SQLite stores a value of any type in any column."""
    for value, type_ in zip(values, types, strict=True):
        if type(value) is not type_:
            raise TypeError(f"{type(value).__name__} instead of {type_.__name__}")


def insert_rows(db: Transaction, query: str, rows: Iterable[Sequence[Any]]) -> None:
    """Run an insert for each row, whose last column gets the checksum of the others."""
    db.executemany(query, ((*fields, checksum(*fields)) for fields in rows))


def insert_document(db: Transaction, document: SourceDocument, nodes: Sequence[StoredNode]) -> None:
    """Insert a document and its nodes. A document without a language is English."""
    encoded = document_fields(document)
    metadata, segments = canonical_json(encoded["metadata"]), canonical_json(encoded["segments"])
    counts = len(nodes), sum(len(stored.windows) for stored in nodes)
    header = (document.id, document.title, document.text, metadata, segments)
    language = document.language or ENGLISH
    fields = (*header, content_hash(document), *counts, uuid.uuid4().hex, language)
    row = (*fields, checksum(*fields))
    db.execute(f"INSERT INTO documents VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - placeholders only
    node_query = "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    insert_rows(db, node_query, map(_node_fields, nodes))
    insert_rows(db, _PUT_WINDOW, chain.from_iterable(map(_window_fields, nodes)))


def _node_fields(stored: StoredNode) -> tuple[str | int | bytes | None, ...]:
    node = stored.node
    return (
        *(node.id, node.document_id, node.level, node.position, node.start, node.end),
        *(node.parent_id, node.text, stored.words, stored.content_key),
    )


def _window_fields(stored: StoredNode) -> Iterator[tuple[str | int | bytes, ...]]:
    for number, (span, key) in enumerate(stored.windows):
        yield stored.node.id, number, span.start, span.end, key
    yield from _attached_fields(stored.node.id, stored.attached)


def _attached_fields(
    node_id: str, keys: Sequence[bytes]
) -> Iterator[tuple[str | int | bytes, ...]]:
    for number, key in enumerate(keys, 1):
        yield node_id, -number, 0, 0, key


def attached_to(db: Transaction, document_id: str) -> dict[str, list[bytes]]:
    """Return the keys of the content attached to the nodes of a document, by node id."""
    rows = db.execute(
        "SELECT w.node_id, w.content_key FROM windows w JOIN nodes n ON n.id = w.node_id "
        "WHERE n.document_id = ? AND w.number < 0 ORDER BY w.node_id, w.number DESC",
        (document_id,),
    ).fetchall()
    keys: dict[str, list[bytes]] = {}
    for node_id, key in rows:
        keys.setdefault(node_id, []).append(key)
    return keys


def attach(db: Transaction, attached: Mapping[str, Sequence[bytes]]) -> None:
    """Replace the content attached to nodes, given the keys of the content by node id."""
    db.executemany(
        "DELETE FROM windows WHERE node_id = ? AND number < 0", ((id_,) for id_ in attached)
    )
    insert_rows(db, _PUT_WINDOW, chain.from_iterable(starmap(_attached_fields, attached.items())))


def delete_document(db: Transaction, document_id: str) -> list[bytes] | None:
    """Delete a document and its nodes.

    Returns:
        The keys of the content that the nodes referenced, or None if there is no such document.
    """
    keys = db.execute(
        "SELECT content_key FROM nodes WHERE document_id = ? UNION "
        "SELECT w.content_key FROM windows w JOIN nodes n ON n.id = w.node_id "
        "WHERE n.document_id = ?",
        (document_id, document_id),
    ).fetchall()
    deleted = db.execute("DELETE FROM documents WHERE id = ?", (document_id,)).rowcount
    return [key for (key,) in keys] if deleted else None


def relink_chunks(db: Transaction, path: str, keys: Mapping[str, bytes]) -> Iterator[bytes]:
    """Replace the content keys of chunks, given by node id, and yield the old keys.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    for id_, key in keys.items():
        row = db.execute("SELECT * FROM nodes WHERE id = ?", (id_,)).fetchone()
        *fields, old_key = checked_row(row, path, f"node {id_} of document {row[1]!r}")
        yield old_key
        db.execute(
            "UPDATE nodes SET content_key = ?, checksum = ? WHERE id = ?",
            (key, checksum(*fields, key), id_),
        )


def replace_windows(db: Transaction, windows: Mapping[str, Sequence[tuple[Span, bytes]]]) -> None:
    """Replace all windows of all nodes; attached content remains.

    Args:
        db: The transaction.
        windows: For each window of each node, by node id, its span and the key of its vector.
    """
    db.execute("DELETE FROM windows WHERE number >= 0")
    rows = (
        (id_, number, span.start, span.end, key)
        for id_, own in windows.items()
        for number, (span, key) in enumerate(own)
    )
    insert_rows(db, _PUT_WINDOW, rows)


def renew_stamps(db: Transaction, path: str) -> None:
    """Replace the stamps of all documents, and count their windows again.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    counts = db.execute(
        "SELECT n.document_id, count(*) FROM windows w JOIN nodes n ON n.id = w.node_id "
        "WHERE w.number >= 0 GROUP BY n.document_id"
    ).fetchall()
    windows = {id_: int(count) for id_, count in counts}
    for (id_,) in db.execute("SELECT id FROM documents").fetchall():
        row = db.execute("SELECT * FROM documents WHERE id = ?", (id_,)).fetchone()
        *fields, _, _, language = _document_fields(row, path)
        changed = windows.get(id_, 0), uuid.uuid4().hex
        db.execute(
            "UPDATE documents SET windows = ?, stamp = ?, checksum = ? WHERE id = ?",
            (*changed, checksum(*fields, *changed, language), id_),
        )


def put_manifest(db: Transaction, key: str, value: str) -> None:
    """Insert or replace an entry in the manifest."""
    row = (key, value, checksum(key, value))
    db.execute(
        "INSERT INTO manifest VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE "
        "SET value = excluded.value, checksum = excluded.checksum",
        row,
    )


def forget_source_file(db: Transaction, document_id: str) -> None:
    """Delete the path of the file that a document was read from; see `source_files.py`."""
    db.execute("DELETE FROM manifest WHERE key = ?", (SOURCE_FILE + document_id,))


def new_generation(db: Transaction) -> None:
    """Give the current state of the file a new name; `Store.new_generation` also announces it.

    The name is random. With a counter, a restored backup could reach the same number as a later,
    different state, and match the snapshot of that state.
    """
    put_manifest(db, GENERATION, uuid.uuid4().hex)
