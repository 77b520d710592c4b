"""`ScopedIndex`: the part of a LlamaIndex index that a reader may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.llms import LLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode

from e2graphrag_integrations._utils.validation import check_instance
from e2graphrag_integrations.corpus.scopes import DocumentScope
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_ids
from e2graphrag_integrations.llama_index.filters import user_predicate
from e2graphrag_integrations.llama_index.options import (
    EngineOptions,
    QueryEngineOptions,
    RetrieverOptions,
    llm_for_answers,
    reject_engine_options,
)
from e2graphrag_integrations.llama_index.retriever import E2GraphRAGRetriever
from e2graphrag_integrations.llama_index.storage.docstore import read_nodes

_OF_ENGINES = frozenset(("callback_manager", "verbose"))
"""Options that a retriever and an engine both have."""


class ScopedIndex(DocumentScope):
    """The documents of an `E2GraphRAGIndex` that match a filter; `scoped` of the index creates it.

    It has the methods of `ScopedReader`, whose documents are the trees of the index, and gives
    retrievers and query engines. It only reads; the docstore and the vector store of the index
    still contain everything, so do not give them to a tenant.
    """

    adapt = staticmethod(user_predicate)

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
        own: Any = {k: v for k, v in options.items() if k not in EngineOptions.__annotations__}
        if retriever is None:
            retriever = self.as_retriever(**own)
        elif only_own := own.keys() - _OF_ENGINES:
            raise InvalidInputError(
                f"retriever= is given: pass {', '.join(sorted(only_own))} to as_retriever()"
            )
        check_instance(
            "retriever", retriever, E2GraphRAGRetriever, "pass as_retriever() of this scope"
        )
        if retriever.searched_index is not self:
            raise InvalidInputError("retriever= must come from as_retriever() of this scope")
        engine_options: Any = options  # it ignores those of the retriever
        return RetrieverQueryEngine.from_args(retriever, llm=llm_for_answers(llm), **engine_options)

    def get_nodes(self, node_ids: str | Sequence[str]) -> list[BaseNode]:
        """Return nodes by id; unknown ids are left out."""
        return read_nodes(self, as_ids(node_ids))
