"""Dense search through an external vector store, with the guarantees of `NodeSearch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.search.fusion import Floats

_COSINE_DECIMALS = 6
"""Number of decimals to which cosines are rounded. A store that converts cosines to distances and
back changes the last digits of ties."""

_FETCH_FACTOR = 4
"""Factor by which to increase the vectors requested after too few usable results."""

_NEAREST = 200
"""Number of windows to search for the cosines of given windows."""

StoreQuery = Callable[[FloatArray, int, Sequence[str] | None], list[tuple[str, float]]]
"""Takes a query vector, a count, and the ids of the documents to search (None for all). Returns the
ids and cosines of the nearest vectors, best first."""

StoreRead = Callable[[Sequence[str]], FloatArray | None]
"""Takes vector ids and returns their vectors, or None if the store cannot return vectors."""


class VectorStoreSearch(NodeSearch):
    """Searches windows in an external vector store.

    Args:
        query: Searches the store.
        name: The store's name for error messages.
        ids: The id of each window in the store, shape (windows,).
        window_nodes: The node of each window, ascending, shape (windows,).
        documents: The document id of each node, shape (nodes,).
        read: Reads vectors from the store; None if it cannot return them.
    """

    def __init__(
        self,
        query: StoreQuery,
        name: str,
        ids: Sequence[str],
        window_nodes: IntArray,
        documents: Sequence[str],
        *,
        read: StoreRead | None = None,
    ) -> None:
        self._query = query
        self._read = read
        self._name = name
        self.ids = ids
        self._rows = {id_: row for row, id_ in enumerate(ids)}
        self.window_nodes = np.asarray(window_nodes, dtype=np.int64)
        self._documents = documents

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`.

        The store may also contain vectors that are not in the index, and windows of nodes that the
        filter excludes. The search requests more results until enough of them are usable.

        Raises:
            CorruptStoreError: If the store returns none of the index's vectors.
        """
        mask = np.ones(len(self.ids), np.bool_) if allowed is None else allowed[self.window_nodes]
        usable = int(mask.sum())
        if count < 1 or not usable:
            return np.empty(0, dtype=np.int64), np.empty(0)
        documents = self._allowed_documents(allowed)
        fetch = count + 1
        while True:
            hits = [
                (id_, round(cosine, _COSINE_DECIMALS))
                for id_, cosine in self._query(query, fetch, documents)
            ]
            known = [(self._rows[id_], cosine) for id_, cosine in hits if id_ in self._rows]
            matching = [hit for hit in known if mask[hit[0]]]
            ranked = sorted(dict(matching).items(), key=lambda hit: (-hit[1], hit[0]))[:count]
            exhausted = len(hits) < fetch or len(ranked) == usable
            # A window that was not fetched may tie with the last score.
            if len(ranked) == count and (exhausted or hits[-1][1] < ranked[-1][1]):
                break
            if not exhausted:
                fetch *= _FETCH_FACTOR
            elif documents is not None and not known:
                documents = None  # the store uses different document ids
            else:
                break
        if not ranked:
            raise CorruptStoreError(
                f"{self._name} contains none of the {usable} vectors to search: pass the vector "
                "store that the index was built with, or rebuild the index"
            )
        rows, cosines = zip(*ranked, strict=True)
        return np.asarray(rows, dtype=np.int64), np.asarray(cosines)

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows. See `NodeSearch`.

        If the store cannot return vectors, the nearest windows of their documents are searched; a
        window that is not among them gets the lowest cosine found, which is an upper bound.
        """
        cosines = self._read_cosines(query, windows)
        if cosines is not None:
            return cosines
        ids = [self.ids[window] for window in windows.tolist()]
        owners = dict.fromkeys(self.window_nodes[windows].tolist())
        documents = list(dict.fromkeys(self._documents[node] for node in owners))
        found = dict(self._query(query, max(len(ids), _NEAREST), documents))
        lowest = min(found.values(), default=0.0)
        return np.asarray([found.get(id_, lowest) for id_ in ids])

    def exact_cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the exact cosines of some windows. See `NodeSearch`.

        If the store cannot return vectors, all windows of these nodes are searched.
        """
        cosines = self._read_cosines(query, windows)
        return NodeSearch.cosines(self, query, windows) if cosines is None else cosines

    def _read_cosines(self, query: FloatArray, windows: IntArray) -> Floats | None:
        """Return the cosines with vectors from the store, or None if it cannot return them."""
        ids = [self.ids[window] for window in windows.tolist()]
        vectors = None if self._read is None else self._read(ids)
        if vectors is None:
            return None
        cosines: Floats = np.einsum("ij,j->i", vectors, query).round(_COSINE_DECIMALS)
        return cosines

    def cosines_of(self, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of several vectors and some windows. See `NodeSearch`."""
        vectors = None if self._read is None else self._read([self.ids[w] for w in windows])
        if vectors is None:
            return super().cosines_of(queries, windows)
        cosines: Floats = np.einsum("ij,kj->ik", vectors, queries).astype(np.float64)
        return cosines.round(_COSINE_DECIMALS)

    def _allowed_documents(self, allowed: NDArray[np.bool_] | None) -> list[str] | None:
        if allowed is None:
            return None
        nodes = np.flatnonzero(allowed).tolist()
        return list(dict.fromkeys(self._documents[node] for node in nodes))


def chroma_distance(collection: Any) -> str:
    """Return the distance metric of a Chroma collection: `cosine`, `ip` or `l2` (the default)."""
    metadata = collection.metadata or {}
    if "hnsw:space" in metadata:
        return str(metadata["hnsw:space"])
    for attribute in ("configuration_json", "configuration"):  # depends on Chroma's version
        hnsw = (getattr(collection, attribute, None) or {}).get("hnsw") or {}
        if "space" in hnsw:
            return str(hnsw["space"])
    return "l2"
