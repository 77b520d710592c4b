"""The nodes of a result for LlamaIndex: from the hits of the core, or from a docstore."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

from llama_index.core.schema import BaseNode, NodeRelationship, NodeWithScore, TextNode

from e2graphrag_integrations.llama_index.storage.nodes import (
    KIND,
    LEVEL,
    PAGES,
    TREE,
    PagePart,
    encode_parts,
    node_link,
    node_text,
    source_link,
    with_own_keys,
)
from e2graphrag_integrations.pages import PAGE_ID, PAGE_KEYS, user_metadata
from e2graphrag_integrations.retrieval.node_relevance import falling_relevance
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.types import Segment, Span

SPANS = "e2_spans"
"""Metadata key of a chunk that a token budget has shortened: the parts in its text."""

ALSO_IN = "e2_also_in"
"""Metadata key of a result node: the ids of the other trees that contain the same text, joined by
`", "`. Many vector stores refuse lists."""


def scored_nodes(result: RetrievalResult, stored: Mapping[str, BaseNode]) -> list[NodeWithScore]:
    """Return the nodes of a result, best first, with relevances that never increase.

    Args:
        result: The result of the core.
        stored: The nodes by id, if the index has a docstore. The hits become nodes otherwise.
    """
    scores = falling_relevance(result.nodes)
    return [
        NodeWithScore(
            node=shown(stored[hit.node_id], hit) if hit.node_id in stored else node_of(hit),
            score=score,
        )
        for hit, score in zip(result.nodes, scores, strict=True)
    ]


# Nodes from hits


def node_of(hit: RetrievedNode) -> BaseNode:
    """Return a hit of the core as a node with all relationships.

    As in an `E2GraphRAGIndex`, the SOURCE is the LlamaIndex or LangChain document that contains the
    text, or the document of the core if there is none or the text comes from several. Its hash is
    not known. Offsets refer to the SOURCE.
    """
    pages = _pages(hit)
    document_ids = {page.metadata[PAGE_ID] for page in pages}
    source, offset = hit.document_id, 0
    if len(document_ids) == 1:
        source, offset = str(document_ids.pop()), hit.segment_start
    metadata = deepcopy(user_metadata(hit.metadata))  # the index owns its lists
    if not pages and hit.title is not None:
        metadata = {"title": hit.title, **metadata}
    if pages and not hit.level:
        metadata[PAGES] = encode_parts([_part(page) for page in pages])
    metadata |= {
        LEVEL: hit.level,
        KIND: "summary" if hit.level else "chunk",
        TREE: hit.document_id,
    }
    lists = _added_lists(pages)
    node = TextNode(
        id_=hit.node_id,
        text=hit.text,
        start_char_idx=hit.spans[0].start - offset,
        end_char_idx=hit.spans[-1].end - offset,
        metadata=metadata,
        excluded_embed_metadata_keys=with_own_keys(lists),
        excluded_llm_metadata_keys=with_own_keys(lists if hit.level else []),
        relationships=_links(hit, source),
    )
    if not hit.level and hit.spans != (Span(hit.start, hit.end),):
        spans = [f"{start - offset}-{end - offset}" for start, end in hit.spans]
        return _with_also_in(_with_metadata(node, SPANS, spans), hit)
    return _with_also_in(node, hit)


def _pages(hit: RetrievedNode) -> list[Segment]:
    """Return the parts of a hit on LlamaIndex or LangChain documents; [] if there is other text."""
    if all(PAGE_ID in segment.metadata for segment in hit.segments):
        return list(hit.segments)
    return []


def _part(page: Segment) -> PagePart:
    own = user_metadata(page.metadata)
    return PagePart(str(page.metadata[PAGE_ID]), "", page.start, page.end, own)


def _added_lists(pages: list[Segment]) -> list[str]:
    """Return the keys that list the pages of a node and that its pages do not have themselves."""
    own = {key for page in pages for key in page.metadata}
    return [key for key in PAGE_KEYS.values() if key not in own] if pages else []


def _links(hit: RetrievedNode, source: str) -> dict[NodeRelationship, Any]:
    links: dict[NodeRelationship, Any] = {NodeRelationship.SOURCE: source_link(source, "")}
    for kind, id_ in (
        (NodeRelationship.PREVIOUS, hit.previous_id),
        (NodeRelationship.NEXT, hit.next_id),
        (NodeRelationship.PARENT, hit.parent_id),
    ):
        if id_ is not None:
            links[kind] = node_link(id_)
    if hit.child_ids:
        links[NodeRelationship.CHILD] = [node_link(child) for child in hit.child_ids]
    return links


# Nodes from a docstore


def shown(text_node: BaseNode, hit: RetrievedNode) -> BaseNode:
    """Return a node as a result shows it; the same node if nothing differs.

    The metadata key `e2_also_in` names the other trees with the same text, if there are any.
    """
    return _with_also_in(_excerpt(text_node, hit), hit)


def _excerpt(text_node: BaseNode, hit: RetrievedNode) -> BaseNode:
    """Return a node with the text of a result node; the same node if that is complete.

    The offsets of a shortened chunk enclose its text, and the metadata key `e2_spans` lists its
    parts. Both refer to the SOURCE, like the offsets of a complete chunk.
    """
    if hit.text == node_text(text_node):
        return text_node
    shortened: Any = text_node.model_copy()
    shortened.set_content(hit.text)
    start = getattr(text_node, "start_char_idx", None)
    if start is None or hit.level:
        return cast("BaseNode", shortened)
    spans = [(start + one.start - hit.start, start + one.end - hit.start) for one in hit.spans]
    shortened.start_char_idx, shortened.end_char_idx = spans[0][0], spans[-1][1]
    return _with_metadata(shortened, SPANS, [f"{first}-{end}" for first, end in spans])


def _with_also_in(node: BaseNode, hit: RetrievedNode) -> BaseNode:
    return _with_metadata(node, ALSO_IN, ", ".join(hit.also_in)) if hit.also_in else node


def _with_metadata(node: BaseNode, key: str, value: str | list[str]) -> BaseNode:
    """Return a copy of a node with metadata that neither embeddings nor prompts contain."""
    changed: Any = node.model_copy()
    changed.metadata = {**node.metadata, key: value}
    changed.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, key]
    changed.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, key]
    return cast("BaseNode", changed)
