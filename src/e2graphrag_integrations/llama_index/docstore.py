# ruff: noqa: ARG002 - the base class passes arguments to methods that refuse
"""The nodes of an open index as a docstore of LlamaIndex, which can only be read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn

from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.storage.docstore.utils import doc_to_json
from llama_index.core.storage.kvstore.types import DEFAULT_COLLECTION, BaseKVStore

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.hits import node_of
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource, hydrate
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_NODES, _DOCUMENTS = "/data", "/ref_doc_info"
"""Ends of the names of the collections in which `KVDocumentStore` looks for nodes and documents."""


class ReaderDocstore(KVDocumentStore):
    """The complete nodes of an index, always in their newest state; it holds no documents.

    Everything that would write raises `InvalidInputError`. The hashes of documents are not known.
    """

    def __init__(self, reader: IndexReader) -> None:
        super().__init__(_Nodes(reader))


class _Nodes(BaseKVStore):
    """The key-value store below the docstore."""

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """Return a node by id, or what is known of the document with an id."""
        if collection.endswith(_NODES):
            return next((doc_to_json(node) for node in self._read([key])), None)
        return self.get_all(collection).get(key)

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Return all nodes or documents, by id."""
        if collection.endswith(_NODES):
            return {node.node_id: doc_to_json(node) for node in self._read(None)}
        documents: dict[str, RefDocInfo] = {}
        for node in self._read(None) if collection.endswith(_DOCUMENTS) else ():
            name = node.ref_doc_id or node.node_id
            own = documents.setdefault(name, RefDocInfo(metadata=node.metadata))
            own.node_ids.append(node.node_id)
        return {name: own.to_dict() for name, own in documents.items()}

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """Run `get` in a thread."""
        return await asyncio.to_thread(self.get, key, collection)

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Run `get_all` in a thread."""
        return await asyncio.to_thread(self.get_all, collection)

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Refuse to write."""
        self._refuse()

    async def aput(
        self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION
    ) -> None:
        """Refuse to write."""
        self._refuse()

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Refuse to write."""
        self._refuse()

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Refuse to write."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidInputError(
            f"the docstore of {self._reader!r} can only be read: write to the index itself, for "
            "example with E2GraphRAG.add"
        )

    def _read(self, ids: Sequence[str] | None) -> list[BaseNode]:
        """Return nodes by id, without unknown ones; None returns all."""

        def read(snapshot: Snapshot, source: NodeSource) -> list[BaseNode]:
            known = snapshot.nodes.row_of
            rows = known.values() if ids is None else [known[id_] for id_ in ids if id_ in known]
            candidates = [Candidate(row, 0.0, "", ()) for row in rows]
            return list(map(node_of, hydrate(candidates, (), NodeReader(snapshot, source, {}))))

        return self._reader.read_snapshot(read)
