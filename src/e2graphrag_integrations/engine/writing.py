"""The methods that add, change and remove documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from e2graphrag_integrations._utils.concurrency import CallerLoop, run_in_thread
from e2graphrag_integrations._utils.validation import check_bool, check_int, check_seconds
from e2graphrag_integrations.engine.base import OpenEngine
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import (
    Documents,
    EngineArgument,
    OnCopy,
    OnDuplicate,
    as_documents,
    as_ids,
)
from e2graphrag_integrations.indexing.pipeline import (
    add_documents,
    resume_documents,
    update_documents,
)
from e2graphrag_integrations.indexing.run import IndexingRun, ProgressBar
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.reports import (
    CompactReport,
    CostEstimate,
    DeleteReport,
    IndexReport,
    ProgressListener,
    ReembedEstimate,
)
from e2graphrag_integrations.text.tokens import count_tokens

if TYPE_CHECKING:
    from e2graphrag_integrations.indexing.worker import Worker

_Write = Callable[[IndexingRun], IndexReport]

_MAX_LLM_LIMIT = 1000
"""Maximum of `llm_limit`: each call tries as many locks."""

_MIN_LEASE = 0.1
"""Minimum duration of a lease in seconds: it is renewed three times as often."""

T = TypeVar("T")


class DocumentWrites(OpenEngine):
    """The methods of an index that add, change and remove documents."""

    def add(
        self,
        documents: Documents,
        *,
        on_duplicate: OnDuplicate = "error",
        on_copy: OnCopy = "keep",
        max_llm_calls: int | None = None,
        progress: ProgressListener | None = None,
        engine: EngineArgument | None = None,
        wait: bool = True,
    ) -> IndexReport:
        """Index documents; unchanged documents are skipped.

        Each document is written in one transaction. A document that fails does not affect the
        others: the report lists it, and it remains in the file's queue for `resume()` or the next
        `add`. If all documents fail, the first error is raised. Results completed before a failure,
        a stop or a crash are kept, so no paid call is repeated when indexing continues.

        Args:
            documents: One document, or an iterable of documents.
            on_duplicate: Handling of an id that is given twice or is already indexed with different
                content: `error` rejects the call, `skip` keeps the first version, and `replace`
                keeps the last.
            on_copy: Handling of a new document with the same text, title, metadata and segments as
                an existing one: `keep` indexes it without new model calls, and `skip` omits it.
            max_llm_calls: Maximum number of LLM calls, without retries; None means that of the
                `WriteOptions` of the index.
            progress: Called from worker threads with every `Progress` event, one at a time.
            engine: `"local"` runs everything in this process. `"ray"` or a `RayEngine` (extra
                `ray`) extracts, embeds and summarizes on the workers of a Ray cluster; this process
                writes the results. The index is the same. None means that of the `WriteOptions` of
                the index.
            wait: False only checks the documents and adds them to the queue, for workers
                (`work`) or `resume`. A version in the queue counts as the version of the index.
                `progress` and `engine` have no effect then.

        Raises:
            InvalidInputError: If an argument is invalid. Nothing was written.
            DuplicateDocumentError: If `on_duplicate` is `error` and an id is a duplicate. Nothing
                was written.
            LLMCallLimitError: If the summaries need more than `max_llm_calls` calls. No model was
                called, and nothing was written.
            SettingsMismatchError: If a model differs from the one that built the index.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            IndexingError: If all documents failed, or if the cluster of the engine does not answer,
                or its workers fail. Finished results are kept.
            NotPicklableError: If a component cannot be sent to the workers of the engine.
            StoppedError: If `stop` or `close` was called.
        """
        work = self._adding(documents, on_duplicate, on_copy)
        return self._run(work, self._run_options(max_llm_calls, progress, engine, wait=wait))

    async def aadd(
        self,
        documents: Documents,
        *,
        on_duplicate: OnDuplicate = "error",
        on_copy: OnCopy = "keep",
        max_llm_calls: int | None = None,
        progress: ProgressListener | None = None,
        engine: EngineArgument | None = None,
        wait: bool = True,
    ) -> IndexReport:
        """Run `add` in a thread; an async summarizer runs in the caller's event loop."""
        work = self._adding(documents, on_duplicate, on_copy)
        return await self._arun(work, self._run_options(max_llm_calls, progress, engine, wait=wait))

    def _adding(self, documents: Documents, on_duplicate: OnDuplicate, on_copy: OnCopy) -> _Write:
        checked = as_documents(documents, on_duplicate)
        return lambda run: add_documents(
            checked, self._index, run, on_duplicate=on_duplicate, on_copy=on_copy
        )

    def update(
        self,
        documents: Documents,
        *,
        max_llm_calls: int | None = None,
        progress: ProgressListener | None = None,
        engine: EngineArgument | None = None,
        wait: bool = True,
    ) -> IndexReport:
        """Replace documents with new versions; unchanged documents are skipped.

        One transaction writes the new version and deletes the old one. Failures are handled as in
        `add`; if a document fails, its old version remains. Only changed chunks and the summaries
        above them need model calls; `chunking="content"` and `grouping="content"` limit the
        changed chunks to those near an edit.

        Args:
            documents: New versions of documents whose ids are in the index.
            max_llm_calls: As in `add`.
            progress: As in `add`.
            engine: As in `add`.
            wait: As in `add`.

        Raises:
            UnknownDocumentError: If an id is not in the index. Nothing was changed.
            DuplicateDocumentError: If an id is given twice. Nothing was changed.
            E2GraphRAGError: For the same reasons as `add`.
        """
        work = self._updating(documents)
        return self._run(work, self._run_options(max_llm_calls, progress, engine, wait=wait))

    async def aupdate(
        self,
        documents: Documents,
        *,
        max_llm_calls: int | None = None,
        progress: ProgressListener | None = None,
        engine: EngineArgument | None = None,
        wait: bool = True,
    ) -> IndexReport:
        """Run `update` in a thread; an async summarizer runs in the caller's event loop."""
        work = self._updating(documents)
        return await self._arun(work, self._run_options(max_llm_calls, progress, engine, wait=wait))

    def _updating(self, documents: Documents) -> _Write:
        return partial(update_documents, as_documents(documents), self._index)

    def resume(
        self,
        *,
        max_llm_calls: int | None = None,
        progress: ProgressListener | None = None,
        engine: EngineArgument | None = None,
    ) -> IndexReport:
        """Index the documents that a crash, a stop or a failure left in the queue.

        Finished results are not computed again. `max_llm_calls`, `progress` and `engine`, failures
        and errors are handled as in `add`.
        """
        work = self._resuming()
        return self._run(work, self._run_options(max_llm_calls, progress, engine))

    async def aresume(
        self,
        *,
        max_llm_calls: int | None = None,
        progress: ProgressListener | None = None,
        engine: EngineArgument | None = None,
    ) -> IndexReport:
        """Run `resume` in a thread; an async summarizer runs in the caller's event loop."""
        work = self._resuming()
        return await self._arun(work, self._run_options(max_llm_calls, progress, engine))

    def _resuming(self) -> _Write:
        return partial(resume_documents, self._index)

    def work(
        self,
        *,
        forever: bool = False,
        llm_limit: int | None = None,
        lease: float = 60.0,
        progress: ProgressListener | None = None,
    ) -> IndexReport:
        """Index the documents in the queue, beside workers in other processes.

        Any number of workers can index the queue of an index in Postgres. Each document is indexed
        by one of them, and no summary is created twice. If a worker dies or loses its connection,
        others take over its documents. Documents that have failed are left to `resume` or `add`.
        In a file, one worker indexes the queue, and others wait.

        The method returns when all documents in the queue are indexed or have failed, also those of
        other workers. `stop` and `close` end it after the calls in flight.

        Args:
            forever: Whether to wait for further documents when the queue is empty.
            llm_limit: Maximum number of simultaneous LLM calls of all workers; give all of them the
                same. None means that only the `concurrency` of each worker limits its calls.
            lease: Seconds after which other workers take over the documents of a worker that died
                or lost its connection. A worker that lives renews its leases.
            progress: Called with every `Progress` event of each group of documents. The totals are
                those of the group.

        Returns:
            What this worker has done. Entities and edges are not counted.

        Raises:
            InvalidInputError: If an argument is invalid.
            SettingsMismatchError: If the documents were added with other settings or models than
                those of this index.
            IndexingError: If so many documents fail that they are probably not the cause.
            StoreConnectionError: If the server cannot be reached for longer than `lock_timeout`.
                Finished work is saved, and other workers take over the documents.
        """
        return self._work(self._worker(forever, llm_limit, lease, progress))

    async def awork(
        self,
        *,
        forever: bool = False,
        llm_limit: int | None = None,
        lease: float = 60.0,
        progress: ProgressListener | None = None,
    ) -> IndexReport:
        """Run `work` in a thread; an async summarizer runs in the caller's event loop."""
        loop = CallerLoop(asyncio.get_running_loop())
        worker = self._worker(forever, llm_limit, lease, progress, loop)
        return await run_in_thread(lambda: self._work(worker), worker.stop)

    def _work(self, worker: Worker) -> IndexReport:
        with self._hooks.around_write():
            report = worker.run()
            self._hooks.drop_indexed()
        self.follow_write()
        return report

    def _worker(
        self,
        forever: bool,
        llm_limit: int | None,
        lease: float,
        progress: ProgressListener | None,
        runner: CallerLoop | None = None,
    ) -> Worker:
        from e2graphrag_integrations.indexing.worker import Worker, WorkOptions

        if self._writes.max_llm_calls is not None:
            raise InvalidInputError(
                f"max_llm_calls={self._writes.max_llm_calls} of WriteOptions limits one write, and "
                "workers share theirs: open the index without it, or call resume()"
            )
        limit = None if llm_limit is None else check_int("llm_limit", llm_limit, 1, _MAX_LLM_LIMIT)
        seconds = check_seconds("lease", lease)
        if seconds < _MIN_LEASE:
            raise InvalidInputError(f"lease={lease} must be at least {_MIN_LEASE} seconds")
        options = WorkOptions(
            check_bool("forever", forever),
            limit,
            seconds,
            self._writes.lock_timeout,
            progress,
            runner,
        )
        return Worker(self._index, options)

    def reindex(self, *, progress: ProgressListener | None = None) -> IndexReport:
        """Extract the entities of all chunks again, without any LLM or embedding call.

        Do this to replace the extractor: open the file with `models=Models(extractor=...)`. Nothing
        else changes.

        The file changes in one transaction. After a failure, a stop or a crash it is as before, and
        the next call reuses the finished extractions. If the file is current, nothing happens.

        Args:
            progress: Called with every `Progress` event.

        Returns:
            The numbers of documents, chunks, entities and edges, and the time. If nothing was to
            do, `skipped` contains all documents.

        Raises:
            ExtractionError: If the extractor fails.
            SettingsMismatchError: If the extractor of the file cannot be loaded by name and none
                was given.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            CorruptStoreError: If a stored row does not match its checksum.
            StoppedError: If `stop` or `close` was called.
        """
        return self._reindex(IndexingRun(progress=progress))

    async def areindex(self, *, progress: ProgressListener | None = None) -> IndexReport:
        """Run `reindex` in a thread."""
        run = IndexingRun(progress=progress)
        return await run_in_thread(lambda: self._reindex(run), run.stop.stop_all)

    def _reindex(self, run: IndexingRun) -> IndexReport:
        from e2graphrag_integrations.indexing.reindex import reindex_documents

        return self._run(partial(reindex_documents, self._index), run)

    def estimate_reembed(self, embedder: Embedder | str) -> ReembedEstimate:
        """Return what `reembed` would embed, without embedding anything.

        Args:
            embedder: As in `reembed`. It is loaded, because its tokenizer decides the windows.
        """
        from e2graphrag_integrations.indexing.reembed import estimate_reembedding

        components = self._index.components
        loaded = components.loaded(self._hooks.as_embedder(embedder))
        return estimate_reembedding(self._store, components, loaded)

    def reembed(
        self, embedder: Embedder | str, *, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Replace the embedder of the index: embed all chunks, summaries and tags again.

        Nothing is extracted or summarized, so no language model is called, and entities, edits and
        tags remain. Until all vectors are written, in one transaction, questions are answered with
        the old ones. If the call fails, is stopped or the process dies, the index remains as it
        was, and the next call continues with the vectors that were finished. Other processes load
        the new embedder by its name; those that cannot need it as `embedder` when they open the
        index again.

        Args:
            embedder: An `Embedder`, or a name as in `open`. An index of LlamaIndex or LangChain
                also accepts embeddings of the framework.
            progress: Called with every `Progress` event.

        Returns:
            The numbers of documents, nodes and embedded nodes, and the time. If the index has the
            vectors of this embedder already, `skipped` contains all documents.

        Raises:
            InvalidInputError: If the argument is not an embedder, or a vector store of a framework
                has a copy of the vectors.
            EmbeddingError: If the embedder fails.
            MissingDependencyError: If the package of the embedder is not installed.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            StoppedError: If `stop` or `close` was called.
        """
        return self._reembed(embedder, IndexingRun(progress=progress))

    async def areembed(
        self, embedder: Embedder | str, *, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Run `reembed` in a thread."""
        run = IndexingRun(progress=progress)
        return await run_in_thread(lambda: self._reembed(embedder, run), run.stop.stop_all)

    def _reembed(self, embedder: Embedder | str, run: IndexingRun) -> IndexReport:
        if self._hooks.vector_search is not None:
            raise InvalidInputError(
                "reembed() does not change the vectors in a vector store: open the index without "
                "the vector store, call reembed(), and open it again with an empty one"
            )
        embedder = self._hooks.as_embedder(embedder)
        loaded = self._index.components.loaded(embedder)
        report = self._run(partial(self._reembed_all, loaded), run)
        self._arguments["embedder"] = embedder
        return report

    def _reembed_all(self, embedder: Embedder, run: IndexingRun) -> IndexReport:
        from e2graphrag_integrations.indexing.reembed import reembed_documents

        if "enriched" not in self._store.manifest():
            return reembed_documents(self._index, embedder, run)
        from e2graphrag_integrations.enrichment.whole_index import embedded_again

        return reembed_documents(self._index, embedder, run, embedded_again)

    def estimate_enrichment(self) -> CostEstimate:
        """Return the cost of `enrich` without calling a model.

        Raises:
            InvalidInputError: If the index was opened without an enricher.
        """
        from e2graphrag_integrations.enrichment.whole_index import estimate_enrichment

        return estimate_enrichment(self._index)

    def enrich(
        self, *, max_llm_calls: int | None = None, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Enrich all chunks of the index with the enricher of its `WriteOptions`.

        `add` and `update` enrich what they write, so this is for documents that were indexed
        without the enricher, or with another one. Chunks with a cached answer need no call. After
        a crash, a stop or a failure, the next call continues.

        Args:
            max_llm_calls: Maximum number of LLM calls, without retries; None means that of the
                `WriteOptions` of the index.
            progress: Called with every `Progress` event.

        Returns:
            The numbers of documents and enriched chunks, the calls, their tokens, and the time.

        Raises:
            InvalidInputError: If the index was opened without an enricher.
            LLMCallLimitError: If more calls are needed. No model was called.
            EnrichmentError: If all documents failed, or so many that they are not the cause.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            StoppedError: If `stop` or `close` was called.
        """
        from e2graphrag_integrations.enrichment.whole_index import enrich_index

        run = self._run_options(max_llm_calls, progress, None)
        return self._run(partial(enrich_index, self._index), run)

    async def aenrich(
        self, *, max_llm_calls: int | None = None, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Run `enrich` in a thread; an async model runs in the caller's event loop."""
        from e2graphrag_integrations.enrichment.whole_index import enrich_index

        run = self._run_options(max_llm_calls, progress, None)
        return await self._arun(partial(enrich_index, self._index), run)

    def remove_enrichment(self) -> int:
        """Remove what the enricher has added to the chunks; return the number of these chunks.

        Nothing is built, embedded or asked again: all other vectors, texts and entities remain.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        from e2graphrag_integrations.enrichment.whole_index import remove_enrichment

        with self.write_lock():
            removed = remove_enrichment(self._index)
        self.follow_write()
        return removed

    @property
    def replaced_embedder(self) -> Embedder | str | None:
        """The embedder of the last `reembed` of this object; for integrations."""
        return self._arguments.get("embedder")

    def _run(self, work: _Write, run: IndexingRun) -> IndexReport:
        is_shown = self._writes.show_progress and run.progress is None and run.wait
        # Workers may index other documents while some are only added to the queue.
        with (
            self.write_lock(run) if run.wait else self._queueing(run),
            closing(ProgressBar()) if is_shown else nullcontext() as bar,
        ):
            report = work(replace(run, progress=bar) if is_shown else run)
        if run.wait:
            self.follow_write()
        return report

    @contextmanager
    def _queueing(self, run: IndexingRun) -> Iterator[None]:
        with self._hooks.around_write(), self._index.shared(run):
            yield

    async def _arun(self, work: _Write, run: IndexingRun) -> IndexReport:
        """Run `work` in a thread. Cancellation waits for calls in flight and starts no new ones."""
        run = replace(run, runner=CallerLoop(asyncio.get_running_loop()))
        return await run_in_thread(lambda: self._run(work, run), run.stop.stop_all)

    def delete(self, ids: str | Iterable[str]) -> DeleteReport:
        """Delete documents and everything derived from them: either all of them or none.

        Raises:
            UnknownDocumentError: If an id is neither indexed nor queued.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        checked = as_ids(ids)
        if not checked:
            return DeleteReport()
        with self.write_lock():
            report = self._store.delete_documents(checked)
        self.follow_write()
        return report

    async def adelete(self, ids: str | Iterable[str]) -> DeleteReport:
        """Run `delete` in a thread."""
        return await run_in_thread(lambda: self.delete(ids), lambda: None)

    def compact(self) -> CompactReport:
        """Reclaim space from deleted documents, and drop cached results that no document uses.

        Cached results are kept while queued documents may need them.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        with self.write_lock():
            return self._store.compact()

    def cache_summaries(self, summaries: Iterable[tuple[Sequence[str], int, str]]) -> None:
        """Keep summaries that somebody has written already, for the next build to use.

        Summaries that are longer than `summary_tokens` are left out.

        Args:
            summaries: The texts that each summarizes, its level, and the summary.
        """
        builder = self._index.summary_builder(IndexingRun())
        entries = {
            builder.key(texts, level): text.encode()
            for texts, level, text in summaries
            if count_tokens(builder.counter, text) <= builder.max_tokens
        }
        self._store.put_cached("summary", entries)
