"""The store, which reads and writes the documents, nodes and cached content of an index."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    IndexingError,
    InvalidInputError,
    SettingsMismatchError,
    UnknownDocumentError,
)
from e2graphrag_integrations.reports import CompactReport, DeleteReport
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.database import Database, KnownGeneration, Transaction, WriteLock
from e2graphrag_integrations.store.location import open_database
from e2graphrag_integrations.store.records import (
    DocumentHeader,
    StaleSnapshotError,
    StoredNode,
    canonical_json,
    content_hash,
    decode_sentences,
)
from e2graphrag_integrations.store.rows import (
    GENERATION,
    REEMBEDDING,
    REPORT,
    REPORT_INDEX,
    REPORT_INDEX_KEY,
    attach,
    attached_to,
    checked_row,
    checksum,
    delete_document,
    forget_source_file,
    insert_document,
    manifest_value,
    new_generation,
    put_manifest,
    relink_chunks,
    renew_stamps,
    replace_windows,
    row_to_document,
    row_to_header,
    row_to_node,
)
from e2graphrag_integrations.store.sqlite import SQLiteDatabase
from e2graphrag_integrations.types import Node, Sentences, SourceDocument, Span

if TYPE_CHECKING:
    from e2graphrag_integrations.text.tags import TagSet

_MADE_WITH = "made_with"
"""Manifest key for the settings and model fingerprints of the indexed documents."""

_TAGS = "tags"
"""Manifest key for the tag set; missing if the index has none."""

_LEFTOVERS = "leftovers"
"""Manifest key that exists while the file may contain unused content."""

_TEXT_ROWS = 200
"""Number of rows with the texts of documents that are read at a time."""

QUEUE_MANIFEST = "waiting_with"
"""Manifest key for the settings and model fingerprints of the queued documents."""

_DROP_UNUSED = (
    f"DELETE FROM content WHERE kind NOT IN ('{REPORT}', '{REPORT_INDEX}') "  # noqa: S608 - constants
    "AND NOT EXISTS (SELECT 1 FROM nodes WHERE content_key = key) "
    "AND NOT EXISTS (SELECT 1 FROM windows WHERE content_key = key)"
)

_COUNT_NODES = "SELECT count(*), count(*) FILTER (WHERE level = 0) FROM nodes WHERE document_id = ?"

StampOf = Callable[[str], str | None]
"""Returns the stamp of a document by its id, or None if there is no such document."""

_IDS = "SELECT id FROM documents"

_NODES = "SELECT * FROM nodes {}"

_NODES_AND_GENERATION = (
    f"SELECT *, NULL, (SELECT value FROM manifest WHERE key = '{GENERATION}') FROM nodes {{}}"  # noqa: S608 - constants only
)
"""One statement, because a second one would add about 0.1 ms to each query."""

_NODES_AND_STAMPS = (
    "SELECT *, (SELECT stamp FROM documents WHERE id = nodes.document_id), "  # noqa: S608 - constants only
    f"(SELECT value FROM manifest WHERE key = '{GENERATION}') FROM nodes {{}}"
)
"""The same with the stamps of the documents, which prove that they are unchanged."""


class Store:
    """One index: its manifest, cached content, documents and nodes.

    Each document is written in one transaction.

    Args:
        path: The index file, `":memory:"` to keep everything in memory, or the URL of a Postgres
            database.
        timeout: Seconds to wait for a lock that another process holds.
        before_creation: Called before an index is created. If it raises an error, none is created.

    Attributes:
        database: The database that contains the rows.
        path: The path, or the URL without a password, for messages.

    Raises:
        StoreError: If the index cannot be opened.
        InvalidInputError: If the path is a folder, or if its parent folder does not exist.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        timeout: float = 30.0,
        before_creation: Callable[[], object] = lambda: None,
    ) -> None:
        self._open(open_database(path, timeout, before_creation))

    def _open(self, database: Database) -> None:
        self.database = database
        self.path = database.path

    # Database

    @property
    def index_lock(self) -> WriteLock:
        """Excludes other writers during an operation that spans many transactions."""
        return self.database.index_lock

    @property
    def is_closed(self) -> bool:
        """Whether the index is closed."""
        return self.database.is_closed

    @property
    def snapshot_folder(self) -> Path | None:
        """The folder for the search indexes derived from the store; None keeps them in memory."""
        return self.database.snapshot_folder

    @property
    def file(self) -> Path | None:
        """The index file; None if the index is in memory or in Postgres."""
        is_file = isinstance(self.database, SQLiteDatabase) and self.path != MEMORY
        return Path(self.database.location) if is_file else None

    @property
    def absolute_path(self) -> str:
        """The absolute path of the index file; ":memory:", and a URL without password, remain."""
        return self.path if self.file is None else str(self.file)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Run the block in a write transaction: commit at the end, or roll back on an exception."""
        return self.database.transaction()

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a query and return all rows."""
        return self.database.read(query, parameters)

    def read_transaction(self) -> AbstractContextManager[None]:
        """Run the block in a read transaction, so that all its reads see the same state.

        A nested block joins the outer transaction.
        """
        return self.database.read_transaction()

    def reopen(self) -> Self:
        """Return a second handle to the same index, whose reads do not wait for this one."""
        database = self.database.reopen()
        if database is self.database:
            return self
        store = object.__new__(type(self))
        store._open(database)
        return store

    def dump(self) -> bytes:
        """Return the content of an in-memory index."""
        return self._sqlite().dump()

    def load(self, content: bytes) -> None:
        """Replace the content of an in-memory index by the result of `dump`.

        Raises:
            CorruptStoreError: If the content is damaged.
        """
        self._sqlite().load(content)

    def _sqlite(self) -> SQLiteDatabase:
        if not isinstance(self.database, SQLiteDatabase):
            raise InvalidInputError(f"{self.path} is not an index file")
        return self.database

    def close(self, *, merge_log: bool = True) -> None:
        """Close the index; idempotent.

        Args:
            merge_log: False only closes it, for a second handle of the same process.
        """
        self.database.close(merge_log=merge_log)

    # Manifest

    def manifest(self) -> dict[str, str]:
        """Return the settings and model fingerprints of the indexed documents.

        The result is empty if there are no documents, so an index accepts new settings once all
        documents are deleted.
        """
        with self.read_transaction():
            if not self.read("SELECT 1 FROM documents LIMIT 1"):
                return {}
            return self._model_entries(_MADE_WITH)

    def queue_manifest(self) -> dict[str, str]:
        """Return the settings and model fingerprints for the queue, or {} if the queue is empty."""
        with self.read_transaction():
            if not self.read("SELECT 1 FROM queue LIMIT 1"):
                return {}
            return self._model_entries(QUEUE_MANIFEST)

    def tag_set(self) -> TagSet | None:
        """Return the tags that chunks can have; None if the user has set none.

        Raises:
            CorruptStoreError: If the row is damaged.
        """
        rows = self.read("SELECT * FROM manifest WHERE key = ?", (_TAGS,))
        if not rows:
            return None
        from e2graphrag_integrations.text.tags import TagSet

        _, text = checked_row(rows[0], self.path, "tags in the manifest")
        with invalid_rows(self.path, "tags in the manifest"):
            return TagSet.from_json(text)

    def put_tag_set(self, tag_set: TagSet) -> None:
        """Replace the tags that chunks can have, in one transaction."""
        with self.transaction() as db:
            if tag_set.tags:
                put_manifest(db, _TAGS, tag_set.to_json())
            else:
                db.execute("DELETE FROM manifest WHERE key = ?", (_TAGS,))
            self.new_generation(db)

    def _model_entries(self, key: str) -> dict[str, str]:
        with invalid_rows(self.path, f"{key} in the manifest"):
            entries = json.loads(self._manifest_row(key)).items()
            if not all(isinstance(value, str) for _, value in entries):
                raise TypeError("a value is not a string")
            return dict(entries)

    def _manifest_row(self, key: str) -> str:
        rows = self.read("SELECT * FROM manifest WHERE key = ?", (key,))
        return manifest_value(rows[0] if rows else None, key, self.path)

    def check_manifest(self, values: Mapping[str, str]) -> dict[str, str]:
        """Compare entries with the manifest, which may have changed since the file was opened.

        Returns:
            The manifest.

        Raises:
            SettingsMismatchError: If an entry differs from the manifest's entry.
        """
        made_with = self.manifest()
        for key, value in values.items():
            # Model names are not compared: a model can have several. Its fingerprint identifies it.
            if made_with.get(key, value) != value and not key.endswith("_model"):
                raise SettingsMismatchError(
                    f"{self.path} was built with {key}={made_with[key]}, not {value}: open it "
                    "again with its own settings and models, or index into a new file"
                )
        return made_with

    @property
    def generation(self) -> str:
        """The name of the file's current state, which changes whenever a document is written."""
        return self._manifest_row(GENERATION)

    def new_generation(self, db: Transaction) -> None:
        """Give the state after a write transaction a new name, and announce it to other processes.

        Call it last in the transaction.
        """
        new_generation(db)
        self.database.announce(db)

    def newest_generation(self, until: float) -> KnownGeneration:
        """Return a generation that contains all changes until a time, and is the newest known one.

        It is read unless it is known. A file is always read.

        Args:
            until: Time of `time.monotonic`, in the past.
        """
        newest = self.database.newest
        if newest is not None and newest.known.complete_until >= until:
            return newest.known
        began = time.monotonic()
        name = self.generation
        if newest is not None:
            newest.learn(name, began)
        return KnownGeneration(name, began)

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call a bound method when another process changes the index; see `Database.listen`."""
        self.database.listen(on_change)

    def queue_rows(self, ids: Collection[str] | None = None) -> Iterator[Any]:
        """Yield the rows of the queue, or those with the given ids, oldest first.

        All of them are read a few at a time, because each contains the text of a document.
        """
        query = "SELECT * FROM queue {} ORDER BY number, id"
        if ids is not None:
            yield from self._select(query, "id", ids)
            return
        ordered = [id_ for (id_,) in self.read("SELECT id FROM queue ORDER BY number, id")]
        for start in range(0, len(ordered), _TEXT_ROWS):
            yield from self._select(query, "id", ordered[start : start + _TEXT_ROWS])

    # Cached content

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the cached content by key; keys without cached content are omitted.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        contents: dict[bytes, bytes] = {}
        for row in self._select("SELECT * FROM content {}", "key", list(dict.fromkeys(keys))):
            what = f"cached {row[1]} {row[0].hex()[:16]}"
            key, _, value = checked_row(row, self.path, what)
            contents[key] = value
        return contents

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Store content in one transaction; the content of existing keys is not replaced."""
        rows = [(key, kind, value, checksum(key, kind, value)) for key, value in contents.items()]
        self.database.insert("INSERT INTO content VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def has_cached(self, kind: str) -> bool:
        """Return whether the cache has content of a kind, such as `summary`."""
        return bool(list(self._select("SELECT 1 FROM content {} LIMIT 1", "kind", [kind])))

    # Documents

    def content_hashes(self) -> dict[str, str]:
        """Return the content hash of each document by id."""
        return dict(self.read("SELECT id, content_hash FROM documents"))

    def languages(self) -> dict[str, str]:
        """Return the language of each document by id."""
        return self.hashes_and_languages()[1]

    def counts(self) -> dict[str, int]:
        """Return the number of documents, chunks and summaries."""
        [(documents,)] = self.read("SELECT COUNT(*) FROM documents")
        levels = dict(self.read("SELECT level > 0, COUNT(*) FROM nodes GROUP BY level > 0"))
        return {
            "documents": documents,
            "chunks": levels.get(False, 0),
            "summaries": levels.get(True, 0),
        }

    def language_counts(self) -> dict[str, int]:
        """Return the number of documents in each language."""
        rows = self.read("SELECT language, COUNT(*) FROM documents GROUP BY language")
        return dict(rows)

    def hashes_and_languages(
        self, ids: Collection[str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the content hash and the language of each document by id.

        One query reads both, for all documents, or for those with the given ids.
        """
        rows = list(self._select("SELECT id, content_hash, language FROM documents {}", "id", ids))
        hashes = {id_: hash_ for id_, hash_, _ in rows}
        return hashes, {id_: language for id_, _, language in rows}

    def write_document(
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],
        replaces: str | None = None,
        check: Callable[[Transaction], None] = lambda _: None,
    ) -> Sequence[bytes]:
        """Write a document and its nodes in one transaction.

        Args:
            document: The document.
            nodes: All nodes of the document's tree. Their content must already be cached.
            manifest: The settings and model fingerprints that produced the nodes.
            replaces: Content hash of the stored version that `document` replaces.
            check: Called first in the transaction. If it raises, nothing is written.

        Returns:
            Keys of the content that the previous version referenced, to be passed to `drop_unused`.

        Raises:
            SettingsMismatchError: If `manifest` differs from the file's manifest.
            DuplicateDocumentError: If another writer has written a different version.
            IndexingError: If another writer has deleted content that the nodes reference.
        """
        with self.transaction() as db:
            check(db)
            # Another worker may have recorded the extractors of other languages.
            recorded = self.check_manifest(manifest)
            put_manifest(db, _MADE_WITH, canonical_json({**recorded, **manifest}))
            existing = db.execute(
                "SELECT content_hash FROM documents WHERE id = ?", (document.id,)
            ).fetchone()
            if existing and existing[0] not in (replaces, content_hash(document)):
                raise DuplicateDocumentError(
                    f"another writer changed document {document.id!r} in {self.path}: check its "
                    "current version, then call update()"
                )
            db.execute("DELETE FROM queue WHERE id = ?", (document.id,))
            attached = attached_to(db, document.id)
            old_keys = delete_document(db, document.id)
            try:
                insert_document(db, document, nodes)
                if attached:  # what was paid for remains, also without the stage that made it
                    plain = {one.node.id for one in nodes if not one.attached}
                    attach(db, {id_: keys for id_, keys in attached.items() if id_ in plain})
            except self.database.reference_error as error:
                raise IndexingError(
                    f"another writer deleted cached content that document {document.id!r} needs: "
                    "call add() again, which regenerates only the missing content"
                ) from error
            self.new_generation(db)
        return old_keys or ()

    def replace_extractions(
        self,
        keys: Mapping[str, bytes],
        change_manifest: Callable[[Mapping[str, str]], Mapping[str, str]],
    ) -> None:
        """Link all chunks to new extractions in one transaction, and drop the old ones.

        Args:
            keys: Key of the cached extraction of every chunk, by node id.
            change_manifest: Changes the entries in the manifests of the documents and the queue.

        Raises:
            IndexingError: If another writer has changed the documents or deleted the extractions.
            CorruptStoreError: If a row does not match its checksum.
        """
        problem = f"another writer changed {self.path}: call reindex() again"
        with self.transaction() as db:
            chunks = db.execute("SELECT id FROM nodes WHERE level = 0").fetchall()
            if {id_ for (id_,) in chunks} != keys.keys():
                raise IndexingError(problem)
            try:
                old_keys = set(relink_chunks(db, self.path, keys))
            except self.database.reference_error as error:
                raise IndexingError(problem) from error
            renew_stamps(db, self.path)
            self._change_manifests(db, change_manifest)
            self._drop_unused(db, old_keys)
            self.new_generation(db)

    def replace_vectors(
        self,
        windows: Mapping[str, Sequence[tuple[Span, bytes]]],
        change_manifest: Callable[[Mapping[str, str]], Mapping[str, str]],
        tag_set: TagSet | None,
        attached: Mapping[str, Sequence[bytes]] = MappingProxyType({}),
    ) -> None:
        """Give all nodes new windows in one transaction, and drop the old vectors.

        Args:
            windows: For each window of every node, by node id, its span and the key of its cached
                vector.
            change_manifest: Changes the entries in the manifests of the documents and the queue.
            tag_set: The tags of the index with new vectors; None if there are no tags.
            attached: Keys of new contents to attach to nodes, by node id.

        Raises:
            IndexingError: If another writer has changed the documents or deleted the vectors.
            CorruptStoreError: If a row does not match its checksum.
        """
        problem = f"another writer changed {self.path}: call reembed() again"
        with self.transaction() as db:
            nodes = db.execute("SELECT id FROM nodes").fetchall()
            if {id_ for (id_,) in nodes} != windows.keys():
                raise IndexingError(problem)
            old_keys = {key for (key,) in db.execute("SELECT content_key FROM windows").fetchall()}
            try:
                replace_windows(db, windows)
                attach(db, attached)
            except self.database.reference_error as error:
                raise IndexingError(problem) from error
            renew_stamps(db, self.path)
            self._change_manifests(db, change_manifest)
            if tag_set is not None:
                put_manifest(db, _TAGS, tag_set.to_json())
            db.execute("DELETE FROM manifest WHERE key = ?", (REEMBEDDING,))
            self._drop_unused(db, old_keys)
            self.new_generation(db)

    def attached(self) -> dict[str, list[bytes]]:
        """Return the keys of the content attached to nodes, by node id; see `ChunkStage`.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        keys: dict[str, list[bytes]] = {}
        query = "SELECT * FROM windows WHERE number < 0 ORDER BY node_id, number DESC"
        for row in self.read(query):
            node_id, *_, key = checked_row(row, self.path, f"content attached to node {row[0]}")
            keys.setdefault(node_id, []).append(key)
        return keys

    def replace_attached(
        self,
        attached: Mapping[str, Sequence[bytes]],
        change_manifest: Callable[[Mapping[str, str]], Mapping[str, str]],
    ) -> None:
        """Replace the content attached to nodes in one transaction, and drop what is unused.

        Args:
            attached: Keys of the cached content by node id. No keys remove what is attached.
            change_manifest: Changes the entries in the manifests of the documents and the queue.

        Raises:
            IndexingError: If another writer has deleted a node or the content.
            CorruptStoreError: If a row does not match its checksum.
        """
        with self.transaction() as db:
            query = "SELECT content_key FROM windows WHERE node_id = ? AND number < 0"
            old = [key for id_ in attached for (key,) in db.execute(query, (id_,)).fetchall()]
            try:
                attach(db, attached)
            except self.database.reference_error as error:
                raise IndexingError(f"another writer changed {self.path}: call again") from error
            self._change_manifests(db, change_manifest)
            self._drop_unused(db, set(old))
            self.new_generation(db)

    def _change_manifests(
        self, db: Transaction, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """Change the entries in the manifests of the documents and the queue."""
        for name in (_MADE_WITH, QUEUE_MANIFEST):
            row = db.execute("SELECT * FROM manifest WHERE key = ?", (name,)).fetchone()
            if row is not None:
                _, value = checked_row(row, self.path, f"{name} in the manifest")
                put_manifest(db, name, canonical_json(dict(change(json.loads(value)))))

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Delete cached content that no node references.

        While documents are waiting to be indexed, nothing is deleted, because they may need the
        content. Once no documents are waiting, the next call checks all content.

        Args:
            keys: Keys of content that may be unused; None checks all content.
        """
        with self.transaction() as db:
            self._drop_unused(db, keys)

    def note_unused(self, db: Transaction) -> None:
        """Record in a transaction that content may be unused, for the next `drop_unused`."""
        put_manifest(db, _LEFTOVERS, "")

    def has_unused(self) -> bool:
        """Return whether the next `drop_unused` checks all content."""
        return bool(self.read("SELECT 1 FROM manifest WHERE key = ?", (_LEFTOVERS,)))

    def compact(self) -> CompactReport:
        """Delete unused cached content and shrink the file.

        While documents are waiting to be indexed, unused content is kept because they may need it.
        """
        bytes_before = self.database.size()
        [(rows_before,)] = self.read("SELECT count(*) FROM content")
        self.drop_unused()
        [(rows_after,)] = self.read("SELECT count(*) FROM content")
        self.database.vacuum()
        bytes_after = self.database.size()
        return CompactReport(bytes_before, bytes_after, rows_before - rows_after)

    def delete_documents(self, ids: Sequence[str], *, with_pending: bool = True) -> DeleteReport:
        """Delete documents, their nodes and any content left unused, in one transaction.

        Queued documents are removed from the queue.

        Args:
            ids: Ids of the documents.
            with_pending: Whether to delete versions that an integration has stored, too. They would
                bring the documents back.

        Raises:
            UnknownDocumentError: If an id is neither indexed nor in the queue. In that case,
                nothing is deleted.
        """
        chunks = nodes = queued = 0
        unused: list[bytes] = []
        with self.transaction() as db:
            for document_id in ids:
                node_count, chunk_count = db.execute(_COUNT_NODES, (document_id,)).fetchone()
                nodes, chunks = nodes + node_count, chunks + chunk_count
                in_queue = db.execute("DELETE FROM queue WHERE id = ?", (document_id,)).rowcount
                if with_pending:
                    db.execute("DELETE FROM pending WHERE id = ?", (document_id,))
                keys = delete_document(db, document_id)
                if keys is None and not in_queue:
                    raise UnknownDocumentError(
                        f"no document {document_id!r} in {self.path}", document_id
                    )
                forget_source_file(db, document_id)
                queued += in_queue
                unused += keys or ()
            # It is unknown which content was produced for queued documents.
            self._drop_unused(db, None if queued else unused)
            self.new_generation(db)
        return DeleteReport(len(ids), chunks, nodes - chunks)

    def stamps(self) -> dict[str, str]:
        """Return the stamp of each document by id, ordered by id."""
        return dict(self.read("SELECT id, stamp FROM documents ORDER BY id"))

    def document_headers(self, ids: Sequence[str] | None = None) -> list[DocumentHeader]:
        """Return documents without their texts, ordered by id.

        The texts are read for the checksums, but only a few at a time.

        Args:
            ids: Ids of the documents to return; None returns all documents.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        if ids is None:
            with self.read_transaction():
                return self.document_headers([id_ for (id_,) in self.read(_IDS)])
        headers = []
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), _TEXT_ROWS):
            batch = wanted[start : start + _TEXT_ROWS]
            rows = self._select("SELECT * FROM documents {}", "id", batch)
            headers += [row_to_header(row, self.path) for row in rows]
        return sorted(headers, key=lambda header: header.id)

    def _select(self, query: str, column: str, keys: Collection[Any] | None) -> Iterator[Any]:
        """Yield the rows with one of the keys, or all rows for None; see `Database.read_keys`."""
        if keys is None:
            yield from self.read(query.format(""))
            return
        yield from self.database.read_keys(query, column, list(keys))

    def document(self, document_id: str) -> SourceDocument:
        """Return a document.

        Raises:
            UnknownDocumentError: If there is no such document.
            CorruptStoreError: If its row does not match its checksum.
        """
        rows = self.read("SELECT * FROM documents WHERE id = ?", (document_id,))
        if not rows:
            raise UnknownDocumentError(f"no document {document_id!r} in {self.path}", document_id)
        return row_to_document(rows[0], self.path)

    # Nodes

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Return nodes by id; ids of nodes that do not exist are omitted.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        rows = self._select(_NODES, "id", ids)
        return {row[0]: row_to_node(row, self.path).node for row in rows}

    def nodes_at(
        self, generation: str, ids: Sequence[str], stamp_of: StampOf | None = None
    ) -> dict[str, Node]:
        """Return nodes by id, as they were in the given generation of the store.

        Args:
            generation: Name of the generation.
            ids: Ids of the nodes.
            stamp_of: Returns the stamp of a document in that generation. With it, the store may be
                newer if these documents are unchanged.

        Raises:
            StaleSnapshotError: If the store has a different generation or a node does not exist.
                With `stamp_of`, the error names the nodes whose documents were changed.
            CorruptStoreError: If a row does not match its checksum.
        """
        newest, began = self.database.newest, time.monotonic()
        with_stamps = newest is not None and newest.known.name != generation
        query = _NODES_AND_STAMPS if with_stamps else _NODES_AND_GENERATION
        nodes: dict[str, Node] = {}
        stamps: dict[str, str] = {}
        is_newer, found = False, None
        for *row, stamp, found in self._select(query, "id", ids):
            is_newer |= found != generation
            node = nodes[row[0]] = row_to_node(row, self.path).node
            stamps[node.document_id] = stamp
        if newest is not None and found is not None:
            newest.learn(found, began)
        missing = [id_ for id_ in ids if id_ not in nodes]
        if stamp_of is not None and (is_newer or (missing and self.generation != generation)):
            self._check_unchanged(nodes, missing, stamp_of, stamps if with_stamps else None)
        elif is_newer:
            raise StaleSnapshotError("the file is newer than the snapshot")
        if missing:
            raise StaleSnapshotError("a node of the snapshot is missing from the file")
        return nodes

    def window_vectors(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], bytes]:
        """Return encoded vectors by the node of their window and its number in the node.

        Windows that do not exist are omitted.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        wanted = set(places)
        keys = {}
        ids = list(dict.fromkeys(id_ for id_, _ in places))
        for row in self._select("SELECT * FROM windows {}", "node_id", ids):
            if (row[0], row[1]) in wanted:
                keys[row[0], row[1]] = checked_row(row, self.path, f"a window of node {row[0]}")[4]
        contents = self.cached(set(keys.values()))
        return {place: contents[key] for place, key in keys.items() if key in contents}

    def mentions_at(
        self, generation: str, ids: Sequence[str], stamp_of: StampOf | None = None
    ) -> dict[str, Sentences]:
        """Return the mentions in each sentence of chunks, by id; see `nodes_at`.

        Raises:
            StaleSnapshotError: If the store has a different generation or a chunk does not exist.
                With `stamp_of`, the error names the chunks whose documents were changed.
            CorruptStoreError: If a row does not match its checksum.
        """
        stored = [row_to_node(row, self.path) for row in self._select(_NODES, "id", ids)]
        keys = {one.node.id: one.content_key for one in stored}
        cached = self.cached(keys.values())
        missing = [id_ for id_ in ids if keys.get(id_) not in cached]
        if self.generation != generation:
            if stamp_of is None:
                raise StaleSnapshotError("the file is newer than the snapshot")
            self._check_unchanged({one.node.id: one.node for one in stored}, missing, stamp_of)
        if missing:
            raise StaleSnapshotError("a chunk of the snapshot is missing from the file")
        with invalid_rows(self.path, "the mentions of a chunk"):
            return {id_: decode_sentences(cached[key]) for id_, key in keys.items()}

    def _check_unchanged(
        self,
        nodes: Mapping[str, Node],
        missing: Collection[str],
        stamp_of: StampOf,
        stamps: Mapping[str, str] | None = None,
    ) -> None:
        """Check that the documents of nodes are those of an older generation.

        Call this after the nodes have been read. Every write gives a document a new stamp, so an
        unchanged stamp proves that the nodes were read from the older generation.

        Args:
            nodes: The nodes.
            missing: Ids of nodes that do not exist any more.
            stamp_of: Returns the stamp of a document in the older generation.
            stamps: The stamps of the documents, read with the nodes or later; None reads them.

        Raises:
            StaleSnapshotError: If one was changed or deleted. It names the nodes.
        """
        documents = list(dict.fromkeys(node.document_id for node in nodes.values()))
        if stamps is None:
            stamps = dict(self._select("SELECT id, stamp FROM documents {}", "id", documents))
        unchanged = {id_ for id_ in documents if stamps.get(id_) == stamp_of(id_)}
        changed = {id_ for id_, node in nodes.items() if node.document_id not in unchanged}
        if changed or missing:
            raise StaleSnapshotError(
                "documents of the snapshot were changed or deleted", {*changed, *missing}
            )

    def all_nodes(self, document_ids: Sequence[str] | None = None) -> Iterator[StoredNode]:
        """Yield nodes with their windows, ordered by document, level and position.

        Args:
            document_ids: Ids of the documents, ascending; None yields the nodes of all documents.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        windows: dict[str, list[tuple[Span, bytes]]] = {}
        attached: dict[str, list[bytes]] = {}
        window_query = "SELECT * FROM windows {} ORDER BY node_id, number"
        if document_ids is not None:
            window_query = (
                "SELECT w.* FROM windows w JOIN nodes n ON n.id = w.node_id {} "
                "ORDER BY node_id, number"
            )
        for row in self._select(window_query, "document_id", document_ids):
            what = f"a window of node {row[0]}"
            node_id, number, start, end, key = checked_row(row, self.path, what)
            with invalid_rows(self.path, what):
                if not (0 <= start <= end and isinstance(key, bytes)):
                    raise ValueError("the span is invalid")
            if number < 0:
                attached.setdefault(node_id, []).insert(0, key)
                continue
            windows.setdefault(node_id, []).append((Span(start, end), key))
        query = "SELECT * FROM nodes {} ORDER BY document_id, level, position"
        for row in self._select(query, "document_id", document_ids):
            yield replace(
                row_to_node(row, self.path),
                windows=tuple(windows.get(row[0], ())),
                attached=tuple(attached.get(row[0], ())),
            )

    def _drop_unused(self, db: Transaction, keys: Collection[bytes] | None) -> None:
        for table in ("queue", "pending"):
            if db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():  # noqa: S608 - constants
                if keys is None or keys:
                    put_manifest(db, _LEFTOVERS, "")
                return
        leftovers = db.execute("DELETE FROM manifest WHERE key = ?", (_LEFTOVERS,)).rowcount
        empty = not db.execute("SELECT 1 FROM documents LIMIT 1").fetchone()
        if keys is None or leftovers or empty:
            db.execute(_DROP_UNUSED)
            db.execute("DELETE FROM manifest WHERE key = ?", (REEMBEDDING,))
        else:
            db.executemany(f"{_DROP_UNUSED} AND key = ?", ((key,) for key in keys))
        listed = "SELECT 1 FROM content WHERE key = ?"
        if db.execute(listed, (REPORT_INDEX_KEY,)).fetchone() is not None:
            from e2graphrag_integrations.store.tables.community_reports import drop_stale_reports

            drop_stale_reports(db, self.path)
