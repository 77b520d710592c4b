"""`E2GraphRAGRetriever`: search an index from any LlamaIndex application."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Self, Unpack

import numpy as np
from llama_index.core import instrumentation
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import Field
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.storage.docstore import BaseDocumentStore
from llama_index.core.vector_stores import MetadataFilters

from e2graphrag_integrations._utils.tracing import recording
from e2graphrag_integrations._utils.validation import (
    check_instance,
    check_int,
    short_repr,
    type_name,
)
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.opening import arguments_of
from e2graphrag_integrations.engine.searchable import Searchable, searched, stable_location
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.filters import node_filter
from e2graphrag_integrations.llama_index.hits import NodeIds, has_user_nodes, scored_nodes
from e2graphrag_integrations.llama_index.options import ChatHistory, reject_retriever_options
from e2graphrag_integrations.llama_index.spans import hears_events, spans_of
from e2graphrag_integrations.llama_index.storage.docstore import ReaderDocstore
from e2graphrag_integrations.options import NoOptions
from e2graphrag_integrations.portability.reopening import check_fields, reduces_itself, reject
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.history.turns import Turn, as_turns
from e2graphrag_integrations.retrieval.ranking.boosts import Boost, as_boosts
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.results.context_size import (
    DEFAULT_BUDGET,
    TokenBudget,
    token_budget_for,
)
from e2graphrag_integrations.retrieval.strategy import (
    DEFAULT_K,
    Expand,
    Mode,
    Query,
    Strategy,
    check_strategy,
)
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.retrieval.validity.options import AsOf, options_of
from e2graphrag_integrations.store.location import shown_path

dispatcher = instrumentation.get_dispatcher(__name__)  # type: ignore[attr-defined] # LlamaIndex re-exports it without `__all__`

_TOOL_PREFIX = re.compile(r"\A\n\w+ is ")
"""Prefix that `RetrieverTool` adds to a query that an agent passes as a keyword argument."""


class RetrieverMode(StrEnum):
    """The routing modes of a retriever."""

    ADAPTIVE = "adaptive"
    LOCAL = "local"
    GLOBAL = "global"


_MODES: Mapping[str, Mode] = {
    "adaptive": "auto",
    "auto": "auto",
    "local": "local",
    "global": "global",
}


class E2RoutingEvent(BaseEvent):
    """The route of one retrieval; sent between RetrievalStartEvent and RetrievalEndEvent."""

    route: str = Field(description="`local` or `global`.")
    reason: str = Field(description="A readable reason for the route.")
    entities: list[str] = Field(description="Entities in the query that the index contains.")
    node_ids: list[str] = Field(description="Ids of the returned nodes, best first.")
    reasons: dict[str, list[str]] = Field(description="For each node, the reasons for its rank.")
    scores: dict[str, float] = Field(description="For each node, the score of the strategy.")
    relevance: dict[str, float] = Field(description="For each node, its relevance in [0, 1].")
    tags: dict[str, list[str]] = Field(description="For each node, its tags.")
    paths: list[dict[str, Any]] = Field(
        description="With `paths=True`, the chains of entities that join the names of the query."
    )
    trace: Any = Field(description="A `Trace` of every step, with `to_dict()` and `explain()`.")

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "E2RoutingEvent"


class E2GraphRAGRetriever(BaseRetriever):
    """Retrieve nodes from an index, which any part of this package wrote; no LLM is called.

    By default, the strategy of the index ranks the nodes. `HybridStrategy` weights entities by
    their specificity and reports the route `local` for a question about something particular, or
    `global` for one about a text as a whole. `PaperStrategy` follows the E2GraphRAG paper.

    The score of a `NodeWithScore` is the relevance of the node, in [0, 1], so that
    `SimilarityPostprocessor` can compare it with a cutoff. The strategy also uses names and words
    and may therefore rank a node above one with a higher relevance. Its score is then raised to
    that relevance: scores never increase along the ranking, a cutoff removes the end of
    the ranking, and components that sort by score keep the ranking. `E2RoutingEvent` contains the
    unchanged relevance and the strategy's own scores. docs/retrieval.md describes the relevance of
    queries that are answered without vectors.

    By default, the texts of the nodes are their best parts, about 2,000 tokens in all, so that a
    prompt costs about as much as with a `VectorStoreIndex`. `explain()` and the `E2RoutingEvent` in
    LlamaIndex's instrumentation give the reasons for each result.

    A retriever of a path opens the index with the models that it records. Use the retriever as a
    context manager, or call `close`. A retriever of an open index leaves it open.

    Args:
        index: An open `E2GraphRAG`, an `E2GraphRAGIndex` of LlamaIndex or LangChain, or `scoped()`
            of any of them; or the path of an index file, or the URL of an index in Postgres.
        mode: `adaptive` routes by the query; `local` ranks by entities only; `global` ranks without
            entities.
        similarity_top_k: Maximum number of nodes, after expansion. None means as many as fit the
            `token_budget`, or 10 without one.
        token_budget: Maximum number of tokens in the texts of all nodes, which are cut to their
            best parts. `auto` means 2,000 tokens, or no budget if `similarity_top_k` is given. With
            `similarity_top_k` and a number, there are at most that many nodes within the budget.
            None returns complete nodes.
        strategy: The ranking strategy. None uses the strategy of the index.
        filters: Metadata conditions for nodes, including `e2_level` and `e2_kind`.
        doc_ids: Only return nodes of these documents.
        node_ids: Only return these nodes.
        tags: Only return chunks with one of these tags, and summaries of such chunks; see
            `E2GraphRAGIndex.set_tags`.
        expand: `children` or `leaves` replaces each summary with those nodes; `none` keeps it.
        boost: Preferred tags, documents, dates or values, as `Boosts` or a mapping with its fields.
        history: Earlier messages of the chat, oldest first; or a memory, or a function that returns
            messages, read at each query. `E2GraphRAG.retrieve` describes what is carried over. In
            `as_chat_engine(chat_mode="context", memory=memory, history=memory)`, no LLM rewrites
            the question.
        paths: Whether the `E2RoutingEvent` and the result of `search` contain the chains of
            entities that join the names of the query, with the sentences that prove them.
        min_relevance: Leaves out nodes with a lower relevance, from 0 to 1, before anything is cut.
            It needs an embedding model whose relevance is calibrated.
        as_of: A date, such as `2024-05-01`, to find only what held then; or `Validity`, which also
            names the metadata keys of dates and versions, or a mapping with its fields.
        callback_manager, object_map, objects, verbose: See LlamaIndex's `BaseRetriever`.

    Raises:
        InvalidInputError: If an argument is unknown, out of range, or of a wrong type, or if a
            filter or `as_of` is invalid, or if `boost` is invalid. Unknown tags and documents raise
            at retrieval.
        StoreError: If the index at the path or URL cannot be opened.
    """

    def __init__(
        self,
        index: Searchable,
        *,
        mode: str | RetrieverMode = RetrieverMode.ADAPTIVE,
        similarity_top_k: int | None = None,
        token_budget: TokenBudget = DEFAULT_BUDGET,
        strategy: Strategy | None = None,
        filters: MetadataFilters | None = None,
        doc_ids: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        expand: Expand = "none",
        boost: Boost | None = None,
        history: ChatHistory | None = None,
        paths: bool = False,
        min_relevance: float | None = None,
        as_of: AsOf | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **unknown: Unpack[NoOptions],
    ) -> None:
        not_options = ("index", "unknown", "callback_manager", "object_map", "objects")
        self._arguments = arguments_of(locals(), "not_options", *not_options)
        reject_retriever_options(unknown)
        # Template for all queries; creating it validates the arguments before the first query.
        self._template = Query(
            "?",
            **_size(similarity_top_k, token_budget),
            mode=_parse_mode(mode),
            where=node_filter(filters, doc_ids, node_ids, tags),
            expand=expand,
            boosts=None if boost is None else as_boosts(boost),
            paths=bool(paths),
            min_relevance=min_relevance,
            options=options_of(as_of),
        )
        if isinstance(history, Sequence):
            _read_history(history)
        self._history = history
        if strategy is not None:
            check_strategy(strategy)
        super().__init__(callback_manager, object_map, objects, verbose)
        self._given = stable_location(index)
        self._index = searched(self._given)  # last, so that no error leaves it open
        self._strategy = self._index.strategy if strategy is None else strategy

    def __deepcopy__(self, memo: dict[int, Any]) -> E2GraphRAGRetriever:
        """Return a retriever over a copy of the index, or over the same path opened again."""
        options = self._arguments | {"object_map": dict(self.object_map)}
        return type(self)(copy.deepcopy(self._given, memo), **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the arguments; the index reduces to its own arguments and stores.

        A URL is pickled without its password.

        Raises:
            NotPicklableError: If an argument cannot be pickled.
        """
        check_fields(type(self).__name__, self._arguments)
        hidden = [value for value in self.object_map.values() if not reduces_itself(value)]
        reject(type(self).__name__, [f"objects ({type_name(value)})" for value in hidden])
        options = self._arguments | {"object_map": dict(self.object_map)}
        index = shown_path(self._given) if isinstance(self._given, str) else self._given
        return _rebuild, (type(self), index, options)

    def close(self) -> None:
        """Close the index if the retriever opened it from a path or a URL; idempotent."""
        if isinstance(self._given, str) and isinstance(self._index, E2GraphRAG):
            self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def similarity_top_k(self) -> int | None:
        """Maximum number of nodes; it can be assigned, as in LlamaIndex's vector retriever."""
        top_k: int | None = self._arguments["similarity_top_k"]
        return top_k

    @similarity_top_k.setter
    def similarity_top_k(self, similarity_top_k: int | None) -> None:
        size = _size(similarity_top_k, self._arguments["token_budget"])
        self._template = replace(self._template, **size)
        self._arguments = self._arguments | {"similarity_top_k": similarity_top_k}

    @property
    def searched_index(self) -> IndexReader:
        """The index, or the part of an index, that the retriever searches."""
        return self._index

    @property
    def docstore(self) -> BaseDocumentStore:
        """The nodes that can be found, for `AutoMergingRetriever` and `PrevNextNodePostprocessor`.

        It can only be read.
        """
        return ReaderDocstore(self._index)

    def explain(self, query: QueryType) -> Trace:
        """Return the trace of a query: route, entities, hops and rankings; print `.explain()`."""
        return self.search(query).trace

    async def aexplain(self, query: QueryType) -> Trace:
        """Run `explain` in a thread."""
        return (await self.asearch(query)).trace

    def search(self, query: QueryType) -> RetrievalResult:
        """Return the core result of a query: nodes with spans and reasons, paths, and the trace.

        `result.subgraph()` returns the nodes, their entities and the paths as a networkx graph. The
        spans refer to the text of a node's tree, which can span several documents.
        """
        return self._search(_bundle(query), _read_history(self._history))

    async def asearch(self, query: QueryType) -> RetrievalResult:
        """Run `search` in a thread."""
        turns = await _aread_history(self._history)
        return await asyncio.to_thread(self._search, _bundle(query), turns)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes, event = self._shown(self._search(query_bundle, _read_history(self._history)))
        if event is not None:
            dispatcher.event(event)
        return nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        turns = await _aread_history(self._history)
        result = await asyncio.to_thread(self._search, query_bundle, turns)
        nodes, event = await asyncio.to_thread(self._shown, result)
        if event is not None:
            dispatcher.event(event)  # its handlers belong to the event loop
        return nodes

    def _search(self, bundle: QueryBundle, turns: tuple[Turn, ...]) -> RetrievalResult:
        # If the LLM of HyDE returns nothing, the bundle contains an empty text.
        texts = [text for text in bundle.embedding_strs if text.strip()]
        query = replace(
            self._template,
            question=_TOOL_PREFIX.sub("", bundle.query_str).strip(),
            embed_texts=() if texts == [bundle.query_str] else tuple(texts),
            vector=self._query_vector(bundle),
            history=turns,
        )
        with recording(spans_of(dispatcher)):
            return self._index.answer(query, self._strategy)

    def _query_vector(self, bundle: QueryBundle) -> FloatArray | None:
        """Return the bundle's embedding as a unit vector, or None if its dimension does not match.

        The bundle may contain an embedding that another retriever computed with a different model.
        """
        if bundle.embedding is None:
            return None
        if str(len(bundle.embedding)) != self._index.made_with.get("dimension"):
            return None
        with np.errstate(over="ignore"):  # values beyond single precision give an infinite norm
            vector: FloatArray = np.asarray(bundle.embedding, dtype=np.float32)
            norm = float(np.linalg.norm(vector))
        return vector / norm if np.isfinite(norm) and norm > 0 else None

    def _shown(self, result: RetrievalResult) -> tuple[list[NodeWithScore], E2RoutingEvent | None]:
        """Return LlamaIndex nodes with scores, and the routing event if anything hears events."""
        ids = self._node_ids(result)
        # The ranked lists of the trace take a while.
        event = _routing_event(result, ids) if hears_events(dispatcher) else None
        return scored_nodes(result, ids), event

    def _node_ids(self, result: RetrievalResult) -> NodeIds:
        """Return the ids of the user's nodes, if there are any in a result."""
        if not any(has_user_nodes(hit) for hit in result.nodes):
            return NodeIds()
        return self._index.read_snapshot(lambda snapshot, _: NodeIds.of(snapshot))


def _routing_event(result: RetrievalResult, ids: NodeIds) -> E2RoutingEvent:
    trace, hits = result.trace, {ids.show(hit.node_id): hit for hit in result.nodes}
    return E2RoutingEvent(
        route=result.route,
        reason=trace.reason,
        entities=[link.entity for link in trace.links],
        node_ids=list(hits),
        reasons={id_: [str(one) for one in hit.reasons] for id_, hit in hits.items()},
        scores={id_: float(hit.score) for id_, hit in hits.items()},
        relevance={id_: hit.relevance for id_, hit in hits.items()},
        tags={id_: list(hit.tags) for id_, hit in hits.items()},
        paths=[path.to_dict() for path in result.paths or ()],
        trace=replace(trace, lists=dict(trace.lists)),  # handlers serialize it
    )


def _rebuild(
    cls: type[E2GraphRAGRetriever], index: Searchable, options: dict[str, Any]
) -> E2GraphRAGRetriever:
    return cls(index, **options)


def _size(similarity_top_k: int | None, token_budget: TokenBudget) -> dict[str, Any]:
    """Return the fields of a query for the size of its result."""
    if similarity_top_k is not None:
        similarity_top_k = check_int("similarity_top_k", similarity_top_k)
    return {
        "k": DEFAULT_K if similarity_top_k is None else similarity_top_k,
        "token_budget": token_budget_for(similarity_top_k, token_budget),
        "max_nodes": similarity_top_k,
    }


def _read_history(history: ChatHistory | None) -> tuple[Turn, ...]:
    if isinstance(history, BaseMemory):
        return as_turns(history.get_all())
    return as_turns(history() if callable(history) else history)


async def _aread_history(history: ChatHistory | None) -> tuple[Turn, ...]:
    """Run `_read_history`; a memory is read in the caller's event loop, a function in a thread."""
    if isinstance(history, BaseMemory):
        return as_turns(await history.aget_all())
    if callable(history):
        return await asyncio.to_thread(_read_history, history)
    return as_turns(history)


def _bundle(query: Any) -> QueryBundle:
    if isinstance(query, str):
        return QueryBundle(query)
    bundle: QueryBundle = check_instance("query", query, QueryBundle, "pass a question as a str")
    return bundle


def _parse_mode(mode: str | RetrieverMode) -> Mode:
    try:
        return _MODES[mode]
    except (KeyError, TypeError) as error:
        names = ", ".join(RetrieverMode)
        raise InvalidInputError(f"mode={short_repr(mode)} must be one of {names}") from error
