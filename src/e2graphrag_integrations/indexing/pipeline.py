"""The indexing pipeline: classify -> enqueue -> plan -> extract | embed | summarize -> commit.

`add_documents`, `update_documents` and `resume_documents` classify and enqueue documents.
`index_documents` runs the other stages. Extraction, embedding and summarizing run side by side,
each in its own thread. Documents move in batches, two at a time, so the stages overlap across
batches and memory stays bounded.

A stage stores each result in the cache as soon as it arrives. The transaction that commits a
document only links to cached content, so a document is either complete or absent, and a crash
loses at most the calls in flight.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from types import MappingProxyType

from e2graphrag_integrations._utils.event_loop import ContextThreads
from e2graphrag_integrations.errors import StoppedError
from e2graphrag_integrations.indexing.classify import (
    Selection,
    classify_for_add,
    classify_for_resume,
    classify_for_update,
)
from e2graphrag_integrations.indexing.commit import FinishedBatch, RunTotals, commit_batch
from e2graphrag_integrations.indexing.context import IndexingContext, OpenIndex
from e2graphrag_integrations.indexing.cost import CostCounter, estimate_cost
from e2graphrag_integrations.indexing.embedding import Embeddings, embed_nodes
from e2graphrag_integrations.indexing.extraction import Extractions, extract_chunks
from e2graphrag_integrations.indexing.failure_policy import SkipFailed
from e2graphrag_integrations.indexing.inputs import OnCopy, OnDuplicate
from e2graphrag_integrations.indexing.planning import Batch, plan_batches
from e2graphrag_integrations.indexing.progress import StageTimer
from e2graphrag_integrations.indexing.queueing import QueueTracker
from e2graphrag_integrations.indexing.run import IndexingRun, RunControl, WorkStopped
from e2graphrag_integrations.indexing.summaries import summarize_trees, with_summaries
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.store.queue import dequeue, read_queue
from e2graphrag_integrations.types import Node, SourceDocument


def add_documents(
    documents: Sequence[SourceDocument],
    index: OpenIndex,
    run: IndexingRun,
    *,
    on_duplicate: OnDuplicate = "error",
    on_copy: OnCopy = "keep",
) -> IndexReport:
    """Index documents with unique ids; see `E2GraphRAG.add`."""
    stored_hashes = index.store.content_hashes()
    selection = classify_for_add(documents, stored_hashes, on_duplicate, on_copy, index.store.path)
    dequeue(index.store, selection.unchanged)
    return _index_selection(selection, stored_hashes, index, run)


def update_documents(
    documents: Sequence[SourceDocument], index: OpenIndex, run: IndexingRun
) -> IndexReport:
    """Replace documents with unique ids; see `E2GraphRAG.update`."""
    stored_hashes = index.store.content_hashes()
    selection = classify_for_update(documents, stored_hashes, index.store.path)
    dequeue(index.store, selection.unchanged)
    return _index_selection(selection, stored_hashes, index, run)


def resume_documents(index: OpenIndex, run: IndexingRun) -> IndexReport:
    """Index the documents in the queue; see `E2GraphRAG.resume`."""
    stored_hashes = index.store.content_hashes()
    queued = [entry.document for entry in read_queue(index.store)]
    selection = classify_for_resume(queued, stored_hashes)
    dequeue(index.store, selection.unchanged)
    if selection.to_index:
        index.components.check_queued(index.store.queue_manifest())
    return _index_selection(selection, stored_hashes, index, run)


def estimate_documents(
    added: Sequence[SourceDocument], updated: Sequence[SourceDocument], index: OpenIndex
) -> CostEstimate:
    """Return the cost of adding some documents and updating others; see `E2GraphRAG.estimate`."""
    stored_hashes, path = index.store.content_hashes(), index.store.path
    to_add = classify_for_add(added, stored_hashes, "replace", "keep", path).to_index
    to_update = classify_for_update(updated, stored_hashes, path).to_index
    counter = index.components.counter
    trees = (index.planner(document, index.settings, counter) for document in to_add + to_update)
    return estimate_cost(trees, counter, index.summary_builder(IndexingRun()))


def _index_selection(
    selection: Selection, stored_hashes: Mapping[str, str], index: OpenIndex, run: IndexingRun
) -> IndexReport:
    """Enqueue the selected documents and index them."""
    if not selection.to_index:
        return IndexReport(skipped=selection.skipped)
    manifest = index.components.check_for_writing() | index.settings.to_manifest()
    index.store.check_manifest(manifest)
    context = IndexingContext.create(
        index.components,
        index.settings,
        store=index.store,
        manifest=manifest,
        summaries=index.summary_builder(run),
        concurrency=index.concurrency,
        planner=index.planner,
    )
    queue = QueueTracker(index.store, run.queued)
    failures = SkipFailed(on_failure=queue.mark_failed)
    control = RunControl(StageTimer(run.progress), failures, run.stop)
    queue.enqueue(selection.to_index, manifest)
    try:
        report = index_documents(
            selection.to_index,
            context,
            control,
            stored_hashes=stored_hashes,
            on_batch=queue.mark_processing,
        )
    except BaseException:
        queue.release()
        raise
    if report.failed and not report.documents:
        raise next(iter(failures.failed.values()))
    return replace(report, skipped=selection.skipped)


def index_documents(
    documents: Iterable[SourceDocument],
    context: IndexingContext,
    control: RunControl,
    *,
    stored_hashes: Mapping[str, str] = MappingProxyType({}),
    on_batch: Callable[[Sequence[str]], None] = lambda _: None,
) -> IndexReport:
    """Plan, extract, embed, summarize and commit documents.

    Args:
        documents: New and changed documents with unique ids.
        context: Models, settings and store.
        control: Receives failures, times and progress; can stop the run.
        stored_hashes: Content hashes of the stored documents that may be replaced, by id.
        on_batch: Called with the ids of the documents of each batch before work on them starts.

    Raises:
        IndexingError: If `control.failures` aborts the run. Earlier batches are committed.
        StoppedError: After a stop request.
    """
    started = time.perf_counter()
    cost = CostCounter(context.counter, context.summaries)
    totals = RunTotals()
    with _stage_threads(context.concurrency) as threads:

        def start(batch: Batch) -> _RunningBatch:
            on_batch([document.id for document in batch.documents])
            return _start(batch, context, control, threads)

        try:
            batches = plan_batches(documents, context.plan, context.embedder, cost, control)
            for running in _two_in_flight(batches, start):
                finished = _finish(running, context, control, threads)
                commit_batch(finished, context, control, stored_hashes, totals)
        except BaseException as error:
            control.stop.stop_all()  # start no further calls while the threads shut down
            if not isinstance(error, WorkStopped):
                raise
            raise StoppedError(
                "indexing was stopped; finished work is kept: call resume() or add() to continue"
            ) from error
    # At the end only: a document may link to content of another's old version. After a failure,
    # the cache may contain results that no document links to, so check everything.
    context.store.drop_unused(None if control.failures.failed else totals.unlinked)
    return totals.report(cost, context.summaries.usage, control, time.perf_counter() - started)


@dataclass(frozen=True)
class _StageThreads:
    """Threads of the stages. `calls` runs the summarizer, `summarize` schedules its calls."""

    extract: Executor
    embed: Executor
    summarize: Executor
    calls: Executor


@contextlib.contextmanager
def _stage_threads(concurrency: int) -> Iterator[_StageThreads]:
    with (
        ContextThreads(1, "e2graphrag-extract") as extract,
        ContextThreads(1, "e2graphrag-embed") as embed,
        ContextThreads(1, "e2graphrag-summaries") as summarize,
        ContextThreads(concurrency, "e2graphrag-llm") as calls,
    ):
        yield _StageThreads(extract, embed, summarize, calls)


@dataclass(frozen=True)
class _RunningBatch:
    """A batch and the results that its stages will return."""

    batch: Batch
    extractions: Future[Extractions]
    embeddings: Future[Embeddings]
    summaries: Future[list[Mapping[str, str] | None]]


def _start(
    batch: Batch, context: IndexingContext, control: RunControl, threads: _StageThreads
) -> _RunningBatch:
    """Start the three stages of a batch."""
    extractions = threads.extract.submit(
        extract_chunks,
        batch.chunks,
        extractor=context.extractor,
        fingerprint=context.extractor_fingerprint,
        cache=context.store,
        control=control,
    )
    embeddings = _start_embedding(batch.chunks, batch, context, control, threads)
    summaries = threads.summarize.submit(
        summarize_trees,
        batch.trees,
        context.summaries,
        threads.calls,
        lambda: control.timer.advance("summarize", 1),
        control.stop.no_new_calls,
        failures=control.failures,
    )
    return _RunningBatch(batch, extractions, embeddings, summaries)


def _start_embedding(
    nodes: Sequence[Node],
    batch: Batch,
    context: IndexingContext,
    control: RunControl,
    threads: _StageThreads,
) -> Future[Embeddings]:
    return threads.embed.submit(
        embed_nodes,
        nodes,
        batch.prefixes,
        embedder=context.embedder,
        fingerprint=context.embedder_fingerprint,
        cache=context.store,
        control=control,
    )


def _two_in_flight(
    batches: Iterable[Batch], start: Callable[[Batch], _RunningBatch]
) -> Iterator[_RunningBatch]:
    """Yield running batches in order, each after the next one has started."""
    previous: _RunningBatch | None = None
    for batch in batches:
        current = start(batch)
        if previous is not None:
            yield previous
        previous = current
    if previous is not None:
        yield previous


def _finish(
    running: _RunningBatch, context: IndexingContext, control: RunControl, threads: _StageThreads
) -> FinishedBatch:
    """Wait for the stages of a batch, and embed its summaries."""
    batch = running.batch
    nodes = {
        tree.document_id: with_summaries(tree, summaries)
        for tree, summaries in zip(batch.trees, running.summaries.result(), strict=True)
        if summaries is not None
    }
    summary_nodes = [node for tree_nodes in nodes.values() for node in tree_nodes if node.level]
    summary_embeddings = _start_embedding(summary_nodes, batch, context, control, threads)
    extractions = running.extractions.result()
    embeddings = running.embeddings.result() + summary_embeddings.result()
    return FinishedBatch(batch.documents, nodes, extractions, embeddings)
