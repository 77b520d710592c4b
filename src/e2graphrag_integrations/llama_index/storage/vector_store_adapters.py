"""Adapters that hide the differences between LlamaIndex's vector stores from the mirror.

Scores are cosine similarities, however a store defines similarity.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.schema import NodeRelationship, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    VectorStoreQuery,
)

from e2graphrag_integrations._utils.concurrency import use_one_thread_after_fork
from e2graphrag_integrations.corpus.vector_store_mirror import Entry, MirrorStore
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.nodes import OWN_KEYS, source_link, with_own_keys
from e2graphrag_integrations.pages import SOURCE_ID
from e2graphrag_integrations.search.external import chroma_distance

logger = logging.getLogger(__name__)

_BATCH_SIZE = 2048
"""Number of ids in one SQL condition."""

_QUOTE = "'"

_FAISS_L2 = 1
"""Value of `faiss.METRIC_L2`: squared distances, where smaller is better."""


def adapt_vector_store(store: BasePydanticVectorStore | None) -> MirrorStore | None:
    """Return the adapter for a vector store; None for LlamaIndex's in-memory store or none.

    Every `StorageContext` has an in-memory store. It would only repeat the vectors of the index.

    Raises:
        InvalidInputError: If the store cannot delete vectors by id.
    """
    # Compare class names, because the integrations are optional packages.
    names = {cls.__name__ for cls in type(store).__mro__}
    if store is None or isinstance(store, SimpleVectorStore):
        return None
    if "FaissMapVectorStore" in names:
        return FaissMapAdapter(store)
    if "FaissVectorStore" in names:
        raise InvalidInputError(
            "FaissVectorStore keeps no ids, so vectors could not be replaced: leave it out, "
            "because the index itself searches with FAISS, or pass a FaissMapVectorStore"
        )
    if "QdrantVectorStore" in names:
        return QdrantAdapter(store)
    if "ChromaVectorStore" in names:
        return ChromaAdapter(store)
    if "LanceDBVectorStore" in names:
        return LanceDBAdapter(store)
    return VectorStoreAdapter(store)


class VectorStoreAdapter(MirrorStore):
    """Adapter for stores that follow the interface: they keep the given ids and return cosines."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Add vectors."""
        self.store.add([_node(entry) for entry in entries])

    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors; those in a store without this method are never returned."""
        try:
            self.store.delete_nodes(list(ids))
        except NotImplementedError:
            logger.warning(
                "%s cannot delete vectors by id: deleted text remains there, and no search of the "
                "index finds it",
                self.name,
            )

    def _stored(self, ids: Sequence[str]) -> set[str]:
        return {node.node_id for node in self.store.get_nodes(list(ids))}

    def _search(
        self, vector: list[float], limit: int, store_filter: Any
    ) -> Iterable[tuple[str, float]]:
        found = self.store.query(
            VectorStoreQuery(query_embedding=vector, similarity_top_k=limit, filters=store_filter)
        )
        ids = found.ids or [node.node_id for node in found.nodes or ()]
        return zip(ids, found.similarities or (), strict=True)

    def _cosine(self, score: float) -> float:
        return score


class QdrantAdapter(VectorStoreAdapter):
    """Adapter for Qdrant, whose integration creates its collection with the first vectors."""

    def _stored(self, ids: Sequence[str]) -> set[str]:
        if not self.store.client.collection_exists(self.store.collection_name):
            return set()
        return super()._stored(ids)


class ChromaAdapter(VectorStoreAdapter):
    """Adapter for Chroma, whose integration defines similarity as exp(-distance)."""

    def _cosine(self, score: float) -> float:
        distance = -math.log(max(score, 1e-300))
        return 1 - distance / 2 if chroma_distance(self.store.client) == "l2" else 1 - distance


class LanceDBAdapter(VectorStoreAdapter):
    """Adapter for LanceDB, whose integration quotes ids as columns in deletions and look-ups.

    The columns of a table are those of the first vector. Therefore the vectors carry none of the
    documents' metadata, which may differ; filters do not use it.
    """

    def add(self, entries: Sequence[Entry]) -> None:
        """Add vectors."""
        own = (*OWN_KEYS, SOURCE_ID, "e2_node_id")
        nodes = [_node(entry) for entry in entries]
        for node in nodes:
            node.metadata = {key: node.metadata[key] for key in own if key in node.metadata}
        self.store.add(nodes)

    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors."""
        for condition in _id_conditions(ids):
            self.store.table.delete(condition)

    def _stored(self, ids: Sequence[str]) -> set[str]:
        if self.store._table is None:  # noqa: SLF001 - the public name raises if there is no table
            return set()
        return {
            row["id"]
            for condition in _id_conditions(ids)
            for row in self.store.table.search()
            .where(condition)
            .select(["id"])
            .limit(len(ids))
            .to_list()
        }

    def _search(
        self, vector: list[float], limit: int, store_filter: Any
    ) -> Iterable[tuple[str, float]]:
        try:
            found = super()._search(vector, limit, store_filter)
        except Warning:  # the integration raises it if nothing matches
            return ()
        scale = 2 if self._metric() == "l2" else 1
        # The integration returns exp(-distance).
        return [(id_, 1 + math.log(max(score, 1e-300)) / scale) for id_, score in found]

    def _metric(self) -> str:
        """Return the metric of the table's vector index; a table without an index uses L2."""
        table = self.store.table
        indexed = [i for i in table.list_indices() if self.store.vector_column_name in i.columns]
        stats = table.index_stats(indexed[0].name) if indexed else None
        return getattr(stats, "distance_type", None) or "l2"


def _id_conditions(ids: Sequence[str]) -> Iterator[str]:
    """Yield SQL conditions that each select a batch of ids."""
    for start in range(0, len(ids), _BATCH_SIZE):
        quoted = (
            f"'{id_.replace(_QUOTE, 2 * _QUOTE)}'" for id_ in ids[start : start + _BATCH_SIZE]
        )
        yield f"id IN ({', '.join(quoted)})"


class FaissMapAdapter(VectorStoreAdapter):
    """FAISS with an id map, which the integration corrupts on an insert after a delete.

    The integration uses the current number of vectors as the number of a new vector. After a
    delete, that number may already be in use, so a deletion adds the remaining vectors again.
    """

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._opened_in = os.getpid()
        if not hasattr(store.client, "rev_map"):
            raise InvalidInputError(
                "the FAISS index cannot return vectors, so nothing could be removed safely: "
                "create it with faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))"
            )

    @property
    def _numbers(self) -> Mapping[str, int]:
        numbers: Mapping[str, int] = self.store._node_id_to_faiss_id_map  # noqa: SLF001 - has no public name
        return numbers

    def add(self, entries: Sequence[Entry]) -> None:
        """Add vectors, if the index has their dimension, which FAISS itself only asserts."""
        dimension = len(entries[0].vector)
        if self.store.client.d != dimension:
            raise InvalidInputError(
                f"the FAISS index has {self.store.client.d} dimensions, but the embedding model "
                f"has {dimension}: create the index with faiss.IndexIDMap2(faiss.IndexFlatIP("
                f"{dimension}))"
            )
        self.delete([entry.id for entry in entries])
        super().add(entries)

    def delete(self, ids: Sequence[str]) -> None:
        """Remove all vectors and add the remaining ones again, so that numbers have no gaps."""
        stored, removed = list(self._numbers), set(ids)
        remaining = [id_ for id_ in stored if id_ not in removed]
        if len(remaining) == len(stored):
            return
        vectors = [self.store.client.reconstruct(int(self._numbers[id_])) for id_ in remaining]
        self.store.delete_nodes(stored)
        self.store.add(
            [
                TextNode(id_=id_, text="", embedding=vector.tolist())
                for id_, vector in zip(remaining, vectors, strict=True)
            ]
        )

    def _stored(self, ids: Sequence[str]) -> set[str]:
        return set(self._numbers).intersection(ids)

    def _search(
        self, vector: list[float], limit: int, store_filter: Any
    ) -> Iterable[tuple[str, float]]:
        use_one_thread_after_fork(self._opened_in)
        return super()._search(vector, limit, store_filter)

    def _cosine(self, score: float) -> float:
        return 1 - score / 2 if self.store.client.metric_type == _FAISS_L2 else score


def _node(entry: Entry) -> TextNode:
    """Return a vector as a node; vector stores delete and filter by its SOURCE."""
    return TextNode(
        id_=entry.id,
        text=entry.text,
        metadata=dict(entry.metadata),
        excluded_embed_metadata_keys=with_own_keys([SOURCE_ID, "e2_node_id"]),
        excluded_llm_metadata_keys=with_own_keys([SOURCE_ID, "e2_node_id"]),
        relationships={NodeRelationship.SOURCE: source_link(str(entry.metadata[SOURCE_ID]))},
        embedding=entry.vector.tolist(),
    )
