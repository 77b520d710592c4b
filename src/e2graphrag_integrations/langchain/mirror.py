"""Keeping a vector store what the index is, and searching it in the place of FAISS."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.langchain.backends import Backend, Entry
from e2graphrag_integrations.langchain.pages import PAGE_ID, user_metadata
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.filters import NodeMask, Where, metadata_filter
from e2graphrag_integrations.retrieval.hydrate import common_metadata
from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from e2graphrag_integrations.search.external import StoreQuery, VectorStoreSearch
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.mirrored_vectors import put_mirrored, read_mirrored
from e2graphrag_integrations.store.sqlite import Store

_NAMESPACE = uuid.UUID("0c9d2f7a-61b4-5f0e-9a3c-4e8b7d615f20")
"""Fixed for ever: the ids of vectors derive from it."""

_BATCH = 500


class Mirror:
    """A vector store that holds the vectors of one index.

    Args:
        backend: The store.
        name: Of the store, for messages.
    """

    def __init__(self, backend: Backend, name: str) -> None:
        self._backend = backend
        self._name = name
        self._lock = threading.Lock()
        self._checked = False

    def allows(self, native: Any, where: Where | None) -> NodeMask:
        """Return a filter of the store's own, and one of ours, as a filter for both routes.

        The store is asked for all vectors that pass. A summary has the metadata that all its chunks
        agree on, so it passes only if they do.
        """

        def mask(snapshot: Snapshot) -> NDArray[np.bool_]:
            allowed = np.zeros(len(snapshot.nodes.ids), dtype=np.bool_)
            dense = snapshot.dense
            if isinstance(dense, VectorStoreSearch) and len(dense.ids):
                anything = np.zeros(int(snapshot.made_with["dimension"]), dtype=np.float32)
                anything[0] = 1
                rows = {id_: row for row, id_ in enumerate(dense.ids)}
                for id_, _ in self._backend.query(anything, len(rows), native):
                    if id_ in rows:
                        allowed[dense.window_nodes[rows[id_]]] = True
            if where is not None:
                allowed &= metadata_filter(where)(snapshot)
            return allowed

        return NodeMask(mask)

    def search(self, snapshot: Snapshot, index: Store) -> NodeSearch:
        """Update the vector store to a snapshot of the index, and return a search in it."""
        dense = snapshot.dense
        if not isinstance(dense, DenseIndex):
            return dense
        ids = _ids(snapshot, dense.vectors, dense.window_nodes)
        hint = "see to the store; the next search or build tries again"
        what = f"{self._name} could not be brought to what the index is"
        with self._lock, wrap_errors(StoreError, what, hint):
            self._bring_to(snapshot, index, dense, ids)
        documents = [snapshot.documents[int(i)] for i in snapshot.nodes.document]

        def query(vector: FloatArray, count: int, _: Any) -> list[tuple[str, float]]:
            return self._backend.query(vector, count, None)

        return MirrorSearch(query, self._name, ids, dense, documents)

    def _bring_to(
        self, snapshot: Snapshot, index: Store, dense: DenseIndex, ids: Sequence[str]
    ) -> None:
        wanted = set(ids)
        held = read_mirrored(index, self._name)
        # What others may have done to the store is looked up once.
        asked = list(wanted & held) if not self._checked else []
        lost = {id_ for batch in _batches(asked) for id_ in self._backend.missing(batch)}
        new = (wanted - held) | lost
        gone = sorted(held - wanted)
        self._checked = False  # until all of it has been done
        if new or gone:
            # Before the store: what may be in it is known, whatever happens next.
            put_mirrored(index, self._name, held | wanted)
            rows = [row for row, id_ in enumerate(ids) if id_ in new]
            for batch in _batches(rows):
                self._backend.add(self._entries(snapshot, index, dense, ids, batch))
            for batch in _batches(gone):
                self._backend.delete(batch)
            put_mirrored(index, self._name, wanted)
        self._checked = True

    def _entries(
        self,
        snapshot: Snapshot,
        index: Store,
        dense: DenseIndex,
        ids: Sequence[str],
        rows: Sequence[int],
    ) -> list[Entry]:
        node_ids = [snapshot.nodes.ids[int(dense.window_nodes[row])] for row in rows]
        nodes = index.nodes(list(dict.fromkeys(node_ids)))
        return [
            self._entry(snapshot, dense, ids, row, nodes[node_id].text)
            for row, node_id in zip(rows, node_ids, strict=True)
        ]

    def _entry(
        self, snapshot: Snapshot, dense: DenseIndex, ids: Sequence[str], row: int, text: str
    ) -> Entry:
        node = int(dense.window_nodes[row])
        node_id = snapshot.nodes.ids[node]
        start, end = snapshot.window_spans[row].tolist()
        own = common_metadata(snapshot, node)
        flat = {
            key: value
            for key, value in user_metadata(own).items()
            if isinstance(value, str | int | float | bool)
        }
        place = {
            "e2_node_id": node_id,
            "e2_source_id": snapshot.documents[int(snapshot.nodes.document[node])],
            "e2_level": int(snapshot.nodes.level[node]),
        }
        page = {PAGE_ID: own[PAGE_ID]} if PAGE_ID in own else {}
        return Entry(ids[row], text[start:end], dense.vectors[row], flat | place | page)


class MirrorSearch(VectorStoreSearch):
    """Searches the store; under a filter, which few could be told, the index's own vectors."""

    def __init__(
        self,
        query: StoreQuery,
        name: str,
        ids: Sequence[str],
        dense: DenseIndex,
        documents: Sequence[str],
    ) -> None:
        super().__init__(query, name, ids, dense.window_nodes, documents)
        self._dense = dense

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, with their cosines."""
        if allowed is not None:
            return self._dense.search_windows(query, count, allowed)
        return super().search_windows(query, count)


def _ids(snapshot: Snapshot, vectors: FloatArray, nodes: NDArray[np.int64]) -> list[str]:
    """Return an id for each vector that is the same only for the same vector of the same node."""
    numbers: dict[int, int] = {}
    ids = []
    for vector, node in zip(vectors, nodes.tolist(), strict=True):
        number = numbers.get(node, 0)
        numbers[node] = number + 1
        digest = hashlib.sha256(vector.tobytes()).hexdigest()
        ids.append(str(uuid.uuid5(_NAMESPACE, f"{snapshot.nodes.ids[node]}\0{number}\0{digest}")))
    return ids


def _batches(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[at : at + _BATCH] for at in range(0, len(items), _BATCH)]
