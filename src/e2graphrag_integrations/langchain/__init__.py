"""E2GraphRAG for LangChain. Requires the `langchain` extra."""

from __future__ import annotations

from e2graphrag_integrations.errors import MissingDependencyError

try:
    from e2graphrag_integrations.corpus.batch import WriteBatch
    from e2graphrag_integrations.langchain.agent_tools import create_e2graphrag_tools
    from e2graphrag_integrations.langchain.embedding import LangChainEmbedder
    from e2graphrag_integrations.langchain.index import E2GraphRAGIndex
    from e2graphrag_integrations.langchain.retriever import E2GraphRAGRetriever
    from e2graphrag_integrations.langchain.tool import create_e2graphrag_tool
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("langchain_core"):
        raise
    raise MissingDependencyError(
        "e2graphrag_integrations.langchain needs langchain-core: "
        "pip install 'e2graphrag-integrations[langchain]'"
    ) from error

__all__ = [
    "E2GraphRAGIndex",
    "E2GraphRAGRetriever",
    "LangChainEmbedder",
    "WriteBatch",
    "create_e2graphrag_tool",
    "create_e2graphrag_tools",
]
