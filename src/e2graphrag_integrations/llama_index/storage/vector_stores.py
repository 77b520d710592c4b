"""Adapters that hide the differences between LlamaIndex's vector stores.

Vectors are normalized before they are stored. Scores are cosine similarities, however a
store defines similarity.
"""

from __future__ import annotations

import contextlib
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.processes import use_one_thread_after_fork
from e2graphrag_integrations._utils.redaction import redact_error
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, StoreError
from e2graphrag_integrations.llama_index.storage.nodes import OWN_KEYS
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from e2graphrag_integrations.search.external import (
    UnavailableSearch,
    VectorStoreSearch,
    chroma_distance,
)

_BATCH_SIZE = 2048
"""Vectors per call to a store's `add`, as in LlamaIndex's own indexes."""

_QUOTE = "'"

_FAISS_L2 = 1
"""Value of `faiss.METRIC_L2`: squared distances, where smaller is better."""


def adapt_vector_store(store: BasePydanticVectorStore) -> VectorStoreAdapter:
    """Return the adapter for a vector store."""
    # Compare class names, because the integrations are optional packages.
    names = {cls.__name__ for cls in type(store).__mro__}
    if isinstance(store, SimpleVectorStore):
        return SimpleAdapter(store)
    if "FaissMapVectorStore" in names:
        return FaissMapAdapter(store)
    if "FaissVectorStore" in names:
        return FaissAdapter(store)
    if "ChromaVectorStore" in names:
        return ChromaAdapter(store)
    if "LanceDBVectorStore" in names:
        return LanceDBAdapter(store)
    return VectorStoreAdapter(store)


class VectorStoreAdapter:
    """Adapter for stores that follow the interface: they keep the given ids and return cosines."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self._name = type(store).__name__

    def check_dimension(self, dimension: int) -> None:
        """Check that the store accepts vectors of this dimension, before any model is called.

        The interface does not expose the dimension, so for most stores this check does nothing.

        Raises:
            InvalidInputError: If the store has a different dimension.
        """

    def add(self, nodes: Sequence[TextNode]) -> list[str]:
        """Add either all nodes or none, and return their vector ids.

        Raises:
            StoreError: If the store failed.
        """
        vector_ids: list[str] = []
        try:
            for start in range(0, len(nodes), _BATCH_SIZE):
                batch: list[BaseNode] = list(nodes[start : start + _BATCH_SIZE])
                batch_ids = self.store.add(batch)
                if len(set(batch_ids)) != len(batch):
                    raise ValueError(  # noqa: TRY301 - handled like an error of the store
                        f"it returned {len(set(batch_ids))} ids for {len(batch)} vectors"
                    )
                vector_ids.extend(batch_ids)
        except Exception as error:  # vector stores raise errors of many classes
            with contextlib.suppress(Exception):  # report the first error only
                rest = [node.node_id for node in nodes[len(vector_ids) :]]
                self._delete([*vector_ids, *rest])
            message = redact_error(error, self.store)
            raise StoreError(
                f"{self._name} failed to add vectors ({type(error).__name__}: {message}); nothing "
                "was indexed. Fix the vector store and insert again"
            ) from error
        return vector_ids

    def remove(self, ids: Sequence[str], remaining_ids: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - used by FAISS, whose ids shift
        """Remove vectors; do nothing if the store does not support removal.

        Args:
            ids: Vectors to remove.
            remaining_ids: All other vectors of the index.

        Returns:
            A mapping from old to new ids, for the remaining vectors whose ids changed.

        Raises:
            StoreError: If the store failed.
        """
        try:
            if ids:
                self._delete(ids)
        except NotImplementedError:
            pass
        except Exception as error:  # vector stores raise errors of many classes
            message = redact_error(error, self.store)
            raise StoreError(
                f"{self._name} failed to remove {len(ids)} vectors ({type(error).__name__}: "
                f"{message}); retrieval ignores them"
            ) from error
        return {}

    def _delete(self, ids: Sequence[str]) -> None:
        self.store.delete_nodes(list(ids))

    def read(self, ids: Sequence[str]) -> FloatArray | None:
        """Return stored vectors, shape (ids, dimension), or None if the store cannot do so."""
        try:
            found = self._get(ids)
        except (NotImplementedError, AttributeError):
            return None
        vectors = [found.get(id_) for id_ in ids]
        if any(vector is None for vector in vectors):
            return None
        return np.asarray(vectors, dtype=np.float32)

    def _get(self, ids: Sequence[str]) -> Mapping[str, Sequence[float] | None]:
        """Return the stored vectors by id."""
        return {node.node_id: node.embedding for node in self.store.get_nodes(list(ids))}

    def checksum(self, ids: Sequence[str]) -> int | None:  # noqa: ARG002 - used by FAISS
        """Return a checksum of stored vectors, or None if their ids change with their content."""
        return None

    def check(self, records: Sequence[DocumentRecord]) -> None:
        """Check that a store that was loaded from a file contains the vectors of an index.

        An empty store passes: local retrieval needs no vectors, and global retrieval reports it.

        Raises:
            CorruptStoreError: If a vector is missing, or differs from the one that was stored.
        """

    def search(self, ids: Sequence[str], owners: IntArray, documents: Sequence[str]) -> NodeSearch:
        """Return a search over the vectors of an index.

        Args:
            ids: Vector ids.
            owners: The row of each vector's node, shape (vectors,).
            documents: The document id of each node.
        """
        return VectorStoreSearch(self.query, self._name, ids, owners, documents, read=self.read)

    def query(
        self, vector: FloatArray, limit: int, documents: Sequence[str] | None
    ) -> list[tuple[str, float]]:
        """Return the ids and cosines of the nearest vectors, best first.

        Args:
            vector: Unit vector, shape (dimension,).
            limit: Maximum number of results.
            documents: Search only these documents; many stores ignore this restriction.

        Raises:
            StoreError: If the store failed.
        """
        query = VectorStoreQuery(
            query_embedding=vector.tolist(),
            similarity_top_k=limit,
            **({} if documents is None else self._document_filter(documents)),
        )
        hint = "pass the vector store that the index was built with"
        with wrap_errors(StoreError, f"{self._name} could not be searched", hint, self.store):
            found = self._query(query)
            ids = found.ids or [node.node_id for node in found.nodes or ()]
            return [
                (str(id_), self._cosine(float(similarity)))
                for id_, similarity in zip(ids, found.similarities or (), strict=True)
            ]

    def _query(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        result: VectorStoreQueryResult = self.store.query(query)
        return result

    def _cosine(self, similarity: float) -> float:
        """Convert a similarity from the store to a cosine."""
        return similarity

    def _document_filter(self, documents: Sequence[str]) -> dict[str, Any]:
        """Return query arguments that restrict the search to some documents."""
        return {"doc_ids": list(documents)}


class SimpleAdapter(VectorStoreAdapter):
    """LlamaIndex's in-memory store, searched with FAISS because its own search is a Python loop."""

    def search(self, ids: Sequence[str], owners: IntArray, documents: Sequence[str]) -> NodeSearch:  # noqa: ARG002 - this search takes a mask of nodes
        """Return a search over the vectors of an index."""
        rows = owners.astype(np.int64)
        try:
            return DenseIndex(self.read(ids), rows)
        except CorruptStoreError as error:
            return UnavailableSearch(error, rows)  # local retrieval needs no vectors

    def check(self, records: Sequence[DocumentRecord]) -> None:
        """Check that no vector is missing; an id determines its vector."""
        stored = self.store.data.embedding_dict
        if not stored:
            return
        missing = [w.vector_id for r in records for w in r.windows if w.vector_id not in stored]
        if missing:
            raise _missing_vector(self._name, missing[0])

    def read(self, ids: Sequence[str]) -> FloatArray:
        """Return stored vectors; raise CorruptStoreError if one is missing or damaged."""
        try:
            vectors = [self.store.get(id_) for id_ in ids]
            return np.asarray(vectors, dtype=np.float32) if ids else np.empty((0, 0), np.float32)
        except KeyError as error:
            raise _missing_vector(self._name, error.args[0]) from error
        except (ValueError, TypeError) as error:
            raise CorruptStoreError(
                f"{self._name} contains a damaged vector ({error}): restore a backup, or build the "
                "index again"
            ) from error


class ChromaAdapter(VectorStoreAdapter):
    """Adapter for Chroma, whose integration defines similarity as exp(-distance)."""

    def _cosine(self, similarity: float) -> float:
        distance = -math.log(max(similarity, 1e-300))
        return 1 - distance / 2 if chroma_distance(self.store.client) == "l2" else 1 - distance

    def _document_filter(self, documents: Sequence[str]) -> dict[str, Any]:
        # Chroma ignores `doc_ids`.
        ids = MetadataFilter(key="document_id", operator=FilterOperator.IN, value=list(documents))
        return {"filters": MetadataFilters(filters=[ids])}


class LanceDBAdapter(VectorStoreAdapter):
    """Adapter for LanceDB, whose integration quotes ids as columns in deletions and look-ups.

    The columns of a table are those of the first vector. Therefore the vectors carry none of the
    documents' metadata, which may differ; filters do not use it.
    """

    def add(self, nodes: Sequence[TextNode]) -> list[str]:
        """Add either all nodes or none, and return their vector ids."""
        plain = [node.model_copy() for node in nodes]
        for node in plain:
            node.metadata = {key: node.metadata[key] for key in OWN_KEYS if key in node.metadata}
        return super().add(plain)

    def _delete(self, ids: Sequence[str]) -> None:
        for condition in _id_conditions(ids):
            self.store.table.delete(condition)

    def _get(self, ids: Sequence[str]) -> Mapping[str, Sequence[float] | None]:
        column = self.store.vector_column_name
        return {
            row["id"]: row[column]
            for condition in _id_conditions(ids)
            for row in self.store.table.search()
            .where(condition)
            .select(["id", column])
            .limit(len(ids))
            .to_list()
        }

    def _query(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        try:
            found = super()._query(query)
        except Warning:  # the integration raises it if nothing matches
            return VectorStoreQueryResult(ids=[], similarities=[])
        scale = 2 if self._metric() == "l2" else 1
        # The integration returns exp(-distance).
        found.similarities = [
            1 + math.log(max(s, 1e-300)) / scale for s in found.similarities or ()
        ]
        return found

    def _metric(self) -> str:
        """Return the metric of the table's vector index; a table without an index uses L2."""
        table = self.store.table
        indexed = [i for i in table.list_indices() if self.store.vector_column_name in i.columns]
        stats = table.index_stats(indexed[0].name) if indexed else None
        return getattr(stats, "distance_type", None) or "l2"

    def _document_filter(self, documents: Sequence[str]) -> dict[str, Any]:
        # LanceDB ignores `doc_ids`.
        ids = MetadataFilter(key="doc_id", operator=FilterOperator.IN, value=list(documents))
        return {"filters": MetadataFilters(filters=[ids])}


def _id_conditions(ids: Sequence[str]) -> Iterator[str]:
    """Yield SQL conditions that each select a batch of ids."""
    for start in range(0, len(ids), _BATCH_SIZE):
        quoted = (
            f"'{id_.replace(_QUOTE, 2 * _QUOTE)}'" for id_ in ids[start : start + _BATCH_SIZE]
        )
        yield f"id IN ({', '.join(quoted)})"


class FaissAdapter(VectorStoreAdapter):
    """Adapter for FAISS, where ids are positions and the integration cannot delete vectors."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._opened_in = os.getpid()

    def query(
        self, vector: FloatArray, limit: int, documents: Sequence[str] | None
    ) -> list[tuple[str, float]]:
        """Return the ids and cosines of the nearest vectors; see `VectorStoreAdapter.query`."""
        use_one_thread_after_fork(self._opened_in)
        return super().query(vector, limit, documents)

    def check_dimension(self, dimension: int) -> None:
        """Check the dimension, which FAISS itself only asserts."""
        if self.store.client.d != dimension:
            raise InvalidInputError(
                f"the FAISS index has {self.store.client.d} dimensions, but the embedding model "
                f"has {dimension}: create the index with faiss.IndexFlatIP({dimension})"
            )

    def add(self, nodes: Sequence[TextNode]) -> list[str]:
        """Add either all nodes or none, and return their positions."""
        index = self.store.client
        size = index.ntotal
        try:
            return super().add(nodes)
        except StoreError:
            with contextlib.suppress(RuntimeError):  # some index types cannot remove vectors
                index.remove_ids(np.arange(size, index.ntotal))
            raise

    def remove(self, ids: Sequence[str], remaining_ids: Sequence[str]) -> Mapping[str, str]:
        """Rebuild the FAISS index from the remaining vectors, whose positions shift.

        Nothing is removed if the FAISS index also contains vectors of other indexes, or if it
        cannot return vectors (IVF without a direct map).
        """
        index = self.store.client
        if not ids or index.ntotal != len(ids) + len(remaining_ids):
            return {}
        ordered_ids = sorted(remaining_ids, key=int)
        vectors = self.read(ordered_ids)
        if vectors is None:
            return {}
        index.reset()
        if ordered_ids:
            index.add(vectors)
        return {old: str(new) for new, old in enumerate(ordered_ids) if old != str(new)}

    def checksum(self, ids: Sequence[str]) -> int | None:
        """Return the CRC-32 of stored vectors, or None if the index stores approximate vectors."""
        vectors = self.read(ids) if self._is_exact() else None
        return None if vectors is None else zlib.crc32(vectors.astype("<f4").tobytes())

    def check(self, records: Sequence[DocumentRecord]) -> None:
        """Check that no vector is missing or has changed: ids are positions."""
        for record in records if self.store.client.ntotal else ():
            ids = [w.vector_id for w in record.windows]
            missing = [id_ for id_ in ids if not self._exists(id_)]
            if missing:
                raise _missing_vector(self._name, missing[0])
            expected = record.vector_checksum
            if expected is not None and self.checksum(ids) not in (expected, None):
                raise CorruptStoreError(f"{self._name} has other vectors of document {record.id!r}")

    def _exists(self, id_: str) -> bool:
        return int(id_) < int(self.store.client.ntotal)

    def _is_exact(self) -> bool:
        import faiss

        index = self.store.client
        inner = getattr(index, "index", index)  # the index under an id map
        return isinstance(faiss.downcast_index(inner), faiss.IndexFlat)

    def read(self, ids: Sequence[str]) -> FloatArray | None:
        """Return stored vectors, or None if the index cannot return them."""
        index = self.store.client
        try:
            vectors = [index.reconstruct(int(id_)) for id_ in ids]
        except RuntimeError:
            return None
        return np.asarray(vectors, dtype=np.float32).reshape(len(ids), index.d)

    def _cosine(self, similarity: float) -> float:
        return 1 - similarity / 2 if self.store.client.metric_type == _FAISS_L2 else similarity


class FaissMapAdapter(FaissAdapter):
    """FAISS with an id map, which the integration corrupts on an insert after a delete.

    The integration uses the current number of vectors as the id of a new vector. After a delete,
    that id may already be in use.
    """

    def check_dimension(self, dimension: int) -> None:
        """Check the dimension, and that the map can return vectors."""
        super().check_dimension(dimension)
        if not hasattr(self.store.client, "rev_map"):
            raise InvalidInputError(
                "the FAISS index cannot return vectors, so nothing could be removed safely: "
                f"create it with faiss.IndexIDMap2(faiss.IndexFlatIP({dimension}))"
            )

    def remove(self, ids: Sequence[str], remaining_ids: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - vectors of other indexes remain as well
        """Remove all vectors and add the remaining ones again, so that their numbers have no gaps.

        Raises:
            StoreError: If the index under the map cannot return vectors.
        """
        stored_ids = list(self.store._node_id_to_faiss_id_map)  # noqa: SLF001 - has no public name
        removed = set(ids)
        remaining = [id_ for id_ in stored_ids if id_ not in removed]
        if len(remaining) == len(stored_ids):
            return {}
        vectors = self.read(remaining)
        if vectors is None:
            raise StoreError(
                "this FAISS index cannot return vectors, so nothing can be removed safely: wrap an "
                "IndexFlatIP in faiss.IndexIDMap2"
            )
        self.store.delete_nodes(stored_ids)
        pairs = zip(remaining, vectors.tolist(), strict=True)
        self.store.add([TextNode(id_=id_, text="", embedding=vector) for id_, vector in pairs])
        return {}

    def _exists(self, id_: str) -> bool:
        return id_ in self.store._node_id_to_faiss_id_map  # noqa: SLF001 - has no public name

    def read(self, ids: Sequence[str]) -> FloatArray | None:
        """Return stored vectors; raise CorruptStoreError if one is missing."""
        numbers = self.store._node_id_to_faiss_id_map  # noqa: SLF001 - has no public name
        try:
            return super().read([str(numbers[id_]) for id_ in ids])
        except KeyError as error:
            raise _missing_vector(self._name, error.args[0]) from error


def _missing_vector(name: str, id_: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"{name} has lost vector {id_!r} of the index: pass the vector store that the index was "
        "built with, or build the index again"
    )
