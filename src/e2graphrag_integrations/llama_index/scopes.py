"""`ScopedIndex`: the part of a LlamaIndex index that a reader may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.llms import LLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode

from e2graphrag_integrations._utils.validation import check_instance
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.scoped_reader import ScopedReader
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_ids
from e2graphrag_integrations.llama_index.entity_methods import EntityMethods
from e2graphrag_integrations.llama_index.filters import user_predicate
from e2graphrag_integrations.llama_index.options import (
    QueryEngineOptions,
    RetrieverOptions,
    llm_for_answers,
    reject_engine_options,
)
from e2graphrag_integrations.llama_index.retriever import E2GraphRAGRetriever
from e2graphrag_integrations.llama_index.storage.docstore import read_nodes
from e2graphrag_integrations.retrieval.scopes import Scope, Statistics


class ScopeOwner(Protocol):
    """The part of an `E2GraphRAGIndex` that its scopes use."""

    @property
    def reader(self) -> E2GraphRAG:
        """The engine of the index."""
        ...


class ScopedIndex(EntityMethods):
    """The documents of an `E2GraphRAGIndex` that match a filter; `scoped` of the index creates it.

    It answers as if no other document had ever been indexed, and gives retrievers and query
    engines. No argument can widen it. It only reads; the docstore and the vector store of the
    index still contain everything, so do not give them to a tenant.
    """

    def __init__(self, index: ScopeOwner, scope: Scope) -> None:
        self._index = index
        self._scope = scope
        self._reader = ScopedReader(*index.reader.parts_for_scopes(), scope)

    @property
    def reader(self) -> ScopedReader:
        """The reader of the scope."""
        return self._reader

    @property
    def where(self) -> Mapping[str, Any]:
        """The filter: a copy of the conditions that must all hold."""
        return self._scope.where

    @property
    def statistics(self) -> Statistics:
        """Whose document frequencies BM25 uses."""
        return self._scope.statistics

    def scoped(
        self, where: Mapping[str, Any], *, statistics: Statistics | None = None
    ) -> ScopedIndex:
        """Return a part of this one; see `E2GraphRAGIndex.scoped`.

        Raises:
            FilterError: If `where` is empty or invalid.
            InvalidInputError: If `statistics` is invalid or wider than those of this scope.
        """
        return ScopedIndex(self._index, user_scope(where, statistics, self._scope))

    def as_retriever(self, **options: Unpack[RetrieverOptions]) -> E2GraphRAGRetriever:
        """Return a retriever; `E2GraphRAGRetriever` describes the options."""
        return E2GraphRAGRetriever(self, **options)

    def as_query_engine(
        self,
        llm: LLM | str | None = None,
        *,
        retriever: E2GraphRAGRetriever | None = None,
        **options: Unpack[QueryEngineOptions],
    ) -> BaseQueryEngine:
        """Return a query engine.

        Args:
            llm: Writes the answers; None means `Settings.llm`.
            retriever: A retriever of this scope; None means `as_retriever()`.
            **options: Options of `as_retriever`, such as `similarity_top_k`, and of LlamaIndex's
                query engines and response synthesizers, such as `response_mode`.

        Raises:
            InvalidInputError: If an option is unknown, if the retriever does not belong to this
                scope, or if it is given together with options of `as_retriever`.
        """
        reject_engine_options(options)
        engine_options: dict[str, Any] = dict(options)
        names = RetrieverOptions.__annotations__.keys() & engine_options.keys()
        retriever_options: Any = {name: engine_options.pop(name) for name in names}
        if retriever is None:
            retriever = self.as_retriever(**retriever_options)
        elif retriever_options:
            raise InvalidInputError(
                f"retriever= is given: pass {', '.join(sorted(retriever_options))} to "
                "as_retriever()"
            )
        check_instance(
            "retriever", retriever, E2GraphRAGRetriever, "pass as_retriever() of this scope"
        )
        if retriever.searched_index is not self._reader:
            raise InvalidInputError("retriever= must come from as_retriever() of this scope")
        return RetrieverQueryEngine.from_args(retriever, llm=llm_for_answers(llm), **engine_options)

    def get_nodes(self, node_ids: str | Sequence[str]) -> list[BaseNode]:
        """Return nodes by id; unknown ids are left out."""
        return read_nodes(self._reader, as_ids(node_ids))

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the index and the filters."""
        return _rebuild, (self._index, self._scope.given, self.statistics)

    def __repr__(self) -> str:
        return f"ScopedIndex({self._reader.path!r}, where={self.where!r})"


def user_scope(
    where: Mapping[str, Any], statistics: Statistics | None = None, within: Scope | None = None
) -> Scope:
    """Return the scope of a filter on the metadata of LlamaIndex documents."""
    return Scope.of(where, statistics, within=within, adapt=user_predicate)


def _rebuild(
    index: ScopeOwner, given: Sequence[Mapping[str, Any]], statistics: Statistics
) -> ScopedIndex:
    return ScopedIndex(index, Scope.rebuild(given, statistics, user_predicate))
