"""`E2GraphRAGRetriever`: the index as the retrieval part of any LlamaIndex application."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol

import numpy as np
from llama_index.core import instrumentation
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores import MetadataFilters

from e2graphrag_integrations._utils.validation import reject_unknown_arguments, short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.events import E2RoutingEvent
from e2graphrag_integrations.llama_index.filters import node_filter
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.packing import Expand
from e2graphrag_integrations.retrieval.pipeline import Request
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import Mode, Strategy
from e2graphrag_integrations.retrieval.trace import Trace

dispatcher = instrumentation.get_dispatcher(__name__)  # type: ignore[attr-defined] # re-exported without saying so

_OF_TOOL = re.compile(r"\A\n\w+ is ")
"""What `RetrieverTool` puts before a question that an agent passes by name."""


class RetrieverMode(str, Enum):
    """Which side of the index is asked."""

    ADAPTIVE = "adaptive"
    LOCAL = "local"
    GLOBAL = "global"


_MODES: Mapping[RetrieverMode, Mode] = {
    RetrieverMode.ADAPTIVE: "auto",
    RetrieverMode.LOCAL: "local",
    RetrieverMode.GLOBAL: "global",
}


class Answering(Protocol):
    """What a retriever needs of an index."""

    @property
    def strategy(self) -> Strategy:
        """Ranks, where the retriever has none of its own."""
        ...

    @property
    def made_with(self) -> Mapping[str, str]:
        """Settings and fingerprints of the models."""
        ...

    def answer(self, request: Request) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        """Return what a request gets, with the docstore's nodes by id."""
        ...


class E2GraphRAGRetriever(BaseRetriever):
    """Finds the nodes that answer a question; no LLM is called.

    The index's strategy ranks: `HybridStrategy` counts entities as far as the question's names are
    specific, and calls it `local` where they are, else `global`; `PaperStrategy` is the paper's.
    Scores are higher for better nodes: sums of reciprocal ranks; of the paper's, 1/rank where
    entities ranked them and cosine where vectors did. They compare within one answer alone: to
    merge with other retrievers use reciprocal rank fusion.

    Nodes are those of the docstore, untouched. Why they were found is in `explain` and in the
    `E2RoutingEvent` that LlamaIndex's instrumentation hears of.

    Args:
        index: To search.
        mode: `adaptive` routes by the question; `local` uses entities only; `global` no entities.
        similarity_top_k: Most nodes returned, after expansion.
        strategy: Ranks; None takes the index's.
        filters: Metadata that every node must have; `e2_level` and `e2_kind` too.
        doc_ids: Only nodes of these documents.
        node_ids: Only these nodes.
        expand: `children` or `leaves` puts those in a summary's place.
        callback_manager, object_map, objects, verbose: As LlamaIndex has them.

    Raises:
        InvalidInputError: For an argument that makes no sense.
        FilterError: For filters that make none.
    """

    def __init__(
        self,
        index: Answering,
        *,
        mode: str | RetrieverMode = RetrieverMode.ADAPTIVE,
        similarity_top_k: int = 10,
        strategy: Strategy | None = None,
        filters: MetadataFilters | None = None,
        doc_ids: Sequence[str] | None = None,
        node_ids: Sequence[str] | None = None,
        expand: Expand = "none",
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **unknown: Any,
    ) -> None:
        reject_unknown_arguments(unknown, type(self).__init__)
        self._index = index
        # What a retrieval would refuse is refused now.
        self._request = Request(
            "?",
            index.strategy if strategy is None else strategy,
            similarity_top_k,
            _MODES[_checked_mode(mode)],
            node_filter(filters, doc_ids, node_ids),
            None,
            expand,
        )
        super().__init__(callback_manager, object_map, objects, verbose)

    def explain(self, query: QueryType) -> Trace:
        """Return how a question is answered: route, entities, hops, lists; print `.explain()`."""
        bundle = QueryBundle(query) if isinstance(query, str) else query
        return self._answer(bundle)[0].trace

    async def aexplain(self, query: QueryType) -> Trace:
        """Explain like `explain`, in a thread."""
        return await asyncio.to_thread(self.explain, query)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._told(*self._answer(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._told(*await asyncio.to_thread(self._answer, query_bundle))

    def _answer(self, bundle: QueryBundle) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        question = _OF_TOOL.sub("", bundle.query_str).strip()
        # A model that had nothing to say leaves an empty text among those of HyDE.
        texts = [text for text in bundle.embedding_strs if text.strip()]
        request = Request(
            question,
            self._request.strategy,
            self._request.k,
            self._request.mode,
            self._request.where,
            None,
            self._request.expand,
            embed_texts=() if texts == [bundle.query_str] else tuple(texts),
            vector=self._vector(bundle),
        )
        return self._index.answer(request)

    def _vector(self, bundle: QueryBundle) -> FloatArray | None:
        """Return the bundle's embedding, if it can be one of this index's model."""
        dimension = self._index.made_with.get("dimension")
        if bundle.embedding is None or str(len(bundle.embedding)) != dimension:
            return None  # another retriever has left its own there
        with np.errstate(over="ignore"):  # what is too large has an infinite norm
            vector: FloatArray = np.asarray(bundle.embedding, dtype=np.float32)
            norm = float(np.linalg.norm(vector))
        return vector / norm if np.isfinite(norm) and norm > 0 else None

    def _told(self, result: RetrievalResult, found: Mapping[str, BaseNode]) -> list[NodeWithScore]:
        trace = result.trace
        dispatcher.event(
            E2RoutingEvent(
                route=result.route,
                reason=trace.reason,
                entities=[link.entity for link in trace.links],
                node_ids=[node.node_id for node in result.nodes],
                reasons={node.node_id: list(node.reasons) for node in result.nodes},
                trace=replace(trace, lists=dict(trace.lists)),  # plain: handlers write it as JSON
            )
        )
        return [
            NodeWithScore(node=found[node.node_id], score=float(node.score))
            for node in result.nodes
        ]


def _checked_mode(mode: str | RetrieverMode) -> RetrieverMode:
    if mode == "auto":
        return RetrieverMode.ADAPTIVE
    try:
        return RetrieverMode(mode)
    except ValueError as error:
        names = ", ".join(one.value for one in RetrieverMode)
        raise InvalidInputError(f"mode={short_repr(mode)}: choose one of {names}") from error
