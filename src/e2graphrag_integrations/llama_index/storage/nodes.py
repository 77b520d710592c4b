"""Trees of the core as LlamaIndex nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)

from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.types import Node, Span

LEVEL, KIND, TREE, NODE = "e2_level", "e2_kind", "e2_tree", "e2_node"
OWN_KEYS = (LEVEL, KIND, TREE, NODE)


@dataclass(frozen=True, slots=True)
class Origin:
    """What every node of a document's tree has from its document."""

    id: str
    hash: str
    metadata: Callable[[Node], Mapping[str, Any]]
    excluded_embed: Sequence[str] = ()
    excluded_llm: Sequence[str] = ()

    @classmethod
    def of(cls, source: BaseNode) -> Origin:
        """Return what the nodes of a document have from it."""
        return cls(
            source.node_id,
            source.hash,
            lambda _: source.metadata,
            source.excluded_embed_metadata_keys,
            source.excluded_llm_metadata_keys,
        )


def tree_to_nodes(origin: Origin, nodes: Sequence[Node]) -> list[BaseNode]:
    """Return a document's tree, chunks first, as LlamaIndex nodes with every relationship set.

    SOURCE is the document on every node, so that deletes, upserts and citations work; PREVIOUS and
    NEXT run within a level. Links carry ids and types only: LlamaIndex's own copy the metadata into
    every link, where it goes stale.
    """
    made: list[BaseNode] = [_to_node(origin, node) for node in nodes]
    link_levels(made, nodes)
    return made


def link_levels(made: Sequence[BaseNode], nodes: Sequence[Node]) -> None:
    """Set PREVIOUS and NEXT within each level."""
    for (before, one), (after, other) in pairwise(zip(made, nodes, strict=True)):
        if one.level == other.level:
            before.relationships[NodeRelationship.NEXT] = _link(after.node_id)
            after.relationships[NodeRelationship.PREVIOUS] = _link(before.node_id)


def set_place(made: BaseNode, node: Node) -> None:
    """Set a node's links up and down, and the metadata that tell its place in the tree."""
    links = made.relationships
    links.pop(NodeRelationship.PARENT, None)
    links.pop(NodeRelationship.CHILD, None)
    if node.parent_id is not None:
        links[NodeRelationship.PARENT] = _link(node.parent_id)
    if node.child_ids:
        links[NodeRelationship.CHILD] = [_link(child) for child in node.child_ids]
    made.metadata = {
        **made.metadata,
        LEVEL: node.level,
        KIND: "summary" if node.level else "chunk",
        TREE: node.document_id,
    }
    made.excluded_embed_metadata_keys = _with_own(made.excluded_embed_metadata_keys)
    made.excluded_llm_metadata_keys = _with_own(made.excluded_llm_metadata_keys)


def _to_node(origin: Origin, node: Node) -> TextNode:
    made = TextNode(
        id_=node.id,
        text=node.text,
        start_char_idx=node.start,
        end_char_idx=node.end,
        metadata=dict(origin.metadata(node)),
        excluded_embed_metadata_keys=list(origin.excluded_embed),
        excluded_llm_metadata_keys=list(origin.excluded_llm),
        relationships={NodeRelationship.SOURCE: source_link(origin.id, origin.hash)},
    )
    set_place(made, node)
    return made


def source_link(document_id: str, hash_: str) -> RelatedNodeInfo:
    """Return the link from a node to its document."""
    return RelatedNodeInfo(node_id=document_id, node_type=ObjectType.DOCUMENT, hash=hash_ or None)


def window_node(node: BaseNode, place: Node, span: Span, vector: FloatArray) -> TextNode:
    """Return the entry of one vector for a vector store: the text that it stands for.

    Metadata are flat and set, which is all that every store takes.
    """
    flat = {k: v for k, v in node.metadata.items() if isinstance(v, str | int | float | bool)}
    return TextNode(
        text=place.text[span.start : span.end],
        metadata=flat | {NODE: place.id},
        excluded_embed_metadata_keys=_with_own(node.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=_with_own(node.excluded_llm_metadata_keys),
        relationships={
            # Vector stores delete and filter by it, also where the user's node has no source.
            NodeRelationship.SOURCE: source_link(place.document_id, "")
        },
        embedding=vector.tolist(),
    )


def _with_own(keys: Sequence[str]) -> list[str]:
    return [*keys, *(key for key in OWN_KEYS if key not in keys)]


def _link(node_id: str) -> RelatedNodeInfo:
    return RelatedNodeInfo(node_id=node_id, node_type=ObjectType.TEXT)
