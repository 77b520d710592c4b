"""Writing: documents added, replaced and deleted, one piece of work at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from e2graphrag_integrations._utils.event_loop import AwaitableRunner, CallerLoop, OwnLoop
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    E2GraphRAGError,
    InvalidInputError,
    StoppedError,
    StoreError,
    StoreLockedError,
    UnknownDocumentError,
)
from e2graphrag_integrations.indexing.cost import estimate_cost
from e2graphrag_integrations.indexing.failure_policy import SkipFailed
from e2graphrag_integrations.indexing.inputs import OnCopy, OnDuplicate, classify
from e2graphrag_integrations.indexing.pipeline import IndexingContext, write_documents
from e2graphrag_integrations.indexing.planning import Planner, plan_document
from e2graphrag_integrations.indexing.progress import IndexingRun, StopSignal
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.reports import CompactReport, CostEstimate, DeleteReport, IndexReport
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.compact import compact_store
from e2graphrag_integrations.store.queue import dequeue, enqueue, mark, read_queue, requeue
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.callable import RetryPolicy
from e2graphrag_integrations.types import SourceDocument

_PATIENCE = 0.05
"""Seconds between looks whether somebody who waits for his turn has been stopped."""


class IndexWriter:
    """Changes what is in one file.

    Args:
        store: The file.
        settings: How documents are cut and summarized.
        components: The models.
        concurrency: Summaries in the making at once.
        retry: Patience with transient errors of the summarizer.
        planner: Makes a document's tree.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        components: Components,
        *,
        concurrency: int,
        retry: RetryPolicy,
        planner: Planner = plan_document,
    ) -> None:
        self._store = store
        self._settings = settings
        self._components = components
        self._concurrency = concurrency
        self._retry = retry
        self._planner = planner
        self._loop = OwnLoop()
        self._writing = threading.RLock()
        self._stops: set[StopSignal] = set()
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._closing = False

    def estimate(
        self, documents: list[SourceDocument], updated: list[SourceDocument]
    ) -> CostEstimate:
        """Return what adding some documents and updating others would cost."""
        hashes = self._store.content_hashes()
        to_add, to_update = classify(documents, hashes), classify(updated, hashes)
        self._refuse_unknown(to_update.new)
        return estimate_cost(
            to_add.new + to_add.changed + to_update.changed,
            self._settings,
            self._components.counter,
            self._maker(self._loop),
            self._planner,
        )

    def add(
        self,
        documents: list[SourceDocument],
        run: IndexingRun,
        on_duplicate: OnDuplicate = "error",
        on_copy: OnCopy = "keep",
    ) -> IndexReport:
        """Index documents, whose ids are all different; see `E2GraphRAG.add`."""
        with self.exclusive(run):
            hashes = self._store.content_hashes()
            replacing = on_duplicate == "replace"
            sorted_out = classify(documents, hashes, on_copy, replacing=replacing)
            if sorted_out.changed and on_duplicate == "error":
                raise DuplicateDocumentError(
                    f"document {sorted_out.changed[0].id!r} is in {self._store.path} with another "
                    "content: use update() or on_duplicate= to replace it, or give it another id"
                )
            wanted, skipped = sorted_out.new, sorted_out.unchanged
            self._forget(sorted_out.unchanged)
            if replacing:
                wanted += sorted_out.changed
            else:
                skipped += sorted_out.changed
            return self._write(wanted, skipped, hashes, run)

    def update(self, documents: list[SourceDocument], run: IndexingRun) -> IndexReport:
        """Replace documents, whose ids are all different; see `E2GraphRAG.update`."""
        with self.exclusive(run):
            hashes = self._store.content_hashes()
            sorted_out = classify(documents, hashes)
            self._refuse_unknown(sorted_out.new)
            self._forget(sorted_out.unchanged)
            return self._write(sorted_out.changed, sorted_out.unchanged, hashes, run)

    def _refuse_unknown(self, documents: Sequence[SourceDocument]) -> None:
        if documents:
            raise UnknownDocumentError(
                f"no document {documents[0].id!r} in {self._store.path}: use add()"
            )

    def resume(self, run: IndexingRun) -> IndexReport:
        """Go on with documents that wait; see `E2GraphRAG.resume`."""
        with self.exclusive(run):
            hashes = self._store.content_hashes()
            waiting = [one.document for one in read_queue(self._store)]
            sorted_out = classify(waiting, hashes)
            self._forget(sorted_out.unchanged)
            wanted = sorted_out.new + sorted_out.changed
            if wanted:
                self._components.check_like(self._store.waiting_manifest())
            return self._write(wanted, sorted_out.unchanged, hashes, run)

    def _forget(self, documents: Sequence[SourceDocument]) -> None:
        """Let no other version of documents wait that are as they should be."""
        dequeue(self._store, [one.id for one in documents])

    def delete(self, ids: Sequence[str]) -> DeleteReport:
        """Delete documents; see `E2GraphRAG.delete`."""
        if not ids:
            return DeleteReport()
        with self.exclusive():
            return self._store.delete_documents(ids)

    def compact(self) -> CompactReport:
        """Shrink the file; see `E2GraphRAG.compact`."""
        with self.exclusive():
            return compact_store(self._store)

    def stop(self) -> None:
        """Let calls in flight end and begin no other."""
        for stop in list(self._stops):
            stop.all()

    def close(self) -> None:
        """Stop, and let go of the file; safe to call twice.

        In an event loop that the writing at work needs, the file is let go of when that has ended.
        """
        self._closing = True
        self.stop()
        if not self._needs_this_loop():
            with self._writing:
                self._close()

    def _close(self) -> None:
        self._loop.close()
        self._store.close()

    def _needs_this_loop(self) -> bool:
        """Tell whether the writing at work waits for the event loop that this thread runs."""
        try:
            return asyncio.get_running_loop() in self._loops
        except RuntimeError:
            return False

    @contextlib.contextmanager
    def exclusive(self, run: IndexingRun | None = None) -> Iterator[None]:
        """Write alone, among threads and processes.

        Args:
            run: Can be stopped meanwhile.

        Raises:
            StoreLockedError: If another instance is writing for longer than `lock_timeout`.
            StoppedError: If it was stopped while it waited.
        """
        if self._needs_this_loop():
            raise InvalidInputError(
                "a piece of writing at work needs this event loop, so waiting for it here would "
                "never end: await it first, or await aadd(), aupdate(), adelete()"
            )
        stop = run.stop if run is not None else StopSignal()
        self._stops.add(stop)
        try:
            with self._turn(stop, run), self._store.writer.held(stop.everything.is_set):
                _refuse_stopped(stop)
                yield
        except StoreLockedError:
            _refuse_stopped(stop)
            raise
        finally:
            self._stops.discard(stop)

    @contextlib.contextmanager
    def _turn(self, stop: StopSignal, run: IndexingRun | None) -> Iterator[None]:
        """Wait for the threads before; let go of the file if that was asked for meanwhile."""
        while not self._writing.acquire(timeout=_PATIENCE):
            _refuse_stopped(stop)
        loops = [run.bridge.loop] if run and isinstance(run.bridge, CallerLoop) else []
        self._loops += loops
        try:
            yield
        finally:
            for loop in loops:
                self._loops.remove(loop)
            if self._closing and not self._store.is_closed:
                self._close()
            self._writing.release()

    def _write(
        self,
        documents: Sequence[SourceDocument],
        unchanged: Sequence[SourceDocument],
        replaces: Mapping[str, str],
        run: IndexingRun,
    ) -> IndexReport:
        skipped = tuple(document.id for document in unchanged)
        if not documents:
            return IndexReport(skipped=skipped)
        components = self._components
        manifest = components.check_for_writing() | self._settings.to_manifest()
        self._store.check_manifest(manifest)
        if run.queued:
            enqueue(self._store, documents, manifest)
        failures = SkipFailed(lambda id_, error: self._failed(id_, error, run))
        writer = IndexingContext(
            store=self._store,
            manifest=manifest,
            settings=self._settings,
            counter=components.counter,
            embedder=components.embedder,
            embedder_print=components.embedder_print,
            extractor=components.extractor,
            extractor_print=components.extractor_print,
            summaries=self._maker(run.bridge or self._loop),
            concurrency=self._concurrency,
            replaces=replaces,
            planner=self._planner,
            failures=failures,
            begun=lambda ids: self._begun(ids, run),
            stop=run.stop,
        )
        try:
            report = write_documents(writer, documents, run.progress)
        except BaseException:
            if run.queued:
                with contextlib.suppress(StoreError):  # the error is what counts
                    requeue(self._store)  # they wait; nobody works on them
            raise
        if report.failed and not report.documents:
            raise next(iter(failures.failed.values()))
        return replace(report, skipped=skipped)

    def _failed(self, document_id: str, error: E2GraphRAGError, run: IndexingRun) -> None:
        if run.queued:
            mark(self._store, {document_id: ("failed", str(error))})

    def _begun(self, ids: Sequence[str], run: IndexingRun) -> None:
        if run.queued:
            mark(self._store, dict.fromkeys(ids, ("processing", None)))

    def _maker(self, bridge: AwaitableRunner) -> SummaryBuilder:
        return SummaryBuilder.of(
            self._components, self._settings, retry=self._retry, store=self._store, bridge=bridge
        )


def _refuse_stopped(stop: StopSignal) -> None:
    if stop.everything.is_set():
        raise StoppedError("writing was stopped before its turn came: do it again")
