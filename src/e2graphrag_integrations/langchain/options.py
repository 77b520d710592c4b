"""Keyword arguments that several methods share, declared so that editors and mypy know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore

from e2graphrag_integrations.options import FreshnessPolicy, IndexSettings, Models, WriteOptions
from e2graphrag_integrations.protocols import Embedder
from e2graphrag_integrations.retrieval.filters.where import NodeMask
from e2graphrag_integrations.retrieval.history.turns import History, TurnLike
from e2graphrag_integrations.retrieval.ranking.boosts import Boost
from e2graphrag_integrations.retrieval.results.context_size import TokenBudget
from e2graphrag_integrations.retrieval.strategy import Expand, Mode, Strategy
from e2graphrag_integrations.retrieval.validity.options import AsOf
from e2graphrag_integrations.vectors.open_vectors import VectorsArgument

DocumentFilter = Mapping[str, Any] | Callable[[Mapping[str, Any]], bool] | NodeMask
"""A filter on the metadata of retrieved documents: conditions, or a function of the metadata; or
the result of `tagged`."""


ChatHistory = Sequence[BaseMessage | TurnLike] | Callable[[], History]
"""Messages or other turns, oldest first; or a function that returns them, called at each query."""


class OpenOptions(TypedDict, total=False):
    """Options for opening an index; `E2GraphRAGIndex.open` describes each."""

    llm: Runnable[Any, Any] | None
    embeddings: Embeddings | Embedder | str | None
    k: int | None
    chunk_size: int | None
    settings: IndexSettings | None
    models: Models | None
    writes: WriteOptions | None
    freshness: FreshnessPolicy | None
    strategy: Strategy | None
    vector_store: VectorStore | VectorsArgument | None
    auto_build: bool


class SearchOptions(TypedDict, total=False):
    """Options for a search; `E2GraphRAGRetriever` describes each."""

    mode: Mode
    strategy: Strategy | None
    max_hops: int | None
    filter: DocumentFilter | None
    store_filter: Any
    expand: Expand
    boost: Boost | None
    history: ChatHistory | None
    paths: bool
    token_budget: TokenBudget
    min_relevance: float | None
    as_of: AsOf | None


SearchType = Literal["similarity", "similarity_score_threshold", "mmr"]
"""Which documents a retriever selects: the best, only those above a relevance, or diverse ones."""


class DiversityOptions(SearchOptions, total=False):
    """Options for a search with any `search_type`; `E2GraphRAGRetriever` describes each."""

    lambda_mult: float | None
    fetch_k: int | None


class CallOptions(DiversityOptions, total=False):
    """Options for `invoke` that override the fields of a retriever for one call."""

    k: int | None
    score_threshold: float | None
    include_scores: bool


class RetrieverOptions(CallOptions, total=False):
    """Fields of a retriever; `E2GraphRAGRetriever` and `BaseRetriever` describe each."""

    search_type: SearchType
    search_kwargs: CallOptions
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class RetrieveArguments(TypedDict, total=False):
    """Arguments of an index's `retrieve` method."""

    k: int | None
    token_budget: int | None
    min_relevance: float | None
    as_of: AsOf | None
    mode: Mode
    strategy: Strategy | None
    where: DocumentFilter | None
    expand: Expand
    fill: bool
    boost: Boost | None
    history: Any
    paths: bool
