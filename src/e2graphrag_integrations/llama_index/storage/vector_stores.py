"""LlamaIndex's vector stores behind one face: what differs between them is here and nowhere else.

Vectors go in normalized; scores come out as cosines, whatever a store calls similarity.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, StoreError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from e2graphrag_integrations.search.external import (
    UnavailableSearch,
    VectorStoreSearch,
    chroma_distance,
)

_BATCH = 2048
"""Vectors given to a store at once, as LlamaIndex's own indexes do."""

_FAISS_L2 = 1
"""`faiss.METRIC_L2`; smaller is nearer."""


class Vectors(Protocol):
    """What an index needs of a vector store."""

    def check(self, dimension: int) -> None:
        """Refuse vectors that cannot fit, before anything is made.

        Raises:
            InvalidInputError: If the store is made for another dimension.
        """
        ...

    def add(self, nodes: Sequence[TextNode]) -> list[str]:
        """Add all nodes, which carry embeddings, or none; return the store's ids of them."""
        ...

    def remove(self, ids: Sequence[str], kept: Sequence[str]) -> Mapping[str, str]:
        """Remove vectors; return the new ids of those of `kept` that have other ones now.

        What a store cannot remove stays in it, unknown to the index.
        """
        ...

    def read(self, ids: Sequence[str]) -> FloatArray | None:
        """Return vectors as they are stored, or None where the store does not give them out."""
        ...

    def search(self, ids: Sequence[str], owners: IntArray, documents: Sequence[str]) -> NodeSearch:
        """Return the search over vectors `ids`, which belong to nodes `owners` of `documents`."""
        ...


def vectors_of(store: BasePydanticVectorStore) -> Vectors:
    """Return the face of a store."""
    names = {cls.__name__ for cls in type(store).__mro__}
    if isinstance(store, SimpleVectorStore):
        return SimpleVectors(store)
    if "FaissMapVectorStore" in names:
        return FaissMapVectors(store)
    if "FaissVectorStore" in names:
        return FaissVectors(store)
    if "ChromaVectorStore" in names:
        return ChromaVectors(store)
    return AnyVectors(store)


class AnyVectors:
    """A store that answers as the interface says: its ids are ours, its similarity is cosine."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self._name = type(store).__name__

    def check(self, dimension: int) -> None:
        """Refuse nothing: the interface does not tell the dimension."""

    def add(self, nodes: Sequence[TextNode]) -> list[str]:
        """Add all nodes, or none; return the store's ids of them.

        Raises:
            StoreError: If the store failed.
        """
        added: list[str] = []
        try:
            for at in range(0, len(nodes), _BATCH):
                batch: list[BaseNode] = list(nodes[at : at + _BATCH])
                added.extend(_one_each(self.store.add(batch), batch))
        except Exception as error:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                rest = [node.node_id for node in nodes[len(added) :]]
                self.store.delete_nodes([*added, *rest])
            raise StoreError(
                f"{self._name} did not take the vectors ({type(error).__name__}: {error}); nothing "
                "was indexed: see to the vector store and insert again"
            ) from error
        return added

    def remove(self, ids: Sequence[str], kept: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - ids stay as they are
        """Remove vectors by id.

        Raises:
            StoreError: If the store failed.
        """
        try:
            if ids:
                self.store.delete_nodes(list(ids))
        except NotImplementedError:
            pass
        except Exception as error:
            raise StoreError(
                f"{self._name} did not remove {len(ids)} vectors ({type(error).__name__}: {error}):"
                " they are still in it, though the index does not know them any more"
            ) from error
        return {}

    def read(self, ids: Sequence[str]) -> FloatArray | None:
        """Return vectors as they are stored, or None where the store does not give them out."""
        try:
            found = {node.node_id: node.embedding for node in self.store.get_nodes(list(ids))}
        except (NotImplementedError, AttributeError):
            return None
        vectors = [found.get(id_) for id_ in ids]
        if any(vector is None for vector in vectors):
            return None
        return np.asarray(vectors, dtype=np.float32)

    def cosine(self, similarity: float) -> float:
        """Return the cosine that a similarity of this store stands for."""
        return similarity

    def only(self, documents: Sequence[str] | None) -> dict[str, Any]:
        """Return the part of a query that says of which documents the vectors shall be."""
        return {} if documents is None else {"doc_ids": list(documents)}

    def search(self, ids: Sequence[str], owners: IntArray, documents: Sequence[str]) -> NodeSearch:
        """Return the search over vectors `ids`."""
        return VectorStoreSearch(self.query, self._name, ids, owners, documents)

    def query(
        self, vector: FloatArray, count: int, documents: Sequence[str] | None
    ) -> list[tuple[str, float]]:
        """Return the ids and cosines of the nearest vectors, best first.

        Args:
            vector: Unit vector.
            count: Most results.
            documents: Only of these; a hint, which many stores do not heed.
        """
        query = VectorStoreQuery(
            query_embedding=vector.tolist(), similarity_top_k=count, **self.only(documents)
        )
        hint = "is it the vector store that the index was made with?"
        with wrap_errors(StoreError, f"{self._name} could not be searched", hint):
            found = self.store.query(query)
            ids = found.ids or [node.node_id for node in found.nodes or ()]
            return [
                (str(id_), self.cosine(float(similarity)))
                for id_, similarity in zip(ids, found.similarities or (), strict=True)
            ]


def _one_each(ids: Sequence[str], nodes: Sequence[BaseNode]) -> Sequence[str]:
    if len(set(ids)) != len(nodes):
        raise ValueError(f"it gave {len(set(ids))} ids for {len(nodes)} vectors")
    return ids


class SimpleVectors(AnyVectors):
    """LlamaIndex's own in memory; searched through FAISS, as its own search is a Python loop."""

    def search(self, ids: Sequence[str], owners: IntArray, documents: Sequence[str]) -> NodeSearch:  # noqa: ARG002 - the mask says it
        """Return a search over the store's own vectors."""
        try:
            return DenseIndex(self.read(ids), owners.astype(np.int64))
        except CorruptStoreError as error:
            return UnavailableSearch(
                error, owners.astype(np.int64)
            )  # local retrieval needs no vectors

    def read(self, ids: Sequence[str]) -> FloatArray:
        """Return vectors as they are stored.

        Raises:
            CorruptStoreError: If one of them is gone.
        """
        try:
            vectors = [self.store.get(id_) for id_ in ids]
            return np.asarray(vectors, dtype=np.float32) if ids else np.empty((0, 0), np.float32)
        except KeyError as error:
            raise CorruptStoreError(
                f"{self._name} has lost vector {error} of the index: pass the vector store that it "
                "was made with, or build the index again"
            ) from error
        except (ValueError, TypeError) as error:
            raise CorruptStoreError(
                f"{self._name} holds a damaged vector of the index ({error}): restore a backup, or "
                "build the index again"
            ) from error


class ChromaVectors(AnyVectors):
    """Chroma: its integration calls exp(-distance) similarity."""

    def cosine(self, similarity: float) -> float:
        """Return the cosine that a similarity of this store stands for."""
        distance = -math.log(max(similarity, 1e-300))
        return 1 - distance / 2 if chroma_distance(self.store.client) == "l2" else 1 - distance

    def only(self, documents: Sequence[str] | None) -> dict[str, Any]:
        """Return a filter: this store does not heed `doc_ids`."""
        if documents is None:
            return {}
        ids = MetadataFilter(key="document_id", operator=FilterOperator.IN, value=list(documents))
        return {"filters": MetadataFilters(filters=[ids])}


class FaissVectors(AnyVectors):
    """FAISS: ids are positions, and its integration cannot delete."""

    def check(self, dimension: int) -> None:
        """Refuse an index of another dimension, which FAISS itself would only assert.

        Raises:
            InvalidInputError: If the store is made for another dimension.
        """
        if self.store.client.d != dimension:
            raise InvalidInputError(
                f"the FAISS index takes vectors of {self.store.client.d} dimensions, the embedding "
                f"model makes {dimension}: make it with faiss.IndexFlatIP({dimension})"
            )

    def add(self, nodes: Sequence[TextNode]) -> list[str]:
        """Add all nodes, or none; return their positions.

        Raises:
            StoreError: If the store failed.
        """
        index = self.store.client
        held = index.ntotal
        try:
            return super().add(nodes)
        except StoreError:
            with contextlib.suppress(RuntimeError):  # some kinds of index cannot remove
                index.remove_ids(np.arange(held, index.ntotal))
            raise

    def cosine(self, similarity: float) -> float:
        """Return the cosine: FAISS gives inner products or squared distances."""
        return 1 - similarity / 2 if self.store.client.metric_type == _FAISS_L2 else similarity

    def remove(self, ids: Sequence[str], kept: Sequence[str]) -> Mapping[str, str]:
        """Rebuild the FAISS index from the vectors that stay; positions, and so ids, shift.

        Where others have put vectors into it too, or FAISS cannot give vectors back (IVF without a
        direct map), it stays as it is.
        """
        index = self.store.client
        if not ids or index.ntotal != len(ids) + len(kept):
            return {}
        order = sorted(kept, key=int)
        vectors = self.read(order)
        if vectors is None:
            return {}
        index.reset()
        if order:
            index.add(vectors)
        return {old: str(new) for new, old in enumerate(order) if old != str(new)}

    def read(self, ids: Sequence[str]) -> FloatArray | None:
        """Return vectors as they are stored, or None where this kind of index cannot."""
        index = self.store.client
        try:
            vectors = [index.reconstruct(int(id_)) for id_ in ids]
        except RuntimeError:
            return None
        return np.asarray(vectors, dtype=np.float32).reshape(len(ids), index.d)


class FaissMapVectors(FaissVectors):
    """FAISS with a map of ids, which its integration breaks with an insert after a delete.

    It numbers a new vector by how many there are: after a delete that number may be taken.
    """

    def check(self, dimension: int) -> None:
        """Refuse an index of another dimension, and a map that gives no vectors back.

        Raises:
            InvalidInputError: If the store cannot be used.
        """
        super().check(dimension)
        if not hasattr(self.store.client, "rev_map"):
            raise InvalidInputError(
                "the FAISS index gives no vectors back, so that nothing could be removed safely: "
                f"make it with faiss.IndexIDMap2(faiss.IndexFlatIP({dimension}))"
            )

    def remove(self, ids: Sequence[str], kept: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - what others put in stays too
        """Take everything out and put back what stays, so that numbers have no gaps.

        Raises:
            StoreError: If the index under the map gives no vectors back.
        """
        held = list(self.store._node_id_to_faiss_id_map)  # noqa: SLF001 - it has no public name
        gone = set(ids)
        stays = [id_ for id_ in held if id_ not in gone]
        if len(stays) == len(held):
            return {}
        vectors = self.read(stays)
        if vectors is None:
            raise StoreError(
                "this FAISS index gives no vectors back, so that nothing can be removed safely: "
                "wrap an IndexFlatIP in faiss.IndexIDMap2"
            )
        self.store.delete_nodes(held)
        self.store.add(
            [
                TextNode(id_=id_, text="", embedding=vector.tolist())
                for id_, vector in zip(stays, vectors, strict=True)
            ]
        )
        return {}

    def read(self, ids: Sequence[str]) -> FloatArray | None:
        """Return vectors as they are stored, or None where this kind of index cannot."""
        numbers = self.store._node_id_to_faiss_id_map  # noqa: SLF001 - it has no public name
        try:
            return super().read([str(numbers[id_]) for id_ in ids])
        except KeyError as error:
            raise CorruptStoreError(
                f"{self._name} has lost vector {error} of the index: pass the vector store that it "
                "was made with, or build the index again"
            ) from error
