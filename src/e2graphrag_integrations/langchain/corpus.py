"""The documents of an index: taken at once and kept for good, built into trees when needed.

LangChain's `index()` hands over small batches with deletes in between; a build after each would do
the same work over and over. So changes wait in the file, and one build does them all.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from e2graphrag_integrations.bridge import Bridge, CallerLoop, in_thread
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain.llm import RunnableSummarizer
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
from e2graphrag_integrations.progress import ProgressBar
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.store.pending import drop_pending, put_pending, read_pending
from e2graphrag_integrations.types import SourceDocument


class Corpus:
    """LangChain documents over one index file; safe from many threads.

    Args:
        rag: The index.
        scope: What shares a tree.
        summarizer: Of the index, if it is a LangChain model.
        config: Given along with every call of it.
        auto_build: Whether a search builds what is pending.
        show_progress: Whether builds draw a bar.
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
    ) -> None:
        self.rag = rag
        self.auto_build = auto_build
        self.report = IndexReport()
        self._scope = scope
        self._summarizer = summarizer
        self._config = config
        self._show_progress = show_progress
        self._lock = threading.RLock()
        self._pending = {
            source: [Page(*page) for page in pages]
            for source, pages in read_pending(rag.store).items()
        }
        self._sources: dict[str, str] = {}
        for head in rag.store.heads():
            if head.id not in self._pending:
                self._sources |= dict.fromkeys(page_ids(head.id, head.segments), head.id)
        for source, pages in self._pending.items():
            self._sources |= dict.fromkeys((page.id for page in pages), source)

    @property
    def is_dirty(self) -> bool:
        """Whether documents wait to be built in."""
        return bool(self._pending)

    def upsert(self, documents: Sequence[Document]) -> list[str]:
        """Take documents, in the place of those with their ids, and return the ids.

        Raises:
            InvalidInputError: If one of them cannot be stored; nothing has changed.
        """
        pages = [page_of(document) for document in documents]
        with self._lock:
            changed: dict[str, list[Page]] = {}
            for document, page in zip(documents, pages, strict=True):
                source = source_of(document, page, self._scope)
                before = self._sources.get(page.id)
                if before is not None and before != source:
                    there = self._pages(before, changed)
                    changed[before] = [p for p in there if p.id != page.id]
                there = self._pages(source, changed)
                places = [i for i, p in enumerate(there) if p.id == page.id]
                if places:
                    changed[source] = [page if p.id == page.id else p for p in there]
                else:
                    changed[source] = [*there, page]
            self._take({source: in_order(there) for source, there in changed.items()})
            self._sources |= {
                page.id: source for source, there in changed.items() for page in there
            }
        return [page.id for page in pages]

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents and return the ids of those that were there."""
        with self._lock:
            gone = [id_ for id_ in dict.fromkeys(ids) if id_ in self._sources]
            changed: dict[str, list[Page]] = {}
            for id_ in gone:
                source = self._sources[id_]
                changed[source] = [p for p in self._pages(source, changed) if p.id != id_]
            if changed:
                self._take(changed)
            for id_ in gone:
                del self._sources[id_]
        return gone

    def get(self, ids: Iterable[str]) -> list[Document]:
        """Return documents as they were given, those that are there."""
        with self._lock:
            pages: dict[str, list[Page]] = {}
            found: list[Document] = []
            for id_ in ids:
                source = self._sources.get(id_)
                if source is not None:
                    there = pages.setdefault(source, self._pages(source, {}))
                    found.extend(document_of(page) for page in there if page.id == id_)
        return found

    def ids(self) -> list[str]:
        """Return the ids of all documents."""
        return list(self._sources)

    def build(self, config: RunnableConfig | None = None) -> IndexReport:
        """Build in what is pending; nothing is done where nothing is.

        Raises:
            IndexingError: If a model failed; what is pending stays so, finished summaries are kept.
        """
        return self._build(None, config)

    async def abuild(self, config: RunnableConfig | None = None) -> IndexReport:
        """Build like `build`; the model is awaited in the caller's event loop."""
        if not self._pending:
            return IndexReport()
        bridge = CallerLoop(asyncio.get_running_loop())
        return await in_thread(lambda: self._build(bridge, config), self.rag.stop)

    def estimate(self) -> CostEstimate:
        """Return what building in what is pending would cost."""
        with self._lock:
            return self.rag.estimate(self._changed())

    def ensure_built(self) -> None:
        """Build in what is pending, or refuse to search without it."""
        if self._pending:
            self._check_auto()
            self.build()

    async def aensure_built(self) -> None:
        """Build in what is pending, or refuse to search without it."""
        if self._pending:
            self._check_auto()
            await self.abuild()

    def _check_auto(self) -> None:
        if not self.auto_build:
            raise InvalidInputError(
                f"{len(self._pending)} source(s) wait to be built in and auto_build is off: call "
                "build() or abuild() first"
            )

    def _build(self, bridge: Bridge | None, config: RunnableConfig | None) -> IndexReport:
        with self._lock:
            if not self._pending:
                return IndexReport()
            if self._summarizer is not None:
                self._summarizer.config = config or self._config
                self._summarizer.is_async = bridge is not None
            there = set(self.rag.document_ids)
            changed = self._changed()
            bar = ProgressBar(always=True) if self._show_progress else None
            try:
                report = self.rag.add_through(
                    [d for d in changed if d.id not in there], bridge, bar
                ) + self.rag.update_through([d for d in changed if d.id in there], bridge, bar)
            finally:
                if bar is not None:
                    bar.close()
            emptied = {source for source, pages in self._pending.items() if not pages}
            self.rag.delete(emptied & there)
            drop_pending(self.rag.store, self._pending)
            self._pending = {}
            self.report = report
            return report

    def _changed(self) -> list[SourceDocument]:
        return [to_source(source, pages) for source, pages in self._pending.items() if pages]

    def _pages(self, source: str, changed: dict[str, list[Page]]) -> list[Page]:
        if source in changed:
            return changed[source]
        if source in self._pending:
            return self._pending[source]
        if source not in self._sources.values():
            return []
        return from_source(self.rag.document(source))

    def _take(self, changed: dict[str, list[Page]]) -> None:
        for source, pages in changed.items():
            if pages:
                to_source(source, pages)  # refuses what could not be indexed later
        plain: dict[str, Any] = {
            source: [[p.id, p.text, dict(p.metadata)] for p in pages]
            for source, pages in changed.items()
        }
        put_pending(self.rag.store, plain)
        self._pending |= changed
