"""LangChain's vector stores as the place where vectors are searched.

The interface knows no vectors of one's own and no common score; what stores differ in is here. The
index file keeps the vectors too: it is the truth, the store a copy that serves searches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from e2graphrag_integrations._utils.validation import type_name
from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.external import chroma_distance


@dataclass(frozen=True, slots=True)
class Entry:
    """One vector with what it stands for."""

    id: str
    text: str
    vector: FloatArray
    metadata: Mapping[str, Any]


class Backend(Protocol):
    """What an index needs of a vector store."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors."""
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors."""
        ...

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that are not there."""
        ...

    def query(self, vector: FloatArray, count: int, native: Any) -> list[tuple[str, float]]:
        """Return ids and cosines of the nearest vectors, under a filter of the store's own."""
        ...


def backend_of(store: Any) -> Backend:
    """Return the face of a LangChain vector store.

    Raises:
        InvalidInputError: If it is none, or cannot be searched by vector.
    """
    names = {cls.__name__ for cls in type(store).__mro__}
    if "VectorStore" not in names or isinstance(store, type):
        raise InvalidInputError(f"vector_store is a {type_name(store)}, no LangChain VectorStore")
    if "InMemoryVectorStore" in names:
        return InMemoryBackend(store)
    if "QdrantVectorStore" in names:
        return QdrantBackend(store)
    if "Chroma" in names:
        return ChromaBackend(store)
    if not hasattr(store, "similarity_search_with_score_by_vector"):
        raise InvalidInputError(
            f"{type(store).__name__} cannot be searched by vector with scores: leave vector_store "
            "out, or take Qdrant, Chroma, PGVector or the one in memory"
        )
    return AnyBackend(store)


class AnyBackend:
    """A store with the methods of PGVector: cosine distance, and vectors given along if it can."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self._name = type(store).__name__

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors; a store that takes none embeds the texts once more."""
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

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that are not there; all of them where the store cannot tell."""
        try:
            there = {document.id for document in self.store.get_by_ids(list(ids))}
        except NotImplementedError:
            return list(ids)
        return [id_ for id_ in ids if id_ not in there]

    def query(self, vector: FloatArray, count: int, native: Any) -> list[tuple[str, float]]:
        """Return ids and cosines of the nearest vectors, best first."""
        options = {} if native is None else {"filter": native}
        try:
            found = self.search(vector.tolist(), count, **options)
            hits = [(str(document.id), self.cosine(float(score))) for document, score in found]
        except Exception as error:
            raise StoreError(
                f"{self._name} could not be searched ({type(error).__name__}: {error}): is the "
                "filter one of its own kind, and the store the one the index was made with?"
            ) from error
        return sorted(hits, key=lambda hit: -hit[1])

    def search(self, vector: list[float], count: int, **options: Any) -> list[tuple[Any, float]]:
        """Return documents and the store's scores."""
        found: list[tuple[Any, float]] = self.store.similarity_search_with_score_by_vector(
            vector, k=count, **options
        )
        return found

    def cosine(self, score: float) -> float:
        """Return the cosine that a score stands for."""
        return 1 - score


class InMemoryBackend(AnyBackend):
    """LangChain's own in memory: scores are cosines, ids and vectors lie open."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors."""
        for entry in entries:
            self.store.store[entry.id] = {
                "id": entry.id,
                "vector": entry.vector.tolist(),
                "text": entry.text,
                "metadata": dict(entry.metadata),
            }

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that are not there."""
        return [id_ for id_ in ids if id_ not in self.store.store]

    def cosine(self, score: float) -> float:
        """Return the cosine that a score stands for."""
        return score


class QdrantBackend(AnyBackend):
    """Qdrant, with cosine or, as vectors have unit length, inner product."""

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

    def search(self, vector: list[float], count: int, **options: Any) -> list[tuple[Any, float]]:
        """Return documents and the store's scores."""
        # The documents of this store carry their ids in metadata only.
        found = super().search(vector, count, **options)
        return [(_Found(document.metadata["_id"]), score) for document, score in found]

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that are not there."""
        points = self.store.client.retrieve(
            self.store.collection_name, list(ids), with_payload=False, with_vectors=False
        )
        there = {str(point.id) for point in points}
        return [id_ for id_ in ids if id_ not in there]

    def cosine(self, score: float) -> float:
        """Return the cosine that a score stands for: of Euclidean distances d, 1 - d**2 / 2."""
        distance = str(getattr(self.store.distance, "value", self.store.distance)).lower()
        return 1 - score * score / 2 if distance == "euclid" else score


class ChromaBackend(AnyBackend):
    """Chroma: distances, squared where the space is Euclidean."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors."""
        self._collection.upsert(
            ids=[entry.id for entry in entries],
            embeddings=[entry.vector.tolist() for entry in entries],
            documents=[entry.text for entry in entries],
            metadatas=[dict(entry.metadata) for entry in entries],
        )

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of the ids that are not there."""
        there = set(self._collection.get(ids=list(ids), include=[])["ids"])
        return [id_ for id_ in ids if id_ not in there]

    def search(self, vector: list[float], count: int, **options: Any) -> list[tuple[Any, float]]:
        """Return documents and distances."""
        found: list[tuple[Any, float]] = (
            self.store.similarity_search_by_vector_with_relevance_scores(
                vector, k=max(1, min(count, self._collection.count())), **options
            )
        )
        return found

    def cosine(self, score: float) -> float:
        """Return the cosine that a distance stands for."""
        return 1 - score / 2 if chroma_distance(self._collection) == "l2" else 1 - score

    @property
    def _collection(self) -> Any:
        return self.store._collection  # noqa: SLF001 - the public face takes no vectors


@dataclass(frozen=True, slots=True)
class _Found:
    id: str
