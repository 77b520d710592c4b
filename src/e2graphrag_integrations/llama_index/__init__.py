"""E2GraphRAG for LlamaIndex; needs the extra `llama-index`."""

from __future__ import annotations

from e2graphrag_integrations.errors import MissingDependencyError

try:
    from e2graphrag_integrations.llama_index.node_parser import SummaryTreeNodeParser
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("llama_index"):
        raise
    raise MissingDependencyError(
        "e2graphrag_integrations.llama_index needs llama-index-core: "
        "pip install 'e2graphrag-integrations[llama-index]'"
    ) from error

__all__ = ["SummaryTreeNodeParser"]
