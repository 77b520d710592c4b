"""`E2GraphRAGRetriever`: search an index from any LangChain application."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, Unpack, runtime_checkable

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain.conversion import (
    SOURCE_ID,
    user_filter,
    user_metadata,
)
from e2graphrag_integrations.langchain.options import (
    CallOptions,
    DocumentFilter,
    RetrieveArguments,
)
from e2graphrag_integrations.pages import PAGE_ID, page_part, with_page_lists
from e2graphrag_integrations.portability.reopening import check_fields
from e2graphrag_integrations.retrieval.paper import PaperStrategy
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Expand, Mode, Strategy, check_strategy
from e2graphrag_integrations.types import Segment

ROUTE_EVENT = "e2graphrag.route"
"""Name of the custom event that reports the route and trace of a retrieval."""


@runtime_checkable
class SearchableIndex(Protocol):
    """An index that a retriever can search: an `E2GraphRAG` or an `E2GraphRAGIndex`."""

    def retrieve(self, question: str, **arguments: Unpack[RetrieveArguments]) -> RetrievalResult:
        """Return the nodes that best answer a question."""
        ...

    async def aretrieve(
        self, question: str, **arguments: Unpack[RetrieveArguments]
    ) -> RetrievalResult:
        """Return the nodes that best answer a question."""
        ...


@runtime_checkable
class BuildableIndex(Protocol):
    """An index that processes its pending documents before a search."""

    def ensure_built(self, config: RunnableConfig | None = None) -> None:
        """Index the pending documents with the caller's callbacks."""
        ...

    async def aensure_built(self, config: RunnableConfig | None = None) -> None:
        """Index the pending documents with the caller's callbacks."""
        ...


class E2GraphRAGRetriever(BaseRetriever):
    """Retrieve documents from an index without calling a language model.

    The strategy of the index ranks chunks and summaries. `HybridStrategy` weights entities by their
    specificity and reports the route `local` if they are specific enough, `global` otherwise.
    `PaperStrategy` follows the E2GraphRAG paper. The retriever returns exactly `k` documents if
    that many match the filter.

    Setup:
        `pip install "e2graphrag-integrations[langchain,local]"`

    Key init args:
        index: An `E2GraphRAG` or an `E2GraphRAGIndex`.
        k: Number of documents; 10 by default.
        mode: `auto` routes by the query; `local` ranks by entities first; `global` ranks without
            entities.
        strategy: The ranking strategy. None uses the strategy of the index.
        max_hops: Overrides the `max_hops` of the strategy. Without a `strategy`, selects
            `PaperStrategy`.
        filter: Conditions on the metadata, or a function of the metadata. A summary matches only if
            all chunks under it match.
        store_filter: A filter in the syntax of the index's vector store.
        include_scores: Whether to add `e2_relevance`, `e2_score`, `e2_route`, `e2_entities` and
            `e2_reasons` to the metadata. The relevance is the cosine of the best window, in [0, 1];
            the score is the strategy's own and is comparable only within one result.
        expand: `children` or `leaves` replaces each summary with its child or leaf nodes; `none`
            keeps summaries.

    Instantiate:
        ```python
        retriever = E2GraphRAGRetriever(index=E2GraphRAG.open("novel.e2g"), k=5)
        ```

    Usage:
        ```python
        retriever.invoke("Who gave Anna the map?", k=3, mode="local")
        ```

    Use within a chain:
        ```python
        chain = {"context": retriever | format, "question": RunnablePassthrough()} | prompt | llm
        ```

    `invoke` accepts the same options, except `index`, as overrides for one call. Every document has
    the same `e2_` keys in its metadata, with JSON values. The custom event `e2graphrag.route`
    explains the route.

    Raises:
        ValidationError: If an argument is unknown or invalid.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", validate_assignment=True
    )

    index: Any = Field(repr=False)
    k: int = Field(default=10, gt=0)
    mode: Mode = "auto"
    strategy: Any = None
    max_hops: int | None = Field(default=None, ge=1)
    filter: Any = Field(default=None, repr=False)
    store_filter: Any = Field(default=None, repr=False)
    include_scores: bool = False
    expand: Expand = "none"

    @field_validator("index")
    @classmethod
    def _check_index(cls, value: Any) -> Any:
        if isinstance(value, type) or not isinstance(value, SearchableIndex):
            raise ValueError(  # noqa: TRY004 - pydantic converts it to a ValidationError
                f"index={short_repr(value)} is not an index: pass E2GraphRAG.open(...) or an "
                "E2GraphRAGIndex"
            )
        return value

    @field_validator("strategy")
    @classmethod
    def _check_strategy(cls, value: Any) -> Any:
        if value is not None:
            check_strategy(value)
        return value

    @field_validator("max_hops")
    @classmethod
    def _check_max_hops(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None:
            _with_max_hops(info.data.get("strategy"), value)
        return value

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, value: Any) -> Any:
        if value is not None:
            user_filter(value)
        return value

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        params["ls_retriever_name"] = "e2graphrag"
        return params

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the fields; the index reduces to opening its file again.

        Raises:
            NotPicklableError: If a field cannot be pickled, such as a lambda as `filter`.
        """
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        index = fields.pop("index")
        check_fields(type(self).__name__, fields)
        return _rebuild, (type(self), index, fields)

    # `invoke` passes options to these methods only because their signatures accept options.

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        **options: Unpack[CallOptions],
    ) -> list[Document]:
        arguments, include_scores = self._call_arguments(**options)
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        if isinstance(self.index, BuildableIndex):
            self.index.ensure_built(config)
        result = self.index.retrieve(_check_query(query), **arguments)
        if run_manager.handlers:
            dispatch_custom_event(ROUTE_EVENT, _route_event(result), config=config)
        return to_documents(result, include_scores=include_scores)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        **options: Unpack[CallOptions],
    ) -> list[Document]:
        arguments, include_scores = self._call_arguments(**options)
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        if isinstance(self.index, BuildableIndex):
            await self.index.aensure_built(config)
        result = await self.index.aretrieve(_check_query(query), **arguments)
        if run_manager.handlers:
            await adispatch_custom_event(ROUTE_EVENT, _route_event(result), config=config)
        return to_documents(result, include_scores=include_scores)

    def retrieve_arguments(self) -> RetrieveArguments:
        """Return the fields as arguments of the index's `retrieve` method."""
        return self._call_arguments()[0]

    def _call_arguments(
        self,
        *,
        k: int | None = None,
        mode: Mode | None = None,
        strategy: Strategy | None = None,
        max_hops: int | None = None,
        filter: DocumentFilter | None = None,  # noqa: A002 - LangChain's name
        store_filter: Any = None,
        expand: Expand | None = None,
        include_scores: bool | None = None,
    ) -> tuple[RetrieveArguments, bool]:
        """Return the arguments of `retrieve` and `include_scores`; None means the field's value."""
        strategy = self.strategy if strategy is None else strategy
        max_hops = self.max_hops if max_hops is None else max_hops
        where = self.filter if filter is None else filter
        store_filter = self.store_filter if store_filter is None else store_filter
        arguments: RetrieveArguments = {
            "k": self.k if k is None else k,
            "mode": self.mode if mode is None else mode,
            "expand": self.expand if expand is None else expand,
            "strategy": strategy if max_hops is None else _with_max_hops(strategy, max_hops),
            "where": None if where is None else user_filter(where),
            "fill": True,
        }
        if store_filter is not None:  # `E2GraphRAG.retrieve` has no such argument
            arguments["store_filter"] = store_filter
        return arguments, self.include_scores if include_scores is None else include_scores


def _rebuild(
    cls: type[E2GraphRAGRetriever], index: Any, options: dict[str, Any]
) -> E2GraphRAGRetriever:
    return cls(index=index, **options)


def to_documents(result: RetrievalResult, *, include_scores: bool) -> list[Document]:
    """Convert the nodes of a result to LangChain documents, best first."""
    return [_to_document(node, include_scores=include_scores) for node in result.nodes]


def _to_document(node: RetrievedNode, *, include_scores: bool) -> Document:
    # Every document has the same keys, because a prompt that names a missing key would fail.
    defaults = user_metadata(dict.fromkeys(node.differing_keys))
    ids = list(dict.fromkeys(segment.metadata.get(PAGE_ID) for segment in node.segments))
    if ids == [None]:  # indexed without LangChain
        ids, defaults = [node.document_id], {"source": node.document_id, **defaults}
    metadata: dict[str, Any] = {
        **defaults,
        **deepcopy(with_page_lists(user_metadata(node.metadata))),  # the index owns its lists
        PAGE_ID: ids[0] if len(ids) == 1 else None,
        "e2_doc_ids": ids,
        "e2_node_id": node.node_id,
        SOURCE_ID: node.document_id,
        "e2_level": node.level,
        "e2_position": node.position,
        "e2_start": node.start,
        "e2_end": node.end,
        "e2_segments": [_segment(segment, node) for segment in node.segments],
        "e2_parent": node.parent_id,
        "e2_children": list(node.child_ids),
    }
    if include_scores:
        metadata |= {
            "e2_relevance": node.relevance,
            "e2_score": float(node.score),
            "e2_route": node.route,
            "e2_entities": list(node.entities),
            "e2_reasons": list(node.reasons),
        }
    return Document(id=node.node_id, page_content=node.text, metadata=metadata)


def _segment(segment: Segment, node: RetrievedNode) -> dict[str, Any]:
    """Return where a part of a node comes from: its span, its LangChain document and its page."""
    return {
        "start": segment.start,
        "end": segment.end,
        PAGE_ID: segment.metadata.get(PAGE_ID, node.document_id),
        **deepcopy(page_part(segment.metadata)),
    }


def _route_event(result: RetrievalResult) -> dict[str, Any]:
    return {
        "route": result.route,
        "reason": result.trace.reason,
        "entities": [link.entity for link in result.trace.links],
        "node_ids": [node.node_id for node in result.nodes],
        "trace": result.trace.to_dict(),
    }


def _with_max_hops(strategy: Any, max_hops: int) -> Any:
    strategy = PaperStrategy() if strategy is None else strategy
    if not is_dataclass(strategy) or "max_hops" not in {field.name for field in fields(strategy)}:
        raise InvalidInputError(
            f"max_hops={max_hops} has no effect: {type(strategy).__name__} has no such setting"
        )
    return replace(strategy, max_hops=max_hops)  # type: ignore[type-var] # mypy loses the instance


def _check_query(query: Any) -> str:
    if not isinstance(query, str):
        raise TypeError(
            f"the retriever needs a str, not a {type(query).__name__}: in a chain, put "
            'RunnableLambda(lambda x: x["input"]) in front of it'
        )
    return query
