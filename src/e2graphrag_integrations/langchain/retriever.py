"""`E2GraphRAGRetriever`: an index as a plain LangChain retriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

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
from e2graphrag_integrations.langchain.pages import PAGE_ID, SOURCE_ID, user_filter, user_metadata
from e2graphrag_integrations.retrieval.packing import Expand
from e2graphrag_integrations.retrieval.paper import PaperStrategy
from e2graphrag_integrations.retrieval.pipeline import check_strategy
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Mode

EVENT = "e2graphrag.route"
Filter = Mapping[str, Any] | Callable[[Mapping[str, Any]], bool]


@runtime_checkable
class Searchable(Protocol):
    """An index: `E2GraphRAG` of the core, or `E2GraphRAGIndex` of this package's LangChain face."""

    def retrieve(self, question: str, **options: Any) -> RetrievalResult:
        """Return the result for a question."""
        ...

    async def aretrieve(self, question: str, **options: Any) -> RetrievalResult:
        """Return the result for a question."""
        ...


@runtime_checkable
class Building(Protocol):
    """An index that builds in what is pending before a search, with the caller's callbacks."""

    def ensure_built(self, config: RunnableConfig | None = None) -> None:
        """Build in what is pending."""
        ...

    async def aensure_built(self, config: RunnableConfig | None = None) -> None:
        """Build in what is pending."""
        ...


class E2GraphRAGRetriever(BaseRetriever):
    """Finds the passages that answer a question; no language model is called.

    A question whose entities are close in the graph gets the chunks they share (`local`), any other
    the nearest chunks and summaries (`global`). There are always `k` documents, if the corpus has
    as many.

    Setup:
        `pip install "e2graphrag-integrations[langchain,local]"`

    Key init args:
        index: An `E2GraphRAG` or an `E2GraphRAGIndex`.
        k: Documents returned.
        mode: `auto` routes by the question; `local` puts entities first; `global` uses none.
        strategy: Ranks; None takes the index's.
        max_hops: Asks for `PaperStrategy`, of which it is a setting.
        filter: Metadata that every passage must have, or a function of them; a summary passes only
            if all its chunks do.
        store_filter: A filter of the vector store's own kind, where the index has one.

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

    Every document has the same `e2_` keys in its metadata, of plain JSON types. Why it was found is
    in the custom event `e2graphrag.route`, and with `include_scores` in its metadata.

    Raises:
        ValidationError: For an unknown or unfit argument.
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
        if isinstance(value, type) or not isinstance(value, Searchable):
            raise ValueError(  # noqa: TRY004 - what pydantic makes a ValidationError of
                f"index={short_repr(value)} is no index: pass E2GraphRAG.open(...) or an E2GraphRAGIndex"
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
            _with_hops(info.data.get("strategy"), value)
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

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        options, scores = self._options(**given)
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        if isinstance(self.index, Building):
            self.index.ensure_built(config)
        result = self.index.retrieve(_checked(query), **options)
        if run_manager.handlers:
            dispatch_custom_event(EVENT, _event(result), config=config)
        return to_documents(result, include_scores=scores)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        options, scores = self._options(**given)
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        if isinstance(self.index, Building):
            await self.index.aensure_built(config)
        result = await self.index.aretrieve(_checked(query), **options)
        if run_manager.handlers:
            await adispatch_custom_event(EVENT, _event(result), config=config)
        return to_documents(result, include_scores=scores)

    def search_options(self) -> dict[str, Any]:
        """Return the fields as options of the index's `retrieve`."""
        return self._options()[0]

    def _options(
        self,
        *,
        k: int | None = None,
        mode: Mode | None = None,
        max_hops: int | None = None,
        filter: Filter | None = None,  # noqa: A002 - LangChain's name
        expand: Expand | None = None,
        strategy: Any = None,
        include_scores: bool | None = None,
        store_filter: Any = None,
    ) -> tuple[dict[str, Any], bool]:
        """Return options of `retrieve`, and whether to tell scores: each given, or the field."""
        strategy = self.strategy if strategy is None else strategy
        max_hops = self.max_hops if max_hops is None else max_hops
        where = self.filter if filter is None else filter
        native = self.store_filter if store_filter is None else store_filter
        options = {
            "k": self.k if k is None else k,
            "mode": self.mode if mode is None else mode,
            "expand": self.expand if expand is None else expand,
            "strategy": strategy if max_hops is None else _with_hops(strategy, max_hops),
            "where": None if where is None else user_filter(where),
            "fill": True,
        }
        if native is not None:
            options["store_filter"] = native
        return options, self.include_scores if include_scores is None else include_scores


def to_documents(result: RetrievalResult, *, include_scores: bool) -> list[Document]:
    """Return the nodes of a result as new LangChain documents, best first."""
    return [_document(node, include_scores=include_scores) for node in result.nodes]


def _document(node: RetrievedNode, *, include_scores: bool) -> Document:
    # The same keys on every document: prompts that name one must not fail on a summary.
    mixed = user_metadata(dict.fromkeys(node.differing))
    parts = node.parts or (node.metadata,)
    ids = [part.get(PAGE_ID) for part in parts]
    if ids == [None]:  # a file of the core: its document is the one page
        ids, mixed = [node.document_id], {"source": node.document_id, **mixed}
    metadata: dict[str, Any] = {
        **mixed,
        **deepcopy(user_metadata(node.metadata)),  # lists in it are the index's own
        PAGE_ID: ids[0] if len(ids) == 1 else None,
        "e2_doc_ids": ids,
        "e2_node_id": node.node_id,
        SOURCE_ID: node.document_id,
        "e2_level": node.level,
        "e2_position": node.position,
        "e2_start": node.start,
        "e2_end": node.end,
        "e2_parent": node.parent_id,
        "e2_children": list(node.child_ids),
    }
    if include_scores:
        metadata |= {
            "e2_score": float(node.score),
            "e2_route": node.route,
            "e2_entities": list(node.entities),
            "e2_reasons": list(node.reasons),
        }
    return Document(id=node.node_id, page_content=node.text, metadata=metadata)


def _event(result: RetrievalResult) -> dict[str, Any]:
    return {
        "route": result.route,
        "reason": result.trace.reason,
        "entities": [link.entity for link in result.trace.links],
        "node_ids": [node.node_id for node in result.nodes],
        "trace": result.trace.to_dict(),
    }


def _with_hops(strategy: Any, max_hops: int) -> Any:
    strategy = PaperStrategy() if strategy is None else strategy
    if not is_dataclass(strategy) or "max_hops" not in {field.name for field in fields(strategy)}:
        raise InvalidInputError(f"{type(strategy).__name__} has no max_hops to set")
    return replace(strategy, max_hops=max_hops)  # type: ignore[type-var] # mypy loses the instance


def _checked(query: Any) -> str:
    if not isinstance(query, str):
        raise TypeError(
            f"the retriever takes a question as str, not {type(query).__name__}: in a chain put "
            'RunnableLambda(lambda x: x["input"]) before it'
        )
    return query
