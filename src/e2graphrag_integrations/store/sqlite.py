"""The truth on disk: one SQLite file in WAL mode, one transaction a document."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from e2graphrag_integrations.errors import (
    ClosedError,
    CorruptStoreError,
    InvalidInputError,
    NotAnIndexError,
    SchemaVersionError,
    SettingsMismatchError,
    StoreError,
    UnknownDocumentError,
)
from e2graphrag_integrations.store.connection import (
    MEMORY,
    connect,
    file_identity,
    is_read_only,
    translate,
)
from e2graphrag_integrations.store.records import DocumentHead, StoredNode, canonical_json
from e2graphrag_integrations.store.rows import (
    checked,
    delete_document,
    document_of,
    drop_unused,
    head_of,
    insert_document,
    node_of,
    put_manifest,
)
from e2graphrag_integrations.store.schema import APPLICATION_ID, SCHEMA_VERSION, TABLES, checksum
from e2graphrag_integrations.types import Node, SourceDocument, Span

_BATCH = 500
"""Keys a query: below every SQLite build's limit of bound variables."""

_MADE_WITH, _GENERATION = "made_with", "generation"
_NODE_COLUMNS = (
    'id, document_id, level, position, start, "end", parent_id, text, words, content_key'
)


class Store:
    """Reads and writes one index file; safe to share between threads.

    Args:
        path: The file; `":memory:"` keeps everything in memory.
        timeout: Seconds to wait for another process's write lock.

    Raises:
        NotAnIndexError: If the file is something else.
        SchemaVersionError: If a newer version made it.
        InvalidInputError: If its folder does not exist.
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        self.path = str(path)
        self._lock = threading.RLock()
        if self.path != MEMORY:
            if Path(path).is_dir():
                raise InvalidInputError(f"{path} is a folder; name a file for the index")
            if not Path(path).absolute().parent.is_dir():
                raise InvalidInputError(f"folder {Path(path).absolute().parent} does not exist")
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        try:
            self._connection = connect(self.path, timeout)
            self._place = file_identity(self.path)
            self._prepare()
        except sqlite3.DatabaseError as error:
            self.close()
            raise translate(error, self.path) from error
        except StoreError:
            self.close()
            raise

    def _prepare(self) -> None:
        db = self._db
        db.execute("PRAGMA foreign_keys = ON")
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and application != APPLICATION_ID:
            raise NotAnIndexError(f"{self.path} is an SQLite file but no e2graphrag index")
        if application == APPLICATION_ID and (empty or version < 1):
            raise CorruptStoreError(f"{self.path} has lost its tables: restore a backup")
        if version > SCHEMA_VERSION:
            raise SchemaVersionError(
                f"{self.path} has schema version {version}, this package reads up to "
                f"{SCHEMA_VERSION}: upgrade e2graphrag-integrations"
            )
        if self.path != MEMORY and is_read_only(self.path):
            return
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if empty:
            self._create()

    def _create(self) -> None:
        with self.transaction() as db:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return  # another process was quicker
            for statement in TABLES.split(";"):
                if statement.strip():
                    db.execute(statement)
            _advance(db)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ClosedError(f"index {self.path} is closed; open it again")
        return self._connection

    def _check_place(self) -> None:
        """Refuse to go on with a file that is no longer the one at its path.

        What is written to it would be lost, and what is read from it would be old.
        """
        if self.path != MEMORY and self._place != file_identity(self.path):
            raise StoreError(
                f"{self.path} was replaced or removed while it was open: close it and open it again"
            )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock; commit at the end, or roll back if the block raises."""
        with self._lock:
            db = self._db
            self._check_place()
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.DatabaseError as error:
                raise translate(error, self.path) from error
            try:
                yield db
                db.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                raise translate(error, self.path) from error
            finally:
                if db.in_transaction:  # not committed
                    db.execute("ROLLBACK")

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a query and return all its rows."""
        with self._lock:
            db = self._db
            self._check_place()
            try:
                return db.execute(query, parameters).fetchall()
            except sqlite3.DatabaseError as error:
                raise translate(error, self.path) from error

    @contextlib.contextmanager
    def consistent(self) -> Iterator[None]:
        """Hold one state of the file for several reads; within another such block, its state."""
        with self._lock:
            db = self._db
            if db.in_transaction:
                yield
                return
            db.execute("BEGIN")
            try:
                yield
            finally:
                if db.in_transaction:  # SQLite ends it by itself after a severe error
                    db.execute("ROLLBACK")

    def close(self) -> None:
        """Fold the write-ahead log into the file and let go of it; safe to call twice."""
        with self._lock:
            if self._connection is None:
                return
            with contextlib.suppress(sqlite3.DatabaseError):  # another process may be reading
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
            self._connection = None

    # Manifest

    def manifest(self) -> dict[str, str]:
        """Return the settings and fingerprints that the documents were made with.

        Without a document there is nothing to be held to: an index that was emptied is a new one.
        """
        with self.consistent():
            if not self.read("SELECT 1 FROM documents LIMIT 1"):
                return {}
            return dict(json.loads(self._manifest_row(_MADE_WITH)))

    def _manifest_row(self, key: str) -> str:
        rows = self.read("SELECT * FROM manifest WHERE key = ?", (key,))
        if not rows:
            raise CorruptStoreError(f"{self.path}: the manifest has lost {key}: restore a backup")
        return str(checked(rows[0], self.path, f"{key} in the manifest")[1])

    def check_manifest(self, values: Mapping[str, str]) -> None:
        """Hold entries to those there, which another instance may have written since opening.

        Raises:
            SettingsMismatchError: If one differs.
        """
        made = self.manifest()
        for key, value in values.items():
            # One model may go by two names; its fingerprint tells.
            if made.get(key, value) != value and not key.endswith("_model"):
                raise SettingsMismatchError(
                    f"{self.path} was made with {key}={made[key]}, not {value}: open it again with "
                    "the settings and models it was made with, or index into a new file"
                )

    @property
    def generation(self) -> str:
        """Return the name of the file's present state; changes with every document written."""
        return self._manifest_row(_GENERATION)

    # Cached content

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the contents that are there.

        Raises:
            CorruptStoreError: If one does not match its checksum.
        """
        found: dict[bytes, bytes] = {}
        for batch in _batches(list(dict.fromkeys(keys))):
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, kind, value, checksum FROM content WHERE key IN ({marks})"  # noqa: S608 - marks only
            for row in self.read(query, batch):
                what = f"a stored {row[1]} ({row[0].hex()[:16]})"
                key, _, value = checked(row, self.path, what)
                found[key] = value
        return found

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Keep contents, at once and for good."""
        rows = [(key, kind, value, checksum(key, kind, value)) for key, value in contents.items()]
        with self.transaction() as db:
            db.executemany("INSERT OR IGNORE INTO content VALUES (?, ?, ?, ?)", rows)

    # Documents

    def content_hashes(self) -> dict[str, str]:
        """Return the content hash of every document by its id."""
        return dict(self.read("SELECT id, content_hash FROM documents"))

    def write_document(
        self, document: SourceDocument, nodes: Sequence[StoredNode], manifest: Mapping[str, str]
    ) -> None:
        """Write a document and its nodes, linked to cached content, in one transaction.

        A document of the same id is replaced.

        Raises:
            SettingsMismatchError: If the manifest has other entries than those given.
        """
        with self.transaction() as db:
            self.check_manifest(manifest)
            put_manifest(db, _MADE_WITH, canonical_json(dict(manifest)))
            before = delete_document(db, document.id)
            insert_document(db, document, nodes)
            drop_unused(db, before or ())
            _advance(db)

    def delete_documents(self, ids: Sequence[str]) -> None:
        """Delete documents, their nodes, and content that nothing else uses; all or none.

        Raises:
            UnknownDocumentError: If an id is not there.
        """
        with self.transaction() as db:
            for document_id in ids:
                keys = delete_document(db, document_id)
                if keys is None:
                    raise UnknownDocumentError(f"no document {document_id!r} in {self.path}")
                drop_unused(db, keys)
            _advance(db)

    def heads(self) -> list[DocumentHead]:
        """Return all documents without their texts, by id.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        rows = self.read("SELECT * FROM documents ORDER BY id")
        return [head_of(row, self.path) for row in rows]

    def document(self, document_id: str) -> SourceDocument:
        """Return a document as it was given.

        Raises:
            UnknownDocumentError: If it is not there.
            CorruptStoreError: If the row does not match its checksum.
        """
        rows = self.read("SELECT * FROM documents WHERE id = ?", (document_id,))
        if not rows:
            raise UnknownDocumentError(f"no document {document_id!r} in {self.path}")
        return document_of(rows[0], self.path)

    # Nodes

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Return nodes by id, those that are there.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        found: dict[str, Node] = {}
        for batch in _batches(ids):
            marks = ",".join("?" * len(batch))
            query = f"SELECT {_NODE_COLUMNS}, checksum FROM nodes WHERE id IN ({marks})"  # noqa: S608 - constants and marks only
            for row in self.read(query, batch):
                found[row[0]] = node_of(row, self.path).node
        return found

    def all_nodes(self) -> Iterator[StoredNode]:
        """Yield all nodes with their windows, by document, level and position."""
        windows: dict[str, list[tuple[Span, bytes]]] = {}
        for row in self.read("SELECT * FROM windows ORDER BY node_id, number"):
            what = f"a window of node {row[0]}"
            node_id, _, start, end, key = checked(row, self.path, what)
            windows.setdefault(node_id, []).append((Span(start, end), key))
        query = f"SELECT {_NODE_COLUMNS}, checksum FROM nodes ORDER BY document_id, level, position"  # noqa: S608 - constants only
        for row in self.read(query):
            yield replace(node_of(row, self.path), windows=tuple(windows.get(row[0], ())))


def _advance(db: sqlite3.Connection) -> None:
    # Random, not counted: a restored backup must never meet a snapshot of its other future.
    put_manifest(db, _GENERATION, uuid.uuid4().hex)


def _batches(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for at in range(0, len(keys), _BATCH):
        yield keys[at : at + _BATCH]
