"""The metadata and the relationships with which LlamaIndex nodes show their place in a tree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from llama_index.core.schema import (
    BaseNode,
    ImageNode,
    IndexNode,
    MetadataMode,
    ObjectType,
    RelatedNodeInfo,
)

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.pages import PAGE_ID, PAGE_KEYS
from e2graphrag_integrations.retrieval.result import GAP

LEVEL, KIND, TREE = "e2_level", "e2_kind", "e2_tree"
"""Metadata keys for the tree level, the kind (`chunk` or `summary`) and the id of the tree."""

PAGES = "e2_pages"
"""Metadata key for the parts of a chunk that lie on different pages, as JSON."""

SPANS = "e2_spans"
"""Metadata key of a chunk that a token budget has shortened: the parts in its text."""

OWN_KEYS = (LEVEL, KIND, TREE, PAGES, PAGE_ID)

_PAGE_KEYS = (*PAGE_KEYS, *PAGE_KEYS.values())
"""Metadata keys with the pages of a node, which differ from those of its pages."""

MEDIA = ("image_resource", "audio_resource", "video_resource")
"""Fields of LlamaIndex nodes with content other than text."""


def node_text(node: BaseNode) -> str:
    """Return the text of a node without metadata."""
    return node.get_content(metadata_mode=MetadataMode.NONE)


def level_of(node: BaseNode) -> int:
    """Return the tree level of a node of a `SummaryTreeNodeParser`; 0 for a chunk.

    Raises:
        InvalidInputError: If the metadata of the node is damaged.
    """
    level = node.metadata.get(LEVEL, 0)
    try:
        return int(level or 0)  # some stores keep numbers as strings
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"metadata {LEVEL!r} of node {node.node_id!r} is {short_repr(level)}, not a number: "
            "remove it, or parse the documents again"
        ) from error


def check_has_text(node: BaseNode) -> None:
    """Reject an image, another medium or an index node without text, which no query could find.

    A text node may be blank: there is nothing to find in it.

    Raises:
        InvalidInputError: If the node has no text although it has other content.
    """
    has_other_content = isinstance(node, ImageNode | IndexNode) or any(
        getattr(node, name, None) is not None for name in MEDIA
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
        start: Start of the part.
        end: End of the part.
        metadata: Metadata of the page.
    """

    document_id: str
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
        [*part[:3], {key: value for key, value in part.metadata.items() if key not in shared}]
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
            PagePart(str(id_), int(start), int(end), shared | dict(own))
            for id_, start, end, own in json.loads(encoded)
        ]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"metadata {PAGES!r} of node {node.node_id!r} is damaged ({error}): remove it, or "
            "parse the documents again"
        ) from error


def pages_of(node: BaseNode) -> list[PagePart]:
    """Return the pages that a chunk touches, with the span of each in the text of the chunk.

    The result is empty for summaries, and for chunks of documents that do not share a tree. In a
    chunk that a token budget has shortened, a page with several of the parts left occurs several
    times.
    """
    parts = decode_parts(node)
    if len(parts) == 1:
        return [parts[0]._replace(start=0, end=len(node_text(node)))]
    if SPANS not in node.metadata:
        return [
            part._replace(start=part.start - parts[0].start, end=part.end - parts[0].start)
            for part in parts
        ]
    pages: list[PagePart] = []
    at = 0
    for span in node.metadata[SPANS]:
        start, end = map(int, span.split("-"))
        for part in parts:
            first, last = max(start, part.start), min(end, part.end)
            if first < last:
                pages.append(part._replace(start=at + first - start, end=at + last - start))
        at += end - start + len(GAP)
    return pages


def with_own_keys(keys: Sequence[str]) -> list[str]:
    """Return hidden metadata keys with those of this package."""
    return [*keys, *(key for key in OWN_KEYS if key not in keys)]


def source_link(document_id: str, hash_: str = "") -> RelatedNodeInfo:
    """Return the SOURCE of a node; an empty hash is unknown."""
    return RelatedNodeInfo(node_id=document_id, node_type=ObjectType.DOCUMENT, hash=hash_ or None)


def node_link(node_id: str) -> RelatedNodeInfo:
    """Return a link to another node."""
    return RelatedNodeInfo(node_id=node_id, node_type=ObjectType.TEXT)
