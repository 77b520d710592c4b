"""An extractor that gives LlamaIndex's `PropertyGraphIndex` the entity graph of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.bridge.pydantic import Field, PrivateAttr, ValidationError
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    EntityNode,
    Relation,
)
from llama_index.core.schema import BaseNode, TransformComponent

from e2graphrag_integrations._utils.typed_errors import checked_fields
from e2graphrag_integrations.entities.chunk_extractor import normalize_mentions
from e2graphrag_integrations.entities.spacy_extractor import SpacyEntityExtractor, extract_checked
from e2graphrag_integrations.graph.builder import build_graph
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.llama_index.nodes import node_text
from e2graphrag_integrations.portability.property_graph import CO_OCCURS, MENTIONS

NAME, NOUN = "NAME", "NOUN"
"""Labels of entity nodes."""


class EntityCooccurrenceExtractor(TransformComponent):
    """Extract entities and co-occurrences for `PropertyGraphIndex(kg_extractors=[...])`.

    No LLM is called. Each call sums the weights of an edge over all the given nodes, because stores
    do not add up the weights of repeated relations. Section 3.2 of the E2GraphRAG paper defines the
    weights. `MENTIONS` relations connect each node with its entities.

    Raises:
        InvalidInputError: If an argument is unknown or invalid.
        MissingDependencyError: If the spaCy pipeline is not installed.
    """

    extractor: str | None = Field(
        default=None, description="Name or path of a spaCy pipeline; None uses the bundled one."
    )
    min_weight: float = Field(default=0.0, ge=0, description="Minimum weight of an edge.")
    _spacy_extractor: SpacyEntityExtractor | None = PrivateAttr(default=None)

    if not TYPE_CHECKING:  # type checkers read the signature from the fields

        def __init__(self, **fields: Any) -> None:
            with checked_fields(type(self), fields, ValidationError):
                super().__init__(**fields)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which pipelines store this extractor."""
        return "EntityCooccurrenceExtractor"

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Return the nodes with entities and relations under LlamaIndex's metadata keys."""
        del kwargs  # pipelines pass the arguments of all transformations to each one
        if not nodes:
            return nodes
        if self._spacy_extractor is None:
            self._spacy_extractor = (
                SpacyEntityExtractor(self.extractor) if self.extractor else SpacyEntityExtractor()
            )
        texts = [node_text(node) for node in nodes]
        labels = [f"node {node.node_id}" for node in nodes]
        found = extract_checked(self._spacy_extractor, texts, labels)
        graph = build_graph(normalize_mentions(sentences) for sentences in found)
        mentions = graph.postings.tocsc()
        for column, node in enumerate(nodes):
            entries = slice(mentions.indptr[column], mentions.indptr[column + 1])
            rows, counts = mentions.indices[entries].tolist(), mentions.data[entries].tolist()
            # Keep the results of other extractors.
            node.metadata.setdefault(KG_NODES_KEY, []).extend(_entity(graph, row) for row in rows)
            node.metadata.setdefault(KG_RELATIONS_KEY, []).extend(
                _mention(graph, node.node_id, row, count)
                for row, count in zip(rows, counts, strict=True)
            )
        nodes[0].metadata[KG_RELATIONS_KEY].extend(_co_occurrences(graph, self.min_weight))
        return nodes


def _entity(graph: EntityGraph, row: int) -> EntityNode:
    return EntityNode(name=graph.names[row], label=NAME if graph.named[row] else NOUN)


def _co_occurrences(graph: EntityGraph, min_weight: float) -> Iterator[Relation]:
    edges = graph.edges.tocoo()
    upper = (edges.row < edges.col) & (edges.data >= min_weight)
    for a, b, weight in zip(edges.row[upper], edges.col[upper], edges.data[upper], strict=True):
        yield Relation(
            label=CO_OCCURS,
            source_id=_entity(graph, int(a)).id,
            target_id=_entity(graph, int(b)).id,
            properties={"weight": round(float(weight), 6)},
        )


def _mention(graph: EntityGraph, chunk_id: str, row: int, count: int) -> Relation:
    target_id = _entity(graph, row).id
    return Relation(
        label=MENTIONS, source_id=chunk_id, target_id=target_id, properties={"count": count}
    )
