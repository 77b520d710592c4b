"""`IndexStorage`: an index struct, kept consistent with its docstore and vector store.

A write adds vectors first, because a vector store may reject them. It then adds nodes and saves the
struct, which makes both visible. Finally, it removes old vectors and nodes. If a step fails before
the struct changes, the write is undone. A later failure leaves only unused entries, which the next
write removes.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from llama_index.core.schema import BaseNode
from llama_index.core.storage import StorageContext

from e2graphrag_integrations._utils.processes import process_lock, process_rlock
from e2graphrag_integrations._utils.redaction import redact_error
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.errors import CorruptStoreError, ForkedProcessError, StoreError
from e2graphrag_integrations.llama_index.storage.context import SafeStorageContext
from e2graphrag_integrations.llama_index.storage.docstore import DocstoreAdapter
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.nodes import node_text
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, IndexedDocument
from e2graphrag_integrations.llama_index.storage.snapshot import (
    DocstoreReader,
    build_bm25_of,
    build_snapshot,
)
from e2graphrag_integrations.llama_index.storage.vector_stores import adapt_vector_store
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.pipeline import retrieve
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.scopes import Scope, ScopedNodes, ScopedSnapshots, shielded
from e2graphrag_integrations.retrieval.strategy import Query, Strategy
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.records import StaleSnapshotError
from e2graphrag_integrations.text.tags import TagSet
from e2graphrag_integrations.tree import with_child_ids
from e2graphrag_integrations.types import Node

_REPAIR = (
    "If index.persist() wrote the folder, E2GraphRAGIndex.from_persist_dir(folder) loads it; "
    "otherwise restore a backup, pass the stores that the index was built with, or build the index "
    "again"
)
"""What to do about stores that do not belong together."""

_ANSWER_RETRIES = 5
"""Maximum attempts to answer a query without the write lock while writes change the index."""

P = ParamSpec("P")
T = TypeVar("T")


def _changes_the_index(
    write: Callable[Concatenate[IndexStorage, P], None],
) -> Callable[Concatenate[IndexStorage, P], None]:
    """Hold the lock during a write, and mark the index for processes that are forked meanwhile."""

    @functools.wraps(write)
    def marked(storage: IndexStorage, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with storage.lock:
            outer = storage.changed_by
            storage.changed_by = os.getpid()
            try:
                write(storage, *args, **kwargs)
            finally:
                storage.changed_by = outer

    return marked


class IndexStorage:
    """An index struct with the docstore and the vector store that it refers to.

    Attributes:
        nodes: Adapter of the docstore.
        vectors: Adapter of the vector store.
        changed_by: Id of the process that is changing the index now, if any.
        lock: Held while the stores change, so that `persist` writes none of them half changed.
    """

    def __init__(self, struct: E2GraphRAGIndexStruct, context: StorageContext) -> None:
        self.struct = struct
        self.context = context
        self.nodes = DocstoreAdapter(context.docstore)
        self.vectors = adapt_vector_store(context.vector_store)
        self.lock = context.lock if isinstance(context, SafeStorageContext) else process_rlock()
        self._snapshot_lock = process_lock()
        self._snapshot: Snapshot | None = None
        self._scopes = ScopedSnapshots()
        self.changed_by: int | None = None
        self._saved = _state(struct)

    @property
    def where(self) -> str:
        """Name of the index in error messages."""
        return f"index {self.struct.index_id}"

    # Read

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the current generation.

        Raises:
            ForkedProcessError: If this process was forked while another thread changed the index.
        """
        if self.changed_by not in (None, os.getpid()):
            raise ForkedProcessError(
                f"{self.where} was being changed when this process was forked, so its copy is "
                "incomplete: load the index again in this process"
            )
        snapshot = self._snapshot
        if snapshot is not None and snapshot.generation == self.struct.generation:
            return snapshot
        with self._snapshot_lock:
            if self._snapshot is None or self._snapshot.generation != self.struct.generation:
                self._snapshot = build_snapshot(self.struct, self.vectors, self.context.docstore)
            return self._snapshot

    def answer(
        self,
        query: Query,
        strategy: Strategy,
        components: Components,
        write_lock: contextlib.AbstractContextManager[object],
    ) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        """Return the result of a query and its LlamaIndex nodes by id; see `read` for errors."""

        def answer(
            snapshot: Snapshot, reader: DocstoreReader
        ) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
            return retrieve(query, strategy, snapshot, reader, components), reader.text_nodes

        return self.read(answer, write_lock)

    def read(
        self,
        work: Callable[[Snapshot, DocstoreReader], T],
        write_lock: contextlib.AbstractContextManager[object],
    ) -> T:
        """Return the result of a function that reads the index.

        If a write changes the index in the meantime, the function restarts. The last attempt takes
        the write lock.

        Raises:
            CorruptStoreError: If the docstore lacks a node, or the vector store lacks vectors.
        """
        for attempt in range(_ANSWER_RETRIES + 1):
            with write_lock if attempt == _ANSWER_RETRIES else contextlib.nullcontext():
                snapshot = self.snapshot()
                reader = DocstoreReader(self.context.docstore, self.struct, snapshot.nodes)
                try:
                    return work(snapshot, reader)
                except (StaleSnapshotError, CorruptStoreError) as error:
                    if snapshot.generation != self.struct.generation:
                        continue
                    if isinstance(error, CorruptStoreError):
                        raise
                    raise CorruptStoreError(
                        f"{self.where}: {error}: pass the docstore that the index was built with, "
                        "or build the index again"
                    ) from error
        raise CorruptStoreError(f"{self.where} changed during every attempt to read it: try again")

    def read_scope(
        self,
        scope: Scope,
        work: Callable[[Snapshot, ScopedNodes, DocstoreReader], T],
        write_lock: contextlib.AbstractContextManager[object],
    ) -> T:
        """Return the result of a function that reads a part of the index; see `read`.

        Args:
            scope: The part.
            work: Called with the snapshot of the part, its nodes, and the reader that keeps the
                LlamaIndex nodes.
            write_lock: The lock of writers.

        Raises:
            CorruptStoreError: As in `read`; the message does not name a node.
        """
        docstore = self.context.docstore

        def read(whole: Snapshot, reader: DocstoreReader) -> T:
            snapshot = self._scopes.get(scope, whole, lambda part: build_bm25_of(part, docstore))
            return work(snapshot, ScopedNodes(reader, whole.generation, snapshot), reader)

        return shielded(lambda: self.read(read, write_lock), self.where)

    def tree_nodes(self, record: DocumentRecord) -> list[Node]:
        """Return the nodes of a document's tree, with their texts from the docstore.

        Raises:
            CorruptStoreError: If the docstore lacks a node.
        """
        found = self.nodes.get(record)
        missing = [node.id for node in record.nodes if node.id not in found]
        if missing:
            raise CorruptStoreError(
                f"{self.where}: node {missing[0]} is not in the docstore: pass the docstore that "
                "the index was built with"
            )
        return [
            replace(node, text=node_text(found[node.id])) for node in with_child_ids(record.nodes)
        ]

    def read_vectors(self, record: DocumentRecord) -> FloatArray | None:
        """Return the vectors of a record's windows, or None if the store cannot return them."""
        if not record.windows:
            return np.empty((0, 0), dtype=np.float32)
        return self.vectors.read([w.vector_id for w in record.windows])

    def check(self) -> None:
        """Check that the stores belong together.

        Raises:
            CorruptStoreError: If they were saved at different times, or belong to other indexes.
        """
        with self.lock:
            if not self.struct.payloads:
                return
            digest = self.nodes.struct_digest(self.struct.index_id)
            if digest and self.struct.digest and digest != self.struct.digest:
                raise CorruptStoreError(
                    f"{self.where}: the docstore and the index store were saved at different times,"
                    f" because a persist was interrupted or files were copied. {_REPAIR}"
                )
            try:
                self.vectors.check(self._readable_records())
            except CorruptStoreError as error:
                raise CorruptStoreError(
                    f"{self.where}: the vector store and the index store do not belong together: "
                    f"{error}. {_REPAIR}"
                ) from error

    def _readable_records(self) -> list[DocumentRecord]:
        """Return all records except damaged ones, which are reported when they are used."""
        records = []
        for document_id in sorted(self.struct.payloads):
            with contextlib.suppress(CorruptStoreError):
                records.append(self.struct.record(document_id))
        return records

    # Write

    @_changes_the_index
    def prepare_write(self) -> None:
        """Load changes made through other handles to the index, and finish earlier removals.

        Raises:
            StoreError: If a store failed.
        """
        stored = self.context.index_store.get_index_struct(self.struct.index_id)
        if isinstance(stored, E2GraphRAGIndexStruct) and _state(stored) != self._saved:
            self.struct.copy_from(stored)
            self._saved = _state(stored)
        elif self._saved != _state(self.struct):
            self._save_struct()  # an earlier write failed to save it
        self._remove_leftovers()

    def _save_struct(self) -> None:
        self.struct.update_digest()
        try:
            self.context.index_store.add_index_struct(self.struct)
        except Exception as error:  # index stores raise errors of many classes
            message = redact_error(error, self.context.index_store)
            raise StoreError(
                f"{self.where} has changed, but the index store failed to save it "
                f"({type(error).__name__}: {message}): fix the index store; the next write saves it"
            ) from error
        self.nodes.set_struct_digest(self.struct.index_id, self.struct.digest)
        self._saved = _state(self.struct)

    @_changes_the_index
    def put(
        self,
        documents: Sequence[IndexedDocument],
        made_with: Mapping[str, str],
        tree_per: str,
        *,
        removed: Sequence[str] = (),
        from_docstore: bool = True,
    ) -> None:
        """Store trees, replacing earlier versions.

        Args:
            documents: The trees.
            made_with: Settings and model fingerprints of the index.
            tree_per: Name of the rule that decides which documents share a tree.
            removed: Ids of stored trees to remove in the same write.
            from_docstore: Whether to delete the old nodes from the docstore.

        Raises:
            StoreError: If a store failed. Until the struct is saved, nothing has changed.
        """
        records = [document.record for document in documents]
        replaced = [record.id for record in records if record.id in self.struct.payloads]
        old = [self.struct.record(id_) for id_ in (*replaced, *removed)]
        old_vector_ids = {w.key: w.vector_id for record in old for w in record.windows}
        new_vectors = [v for d in documents for v in d.vectors if v.node_id not in old_vector_ids]
        added = self.vectors.add(new_vectors) if new_vectors else []
        new_vector_ids = dict(zip((v.node_id for v in new_vectors), added, strict=True))
        try:
            self.nodes.put(documents, old)
        except StoreError:
            live = [w.vector_id for record in self.struct.records() for w in record.windows]
            with contextlib.suppress(StoreError):  # report the first error only
                self.vectors.remove(added, live)
            raise
        records = [
            self._with_checksum(r.with_vector_ids(old_vector_ids | new_vector_ids)) for r in records
        ]
        self.struct.made_with = dict(made_with)
        self.struct.tree_per = tree_per
        self.struct.remove_records(removed)
        self.struct.put_records(records)
        self._add_leftovers(old, records, nodes=from_docstore)
        self.struct.leftovers.setdefault("documents", []).extend(
            id_ for record in old if from_docstore for id_ in (record.id, *record.documents)
        )
        self._save_struct()
        with self._removal_errors():
            for document in documents if old else ():
                self.nodes.replace_ref_doc_metadata(document.nodes)
        self._remove_leftovers()

    @_changes_the_index
    def put_mentions(self, records: Sequence[DocumentRecord], made_with: Mapping[str, str]) -> None:
        """Replace the records of all documents by records with other mentions.

        Raises:
            StoreError: If the index store failed; the next write saves the records.
        """
        self.struct.made_with = dict(made_with)
        self.struct.put_records(records)
        self._save_struct()

    @_changes_the_index
    def put_edits(self, edits: EntityEdits) -> None:
        """Replace the entity edits.

        Raises:
            StoreError: If the index store failed; the next write saves the edits.
        """
        self.struct.edits = edits
        self.struct.start_generation()
        self._save_struct()

    @_changes_the_index
    def put_tags(self, tag_set: TagSet) -> None:
        """Replace the tags that chunks can have.

        Raises:
            StoreError: If the index store failed; the next write saves them.
        """
        self.struct.put_tags(tag_set)
        self._save_struct()

    @_changes_the_index
    def delete_documents(self, document_ids: Iterable[str], *, from_docstore: bool) -> None:
        """Delete documents from the index.

        Args:
            document_ids: Ids of documents in the index.
            from_docstore: Delete their nodes from the docstore, unless another index in the same
                stores uses them.

        Raises:
            StoreError: If a store failed; the next write removes the rest.
        """
        records = [self.struct.record(document_id) for document_id in document_ids]
        self.struct.remove_records(record.id for record in records)
        if not self.struct.payloads:
            # An empty index accepts other settings and models.
            self.struct.made_with = {}
            self.struct.tree_per = ""
        others = self._other_structs() if from_docstore else []
        for record in records:
            only_here = not any(record.id in other.payloads for other in others)
            self._add_leftovers([record], [], nodes=from_docstore and only_here)
            if from_docstore and only_here:
                ids = (record.id, *record.documents)
                self.struct.leftovers.setdefault("documents", []).extend(ids)
        self._save_struct()
        self._remove_leftovers()

    @_changes_the_index
    def delete_nodes(self, node_ids: frozenset[str], *, from_docstore: bool) -> None:
        """Delete nodes and the summaries above them; unknown ids are ignored.

        Args:
            node_ids: Ids of chunks and summaries.
            from_docstore: Delete the nodes from the docstore.

        Raises:
            StoreError: If a store failed; the next write removes the rest.
        """
        emptied: list[str] = []
        for document_id in sorted(self.struct.payloads):
            # Decode each record only now: a removal can change the vector ids of other documents.
            record = self.struct.record(document_id)
            deleted = node_ids & {node.id for node in record.nodes}
            if not deleted:
                continue
            rest = self._with_checksum(record.without_nodes(deleted))
            if not rest.leaves:
                emptied.append(record.id)
                continue
            self.struct.put_records([rest])
            self._add_leftovers([record], [rest], nodes=from_docstore)
            if record.pages and from_docstore:
                self.struct.leftovers.setdefault("documents", []).extend(record.documents)
            self._save_struct()
            with self._removal_errors():
                self.nodes.relink(rest)
            self._remove_leftovers()
        if emptied:
            self.delete_documents(emptied, from_docstore=from_docstore)

    def _with_checksum(self, record: DocumentRecord) -> DocumentRecord:
        """Return the record with the checksum of its vectors, if the store needs one."""
        checksum = self.vectors.checksum([w.vector_id for w in record.windows])
        return replace(record, vector_checksum=checksum)

    def _add_leftovers(
        self, old: Sequence[DocumentRecord], new: Sequence[DocumentRecord], *, nodes: bool = True
    ) -> None:
        """Schedule the removal of the vectors and nodes that only the old records use."""
        keys = {w.key for record in new for w in record.windows}
        ids = {node.id for record in new for node in record.nodes}
        vector_ids = [w.vector_id for r in old for w in r.windows if w.key not in keys]
        node_ids = [node.id for r in old for node in r.nodes if nodes and node.id not in ids]
        self.struct.leftovers.setdefault("vectors", []).extend(vector_ids)
        self.struct.leftovers.setdefault("nodes", []).extend(node_ids)

    def _remove_leftovers(self) -> None:
        """Remove the nodes and vectors that the struct no longer uses from the stores."""
        leftovers = {kind: list(dict.fromkeys(ids)) for kind, ids in self.struct.leftovers.items()}
        if not any(leftovers.values()):
            return
        records = list(self.struct.records())
        used_ids = {node.id for record in records for node in record.nodes}
        with self._removal_errors():
            self.nodes.delete(id_ for id_ in leftovers.get("nodes", ()) if id_ not in used_ids)
            for document_id in leftovers.get("documents", ()):
                tree = self.struct.tree_of(document_id)
                if tree is None:
                    self.nodes.delete_hash(document_id)
                else:  # the docstore deletes the hash with the last node of a document
                    self.nodes.set_hash(
                        document_id, self.struct.record(tree).documents[document_id]
                    )
            self._remove_vectors(records, leftovers.get("vectors", []))
        self.struct.leftovers = {}
        self._save_struct()

    def _remove_vectors(self, records: Sequence[DocumentRecord], ids: Sequence[str]) -> None:
        if not ids:
            return
        live = [w.vector_id for record in records for w in record.windows]
        # Equal texts share one vector and its id across all indexes in the same stores.
        others = [record for other in self._other_structs() for record in other.records()]
        used = {w.vector_id for record in [*records, *others] for w in record.windows}
        unused = [id_ for id_ in ids if id_ not in used]
        if not unused:
            return
        with self._snapshot_lock:  # vector ids change in the store and in the struct together
            self.struct.start_generation()
            moved = self.vectors.remove(unused, live)
            changed = [r for r in records if any(w.vector_id in moved for w in r.windows)]
            self.struct.put_records(
                r.with_vector_ids(
                    {w.key: moved[w.vector_id] for w in r.windows if w.vector_id in moved}
                )
                for r in changed
            )

    def _other_structs(self) -> list[E2GraphRAGIndexStruct]:
        """Return the structs of other E2GraphRAG indexes in the same index store."""
        own_id = self.struct.index_id
        structs = self.context.index_store.index_structs()
        return [s for s in structs if isinstance(s, E2GraphRAGIndexStruct) and s.index_id != own_id]

    @contextlib.contextmanager
    def _removal_errors(self) -> Iterator[None]:
        """Convert errors that occur after the struct has changed to StoreError."""
        try:
            yield
        except Exception as error:  # stores raise errors of many classes
            message = redact_error(error, self.context)
            raise StoreError(
                f"{self.where} has changed, but a store failed to remove old entries "
                f"({type(error).__name__}: {message}): fix the store; the next write removes them"
            ) from error


def _state(struct: E2GraphRAGIndexStruct) -> tuple[object, ...]:
    """Return a copy of everything in a struct that a write can change."""
    return dict(struct.payloads), dict(struct.made_with), struct.edits, struct.tag_set
