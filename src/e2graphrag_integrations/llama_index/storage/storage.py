"""What an index keeps in its `StorageContext`: written and deleted in an order that loses nothing.

Vectors first, which a store may refuse, then texts, then the struct that makes both count, and last
the removal of what the struct no longer names.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from llama_index.core.schema import BaseNode, NodeRelationship
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import CorruptStoreError, StoreError
from e2graphrag_integrations.llama_index.indexing.builder import Built
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.nodes import link_levels, set_place
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord
from e2graphrag_integrations.llama_index.storage.snapshot import DocstoreNodes, build_snapshot
from e2graphrag_integrations.llama_index.storage.vector_stores import Vectors, vectors_of
from e2graphrag_integrations.retrieval.pipeline import Request, answer
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.records import NodeGoneError
from e2graphrag_integrations.tree import with_child_ids

_ATTEMPTS = 5
"""How often an answer starts over because a writer changed the index under it."""


class IndexStorage:
    """One index struct with the docstore and the vector store that it names things in.

    Args:
        struct: Of the index; changed in place.
        context: Holds the stores.
    """

    def __init__(self, struct: E2GraphRAGIndexStruct, context: StorageContext) -> None:
        self.struct = struct
        self.context = context
        self.vectors: Vectors = vectors_of(context.vector_store)
        self._docstore = context.docstore
        self._refreshing = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._saved = dict(struct.payloads)

    @property
    def where(self) -> str:
        """How messages call the index."""
        return f"index {self.struct.index_id}"

    # Reading

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the present state."""
        held = self._snapshot
        if held is not None and held.generation == self.struct.generation:
            return held
        with self._refreshing:
            if self._snapshot is None or self._snapshot.generation != self.struct.generation:
                self._snapshot = build_snapshot(self.struct, self.vectors, self._docstore)
            return self._snapshot

    def answer(
        self,
        request: Request,
        components: Components,
        writing: contextlib.AbstractContextManager[object],
    ) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        """Return the result of a request, and its nodes as the docstore has them.

        Args:
            request: Of the user.
            components: The models.
            writing: The writers' lock: taken when one write after the other came between.

        Raises:
            CorruptStoreError: If a node of the index is not in the docstore, or its vectors are
                not in the vector store.
        """
        for attempt in range(_ATTEMPTS + 1):
            with writing if attempt == _ATTEMPTS else contextlib.nullcontext():
                snapshot = self.snapshot()
                source = DocstoreNodes(self._docstore, self.struct)
                try:
                    return answer(request, snapshot, source, components), source.found
                except (NodeGoneError, CorruptStoreError) as error:
                    if snapshot.generation != self.struct.generation:
                        continue
                    if isinstance(error, CorruptStoreError):
                        raise
                    raise CorruptStoreError(
                        f"{self.where}: {error}: pass the docstore that the index was made with, "
                        "or build it again"
                    ) from error
        raise CorruptStoreError(f"{self.where}: another handle keeps changing it: try again")

    def docstore_nodes(self, record: DocumentRecord) -> dict[str, BaseNode]:
        """Return the nodes of a document that are in the docstore, by id, in the tree's order."""
        ids = [node.id for node in record.nodes]
        return {n.node_id: n for n in self._docstore.get_nodes(ids, raise_error=False)}

    # Writing

    def begin(self) -> None:
        """Take over what another handle of this index has stored, and remove what is owed.

        Raises:
            StoreError: If a store failed to remove it.
        """
        there = self.context.index_store.get_index_struct(self.struct.index_id)
        if isinstance(there, E2GraphRAGIndexStruct) and there.payloads != self._saved:
            self.struct.take_over(there)
            self._saved = dict(there.payloads)
        elif self._saved != self.struct.payloads:
            self.save()  # what failed to be stored when it was written
        self.sweep()

    def save(self) -> None:
        """Put the struct into the index store.

        Raises:
            StoreError: If it fails; the next write tries again.
        """
        try:
            self.context.index_store.add_index_struct(self.struct)
        except Exception as error:
            raise StoreError(
                f"{self.where} is changed, but the index store did not take it "
                f"({type(error).__name__}: {error}): see to it; the next write stores it"
            ) from error
        self._saved = dict(self.struct.payloads)

    def put(self, built: Sequence[Built], made_with: Mapping[str, str], *, save: bool) -> None:
        """Store documents, in the place of older versions that may be there.

        Raises:
            StoreError: If a store failed; before the struct is written, nothing has changed.
        """
        old = [
            self.struct.record(b.record.id) for b in built if b.record.id in self.struct.payloads
        ]
        new = {node.id for b in built for node in b.record.nodes}
        shared = [node.id for record in old for node in record.nodes if node.id in new]
        before = self._docstore.get_nodes(shared, raise_error=False)
        stored = {w.key: w.stored for record in old for w in record.windows}
        fresh = [entry for b in built for entry in b.vectors if entry.node_id not in stored]
        added = dict(
            zip((entry.node_id for entry in fresh), self.vectors.add(fresh), strict=True)
            if fresh
            else ()
        )
        try:
            self._docstore.add_documents([node for b in built for node in b.nodes])
            for b in built:
                if b.record.hash:
                    self._docstore.set_document_hash(b.record.id, b.record.hash)
        except Exception as error:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self.vectors.remove(list(added.values()), self._live())
            with contextlib.suppress(Exception):
                self._take_back([b.record for b in built], old, before)
            raise StoreError(
                f"{type(self._docstore).__name__} did not take the nodes ({type(error).__name__}: "
                f"{error}); nothing was indexed"
            ) from error
        records = [b.record.stored_as(stored | added) for b in built]
        self.struct.made_with = dict(made_with)
        self.struct.put(records)
        keys = {w.key for record in records for w in record.windows}
        self.struct.owe("vectors", (id_ for key, id_ in stored.items() if key not in keys))
        gone = [n.id for record in old for n in record.nodes if n.id not in new]
        self.struct.owe("nodes", gone)
        if save:
            self.save()
        replaced = {record.id for record in old}
        with self._told():
            for b in built:
                if b.record.id in replaced:
                    self._renew_metadata(b.record.id, b.nodes)
        self.sweep(save=save)

    def delete(self, document_ids: Iterable[str], *, from_docstore: bool) -> None:
        """Delete documents that are there."""
        records = [self.struct.record(document_id) for document_id in document_ids]
        self.struct.drop(record.id for record in records)
        if not self.struct.payloads:
            self.struct.made_with = {}  # an index that was emptied is a new one
        self.struct.owe("vectors", (w.stored for record in records for w in record.windows))
        for record in self._nobody_elses(records) if from_docstore else ():
            self.struct.owe("nodes", (node.id for node in record.nodes))
            self.struct.owe("documents", [record.id])
        self.save()
        self.sweep()

    def delete_nodes(self, node_ids: frozenset[str], *, from_docstore: bool) -> None:
        """Delete nodes, and the summaries that were made of them."""
        gone: list[str] = []
        for document_id in sorted(self.struct.payloads):
            # Read one by one: what was removed for one document may move the vectors of the next.
            record = self.struct.record(document_id)
            mine = node_ids & {node.id for node in record.nodes}
            if not mine:
                continue
            rest = record.without(mine)
            if not rest.leaves:
                gone.append(record.id)
                continue
            there = {node.id for node in rest.nodes}
            dead = [w.stored for w in record.windows if record.nodes[w.node].id not in there]
            self.struct.put([rest])
            self.struct.owe("vectors", dead)
            if from_docstore:
                self.struct.owe("nodes", (n.id for n in record.nodes if n.id not in there))
            self.save()
            with self._told():
                self._relink(rest)
            self.sweep()
        if gone:
            self.delete(gone, from_docstore=from_docstore)

    def _nobody_elses(self, records: Sequence[DocumentRecord]) -> list[DocumentRecord]:
        """Return documents without those that another index of the same stores has too."""
        others = self._others()
        return [r for r in records if not any(r.id in other.payloads for other in others)]

    def _others(self) -> list[E2GraphRAGIndexStruct]:
        own = self.struct.index_id
        structs = self.context.index_store.index_structs()
        return [s for s in structs if isinstance(s, E2GraphRAGIndexStruct) and s.index_id != own]

    def _relink(self, record: DocumentRecord) -> None:
        """Mend the links of a document's nodes after some of them have gone."""
        found = self.docstore_nodes(record)
        places = [node for node in with_child_ids(record.nodes) if node.id in found]
        nodes = [found[place.id] for place in places]
        for node, place in zip(nodes, places, strict=True):
            node.relationships.pop(NodeRelationship.PREVIOUS, None)
            node.relationships.pop(NodeRelationship.NEXT, None)
            set_place(node, place)
        link_levels(nodes, places)
        self._docstore.add_documents(nodes)
        self._renew_metadata(record.id, nodes)

    def _renew_metadata(self, document_id: str, nodes: Sequence[BaseNode]) -> None:
        """Replace the metadata of a document: LlamaIndex keeps those of its first version."""
        store = self._docstore
        info = store.get_ref_doc_info(document_id)
        if info is None or not isinstance(store, KVDocumentStore):
            return
        info.metadata = {key: value for node in nodes for key, value in node.metadata.items()}
        # The interface has no way to change them.
        kept, collection = store._kvstore, store._ref_doc_collection  # noqa: SLF001
        kept.put(document_id, info.to_dict(), collection=collection)

    def _take_back(
        self,
        records: Sequence[DocumentRecord],
        old: Sequence[DocumentRecord],
        before: Sequence[BaseNode],
    ) -> None:
        """Undo what the docstore has taken of documents, of which it had old versions."""
        known = {node.id for record in old for node in record.nodes}
        self._forget_nodes(n.id for record in records for n in record.nodes if n.id not in known)
        self._docstore.add_documents(before)
        for record in records:
            self._forget_hash(record.id)
        for record in old:
            if record.hash:
                self._docstore.set_document_hash(record.id, record.hash)

    def _forget_nodes(self, node_ids: Iterable[str]) -> None:
        for node_id in list(node_ids):
            self._docstore.delete_document(node_id, raise_error=False)

    def _forget_hash(self, document_id: str) -> None:
        """Forget a document's hash, which is kept apart, unless somebody has nodes of it."""
        if self._docstore.get_ref_doc_info(document_id) is None:
            self._docstore.delete_document(document_id, raise_error=False)

    def _live(self) -> list[str]:
        return [w.stored for record in self.struct.records() for w in record.windows]

    def sweep(self, *, save: bool = True) -> None:
        """Remove from the stores what is no longer the index's.

        Raises:
            StoreError: If a store failed; what is left is removed with the next write.
        """
        owed = {kind: list(dict.fromkeys(ids)) for kind, ids in self.struct.leftovers.items()}
        if not any(owed.values()):
            return
        records = list(self.struct.records())
        nodes = {node.id for record in records for node in record.nodes}
        with self._told():
            self._forget_nodes(id_ for id_ in owed.get("nodes", ()) if id_ not in nodes)
            for document_id in owed.get("documents", ()):
                if document_id not in self.struct.payloads:
                    self._forget_hash(document_id)
            self._remove_vectors(records, owed.get("vectors", []))
        self.struct.leftovers = {}
        if save:
            self.save()

    def _remove_vectors(self, records: Sequence[DocumentRecord], ids: Sequence[str]) -> None:
        if not ids:
            return
        live = [w.stored for record in records for w in record.windows]
        # The same text has the same vector, and the same id, in all indexes of the same stores.
        kept = {w.stored for other in self._others() for r in other.records() for w in r.windows}
        kept.update(live)
        dead = [id_ for id_ in ids if id_ not in kept]
        if not dead:
            return
        with self._refreshing:  # ids that move and the struct that names them change together
            self.struct.advance()
            moved = self.vectors.remove(dead, live)
            changed = []
            for record in records if moved else ():
                keys = {w.key: moved[w.stored] for w in record.windows if w.stored in moved}
                if keys:
                    changed.append(record.stored_as(keys))
            self.struct.put(changed)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say what a store that fails after the index has changed means."""
        try:
            yield
        except Exception as error:
            raise StoreError(
                f"{self.where} is changed, but a store failed to remove what is old "
                f"({type(error).__name__}: {error}): see to the store; the next write removes it"
            ) from error
