"""The LlamaIndex integration; requires the `llama-index` extra.

Importing this package registers `E2GraphRAGIndex` with `load_index_from_storage`.
"""

from __future__ import annotations

from e2graphrag_integrations.errors import MissingDependencyError

try:
    from e2graphrag_integrations.llama_index.agent_tools import create_e2graphrag_tools
    from e2graphrag_integrations.llama_index.filters import where_of
    from e2graphrag_integrations.llama_index.graph_store import update_property_graph
    from e2graphrag_integrations.llama_index.index import E2GraphRAGIndex, register
    from e2graphrag_integrations.llama_index.models import EmbedModel
    from e2graphrag_integrations.llama_index.node_parser import SummaryTreeNodeParser
    from e2graphrag_integrations.llama_index.nodes import PagePart, pages_of
    from e2graphrag_integrations.llama_index.property_graph import EntityCooccurrenceExtractor
    from e2graphrag_integrations.llama_index.retriever import (
        E2GraphRAGRetriever,
        E2RoutingEvent,
        RetrieverMode,
    )
    from e2graphrag_integrations.llama_index.selector import GraphProximitySelector
    from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("llama_index"):
        raise
    raise MissingDependencyError(
        "e2graphrag_integrations.llama_index needs llama-index-core: "
        "pip install 'e2graphrag-integrations[llama-index]'"
    ) from error

register()

__all__ = [
    "E2GraphRAGIndex",
    "E2GraphRAGIndexStruct",
    "E2GraphRAGRetriever",
    "E2RoutingEvent",
    "EmbedModel",
    "EntityCooccurrenceExtractor",
    "GraphProximitySelector",
    "PagePart",
    "RetrieverMode",
    "SummaryTreeNodeParser",
    "create_e2graphrag_tools",
    "pages_of",
    "update_property_graph",
    "where_of",
]
