"""Dense search through a vector store, with the promises of the core's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import NodeSearch

_DIGITS = 6

StoreQuery = Callable[[FloatArray, int, Sequence[str] | None], list[tuple[str, float]]]


class UnavailableSearch(NodeSearch):
    """Stands where the vectors of an index are gone; fails the questions that need them.

    Args:
        error: Says what is gone.
        owners: The node of each window, shape (windows,).
    """

    def __init__(self, error: CorruptStoreError, owners: NDArray[np.int64]) -> None:
        self._error = error
        self._owners = owners

    @property
    def nodes(self) -> NDArray[np.int64]:
        """The node of each window."""
        return self._owners

    def windows(
        self,
        query: FloatArray,  # noqa: ARG002 - the port's signature
        count: int,  # noqa: ARG002 - the port's signature
        allowed: NDArray[np.bool_] | None = None,  # noqa: ARG002 - the port's signature
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Find nothing.

        Raises:
            CorruptStoreError: Always.
        """
        raise self._error


class VectorStoreSearch(NodeSearch):
    """Finds windows by cosine through a store.

    Args:
        query: Asks the store for the ids and cosines of the nearest vectors of some documents.
        name: Of the store, for messages.
        ids: The store's id of each window.
        owners: The node of each window, shape (windows,).
        documents: The document of each node.
    """

    def __init__(
        self,
        query: StoreQuery,
        name: str,
        ids: Sequence[str],
        owners: IntArray,
        documents: Sequence[str],
    ) -> None:
        self._query = query
        self._name = name
        self.ids = ids
        self._rows = {id_: row for row, id_ in enumerate(ids)}
        self._owners = np.asarray(owners, dtype=np.int64)
        self._documents = documents

    @property
    def nodes(self) -> NDArray[np.int64]:
        """The node of each window."""
        return self._owners

    def windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, with their cosines; ties to the earlier one.

        The store is asked for more and more until enough of what it finds counts: it may hold
        vectors that are not the index's, and nodes that may not be seen.

        Raises:
            CorruptStoreError: If the store finds none of the index's vectors.
        """
        usable = len(self._owners) if allowed is None else int(allowed[self._owners].sum())
        if count < 1 or not usable:
            return np.empty(0, dtype=np.int64), np.empty(0)
        documents = self._allowed_documents(allowed)
        fetch = count + 1
        while True:
            found = self._query(query, fetch, documents)
            # Scores that went through a distance differ in their last digits where cosines tie.
            hits = [(id_, round(cosine, _DIGITS)) for id_, cosine in found]
            known = [(self._rows[id_], cosine) for id_, cosine in hits if id_ in self._rows]
            seen = [hit for hit in known if allowed is None or allowed[self._owners[hit[0]]]]
            ranked = sorted(dict(seen).items(), key=lambda hit: (-hit[1], hit[0]))[:count]
            exhausted = len(hits) < fetch or len(ranked) == usable
            # What is not fetched may still tie with the last score.
            if len(ranked) == count and (exhausted or hits[-1][1] < ranked[-1][1]):
                break
            if not exhausted:
                fetch *= 4
            elif documents is not None and not known:
                documents = None  # this store knows documents by other names
            else:
                break
        self._check(ranked, usable)
        rows, cosines = zip(*ranked, strict=True)
        return np.asarray(rows, dtype=np.int64), np.asarray(cosines)

    def _check(self, ranked: list[tuple[int, float]], usable: int) -> None:
        if not ranked:
            raise CorruptStoreError(
                f"{self._name} holds none of the index's {usable} vectors that may be seen: pass "
                "the vector store that the index was made with, or build the index again"
            )

    def _allowed_documents(self, allowed: NDArray[np.bool_] | None) -> list[str] | None:
        if allowed is None:
            return None
        return list(
            dict.fromkeys(self._documents[node] for node in np.flatnonzero(allowed).tolist())
        )


def chroma_distance(collection: Any) -> str:
    """Return the distance of a Chroma collection: `cosine`, `ip`, or `l2`, its own default."""
    metadata = collection.metadata or {}
    if "hnsw:space" in metadata:
        return str(metadata["hnsw:space"])
    for configuration in ("configuration_json", "configuration"):  # by the version of Chroma
        hnsw = (getattr(collection, configuration, None) or {}).get("hnsw") or {}
        if "space" in hnsw:
            return str(hnsw["space"])
    return "l2"
