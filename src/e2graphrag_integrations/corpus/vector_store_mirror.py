"""`VectorStoreMirror`: copies an index's vectors to a vector store and searches them there."""

from __future__ import annotations

import abc
import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.pages import (
    PAGE_ID,
    PAGE_KEYS,
    SOURCE_ID,
    user_metadata,
    with_page_lists,
)
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.filters.where import NodeMask, Where, metadata_filter
from e2graphrag_integrations.retrieval.hydrate import common_metadata
from e2graphrag_integrations.search.dense import NodeSearch, OwnVectors
from e2graphrag_integrations.search.external import VectorStoreSearch
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.mirrored_vectors import put_mirrored, read_mirrored

_NAMESPACE = uuid.UUID("0c9d2f7a-61b4-5f0e-9a3c-4e8b7d615f20")
"""Namespace of the vector ids. A new value would orphan all copied vectors."""

_BATCH_SIZE = 500
"""Number of vectors per call to the vector store."""

_CHECKED = 100
"""Number of vectors whose scores in the vector store are compared with their cosines."""

_MIN_CORRELATION = 0.5
"""Lowest correlation between these. Stores may scale or compress, but must rank alike."""

_MIN_SPREAD = 0.1
"""Smallest difference between the highest and the lowest of the cosines that are compared."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A vector with its id, text and metadata."""

    id: str
    text: str
    vector: FloatArray
    metadata: Mapping[str, Any]


class MirrorStore(abc.ABC):
    """A vector store of a framework, which a `VectorStoreMirror` fills and searches.

    Args:
        store: The framework's object, whose secrets no error message may show.
    """

    def __init__(self, store: Any) -> None:
        self.store = store
        self.name = type(store).__name__

    @abc.abstractmethod
    def add(self, entries: Sequence[Entry]) -> None:
        """Add or replace vectors."""

    @abc.abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Remove vectors."""

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return the ids that the store does not contain; all ids if it has no lookup by id."""
        try:
            stored = self._stored(ids)
        except (NotImplementedError, AttributeError):
            return list(ids)
        return [id_ for id_ in ids if id_ not in stored]

    def query(
        self, vector: FloatArray, limit: int, store_filter: Any = None
    ) -> list[tuple[str, float]]:
        """Return the ids and cosines of the nearest vectors, best first.

        Args:
            vector: Unit vector, shape (dimension,).
            limit: Maximum number of results.
            store_filter: Filter in the store's own syntax.

        Raises:
            StoreError: If the store failed.
        """
        hint = "pass the vector store that the index was built with"
        if store_filter is not None:
            hint = f"check the syntax of store_filter, and {hint}"
        with wrap_errors(StoreError, f"{self.name} could not be searched", hint, self.store):
            found = self._search(vector.tolist(), limit, store_filter)
            hits = [(str(id_), self._cosine(float(score))) for id_, score in found]
        return sorted(hits, key=lambda hit: -hit[1])

    @abc.abstractmethod
    def _stored(self, ids: Sequence[str]) -> Collection[str]:
        """Return the ids that the store contains, and perhaps others."""

    @abc.abstractmethod
    def _search(
        self, vector: list[float], limit: int, store_filter: Any
    ) -> Iterable[tuple[str, float]]:
        """Return the ids and the store's own scores of the nearest vectors."""

    @abc.abstractmethod
    def _cosine(self, score: float) -> float:
        """Convert a score of the store to a cosine."""


class VectorStoreMirror:
    """Keeps a copy of an index's vectors in a vector store.

    The index file also contains the vectors, so the copy can be repaired at any time.

    Args:
        adapter: The vector store. Its name is also that of the file's record of copied vectors.
    """

    def __init__(self, adapter: MirrorStore) -> None:
        self._adapter = adapter
        self._name = adapter.name
        self._lock = process_lock()
        self._held: set[str] = set()  # ids that this object has added to the store, or found
        self._is_verified = False

    def node_filter(self, store_filter: Any, where: Where | None) -> NodeMask:
        """Combine a filter in the store's own syntax with a metadata filter.

        The store returns all vectors that match, so the filter applies to both routes. The metadata
        of a summary is the metadata that all chunks under it share.
        """

        def mask(snapshot: Snapshot) -> NDArray[np.bool_]:
            allowed = np.zeros(len(snapshot.nodes.ids), dtype=np.bool_)
            dense = snapshot.dense
            if not isinstance(dense, VectorStoreSearch):
                raise StoreError(
                    f"store_filter cannot be applied: {self._name} does not have the vectors of "
                    "the index; build it again"
                )
            if len(dense.ids):
                any_vector = np.zeros(int(snapshot.made_with["dimension"]), dtype=np.float32)
                any_vector[0] = 1
                rows = {id_: row for row, id_ in enumerate(dense.ids)}
                for id_ in self._matching(any_vector, rows, store_filter):
                    allowed[dense.window_nodes[rows[id_]]] = True
            if where is not None:
                allowed &= metadata_filter(where)(snapshot)
            return allowed

        return NodeMask(mask)

    def _matching(
        self, vector: NDArray[np.float32], own: Collection[str], store_filter: Any
    ) -> list[str]:
        """Return those of some ids whose vectors match a filter; the store may have many others."""
        limit = len(own)
        while True:
            found = [id_ for id_, _ in self._adapter.query(vector, limit, store_filter)]
            matching = [id_ for id_ in found if id_ in own]
            if len(found) < limit or len(matching) == len(own):
                return matching
            limit *= 4

    def search(self, snapshot: Snapshot, store: Store) -> NodeSearch:
        """Update the vector store to match a snapshot and return a search that uses it.

        This method is the `vector_search` argument of `E2GraphRAG.open`.

        Raises:
            StoreError: If the vector store failed.
            InvalidInputError: If its scores do not rank the vectors by their cosines.
        """
        dense = snapshot.own_vectors
        if dense is None:
            return snapshot.dense
        ids = _vector_ids(snapshot, dense)
        hint = "the next search or build tries again"
        what = f"{self._name} could not be updated"
        with self._lock, wrap_errors(StoreError, what, hint, self._adapter.store):
            self._update(snapshot, store, dense, ids)
        documents = [snapshot.documents[int(i)] for i in snapshot.nodes.document]
        return _MirrorSearch(self._adapter, self._name, ids, dense, documents)

    def _update(
        self, snapshot: Snapshot, store: Store, dense: OwnVectors, ids: Sequence[str]
    ) -> None:
        wanted = set(ids)
        recorded = read_mirrored(store, self._name)
        # Other programs may have changed the vector store since its last use: check it once. What
        # another process has recorded may be in a store of its own.
        was_verified, held = self._is_verified, self._held
        unverified = list((wanted & recorded) - held if was_verified else wanted & recorded)
        lost = {id_ for batch in _batches(unverified) for id_ in self._adapter.missing(batch)}
        new = (wanted - recorded) | lost
        old = sorted((recorded | held) - wanted)
        self._is_verified = False  # remains False if an update fails
        self._held = held | wanted
        if new or old:
            # Record the ids first, so that a failure leaves no unrecorded vectors in the store.
            put_mirrored(store, self._name, recorded | wanted)
            rows = [row for row, id_ in enumerate(ids) if id_ in new]
            for batch in _batches(rows):
                self._adapter.add(_entries(snapshot, store, dense, ids, batch))
            for batch in _batches(old):
                self._adapter.delete(batch)
            put_mirrored(store, self._name, wanted)
        if not was_verified and ids:
            self._check_scores(dense, ids)
        self._is_verified, self._held = True, wanted

    def _check_scores(self, dense: OwnVectors, ids: Sequence[str]) -> None:
        """Compare the order of the vector store with that of exact cosines.

        Frameworks do not say what the scores of a store mean, and some stores embed texts
        themselves. What a store does not return yet cannot be compared.

        Raises:
            InvalidInputError: If it is another one.
        """
        vector = dense.vectors[0]
        scores = dict(self._adapter.query(vector, min(_CHECKED, len(ids))))
        rows = np.asarray([row for row, id_ in enumerate(ids) if id_ in scores], dtype=np.int64)
        exact = dense.cosines(vector, rows)
        if len(rows) < 2 or np.ptp(exact) < _MIN_SPREAD:  # noqa: PLR2004 - two have an order
            return
        found = np.asarray([scores[ids[row]] for row in rows.tolist()])
        if np.ptp(found) and np.corrcoef(found, exact)[0, 1] >= _MIN_CORRELATION:
            return
        best, worst = int(np.argmax(exact)), int(np.argmin(exact))
        raise InvalidInputError(
            f"{self._name} ranks vectors of the index wrongly (the scores {found[best]:.2f} and "
            f"{found[worst]:.2f} for the cosines {exact[best]:.2f} and {exact[worst]:.2f}): use a "
            "vector store that keeps the vectors it is given and scores them by cosine distance, "
            "such as Qdrant or Chroma, or none"
        )


_MIN_ALLOWED = 0.5
"""Share of the nodes that a search must allow for the vector store to be searched."""


class _MirrorSearch(VectorStoreSearch):
    """Searches the vector store or, if a filter is selective, the index's own vectors.

    A node mask cannot be expressed as a filter for an arbitrary vector store, so a search requests
    more results until enough of them are allowed. A mask can just leave out summaries that repeat
    the text of a chunk.
    """

    def __init__(
        self,
        adapter: MirrorStore,
        name: str,
        ids: Sequence[str],
        dense: OwnVectors,
        documents: Sequence[str],
    ) -> None:
        def query(vector: FloatArray, count: int, _: object) -> list[tuple[str, float]]:
            return adapter.query(vector, count)

        super().__init__(query, name, ids, dense.window_nodes, documents)
        self._dense = dense

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`."""
        if allowed is not None and allowed.mean() < _MIN_ALLOWED:
            return self._dense.search_windows(query, count, allowed)
        rows, _ = super().search_windows(query, count, allowed)
        cosines = np.asarray(self._dense.cosines(query, rows), dtype=np.float64)
        order = np.lexsort((rows, -cosines))  # the scores of the store may be scaled
        return rows[order], cosines[order]

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows, from the index's own vectors."""
        return self._dense.cosines(query, windows)


def _entries(
    snapshot: Snapshot, store: Store, dense: OwnVectors, ids: Sequence[str], rows: Sequence[int]
) -> list[Entry]:
    """Return the vectors in some rows with the text of each vector's window."""
    node_rows = [int(dense.window_nodes[row]) for row in rows]
    nodes = store.nodes(list(dict.fromkeys(snapshot.nodes.ids[node] for node in node_rows)))
    entries = []
    for row, node in zip(rows, node_rows, strict=True):
        start, end = snapshot.window_spans[row].tolist()
        text = nodes[snapshot.nodes.ids[node]].text[start:end]
        entries.append(Entry(ids[row], text, dense.vectors[row], _entry_metadata(snapshot, node)))
    return entries


def _entry_metadata(snapshot: Snapshot, node: int) -> dict[str, Any]:
    """Return the metadata of a node, without values of types that some stores reject.

    The lists of pages become strings, such as "2, 3".
    """
    common = common_metadata(snapshot, node)
    page_lists = set(PAGE_KEYS.values())
    metadata = {
        key: ", ".join(map(str, value)) if key in page_lists and isinstance(value, list) else value
        for key, value in with_page_lists(user_metadata(common)).items()
        if isinstance(value, str | int | float | bool) or key in page_lists
    }
    metadata |= {
        "e2_node_id": snapshot.nodes.ids[node],
        SOURCE_ID: snapshot.documents[int(snapshot.nodes.document[node])],
        "e2_level": int(snapshot.nodes.level[node]),
    }
    return metadata | ({PAGE_ID: common[PAGE_ID]} if PAGE_ID in common else {})


def _vector_ids(snapshot: Snapshot, dense: OwnVectors) -> list[str]:
    """Return a UUID for each vector, derived from its node, window number and value."""
    window_counts: dict[int, int] = {}
    ids = []
    for vector, node in zip(dense.vectors[:], dense.window_nodes.tolist(), strict=True):
        number = window_counts.get(node, 0)
        window_counts[node] = number + 1
        digest = hashlib.sha256(vector.tobytes()).hexdigest()
        ids.append(str(uuid.uuid5(_NAMESPACE, f"{snapshot.nodes.ids[node]}\0{number}\0{digest}")))
    return ids


def _batches(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[start : start + _BATCH_SIZE] for start in range(0, len(items), _BATCH_SIZE)]
