"""A worker: indexes the documents in the queue, beside the workers of other processes.

A worker claims a few documents at a time and indexes them with the pipeline. The transaction that
writes a document checks that its lease has not expired. While a worker indexes documents, it shares
the lock of the index with other workers. It releases the lock after each group of documents, so an
operation that needs the whole index waits only for the current groups.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Event

from e2graphrag_integrations._utils.concurrency import AwaitableRunner
from e2graphrag_integrations.errors import (
    ClosedError,
    StoppedError,
    StoreConnectionError,
    StoreError,
    StoreLockedError,
)
from e2graphrag_integrations.indexing.commit import RunTotals
from e2graphrag_integrations.indexing.inputs import StoredDocuments, languages_of, with_languages
from e2graphrag_integrations.indexing.open_index import IndexingContext, OpenIndex
from e2graphrag_integrations.indexing.pipeline import checked_manifest, index_documents
from e2graphrag_integrations.indexing.run import (
    FailurePolicy,
    IndexingRun,
    RunControl,
    StageTimer,
    StopSignal,
    WorkStopped,
    check_listener,
)
from e2graphrag_integrations.indexing.stages.llm_calls import CostCounter
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder, SummaryUsage
from e2graphrag_integrations.reports import IndexReport, ProgressListener
from e2graphrag_integrations.store.database import Leases, Transaction
from e2graphrag_integrations.store.queue import (
    dequeue,
    has_unfinished,
    note_pace,
    queued_ids,
    read_queue,
    set_queue_status,
)
from e2graphrag_integrations.store.records import LeaseLostError, StoredNode, content_hash
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import SourceDocument

logger = logging.getLogger(__name__)

_MAX_ATTEMPTS = 5
"""A document fails after this many workers died or lost its lease. From the second attempt on, it
is indexed alone, so it does not take other documents with it."""

_POLL_SECONDS = 0.02
_MAX_CLAIM_POLL = 0.2
_MAX_QUEUE_POLL = 1.0
"""Shortest pause of a worker, and longest while it waits for other workers or for documents."""


@dataclass(frozen=True)
class WorkOptions:
    """The options of a worker; see `E2GraphRAG.work`.

    Attributes:
        forever: Whether to wait for documents when the queue is empty.
        llm_limit: Maximum number of simultaneous LLM calls of all workers.
        lease: Duration of a lease in seconds.
        patience: Seconds to wait for a server that cannot be reached.
        progress: Receives the events of each group of documents.
        runner: Runs the coroutines of an async summarizer.

    Raises:
        InvalidInputError: If `progress` is not a function.
    """

    forever: bool
    llm_limit: int | None
    lease: float
    patience: float
    progress: ProgressListener | None = None
    runner: AwaitableRunner | None = None

    def __post_init__(self) -> None:
        check_listener(self.progress)


class Worker:
    """Indexes the documents in the queue of an open index; see `E2GraphRAG.work`."""

    def __init__(self, index: OpenIndex, options: WorkOptions) -> None:
        self._index = index
        self._options = options
        self._stop = StopSignal()
        self._group_stop = StopSignal()
        self._counts = _Counts()
        self._failures = FailurePolicy(self._mark_failed)
        self._outage: float | None = None  # when the server stopped to answer

    def stop(self) -> None:
        """Finish the calls in flight, release all documents, and end `run`."""
        self._stop.stop_all()
        self._group_stop.stop_all()

    def run(self) -> IndexReport:
        """Index documents until the queue is empty or `stop` is called.

        Raises:
            IndexingError: If so many documents fail that they are probably not the cause.
            StoreError: If the index cannot be written.
        """
        started = time.perf_counter()
        store = self._index.store
        self._index.check_writable()
        self._leases = store.database.leases(self._options.lease)
        self._sink = LeasedStore(store, self._leases)
        self._claims = WorkerClaims(self._leases, self._options.llm_limit)
        try:
            with self._index.stoppable(self._stop):
                self._loop()
        finally:
            with contextlib.suppress(StoreError):
                self._sink.save_results()
            self._leases.close()
        summaries = self._index.summary_builder(IndexingRun())
        return self._counts.report(
            replace(summaries, usage=self._counts.usage), time.perf_counter() - started
        )

    def _loop(self) -> None:
        pause = _POLL_SECONDS
        while not self._stop.no_new_work.is_set():
            worked, is_done = self._try_group()
            if is_done and not self._options.forever:
                return
            if worked:
                pause = _POLL_SECONDS
                continue
            self._stop.no_new_work.wait(pause)
            pause = min(2 * pause, _MAX_QUEUE_POLL)

    def _try_group(self) -> tuple[bool, bool]:
        """Index some documents; return whether there were any, and whether the queue is empty.

        If the server cannot be reached, or another process holds the lock, nothing is done.
        """
        is_done = False
        try:
            worked = self._index_group()
            if not worked:
                is_done = not has_unfinished(self._index.store)
            if is_done:
                self._drop_unused()
        except StoreConnectionError as error:
            if self._outage is None:
                self._outage = time.monotonic()
                logger.warning("%s; trying again", error)
            if time.monotonic() - self._outage > self._options.patience:
                raise
            return False, False
        except StoreLockedError as error:
            logger.info("%s", error)
            worked = False
        except (StoppedError, ClosedError):
            if not self._stop.no_new_work.is_set():
                raise
            return False, True
        self._outage = None
        return worked, is_done

    def _index_group(self) -> bool:
        """Claim and index some documents; return whether there were any."""
        store = self._index.store
        if not has_unfinished(store):
            return False
        self._group_stop = StopSignal()
        if self._stop.no_new_work.is_set():
            self._group_stop.stop_all()
        with self._index.shared(IndexingRun(stop=self._group_stop)):
            self._sink.save_results()
            try:
                claimed = self._leases.claim()
                documents, hashes = self._select(claimed)
                if documents:
                    self._index_documents(documents, hashes)
            finally:
                with contextlib.suppress(StoreError):  # else the leases expire
                    self._leases.release()
        return bool(claimed)

    def _select(self, claimed: Mapping[str, int]) -> tuple[list[SourceDocument], Mapping[str, str]]:
        """Return the claimed documents to index, and the content hashes of stored versions."""
        store = self._index.store
        for id_, attempts in claimed.items():
            self._counts.failed.pop(id_, None)
            if attempts > _MAX_ATTEMPTS:
                self._mark_failed(
                    id_,
                    f"{_MAX_ATTEMPTS} workers died or lost their lease while they indexed this "
                    "document: find out why, then add it again",
                )
        ids = [id_ for id_, attempts in claimed.items() if attempts <= _MAX_ATTEMPTS]
        hashes, languages = store.hashes_and_languages(ids)
        stored = StoredDocuments(store.path, hashes, languages)
        to_index = []
        queued = list(read_queue(store, ids, with_failed=False))
        for document in with_languages(queued, store.language_counts()):
            if not stored.contains(document, content_hash(document)):
                to_index.append(document)
                continue
            with contextlib.suppress(LeaseLostError):
                dequeue(store, [document.id], self._sink.check_of(document.id))
                self._counts.skipped.append(document.id)
        return to_index, hashes

    def _index_documents(
        self, documents: Sequence[SourceDocument], hashes: Mapping[str, str]
    ) -> None:
        index, store = self._index, self._index.store
        index.adopt(store.manifest() or store.queue_manifest())
        index.components.check_queued(store.queue_manifest(), languages_of(documents))
        manifest = checked_manifest(documents, index)
        run = IndexingRun(self._options.runner, claims=self._claims)
        summaries = replace(index.summary_builder(run), store=self._sink, usage=self._counts.usage)
        context = IndexingContext(
            *(self._sink, index.components, manifest, summaries),
            *(index.planner.for_run(), index.writes.concurrency),
            index.chunk_stage(summaries),
        )
        self._failures = self._failures.for_next_documents()
        timer = StageTimer(self._options.progress)
        control = RunControl(timer, self._failures, self._group_stop)
        started = time.perf_counter()
        try:
            index_documents(
                documents,
                context,
                control,
                stored_hashes=hashes,
                totals=self._counts.totals,
            )
            note_pace(store, len(documents), time.perf_counter() - started)
        finally:
            self._counts.add_seconds(timer.seconds)

    def _mark_failed(self, id_: str, error: Exception | str) -> None:
        with contextlib.suppress(LeaseLostError):  # else another worker tries it
            check = self._sink.check_of(id_)
            set_queue_status(self._index.store, {id_: ("failed", str(error))}, check)
            self._counts.failed[id_] = str(error)

    def _drop_unused(self) -> None:
        """Delete unused content, unless another worker still creates some: then that one does."""
        store = self._index.store
        if store.has_unused() and not queued_ids(store):
            with contextlib.suppress(StoreLockedError), self._index.exclusive_now():
                store.drop_unused(())


@dataclass
class _Counts:
    """The results of a worker. They contain no entities, which would need ever more memory."""

    totals: RunTotals = field(default_factory=lambda: RunTotals(graph=None))
    usage: SummaryUsage = field(default_factory=SummaryUsage)
    seconds: dict[str, float] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def add_seconds(self, seconds: Mapping[str, float]) -> None:
        for stage, spent in seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
        self.totals.unlinked.clear()  # `LeasedStore` records them

    def report(self, summaries: SummaryBuilder, seconds: float) -> IndexReport:
        timer = StageTimer(None)
        timer.seconds.update(self.seconds)
        report = self.totals.report(CostCounter(summaries), summaries, RunControl(timer), seconds)
        return replace(report, skipped=tuple(self.skipped), failed=dict(self.failed))


@dataclass(frozen=True)
class WorkerClaims:
    """Claims contents and LLM calls by locking names.

    Attributes:
        leases: Locks the names.
        llm_limit: Maximum number of simultaneous LLM calls of all workers; None means no limit.
    """

    leases: Leases
    llm_limit: int | None

    def content(self, key: bytes, stopping: Event | None) -> AbstractContextManager[None]:
        """Wait until no other worker creates the content; see `ContentClaims`."""
        return self._locked([f"content {key.hex()}"], stopping)

    def llm_call(self, stopping: Event | None) -> AbstractContextManager[None]:
        """Wait until fewer than `llm_limit` LLM calls run; see `ContentClaims`."""
        if self.llm_limit is None:
            return nullcontext()
        return self._locked([f"llm {number}" for number in range(self.llm_limit)], stopping)

    @contextlib.contextmanager
    def _locked(self, names: Sequence[str], stopping: Event | None) -> Iterator[None]:
        """Lock one of the names while the block runs."""
        stopping = Event() if stopping is None else stopping
        pause = _POLL_SECONDS
        while (name := self.leases.try_lock(names)) is None:
            if stopping.wait(pause):
                raise WorkStopped
            pause = min(2 * pause, _MAX_CLAIM_POLL)
        try:
            yield
        finally:
            self.leases.unlock(name)


class LeasedStore:
    """A `DocumentSink` that writes documents only while a worker holds them.

    Args:
        store: The index.
        leases: The documents that the worker holds.
    """

    def __init__(self, store: Store, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._unsaved: list[tuple[str, dict[bytes, bytes]]] = []

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the cached content by key."""
        return self._store.cached(keys)

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Store content. If the connection is lost, `save_results` stores it later."""
        try:
            self._store.put_cached(kind, contents)
        except StoreError:
            self._unsaved.append((kind, contents))
            raise

    def save_results(self) -> None:
        """Store content that could not be stored before: it may be paid for."""
        while self._unsaved:
            self._store.put_cached(*self._unsaved[0])
            del self._unsaved[0]

    def write_document(
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],
        replaces: str | None = None,
    ) -> Sequence[bytes]:
        """Write a document in a transaction that checks its lease.

        Raises:
            LeaseLostError: If the worker no longer holds the document. Nothing is written.
            StoreError: If the document cannot be written.
        """
        holds = self.check_of(document.id)

        def check(db: Transaction) -> None:
            holds(db)
            if replaces is not None:
                self._store.note_unused(db)

        return self._store.write_document(document, nodes, manifest, replaces, check)

    def check_of(self, document_id: str) -> Callable[[Transaction], None]:
        """Return a function that checks in a transaction that the worker holds a document."""
        return lambda db: self._leases.check(db, document_id)

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Do nothing: other workers may need the content. The last one drops it."""
