"""Conversion of summary trees to LlamaIndex nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

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
from e2graphrag_integrations.pages import PAGE_ID, PAGE_KEYS
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.tree import without_overlap
from e2graphrag_integrations.types import Node, Span

LEVEL, KIND, TREE, NODE = "e2_level", "e2_kind", "e2_tree", "e2_node"
"""Metadata keys for the tree level, the kind (`chunk` or `summary`), the id of the tree, and the id
of the node that a vector belongs to."""
PAGES = "e2_pages"
"""Metadata key for the parts of a chunk that lie on different pages, as JSON."""
OWN_KEYS = (LEVEL, KIND, TREE, NODE, PAGES, PAGE_ID)

_PAGE_KEYS = (*PAGE_KEYS, *PAGE_KEYS.values())
"""Metadata keys with the pages of a node, which differ from those of its pages."""


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


class PagePart(NamedTuple):
    """The part of a chunk that lies on one page.

    Attributes:
        document_id: Id of the page's LlamaIndex document.
        hash: LlamaIndex's hash of that document.
        start: Start of the part.
        end: End of the part.
        metadata: Metadata of the page.
    """

    document_id: str
    hash: str
    start: int
    end: int
    metadata: Mapping[str, Any]


def encode_parts(parts: Sequence[PagePart]) -> str:
    """Encode the parts of a chunk as JSON, without the metadata that all of them share.

    The JSON is one string, because many vector stores accept no nested metadata.
    """
    first, *others = (part.metadata for part in parts)
    shared = {
        key
        for key, value in first.items()
        if key not in _PAGE_KEYS and all(key in own and own[key] == value for own in others)
    }
    plain = [
        [*part[:4], {key: value for key, value in part.metadata.items() if key not in shared}]
        for part in parts
    ]
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def decode_parts(node: BaseNode) -> list[PagePart]:
    """Return the parts of a chunk, as spans in the text of its tree; empty if it has no pages.

    Raises:
        InvalidInputError: If the metadata of the node is damaged.
    """
    encoded = node.metadata.get(PAGES)
    if encoded is None:
        return []
    hidden = (*OWN_KEYS, *_PAGE_KEYS)
    shared = {key: value for key, value in node.metadata.items() if key not in hidden}
    try:
        return [
            PagePart(str(id_), str(hash_), int(start), int(end), shared | dict(own))
            for id_, hash_, start, end, own in json.loads(encoded)
        ]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"metadata {PAGES!r} of node {node.node_id!r} is damaged ({error}): remove it, or "
            "parse the documents again"
        ) from error


def pages_of(node: BaseNode) -> list[PagePart]:
    """Return the pages that a chunk touches, with the span of each in the text of the chunk.

    The result is empty for summaries, and for chunks of documents that do not share a tree.
    """
    parts = decode_parts(node)
    return [
        part._replace(start=part.start - parts[0].start, end=part.end - parts[0].start)
        for part in parts
    ]


class NodeSource(NamedTuple):
    """The SOURCE of a node.

    Attributes:
        id: Id of the document.
        hash: LlamaIndex's hash of the document.
        start: Start of the document's text in the text of the tree.
    """

    id: str
    hash: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class InheritedFields:
    """Fields that the nodes of a tree inherit from their documents.

    Attributes:
        source: Returns the SOURCE of a node.
        metadata: Returns the metadata of a node.
        excluded_embed: Metadata keys that are not embedded.
        excluded_llm: Metadata keys that are not shown to an LLM.
        excluded_of_summaries: More metadata keys of summaries that are not shown to an LLM.
    """

    source: Callable[[Node], NodeSource]
    metadata: Callable[[Node], Mapping[str, Any]]
    excluded_embed: Sequence[str] = ()
    excluded_llm: Sequence[str] = ()
    excluded_of_summaries: Sequence[str] = ()

    @classmethod
    def from_document(cls, document: BaseNode) -> InheritedFields:
        """Return the fields of a LlamaIndex document."""
        source = NodeSource(document.node_id, document.hash)
        return cls(
            lambda _: source,
            lambda _: document.metadata,
            document.excluded_embed_metadata_keys,
            document.excluded_llm_metadata_keys,
        )


def tree_to_nodes(inherited: InheritedFields, nodes: Sequence[Node]) -> list[BaseNode]:
    """Convert the nodes of a tree, chunks first, to LlamaIndex nodes with all relationships.

    The SOURCE of a node is the document that contains its text, so that deletes, upserts and
    citations work. If the text comes from several documents, the SOURCE is the tree, as a document
    of its own. Offsets refer to the SOURCE. PREVIOUS and NEXT link nodes on the same level. Links
    contain only ids and types, because LlamaIndex's own links copy the metadata, which then goes
    stale.
    """
    text_nodes: list[BaseNode] = []
    for node in nodes:
        source = inherited.source(node)
        hidden = inherited.excluded_of_summaries if node.level else ()
        text_node = TextNode(
            id_=node.id,
            text=node.text,
            start_char_idx=node.start - source.start,
            end_char_idx=node.end - source.start,
            metadata=dict(inherited.metadata(node)),
            excluded_embed_metadata_keys=list(inherited.excluded_embed),
            excluded_llm_metadata_keys=[*inherited.excluded_llm, *hidden],
            relationships={NodeRelationship.SOURCE: source_link(source.id, source.hash)},
        )
        set_position(text_node, node)
        text_nodes.append(text_node)
    link_levels(text_nodes, nodes)
    return text_nodes


def link_levels(text_nodes: Sequence[BaseNode], nodes: Sequence[Node]) -> None:
    """Set PREVIOUS and NEXT within each level; `nodes` are the corresponding tree nodes."""
    for (left, left_node), (right, right_node) in pairwise(zip(text_nodes, nodes, strict=True)):
        if left_node.level == right_node.level:
            left.relationships[NodeRelationship.NEXT] = node_link(right.node_id)
            right.relationships[NodeRelationship.PREVIOUS] = node_link(left.node_id)


def set_position(text_node: BaseNode, node: Node) -> None:
    """Set PARENT, CHILD and the position metadata; `node` is the corresponding tree node."""
    links = text_node.relationships
    links.pop(NodeRelationship.PARENT, None)
    links.pop(NodeRelationship.CHILD, None)
    if node.parent_id is not None:
        links[NodeRelationship.PARENT] = node_link(node.parent_id)
    if node.child_ids:
        links[NodeRelationship.CHILD] = [node_link(child) for child in node.child_ids]
    text_node.metadata = {
        **text_node.metadata,
        LEVEL: node.level,
        KIND: "summary" if node.level else "chunk",
        TREE: node.document_id,
    }
    text_node.excluded_embed_metadata_keys = with_own_keys(text_node.excluded_embed_metadata_keys)
    text_node.excluded_llm_metadata_keys = with_own_keys(text_node.excluded_llm_metadata_keys)


def vector_entry(text_node: BaseNode, node: Node, span: Span, vector: FloatArray) -> TextNode:
    """Return the vector store entry for one vector; the caller must replace its random id.

    The metadata is flat, because many vector stores do not accept nested values.
    """
    flat = {
        key: value
        for key, value in text_node.metadata.items()
        # The parts on each page shift with every edit before them, and filters do not need them.
        if isinstance(value, str | int | float | bool) and key != PAGES
    }
    return TextNode(
        text=node.text[span.start : span.end],
        metadata=flat | {NODE: node.id},
        excluded_embed_metadata_keys=with_own_keys(text_node.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=with_own_keys(text_node.excluded_llm_metadata_keys),
        # Vector stores delete and filter by SOURCE; a user's own node may have none.
        relationships={NodeRelationship.SOURCE: source_link(node.document_id, "")},
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


def with_own_keys(keys: Sequence[str]) -> list[str]:
    """Return hidden metadata keys with those of this package."""
    return [*keys, *(key for key in OWN_KEYS if key not in keys)]


def source_link(document_id: str, hash_: str) -> RelatedNodeInfo:
    """Return the SOURCE of a node; an empty hash is unknown."""
    return RelatedNodeInfo(node_id=document_id, node_type=ObjectType.DOCUMENT, hash=hash_ or None)


def node_link(node_id: str) -> RelatedNodeInfo:
    """Return a link to another node."""
    return RelatedNodeInfo(node_id=node_id, node_type=ObjectType.TEXT)
