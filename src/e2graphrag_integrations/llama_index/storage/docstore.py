"""`DocstoreAdapter`: the nodes of an index in a LlamaIndex docstore."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from llama_index.core.schema import BaseNode, NodeRelationship
from llama_index.core.storage.docstore import BaseDocumentStore, SimpleDocumentStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore

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
        overwritten: Sequence[BaseNode] = ()
        try:
            overwritten = self._docstore.get_nodes(shared_ids, raise_error=False)
            self._docstore.add_documents([node for d in documents for node in d.nodes])
            for document in documents:
                if document.record.hash:
                    self._docstore.set_document_hash(document.record.id, document.record.hash)
        except Exception as error:
            with contextlib.suppress(Exception):  # report the first error only
                self.delete(new_ids.difference(old_ids))
                self._docstore.add_documents(overwritten)
                for document in documents:
                    self.delete_hash(document.record.id)
                for record in old:
                    if record.hash:
                        self._docstore.set_document_hash(record.id, record.hash)
            raise StoreError(
                f"{type(self._docstore).__name__} failed to add nodes ({type(error).__name__}: "
                f"{error}); nothing was indexed"
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
        self.replace_ref_doc_metadata(record.id, text_nodes)

    def replace_ref_doc_metadata(self, document_id: str, nodes: Sequence[BaseNode]) -> None:
        """Replace the ref_doc_info metadata: LlamaIndex would keep that of the first version."""
        store = self._docstore
        info = store.get_ref_doc_info(document_id)
        if info is None or not isinstance(store, KVDocumentStore):
            return
        info.metadata = {key: value for node in nodes for key, value in node.metadata.items()}
        # The public interface cannot change this metadata.
        kvstore, collection = store._kvstore, store._ref_doc_collection  # noqa: SLF001
        kvstore.put(document_id, info.to_dict(), collection=collection)

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
