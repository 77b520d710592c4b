"""The documents of a framework in an index: stored immediately, and then indexed by a build.

Writes build, and questions do not: a question is answered from what is built. A build after each
of many small writes would repeat work, so changes are stored as pending documents in the file, and
writes can be collected into one build. What fails remains pending for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from e2graphrag_integrations._utils.concurrency import (
    CallerLoop,
    process_lock,
    process_rlock,
    run_in_thread,
)
from e2graphrag_integrations.corpus.page import (
    Page,
    document_ids,
    join_pages,
    owners_of,
    page_ids,
    page_owners,
    sort_pages,
    split_pages,
)
from e2graphrag_integrations.corpus.trees import DocumentFormat, page_tree
from e2graphrag_integrations.corpus.vector_store_mirror import VectorStoreMirror
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import (
    E2GraphRAGError,
    IndexingError,
    InvalidInputError,
    UnknownDocumentError,
)
from e2graphrag_integrations.indexing.grouping import Tree, describe_groups, tree_names
from e2graphrag_integrations.indexing.inputs import as_engine, as_ids, as_list
from e2graphrag_integrations.indexing.run import IndexingRun, ProgressBar
from e2graphrag_integrations.indexing.scope_keys import check_scope_keys
from e2graphrag_integrations.options import TreePer, WriteOptions
from e2graphrag_integrations.pages import NODE_FIELDS, source_ids
from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.store.queue import dequeue, read_queue
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.summarizers.callable import CallableSummarizer
from e2graphrag_integrations.types import Segment, SourceDocument

logger = logging.getLogger(__name__)

_BATCH_CHARACTERS = 4_000_000
"""Number of characters in a batch of documents from an iterator, which bounds the memory use."""

_POLL_SECONDS = 0.02
"""Seconds between checks for the end of another build."""

D = TypeVar("D")

SourcePages = dict[str, list[Page]]
"""The pages of each source. A source without pages will be deleted."""


@dataclass(frozen=True, slots=True)
class _IndexedPages:
    """The pages of an indexed source.

    Attributes:
        stamp: The stamp of the source, which every change replaces.
        page_ids: The ids of its pages.
        owners: The documents that its pages are parts of, keyed by page id.
    """

    stamp: str
    page_ids: tuple[str, ...]
    owners: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A write: pages with their trees, and ids of pages to remove."""

    pages: Sequence[Page] = ()
    trees: Sequence[Tree] = ()
    removed: Sequence[str] = ()


@dataclass(eq=False, slots=True)
class CollectedWrites:
    """A block that collects writes.

    Attributes:
        outer: The block around it, if there is one.
        is_open: False after its end; a task that was started in it may continue.
    """

    outer: CollectedWrites | None
    is_open: bool = True

    @property
    def innermost_open(self) -> CollectedWrites | None:
        """The block itself or the nearest one around it that is open."""
        block: CollectedWrites | None = self
        while block is not None and not block.is_open:
            block = block.outer
        return block


class Corpus(Generic[D]):
    """The documents in an index and the builds that index them; thread-safe.

    Several corpora, even in different processes, can use the same index. Only builds wait for each
    other.

    Args:
        rag: The engine.
        format_: The documents of the framework.
        tree_per: Determines which documents share a summary tree.
        summarizer: The engine's summarizer, if it calls a model of the framework.
        writes: What a build may cost, where it runs, and whether it shows a progress bar.
        auto_build: Whether `upsert` and `delete` build; if not, they only store changes.
        mirror: Copies the vectors to a vector store, if any.
    """

    def __init__(
        self,
        rag: E2GraphRAG,
        format_: DocumentFormat[D],
        *,
        tree_per: TreePer = "source",
        summarizer: CallableSummarizer | None = None,
        writes: WriteOptions | None = None,
        auto_build: bool = True,
        mirror: VectorStoreMirror | None = None,
    ) -> None:
        self.rag = rag
        self.format = format_
        self.mirror = mirror
        self.auto_build = auto_build
        self.report = IndexReport()
        self._tree_per = tree_per
        self._summarizer = summarizer
        writes = WriteOptions() if writes is None else writes
        self._max_llm_calls = writes.max_llm_calls
        self._engine = as_engine(writes.engine)
        self._show_progress = writes.show_progress
        self._has_warned = False
        self._has_logged_groups = False
        # The block around the running code. Other threads and tasks must not wait for its end.
        self._block = ContextVar[CollectedWrites | None]("collected writes", default=None)
        self._build_lock = process_lock()
        self._build_loop: asyncio.AbstractEventLoop | None = None  # used by the running abuild
        # Guards the attributes below. Never held during a model call.
        self._lock = process_rlock()
        self._file_state = ("", "")
        self._pending: SourcePages = {}
        self._sources_state = ("", "")  # the state of the file that `_sources` reflects
        self._sources: dict[str, str] = {}  # keyed by page id
        self._indexed: dict[str, _IndexedPages] = {}
        # The documents that pages are parts of, keyed by page id.
        self._owners: dict[str, tuple[str, ...]] = {}
        with self._lock:
            self._refresh()

    @property
    def is_dirty(self) -> bool:
        """Whether the file has pending documents, including those of other users of the file."""
        with self._lock:
            self._refresh()
            return bool(self._pending)

    # Documents

    def add(self, documents: Iterable[D], *, wait: bool = True) -> list[str]:
        """Store and index documents, and return the ids; an iterator is read in batches.

        With `wait=False`, the documents are only stored and added to the queue; see `enqueue`.

        Raises:
            InvalidInputError: If a document cannot be stored. Only earlier batches are kept.
            IndexingError: If a model failed. The other batches are stored and remain pending.
        """
        ids: list[str] = []
        error: IndexingError | None = None
        for batch in self._batches(documents):
            ids += self.store(batch)
            if not wait:
                self.enqueue()
            elif error is None and self._max_llm_calls is None and self._open_block is None:
                try:
                    self.build()
                except IndexingError as failure:
                    error = failure
        if error is not None:
            raise error
        is_limited = self._max_llm_calls is not None  # the limit is for all batches together
        if wait and is_limited and self._open_block is None:
            self.build()
        return ids

    async def aadd(self, documents: Iterable[D], *, wait: bool = True) -> list[str]:
        """Run `add` in threads; the summarizer runs in the caller's event loop."""
        if not wait:
            return await asyncio.to_thread(self.add, documents, wait=False)
        ids: list[str] = []
        error: IndexingError | None = None
        batches = self._batches(documents)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            ids += await asyncio.to_thread(self.store, batch)
            if error is None and self._max_llm_calls is None and self._open_block is None:
                try:
                    await self.abuild()
                except IndexingError as failure:
                    error = failure
        if error is not None:
            raise error
        if self._max_llm_calls is not None and self._open_block is None:
            await self.abuild()
        return ids

    def _batches(self, documents: Iterable[D]) -> Iterator[list[D]]:
        """Yield documents in batches that end where the source changes; a list is one batch."""
        if not isinstance(documents, Iterator):
            yield as_list(documents, "documents")
            return
        batch: list[D] = []
        source: str | None = None
        size = 0
        for document in documents:
            page = self.format.to_page(document)
            previous, source = source, self._tree(document, page).id
            if batch and size >= _BATCH_CHARACTERS and source != previous:
                yield batch
                batch.clear()  # the caller still has the list
                size = 0
            batch.append(document)
            size += len(page.text)
        yield batch

    def _tree(self, document: D | Page, page: Page) -> Tree:
        scope_keys = self.rag.settings.scope_keys
        return page_tree(self.format, document, page, self._tree_per, scope_keys)

    def upsert(self, documents: Sequence[D]) -> list[str]:
        """Store and index documents, replacing those with the same ids, and return the ids.

        Raises:
            InvalidInputError: If a document cannot be stored. Nothing is changed.
            IndexingError: If a model failed. What failed remains pending.
        """
        ids = self.store(documents)
        if self.builds_writes:
            self.build()
        return ids

    async def aupsert(self, documents: Sequence[D]) -> list[str]:
        """Run `upsert` in threads; the summarizer runs in the caller's event loop."""
        ids = await asyncio.to_thread(self.store, documents)
        if self.builds_writes:
            await self.abuild()
        return ids

    @property
    def builds_writes(self) -> bool:
        """Whether a write is followed by a build."""
        return self.auto_build and self._open_block is None

    def has_unbuilt(self) -> bool:
        """Return whether documents are pending of which workers will not index this version."""
        with self._lock:
            self._refresh()
            pending = dict(self._pending)
        ids = self.rag.queued_ids() if pending else set()
        if any(pages and source not in ids for source, pages in pending.items()):
            return True
        queued = read_queue(self.rag.store, pending, with_failed=False)
        hashes = {one.id: content_hash(one) for one in queued}
        waiting = {
            source: pages
            for source, pages in pending.items()
            if pages and hashes.get(source) == content_hash(join_pages(source, pages))
        }
        return bool(pending.keys() - waiting - self._moved(pending, waiting.values()))

    def collect_writes(self) -> CollectedWrites:
        """Only store the changes of this thread or task, and of tasks that it starts.

        Returns:
            The block, for `stop_collecting`.
        """
        block = CollectedWrites(self._open_block)
        self._block.set(block)
        return block

    def stop_collecting(self, block: CollectedWrites) -> bool:
        """Return whether no block around this one collects writes, so that they must be built."""
        block.is_open = False
        return block.innermost_open is None

    @property
    def _open_block(self) -> CollectedWrites | None:
        """The innermost block that collects the writes of the running code, if there is one."""
        block = self._block.get()
        return None if block is None else block.innermost_open

    def store(self, documents: Sequence[D | Page], removed: Sequence[str] = ()) -> list[str]:
        """Store documents, replacing those with the same ids, and return the ids.

        Args:
            documents: The documents, or the pages that they have become.
            removed: Ids of documents to delete in the same step.

        Raises:
            InvalidInputError: If a document cannot be stored. Nothing is changed.
        """
        planned = self._planned(documents, removed)
        with self._lock:
            self._store(lambda: self._after(planned))
            self._forget(planned)
        return [page.id for page in planned.pages]

    def store_planned(self, plan: Callable[[], tuple[Sequence[Page], Sequence[str]]]) -> None:
        """Store the pages, and remove those with the ids, that a plan returns.

        No other write comes between the plan and this one.

        Args:
            plan: Returns the pages and the ids, given the present documents. It is called again if
                another process has changed the index meanwhile.

        Raises:
            InvalidInputError: If a page cannot be stored. Nothing is changed.
        """
        with self._lock:
            while True:
                self._refresh_sources()
                state = self._file_state
                planned = self._planned(*plan())
                if self._try_store(lambda: self._after(planned), state):  # noqa: B023 - called now
                    break
            self._forget(planned)

    def _planned(self, documents: Sequence[D | Page], removed: Sequence[str]) -> _Planned:
        pages = [one if isinstance(one, Page) else self.format.to_page(one) for one in documents]
        trees = [
            self._tree(document, page) for document, page in zip(documents, pages, strict=True)
        ]
        return _Planned(pages, trees, removed)

    def _after(self, planned: _Planned) -> SourcePages:
        sources = [tree.id for tree in planned.trees]
        return self._after_upsert(planned.pages, sources, planned.removed)

    def _forget(self, planned: _Planned) -> None:
        """Forget the pages that a write has removed, and log what it joined. Needs the lock."""
        for id_ in set(planned.removed).difference(page.id for page in planned.pages):
            self._sources.pop(id_, None)
            self._owners.pop(id_, None)
        self._log_groups(planned.trees)

    def _log_groups(self, trees: Sequence[Tree]) -> None:
        """Log once that documents share trees, and why."""
        if not self._has_logged_groups and (groups := describe_groups(trees)):
            self._has_logged_groups = True
            logger.info(groups)

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents and return the ids that existed.

        What is deleted is found no more, even if a model fails, unless writes are collected. The
        rest of a source is then missing until the next build.

        Raises:
            IndexingError: If a model failed while the other changed sources were indexed again.
        """
        deleted = self.store_deletion(ids)
        if self.builds_writes and self.has_unbuilt():
            self.build()
        return deleted

    async def adelete(self, ids: Iterable[str]) -> list[str]:
        """Run `delete` in threads; the summarizer runs in the caller's event loop."""
        deleted = await asyncio.to_thread(self.store_deletion, ids)
        if self.builds_writes and await asyncio.to_thread(self.has_unbuilt):
            await self.abuild()
        return deleted

    def store_deletion(self, ids: Iterable[str]) -> list[str]:
        """Store the deletion of documents, without a build, and return the ids that existed."""
        requested = as_ids(ids)
        deleted: list[str] = []

        def after_delete() -> SourcePages:
            deleted[:] = [id_ for id_ in requested if id_ in self._sources]
            return self._after_delete(deleted)

        with self._lock:
            self._store(after_delete)
            for id_ in deleted:
                del self._sources[id_]
                self._owners.pop(id_, None)
        if self._open_block is None:  # otherwise, the build deletes them after it used their cache
            self.drop_deleted(keep_rest=self.auto_build)
        return deleted

    def _withdraw_deleted(self) -> None:
        """Delete the trees that contain deleted documents, until a build replaces them.

        Documents that move to other trees remain in their old one until these are built, if all
        documents of a tree do. The cached content stays while documents are pending, so the build
        repeats no model calls. Needs the write lock.
        """
        with self._lock:
            self._refresh()
            pending = list(self._pending)
            waiting = {
                id_
                for pages in self._pending.values()
                for page in pages
                for id_ in (page.id, *source_ids({NODE_FIELDS: page.fields}))
            }
        if not pending:
            return

        def outdated(stored: Iterable[tuple[str, Sequence[Any]]]) -> set[str]:
            segments = {id_: [Segment(*one) for one in own] for id_, own in stored}
            return {
                source
                for source, own in segments.items()
                if not waiting.issuperset(page_ids(source, own))
                or not waiting.issuperset(id_ for one in own for id_ in source_ids(one.metadata))
            }

        queued = read_queue(self.rag.store, pending)
        dequeue(self.rag.store, sorted(outdated((one.id, one.segments) for one in queued)))
        indexed = outdated(self.rag.document_segments(pending).items())
        if indexed:
            self.rag.delete_indexed(indexed)
            self.rag.follow_write()

    def get(self, ids: Iterable[str]) -> list[D]:
        """Return the documents with these ids, as they were added; unknown ids are ignored."""
        return [self.format.to_document(page) for page in self.pages(ids)]

    def pages(self, ids: Iterable[str]) -> list[Page]:
        """Return the documents with these ids as pages; unknown ids are ignored."""
        with self._lock, self.rag.read_transaction():
            self._refresh_sources()
            pages: dict[str, dict[str, Page]] = {}
            return [
                self._load_pages(self._sources[id_], pages)[id_]
                for id_ in ids
                if id_ in self._sources
            ]

    def parts_of(self, ids: Iterable[str]) -> list[str]:
        """Return the ids of the pages that are, or are parts of, the documents with these ids.

        An id can also be that of a tree, which stands for all of its pages.
        """
        with self._lock:
            self._refresh_sources()
            wanted = set(ids)
            return [
                id_
                for id_, source in self._sources.items()
                if not wanted.isdisjoint((id_, source, *self._owners.get(id_, ())))
            ]

    def parts_of_source(self, source: str) -> list[str]:
        """Return the ids of the pages in the trees of a source, such as the path of a file."""
        with self._lock:
            self._refresh_sources()
            return [
                id_
                for id_, tree in self._sources.items()
                if source in tree_names(tree, (id_, *document_ids(self._owners.get(id_, ()))))
            ]

    def ids(self) -> list[str]:
        """Return the ids of all documents."""
        with self._lock:
            self._refresh_sources()
            return list(self._sources)

    def trees_of(self, ids: Iterable[str]) -> set[str]:
        """Return the ids of the trees with the documents with these ids; ignore unknown ids."""
        with self._lock:
            self._refresh_sources()
            return {self._sources[id_] for id_ in ids if id_ in self._sources}

    def unknown_ids(self, ids: Iterable[str]) -> list[str]:
        """Return the ids that no document has."""
        with self._lock:
            self._refresh_sources()
            return [id_ for id_ in ids if id_ not in self._sources]

    # Builds

    def build(self, config: Any = None) -> IndexReport:
        """Index the pending documents.

        Args:
            config: The framework's configuration of the calls to the summarizer.

        Raises:
            LLMCallLimitError: If the build needs more than `max_llm_calls` calls. The documents
                remain pending.
            IndexingError: If a source failed. That source remains pending, the other sources are
                indexed, and finished summaries are kept.
            InvalidInputError: If a running `abuild` needs the current event loop.
        """
        if self._build_loop is not None and self._build_loop is _running_loop():
            raise InvalidInputError(
                "a running build needs this event loop, so waiting for it here would never end: "
                "await abuild(), or the async method of the write"
            )
        with self._build_lock:
            return self._build(config, IndexingRun())

    async def abuild(self, config: Any = None) -> IndexReport:
        """Run `build` in a thread; the summarizer runs in the caller's event loop."""
        loop = asyncio.get_running_loop()
        run = IndexingRun(CallerLoop(loop))
        # Waiting in a thread could occupy the last free thread, which the other build may need.
        while not self._build_lock.acquire(blocking=False):  # noqa: ASYNC110 - a thread holds it
            await asyncio.sleep(_POLL_SECONDS)
        self._build_loop = loop
        try:
            return await run_in_thread(lambda: self._build(config, run), run.stop.stop_all)
        finally:
            self._build_loop = None
            self._build_lock.release()

    def enqueue(self) -> IndexReport:
        """Add the pending documents to the queue, for workers.

        They remain pending until a build finds that workers have indexed them, which costs nothing.
        What workers have indexed in another tree meanwhile leaves its old one.
        """
        done = self._indexed_meanwhile()
        moved = self._moved(self._pending, done.values())
        if moved:
            with self.rag.write_lock():
                self._finish(done | {source: [] for source in moved})
        with self._lock:
            self._refresh()
            pending = {source: pages for source, pages in self._pending.items() if pages}
        read = _as_json(pending)

        def unchanged() -> set[str]:
            stored = self.rag.pending.read()
            return {source for source, pages in read.items() if stored.get(source) == pages}

        return self.rag.enqueue(_joined(pending), unchanged)

    def drop_indexed(self) -> None:
        """Forget pending documents that workers have indexed meanwhile."""
        if done := self._indexed_meanwhile():
            self.rag.pending.drop(_as_json(done))

    def _indexed_meanwhile(self) -> SourcePages:
        if not self.is_dirty:
            return {}
        hashes = self.rag.store.content_hashes()
        queued = self.rag.queued_ids()
        with self._lock:
            self._refresh()
            return {
                source: pages
                for source, pages in self._pending.items()
                if pages and source not in queued
                if hashes.get(source) == content_hash(join_pages(source, pages))
            }

    def estimate(
        self, documents: Sequence[D | Page] = (), removed: Sequence[str] = ()
    ) -> CostEstimate:
        """Estimate the cost of a build without calling a model.

        Args:
            documents: Documents, or the pages that they become, that would be stored before.
            removed: Ids of documents that would be removed in the same step.
        """
        planned = self._planned(documents, removed)
        trees = [tree.id for tree in planned.trees]
        with self._lock, self.rag.read_transaction():
            self._refresh_sources()
            pending = {**self._pending, **self._after_upsert(planned.pages, trees, removed)}
        return self.rag.estimate(_joined(pending))

    def _build(self, config: Any, run: IndexingRun) -> IndexReport:
        # Read the pending documents under the lock: another process may have just indexed them.
        with self.rag.write_lock(run):
            with self._lock:
                self._refresh()
                pending = dict(self._pending)
            if not pending:
                return IndexReport()
            documents = _joined(pending)
            self._warn_about_chunks(pending)
            try:
                report = self._index(documents, config, run)
                built = {id_: pages for id_, pages in pending.items() if id_ not in report.failed}
                left = self._moved(built, [pending[id_] for id_ in report.failed])
                self._finish({id_: pages for id_, pages in built.items() if id_ not in left})
            except BaseException:
                with contextlib.suppress(E2GraphRAGError):  # the first error says more
                    self._withdraw_deleted()
                raise
            self._withdraw_deleted()
        self.report = report
        if report.failed:
            raise IndexingError(
                f"{len(report.failed)} of {len(documents)} source(s) failed and remain pending for "
                f"the next build; the others are indexed. {next(iter(report.failed.values()))}"
            )
        return report

    def _warn_about_chunks(self, pending: SourcePages) -> None:
        """Log the first problem with chunks, once."""
        if self._has_warned:
            return
        problem = self.format.problem([*pending.items()], self._tree_per)
        if problem is not None:
            self._has_warned = True
            logger.warning(problem)

    def _index(self, documents: list[SourceDocument], config: Any, run: IndexingRun) -> IndexReport:
        summarizer: Summarizer | None = None
        if self._summarizer is not None:
            summarizer = replace(self._summarizer, config=config, is_async=run.runner is not None)
        with (
            contextlib.closing(ProgressBar()) if self._show_progress else contextlib.nullcontext()
        ) as progress:
            run = replace(
                run,
                progress=progress,
                summarizer=summarizer,
                max_llm_calls=self._max_llm_calls,
                engine=self._engine,
            )
            return self.rag.pending.index(documents, run)

    def drop_deleted(self, *, keep_rest: bool = False) -> None:
        """Delete sources without documents, which requires neither a model nor a build.

        Args:
            keep_rest: Whether to keep the trees of sources that only lost some documents, because
                a build follows. Otherwise they are deleted, and the rest of them is built later.
        """
        if not self._build_lock.acquire(blocking=False):
            return  # the running build, or the next one, deletes them
        try:
            with self.rag.write_lock():
                with self._lock:
                    self._refresh()
                    pending = dict(self._pending)
                left = self._moved(pending, pending.values())
                empty = {id_: pages for id_, pages in pending.items() if not pages}
                if empty.keys() - left:
                    self._finish({id_: pages for id_, pages in empty.items() if id_ not in left})
                if not keep_rest:
                    self._withdraw_deleted()
        finally:
            self._build_lock.release()

    def _moved(self, sources: SourcePages, waiting: Iterable[Sequence[Page]]) -> set[str]:
        """Return the sources without pages all of whose indexed documents wait in another source.

        They are found in the old one until they can be found in the new one.
        """
        empty = [id_ for id_, pages in sources.items() if not pages]
        ids = {page.id for pages in waiting for page in pages}
        if not empty or not ids:
            return set()
        stored = self.rag.document_segments(empty).items()
        return {source for source, own in stored if ids.issuperset(page_ids(source, own))}

    def _finish(self, pending: Mapping[str, list[Page]]) -> None:
        """Delete empty sources and remove the given pending documents. Needs the write lock."""
        empty = {source for source, pages in pending.items() if not pages}
        self.rag.delete_indexed(empty & {*self.rag.document_ids, *self.rag.queued_ids()})
        self.rag.pending.drop(_as_json(pending))
        if self.mirror is not None:
            self.rag.refresh()
        self.rag.follow_write()
        with self._lock:
            self._refresh()

    # The file and its in-memory copy

    def _refresh(self) -> None:
        """Reread the pending documents if the file has changed."""
        with self.rag.read_transaction():
            state = self.rag.pending.state()
            if state == self._file_state:
                return
            pending = self.rag.pending.read()
        self._pending = {id_: [Page(*page) for page in pages] for id_, pages in pending.items()}
        self._file_state = state

    def _refresh_sources(self) -> None:
        """Also reread the ids of all documents, which a search does not need."""
        with self.rag.read_transaction():
            self._refresh()
            if self._sources_state == self._file_state:
                return
            self._refresh_indexed()
        self._sources, self._owners = {}, {}
        for source, own in self._indexed.items():
            if source not in self._pending:
                self._sources.update(dict.fromkeys(own.page_ids, source))
                self._owners.update(own.owners)
        self._note(self._pending)
        self._sources_state = self._file_state

    def _refresh_indexed(self) -> None:
        """Reread the pages of the sources that have changed in the index."""
        stamps = self.rag.store.stamps()
        known = self._indexed
        changed = [
            id_ for id_, stamp in stamps.items() if getattr(known.get(id_), "stamp", "") != stamp
        ]
        segments = self.rag.document_segments(changed) if changed else {}
        read = {
            id_: _IndexedPages(stamps[id_], tuple(page_ids(id_, own)), page_owners(own))
            for id_, own in segments.items()
        }
        self._indexed = {id_: read.get(id_) or known[id_] for id_ in stamps}

    def _store(self, compute_change: Callable[[], SourcePages]) -> None:
        """Store the new pages of changed sources, recomputing them if the file has changed."""
        while not self._try_store(compute_change):
            pass

    def _try_store(
        self,
        compute_change: Callable[[], SourcePages],
        expected_state: tuple[str, str] | None = None,
    ) -> bool:
        """Store the new pages of changed sources; return False if the file has changed.

        Args:
            compute_change: Computes them.
            expected_state: The state of the file that they depend on; None means the present one.
        """
        with self.rag.read_transaction():
            self._refresh_sources()
            if expected_state not in (None, self._file_state):
                return False
            change = compute_change()
        # Raise if a page could not be indexed later.
        check_scope_keys(_joined(change), self.rag.settings.scope_keys)
        if not change:
            return True
        state = self.rag.pending.put(_as_json(change), self._file_state)
        if state is None:
            return False
        self._pending |= change
        self._note(change)
        self._sources_state = state
        self._file_state = state  # last, so that a process forked meanwhile reads the file again
        return True

    def _note(self, pending: Mapping[str, Sequence[Page]]) -> None:
        for source, pages in pending.items():
            self._sources |= {page.id: source for page in pages}
            self._owners |= {
                page.id: owners_of(page.fields) for page in pages if "source" in page.fields
            }

    def _after_upsert(
        self, pages: Sequence[Page], sources: Sequence[str], removed: Sequence[str]
    ) -> SourcePages:
        """Return the pages of the changed sources after an upsert."""
        changed: dict[str, dict[str, Page]] = {}
        for id_ in removed:
            if id_ in self._sources:
                self._load_pages(self._sources[id_], changed).pop(id_, None)
        new_sources: dict[str, str] = {}
        for page, source in zip(pages, sources, strict=True):
            old_source = new_sources.get(page.id, self._sources.get(page.id, source))
            if old_source != source:
                self._load_pages(old_source, changed).pop(page.id, None)
            self._load_pages(source, changed)[page.id] = page
            new_sources[page.id] = source
        return {source: sort_pages([*by_id.values()]) for source, by_id in changed.items()}

    def _after_delete(self, ids: Sequence[str]) -> SourcePages:
        """Return the pages of the changed sources after a delete."""
        changed: dict[str, dict[str, Page]] = {}
        for id_ in ids:
            del self._load_pages(self._sources[id_], changed)[id_]
        return {source: sort_pages([*by_id.values()]) for source, by_id in changed.items()}

    def _load_pages(self, source: str, loaded: dict[str, dict[str, Page]]) -> dict[str, Page]:
        """Return the pages of a source by id; `loaded` caches them."""
        if source not in loaded:
            pages = self._pending.get(source)
            if pages is None:
                try:
                    pages = split_pages(self.rag.document(source))
                except UnknownDocumentError:
                    pages = []
            loaded[source] = {page.id: page for page in pages}
        return loaded[source]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _joined(pending: Mapping[str, Sequence[Page]]) -> list[SourceDocument]:
    return [join_pages(source, pages) for source, pages in pending.items() if pages]


def _as_json(pending: Mapping[str, Sequence[Page]]) -> dict[str, Any]:
    return {source: [page.to_json() for page in pages] for source, pages in pending.items()}
