"""The documents of an index: taken at once and kept for good, built into trees when needed.

LangChain's `index()` hands over small batches with deletes in between; a build after each would do
the same work over and over. So changes wait in the file, and one build does them all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs

from e2graphrag_integrations._utils.event_loop import CallerLoop, run_in_thread
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import (
    IndexingError,
    InvalidInputError,
    UnknownDocumentError,
)
from e2graphrag_integrations.indexing.inputs import as_ids
from e2graphrag_integrations.indexing.progress import ProgressBar
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.langchain.llm import RunnableSummarizer
from e2graphrag_integrations.langchain.mirror import Mirror
from e2graphrag_integrations.langchain.pages import (
    Page,
    Scope,
    document_of,
    from_source,
    in_order,
    page_ids,
    page_of,
    source_of,
    to_source,
)
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.types import SourceDocument

_PATIENCE = 0.02
"""Seconds between two looks whether another build has ended."""


class Corpus:
    """LangChain documents over one index file; safe from many threads.

    Other users of the file are noticed: what they took is neither lost nor brought back. Nothing
    but a build waits for a build.

    Args:
        rag: The index.
        scope: What shares a tree.
        summarizer: Of the index, if it is a LangChain model.
        config: Given along with every call of it.
        auto_build: Whether a search builds what is pending.
        show_progress: Whether builds draw a bar.
        mirror: The vector store that is searched, if not FAISS.
    """

    def __init__(
        self,
        rag: E2GraphRAG,
        *,
        scope: Scope = "source",
        summarizer: RunnableSummarizer | None = None,
        config: RunnableConfig | None = None,
        auto_build: bool = True,
        show_progress: bool = False,
        mirror: Mirror | None = None,
    ) -> None:
        self.rag = rag
        self.mirror = mirror
        self.auto_build = auto_build
        self.report = IndexReport()
        self._scope = scope
        self._summarizer = summarizer
        self._config = config
        self._show_progress = show_progress
        self._building = threading.Lock()  # one build at a time
        self._loop: asyncio.AbstractEventLoop | None = None  # of a build that awaits its model
        self._lock = threading.RLock()  # of what follows; never held while a model is called
        self._seen = ("", "")
        self._pending: dict[str, list[Page]] = {}
        self._sources: dict[str, str] = {}
        with self._lock:
            self._refresh()

    @property
    def is_dirty(self) -> bool:
        """Whether documents wait to be built in, whoever has taken them."""
        with self._lock:
            self._refresh()
            return bool(self._pending)

    def upsert(self, documents: Sequence[Document]) -> list[str]:
        """Take documents, in the place of those with their ids, and return the ids.

        Raises:
            InvalidInputError: If one of them cannot be stored; nothing has changed.
        """
        pages = [page_of(document) for document in documents]
        sources = [
            source_of(document, page, self._scope)
            for document, page in zip(documents, pages, strict=True)
        ]
        placed = list(zip(pages, sources, strict=True))
        with self._lock:
            while not self._take(lambda: self._with(placed)):
                pass  # another user of the file was quicker
        return [page.id for page in pages]

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents and return the ids of those that were there.

        What is left of a source that loses some of its documents is built anew with the next build.
        """
        wanted = as_ids(ids)
        gone: list[str] = []

        def change() -> dict[str, list[Page]]:
            gone[:] = [id_ for id_ in wanted if id_ in self._sources]
            return self._without(gone)

        with self._lock:
            while not self._take(change):
                pass  # another user of the file was quicker
            for id_ in gone:
                del self._sources[id_]
        self._delete_emptied()
        return gone

    def _delete_emptied(self) -> None:
        """Take sources without documents out of the file: that needs no model, and no build."""
        if not self._building.acquire(blocking=False):
            return  # the build at work, or the next one, does it
        try:
            with self.rag.write_lock():
                with self._lock:
                    self._refresh()
                    pending = self._pending.items()
                    emptied = {source: pages for source, pages in pending if not pages}
                if not emptied:
                    return
                self.rag.delete(emptied.keys() & set(self.rag.document_ids))
                self.rag.pending.drop(_plain(emptied))
            with self._lock:
                self._refresh()
            if self.mirror is not None:
                self.rag.refresh()
        finally:
            self._building.release()

    def get(self, ids: Iterable[str]) -> list[Document]:
        """Return documents as they were given, those that are there."""
        with self._lock, self.rag.read_transaction():
            self._refresh()
            read: dict[str, dict[str, Page]] = {}
            return [
                document_of(self._pages(self._sources[id_], read)[id_])
                for id_ in ids
                if id_ in self._sources
            ]

    def ids(self) -> list[str]:
        """Return the ids of all documents."""
        with self._lock:
            self._refresh()
            return list(self._sources)

    def build(self, config: RunnableConfig | None = None) -> IndexReport:
        """Build in what is pending; nothing is done where nothing is.

        Raises:
            IndexingError: If a model failed on a source, which stays pending; the others are built
                in, finished summaries are kept.
            InvalidInputError: In an event loop that another build needs.
        """
        if self._loop is not None and self._loop is _running_loop():
            raise InvalidInputError(
                "a build waits for this event loop, so waiting for it here would never end: await "
                "abuild(), ainvoke() or aretrieve()"
            )
        with self._building:
            return self._build(config, IndexingRun())

    async def abuild(self, config: RunnableConfig | None = None) -> IndexReport:
        """Build like `build`; the model is awaited in the caller's event loop."""
        loop = asyncio.get_running_loop()
        run = IndexingRun(CallerLoop(loop))
        # Waiting in a thread could take the last one, which the model of the other build needs.
        while not self._building.acquire(blocking=False):  # noqa: ASYNC110 - it is a thread's
            await asyncio.sleep(_PATIENCE)
        self._loop = loop
        try:
            return await run_in_thread(lambda: self._build(config, run), run.stop.stop_all)
        finally:
            self._loop = None
            self._building.release()

    def estimate(self) -> CostEstimate:
        """Return what building in what is pending would cost."""
        with self._lock:
            self._refresh()
            changed = _changed(self._pending)
        return self.rag.estimate(changed)

    def ensure_built(self, config: RunnableConfig | None = None) -> None:
        """Build in what is pending, or refuse to search without it."""
        if self.is_dirty:
            self._check_auto()
            self.build(config)

    async def aensure_built(self, config: RunnableConfig | None = None) -> None:
        """Build in what is pending, or refuse to search without it."""
        if await asyncio.to_thread(lambda: self.is_dirty):
            self._check_auto()
            await self.abuild(config)

    def _check_auto(self) -> None:
        if not self.auto_build:
            raise InvalidInputError(
                f"{len(self._pending)} source(s) wait to be built in and auto_build is off: call "
                "build() or abuild() first"
            )

    def _build(self, config: RunnableConfig | None, run: IndexingRun) -> IndexReport:
        # What waits is read under the lock: another instance may have built it in meanwhile.
        with self.rag.write_lock(run):
            return self._build_alone(config, run)

    def _build_alone(self, config: RunnableConfig | None, run: IndexingRun) -> IndexReport:
        rag = self.rag
        with self._lock:
            self._refresh()
            pending = dict(self._pending)
        if not pending:
            return IndexReport()
        summarizer = None
        if self._summarizer is not None:
            merged = merge_configs(self._config, config)
            summarizer = self._summarizer.for_run(merged, is_async=run.runner is not None)
        there = set(rag.document_ids)
        changed = _changed(pending)
        bar = ProgressBar(always=True) if self._show_progress else None
        run = replace(run, progress=bar, summarizer=summarizer)
        try:
            report = rag.pending.index(changed, run)
        finally:
            if bar is not None:
                bar.close()
        emptied = {source for source, pages in pending.items() if not pages}
        rag.delete(emptied & there)
        done = {id_: pages for id_, pages in pending.items() if id_ not in report.failed}
        rag.pending.drop(_plain(done))
        if self.mirror is not None:
            rag.refresh()
        with self._lock:
            self._refresh()
        self.report = report
        if report.failed:
            raise IndexingError(
                f"{len(report.failed)} of {len(changed)} source(s) could not be indexed and wait "
                f"for the next build; the others are there. {next(iter(report.failed.values()))}"
            )
        return report

    def _refresh(self) -> None:
        """Read what waits and what is built in, unless the file is as it was read last."""
        with self.rag.read_transaction():
            state = self.rag.pending.state()
            if state == self._seen:
                return
            pending = self.rag.pending.read()
            segments = self.rag.document_segments()
        self._pending = {id_: [Page(*page) for page in pages] for id_, pages in pending.items()}
        self._sources = {
            id_: source
            for source, own in segments.items()
            if source not in pending
            for id_ in page_ids(source, own)
        }
        self._note(self._pending)
        self._seen = state

    def _note(self, pending: Mapping[str, Sequence[Page]]) -> None:
        self._sources |= {page.id: source for source, pages in pending.items() for page in pages}

    def _pages(self, source: str, read: dict[str, dict[str, Page]]) -> dict[str, Page]:
        """Return the pages of a source by id, from `read` or else into it."""
        if source not in read:
            pages = self._pending.get(source)
            if pages is None:
                try:
                    pages = from_source(self.rag.document(source))
                except UnknownDocumentError:
                    pages = []
            read[source] = {page.id: page for page in pages}
        return read[source]

    def _with(self, placed: Sequence[tuple[Page, str]]) -> dict[str, list[Page]]:
        changed: dict[str, dict[str, Page]] = {}
        moved: dict[str, str] = {}
        for page, source in placed:
            before = moved.get(page.id, self._sources.get(page.id, source))
            if before != source:
                del self._pages(before, changed)[page.id]
            self._pages(source, changed)[page.id] = page
            moved[page.id] = source
        return {source: in_order([*pages.values()]) for source, pages in changed.items()}

    def _without(self, ids: Sequence[str]) -> dict[str, list[Page]]:
        changed: dict[str, dict[str, Page]] = {}
        for id_ in ids:
            del self._pages(self._sources[id_], changed)[id_]
        return {source: list(pages.values()) for source, pages in changed.items()}

    def _take(self, change: Callable[[], dict[str, list[Page]]]) -> bool:
        """Keep what `change` makes of the file's state; False if the state changed meanwhile."""
        with self.rag.read_transaction():
            self._refresh()
            changed = change()
        _changed(changed)  # refuses what could not be indexed later
        if not changed:
            return True
        seen = self.rag.pending.put(_plain(changed), self._seen)
        if seen is None:
            return False
        self._seen = seen
        self._pending |= changed
        self._note(changed)
        return True


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _changed(pending: Mapping[str, Sequence[Page]]) -> list[SourceDocument]:
    return [to_source(source, pages) for source, pages in pending.items() if pages]


def _plain(pending: Mapping[str, Sequence[Page]]) -> dict[str, Any]:
    return {
        source: [[page.id, page.text, dict(page.metadata)] for page in pages]
        for source, pages in pending.items()
    }
