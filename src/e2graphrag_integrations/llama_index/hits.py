"""The nodes of a result for LlamaIndex, from the hits of the core."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.schema import BaseNode, NodeRelationship, NodeWithScore

from e2graphrag_integrations.corpus.page import PAGE_SEPARATOR
from e2graphrag_integrations.llama_index.documents import hidden_keys, restored_chunk
from e2graphrag_integrations.llama_index.nodes import (
    KIND,
    LEVEL,
    PAGES,
    SPANS,
    TREE,
    PagePart,
    encode_parts,
    node_link,
    source_link,
    with_own_keys,
)
from e2graphrag_integrations.pages import CHUNK, NODE_FIELDS, PAGE_ID, PAGE_KEYS, user_metadata
from e2graphrag_integrations.retrieval.hydrate import falling_relevance
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Segment, Span

ALSO_IN = "e2_also_in"
SUPERSEDED_BY = "e2_superseded_by"
"""Metadata key of a result node: the ids of the other trees that contain the same text, joined by
`", "`. Many vector stores refuse lists."""


_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class NodeIds:
    """The ids of the chunks that the user passed as nodes, which keep their ids.

    Attributes:
        shown: The id of the user's node, by the id of the chunk in the index.
        stored: The id of the chunk in the index, by that of the user's node.
    """

    shown: Mapping[str, str] = field(default_factory=dict)
    stored: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> NodeIds:
        """Return the ids of the nodes of a snapshot, which remembers them."""
        ids: NodeIds = snapshot.derived(cls._read)
        return ids

    @classmethod
    def _read(cls, snapshot: Snapshot) -> NodeIds:
        records = snapshot.records
        own = {
            row: str(record[PAGE_ID])
            for row, record in enumerate(records.values)
            if record.get(NODE_FIELDS, _NONE).get("chunk")
        }
        if not own:
            return cls()
        shown = {
            snapshot.nodes.ids[node]: own[record]
            for node in snapshot.chunk_nodes.tolist()
            if (record := int(records.indices[records.starts[node]])) in own
            and records.ends[node] - records.starts[node] == 1
        }
        return cls(shown, {user: id_ for id_, user in shown.items()})

    def show(self, id_: str) -> str:
        """Return the id under which LlamaIndex knows a node."""
        return self.shown.get(id_, id_)


def has_user_nodes(hit: RetrievedNode) -> bool:
    """Return whether a hit is, or summarizes, chunks that the user passed as nodes."""
    return any(one.metadata.get(NODE_FIELDS, {}).get("chunk") for one in hit.segments)


def scored_nodes(result: RetrievalResult, ids: NodeIds) -> list[NodeWithScore]:
    """Return the nodes of a result, best first, with relevances that never increase."""
    scores = falling_relevance(result.nodes)
    return [
        NodeWithScore(node=node_of(hit, ids), score=score)
        for hit, score in zip(result.nodes, scores, strict=True)
    ]


def node_of(
    hit: RetrievedNode, ids: NodeIds, hash_of: Callable[[str], str] | None = None
) -> BaseNode:
    """Return a hit of the core as a node with all relationships.

    The SOURCE is the LlamaIndex or LangChain document that contains the text, or the document of
    the core if there is none or the text comes from several. Offsets refer to the SOURCE. A chunk
    that the user passed as a node has the class and the fields of that node.

    Args:
        hit: The hit.
        ids: The ids of the user's nodes.
        hash_of: Returns LlamaIndex's hash of a document; None takes it from the hit.
    """
    pages = _pages(hit)
    fields = pages[0].metadata.get(NODE_FIELDS, {}) if pages else {}
    if hit.level or not fields.get("chunk"):
        fields = {key: value for key, value in fields.items() if key not in _CHUNK_ONLY}
    if hit.level or len(pages) > 1:  # an image belongs to one document
        fields = {key: value for key, value in fields.items() if key != "media"}
    parts = [PagePart(*part) for part in fields.get("parts", ())] or _parts(pages)
    source, offset = _source(hit, pages, fields)
    metadata = user_metadata(hit.metadata)
    if not pages and hit.title is not None:
        metadata = {"title": hit.title, **metadata}
    if not hit.level and {part.document_id for part in parts} - {hit.document_id}:
        metadata[PAGES] = encode_parts(parts)
    metadata |= {
        LEVEL: hit.level,
        KIND: "summary" if hit.level else "chunk",
        TREE: hit.document_id,
    }
    hash_ = _hash(pages) if hash_of is None else hash_of(source)
    added = _added_lists(pages)
    embed, llm = hidden_keys(fields)
    values: dict[str, Any] = {
        "id_": ids.show(hit.node_id),
        "text": hit.text,
        "start_char_idx": hit.spans[0].start - offset,
        "end_char_idx": hit.spans[-1].end - offset,
        "metadata": metadata,
        "excluded_embed_metadata_keys": with_own_keys([*embed, *added]),
        "excluded_llm_metadata_keys": with_own_keys([*llm, *(added if hit.level else ())]),
        "relationships": _links(hit, ids, source_link(source, hash_)),
    }
    node = restored_chunk(fields, **values)
    if not hit.level and hit.spans != (Span(hit.start, hit.end),):
        spans = [f"{start - offset}-{end - offset}" for start, end in hit.spans]
        node = _with_metadata(node, SPANS, spans)
    if hit.superseded_by:
        node = _with_metadata(node, SUPERSEDED_BY, hit.superseded_by)
    return _with_metadata(node, ALSO_IN, ", ".join(hit.also_in)) if hit.also_in else node


_CHUNK_ONLY = ("chunk", "start", "offset", "source", "hash", "parts", "node")
"""Fields of a user's node that summaries above it do not inherit."""


def _source(hit: RetrievedNode, pages: list[Segment], fields: Mapping[str, Any]) -> tuple[str, int]:
    """Return the SOURCE of a hit, and where its text starts in that of the core's document."""
    if "chunk" in fields:
        own = str(fields.get("source", pages[0].metadata[PAGE_ID]))
        return own, _chunk_offset(fields, hit.start)
    document_ids = {_document_id(page) for page in pages}
    if len(document_ids) != 1:
        return hit.document_id, 0
    first = pages[0].metadata.get(NODE_FIELDS, {})
    is_chunked = "chunk" in first
    offset = _chunk_offset(first, pages[0].start) if is_chunked else hit.segment_start
    return str(document_ids.pop()), offset


def _chunk_offset(fields: Mapping[str, Any], start: int) -> int:
    """Return where the SOURCE of a user's chunk starts, if the chunk starts at `start`."""
    own = fields.get("offset", fields.get("start"))
    return 0 if own is None else start - int(own)


def _hash(pages: list[Segment]) -> str:
    """Return LlamaIndex's hash of the documents of a node; empty if it is unknown."""
    known = list(dict.fromkeys(one.metadata.get(NODE_FIELDS, {}).get("hash", "") for one in pages))
    if len(known) == 1:
        return str(known[0])
    return "" if "" in known else hashlib.sha256("".join(known).encode()).hexdigest()


def _document_id(page: Segment) -> str:
    fields = page.metadata.get(NODE_FIELDS, {})
    return str(fields.get("source", page.metadata[PAGE_ID]))


def _pages(hit: RetrievedNode) -> list[Segment]:
    """Return the parts of a hit on LlamaIndex or LangChain documents; [] if there is other text."""
    if all(PAGE_ID in segment.metadata for segment in hit.segments):
        return list(hit.segments)
    return []


def _parts(pages: list[Segment]) -> list[PagePart]:
    """Return the parts of a chunk on its pages, without what separates these and blank pages."""
    parts = []
    for number, page in enumerate(pages, 1):
        is_followed = number < len(pages) and CHUNK not in page.metadata
        end = page.end - len(PAGE_SEPARATOR) if is_followed else page.end
        if page.start < end or len(pages) == 1:
            metadata = user_metadata(page.metadata)
            parts.append(PagePart(_document_id(page), page.start, end, metadata))
    return parts


def _added_lists(pages: list[Segment]) -> list[str]:
    """Return the keys that list the pages of a node and that its pages do not have themselves."""
    own = {key for page in pages for key in page.metadata}
    return [key for key in PAGE_KEYS.values() if key not in own] if pages else []


def _links(hit: RetrievedNode, ids: NodeIds, source: Any) -> dict[NodeRelationship, Any]:
    links: dict[NodeRelationship, Any] = {NodeRelationship.SOURCE: source}
    for kind, id_ in (
        (NodeRelationship.PREVIOUS, hit.previous_id),
        (NodeRelationship.NEXT, hit.next_id),
        (NodeRelationship.PARENT, hit.parent_id),
    ):
        if id_ is not None:
            links[kind] = node_link(ids.show(id_))
    if hit.child_ids:
        links[NodeRelationship.CHILD] = [node_link(ids.show(child)) for child in hit.child_ids]
    return links


def _with_metadata(node: BaseNode, key: str, value: str | list[str]) -> BaseNode:
    """Return a node with metadata that neither embeddings nor prompts contain."""
    node.metadata = {**node.metadata, key: value}
    node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, key]
    node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, key]
    return node
