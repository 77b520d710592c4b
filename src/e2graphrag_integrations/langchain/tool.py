"""`create_e2graphrag_tool`: a retriever as a tool for agents."""

from __future__ import annotations

from typing import Any, Unpack

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.documents import Document
from langchain_core.prompts import BasePromptTemplate, format_document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import patch_config
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, model_validator

from e2graphrag_integrations._utils.failures import redact_error
from e2graphrag_integrations._utils.validation import (
    check_instance,
    reject_unknown_arguments,
    unknown_argument,
)
from e2graphrag_integrations.agents.toolset import argument_problem
from e2graphrag_integrations.langchain.options import CallOptions
from e2graphrag_integrations.langchain.retriever import E2GraphRAGRetriever
from e2graphrag_integrations.options import NoOptions
from e2graphrag_integrations.pages import describe_pages
from e2graphrag_integrations.retrieval.strategy import DEFAULT_K, Mode, Query

_DESCRIPTION = (
    "Search the corpus. Returns numbered passages with their source, pages and character offsets; "
    "cite them in the answer. Ask in full sentences and name the people, places and things."
)


class SearchInput(BaseModel):
    """Arguments of the tool."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, values: Any) -> Any:
        unknown = {name: None for name in values if name not in cls.model_fields}
        if unknown:
            raise unknown_argument(next(iter(unknown)), list(cls.model_fields))
        return values

    query: str = Field(description="A natural-language question that names the things it is about.")
    mode: Mode = Field(
        default="auto",
        description=(
            "`auto` suits most questions; `local` is for relations between named things; `global` "
            "is for themes and overviews."
        ),
    )


def create_e2graphrag_tool(
    retriever: E2GraphRAGRetriever,
    *,
    name: str = "search_corpus",
    description: str = _DESCRIPTION,
    document_prompt: BasePromptTemplate[str] | None = None,
    k: int | None = None,
    token_budget: int | None = None,
    min_relevance: float | None = None,
    **unknown: Unpack[NoOptions],
) -> StructuredTool:
    """Create a search tool for agents, such as those built with `create_agent`.

    The model receives the passages as text; the tool message's artifact contains the documents. An
    error is returned to the model as a message and does not stop the agent.

    Args:
        retriever: The retriever. Its own mode applies if the model chooses `auto`.
        name: Name of the tool.
        description: Tells the model when to use the tool.
        document_prompt: Formats each passage, using `page_content` and the metadata.
        k: Maximum number of passages. None means that of the retriever.
        token_budget: Maximum number of tokens in all passages, without their sources. None means
            that of the retriever, which is 2,000 tokens by default.
        min_relevance: Leaves out passages with a lower relevance. None means that of the retriever.

    Raises:
        InvalidInputError: If an argument is unknown or invalid.
    """
    reject_unknown_arguments(unknown, create_e2graphrag_tool)
    check_instance(
        "retriever", retriever, Runnable, "pass index.as_retriever() or an E2GraphRAGRetriever"
    )
    if document_prompt is not None:
        advice = 'pass one such as PromptTemplate.from_template("{page_content}")'
        check_instance("document_prompt", document_prompt, BasePromptTemplate, advice)
    given = {"k": k, "token_budget": token_budget, "min_relevance": min_relevance}
    options: Any = {name: value for name, value in given.items() if value is not None}
    # Creating a query validates the arguments.
    size = DEFAULT_K if k is None else k
    Query("?", size, token_budget=token_budget, min_relevance=min_relevance)

    # LangChain passes the caller's config; only `callbacks` belongs to the tool's own run.
    def search(
        query: str,
        config: RunnableConfig,
        mode: Mode = "auto",
        callbacks: BaseCallbackManager | None = None,
    ) -> tuple[str, list[Document]]:
        try:
            run_config = patch_config(config, callbacks=callbacks)
            documents = retriever.invoke(query, run_config, **_call_options(options, mode))
            return _format_documents(documents, document_prompt), documents
        except Exception as error:  # agents handle only LangChain's own error
            raise ToolException(_error_message(error)) from error

    async def asearch(
        query: str,
        config: RunnableConfig,
        mode: Mode = "auto",
        callbacks: BaseCallbackManager | None = None,
    ) -> tuple[str, list[Document]]:
        try:
            run_config = patch_config(config, callbacks=callbacks)
            documents = await retriever.ainvoke(query, run_config, **_call_options(options, mode))
            return _format_documents(documents, document_prompt), documents
        except Exception as error:  # agents handle only LangChain's own error
            raise ToolException(_error_message(error)) from error

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=SearchInput,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=argument_problem,
    )


def _call_options(options: CallOptions, mode: Mode) -> CallOptions:
    return options if mode == "auto" else {**options, "mode": mode}


def _error_message(error: Exception) -> str:
    return (
        f"The search failed ({type(error).__name__}: {redact_error(error)}). Rephrase the query, "
        "or continue without it."
    )


def _format_documents(documents: list[Document], prompt: BasePromptTemplate[str] | None) -> str:
    if not documents:
        return "No matching passages."
    return "\n\n".join(
        _format_passage(number, document) if prompt is None else format_document(document, prompt)
        for number, document in enumerate(documents, 1)
    )


def _format_passage(number: int, document: Document) -> str:
    metadata = document.metadata
    kind = "summary of" if metadata["e2_level"] else "from"
    span = f"characters {', '.join(metadata['e2_spans'])}"
    source = metadata.get("source") or metadata["e2_source_id"]
    copies = f"also in {metadata['e2_also_in']}" if metadata["e2_also_in"] else ""
    newer = metadata["e2_superseded_by"]
    newer = f"superseded by {newer}" if newer else ""
    place = ", ".join(filter(None, (str(source), describe_pages(metadata), span, copies, newer)))
    return f"[{number}] {kind} {place}\n{document.page_content}"
