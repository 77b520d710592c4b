"""`ScopedReader`: a reader of a part of an index, as if the other documents did not exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from e2graphrag_integrations._utils.validation import check_text, short_repr
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    NotPicklableError,
    UnknownDocumentError,
)
from e2graphrag_integrations.indexing.inputs import as_ids
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.reports import Stats
from e2graphrag_integrations.retrieval.filters.where import Where
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.scopes import Scope, Statistics, damaged, shielded
from e2graphrag_integrations.retrieval.session import RetrievalSession
from e2graphrag_integrations.retrieval.strategy import Query, Strategy
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Node, SourceDocument

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.entities.communities import Community

T = TypeVar("T")

ScopedReports = Literal["extractive"]
"""How a scope gets reports of communities. A language model would have to write to the index."""


class ScopedReader(IndexReader):
    """Reads the documents of an index that match a filter; `E2GraphRAG.scoped` creates it.

    It answers as if no other document had ever been indexed: results, traces, entities, aliases,
    counts and error messages contain nothing of them. No argument can widen it; an id of another
    document is an unknown id. It reads through the index and does not have to be closed.

    `where` of a method narrows the scope further. The trace of a result does not say how old the
    answer is, because that depends on the changes of all documents.
    """

    def __init__(
        self, index: OpenIndex, session: RetrievalSession, strategy: Strategy, scope: Scope
    ) -> None:
        self._index = index
        self._session = session
        self._strategy = strategy
        self._scope = scope

    @property
    def where(self) -> Mapping[str, Any]:
        """The filter: a copy of the conditions that must all hold."""
        return self._scope.where

    @property
    def statistics(self) -> Statistics:
        """Whose document frequencies BM25 uses."""
        return self._scope.statistics

    @property
    def strategy(self) -> Strategy:
        """The default retrieval strategy."""
        return self._strategy

    @property
    def made_with(self) -> Mapping[str, str]:
        """The dimension of the vectors, for integrations."""
        made_with = self._index.store.manifest()
        return {key: made_with[key] for key in ("dimension",) if key in made_with}

    @property
    def path(self) -> str:
        """The path of the index file, or `:memory:` for an in-memory index."""
        return self._index.store.path

    def scoped(
        self, where: Mapping[str, Any], *, statistics: Statistics | None = None
    ) -> ScopedReader:
        """Return a reader of those documents of this scope that also match a filter.

        Args:
            where: Conditions on the metadata; see `E2GraphRAG.scoped`.
            statistics: See `E2GraphRAG.scoped`; None means those of this scope.

        Raises:
            InvalidInputError: If `where` is empty or invalid, or if `statistics` is invalid or
                wider than those of this scope.
        """
        scope = Scope.of(where, statistics, within=self._scope)
        return ScopedReader(self._index, self._session, self._strategy, scope)

    @property
    def scope(self) -> Scope:
        """The scope; for integrations."""
        return self._scope

    # Documents

    @property
    def document_ids(self) -> list[str]:
        """The ids of the documents that are visible in full, sorted."""

        def whole(snapshot: Snapshot, _: NodeSource) -> list[str]:
            partial = set(snapshot.partial_documents)
            return [id_ for row, id_ in enumerate(snapshot.documents) if row not in partial]

        return self.read_snapshot(whole)

    def document(self, document_id: str) -> SourceDocument:
        """Return a document of which everything is visible.

        Raises:
            UnknownDocumentError: If there is no such document in the scope.
        """
        id_ = check_text("document id", document_id)
        # The store would take longer for a document of others than for an unknown one.
        if self._shows(id_):
            document = None
            with suppress(UnknownDocumentError, CorruptStoreError):
                document = self._index.store.document(id_)
            if document is not None and self._scope.allows_document(document):
                return document
            if document is None and self._shows(id_):  # it was not deleted meanwhile
                raise damaged(self._index.store.path)
        raise UnknownDocumentError(f"no document {id_!r} in {self._index.store.path}", id_)

    def _shows(self, document_id: str) -> bool:
        """Return whether all nodes of a document are visible."""
        from e2graphrag_integrations.retrieval.outline import find_document

        def shows(snapshot: Snapshot, _: NodeSource) -> bool:
            row = find_document(snapshot, document_id)
            return row is not None and row not in snapshot.partial_documents

        return self.read_snapshot(shows)

    def nodes(self, ids: str | Iterable[str]) -> dict[str, Node]:
        """Return nodes by id; unknown ids are left out."""
        wanted = as_ids(ids)
        return self.read_snapshot(
            lambda snapshot, source: dict(source.nodes_at(snapshot.generation, wanted))
        )

    def read_snapshot(self, work: Callable[[Snapshot, NodeSource], T]) -> T:
        """Return the result of a function of the scope's snapshot and its stored nodes."""
        return self._shielded(lambda: self._session.read(work, self._scope))

    def answer(self, query: Query, strategy: Strategy) -> RetrievalResult:
        """Return the result of a query in the scope; for integrations."""
        return self._shielded(lambda: self._session.retrieve(query, strategy, self._scope))

    def stats(self) -> Stats:
        """Return the counts of the scope; `bytes` is 0."""
        from e2graphrag_integrations.portability.stats import snapshot_stats

        def count(snapshot: Snapshot, _: NodeSource) -> Stats:
            settings = self._index.settings.to_manifest()
            return replace(snapshot_stats(snapshot, snapshot.made_with), settings=settings)

        return self.read_snapshot(count)

    def communities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        where: Where | None = None,
        seed: int = 0,
        reports: ScopedReports | None = "extractive",
    ) -> tuple[Community, ...]:
        """Return the communities of the scope's entity graph; see `E2GraphRAG.communities`.

        Args:
            level: Level in the hierarchy; 0 is the coarsest.
            top: Maximum number of communities; None returns all.
            where: Metadata filter. A community is returned only if all chunks under it match.
            seed: Seed of the detection.
            reports: `extractive` selects sentences as reports, and None leaves them out. Reports
                of a language model are not available, because they are written to the index.

        Raises:
            InvalidInputError: If an argument is invalid, or the scope does not have the level.
        """
        from e2graphrag_integrations.indexing.stages.community_reports import ReportWriter
        from e2graphrag_integrations.retrieval.entities.communities import (
            CommunitySelection,
            communities_with_sources,
            select_communities,
        )

        if reports not in (None, "extractive"):
            raise InvalidInputError(
                f"reports={short_repr(reports)} must be 'extractive' or None in a scope, which "
                "only reads the index"
            )
        selection = CommunitySelection(level, top, where, seed)
        if reports is None:
            return tuple(self.read_snapshot(lambda one, _: select_communities(selection, one)))
        found, sources = self.read_snapshot(
            lambda snapshot, source: communities_with_sources(selection, snapshot, source)
        )
        summaries = self._index.summary_builder(IndexingRun())
        texts = ReportWriter.of("extractive", summaries, self._index.store, level).write(sources)
        return tuple(replace(one, report=text) for one, text in zip(found, texts, strict=True))

    async def acommunities(
        self,
        level: int = 0,
        *,
        top: int | None = None,
        where: Where | None = None,
        seed: int = 0,
        reports: ScopedReports | None = "extractive",
    ) -> tuple[Community, ...]:
        """Run `communities` in a thread."""
        return await asyncio.to_thread(
            self.communities, level, top=top, where=where, seed=seed, reports=reports
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be pickled: the index can be pickled, and gives a new reader.

        Raises:
            NotPicklableError: Always.
        """
        raise NotPicklableError(
            "a ScopedReader cannot be copied or pickled: pickle its index, and call scoped() again"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._index.store.path!r}, where={self.where!r})"

    def _shielded(self, work: Callable[[], T]) -> T:
        return shielded(work, self._index.store.path)
