"""Keyword arguments that several methods share, listed so that editors and mypy know each name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.llms.utils import resolve_llm
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import IndexNode, TransformComponent
from llama_index.core.vector_stores import MetadataFilters

from e2graphrag_integrations._utils.validation import type_name, unknown_argument
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index.models import EmbedModelType
from e2graphrag_integrations.options import FreshnessPolicy, IndexSettings, Models, WriteOptions
from e2graphrag_integrations.retrieval.history.turns import History, TurnLike
from e2graphrag_integrations.retrieval.ranking.boosts import Boost
from e2graphrag_integrations.retrieval.results.context_size import TokenBudget
from e2graphrag_integrations.retrieval.strategy import Expand, Strategy
from e2graphrag_integrations.retrieval.validity.options import AsOf
from e2graphrag_integrations.vectors.open_vectors import VectorsArgument

ChatHistory = Sequence[ChatMessage | TurnLike] | BaseMemory | Callable[[], History]
"""Messages or other turns, oldest first; a memory, or a function that returns turns, both read at
each query."""


class VectorStoreIndexOptions(TypedDict, total=False):
    """Options of `VectorStoreIndex` that `E2GraphRAGIndex` accepts and ignores."""

    insert_batch_size: int
    use_async: bool
    store_nodes_override: bool


class BuildOptions(VectorStoreIndexOptions, total=False):
    """Models and settings for an index; the constructor of `E2GraphRAGIndex` describes each."""

    objects: Sequence[IndexNode] | None
    llm: LLM | str | None
    embed_model: EmbedModelType | None
    chunk_size: int | None
    settings: IndexSettings | None
    models: Models | None
    writes: WriteOptions | None
    freshness: FreshnessPolicy | None
    strategy: Strategy | None
    vectors: VectorsArgument | None


class PathOptions(BuildOptions, total=False):
    """Options of an index with a place of its own; the constructor describes each."""

    path: str | os.PathLike[str]


class OpenOptions(BuildOptions, total=False):
    """Options for opening an index; the constructor of `E2GraphRAGIndex` describes each."""

    show_progress: bool
    callback_manager: CallbackManager | None
    transformations: list[TransformComponent] | None


class LoadOptions(OpenOptions, total=False):
    """Options for opening an index of a storage context, which may have moved."""

    path: str | os.PathLike[str]


class SearchOptions(TypedDict, total=False):
    """Options for retrieval beside the mode; `E2GraphRAGRetriever` describes each."""

    similarity_top_k: int | None
    token_budget: TokenBudget
    strategy: Strategy | None
    filters: MetadataFilters | None
    doc_ids: Sequence[str] | None
    node_ids: Sequence[str] | None
    tags: Sequence[str] | None
    expand: Expand
    boost: Boost | None
    history: ChatHistory | None
    paths: bool
    min_relevance: float | None
    as_of: AsOf | None


class RetrieverOptions(SearchOptions, total=False):
    """Options for retrieval; `E2GraphRAGRetriever` describes each."""

    mode: str


class EngineOptions(TypedDict, total=False):
    """Options of query and chat engines, which `as_retriever` accepts and ignores.

    `as_query_engine` and `as_chat_engine` pass all their options to `as_retriever` and to the
    engine. The names come from `RetrieverQueryEngine.from_args`, `get_response_synthesizer` and
    the chat engines' `from_defaults`, in llama-index-core 0.13.0 to 0.14.25.
    """

    # Query engines and response synthesizers
    response_synthesizer: object
    response_mode: object
    node_postprocessors: object
    prompt_helper: object
    chat_prompt_helper: object
    text_qa_template: object
    refine_template: object
    summary_template: object
    simple_template: object
    chat_content_qa_template: object
    chat_content_refine_template: object
    chat_summary_template: object
    structured_answer_filtering: object
    output_cls: object
    program_factory: object
    use_async: object
    streaming: object
    multimodal: object
    # Chat engines
    chat_history: object
    memory: object
    memory_cls: object
    system_prompt: object
    prefix_messages: object
    context_template: object
    context_refine_template: object
    context_prompt: object
    context_refine_prompt: object
    condense_prompt: object
    condense_question_prompt: object
    skip_condense: object


class IndexRetrieverOptions(SearchOptions, EngineOptions, total=False):
    """Options of `as_retriever` beside the mode: those of retrieval, and those of engines."""

    callback_manager: CallbackManager | None
    object_map: dict[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool


class QueryEngineOptions(IndexRetrieverOptions, total=False):
    """Options of query and chat engines: those of the retriever, and of the engine."""

    mode: str


_FILTER_NAMES = ("where", "filter", "metadata_filters", "store_filter")
"""Names that other retrievers use for a filter; ignoring one would return unfiltered nodes."""

_OTHER_NAMES = {
    "k": "similarity_top_k",
    "top_k": "similarity_top_k",
    "sparse_top_k": "similarity_top_k",
    "hybrid_top_k": "similarity_top_k",
    "retriever_mode": "mode",
    "alpha": "strategy",
    "vector_store_query_mode": "strategy",
    "vector_store_kwargs": "strategy",
    "mmr_threshold": "strategy",
}
"""Option names in other retrievers, mapped to the equivalent option here."""

_DIVERSITY_NAMES = ("vector_store_query_mode", "vector_store_kwargs", "mmr_threshold")
"""Option names with which other retrievers select diverse nodes."""


def reject_retriever_options(
    unknown: Iterable[str], known: Iterable[str] = RetrieverOptions.__annotations__
) -> None:
    """Raise an error for the first name; none of the names is an option.

    Args:
        unknown: The names.
        known: The names of all options, for the message.

    Raises:
        InvalidInputError: If other retrievers use this name for a filter, or for any other name;
            the message suggests the closest option.
    """
    for name in unknown:
        if name in _FILTER_NAMES:
            raise InvalidInputError(f"unknown argument {name!r}: pass filters=MetadataFilters(...)")
        error = unknown_argument(name, list(known), elsewhere=_OTHER_NAMES)
        if name not in _DIVERSITY_NAMES:
            raise error
        raise InvalidInputError(
            f"{error}. For diverse nodes ('mmr'), pass strategy=HybridStrategy(diversity=0.5)"
        )


def reject_engine_options(options: Iterable[str]) -> None:
    """Raise an error for the first name that neither a retriever nor an engine has.

    Raises:
        InvalidInputError: If other retrievers use this name for a filter, or for any other name;
            the message suggests the closest option.
    """
    known = QueryEngineOptions.__annotations__
    reject_retriever_options((name for name in options if name not in known), known)


def llm_for_answers(llm: Any, callback_manager: CallbackManager | None = None) -> LLM:
    """Return the LLM that writes the answers of an engine; None means `Settings.llm`.

    Raises:
        InvalidInputError: If it is not an LLM.
    """
    if llm is None:
        return Settings.llm
    try:
        return resolve_llm(llm, callback_manager=callback_manager)
    except (AssertionError, ValueError, AttributeError) as error:
        raise InvalidInputError(
            f"llm is a {type_name(llm)}, not a LlamaIndex LLM: pass an object such as "
            "OpenAILike(...), or set Settings.llm"
        ) from error
