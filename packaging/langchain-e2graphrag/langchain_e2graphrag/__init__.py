"""E2GraphRAG for LangChain, under the name that LangChain's documentation expects."""

from e2graphrag_integrations.langchain import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    LangChainEmbedder,
    create_e2graphrag_tool,
    create_e2graphrag_tools,
)

__all__ = [
    "E2GraphRAGIndex",
    "E2GraphRAGRetriever",
    "LangChainEmbedder",
    "create_e2graphrag_tool",
    "create_e2graphrag_tools",
]
