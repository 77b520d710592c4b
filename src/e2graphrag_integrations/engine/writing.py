"""The methods that add, change and remove documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from e2graphrag_integrations._utils.concurrency import CallerLoop, run_in_thread
from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_int,
    check_seconds,
    check_text,
)
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
from e2graphrag_integrations.reports import (
    DeleteReport,
    IndexReport,
    ProgressListener,
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

    def enqueue(self, documents: Documents, wanted: Callable[[], Collection[str]]) -> IndexReport:
        """Add documents to the queue, in place of older versions; for integrations.

        Args:
            documents: The documents.
            wanted: Returns the ids of those that are still to be queued. Called in the transaction
                that queues them, because other processes may have stored newer versions meanwhile.
        """
        run = replace(self._run_options(None, None, wait=False), wanted=wanted)
        return self._run(self._adding(documents, "replace", "keep"), run)

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

    def delete(self, ids: str | Iterable[str]) -> DeleteReport:
        """Delete documents and everything derived from them: either all of them or none.

        Versions that an index of LangChain or LlamaIndex has stored and not built yet are deleted
        too.

        Raises:
            UnknownDocumentError: If an id is neither indexed nor queued.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        return self._delete(ids, with_pending=True)

    def delete_indexed(self, ids: str | Iterable[str]) -> DeleteReport:
        """Delete documents, but not the newer versions that are pending; for integrations."""
        return self._delete(ids, with_pending=False)

    def _delete(self, ids: str | Iterable[str], *, with_pending: bool) -> DeleteReport:
        checked = as_ids(ids)
        if not checked:
            return DeleteReport()
        with self.write_lock():
            report = self._store.delete_documents(checked, with_pending=with_pending)
        self.follow_write()
        return report

    async def adelete(self, ids: str | Iterable[str]) -> DeleteReport:
        """Run `delete` in a thread."""
        return await run_in_thread(lambda: self.delete(ids), lambda: None)

    def cache_summaries(self, summaries: Iterable[tuple[Sequence[str], int, str]]) -> None:
        """Keep summaries that somebody has written already, for the next build to use.

        Summaries that are longer than `summary_tokens` are left out.

        Args:
            summaries: The texts that each summarizes, its level, and the summary.

        Raises:
            InvalidInputError: If a summary is no text.
        """
        builder = self._index.summary_builder(IndexingRun())
        entries = {
            builder.key(texts, level): text.encode()
            for texts, level, text in summaries
            if count_tokens(builder.counter, check_text("summary", text)) <= builder.max_tokens
        }
        self._store.put_cached("summary", entries)

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
