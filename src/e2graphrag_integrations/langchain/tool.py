"""An index as a tool for agents."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.documents import Document
from langchain_core.prompts import BasePromptTemplate, format_document
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import patch_config
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from e2graphrag_integrations.langchain.retriever import E2GraphRAGRetriever
from e2graphrag_integrations.retrieval.strategy import Mode

_DESCRIPTION = (
    "Search the corpus. Returns numbered passages with their source and character offsets, which "
    "answers should cite. Ask in full sentences and name the people, places and things meant."
)
_NOTHING = "No matching passages."


class SearchInput(BaseModel):
    """What an agent passes to the tool."""

    query: str = Field(description="The question, in words, with the names of what it is about.")
    mode: Mode = Field(
        default="auto",
        description=(
            "`auto` suits most questions; `local` for how named things relate; `global` for themes "
            "and overviews."
        ),
    )


def create_e2graphrag_tool(
    retriever: E2GraphRAGRetriever,
    *,
    name: str = "search_corpus",
    description: str = _DESCRIPTION,
    document_prompt: BasePromptTemplate[str] | None = None,
) -> StructuredTool:
    """Return a tool that searches, for `create_agent` and any other.

    The model sees the passages as text; the documents themselves are the message's artifact. An
    error becomes a message to the model, never the end of the agent.

    Args:
        retriever: Searches; its own mode holds where the model asks for `auto`.
        name: Of the tool.
        description: Tells the model when to use it.
        document_prompt: Formats a passage, from `page_content` and metadata.
    """

    # The config given to a tool is that of its caller; the callbacks are those of its own run.
    def search(
        query: str,
        config: RunnableConfig,
        mode: Mode = "auto",
        callbacks: BaseCallbackManager | None = None,
    ) -> tuple[str, list[Document]]:
        try:
            found = retriever.invoke(
                query, patch_config(config, callbacks=callbacks), **_options(mode)
            )
            return _format(found, document_prompt), found
        except Exception as error:
            raise ToolException(_told(error)) from error

    async def asearch(
        query: str,
        config: RunnableConfig,
        mode: Mode = "auto",
        callbacks: BaseCallbackManager | None = None,
    ) -> tuple[str, list[Document]]:
        try:
            found = await retriever.ainvoke(
                query, patch_config(config, callbacks=callbacks), **_options(mode)
            )
            return _format(found, document_prompt), found
        except Exception as error:
            raise ToolException(_told(error)) from error

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=SearchInput,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=_told,
    )


def _options(mode: Mode) -> dict[str, Any]:
    return {} if mode == "auto" else {"mode": mode}


def _told(error: Exception) -> str:
    return f"The search failed ({type(error).__name__}: {error}). Ask in another way, or go on."


def _format(documents: list[Document], prompt: BasePromptTemplate[str] | None) -> str:
    if not documents:
        return _NOTHING
    return "\n\n".join(
        _passage(number, document) if prompt is None else format_document(document, prompt)
        for number, document in enumerate(documents, 1)
    )


def _passage(number: int, document: Document) -> str:
    own: dict[str, Any] = document.metadata
    kind = "summary of" if own["e2_level"] else "from"
    place = f"{own['e2_source_id']}, characters {own['e2_start']}-{own['e2_end']}"
    return f"[{number}] {kind} {place}\n{document.page_content}"
