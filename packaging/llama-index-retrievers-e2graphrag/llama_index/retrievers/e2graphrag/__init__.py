"""E2GraphRAG for LlamaIndex, under the name of LlamaIndex's own integrations."""

from e2graphrag_integrations.llama_index import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    create_e2graphrag_tools,
)

__all__ = ["E2GraphRAGIndex", "E2GraphRAGRetriever", "create_e2graphrag_tools"]
