"""The nodes of an open index as a docstore of LlamaIndex, which the index itself writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, cast

import fsspec
from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore import BaseDocumentStore, SimpleDocumentStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.docstore.types import DEFAULT_PERSIST_PATH, RefDocInfo
from llama_index.core.storage.docstore.utils import doc_to_json
from llama_index.core.storage.kvstore.types import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_COLLECTION,
    BaseKVStore,
)

from e2graphrag_integrations._utils.validation import type_name
from e2graphrag_integrations.errors import ClosedError, InvalidInputError
from e2graphrag_integrations.llama_index.hits import NodeIds, node_of
from e2graphrag_integrations.pages import NODE_FIELDS, PAGE_ID, copied, user_metadata
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource, hydrate
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_LAYOUT = (
    "batch_size",
    "node_collection_suffix",
    "ref_doc_collection_suffix",
    "metadata_collection_suffix",
)
"""Arguments of a `KVDocumentStore` that say where and how it writes."""


class ReaderDocstore(SimpleDocumentStore):
    """The complete nodes of an index, always in their newest state; it holds no documents.

    The nodes of the index can only be read here. Other indexes of a `StorageContext` keep their
    nodes in the docstore below, which everything else goes to.

    Args:
        reader: The index.
        below: The docstore of the other indexes, if there are any.
        index_id: Id of the index in its index store, if it is in one.

    Raises:
        InvalidInputError: If the docstore below is of a class that this package does not know.
    """

    def __init__(
        self, reader: IndexReader, below: BaseDocumentStore | None = None, index_id: str = ""
    ) -> None:
        if not isinstance(below, KVDocumentStore | None):
            raise InvalidInputError(
                f"docstore is a {type_name(below)}: the index keeps its texts itself, so leave the "
                "docstore out, or pass one that is a KVDocumentStore"
            )
        self.below: KVDocumentStore | None = below
        self.index_id = index_id
        self.reader = reader
        inner = None if below is None else below._kvstore  # noqa: SLF001 - has no public name
        namespace = None if below is None else below._namespace  # noqa: SLF001 - as above
        layout = {} if below is None else {name: getattr(below, f"_{name}") for name in _LAYOUT}
        self._nodes = nodes = _Nodes(reader, inner)
        # The class above would create a store of its own.
        KVDocumentStore.__init__(self, nodes, namespace, **layout)
        nodes.of_nodes, nodes.of_documents = self._node_collection, self._ref_doc_collection

    def to_dict(self) -> dict[str, Any]:
        """Return the docstore below, for `StorageContext.to_dict`.

        Raises:
            ValueError: If LlamaIndex cannot return it, either.
        """
        if self.below is None:
            return {}
        if not isinstance(self.below, SimpleDocumentStore):
            raise ValueError(f"{type_name(self.below)} has no to_dict(): call persist()")  # noqa: TRY004 - as the base class
        return self.below.to_dict()

    @staticmethod
    def without(docstore: BaseDocumentStore, index_id: str) -> BaseDocumentStore:
        """Return a docstore that no longer shows an index, which was opened there before."""
        if not isinstance(docstore, ReaderDocstore) or docstore.below is None:
            return docstore
        rest = ReaderDocstore.without(docstore.below, index_id)
        if docstore.index_id == index_id:
            return rest
        return ReaderDocstore(docstore.reader, rest, docstore.index_id)

    # The class above would merge what is known of a document in this index and in the others.

    def add_documents(
        self,
        docs: Sequence[BaseNode],
        allow_update: bool = True,
        batch_size: int | None = None,
        store_text: bool = True,
    ) -> None:
        """Add nodes of other indexes to the docstore below."""
        below = self._below([one.node_id for one in docs])
        below.add_documents(docs, allow_update, batch_size, store_text)

    async def async_add_documents(
        self,
        docs: Sequence[BaseNode],
        allow_update: bool = True,
        batch_size: int | None = None,
        store_text: bool = True,
    ) -> None:
        """Add nodes of other indexes to the docstore below."""
        below = await asyncio.to_thread(self._below, [one.node_id for one in docs])
        await below.async_add_documents(docs, allow_update, batch_size, store_text)

    def delete_document(self, doc_id: str, raise_error: bool = True) -> None:
        """Delete a node of another index from the docstore below."""
        self._below([doc_id]).delete_document(doc_id, raise_error)

    async def adelete_document(self, doc_id: str, raise_error: bool = True) -> None:
        """Delete a node of another index from the docstore below."""
        below = await asyncio.to_thread(self._below, [doc_id])
        await below.adelete_document(doc_id, raise_error)

    def delete_ref_doc(self, ref_doc_id: str, raise_error: bool = True) -> None:
        """Delete a document of other indexes, and its nodes, from the docstore below."""
        if below := self._below_with(ref_doc_id, raise_error):
            below.delete_ref_doc(ref_doc_id, raise_error)
        else:
            super().delete_ref_doc(ref_doc_id, raise_error)

    async def adelete_ref_doc(self, ref_doc_id: str, raise_error: bool = True) -> None:
        """Delete a document of other indexes, and its nodes, from the docstore below."""
        below = await asyncio.to_thread(self._below_with, ref_doc_id, raise_error)
        if below:
            await below.adelete_ref_doc(ref_doc_id, raise_error)
        else:
            await super().adelete_ref_doc(ref_doc_id, raise_error)

    def _below(self, node_ids: Sequence[str]) -> KVDocumentStore:
        """Return the docstore below, unless one of the ids belongs to the index."""
        self._nodes.writable(node_ids)
        return cast("KVDocumentStore", self.below)

    def _below_with(self, document_id: str, is_needed: bool) -> KVDocumentStore | None:
        """Return the docstore below, unless only the index has a document that is needed."""
        if self.below is not None and (not is_needed or self.below.ref_doc_exists(document_id)):
            return self.below
        own = self._nodes.nodes_of(document_id)
        return self._below(own) if own else self.below

    def persist(
        self,
        persist_path: str = DEFAULT_PERSIST_PATH,
        fs: fsspec.AbstractFileSystem | None = None,
    ) -> None:
        """Persist the docstore below: the index keeps its nodes itself."""
        if self.below is not None:
            self.below.persist(persist_path, fs=fs)


def document_nodes(snapshot: Snapshot) -> dict[str, RefDocInfo]:
    """Return the ids of the nodes with text of each LlamaIndex document, and its metadata."""
    ids, records = NodeIds.of(snapshot), snapshot.records
    documents: dict[str, RefDocInfo] = {}
    for row, id_ in enumerate(snapshot.nodes.ids):
        for one in records.indices[records.starts[row] : records.ends[row]].tolist():
            record = records.values[one]
            for name, metadata in _documents_of(record, records.id_key):
                nodes = documents.setdefault(name, RefDocInfo(metadata=metadata)).node_ids
                shown = ids.show(id_)
                if not nodes or nodes[-1] != shown:
                    nodes.append(shown)
    return documents


def _documents_of(record: Mapping[str, Any], id_key: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the ids and the metadata of the documents that a metadata record stands for."""
    fields = record.get(NODE_FIELDS, {})
    if "parts" in fields:
        return [(str(id_), copied(own)) for id_, _, _, own in fields["parts"]]
    name = fields.get("source") or record.get(PAGE_ID, record[id_key])
    own = {key: value for key, value in record.items() if key != id_key}
    return [(str(name), user_metadata(own))]


class _Nodes(BaseKVStore):
    """The key-value store below the docstore.

    Attributes:
        of_nodes, of_documents: Names of the collections in which the docstore looks for nodes, and
            for what is known of documents.
    """

    of_nodes = of_documents = ""

    def __init__(self, reader: IndexReader, inner: BaseKVStore | None) -> None:
        self._reader = reader
        self._inner = inner

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """Return a node by id, or what is known of the document with an id."""
        own: dict[str, Any] | None = None
        with self._unless_closed():
            if collection == self.of_nodes:
                own = next((doc_to_json(node) for node in self._read([key])), None)
            elif collection == self.of_documents:
                own = copied(self._documents().get(key))
        if self._inner is None:
            return own
        if collection == self.of_documents:  # the other indexes would lose their nodes
            return self._inner.get(key, collection) or own
        return own or self._inner.get(key, collection)

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Return all nodes or documents, by id."""
        found: dict[str, dict[str, Any]] = {}
        if self._inner is not None:
            found = dict(self._inner.get_all(collection))
        with self._unless_closed():
            if collection == self.of_nodes:
                found |= {node.node_id: doc_to_json(node) for node in self._read(None)}
            elif collection == self.of_documents:
                found = copied(self._documents()) | found
        return found

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """Run `get` in a thread."""
        return await asyncio.to_thread(self.get, key, collection)

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Run `get_all` in a thread."""
        return await asyncio.to_thread(self.get_all, collection)

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Write to the store below."""
        self.writable([key]).put(key, val, collection)

    async def aput(
        self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION
    ) -> None:
        """Write to the store below."""
        inner = await asyncio.to_thread(self.writable, [key])
        await inner.aput(key, val, collection)

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Write to the store below."""
        self.writable([key for key, _ in kv_pairs]).put_all(kv_pairs, collection, batch_size)

    async def aput_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Write to the store below."""
        inner = await asyncio.to_thread(self.writable, [key for key, _ in kv_pairs])
        await inner.aput_all(kv_pairs, collection, batch_size)

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Delete from the store below."""
        return self.writable([key]).delete(key, collection)

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Delete from the store below."""
        inner = await asyncio.to_thread(self.writable, [key])
        return await inner.adelete(key, collection)

    def writable(self, ids: Sequence[str]) -> BaseKVStore:
        """Return the store below, unless one of the ids belongs to the index."""
        own: Sequence[BaseNode] = ()
        with self._unless_closed():
            own = self._read(ids)
        if self._inner is None or own:
            raise InvalidInputError(
                f"the docstore of {self._reader!r} can only be read: write to the index itself, "
                "for example with insert() or delete_ref_doc()"
            )
        return self._inner

    def nodes_of(self, document_id: str) -> Sequence[str]:
        """Return the ids of the nodes of a document of the index."""
        known: Mapping[str, dict[str, Any]] = {}
        with self._unless_closed():
            known = self._documents()
        ids: Sequence[str] = known.get(document_id, {}).get("node_ids", ())
        return ids

    def _unless_closed(self) -> AbstractContextManager[None]:
        """Return a block that does nothing for a closed index: others may still use the context."""
        return nullcontext() if self._inner is None else suppress(ClosedError)

    def _documents(self) -> dict[str, dict[str, Any]]:
        return self._reader.read_snapshot(lambda snapshot, _: snapshot.derived(_known_documents))

    def _read(self, ids: Sequence[str] | None) -> list[BaseNode]:
        return read_nodes(self._reader, ids)


def _known_documents(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Return what is known of each document, as LlamaIndex stores it."""
    return {name: one.to_dict() for name, one in document_nodes(snapshot).items()}


def read_nodes(reader: IndexReader, ids: Sequence[str] | None) -> list[BaseNode]:
    """Return the complete nodes of an index.

    Args:
        reader: The index.
        ids: Their ids, of which unknown ones are ignored; None returns all nodes.
    """

    def read(snapshot: Snapshot, source: NodeSource) -> list[BaseNode]:
        names, known = NodeIds.of(snapshot), snapshot.nodes.row_of
        rows = list(known.values())
        if ids is not None:
            stored = [names.stored.get(id_, id_) for id_ in ids]
            rows = [known[id_] for id_ in stored if id_ in known]
        candidates = [Candidate(row, 0.0, "", ()) for row in rows]
        hits = hydrate(candidates, (), NodeReader(snapshot, source))
        return [node_of(hit, names) for hit in hits]

    return reader.read_snapshot(read)
