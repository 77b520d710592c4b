"""`DocstoreAdapter`: the nodes of an index in a LlamaIndex docstore."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from llama_index.core.schema import BaseNode, NodeRelationship
from llama_index.core.storage.docstore import BaseDocumentStore, SimpleDocumentStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.docstore.types import RefDocInfo

from e2graphrag_integrations._utils.redaction import redact_error
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.llama_index.storage.nodes import link_levels, set_position
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, IndexedDocument
from e2graphrag_integrations.tree import with_child_ids

_DIGESTS = "e2graphrag/structs"
"""Collection of an in-memory docstore that notes, for each index id, the digest of its struct."""


class DocstoreAdapter:
    """Reads, adds and deletes the nodes of an index."""

    def __init__(self, docstore: BaseDocumentStore) -> None:
        self._docstore = docstore

    def get(self, record: DocumentRecord) -> dict[str, BaseNode]:
        """Return the nodes of a document that are in the docstore, by id, in tree order."""
        ids = [node.id for node in record.nodes]
        return {n.node_id: n for n in self._docstore.get_nodes(ids, raise_error=False)}

    def put(self, documents: Sequence[IndexedDocument], old: Sequence[DocumentRecord]) -> None:
        """Add the nodes of documents, or restore the old versions if the docstore fails.

        Raises:
            StoreError: If the docstore failed.
        """
        new_ids = {node.id for d in documents for node in d.record.nodes}
        old_ids = [node.id for record in old for node in record.nodes]
        shared_ids = [id_ for id_ in old_ids if id_ in new_ids]
        overwritten: list[BaseNode] = []
        try:
            overwritten = self._docstore.get_nodes(shared_ids, raise_error=False)
            new = [node for d in documents for node in d.nodes]
            self._docstore.add_documents(new)
            self._forget_sources(overwritten, new)
            self._set_hashes(document.record for document in documents)
        except Exception as error:  # docstores raise errors of many classes
            with contextlib.suppress(Exception):  # report the first error only
                self.delete(new_ids.difference(old_ids))
                self._docstore.add_documents(overwritten)
                for document in documents:
                    for document_id in document.record.documents:
                        self.delete_hash(document_id)
                self._set_hashes(old)
            message = redact_error(error, self._docstore)
            raise StoreError(
                f"{type(self._docstore).__name__} failed to add nodes ({type(error).__name__}: "
                f"{message}); nothing was indexed"
            ) from error

    def relink(self, record: DocumentRecord) -> None:
        """Update the links between a document's nodes after a deletion."""
        found = self.get(record)
        nodes = [node for node in with_child_ids(record.nodes) if node.id in found]
        text_nodes = [found[node.id] for node in nodes]
        for text_node, node in zip(text_nodes, nodes, strict=True):
            text_node.relationships.pop(NodeRelationship.PREVIOUS, None)
            text_node.relationships.pop(NodeRelationship.NEXT, None)
            set_position(text_node, node)
        link_levels(text_nodes, nodes)
        self._docstore.add_documents(text_nodes)
        self.replace_ref_doc_metadata(text_nodes)

    def replace_ref_doc_metadata(self, nodes: Iterable[BaseNode]) -> None:
        """Replace the ref_doc_info metadata of the nodes' sources.

        LlamaIndex would keep the metadata of the first version.
        """
        for source, own in _by_source(nodes).items():
            info = self._docstore.get_ref_doc_info(source)
            if info is not None:
                info.metadata = {key: value for n in own for key, value in n.metadata.items()}
                self._put_ref_doc_info(source, info)

    def _forget_sources(self, old: Iterable[BaseNode], new: Iterable[BaseNode]) -> None:
        """Remove overwritten nodes from the ref_doc_info of sources that they no longer have."""
        sources = {node.node_id: node.ref_doc_id for node in new}
        moved = [node for node in old if node.ref_doc_id != sources[node.node_id]]
        for source, own in _by_source(moved).items():
            info = self._docstore.get_ref_doc_info(source)
            if info is not None:
                gone = {node.node_id for node in own}
                info.node_ids = [id_ for id_ in info.node_ids if id_ not in gone]
                self._put_ref_doc_info(source, info)

    def _put_ref_doc_info(self, document_id: str, info: RefDocInfo) -> None:
        store = self._docstore
        if not isinstance(store, KVDocumentStore):
            return
        # The public interface cannot change this collection.
        kvstore, collection = store._kvstore, store._ref_doc_collection  # noqa: SLF001
        if info.node_ids:
            kvstore.put(document_id, info.to_dict(), collection=collection)
        else:
            kvstore.delete(document_id, collection=collection)

    def _set_hashes(self, records: Iterable[DocumentRecord]) -> None:
        for record in records:
            for document_id, hash_ in record.documents.items():
                self.set_hash(document_id, hash_)

    def set_hash(self, document_id: str, hash_: str) -> None:
        """Store the hash of a document, if it has one."""
        if hash_:
            self._docstore.set_document_hash(document_id, hash_)

    def struct_digest(self, index_id: str) -> str | None:
        """Return the digest of the struct that a docstore from a file belongs to, if known."""
        if not isinstance(self._docstore, SimpleDocumentStore):
            return None  # a database is never saved at another time than it changes
        found = self._docstore._kvstore.get(index_id, collection=_DIGESTS)  # noqa: SLF001 - not public
        return found.get("digest") if isinstance(found, dict) else None

    def set_struct_digest(self, index_id: str, digest: str) -> None:
        """Note in a docstore that is saved to a file which struct it belongs to."""
        if isinstance(self._docstore, SimpleDocumentStore):
            kvstore = self._docstore._kvstore  # noqa: SLF001 - the interface stores only nodes
            kvstore.put(index_id, {"digest": digest}, collection=_DIGESTS)

    def delete(self, node_ids: Iterable[str]) -> None:
        """Delete nodes; unknown ids are ignored."""
        for node_id in node_ids:
            self._docstore.delete_document(node_id, raise_error=False)

    def delete_hash(self, document_id: str) -> None:
        """Delete a document's hash, which is stored separately, unless it still has nodes."""
        if self._docstore.get_ref_doc_info(document_id) is None:
            self._docstore.delete_document(document_id, raise_error=False)


def _by_source(nodes: Iterable[BaseNode]) -> dict[str, list[BaseNode]]:
    groups: dict[str, list[BaseNode]] = {}
    for node in nodes:
        if node.ref_doc_id is not None:
            groups.setdefault(node.ref_doc_id, []).append(node)
    return groups
