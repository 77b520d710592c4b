"""What an open index consists of: its file, models, snapshots and locks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from e2graphrag_integrations._utils.validation import check_bool, check_text
from e2graphrag_integrations.engine.opening import IndexParts
from e2graphrag_integrations.errors import ClosedError, InvalidInputError, StoreError
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.indexing.inputs import EngineArgument, as_engine, as_ids
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.options import check_call_limit
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.reports import DocumentStatus, Freshness, ProgressListener, Stats
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.session import RetrievalSession
from e2graphrag_integrations.retrieval.strategy import ChunkField, Query, Strategy
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.database import Writer
from e2graphrag_integrations.store.queue import queue_states, queued_ids
from e2graphrag_integrations.store.records import ATTACHED
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import Node, Segment, SourceDocument

if TYPE_CHECKING:
    from e2graphrag_integrations.indexing.pending import PendingDocuments
    from e2graphrag_integrations.store.index_state import IndexState

T = TypeVar("T")


def field_loader(snapshot: Snapshot, store: Store) -> Callable[[Snapshot], ChunkField] | None:
    """Return what loads the words that an enricher has added to chunks; None if there are none."""
    if ATTACHED not in snapshot.made_with:
        return None
    from e2graphrag_integrations.enrichment.field import load_field

    return partial(load_field, store)


class OpenEngine(IndexReader):
    """An open index: what it contains and answers, before any write.

    `E2GraphRAG` adds writes, entities and files.
    """

    def __init__(
        self,
        parts: Any = None,
        arguments: Mapping[str, Any] | None = None,
        **wrong: Any,
    ) -> None:
        if wrong or not isinstance(parts, IndexParts):
            raise InvalidInputError("an E2GraphRAG is opened by E2GraphRAG.open(path, ...)")
        self._index = parts.index
        self._store = parts.index.store
        self._strategy = parts.strategy
        self._writes = parts.options.writes
        self._arguments = {} if arguments is None else dict(arguments)
        self._vectors = parts.vectors
        self._hooks = parts.hooks
        self._session = RetrievalSession(
            self._store,
            self._index.components,
            parts.node_search,
            parts.options.freshness,
            field_loader,
            kind=parts.kind,
        )
        self._index.after_write = self._session.note_write

    @property
    def embedder(self) -> Embedder:
        """The embedding model, loaded on first use.

        Raises:
            MissingDependencyError: If the package of the model is not installed.
        """
        return self._index.components.embedder.embedder

    @property
    def strategy(self) -> Strategy:
        """The default retrieval strategy."""
        return self._strategy

    def answer(self, query: Query, strategy: Strategy) -> RetrievalResult:
        """Return the result of a query; for integrations."""
        return self._session.retrieve(query, strategy)

    def read_snapshot(self, work: Callable[[Snapshot, NodeSource], T]) -> T:
        """Return the result of a function of the newest snapshot and its stored nodes."""
        return self._session.read(work)

    def refresh(self) -> None:
        """Prepare the newest state for questions now, and any external vector store.

        The next answer then contains all changes that were committed before this call. This does
        not update the vector index of `vectors=`; see `update_vectors`.

        Raises:
            StoreError: If the newest state cannot be prepared, or the vector store fails.
        """
        self._session.snapshot()
        if self._vectors is not None:
            self._vectors.reload()

    async def arefresh(self) -> None:
        """Run `refresh` in a thread."""
        await asyncio.to_thread(self.refresh)

    def freshness(self) -> Freshness:
        """Return how old the next answer would be if it did not wait; see `Freshness`.

        Raises:
            ClosedError: If the index is closed.
        """
        if self._store.is_closed:
            raise ClosedError(f"index {self.path} is closed: open it again")
        with contextlib.suppress(StoreError):  # the file may be read-only
            self._hooks.drop_indexed()
        return self._session.freshness()

    @property
    def graph(self) -> EntityGraph:
        """The current entity graph."""
        return self._session.snapshot().graph

    @property
    def settings(self) -> Settings:
        """The settings of the index."""
        return self._index.settings

    @property
    def made_with(self) -> Mapping[str, str]:
        """The settings and the model fingerprints; empty for an index without documents."""
        return self._store.manifest()

    @property
    def path(self) -> str:
        """The path of the index file, or `:memory:` for an in-memory index."""
        return self._store.path

    @property
    def document_ids(self) -> list[str]:
        """The ids of all indexed documents, sorted."""
        return sorted(self._store.content_hashes())

    def document(self, document_id: str) -> SourceDocument:
        """Return a document.

        Raises:
            UnknownDocumentError: If it is not in the index.
        """
        return self._store.document(check_text("document id", document_id))

    def nodes(self, ids: str | Iterable[str]) -> dict[str, Node]:
        """Return nodes by id; unknown ids are left out."""
        return self._store.nodes(as_ids(ids))

    def stats(self) -> Stats:
        """Return counts of documents, nodes, entities, edges and vectors, and the file size."""
        from e2graphrag_integrations.portability.stats import snapshot_stats

        store = self._store
        size = 0 if store.path == MEMORY else store.database.size()
        return snapshot_stats(self._session.snapshot(), store.manifest(), size)

    def _run_options(
        self,
        max_llm_calls: int | None,
        progress: ProgressListener | None,
        engine: EngineArgument | None = None,
        *,
        wait: bool = True,
    ) -> IndexingRun:
        limit = self._writes.max_llm_calls if max_llm_calls is None else max_llm_calls
        return IndexingRun(
            progress=progress,
            max_llm_calls=check_call_limit(limit),
            engine=as_engine(self._writes.engine if engine is None else engine),
            wait=check_bool("wait", wait),
        )

    def stop(self) -> None:
        """Stop indexing: other threads finish their calls in flight, then raise StoppedError."""
        self._index.stop()

    def status(self) -> list[DocumentStatus]:
        """Return the state of every indexed or queued document, sorted by id."""
        with self._store.read_transaction():
            indexed = self._store.content_hashes()
            queued = queue_states(self._store)
            holders = self._store.database.lease_holders()
        states = []
        for id_ in sorted({*indexed, *queued}):
            state = DocumentStatus(id_, "done")
            if id_ in queued:
                state = DocumentStatus(id_, *queued[id_], id_ in indexed)
            if id_ in holders:
                worker, since = holders[id_].worker, holders[id_].since.isoformat()
                state = replace(state, status="processing", worker=worker, since=since)
            states.append(state)
        return states

    def state(self, *, is_writing: bool = False) -> IndexState:
        """Return how many documents are in which state, and who writes; quicker than `status`.

        Args:
            is_writing: Whether this process is indexing documents of the queue.
        """
        from e2graphrag_integrations.store.index_state import read_state

        return read_state(self._store, is_writing=is_writing)

    def queued_ids(self) -> set[str]:
        """Return the ids of the documents in the queue."""
        return queued_ids(self._store)

    @contextlib.contextmanager
    def write_lock(self, run: IndexingRun | None = None) -> Iterator[None]:
        """Keep other threads and processes from writing during a `with` block. Reentrant.

        Args:
            run: Options of an indexing run; its `stop` also ends the wait for the lock.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            StoppedError: If the run was stopped while it waited.
            InvalidInputError: If a running write operation needs this thread's event loop.
        """
        with self._hooks.around_write(), self._index.exclusive(run):
            yield

    def follow_write(self) -> None:
        """Update the vector index of `vectors=` after a write; a failure is logged."""
        if self._vectors is not None:
            self._vectors.update_after_write()

    @property
    def has_llm(self) -> bool:
        """Whether a language model writes the summaries of new documents."""
        return bool(getattr(self._index.components.summarizer, "uses_llm", True))

    def writer(self) -> Writer | None:
        """Return which other process or handle is writing; None if none is."""
        return self._store.index_lock.holder()

    def read_transaction(self) -> AbstractContextManager[None]:
        """Make all reads in a `with` block see the same state; writers in other threads wait."""
        return self._store.read_transaction()

    def document_segments(self, ids: Sequence[str] | None = None) -> dict[str, tuple[Segment, ...]]:
        """Return the segments of indexed documents by id; None returns those of all."""
        return {header.id: header.segments for header in self._store.document_headers(ids)}

    def parts_for_scopes(self) -> tuple[OpenIndex, RetrievalSession, Strategy]:
        """Return what a `ScopedReader` needs, apart from its scope."""
        return self._index, self._session, self._strategy

    @property
    def pending(self) -> PendingDocuments:
        """Documents that an integration has stored in the file and indexes later."""
        from e2graphrag_integrations.indexing.pending import PendingDocuments

        return PendingDocuments(self._index)

    @property
    def store(self) -> Store:
        """The store, for tools and tests that inspect rows."""
        return self._store

    def close(self) -> None:
        """Stop indexing and close the file; idempotent.

        If a running operation needs this event loop, the file closes when that operation ends. A
        state that is being prepared in the background is given up.
        """
        if self._vectors is not None:
            self._vectors.close()
        self._session.close()
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"E2GraphRAG({self._store.path!r})"
