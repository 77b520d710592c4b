"""`E2GraphRAG`: one index file, from documents to answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from e2graphrag_integrations._utils.event_loop import CallerLoop, run_in_thread
from e2graphrag_integrations._utils.validation import (
    check_int,
    check_seconds,
    instance_or_default,
    short_repr,
)
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.indexing.inputs import (
    Documents,
    OnCopy,
    OnDuplicate,
    as_documents,
    as_id,
    as_ids,
)
from e2graphrag_integrations.indexing.planning import Splitter, make_planner
from e2graphrag_integrations.indexing.progress import IndexingRun
from e2graphrag_integrations.indexing.writer import IndexWriter
from e2graphrag_integrations.portability.canonical import export_lines
from e2graphrag_integrations.portability.export_import import export_folder, import_folder
from e2graphrag_integrations.portability.stats import index_stats
from e2graphrag_integrations.portability.verify import verify_store
from e2graphrag_integrations.protocols import Embedder, EntityExtractor, Summarizer, TokenCounter
from e2graphrag_integrations.reports import (
    CompactReport,
    CostEstimate,
    DeleteReport,
    DocumentStatus,
    IndexReport,
    ProgressListener,
    Stats,
    VerifyReport,
)
from e2graphrag_integrations.retrieval.filters import Where, metadata_filter
from e2graphrag_integrations.retrieval.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.packing import Expand
from e2graphrag_integrations.retrieval.pipeline import Request, check_strategy
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.session import RetrievalSession
from e2graphrag_integrations.retrieval.strategy import Mode, Strategy
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.settings import Settings, checked_path, resolve_settings
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.queue import queue_states
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.callable import Prompts, RetryPolicy
from e2graphrag_integrations.types import SourceDocument


class E2GraphRAG:
    """An index of documents as summary trees and an entity graph, and retrieval over it.

    Open one with `E2GraphRAG.open`. Queries are safe from many threads; one thread writes at a
    time. Use it as a context manager, or `close()` it.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        components: Components,
        strategy: Strategy,
        writer: IndexWriter,
    ) -> None:
        self._store = store
        self._settings = settings
        self._components = components
        self._strategy = strategy
        self._writer = writer
        self._reader = RetrievalSession(store, components)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | Any | None = None,
        extractor: EntityExtractor | str | os.PathLike[str] | None = None,
        token_counter: TokenCounter | None = None,
        strategy: Strategy | None = None,
        splitter: Splitter | None = None,
        split_segments: bool = False,
        summarizer_id: str | None = None,
        prompts: Prompts | None = None,
        concurrency: int = 4,
        retry: RetryPolicy | None = None,
        lock_timeout: float = 30.0,
        **settings: int | str | None,
    ) -> E2GraphRAG:
        """Open an index file, or make one where there is none.

        Args:
            path: The file; `":memory:"` keeps the index in memory.
            embedder: An `Embedder`, or a sentence-transformers name. None takes the one the file
                was made with, at first all-MiniLM-L6-v2.
            summarizer: A `Summarizer`, or any function from prompt to text, sync or async. None
                summarizes extractively, without a language model.
            extractor: An `EntityExtractor`, or a spaCy pipeline's name or path. None takes the
                one the file was made with, at first the bundled English pipeline.
            token_counter: Counts tokens for sizes and budgets; None counts by rule.
            strategy: Ranks; None is `HybridStrategy()`. `PaperStrategy()` is the paper's own.
            splitter: Cuts a text into the spans of its chunks, in order; None cuts at sentences by
                `chunk_size`.
            split_segments: Let no chunk go from one segment of a document into the next.
            summarizer_id: Names a plain function's model in the cache, so that later runs reuse
                its summaries.
            prompts: For a plain function.
            concurrency: Summaries in the making at once.
            retry: Patience with transient errors of the summarizer.
            lock_timeout: Seconds to wait for another instance that is writing.
            **settings: `chunk_size=1200`, `chunk_overlap=100`, `group_size=5`,
                `summary_tokens=300`; `chunking="content"` and `grouping="content"` cut where the
                text itself says, so that an edit of a long document makes few summaries anew.
                Fixed when the first document is added.

        Raises:
            InvalidInputError: For an argument that makes no sense.
            NotAnIndexError: If the file is something else.
            SchemaVersionError: If a newer version made it.
            SettingsMismatchError: If it was made with other settings or models.
        """
        path = checked_path(path)
        concurrency = check_int("concurrency", concurrency)
        if splitter is not None and not callable(splitter):
            raise InvalidInputError(f"splitter={short_repr(splitter)} must be a function of a text")
        lock_timeout = check_seconds("lock_timeout", lock_timeout)
        retry = instance_or_default("retry", retry, RetryPolicy)
        strategy = HybridStrategy() if strategy is None else strategy
        check_strategy(strategy)
        parts: dict[str, Any] = {
            "embedder": embedder,
            "extractor": extractor,
            "summarizer": summarizer,
            "token_counter": token_counter,
            "summarizer_id": summarizer_id,
            "prompts": prompts,
        }
        if not Path(path).exists():  # refuse what does not fit before there is a file
            resolve_settings(settings, {}, path)
            Components(path, {}, **parts)
        store = Store(path, timeout=lock_timeout)
        try:
            resolved, components = _as_made(store, settings, parts)
        except BaseException:
            store.close()
            raise
        planner = make_planner(splitter, by_segment=bool(split_segments))
        writer = IndexWriter(
            store, resolved, components, concurrency=concurrency, retry=retry, planner=planner
        )
        return cls(store, resolved, components, strategy, writer)

    # Writing

    def estimate(
        self, documents: Documents = (), *, update: Documents | None = None
    ) -> CostEstimate:
        """Return what `add` would cost: exact summaries to make, bounds of their tokens.

        Nothing is called and nothing is written.

        Args:
            documents: As for `add(..., on_duplicate="replace")`; unchanged ones cost nothing.
            update: As for `update`.

        Raises:
            UnknownDocumentError: If one of `update` is not there.
        """
        updated = as_documents(() if update is None else update)
        return self._writer.estimate(as_documents(documents, "replace"), updated)

    def add(
        self,
        documents: Documents,
        *,
        on_duplicate: OnDuplicate = "error",
        on_copy: OnCopy = "keep",
        progress: ProgressListener | None = None,
    ) -> IndexReport:
        """Index documents; one that is there already, unchanged, is skipped.

        Each document is written whole or not at all. One that fails leaves the others alone: the
        report names it, and it waits in the file for `resume()` or the next `add`. If none goes
        through, the first failure is raised. What was finished before a failure, a stop or a crash
        is kept: going on pays for nothing twice.

        Args:
            documents: One or many, with ids of their own.
            on_duplicate: What to do with an id that is there, or given twice, with another content:
                `error` refuses all, `skip` keeps the first version, `replace` takes the last.
            on_copy: What to do with a document whose text, title, metadata and segments are those
                of another id: `keep` indexes it, too, at no cost but that of its rows; `skip`
                leaves it out.
            progress: Called from worker threads with each step.

        Raises:
            InvalidInputError: For something that is no document; nothing was written.
            DuplicateDocumentError: For an id given twice or there with another content; nothing
                was written.
            SettingsMismatchError: If the parts are not those the file was made with.
            StoreLockedError: If another instance is writing for longer than `lock_timeout`.
            IndexingError: If no document went through: summarizer, embedder or extractor failed.
        """
        taken = as_documents(documents, on_duplicate)
        return self._writer.add(taken, IndexingRun(progress=progress), on_duplicate, on_copy)

    async def aadd(
        self,
        documents: Documents,
        *,
        on_duplicate: OnDuplicate = "error",
        on_copy: OnCopy = "keep",
        progress: ProgressListener | None = None,
    ) -> IndexReport:
        """Index like `add`, in a thread; an async summarizer runs in the caller's event loop."""
        taken = as_documents(documents, on_duplicate)
        return await self._in_thread(
            lambda run: self._writer.add(taken, run, on_duplicate, on_copy), progress
        )

    async def _in_thread(
        self,
        work: Callable[[IndexingRun], IndexReport],
        progress: ProgressListener | None,
    ) -> IndexReport:
        """Run `work` in a thread; when cancelled, let calls in flight end and no other begin."""
        run = IndexingRun(CallerLoop(asyncio.get_running_loop()), progress)
        return await run_in_thread(lambda: work(run), run.stop.all)

    def stop(self) -> None:
        """Let calls in flight end and begin no other: indexing raises StoppedError."""
        self._writer.stop()

    @property
    def writer(self) -> IndexWriter:
        """What changes the file, for what is built on an index."""
        return self._writer

    def update(
        self, documents: Documents, *, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Replace documents by new versions; unchanged ones are skipped.

        The old version is deleted in the transaction that writes the new one: after a failure it
        is still there. Failures are dealt with as by `add`. Only what changed is made anew; with
        `chunking="content", grouping="content"` that is the way from an edit up to its root.

        Raises:
            UnknownDocumentError: If an id is not there; nothing was changed.
            DuplicateDocumentError: If an id is given twice; nothing was changed.
            SettingsMismatchError: As `add`; nothing was changed.
            StoreLockedError: As `add`.
            IndexingError: As `add`.
        """
        return self._writer.update(as_documents(documents), IndexingRun(progress=progress))

    async def aupdate(
        self, documents: Documents, *, progress: ProgressListener | None = None
    ) -> IndexReport:
        """Replace like `update`, in a thread; an async summarizer runs in the caller's loop."""
        taken = as_documents(documents)
        return await self._in_thread(lambda run: self._writer.update(taken, run), progress)

    def resume(self, *, progress: ProgressListener | None = None) -> IndexReport:
        """Go on with documents that were given and are not indexed: see `status()`.

        They wait in the file since a crash, a stop or a failure; what was finished of them is not
        paid for again. Failures are dealt with as by `add`.

        Raises:
            SettingsMismatchError: As `add`.
            StoreLockedError: As `add`.
            IndexingError: As `add`.
        """
        return self._writer.resume(IndexingRun(progress=progress))

    async def aresume(self, *, progress: ProgressListener | None = None) -> IndexReport:
        """Go on like `resume`, in a thread; an async summarizer runs in the caller's loop."""
        return await self._in_thread(self._writer.resume, progress)

    def status(self) -> list[DocumentStatus]:
        """Return how far each document is, by id: those indexed and those that wait."""
        with self._store.consistent():
            indexed = self._store.content_hashes()
            waiting = queue_states(self._store)
        return [
            DocumentStatus(id_, *waiting[id_], id_ in indexed)
            if id_ in waiting
            else DocumentStatus(id_, "done")
            for id_ in sorted({*indexed, *waiting})
        ]

    def delete(self, ids: str | Iterable[str]) -> DeleteReport:
        """Remove documents with everything that came from them; all of them or none.

        Raises:
            UnknownDocumentError: If an id is neither indexed nor waiting.
            StoreLockedError: If another instance is writing for longer than `lock_timeout`.
        """
        return self._writer.delete(as_ids(ids))

    async def adelete(self, ids: str | Iterable[str]) -> DeleteReport:
        """Remove documents like `delete`, in a thread."""
        return await run_in_thread(lambda: self.delete(ids), lambda: None)

    def compact(self) -> CompactReport:
        """Give back the room of what was deleted, and forget what no document needs.

        Results that builds left behind are kept while documents wait that may need them.

        Raises:
            StoreLockedError: If another instance is writing for longer than `lock_timeout`.
        """
        return self._writer.compact()

    # Reading

    def retrieve(
        self,
        question: str,
        *,
        k: int = 10,
        mode: Mode = "auto",
        strategy: Strategy | None = None,
        where: Where | None = None,
        token_budget: int | None = None,
        expand: Expand = "none",
        fill: bool = False,
    ) -> RetrievalResult:
        """Return the nodes that answer a question; no language model is called.

        Args:
            question: In words; very long ones are embedded in windows.
            k: Nodes returned, after expansion. With a budget, candidates are max(k, 50).
            mode: `auto` routes by the question; `local` uses the entity lists only and may return
                fewer than k; `global` uses no entity list.
            strategy: Instead of the index's.
            where: Metadata that every node must have, applied before ranking: equality, `$in`,
                ranges, `$and`, `$or`, `$not` (see `filters.compile_where`), `document_id` included;
                or a function of the metadata.
            token_budget: Most tokens of `result.context()`.
            expand: `children` or `leaves` puts those in a summary's place.
            fill: Make up for what is missing to k, where entities give fewer, by the nearest nodes.

        Raises:
            InvalidInputError: For an argument out of range, an empty question among them.
            FilterError: If `where` is not understood.
            CorruptStoreError: If a row read for the answer does not match its checksum.
        """
        strategy = self._strategy if strategy is None else strategy
        nodes = None if where is None else metadata_filter(where)
        return self._reader.answer(
            Request(question, strategy, k, mode, nodes, token_budget, expand, fill=bool(fill))
        )

    async def aretrieve(self, question: str, **options: Any) -> RetrievalResult:
        """Retrieve in a thread, with the options of `retrieve`."""
        return await asyncio.to_thread(self.retrieve, question, **options)

    @property
    def graph(self) -> EntityGraph:
        """The entity graph of the present state."""
        return self._reader.snapshot().graph

    def search_through(self, searches: Callable[[Snapshot], NodeSearch] | None) -> None:
        """Search vectors in another place than FAISS: for what is built on an index.

        Args:
            searches: Makes the search of a snapshot; None goes back to FAISS.
        """
        self._reader.search_through(searches)

    @property
    def store(self) -> Store:
        """The file, for what is built on an index."""
        return self._store

    @property
    def settings(self) -> Settings:
        """The settings that the index is made with."""
        return self._settings

    @property
    def document_ids(self) -> list[str]:
        """The ids of all documents, sorted."""
        return sorted(self._store.content_hashes())

    def document(self, document_id: str) -> SourceDocument:
        """Return a document as it was given.

        Raises:
            UnknownDocumentError: If it is not there.
        """
        return self._store.document(as_id(document_id))

    def stats(self) -> Stats:
        """Return what the index holds."""
        return index_stats(self._store, self._reader.snapshot())

    def verify(self) -> VerifyReport:
        """Check the file against its own invariants; see `VerifyReport.problems`."""
        return verify_store(self._store)

    def export(self) -> Iterator[str]:
        """Yield the index as canonical JSON lines: equal indexes give equal lines."""
        return iter(export_lines(self._store))

    def export_to(self, folder: str | os.PathLike[str]) -> None:
        """Write the index into a new folder: `index.jsonl`, and `vectors.npz`, no pickle.

        `E2GraphRAG.import_from` makes a file of it that equals this one in the bytes of `export()`.

        Raises:
            InvalidInputError: If the folder is there already.
            StoreError: If it cannot be written.
        """
        export_folder(self._store, checked_path(folder))

    @staticmethod
    def import_from(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
        """Make an index file of a folder that `export_to` wrote; `open` it afterwards.

        Raises:
            InvalidInputError: If the folder is no whole export, or the file is there already.
            StoreError: If the file cannot be written.
        """
        import_folder(checked_path(folder), checked_path(path))

    def close(self) -> None:
        """Let go of the file, which then is the whole index; safe to call twice.

        Indexing in another thread is stopped: calls in flight end, and `add` raises StoppedError.
        """
        self._writer.close()

    def __enter__(self) -> E2GraphRAG:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"E2GraphRAG({self._store.path!r})"


def _as_made(
    store: Store, settings: Mapping[str, Any], parts: Mapping[str, Any]
) -> tuple[Settings, Components]:
    """Return settings and parts: those asked for, else those of the file or of what waits in it.

    Raises:
        SettingsMismatchError: If the file was made with others.
    """
    manifest = store.manifest()
    waiting = {} if manifest else store.waiting_manifest()
    if waiting:  # it is to be indexed as it was given, unless told otherwise
        asked = {name: value for name, value in settings.items() if value is not None}
        settings = asdict(resolve_settings({}, waiting, store.path)) | asked
        models = {part: waiting.get(f"{part}_model") or None for part in ("embedder", "extractor")}
        parts = {**parts, **{part: parts[part] or model for part, model in models.items()}}
    resolved = resolve_settings(settings, manifest, store.path)
    components = Components(store.path, manifest, **parts)
    components.check_embedder()
    return resolved, components
