"""`ScopedIndex`: the part of an index of LangChain documents that a reader may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Unpack

from langchain_core.documents import Document

from e2graphrag_integrations.corpus.corpus import Corpus
from e2graphrag_integrations.engine.scoped_reader import ScopedReader
from e2graphrag_integrations.langchain.conversion import user_filter
from e2graphrag_integrations.langchain.options import RetrieverOptions
from e2graphrag_integrations.langchain.retriever import E2GraphRAGRetriever, make_retriever
from e2graphrag_integrations.retrieval.filters.where import NodeMask, Predicate
from e2graphrag_integrations.retrieval.scopes import Scope, Statistics


class ScopeOwner(Protocol):
    """The part of an `E2GraphRAGIndex` that its scopes use."""

    corpus: Corpus[Document]
    k: int | None


class ScopedIndex(ScopedReader):
    """A part of an `E2GraphRAGIndex`; `E2GraphRAGIndex.scoped` creates it.

    It has the methods of `ScopedReader`, whose documents are the sources of the index. A retriever
    of it accepts the options of any other, except `store_filter`.
    """

    def __init__(self, index: ScopeOwner, scope: Scope) -> None:
        self._owner = index
        super().__init__(*index.corpus.rag.parts_for_scopes(), scope)

    def scoped(
        self, where: Mapping[str, Any], *, statistics: Statistics | None = None
    ) -> ScopedIndex:
        """Return a part of this one; see `ScopedReader.scoped`."""
        return ScopedIndex(self._owner, user_scope(where, statistics, self.scope))

    def as_retriever(self, **options: Unpack[RetrieverOptions]) -> E2GraphRAGRetriever:
        """Return a retriever with the given fields; see `E2GraphRAGIndex.as_retriever`.

        Raises:
            InvalidInputError: If an option is not supported.
            ValidationError: If a field is unknown or invalid.
        """
        return make_retriever(self, self._owner.k, options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the index, which opens its file again, and the filters."""
        return _rebuild, (self._owner, self.scope.given, self.statistics)


def user_scope(
    where: Mapping[str, Any], statistics: Statistics | None = None, within: Scope | None = None
) -> Scope:
    """Return the scope of a filter on the metadata of LangChain documents."""
    return Scope.of(where, statistics, within=within, adapt=_adapt)


def _adapt(where: Mapping[str, Any]) -> Predicate:
    predicate = user_filter(where)
    if isinstance(predicate, NodeMask):
        raise TypeError("a scope needs a filter on metadata")
    return predicate


def _rebuild(
    index: ScopeOwner, given: Sequence[Mapping[str, Any]], statistics: Statistics
) -> ScopedIndex:
    return ScopedIndex(index, Scope.rebuild(given, statistics, _adapt))
