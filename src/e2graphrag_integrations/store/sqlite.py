"""The truth on disk: one SQLite file in WAL mode, one transaction a document."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    DuplicateDocumentError,
    IndexingError,
    SettingsMismatchError,
    UnknownDocumentError,
)
from e2graphrag_integrations.reports import DeleteReport
from e2graphrag_integrations.store.database import GENERATION, Database, new_generation
from e2graphrag_integrations.store.records import (
    DocumentHead,
    NodeGoneError,
    StoredNode,
    canonical_json,
    content_hash,
)
from e2graphrag_integrations.store.rows import (
    checked_row,
    delete_document,
    delete_unused_content,
    insert_document,
    put_manifest,
    row_to_document,
    row_to_head,
    row_to_node,
)
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.types import Node, SourceDocument, Span

_BATCH = 500
"""Keys a query: below every SQLite build's limit of bound variables."""

_MADE_WITH = "made_with"
_LEFTOVERS = "leftovers"
"""Manifest row that is there while content may lie about that nothing links to."""

WAITING = "waiting_with"
"""Manifest row of what documents in the queue are to be made with."""

_IN_ORDER = "document_id, level, position"
_NODE_COLUMNS = (
    'id, document_id, level, position, start, "end", parent_id, text, words, content_key'
)


class Store(Database):
    """What one index file holds: manifest, cached content, documents and nodes."""

    # Manifest

    def manifest(self) -> dict[str, str]:
        """Return the settings and fingerprints that the documents were made with.

        Without a document there is nothing to be held to: an index that was emptied is a new one.
        """
        with self.consistent():
            if not self.read("SELECT 1 FROM documents LIMIT 1"):
                return {}
            return dict(json.loads(self._manifest_row(_MADE_WITH)))

    def waiting_manifest(self) -> dict[str, str]:
        """Return what documents in the queue are to be made with; nothing where none waits."""
        with self.consistent():
            if not self.read("SELECT 1 FROM queue LIMIT 1"):
                return {}
            return dict(json.loads(self._manifest_row(WAITING)))

    def _manifest_row(self, key: str) -> str:
        rows = self.read("SELECT * FROM manifest WHERE key = ?", (key,))
        if not rows:
            raise CorruptStoreError(f"{self.path}: the manifest has lost {key}: restore a backup")
        return str(checked_row(rows[0], self.path, f"{key} in the manifest")[1])

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
        return self._manifest_row(GENERATION)

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
                key, _, value = checked_row(row, self.path, what)
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
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],
        replaces: str | None = None,
    ) -> Sequence[bytes]:
        """Write a document and its nodes, linked to cached content, in one transaction.

        Args:
            document: Written as it is.
            nodes: All of its tree.
            manifest: What they were made with.
            replaces: Content hash of the version that this one takes the place of.

        Returns:
            Keys of content that the version before linked to, for `delete_unused_content`.

        Raises:
            SettingsMismatchError: If the manifest has other entries than those given.
            DuplicateDocumentError: If another writer has put another version there meanwhile.
            IndexingError: If another writer has deleted content that the nodes link to.
        """
        with self.transaction() as db:
            self.check_manifest(manifest)
            put_manifest(db, _MADE_WITH, canonical_json(dict(manifest)))
            there = db.execute(
                "SELECT content_hash FROM documents WHERE id = ?", (document.id,)
            ).fetchone()
            if there and there[0] not in (replaces, content_hash(document)):
                raise DuplicateDocumentError(
                    f"document {document.id!r} was changed in {self.path} by another writer "
                    "meanwhile: look at it, then update() it"
                )
            db.execute("DELETE FROM queue WHERE id = ?", (document.id,))
            before = delete_document(db, document.id)
            try:
                insert_document(db, document, nodes)
            except sqlite3.IntegrityError as error:
                raise IndexingError(
                    f"document {document.id!r} shares text with one that another writer deleted "
                    "meanwhile: call add() again, only what is missing is made anew"
                ) from error
            new_generation(db)
        return before or ()

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Forget content that nothing links to; where documents wait that may need it, afterwards.

        Args:
            keys: Of what may be without a link; None looks at everything, and so does the first
                call after one that found documents waiting.
        """
        with self.transaction() as db:
            _drop(db, keys)

    def delete_documents(self, ids: Sequence[str]) -> DeleteReport:
        """Delete documents, their nodes, and content that nothing else uses; all or none.

        One that only waits in the queue no longer waits.

        Raises:
            UnknownDocumentError: If an id is not there.
        """
        chunks = nodes = waited = 0
        gone: list[bytes] = []
        with self.transaction() as db:
            for document_id in ids:
                count = "SELECT count(*), total(level = 0) FROM nodes WHERE document_id = ?"
                all_, leaves = db.execute(count, (document_id,)).fetchone()
                nodes, chunks = nodes + all_, chunks + int(leaves)
                in_queue = db.execute("DELETE FROM queue WHERE id = ?", (document_id,)).rowcount
                keys = delete_document(db, document_id)
                if keys is None and not in_queue:
                    raise UnknownDocumentError(f"no document {document_id!r} in {self.path}")
                waited += in_queue
                gone += keys or ()
            _drop(db, None if waited else gone)  # nothing tells what was made of one that waited
            new_generation(db)
        return DeleteReport(len(ids), chunks, nodes - chunks)

    def stamps(self) -> dict[str, str]:
        """Return the stamp of each document by its id, in the order of ids."""
        return dict(self.read("SELECT id, stamp FROM documents ORDER BY id"))

    def heads(self, ids: Sequence[str] | None = None) -> list[DocumentHead]:
        """Return documents without their texts, by id: all, or some.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        rows = self._rows_of("SELECT * FROM documents {} ORDER BY id", "id", ids)
        return sorted((row_to_head(row, self.path) for row in rows), key=lambda head: head.id)

    def _rows_of(self, query: str, column: str, ids: Sequence[str] | None) -> Iterator[Any]:
        """Yield the rows of a query, `{}` in it the place of its condition on documents."""
        if ids is None:
            yield from self.read(query.format(""))
            return
        for batch in _batches(ids):
            marks = ",".join("?" * len(batch))
            yield from self.read(query.format(f"WHERE {column} IN ({marks})"), batch)

    def document(self, document_id: str) -> SourceDocument:
        """Return a document as it was given.

        Raises:
            UnknownDocumentError: If it is not there.
            CorruptStoreError: If the row does not match its checksum.
        """
        rows = self.read("SELECT * FROM documents WHERE id = ?", (document_id,))
        if not rows:
            raise UnknownDocumentError(f"no document {document_id!r} in {self.path}")
        return row_to_document(rows[0], self.path)

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
                found[row[0]] = row_to_node(row, self.path).node
        return found

    def nodes_at(self, generation: str, ids: Sequence[str]) -> dict[str, Node]:
        """Return nodes from one state of the store.

        Raises:
            NodeGoneError: If the store has another state by now, or a node is not there.
            CorruptStoreError: If a row does not match its checksum.
        """
        found = self.nodes(ids)
        # No state comes again: what has the name after reading had it all the time.
        if self.generation != generation:
            raise NodeGoneError("the file has a newer state than the snapshot")
        if len(found) < len(ids):
            raise NodeGoneError("a node of the snapshot is not in the file")
        return found

    def all_nodes(self, ids: Sequence[str] | None = None) -> Iterator[StoredNode]:
        """Yield nodes with their windows, by document, level and position.

        Args:
            ids: Of documents, ascending; None takes all.
        """
        windows: dict[str, list[tuple[Span, bytes]]] = {}
        of_documents = "SELECT * FROM windows {} ORDER BY node_id, number"
        if ids is not None:
            of_documents = (
                "SELECT w.* FROM windows w JOIN nodes n ON n.id = w.node_id {} "
                "ORDER BY node_id, number"
            )
        for row in self._rows_of(of_documents, "document_id", ids):
            what = f"a window of node {row[0]}"
            node_id, _, start, end, key = checked_row(row, self.path, what)
            windows.setdefault(node_id, []).append((Span(start, end), key))
        query = f"SELECT {_NODE_COLUMNS}, checksum FROM nodes {{}} ORDER BY {_IN_ORDER}"  # noqa: S608 - constants only
        for row in self._rows_of(query, "document_id", ids):
            yield replace(row_to_node(row, self.path), windows=tuple(windows.get(row[0], ())))


def waiting(db: sqlite3.Connection) -> bool:
    """Tell whether documents wait that may need what was made for them."""
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    return any(
        db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608 - constants
        for table in ("queue", "pending")
        if table in tables
    )


def _drop(db: sqlite3.Connection, keys: Collection[bytes] | None) -> None:
    """Forget content that nothing links to: of some keys, or all that documents left behind."""
    if waiting(db):
        if keys is None or keys:
            put_manifest(db, _LEFTOVERS, "")
        return
    left = db.execute("DELETE FROM manifest WHERE key = ?", (_LEFTOVERS,)).rowcount
    emptied = not db.execute("SELECT 1 FROM documents LIMIT 1").fetchone()
    delete_unused_content(db, None if left or emptied else keys)


def _batches(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for at in range(0, len(keys), _BATCH):
        yield keys[at : at + _BATCH]
