"""An index of documents: opening, writing and reading it."""

from e2graphrag_integrations.engine.index import E2GraphRAG

__all__ = ["E2GraphRAG"]
