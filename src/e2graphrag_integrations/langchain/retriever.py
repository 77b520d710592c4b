"""`E2GraphRAGRetriever`: search an index from any LangChain application."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Self,
    Unpack,
    cast,
    get_args,
)

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.tracing import recording
from e2graphrag_integrations._utils.typed_errors import typed_errors
from e2graphrag_integrations._utils.validation import (
    check_choice,
    check_fraction,
    check_int,
    short_repr,
    unknown_argument,
)
from e2graphrag_integrations.corpus.page import is_chunk
from e2graphrag_integrations.corpus.vector_store_mirror import VectorStoreMirror
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.scoped_reader import ScopedReader
from e2graphrag_integrations.engine.searchable import open_existing, searched, stable_location
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain.conversion import user_filter
from e2graphrag_integrations.langchain.options import (
    CallOptions,
    DocumentFilter,
    RetrieveArguments,
    RetrieverOptions,
    SearchType,
)
from e2graphrag_integrations.langchain.spans import spans_of
from e2graphrag_integrations.pages import (
    PAGE_ID,
    SOURCE_ID,
    merge_metadata,
    page_part,
    user_metadata,
    with_page_lists,
)
from e2graphrag_integrations.portability.reopening import check_fields
from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath
from e2graphrag_integrations.retrieval.filters.where import Where
from e2graphrag_integrations.retrieval.history.turns import as_turns
from e2graphrag_integrations.retrieval.ranking.boosts import as_boosts
from e2graphrag_integrations.retrieval.reader import IndexReader, reader_of
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.results.context_size import (
    DEFAULT_BUDGET,
    token_budget_for,
)
from e2graphrag_integrations.retrieval.strategies.by_vector import VectorStrategy
from e2graphrag_integrations.retrieval.strategies.hybrid import MAX_POOL
from e2graphrag_integrations.retrieval.strategies.paper import PaperStrategy
from e2graphrag_integrations.retrieval.strategy import Expand, Mode, Strategy, check_strategy
from e2graphrag_integrations.retrieval.validity.options import as_validity
from e2graphrag_integrations.types import Segment, Span

ROUTE_EVENT = "e2graphrag.route"
"""Name of the custom event that reports the route and trace of a retrieval."""

_OTHER_NAMES = {
    "top_k": "k",
    "n_results": "k",
    "similarity_top_k": "k",
    "filters": "filter",
    "where": "filter",
    "metadata_filter": "filter",
    "max_tokens": "token_budget",
    "relevance_threshold": "min_relevance",
    "similarity_cutoff": "min_relevance",
    "memory": "history",
    "chat_history": "history",
}
"""Names of options in other retrievers, mapped to the equivalent option here."""

_DEFAULT_LAMBDA = 0.5
"""The default `lambda_mult` of LangChain's vector stores."""


def check_search_type(value: object) -> None:
    """Check a `search_type`.

    Raises:
        InvalidInputError: If it is not supported.
    """
    check_choice("search_type", value, get_args(SearchType))


def check_search_kwargs(value: Mapping[str, Any]) -> None:
    """Check the names and the threshold in `search_kwargs`.

    Raises:
        InvalidInputError: If a name is unknown or the threshold is not from 0 to 1.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"search_kwargs={short_repr(value)} must map options to values, such as {{'k': 3}}"
        )
    _check_known(value, CallOptions.__annotations__, "search_kwargs key")
    check_threshold(value.get("score_threshold"))


def _converted(convert: Callable[[Any], Any]) -> AfterValidator:
    return AfterValidator(lambda value: None if value is None else convert(value))


def _checked(check: Callable[[Any], object]) -> AfterValidator:
    def unchanged(value: Any) -> Any:
        check(value)
        return value

    return _converted(unchanged)


class E2GraphRAGRetriever(BaseRetriever):
    """Retrieve documents from an index without calling a language model.

    The strategy of the index ranks chunks and summaries. `HybridStrategy` weights entities by their
    specificity and reports the route `local` for a question about something particular, or
    `global` for one about a text as a whole. `PaperStrategy` follows the E2GraphRAG paper. By
    default, the documents are the best parts of chunks and summaries, about 2,000 tokens in all.
    With `k`, they are complete: exactly `k` documents if that many match the filter.

    Setup:
        `pip install "e2graphrag-integrations[langchain,local]"`

    Key init args:
        index: An open `E2GraphRAG`, an `E2GraphRAGIndex` of LangChain or LlamaIndex, or `scoped()`
            of any of them; or the path of an index file, or the URL of an index in Postgres.
        k: Number of documents. None means as many as fit the `token_budget`, or 10 without one.
        token_budget: Maximum number of tokens in all documents, which are cut to their best parts.
            `auto` means 2,000 tokens, or no budget if `k` is given. With `k` and a number, there
            are at most `k` documents within the budget. None returns complete documents.
        min_relevance: Leaves out documents with a lower relevance, from 0 to 1, before anything is
            cut. It needs an embedding model whose relevance is calibrated.
        search_type: `similarity`; `similarity_score_threshold` for only those of the `k`
            documents whose relevance is at least `search_kwargs["score_threshold"]`; or `mmr` for
            documents that repeat each other little.
        search_kwargs: Overrides fields, such as `{"k": 3, "filter": {"page": 2}}`, as in a
            retriever of a LangChain vector store.
        score_threshold: Minimum relevance of a document, from 0 to 1. With
            all-MiniLM-L6-v2, useful thresholds lie between 0.1 and 0.3 (docs/retrieval.md).
        lambda_mult: With `mmr`, from 1 (relevance alone) to 0 (diversity alone); 0.5 by default.
            The `diversity` of the strategy becomes `1 - lambda_mult`.
        fetch_k: With `mmr`, number of the best documents from which `k` are selected. None uses
            the `diversity_pool` of the strategy, which is 20 by default.
        mode: `auto` routes by the query; `local` ranks by entities first; `global` ranks without
            entities.
        strategy: The ranking strategy. None uses the strategy of the index.
        max_hops: Overrides the `max_hops` of the strategy. Without a `strategy`, selects
            `PaperStrategy`.
        filter: Conditions on the metadata, a function of the metadata, or `tagged("billing")`. A
            summary matches only if all chunks under it match.
        store_filter: A filter in the syntax of the index's vector store.
        include_scores: Whether to add `e2_relevance`, `e2_score`, `e2_found_by`, `e2_entities` and
            `e2_reasons` to the metadata. The relevance is in [0, 1] and comparable across
            questions; the score is the strategy's own and is comparable only within one result.
        expand: `children` or `leaves` replaces each summary with its child or leaf nodes; `none`
            keeps summaries.
        boost: Preferred tags, documents, dates or values, as `Boosts` or a mapping with its fields.
        as_of: A date, such as `2024-05-01`, to find only what held then; or `Validity`, which also
            names the metadata keys of dates and versions, or a mapping with its fields.
        history: Earlier messages of the chat, oldest first, usually as an option of `invoke`; or a
            function that returns messages, called at each query. `E2GraphRAG.retrieve` describes
            what is carried over.
        paths: Whether to find the chains of entities that join the names of the query. The event
            contains them all, and the metadata `e2_paths` of a document those with a hop that a
            sentence in the document proves.

    Instantiate:
        ```python
        retriever = E2GraphRAGRetriever("novel.e2g", k=5)
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
    the same `e2_` keys in its metadata, with values that vector stores accept: `e2_segments` and
    `e2_paths` are JSON texts, and ids, tags and names are joined by ", ". The custom event
    `e2graphrag.route` explains the route.

    A retriever of a path opens the index with the models that it records. Use the retriever as a
    context manager, or call `close`. A retriever of an open index leaves it open.

    Raises:
        InvalidInputError: If an argument is unknown or invalid.
        StoreError: If the index at the path or URL cannot be opened.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", validate_assignment=True
    )

    index: Any = Field(repr=False)
    search_type: Annotated[str, _checked(check_search_type)] = "similarity"
    search_kwargs: Annotated[dict[str, Any], _checked(check_search_kwargs)] = Field(
        default_factory=dict, repr=False
    )
    k: int | None = Field(default=None, gt=0)
    token_budget: Annotated[int, Field(gt=0)] | Literal["auto"] | None = DEFAULT_BUDGET
    min_relevance: float | None = Field(default=None, ge=0, le=1)
    score_threshold: float | None = Field(default=None, ge=0, le=1)
    lambda_mult: float | None = Field(default=None, ge=0, le=1)
    fetch_k: int | None = Field(default=None, ge=1, le=MAX_POOL)
    mode: Mode = "auto"
    strategy: Annotated[Any, _checked(check_strategy)] = None
    max_hops: int | None = Field(default=None, ge=1)
    filter: Annotated[Any, _checked(user_filter)] = Field(default=None, repr=False)
    store_filter: Any = Field(default=None, repr=False)
    include_scores: bool = False
    expand: Expand = "none"
    boost: Annotated[Any, _converted(as_boosts)] = None
    as_of: Annotated[Any, _converted(as_validity)] = None
    history: Any = Field(default=None, repr=False)
    paths: bool = False

    _opened: E2GraphRAG | None = PrivateAttr(default=None)
    """The index that the retriever has opened from a path or a URL."""

    if not TYPE_CHECKING:  # type checkers read the signature from the fields

        def __init__(self, *index: Any, **fields: Any) -> None:
            if len(index) > 1:
                raise InvalidInputError("only the index is positional: pass k=5, mode='local', ...")
            # The retriever for LlamaIndex has a positional index as well.
            fields = {"index": index[0], **fields} if index else fields
            given, opened = fields.get("index"), None
            if isinstance(given, str | os.PathLike):
                opened = fields["index"] = open_existing(stable_location(given))
            with on_error(lambda _: opened and opened.close()), typed_errors(ValidationError):
                super().__init__(**fields)
            self._opened = opened

        def __setattr__(self, name: str, value: Any) -> None:
            # Pydantic assigns a field before it validates the whole model.
            before = dict(self.__dict__)
            undo = on_error(lambda _: self.__dict__.update(before))
            with undo, typed_errors(ValidationError):
                super().__setattr__(name, value)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            _check_known(values, cls.model_fields)
        return values

    @field_validator("index")
    @classmethod
    def _check_index(cls, value: Any) -> Any:
        if isinstance(value, str | os.PathLike):
            raise InvalidInputError(
                f"index={short_repr(value)} cannot be assigned: create another retriever of the "
                "path, or assign an open index"
            )
        searched(value)
        return value

    @field_validator("k", "fetch_k", "max_hops", mode="before")
    @classmethod
    def _check_count(cls, value: Any, info: ValidationInfo) -> Any:
        return None if value is None else check_int(str(info.field_name), value)

    @field_validator("token_budget", mode="before")
    @classmethod
    def _check_token_budget(cls, value: Any) -> Any:
        return value if value in (None, DEFAULT_BUDGET) else check_int("token_budget", value)

    @field_validator("min_relevance", "score_threshold", "lambda_mult", mode="before")
    @classmethod
    def _check_fraction(cls, value: Any, info: ValidationInfo) -> Any:
        return None if value is None else check_fraction(str(info.field_name), value)

    @property
    def _reader(self) -> IndexReader:
        return cast("IndexReader", reader_of(self.index))

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        threshold = self.search_kwargs.get("score_threshold", self.score_threshold)
        if self.search_type == "similarity_score_threshold" and threshold is None:
            raise InvalidInputError(
                "search_type='similarity_score_threshold' needs "
                "search_kwargs={'score_threshold': ...}, a relevance from 0 to 1"
            )
        return self

    @model_validator(mode="after")
    def _check_diversity(self) -> Self:
        self._call_arguments()
        return self

    @field_validator("max_hops")
    @classmethod
    def _check_max_hops(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None:
            _with_max_hops(info.data.get("strategy"), value)
        return value

    @field_validator("history")
    @classmethod
    def _check_history(cls, value: Any) -> Any:
        if isinstance(value, Sequence):
            as_turns(value)
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
        # Pydantic does not note a change of the mapping itself, as in search_kwargs["k"] = 3.
        names = self.model_fields_set | {"search_kwargs"}
        fields = {name: getattr(self, name) for name in names}
        index = fields.pop("index")
        check_fields(type(self).__name__, fields)
        if self._opened is not None and index is self._opened:
            index = self._opened.path
        return _rebuild, (type(self), index, fields)

    def close(self) -> None:
        """Close the index if the retriever opened it from a path or a URL; idempotent."""
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # `invoke` passes options to these methods only because their signatures accept options.

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        **options: Unpack[CallOptions],
    ) -> list[Document]:
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        with recording(spans_of(run_manager)):
            result, include_scores = self._found(query, options)
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
        config: RunnableConfig = {"callbacks": run_manager.get_child()}
        with recording(spans_of(run_manager)):
            result, include_scores = await asyncio.to_thread(self._found, query, options)
        if run_manager.handlers:
            await adispatch_custom_event(ROUTE_EVENT, _route_event(result), config=config)
        return to_documents(result, include_scores=include_scores)

    def search(self, query: str) -> RetrievalResult:
        """Return the core result of a query: nodes with spans and reasons, paths, and the trace."""
        return self._found(query, {})[0]

    async def asearch(self, query: str) -> RetrievalResult:
        """Return the core result of a query; see `search`."""
        return (await asyncio.to_thread(self._found, query, {}))[0]

    def retrieve_arguments(self) -> RetrieveArguments:
        """Return the fields as arguments of the index's `retrieve` method."""
        arguments, _, _ = self._call_arguments()
        return _with_turns(arguments)

    def _found(self, query: str, options: CallOptions) -> tuple[RetrievalResult, bool]:
        """Return the result of a call, and whether its documents have scores."""
        arguments, include_scores, threshold = self._call_arguments(**options)
        result = self._reader.retrieve(_check_query(query), **_with_turns(arguments))
        return above_threshold(result, threshold), include_scores

    def _call_arguments(
        self, **options: Unpack[CallOptions]
    ) -> tuple[RetrieveArguments, bool, float | None]:
        """Return the arguments of `retrieve`, `include_scores` and `score_threshold`.

        Options override `search_kwargs`, which override the fields; None means the value below.
        """
        _check_known(options, CallOptions.__annotations__)
        given = {
            name: value
            for name, value in options.items()
            if value is not None or name == "token_budget"  # None means no budget
        }
        chosen = {"token_budget": self.token_budget} | self.search_kwargs | given

        def option(name: str) -> Any:
            value = chosen.get(name)
            return getattr(self, name) if value is None else value

        k, floor, threshold = option("k"), option("min_relevance"), option("score_threshold")
        k = None if k is None else check_int("k", k)
        check_threshold(threshold)
        strategy = self._strategy(option)
        arguments: RetrieveArguments = {
            "k": k,
            "token_budget": token_budget_for(k, chosen["token_budget"]),
            "mode": option("mode"),
            "expand": option("expand"),
            "strategy": strategy,
            "where": self._where(option("filter"), option("store_filter")),
            # The nodes nearest to the question are not those nearest to a vector.
            "fill": not isinstance(strategy, VectorStrategy),
            "paths": option("paths"),
        }
        if floor is not None:
            arguments["min_relevance"] = floor
        if (boost := option("boost")) is not None:
            arguments["boost"] = as_boosts(boost)
        if (as_of := option("as_of")) is not None:
            arguments["as_of"] = as_validity(as_of)
        if (history := option("history")) is not None:
            arguments["history"] = history
        return arguments, option("include_scores"), threshold

    def _strategy(self, option: Callable[[str], Any]) -> Strategy | None:
        """Return the strategy with its hops and diversity; None means that of the index."""
        strategy: Strategy | None = option("strategy")
        max_hops, lambda_mult, fetch_k = (
            option("max_hops"),
            option("lambda_mult"),
            option("fetch_k"),
        )
        strategy = strategy if max_hops is None else _with_max_hops(strategy, max_hops)
        if self.search_type == "mmr":
            own: Strategy = self._reader.strategy if strategy is None else strategy
            diverse: Strategy = with_diversity(own, lambda_mult, fetch_k)
            return diverse
        _check_no_diversity(lambda_mult=lambda_mult, fetch_k=fetch_k)
        return strategy

    def _where(self, filter_: DocumentFilter | None, store_filter: Any) -> Where | None:
        where = None if filter_ is None else user_filter(filter_)
        if store_filter is None:
            return where
        if isinstance(self.index, ScopedReader):
            raise InvalidInputError("store_filter is not available in a scope: use filter instead")
        mirror = getattr(getattr(self.index, "corpus", None), "mirror", None)
        if not isinstance(mirror, VectorStoreMirror):
            raise InvalidInputError(
                "store_filter needs an index with a vector_store: use filter instead"
            )
        return mirror.node_filter(store_filter, where)


def _with_turns(arguments: RetrieveArguments) -> RetrieveArguments:
    """Return arguments with the turns that the history has now."""
    history = arguments.get("history")
    if history is None:
        return arguments
    return {**arguments, "history": as_turns(history() if callable(history) else history)}


def make_retriever(index: Any, k: int | None, options: RetrieverOptions) -> E2GraphRAGRetriever:
    """Return a retriever; see `E2GraphRAGIndex.as_retriever`.

    Args:
        index: The index.
        k: Number of documents, unless the options say otherwise.
        options: Fields of the retriever.
    """
    _check_known(options, RetrieverOptions.__annotations__)
    check_search_type(options.get("search_type", "similarity"))
    search_kwargs: CallOptions = options.get("search_kwargs", {})
    check_search_kwargs(search_kwargs)
    twice = [name for name in search_kwargs if name in options]
    if twice:
        raise InvalidInputError(f"{twice[0]}= is also in search_kwargs: pass it once")
    fields: dict[str, Any] = {"k": k, **options}
    return E2GraphRAGRetriever(index=index, **fields)


def _rebuild(
    cls: type[E2GraphRAGRetriever], index: Any, options: dict[str, Any]
) -> E2GraphRAGRetriever:
    return cls(index=index, **options)


def _check_known(given: Iterable[str], known: Iterable[str], what: str = "argument") -> None:
    """Check the names of arguments.

    Raises:
        InvalidInputError: For an unknown name.
    """
    names = list(known)
    for name in given:
        if name not in names:
            raise unknown_argument(name, names, what, elsewhere=_OTHER_NAMES)


def check_threshold(value: Any) -> None:
    """Check a `score_threshold`.

    Raises:
        InvalidInputError: If it is neither None nor a number from 0 to 1.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 <= value <= 1):
        raise InvalidInputError(
            f"score_threshold={short_repr(value)} must be a relevance from 0 to 1"
        )


def with_diversity(strategy: Any, lambda_mult: float | None, fetch_k: int | None) -> Any:
    """Return a strategy with the breadth that LangChain's arguments of `mmr` ask for.

    Args:
        strategy: A dataclass with a field `diversity`, such as `HybridStrategy`.
        lambda_mult: The `diversity` becomes `1 - lambda_mult`; None means 0.5, as in LangChain.
        fetch_k: The new `diversity_pool`; None keeps it.

    Raises:
        InvalidInputError: If the strategy lacks a setting, or a value is out of range.
    """
    lambda_mult = _DEFAULT_LAMBDA if lambda_mult is None else lambda_mult
    is_number = isinstance(lambda_mult, int | float) and not isinstance(lambda_mult, bool)
    if not (is_number and 0 <= lambda_mult <= 1):
        raise InvalidInputError(
            f"lambda_mult={short_repr(lambda_mult)} must be a number from 0 (diversity alone) to 1 "
            "(relevance alone)"
        )
    changes: dict[str, Any] = {"diversity": 1 - lambda_mult}
    if fetch_k is not None:
        changes["diversity_pool"] = check_int("fetch_k", fetch_k, 1, MAX_POOL)
    for name in changes:
        if not _has_setting(strategy, name):
            argument = "search_type='mmr'" if name == "diversity" else f"fetch_k={fetch_k}"
            raise InvalidInputError(
                f"{argument} needs a strategy with the setting {name!r}, which "
                f"{type(strategy).__name__} lacks: pass strategy=HybridStrategy()"
            )
    return replace(strategy, **changes)


def _check_no_diversity(**values: object) -> None:
    for name, value in values.items():
        if value is not None:
            raise InvalidInputError(f"{name}={short_repr(value)} needs search_type='mmr'")


def _has_setting(strategy: Any, name: str) -> bool:
    return is_dataclass(strategy) and name in {field.name for field in fields(strategy)}


def above_threshold(result: RetrievalResult, threshold: float | None) -> RetrievalResult:
    """Return a result without the nodes whose relevance is lower than a threshold, if any."""
    if threshold is None:
        return result
    return replace(result, nodes=tuple(n for n in result.nodes if n.relevance >= threshold))


def to_documents(result: RetrievalResult, *, include_scores: bool) -> list[Document]:
    """Convert the nodes of a result to LangChain documents, best first."""
    return [
        _to_document(node, result.paths, include_scores=include_scores) for node in result.nodes
    ]


def _to_document(
    node: RetrievedNode, paths: Sequence[EntityPath] | None, *, include_scores: bool
) -> Document:
    # Every document has the same keys, because a prompt that names a missing key would fail. Vector
    # stores such as Chroma refuse None, empty lists and mappings.
    defaults = user_metadata(dict.fromkeys(node.differing_keys, ""))
    segments = _shown_segments(node)
    shown = node.metadata
    if segments and segments is not node.segments:
        shown = merge_metadata([segment.metadata for segment in segments])
    ids = list(dict.fromkeys(segment.metadata.get(PAGE_ID) for segment in segments))
    if ids == [None]:  # indexed without LangChain
        ids, defaults = [node.document_id], {"source": node.document_id, **defaults}
    metadata: dict[str, Any] = {
        **defaults,
        **with_page_lists(user_metadata(shown)),
        PAGE_ID: ids[0] if len(ids) == 1 else "",
        "e2_doc_ids": ids,
        "e2_node_id": node.node_id,
        SOURCE_ID: node.document_id,
        "e2_level": node.level,
        "e2_position": node.position,
        "e2_start": node.spans[0].start,
        "e2_end": node.spans[-1].end,
        "e2_spans": [f"{start}-{end}" for start, end in node.spans],
        "e2_segments": _json([_segment(segment, node) for segment in segments]),
        "e2_parent": node.parent_id or "",
        "e2_children": ", ".join(node.child_ids),
        "e2_tags": ", ".join(node.tags),
        "e2_language": node.language,
        "e2_also_in": ", ".join(node.also_in),
        "e2_superseded_by": node.superseded_by or "",
    }
    if include_scores:
        metadata |= {
            "e2_relevance": node.relevance,
            "e2_score": float(node.score),
            "e2_found_by": node.found_by,
            "e2_entities": ", ".join(node.entities),
            "e2_reasons": [str(one) for one in node.reasons],  # stores accept no other class
        }
    if paths is not None:
        own = [path for path in paths if any(hop.node_id == node.node_id for hop in path.hops)]
        metadata["e2_paths"] = _json([path.to_dict() for path in own])
    id_ = str(ids[0]) if _is_complete_document(node, ids) else node.node_id
    return Document(id=id_, page_content=node.text, metadata=metadata)


def _is_complete_document(node: RetrievedNode, ids: Sequence[Any]) -> bool:
    """Return whether a node is a document as it was added: a kept chunk, or an undivided text."""
    if node.level or len(ids) != 1 or not node.segments:
        return False
    is_only = node.parent_id is None and node.start == 0
    return is_chunk(node.segments[0].metadata) or is_only


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown_segments(node: RetrievedNode) -> Sequence[Segment]:
    """Return the parts of the segments that the text of a node contains."""
    if node.level or node.spans == (Span(node.start, node.end),):
        return node.segments
    clipped = [
        Segment(max(one.start, span.start), min(one.end, span.end), one.metadata)
        for one in node.segments
        for span in node.spans
    ]
    return [one for one in clipped if one.start < one.end]


def _segment(segment: Segment, node: RetrievedNode) -> dict[str, Any]:
    """Return where a part of a node comes from: its span, its LangChain document and its page."""
    return {
        "start": segment.start,
        "end": segment.end,
        PAGE_ID: segment.metadata.get(PAGE_ID, node.document_id),
        **page_part(segment.metadata),
    }


def _route_event(result: RetrievalResult) -> dict[str, Any]:
    return {
        "route": result.route,
        "reason": result.trace.reason,
        "entities": [link.entity for link in result.trace.links],
        "node_ids": [node.node_id for node in result.nodes],
        "paths": [path.to_dict() for path in result.paths or ()],
        "trace": result.trace.to_dict(),
    }


def _with_max_hops(strategy: Any, max_hops: int) -> Any:
    strategy = PaperStrategy() if strategy is None else strategy
    if not _has_setting(strategy, "max_hops"):
        raise InvalidInputError(
            f"max_hops={max_hops} has no effect: {type(strategy).__name__} has no such setting"
        )
    return replace(strategy, max_hops=max_hops)


def _check_query(query: Any) -> str:
    if not isinstance(query, str):
        raise InvalidInputError(
            f"the retriever needs a str, not a {type(query).__name__}: in a chain, put "
            'RunnableLambda(lambda x: x["input"]) in front of it'
        )
    return query
