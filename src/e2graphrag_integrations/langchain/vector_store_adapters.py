"""Adapters that hide the differences between LangChain's vector stores.

LangChain's interface has no method for adding vectors and no common score. The adapters add vectors
and return cosines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from e2graphrag_integrations._utils.validation import type_name
from e2graphrag_integrations.corpus.vector_store_mirror import Entry, MirrorStore
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.search.external import chroma_distance

_FAISS_INNER_PRODUCT, _FAISS_L2 = 0, 1
"""Values of `faiss.MetricType`."""


def adapt_vector_store(store: Any) -> VectorStoreAdapter:
    """Return the adapter for a LangChain vector store.

    Raises:
        InvalidInputError: If `store` is not a vector store, or has no search by vector that
            returns scores.
    """
    # Compare class names, because the integrations are optional packages.
    names = {cls.__name__ for cls in type(store).__mro__}
    if "VectorStore" not in names or isinstance(store, type):
        raise InvalidInputError(
            f"vector_store is a {type_name(store)}: pass a LangChain VectorStore"
        )
    if "InMemoryVectorStore" in names:
        return InMemoryAdapter(store)
    if "QdrantVectorStore" in names:
        return QdrantAdapter(store)
    if "Chroma" in names:
        return ChromaAdapter(store)
    if "FAISS" in names:
        return FaissAdapter(store)
    if "Milvus" in names:
        raise InvalidInputError(
            "Milvus is not supported as a vector_store: the metric of its scores depends on the "
            "collection's index, and this integration does not read it. Use FAISS, Qdrant, Chroma, "
            "PGVector or InMemoryVectorStore, or omit vector_store"
        )
    if not hasattr(store, "similarity_search_with_score_by_vector"):
        raise InvalidInputError(
            f"{type(store).__name__} has no search by vector that returns scores: use FAISS, "
            "Qdrant, Chroma, PGVector or InMemoryVectorStore, or omit vector_store"
        )
    return VectorStoreAdapter(store)


class VectorStoreAdapter(MirrorStore):
    """Adapter for stores with PGVector's methods and cosine distance."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors. A store without `add_embeddings` embeds the texts again."""
        texts = [entry.text for entry in entries]
        metadatas = [dict(entry.metadata) for entry in entries]
        ids = [entry.id for entry in entries]
        if hasattr(self.store, "add_embeddings"):
            vectors = [entry.vector.tolist() for entry in entries]
            self.store.add_embeddings(texts, vectors, metadatas=metadatas, ids=ids)
        else:
            self.store.add_texts(texts, metadatas=metadatas, ids=ids)

    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors."""
        self.store.delete(list(ids))

    def _stored(self, ids: Sequence[str]) -> Collection[str]:
        return {document.id for document in self.store.get_by_ids(list(ids))}

    def _search(
        self, vector: list[float], limit: int, store_filter: Any
    ) -> Iterable[tuple[str, float]]:
        found = self.store.similarity_search_with_score_by_vector(
            vector, k=limit, **self._options(store_filter)
        )
        return [(self._id_of(document), score) for document, score in found]

    def _options(self, store_filter: Any) -> dict[str, Any]:
        return {} if store_filter is None else {"filter": store_filter}

    def _id_of(self, document: Any) -> Any:
        return document.id

    def _cosine(self, score: float) -> float:
        return 1 - score


class InMemoryAdapter(VectorStoreAdapter):
    """LangChain's in-memory store, whose scores are cosines."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors."""
        for entry in entries:
            self.store.store[entry.id] = {
                "id": entry.id,
                "vector": entry.vector.tolist(),
                "text": entry.text,
                "metadata": dict(entry.metadata),
            }

    def _stored(self, ids: Sequence[str]) -> Collection[str]:
        del ids
        stored: Collection[str] = self.store.store
        return stored

    def _cosine(self, score: float) -> float:
        return score


class FaissAdapter(VectorStoreAdapter):
    """LangChain's FAISS store with squared Euclidean distance or inner product.

    Raises:
        InvalidInputError: If the FAISS index has another metric.
    """

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        if store.index.metric_type not in (_FAISS_INNER_PRODUCT, _FAISS_L2):
            raise InvalidInputError(
                "the FAISS index of the vector_store has an unsupported metric: use IndexFlatL2 or "
                "IndexFlatIP"
            )

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors; the store itself rejects ids that it contains."""
        self.delete([entry.id for entry in entries])
        self.store.add_embeddings(
            [(entry.text, entry.vector.tolist()) for entry in entries],
            metadatas=[dict(entry.metadata) for entry in entries],
            ids=[entry.id for entry in entries],
        )

    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors; the store itself rejects ids that it does not contain."""
        stored = self._stored(ids)
        known = [id_ for id_ in ids if id_ in stored]
        if known:
            self.store.delete(known)

    def _stored(self, ids: Sequence[str]) -> Collection[str]:
        del ids
        return set(self.store.index_to_docstore_id.values())

    def _options(self, store_filter: Any) -> dict[str, Any]:
        options = super()._options(store_filter)
        if options:  # the store filters only the best `fetch_k` vectors
            options["fetch_k"] = self.store.index.ntotal
        return options

    def _cosine(self, score: float) -> float:
        is_product = self.store.index.metric_type == _FAISS_INNER_PRODUCT
        return score if is_product else 1 - score / 2  # for unit vectors


class QdrantAdapter(VectorStoreAdapter):
    """Qdrant with cosine, dot-product or Euclidean distance."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors."""
        from qdrant_client.models import PointStruct

        name = self.store.vector_name
        self.store.client.upsert(
            self.store.collection_name,
            [
                PointStruct(
                    id=entry.id,
                    vector={name: entry.vector.tolist()} if name else entry.vector.tolist(),
                    payload={
                        self.store.content_payload_key: entry.text,
                        self.store.metadata_payload_key: dict(entry.metadata),
                    },
                )
                for entry in entries
            ],
        )

    def _stored(self, ids: Sequence[str]) -> Collection[str]:
        points = self.store.client.retrieve(
            self.store.collection_name, list(ids), with_payload=False, with_vectors=False
        )
        return {str(point.id) for point in points}

    def _id_of(self, document: Any) -> Any:
        return document.metadata["_id"]  # langchain-qdrant stores the id only there

    def _cosine(self, score: float) -> float:
        distance = str(getattr(self.store.distance, "value", self.store.distance)).lower()
        return 1 - score * score / 2 if distance == "euclid" else score  # for unit vectors


class ChromaAdapter(VectorStoreAdapter):
    """Chroma, whose scores are distances (squared for Euclidean distance)."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors."""
        self._collection.upsert(
            ids=[entry.id for entry in entries],
            embeddings=[entry.vector.tolist() for entry in entries],
            documents=[entry.text for entry in entries],
            metadatas=[dict(entry.metadata) for entry in entries],
        )

    def _stored(self, ids: Sequence[str]) -> Collection[str]:
        return set(self._collection.get(ids=list(ids), include=[])["ids"])

    def _search(
        self, vector: list[float], limit: int, store_filter: Any
    ) -> Iterable[tuple[str, float]]:
        found = self.store.similarity_search_by_vector_with_relevance_scores(
            vector, k=max(1, min(limit, self._collection.count())), **self._options(store_filter)
        )
        return [(document.id, distance) for document, distance in found]

    def _cosine(self, score: float) -> float:
        return 1 - score / 2 if chroma_distance(self._collection) == "l2" else 1 - score

    @property
    def _collection(self) -> Any:
        return self.store._collection  # noqa: SLF001 - its public methods do not accept vectors
