"""Retrieval from the last complete snapshot of a store while writers change the store."""

from __future__ import annotations

import logging
import math
import shlex
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import CorruptStoreError, E2GraphRAGError, StoreError
from e2graphrag_integrations.options import FreshnessPolicy
from e2graphrag_integrations.reports import Freshness
from e2graphrag_integrations.retrieval.generations import (
    Generation,
    GenerationKeeper,
    Served,
)
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.pipeline import retrieve
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import ChunkField, Query, Strategy
from e2graphrag_integrations.search.bm25 import BM25Index, build_bm25
from e2graphrag_integrations.search.dense import FLOAT32, DenseIndex, NodeSearch, VectorKind
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.window_texts import window_texts
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.queue import count_unfinished
from e2graphrag_integrations.store.records import StaleSnapshotError
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import Node, Sentences

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.background.process import PreparingProcess
    from e2graphrag_integrations.retrieval.scopes import Scope, ScopedSnapshots

logger = logging.getLogger(__name__)


class UnfinishedDocuments:
    """Counts the documents that wait to be indexed, and warns once that answers lack them.

    They never stop a question: it is answered from what is indexed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checked_at: str | None = None
        self._has_warned = False
        self.count = 0

    def check(self, generation: str) -> None:
        """Warn if documents wait, before a question to a generation that was not checked yet."""
        if self._checked_at == generation:
            return
        self._checked_at = generation
        self.recount()
        if self.count and not self._has_warned:
            from e2graphrag_integrations.store.index_state import RESUME, read_state

            state = read_state(self._store)
            if not state.unfinished:  # they were indexed meanwhile
                return
            self._has_warned = True
            path = self._store.path
            if state.writer is not None:
                logger.warning("%s: %s", path, state.note())
                return
            command = "" if path == MEMORY else f", or run `{RESUME} {shlex.quote(path)}`"
            logger.warning(
                "%s: %s: call build() of LangChain's or LlamaIndex's index, or resume() of "
                "E2GraphRAG%s",
                path,
                state.lack().rstrip("."),
                command,
            )

    def recount(self) -> int:
        """Return the number of documents that wait now; the last one if it cannot be read."""
        try:
            self.count = count_unfinished(self._store)
        except StoreError:  # some readers may not see the queue
            logger.debug("cannot count the documents that are not indexed yet", exc_info=True)
        return self.count

    def forget(self) -> None:
        """Count again at the next question, because the documents may have changed."""
        self._checked_at = None


ATTEMPTS = 5
"""Number of retrievals to try without a lock. If a writer changes the file during each attempt, the
next attempt blocks writers."""

T = TypeVar("T")

FieldLoader = Callable[[Snapshot, Store], Callable[[Snapshot], ChunkField] | None]
"""Returns what loads the field of a snapshot; see `RetrievalSession`."""


class RetrievalSession:
    """Retrieves from a store; safe for concurrent use by several threads.

    The last complete generation answers questions, if the policy allows it, while the next one is
    prepared in the background. Documents that were changed or deleted since are left out: their
    rows no longer exist. Everything else reads the newest generation.

    Args:
        store: The index file.
        components: The models that the index uses.
        node_search: Returns the vector search to use with a snapshot; None searches the vectors in
            the file.
        policy: How old an answer may be.
        field_loader: Returns a function that loads the `ChunkField` of a snapshot, or None if its
            chunks have none.
        kind: The kind of the vectors of the snapshots.
    """

    def __init__(
        self,
        store: Store,
        components: Components,
        node_search: Callable[[Snapshot], NodeSearch] | None = None,
        policy: FreshnessPolicy | None = None,
        field_loader: FieldLoader = lambda *_: None,
        *,
        kind: VectorKind = FLOAT32,
    ) -> None:
        self._kind = kind
        self._store = store
        self._components = components
        self._node_search = node_search
        self._field_loader = field_loader
        policy = FreshnessPolicy() if policy is None else policy
        self._process_from = policy.process_from
        self._preparing: PreparingProcess | None = None  # until a large index changes
        self._is_closed = False
        self._preparing_lock = process_lock()
        self._generations = GenerationKeeper(
            store,
            self._build,
            policy,
            build_in_background=self._build_in_background,
            needs_merge=self._needs_merge,
            run_in_background=self._prepare_in_background,
        )
        self._scopes: ScopedSnapshots | None = None
        self._scopes_lock = process_lock()
        self._unfinished = UnfinishedDocuments(store)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the store's newest generation.

        Raises:
            StoreError: If it cannot be prepared.
        """
        return self._generations.newest().snapshot

    def freshness(self) -> Freshness:
        """Return how old the answer to a question would be that may not wait."""
        pending = self._unfinished.recount()
        return replace(self._generations.freshness(), pending=pending)

    def note_write(self) -> None:
        """Record that the store may have been changed through the same object."""
        self._unfinished.forget()
        self._generations.note_write()

    def close(self) -> None:
        """Stop preparing generations in the background, and release the snapshots."""
        with self._preparing_lock:
            self._is_closed, process = True, self._preparing
        self._generations.cancel()
        if process is not None:
            process.close()  # first, because a thread may wait for it
        self._generations.close()
        if process is not None:
            process.close()  # again, because the snapshots are released now
        with self._scopes_lock:
            self._scopes = None

    def retrieve(
        self, query: Query, strategy: Strategy, scope: Scope | None = None
    ) -> RetrievalResult:
        """Return the result of a query, read from a single generation.

        Args:
            query: The query.
            strategy: Ranks the nodes.
            scope: The part of the index that the query sees; None means all of it. In a scope, the
                trace does not say how old the answer is, because that depends on all changes.

        Raises:
            StoreError: If the newest generation must be prepared, but cannot be.
            CorruptStoreError: If a row is missing or does not match its checksum.
        """
        served = self._generations.current()
        if scope is None:  # a scope says nothing about documents outside it
            self._unfinished.check(served.generation.name)
        met_changes = False  # whether the last attempt found a changed document
        for _ in range(ATTEMPTS):
            try:
                view = self._view(served.generation, scope)
                asked = without_changed_documents(query, view.seen) if met_changes else query
                result = self._answer(asked, strategy, view)
            except StaleSnapshotError as error:
                generation, met_changes = served.generation, bool(error.documents)
                reduced = generation
                if met_changes:
                    changed = view.rows_in_generation(error.documents)
                    generation = self._generations.leave_out(generation, changed)
                    reduced = view.without(error.documents, generation)
                elif generation.name == self._store.generation:
                    raise self._corrupt(error) from error
                served = replace(served, generation=generation)
                if not met_changes or reduced.leaves_out_too_much:
                    served = self._newer(served, is_needed=not met_changes)
            else:
                served = self._generations.answered(served)
                return self._with_freshness(result, served, scope)
        return self._answer_at_last(query, strategy, scope, served)

    def _answer_at_last(
        self, query: Query, strategy: Strategy, scope: Scope | None, served: Served
    ) -> RetrievalResult:
        """Return the result of a query during whose attempts documents have changed."""
        with self._store.read_transaction():  # blocks writers
            try:
                view = self._latest_view(served.generation.base, scope)
                result = self._answer(query, strategy, view)
            except StaleSnapshotError as error:
                raise self._corrupt(error) from error
        return self._with_freshness(result, replace(served, generation=view.generation), scope)

    def read(self, work: Callable[[Snapshot, NodeSource], T], scope: Scope | None = None) -> T:
        """Return the result of a function that reads the store through the newest generation.

        Args:
            work: Called with a snapshot and its nodes; again with newer ones if it raises
                `StaleSnapshotError`.
            scope: The part of the index that the function sees; None means all of it.

        Raises:
            CorruptStoreError: If a row is missing or does not match its checksum.
        """
        for _ in range(ATTEMPTS):
            generation = self._generations.newest()
            try:
                view = self._view(generation, scope)
                return work(view.seen.snapshot, view.source(self._store))
            except StaleSnapshotError as error:
                # If no writer has deleted the node since, the file is damaged.
                if generation.name == self._store.generation:
                    raise self._corrupt(error) from error
        with self._store.read_transaction():  # blocks writers
            try:
                view = self._latest_view(generation.base, scope)
                return work(view.seen.snapshot, view.source(self._store))
            except StaleSnapshotError as error:
                raise self._corrupt(error) from error

    def _latest_view(self, older: Snapshot, scope: Scope | None) -> View:
        """Return what a question sees of the state of the read transaction of this thread.

        The snapshot of a scope is made for this question alone: a thread that makes the shared one
        may wait for the read transaction.
        """
        snapshot, base = self._build(self._store, older)
        return self._view(Generation(snapshot, base, math.inf), scope, self._new_scoped_snapshots)

    def _view(
        self,
        generation: Generation,
        scope: Scope | None,
        scopes: Callable[[], ScopedSnapshots] | None = None,
    ) -> View:
        """Return the part of a generation that a scope contains.

        `scopes` returns the snapshots of scopes; None stands for those of the session.

        Raises:
            StaleSnapshotError: If a text of the scope changed before its words could be read.
        """
        if scope is None:
            return View(generation, generation)
        source = _UnchangedDocuments(self._store, generation)

        def bm25_of(snapshot: Snapshot) -> BM25Index:
            ids = list(snapshot.nodes.ids)
            nodes = source.nodes_at(generation.name, ids)
            return build_bm25(window_texts(snapshot, (nodes[id_].text for id_ in ids)))

        scopes = self._scoped_snapshots if scopes is None else scopes
        snapshot = scopes().get(scope, generation.base, bm25_of)
        left_out = generation.left_out_in(snapshot)
        seen = replace(generation, snapshot=snapshot, base=snapshot, left_out=left_out)
        return View(generation, seen)

    def _scoped_snapshots(self) -> ScopedSnapshots:
        """Return the snapshots of scopes, which the first question in a scope needs."""
        with self._scopes_lock:
            if self._scopes is None:
                self._scopes = self._new_scoped_snapshots()
            return self._scopes

    def _new_scoped_snapshots(self) -> ScopedSnapshots:
        from e2graphrag_integrations.retrieval.scopes import ScopedSnapshots

        # Other vector searches, such as those of servers, are searched through a mask.
        node_search = None if self._kind.rescored is None else self._node_search
        return ScopedSnapshots(node_search=node_search)

    def _answer(self, query: Query, strategy: Strategy, view: View) -> RetrievalResult:
        source, snapshot = view.source(self._store), view.seen.snapshot
        if snapshot.chunk_field is not None:
            query = replace(query, options=(*query.options, snapshot.chunk_field))
        dense = snapshot.dense
        if isinstance(dense, DenseIndex):
            return retrieve(query, strategy, snapshot, source, self._components)
        from e2graphrag_integrations.search.vector_index import VectorIndexSearch

        if not isinstance(dense, VectorIndexSearch):
            return retrieve(query, strategy, snapshot, source, self._components)
        with dense.recording() as use:
            result = retrieve(query, strategy, snapshot, source, self._components)
            return replace(result, trace=replace(result.trace, vectors=use()))

    def _with_freshness(
        self, result: RetrievalResult, served: Served, scope: Scope | None
    ) -> RetrievalResult:
        if scope is not None:
            return result
        freshness = self._generations.freshness(served)
        return with_freshness(result, replace(freshness, pending=self._unfinished.count))

    def _newer(self, served: Served, *, is_needed: bool) -> Served:
        """Wait for the newest generation, if it can be prepared or is needed; see `retrieve`."""
        started = time.monotonic()
        try:
            newest = self._generations.newest()
        except (E2GraphRAGError, OSError, MemoryError):
            if is_needed:
                raise
            newest = served.generation
        waited = served.waited + time.monotonic() - started
        return replace(served, generation=newest, waited=waited)

    def _build(self, store: Store, older: Snapshot | None) -> tuple[Snapshot, Snapshot]:
        """Return the newest snapshot, and the same with the vectors in the file."""
        return self._completed(store, load_or_build_snapshot(store, older, kind=self._kind))

    def _prepare_in_background(self, prepare: Callable[[], object]) -> None:
        """Prepare a generation in a thread of its own."""
        prepare()

    def _build_in_background(
        self, store: Store, older: Snapshot | None, pause: Callable[[], None]
    ) -> tuple[Snapshot, Snapshot]:
        """Return the result of `_build`, for which another process prepares a large snapshot."""
        process = None if older is None else self._process_for(store, older)
        if older is None or process is None:
            return self._build(store, older)
        prepared = process.prepare(store, older, pause)
        if prepared is not None:
            return self._completed(store, prepared)
        if self._is_closed:
            raise StoreError(f"{store.path} is closed")
        return self._build(store, older)

    def _process_for(self, store: Store, older: Snapshot) -> PreparingProcess | None:
        """Return the process that prepares what follows a snapshot; None for a thread."""
        least, file = self._process_from, store.file
        if file is None or least is None or len(older.nodes.ids) < least:
            return None
        from e2graphrag_integrations.retrieval.background.process import PreparingProcess

        with self._preparing_lock:
            if self._preparing is None and not self._is_closed:
                self._preparing = PreparingProcess(file, kind=self._kind)
            process = self._preparing
        return process if process is not None and process.suits(older) else None

    def _needs_merge(self, base: Snapshot) -> bool:
        """Return whether to merge the segments of a snapshot here: the other process merges its."""
        from e2graphrag_integrations.snapshot.incremental import needs_merge

        process = self._preparing
        return (process is None or not process.is_running) and needs_merge(base)

    def _completed(self, store: Store, base: Snapshot) -> tuple[Snapshot, Snapshot]:
        """Return a snapshot with the field of its chunks and other vectors, and without these."""
        load_field = self._field_loader(base, store)
        if load_field is not None:
            base = replace(base, field_factory=load_field, prebuilt_bm25=base.loaded_bm25)
        if self._node_search is None:
            return base, base
        # BM25 belongs to the base snapshot, so that the next build can reuse it. The tags are
        # assigned with the vectors in the file.
        snapshot = replace(
            base,
            dense=self._node_search(base),
            bm25_factory=lambda _: base.bm25,
            tags_factory=lambda _: base.chunk_tags,
        )
        return snapshot, base

    def _corrupt(self, error: StaleSnapshotError) -> CorruptStoreError:
        return CorruptStoreError(f"{self._store.path}: {error}; run verify()")


@dataclass(frozen=True, eq=False)
class View:
    """What a question sees of a generation.

    Attributes:
        generation: The generation.
        seen: The same with the snapshot of the scope of the question, if it has one.
    """

    generation: Generation
    seen: Generation

    def source(self, store: Store) -> NodeSource:
        """Return the stored nodes."""
        unchanged = _UnchangedDocuments(store, self.generation)
        if self.seen is self.generation:
            return unchanged
        from e2graphrag_integrations.retrieval.scopes import ScopedNodes

        return ScopedNodes(unchanged, self.generation.name, self.seen.snapshot)

    def without(self, documents: frozenset[int], generation: Generation) -> Generation:
        """Return what is seen of a generation that also leaves out some documents."""
        if self.seen is self.generation:
            return generation
        return replace(self.seen, left_out=self.seen.left_out | documents)

    def rows_in_generation(self, documents: frozenset[int]) -> frozenset[int]:
        """Return the rows in the generation of documents that are given by what is seen."""
        if self.seen is self.generation:
            return documents
        ids = self.generation.snapshot.documents  # sorted
        seen = self.seen.snapshot.documents
        return frozenset(bisect_left(ids, seen[row]) for row in documents)


class _UnchangedDocuments:
    """Reads the nodes of a generation from a store that may be newer.

    Nodes of documents that were changed or deleted since raise a `StaleSnapshotError`.
    """

    def __init__(self, store: Store, generation: Generation) -> None:
        self._store = store
        self._generation = generation

    def nodes_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Node]:
        """Return nodes by id; see `NodeSource`."""
        return self._store.nodes_at(generation, ids, self._generation.stamp_of)

    def mentions_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Sentences]:
        """Return the mentions in each sentence of chunks, by id; see `NodeSource`."""
        return self._store.mentions_at(generation, ids, self._generation.stamp_of)


def without_changed_documents(query: Query, generation: Generation) -> Query:
    """Return a query whose filter also excludes the documents that a generation leaves out."""
    visible, where = generation.visible_nodes(), query.where

    def mask(snapshot: Snapshot) -> NDArray[np.bool_]:
        return visible if where is None else visible & where(snapshot)

    return replace(query, where=mask)


def with_freshness(result: RetrievalResult, freshness: Freshness) -> RetrievalResult:
    """Return a result whose trace says how old it is."""
    timings = dict(result.trace.timings)
    if freshness.waited:
        timings["wait"] = freshness.waited
    return replace(result, trace=replace(result.trace, freshness=freshness, timings=timings))
