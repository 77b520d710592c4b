"""`ScopedIndex`: the part of an index of LangChain documents that a reader may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Unpack

from e2graphrag_integrations.corpus.scopes import DocumentScope, ScopeOwner
from e2graphrag_integrations.langchain.conversion import user_filter
from e2graphrag_integrations.langchain.options import RetrieverOptions
from e2graphrag_integrations.langchain.retriever import E2GraphRAGRetriever, make_retriever
from e2graphrag_integrations.retrieval.filters.where import NodeMask, Predicate


class _Owner(ScopeOwner, Protocol):
    """The part of an `E2GraphRAGIndex` that its scopes use."""

    k: int | None


class ScopedIndex(DocumentScope):
    """A part of an `E2GraphRAGIndex`; `E2GraphRAGIndex.scoped` creates it.

    It has the methods of `ScopedReader`, whose documents are the sources of the index. A retriever
    of it accepts the options of any other, except `store_filter`.
    """

    _owner: _Owner

    @staticmethod
    def adapt(where: Mapping[str, Any]) -> Predicate:
        """Return a filter on stored metadata, from one on the metadata of retrieved documents."""
        predicate = user_filter(where)
        if isinstance(predicate, NodeMask):
            raise TypeError("a scope needs a filter on metadata")
        return predicate

    def as_retriever(self, **options: Unpack[RetrieverOptions]) -> E2GraphRAGRetriever:
        """Return a retriever with the given fields; see `E2GraphRAGIndex.as_retriever`.

        Raises:
            InvalidInputError: If an option is unknown or invalid.
        """
        return make_retriever(self, self._owner.k, options)
