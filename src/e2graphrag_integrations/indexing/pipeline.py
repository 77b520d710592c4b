"""The indexing pipeline: classify -> enqueue -> plan -> extract | embed | summarize -> commit.

`add_documents`, `update_documents` and `resume_documents` classify and enqueue documents.
`index_documents` runs the other stages. Extraction, embedding and summarizing run concurrently,
each in its own thread. At most two batches of documents are in progress, so the stages of
consecutive batches overlap and memory use is bounded.

A stage stores each result in the cache as soon as it arrives. The transaction that commits a
document only links to cached content, so a document is either complete or absent, and a crash
loses at most the calls in flight.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from types import MappingProxyType

from e2graphrag_integrations._utils.concurrency import ContextThreads
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.tracing import Tracer, current_tracer, with_prefix
from e2graphrag_integrations.errors import StoppedError, StoreError
from e2graphrag_integrations.indexing.commit import FinishedBatch, RunTotals, commit_batch
from e2graphrag_integrations.indexing.inputs import (
    OnCopy,
    OnDuplicate,
    Selection,
    StoredDocuments,
    as_documents,
    classify_for_add,
    classify_for_resume,
    classify_for_update,
    declare_language,
    joined_documents,
    languages_of,
    with_languages,
)
from e2graphrag_integrations.indexing.language_checks import warn_about_languages
from e2graphrag_integrations.indexing.open_index import IndexingContext, OpenIndex
from e2graphrag_integrations.indexing.planning import (
    Batch,
    DocumentPlanner,
    count_items,
    plan_batches,
)
from e2graphrag_integrations.indexing.run import (
    FailurePolicy,
    IndexingRun,
    RunControl,
    StageTimer,
    WorkStopped,
)
from e2graphrag_integrations.indexing.stages.embedding import embed_nodes
from e2graphrag_integrations.indexing.stages.extraction import extract_chunks
from e2graphrag_integrations.indexing.stages.llm_calls import (
    CostCounter,
    announce_llm_calls,
    models_of,
    plan_llm_calls,
)
from e2graphrag_integrations.indexing.stages.summaries import summarize_trees
from e2graphrag_integrations.indexing.stages.work import StageRunner
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.queue import (
    QueueStatus,
    dequeue,
    enqueue,
    enqueue_selected,
    note_pace,
    read_queue,
    requeue,
    set_queue_status,
)
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import SourceDocument


def add_documents(
    documents: Sequence[SourceDocument],
    index: OpenIndex,
    run: IndexingRun,
    *,
    on_duplicate: OnDuplicate = "error",
    on_copy: OnCopy = "keep",
) -> IndexReport:
    """Index documents with unique ids; see `E2GraphRAG.add`."""
    _check_scope_keys(documents, index)
    declared = declare_language(documents, index.language)
    if not run.wait:
        return _enqueue(
            declared,
            lambda stored: classify_for_add(declared, stored, on_duplicate, on_copy),
            index,
            run,
            compares_all=on_copy == "skip",
        )
    stored = _stored_documents(index)
    selection = classify_for_add(declared, stored, on_duplicate, on_copy)
    return _index_selection(selection, stored, index, run)


def update_documents(
    documents: Sequence[SourceDocument], index: OpenIndex, run: IndexingRun
) -> IndexReport:
    """Replace documents with unique ids; see `E2GraphRAG.update`."""
    _check_scope_keys(documents, index)
    declared = declare_language(documents, index.language)
    if not run.wait:
        return _enqueue(declared, lambda stored: classify_for_update(declared, stored), index, run)
    stored = _stored_documents(index)
    return _index_selection(classify_for_update(declared, stored), stored, index, run)


def _enqueue(
    documents: Sequence[SourceDocument],
    classify: Callable[[StoredDocuments], Selection],
    index: OpenIndex,
    run: IndexingRun,
    *,
    compares_all: bool = False,
) -> IndexReport:
    """Only add documents to the queue, beside workers that index it.

    `classify` selects those to add, given the newest version of each document. It may compare them
    with all documents of the index if `compares_all` is true.
    """
    store = index.store
    ids = None if compares_all else [document.id for document in documents]

    def select() -> Selection:
        hashes, languages = store.hashes_and_languages(ids)
        for document in read_queue(store, ids, with_failed=False):
            hashes[document.id] = content_hash(document)
            languages[document.id] = document.language or ENGLISH
        return classify(StoredDocuments(store.path, hashes, languages))

    selection = select()
    to_index = with_languages(selection.to_index, store.language_counts())
    if to_index:
        index.adopt(store.manifest() or store.queue_manifest())
        if run.max_llm_calls is not None:
            planner = index.planner.for_run()
            summaries = index.summary_builder(run)
            stage = index.chunk_stage(summaries)
            plan_llm_calls(to_index, planner, summaries, run.max_llm_calls, stage)
        manifest = checked_manifest(to_index, index)

        def select_again() -> Sequence[SourceDocument]:
            nonlocal selection
            selection = select()  # others may have added or indexed some meanwhile
            wanted = None if run.wanted is None else run.wanted()
            to_index = [one for one in selection.to_index if wanted is None or one.id in wanted]
            return with_languages(to_index, store.language_counts())

        to_index = enqueue_selected(store, select_again, manifest)
    return IndexReport(
        skipped=(*selection.unchanged, *selection.kept),
        queued=tuple(document.id for document in to_index),
    )


def resume_documents(index: OpenIndex, run: IndexingRun) -> IndexReport:
    """Index the documents in the queue; see `E2GraphRAG.resume`."""
    stored = _stored_documents(index)
    queued = with_languages(as_documents(read_queue(index.store)), index.store.language_counts())
    selection = classify_for_resume(queued, stored)
    if selection.to_index:
        languages = languages_of(selection.to_index)
        index.components.check_queued(index.store.queue_manifest(), languages)
    return _index_selection(selection, stored, index, run)


def estimate_documents(
    added: Sequence[SourceDocument], updated: Sequence[SourceDocument], index: OpenIndex
) -> CostEstimate:
    """Return the cost of adding some documents and updating others; see `E2GraphRAG.estimate`."""
    _check_scope_keys(added, index)
    _check_scope_keys(updated, index)
    stored = _stored_documents(index)
    added = declare_language(added, index.language)
    to_add = classify_for_add(added, stored, "replace", "keep")
    to_update = classify_for_update(declare_language(updated, index.language), stored)
    to_index = joined_documents(to_add.to_index, to_update.to_index)
    summaries = index.summary_builder(IndexingRun())
    cost = CostCounter.of(summaries, index.chunk_stage(summaries))
    for document in with_languages(to_index, index.store.language_counts()):
        cost.add(document, index.planner(document))
    return replace(cost.estimate(), skipped=(*to_add.unchanged, *to_update.unchanged))


def _stored_documents(index: OpenIndex) -> StoredDocuments:
    return StoredDocuments(index.store.path, *index.store.hashes_and_languages())


def _index_selection(
    selection: Selection, stored: StoredDocuments, index: OpenIndex, run: IndexingRun
) -> IndexReport:
    """Enqueue the selected documents and index them."""
    store = index.store
    documents = with_languages(selection.to_index, store.language_counts())
    dequeue(store, selection.unchanged)
    skipped = (*selection.unchanged, *selection.kept)
    if not documents:
        return IndexReport(skipped=skipped)
    index.components.revalidate(store.manifest())  # another process may have extracted it again
    with run.engine.start(run.stop.no_new_work) as runner:
        report = _index_with(runner, documents, stored, index, run)
    return replace(report, skipped=skipped)


def _index_with(
    runner: StageRunner,
    documents: Sequence[SourceDocument],
    stored: StoredDocuments,
    index: OpenIndex,
    run: IndexingRun,
) -> IndexReport:
    """Enqueue documents and index them."""
    store, summaries = index.store, index.summary_builder(run)
    planner = _planner(documents, index, runner)
    # Before `check_for_writing`, which may call a paid embedder.
    stage = index.chunk_stage(summaries)
    cost = plan_llm_calls(documents, planner, summaries, run.max_llm_calls, stage)
    manifest = checked_manifest(documents, index)
    context = IndexingContext(
        store, index.components, manifest, summaries, planner, index.writes.concurrency, stage
    )

    def mark(states: Mapping[str, tuple[QueueStatus, str | None]]) -> None:
        if run.queued:
            set_queue_status(store, states)

    failures = FailurePolicy(lambda id_, error: mark({id_: ("failed", str(error))}))
    control = RunControl(StageTimer(run.progress), failures, run.stop, runner)
    if run.queued:
        enqueue(store, documents, manifest)
    announce_llm_calls(cost, models_of(summaries, stage), control.timer)
    if summaries.uses_llm and cost is not None and cost.llm_calls and store.path != MEMORY:
        index.components.warn_without_name()

    def give_up(_: BaseException) -> None:
        with contextlib.suppress(StoreError):  # the error that aborted the run matters more
            if run.queued:
                requeue(store)

    is_first = True

    def note_pace_of_run(documents: int, seconds: float) -> None:
        nonlocal is_first
        note_pace(store, documents, seconds, is_first=is_first)  # forgets that of earlier runs
        is_first = False

    with on_error(give_up):
        report = index_documents(
            documents,
            context,
            control,
            stored_hashes=stored.hashes,
            on_batch=lambda ids: mark(dict.fromkeys(ids, ("processing", None))),
            on_pace=note_pace_of_run,
        )
    if report.failed and not report.documents:
        raise next(iter(failures.failed.values()))
    return report


def _check_scope_keys(documents: Sequence[SourceDocument], index: OpenIndex) -> None:
    if keys := index.settings.scope_keys:
        from e2graphrag_integrations.indexing.scope_keys import check_scope_keys

        check_scope_keys(documents, keys)


def _planner(
    documents: Sequence[SourceDocument], index: OpenIndex, runner: StageRunner
) -> DocumentPlanner:
    """Return the planner of a run, for which a remote engine may have split the documents."""
    if not runner.is_remote("chunk"):
        return index.planner.for_run()
    from e2graphrag_integrations.indexing.splitting import split_remotely

    return split_remotely(documents, index.planner, runner)


def checked_manifest(documents: Sequence[SourceDocument], index: OpenIndex) -> dict[str, str]:
    """Check the models and the settings for writing documents; return their manifest entries."""
    store, components = index.store, index.components
    components.choose_embedder(documents, store.manifest() or store.queue_manifest())
    manifest = components.check_for_writing(languages_of(documents)) | index.settings.to_manifest()
    store.check_manifest(manifest)
    components.warn_if_unfit(documents)
    warn_about_languages(documents, components)
    renewed_tags = components.renewed_tags(store.tag_set())
    if renewed_tags is not None:
        store.put_tag_set(renewed_tags)
    return manifest


def index_documents(
    documents: Sequence[SourceDocument],
    context: IndexingContext,
    control: RunControl,
    *,
    stored_hashes: Mapping[str, str] = MappingProxyType({}),
    on_batch: Callable[[Sequence[str]], None] = lambda _: None,
    on_pace: Callable[[int, float], None] = lambda *_: None,
    totals: RunTotals | None = None,
) -> IndexReport:
    """Plan, extract, embed, summarize and commit documents.

    Args:
        documents: New and changed documents with unique ids and with their languages.
        context: Models, settings and store.
        control: Receives failures, times and progress; can stop the run.
        stored_hashes: Content hashes of the stored documents that may be replaced, by id.
        on_batch: Called with the document ids in each batch before work on the batch starts.
        on_pace: Called with the number of documents of each batch but the last, when they are
            written, and the seconds since those before.
        totals: The counts of earlier documents, to which those of these are added.

    Raises:
        IndexingError: If `control.failures` aborts the run. Earlier batches are committed.
        StoppedError: After a stop request.
    """
    started = time.perf_counter()
    stage = context.chunk_stage
    cost = CostCounter.of(context.summaries, stage)
    totals = RunTotals() if totals is None else totals
    tracer = current_tracer()
    with contextlib.ExitStack() as stack:
        span = stack.enter_context(tracer.span("index", documents=len(documents)))
        sizes = {"extract": 1, "embed": 1, "summaries": 1, "llm": context.concurrency}
        sizes |= {} if stage is None else {"chunks": 1}
        threads = {
            name: stack.enter_context(ContextThreads(size, f"e2graphrag-{name}"))
            for name, size in sizes.items()
        }

        def start(batch: Batch) -> Callable[[], FinishedBatch]:
            on_batch([document.id for document in batch.documents])
            return _start(batch, context, control, threads, tracer)

        # Start no further calls while the threads shut down.
        stack.enter_context(on_error(lambda _: control.stop.stop_all()))
        try:
            if control.timer.has_listener:
                counts = count_items(documents, context.planner, control)
                counts |= {} if stage is None else {stage.stage: counts["chunk"]}
                control.timer.begin(counts)
            embedder = context.components.embedder
            batches = plan_batches(documents, context.planner, embedder, cost, control)
            left, since = len(documents), started
            for finish in _two_in_flight(batches, start):
                finished = finish()
                with tracer.span("index.commit", documents=len(finished.documents)):
                    commit_batch(finished, context, control, stored_hashes, totals)
                left, before, since = left - len(finished.documents), since, time.perf_counter()
                if left:
                    on_pace(len(finished.documents), since - before)
            calls, failed = context.summaries.usage.calls, len(control.failures.failed)
            span.set(with_prefix({"failed": failed, "llm_calls": calls}))
        except WorkStopped as error:
            raise StoppedError(
                "indexing was stopped; finished work is kept: call resume() or add() to continue"
            ) from error
    # Only at the end: a document may link to content from a different document's old version.
    # After a failure, the cache may contain results that no document links to: check all of it.
    context.store.drop_unused(None if control.failures.failed else totals.unlinked)
    totals.fit.warn(context.components)
    return totals.report(cost, context.summaries, control, time.perf_counter() - started)


def _two_in_flight(
    batches: Iterable[Batch], start: Callable[[Batch], Callable[[], FinishedBatch]]
) -> Iterator[Callable[[], FinishedBatch]]:
    """Start the batches; yield each batch's finish function after the next batch has started."""
    previous: Callable[[], FinishedBatch] | None = None
    for batch in batches:
        current = start(batch)
        if previous is not None:
            yield previous
        previous = current
    if previous is not None:
        yield previous


def _start(
    batch: Batch,
    context: IndexingContext,
    control: RunControl,
    threads: Mapping[str, Executor],
    tracer: Tracer,
) -> Callable[[], FinishedBatch]:
    """Start the stages of a batch, and return a function that waits for them."""
    resources = (context.components, context.store, control)
    languages = {document.id: document.language or ENGLISH for document in batch.documents}
    extracting = threads["extract"].submit(
        tracer.traced(extract_chunks, "index.extract", chunks=len(batch.chunks)),
        batch.chunks,
        lambda chunk: context.components.chunk_extractor(languages[chunk.document_id]),
        context.store,
        control,
    )
    embedding = threads["embed"].submit(
        tracer.traced(embed_nodes, "index.embed", nodes=len(batch.chunks)),
        batch.chunks,
        batch.prefixes,
        *resources,
    )
    summarizing = threads["summaries"].submit(
        tracer.traced(_summarize, "index.summarize", trees=len(batch.trees)),
        batch.trees,
        context,
        control,
        threads["llm"],
    )
    stage, asking = context.chunk_stage, None
    if stage is not None:
        asking = threads["chunks"].submit(
            tracer.traced(stage.ask, f"index.{stage.stage}", chunks=len(batch.chunks)),
            batch.documents,
            batch.trees,
            control,
            threads["llm"],
        )

    def finish() -> FinishedBatch:
        # A failure there also stops the summaries, so it is the one to report.
        failure = None if asking is None else asking.exception()
        if failure is not None and not isinstance(failure, WorkStopped):
            raise failure
        nodes = {
            tree.document_id: [replace(n, text=texts.get(n.id, n.text)) for n in tree.nodes]
            for tree, texts in zip(batch.trees, summarizing.result(), strict=True)
            if texts is not None
        }
        summaries = [node for tree_nodes in nodes.values() for node in tree_nodes if node.level]
        planned = sum(len(tree.nodes) for tree in batch.trees) - len(batch.chunks)
        control.timer.advance("embed", planned - len(summaries))  # those of failed documents
        embedding_summaries = threads["embed"].submit(
            tracer.traced(embed_nodes, "index.embed", nodes=len(summaries)),
            summaries,
            batch.prefixes,
            *resources,
        )
        extractions = extracting.result()
        attached: Mapping[str, tuple[bytes, ...]] = {}
        if stage is not None and asking is not None:
            answers = asking.result()
            attaching = threads["embed"].submit(stage.attach, answers, batch.prefixes, control)
            attached = attaching.result()
        vectors = embedding.result() + embedding_summaries.result()
        return FinishedBatch(batch.documents, nodes, extractions, vectors, attached)

    return finish


def _summarize(
    trees: Sequence[Tree], context: IndexingContext, control: RunControl, pool: Executor
) -> list[Mapping[str, str] | None]:
    def on_summary() -> None:
        control.timer.advance("summarize", 1)

    summaries = context.summaries
    if control.runner.is_remote("summarize", uses_llm=summaries.uses_llm):
        from e2graphrag_integrations.indexing.stages.summary_waves import summarize_in_waves

        return summarize_in_waves(trees, summaries, context.concurrency, on_summary, control)
    return summarize_trees(
        trees,
        summaries,
        pool,
        on_summary,
        control.stop.no_new_calls,
        failures=control.failures,
    )
