"""Trees of the core as LlamaIndex nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)

from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import Node

LEVEL, KIND, TREE = "e2_level", "e2_kind", "e2_tree"
OWN_KEYS = (LEVEL, KIND, TREE)


def tree_to_nodes(source: BaseNode, tree: Tree, summaries: Mapping[str, str]) -> list[BaseNode]:
    """Return a document's tree as nodes, chunks first, with every relationship set.

    SOURCE is the document on every node, so that deletes, upserts and citations work; PREVIOUS and
    NEXT run within a level. Links carry ids and types only: LlamaIndex's own copy the metadata into
    every link, where it goes stale.
    """
    nodes: list[BaseNode] = []
    for level in tree.levels:
        made = [_to_node(source, node, summaries) for node in level]
        for before, after in pairwise(made):
            before.relationships[NodeRelationship.NEXT] = _link(after.node_id)
            after.relationships[NodeRelationship.PREVIOUS] = _link(before.node_id)
        nodes.extend(made)
    return nodes


def _to_node(source: BaseNode, node: Node, summaries: Mapping[str, str]) -> TextNode:
    relationships: dict[NodeRelationship, RelatedNodeInfo | list[RelatedNodeInfo]] = {
        NodeRelationship.SOURCE: RelatedNodeInfo(
            node_id=source.node_id, node_type=ObjectType.DOCUMENT, hash=source.hash
        )
    }
    if node.parent_id is not None:
        relationships[NodeRelationship.PARENT] = _link(node.parent_id)
    if node.child_ids:
        relationships[NodeRelationship.CHILD] = [_link(child) for child in node.child_ids]
    return TextNode(
        id_=node.id,
        text=summaries.get(node.id, node.text),
        start_char_idx=node.start,
        end_char_idx=node.end,
        metadata={
            **source.metadata,
            LEVEL: node.level,
            KIND: "summary" if node.level else "chunk",
            TREE: source.node_id,
        },
        excluded_embed_metadata_keys=_with_own(source.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=_with_own(source.excluded_llm_metadata_keys),
        relationships=relationships,
    )


def _with_own(keys: Sequence[str]) -> list[str]:
    return [*keys, *(key for key in OWN_KEYS if key not in keys)]


def _link(node_id: str) -> RelatedNodeInfo:
    return RelatedNodeInfo(node_id=node_id, node_type=ObjectType.TEXT)
