"""Vector stores of every kind, and functions that dump their content."""

from __future__ import annotations

import json
import random
import uuid
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import chromadb
import faiss
import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import MetadataMode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryResult
from llama_index.vector_stores.chroma import ChromaVectorStore
from llama_index.vector_stores.faiss import FaissMapVectorStore
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

from e2graphrag_integrations import HashingEmbedder

ONE_EACH = ("simple", "faiss-map", "qdrant", "chroma-cosine")
KINDS = (*ONE_EACH, "faiss-map-l2", "qdrant-disk", "chroma-l2", "chroma-disk")
MIRRORS = (*KINDS[1:], "plain")
"""The stores that get a copy of the vectors."""

NO_QDRANT_INDEXES = "ignore:Payload indexes have no effect in the local Qdrant"
"""A pytest filter for a warning of the in-process Qdrant."""


class Distinct(HashingEmbedder):
    """The hashing embedder with noise, so that no two texts have the same cosine to a query.

    Stores round differently, which would change the order of ties.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = "fake:distinct"

    def embed(self, texts):
        seeds = [zlib.crc32(text.encode()) for text in texts]
        noise = [np.random.default_rng(seed).normal(size=self.dimension) for seed in seeds]
        vectors = super().embed(texts) + 0.005 * np.asarray(noise, np.float32).reshape(-1, 256)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Plain(BasePydanticVectorStore):
    """A minimal vector store: it cannot delete, ignores doc_ids and does not return vectors."""

    stores_text: bool = False
    _rows: list[tuple[str, np.ndarray]] = PrivateAttr(default_factory=list)

    @property
    def client(self):
        return self._rows

    def add(self, nodes, **kwargs):
        self._rows.extend((n.node_id, np.asarray(n.embedding, np.float32)) for n in nodes)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id, **kwargs):
        raise NotImplementedError

    def query(self, query, **kwargs):
        vector = np.asarray(query.query_embedding, np.float32)
        hits = sorted(((float(row @ vector), id_) for id_, row in self._rows), reverse=True)
        best = hits[: query.similarity_top_k]
        return VectorStoreQueryResult(ids=[i for _, i in best], similarities=[s for s, _ in best])


def new_store(kind: str, folder: Path, closing: ExitStack, dimension: int = 256) -> Any:
    """Return an empty store; `closing` closes its connections."""
    name = f"c{uuid.uuid4().hex}"  # Chroma's in-memory clients share their collections
    if kind == "simple":
        return SimpleVectorStore()
    if kind == "plain":
        return Plain()
    if kind.startswith("faiss-map"):
        flat = faiss.IndexFlatL2 if kind == "faiss-map-l2" else faiss.IndexFlatIP
        return FaissMapVectorStore(faiss.IndexIDMap2(flat(dimension)))
    if kind.startswith("qdrant"):
        disk = {"path": str(folder / name), "force_disable_check_same_thread": True}
        client = QdrantClient(**(disk if kind == "qdrant-disk" else {"location": ":memory:"}))
        closing.callback(client.close)
        return QdrantVectorStore(name, client=client)
    on_disk = kind == "chroma-disk"
    chroma = (
        chromadb.PersistentClient(str(folder / name)) if on_disk else chromadb.EphemeralClient()
    )
    space = {"hnsw:space": "cosine"} if kind == "chroma-cosine" else None
    return ChromaVectorStore(chroma_collection=chroma.create_collection(name, metadata=space))


def random_words(seed: int, count: int = 5) -> str:
    """Return made-up words that differ for each seed, so that scores of texts do not tie."""
    generator = random.Random(seed)  # noqa: S311 - not used for security
    return " ".join("".join(generator.choices("aeioudklmnrst", k=6)) for _ in range(count))


def stored_entries(store: Any) -> dict[str, str]:
    """Return the content of a vector store by vector id."""
    if isinstance(store, SimpleVectorStore):
        return dict.fromkeys(store.data.embedding_dict, "")
    if isinstance(store, FaissMapVectorStore):
        numbers = store._node_id_to_faiss_id_map
        assert store.client.ntotal == len(numbers) == len(store._faiss_id_to_node_id_map)
        return dict.fromkeys(numbers, "")
    if isinstance(store, Plain):
        return dict.fromkeys([id_ for id_, _ in store.client], "")
    return _database_entries(store)


def _database_entries(store: Any) -> dict[str, str]:
    if isinstance(store, QdrantVectorStore):
        if not store.client.collection_exists(store.collection_name):
            return {}
        points, _ = store.client.scroll(store.collection_name, limit=10_000)
        return {str(point.id): _to_json(point.payload) for point in points}
    found = store.client.get()
    rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    return {id_: f"{text} {_to_json(metadata)}" for id_, text, metadata in rows}


def _to_json(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata, sort_keys=True)


def dump_index(index: Any) -> dict[str, Any]:
    """Return the content of an index and its stores, to compare or to search in."""
    return {
        "documents": {id_: one.to_dict() for id_, one in index.docstore.docs.items()},
        "index": list(index.rag.export()),
        "pending": index.rag.pending.read(),
        "vectors": stored_entries(index.vector_store),
    }


def docstore_texts(index: Any) -> list[str]:
    """Return the texts of all nodes in the docstore."""
    nodes = index.storage_context.docstore.docs.values()
    return [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
