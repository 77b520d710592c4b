"""Reading while others write: one snapshot an answer, the newest there is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.retrieval.pipeline import Request, answer
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.snapshot.files import current_snapshot
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.records import NodeGoneError
from e2graphrag_integrations.store.sqlite import Store

_ATTEMPTS = 5
"""How often an answer starts over because a writer changed the file under it."""


class RetrievalSession:
    """Answers requests over the store's present state; safe from many threads."""

    def __init__(self, store: Store, components: Components) -> None:
        self._store = store
        self._components = components
        self._refreshing = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._own: Snapshot | None = None  # the same, with its own vectors
        self._through: Callable[[Snapshot], NodeSearch] | None = None

    def search_through(self, searches: Callable[[Snapshot], NodeSearch] | None) -> None:
        """Search vectors elsewhere: what `searches` makes of a snapshot stands in for its own."""
        with self._refreshing:
            self._through = searches
            self._snapshot = None

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the store's present generation."""
        held = self._snapshot
        generation = self._store.generation
        if held is not None and held.generation == generation:
            return held
        with self._refreshing:
            if self._snapshot is None or self._snapshot.generation != self._store.generation:
                self._snapshot = self._current()
            return self._snapshot

    def _current(self) -> Snapshot:
        snapshot = self._own = current_snapshot(self._store, self._own)
        if self._through is None:
            return snapshot
        # Words are kept with what the next snapshot is made from.
        return replace(
            snapshot, dense=self._through(snapshot), lexical_from=lambda _: snapshot.lexical
        )

    def answer(self, request: Request) -> RetrievalResult:
        """Return the result of a request, all of it from one generation.

        Raises:
            CorruptStoreError: If a row read for the answer is missing or fails its checksum.
        """
        for _ in range(_ATTEMPTS):
            snapshot = self.snapshot()
            try:
                return answer(request, snapshot, self._store, self._components)
            except NodeGoneError as error:
                # A writer deleted it between ranking and reading; else the file is damaged.
                if snapshot.generation == self._store.generation:
                    raise CorruptStoreError(f"{self._store.path}: {error}; run verify()") from error
        with self._store.consistent():  # writers wait
            try:
                snapshot = self._current()
                return answer(request, snapshot, self._store, self._components)
            except NodeGoneError as error:
                raise CorruptStoreError(f"{self._store.path}: {error}; run verify()") from error
