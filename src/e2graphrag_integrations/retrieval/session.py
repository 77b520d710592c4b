"""Retrieval over the newest snapshot of a store while writers change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from e2graphrag_integrations._utils.processes import process_lock
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.retrieval.pipeline import retrieve
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import Query, Strategy
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.records import StaleSnapshotError
from e2graphrag_integrations.store.sqlite import Store

_ATTEMPTS = 5
"""Number of retrievals to try without a lock. If a writer changes the file during each attempt, the
next attempt blocks writers."""

T = TypeVar("T")


class RetrievalSession:
    """Retrieves from the current state of a store; safe for concurrent use by several threads.

    Args:
        store: The index file.
        components: The models that the index uses.
        node_search: Returns the vector search to use with a snapshot; None searches the vectors in
            the file.
    """

    def __init__(
        self,
        store: Store,
        components: Components,
        node_search: Callable[[Snapshot], NodeSearch] | None = None,
    ) -> None:
        self._store = store
        self._components = components
        self._node_search = node_search
        self._lock = process_lock()  # while one thread builds a snapshot, the others wait
        self._snapshot: Snapshot | None = None
        self._base: Snapshot | None = None  # the same, with the file's vectors; for the next build

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the store's current generation."""
        snapshot = self._snapshot
        if snapshot is not None and snapshot.generation == self._store.generation:
            return snapshot
        with self._lock:
            if self._snapshot is None or self._snapshot.generation != self._store.generation:
                self._snapshot = self._build()
            return self._snapshot

    def retrieve(self, query: Query, strategy: Strategy) -> RetrievalResult:
        """Return the result of a query, read from a single generation; see `read` for errors."""
        return self.read(
            lambda snapshot: retrieve(query, strategy, snapshot, self._store, self._components)
        )

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Return the result of a function that reads the store through a single generation.

        Args:
            work: Called again with a newer snapshot if it raises `StaleSnapshotError`.

        Raises:
            CorruptStoreError: If a row is missing or does not match its checksum.
        """
        for _ in range(_ATTEMPTS):
            snapshot = self.snapshot()
            try:
                return work(snapshot)
            except StaleSnapshotError as error:
                # If no writer has deleted the node since, the file is damaged.
                if snapshot.generation == self._store.generation:
                    raise self._corrupt(error) from error
        with self._store.read_transaction():  # blocks writers
            try:
                return work(self._build())
            except StaleSnapshotError as error:
                raise self._corrupt(error) from error

    def _build(self) -> Snapshot:
        base = self._base = load_or_build_snapshot(self._store, self._base)
        if self._node_search is None:
            return base
        # BM25 belongs to the base snapshot, so that the next build can reuse it. The tags are
        # assigned with the vectors in the file.
        return replace(
            base,
            dense=self._node_search(base),
            bm25_factory=lambda _: base.bm25,
            tags_factory=lambda _: base.chunk_tags,
        )

    def _corrupt(self, error: StaleSnapshotError) -> CorruptStoreError:
        return CorruptStoreError(f"{self._store.path}: {error}; run verify()")
