"""Conversion of summary trees to LlamaIndex nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.tree import without_overlap
from e2graphrag_integrations.types import Node, Span

LEVEL, KIND, TREE, NODE = "e2_level", "e2_kind", "e2_tree", "e2_node"
"""Metadata keys for the tree level, the kind (`chunk` or `summary`), the document id, and the id of
the node that a vector belongs to."""
OWN_KEYS = (LEVEL, KIND, TREE, NODE)


_MEDIA = ("image_resource", "audio_resource", "video_resource")
"""Fields of LlamaIndex nodes with content other than text."""


def node_text(node: BaseNode) -> str:
    """Return the text of a node without metadata."""
    return node.get_content(metadata_mode=MetadataMode.NONE)


def check_has_text(node: BaseNode) -> None:
    """Reject an image, another medium or an index node without text, which no query could find.

    A text node may be blank: there is nothing to find in it.

    Raises:
        InvalidInputError: If the node has no text although it has other content.
    """
    has_other_content = isinstance(node, ImageNode | IndexNode) or any(
        getattr(node, name, None) is not None for name in _MEDIA
    )
    if has_other_content and not node_text(node).strip():
        raise InvalidInputError(
            f"{type(node).__name__} {node.node_id!r} has no text to index: set its text, for "
            "example to a caption or a description, or leave it out"
        )


@dataclass(frozen=True, slots=True)
class InheritedFields:
    """Fields that the nodes of a tree inherit from their document.

    Attributes:
        document_id: Id of the document.
        hash: LlamaIndex's hash of the document.
        metadata: Returns the metadata of a node.
        excluded_embed: Metadata keys that are not embedded.
        excluded_llm: Metadata keys that are not shown to an LLM.
    """

    document_id: str
    hash: str
    metadata: Callable[[Node], Mapping[str, Any]]
    excluded_embed: Sequence[str] = ()
    excluded_llm: Sequence[str] = ()

    @classmethod
    def from_document(cls, document: BaseNode) -> InheritedFields:
        """Return the fields of a LlamaIndex document."""
        return cls(
            document.node_id,
            document.hash,
            lambda _: document.metadata,
            document.excluded_embed_metadata_keys,
            document.excluded_llm_metadata_keys,
        )


def tree_to_nodes(inherited: InheritedFields, nodes: Sequence[Node]) -> list[BaseNode]:
    """Convert the nodes of a tree, chunks first, to LlamaIndex nodes with all relationships.

    The SOURCE of every node is the document, so that deletes, upserts and citations work. PREVIOUS
    and NEXT link nodes on the same level. Links contain only ids and types, because LlamaIndex's
    own links copy the metadata, which then goes stale.
    """
    text_nodes: list[BaseNode] = []
    for node in nodes:
        text_node = TextNode(
            id_=node.id,
            text=node.text,
            start_char_idx=node.start,
            end_char_idx=node.end,
            metadata=dict(inherited.metadata(node)),
            excluded_embed_metadata_keys=list(inherited.excluded_embed),
            excluded_llm_metadata_keys=list(inherited.excluded_llm),
            relationships={
                NodeRelationship.SOURCE: _source_link(inherited.document_id, inherited.hash)
            },
        )
        set_position(text_node, node)
        text_nodes.append(text_node)
    link_levels(text_nodes, nodes)
    return text_nodes


def link_levels(text_nodes: Sequence[BaseNode], nodes: Sequence[Node]) -> None:
    """Set PREVIOUS and NEXT within each level; `nodes` are the corresponding tree nodes."""
    for (left, left_node), (right, right_node) in pairwise(zip(text_nodes, nodes, strict=True)):
        if left_node.level == right_node.level:
            left.relationships[NodeRelationship.NEXT] = _node_link(right.node_id)
            right.relationships[NodeRelationship.PREVIOUS] = _node_link(left.node_id)


def set_position(text_node: BaseNode, node: Node) -> None:
    """Set PARENT, CHILD and the position metadata; `node` is the corresponding tree node."""
    links = text_node.relationships
    links.pop(NodeRelationship.PARENT, None)
    links.pop(NodeRelationship.CHILD, None)
    if node.parent_id is not None:
        links[NodeRelationship.PARENT] = _node_link(node.parent_id)
    if node.child_ids:
        links[NodeRelationship.CHILD] = [_node_link(child) for child in node.child_ids]
    text_node.metadata = {
        **text_node.metadata,
        LEVEL: node.level,
        KIND: "summary" if node.level else "chunk",
        TREE: node.document_id,
    }
    text_node.excluded_embed_metadata_keys = _with_own_keys(text_node.excluded_embed_metadata_keys)
    text_node.excluded_llm_metadata_keys = _with_own_keys(text_node.excluded_llm_metadata_keys)


def vector_entry(text_node: BaseNode, node: Node, span: Span, vector: FloatArray) -> TextNode:
    """Return the vector store entry for one vector; the caller must replace its random id.

    The metadata is flat, because many vector stores do not accept nested values.
    """
    flat = {k: v for k, v in text_node.metadata.items() if isinstance(v, str | int | float | bool)}
    return TextNode(
        text=node.text[span.start : span.end],
        metadata=flat | {NODE: node.id},
        excluded_embed_metadata_keys=_with_own_keys(text_node.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=_with_own_keys(text_node.excluded_llm_metadata_keys),
        # Vector stores delete and filter by SOURCE; a user's own node may have none.
        relationships={NodeRelationship.SOURCE: _source_link(node.document_id, "")},
        embedding=vector.tolist(),
    )


def texts_below(nodes: Sequence[Node]) -> dict[str, list[str]]:
    """Return the texts that each summary summarizes, by node id.

    Args:
        nodes: All nodes of a tree, with texts and `child_ids`. Summaries that lost
            all their children in a deletion are skipped.
    """
    by_id = {node.id: node for node in nodes}
    return {
        node.id: without_overlap([by_id[child] for child in node.child_ids])
        for node in nodes
        if node.level and node.child_ids
    }


def _with_own_keys(keys: Sequence[str]) -> list[str]:
    return [*keys, *(key for key in OWN_KEYS if key not in keys)]


def _source_link(document_id: str, hash_: str) -> RelatedNodeInfo:
    return RelatedNodeInfo(node_id=document_id, node_type=ObjectType.DOCUMENT, hash=hash_ or None)


def _node_link(node_id: str) -> RelatedNodeInfo:
    return RelatedNodeInfo(node_id=node_id, node_type=ObjectType.TEXT)
