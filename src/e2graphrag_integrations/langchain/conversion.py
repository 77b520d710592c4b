"""Conversion of LangChain documents: all documents from one source become one engine document.

Each LangChain document becomes a segment of the engine document and keeps its own metadata.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from langchain_core.documents import Document

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.filters import Predicate, compile_where
from e2graphrag_integrations.types import Segment, SourceDocument

TREE_PER_VALUES = ("source", "document", "corpus")
"""The named values of `TreePer`."""

TreePer = Literal["source", "document", "corpus"] | Callable[[Document], str]
"""A named rule for sharing summary trees, or a function that returns a document's source."""

PAGE_ID = "e2_doc_id"
"""Metadata key for the id of a passage's LangChain document."""

SOURCE_ID = "e2_source_id"
"""Metadata key for the source of a passage, which is the id of the engine document."""

_RESERVED_KEY = "document_id"
"""Key under which the engine's filters find the document id."""

_USER_PREFIX = "e2_user_"
"""Prefix for user keys that equal a reserved key or already start with this prefix."""

_PAGE_SEPARATOR = "\n\n"

_ORDER_KEYS = (("page", "page_number"), ("start_index",))
"""Metadata keys that order the pages of a source; each tuple lists alternative keys."""

_STRING_TYPES = (dt.date, dt.time, uuid.UUID, PurePath)
"""Metadata types that are stored as strings."""


class Page(NamedTuple):
    """A LangChain document with an id and JSON metadata: a page, a row or a complete text."""

    id: str
    text: str
    metadata: Mapping[str, Any]


def to_page(document: Any) -> Page:
    """Convert a document to a page; a document without an id gets a random UUID.

    Raises:
        InvalidInputError: If `document` is not a `Document`, or its metadata is not JSON.
    """
    if not isinstance(document, Document):
        raise InvalidInputError(
            f"{short_repr(document)} is not a Document: wrap text as Document(page_content=...)"
        )
    try:
        metadata = json.loads(json.dumps(document.metadata, default=_as_string, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the metadata of document {short_repr(document.page_content)} is not JSON ({error}): "
            "use str, int, float, bool, None, lists and dicts"
        ) from error
    return Page(document.id or str(uuid.uuid4()), document.page_content, metadata)


def to_langchain(page: Page) -> Document:
    """Convert a page to a LangChain document with a copy of the metadata."""
    return Document(id=page.id, page_content=page.text, metadata=deepcopy(dict(page.metadata)))


def source_name(document: Document, page: Page, tree_per: TreePer) -> str:
    """Return the source of a document; documents with the same source share a summary tree.

    Raises:
        InvalidInputError: If the user's function does not return a non-empty string.
    """
    if callable(tree_per):
        source = tree_per(document)
        if not isinstance(source, str) or not source:
            raise InvalidInputError(
                f"tree_per returned {short_repr(source)} for document {page.id!r}: return the "
                "name of its source as a non-empty string"
            )
        return source
    if tree_per == "corpus":
        return "corpus"
    value = page.metadata.get("source") if tree_per == "source" else None
    return page.id if value in (None, "") else str(value)


def sort_pages(pages: Sequence[Page]) -> list[Page]:
    """Sort pages by source, page number and start index; pages without a number come last.

    The sort is stable, and the result does not depend on the batches in which pages arrived.
    """
    sources: dict[str, int] = {}
    for page in pages:
        sources.setdefault(str(page.metadata.get("source")), len(sources))
    return sorted(
        pages,
        key=lambda page: (
            sources[str(page.metadata.get("source"))],
            *(_first_number(page, keys) for keys in _ORDER_KEYS),
        ),
    )


def join_pages(source: str, pages: Sequence[Page]) -> SourceDocument:
    """Join the pages of a source into one engine document, with one segment per page.

    The document has the title that all pages share, if any.

    Raises:
        InvalidInputError: If a page cannot be stored unchanged.
    """
    segments: list[Segment] = []
    start = 0
    for page in pages:
        end = start + len(page.text)
        segments.append(Segment(start, end, _stored_metadata(page)))
        start = end + len(_PAGE_SEPARATOR)
    text = _PAGE_SEPARATOR.join(page.text for page in pages)
    titles = [page.metadata.get("title") for page in pages]
    title = titles[0] if titles and titles.count(titles[0]) == len(titles) else None
    return SourceDocument(source, text, title if isinstance(title, str) else None, {}, segments)


def split_pages(document: SourceDocument) -> list[Page]:
    """Return the pages of a document; a document without page segments becomes one page."""
    segments = [Segment(*segment) for segment in document.segments]
    if not segments or any(PAGE_ID not in segment.metadata for segment in segments):
        return [Page(document.id, document.text, document.metadata)]
    return [
        Page(
            str(segment.metadata[PAGE_ID]),
            document.text[segment.start : segment.end],
            user_metadata(segment.metadata),
        )
        for segment in segments
    ]


def page_ids(document_id: str, segments: Sequence[Segment]) -> list[str]:
    """Return the ids of the pages of a stored document."""
    ids = [segment.metadata.get(PAGE_ID) for segment in segments]
    return [document_id] if not ids or None in ids else [str(id_) for id_ in ids]


def user_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored metadata with the user's original keys."""
    return {
        key.removeprefix(_USER_PREFIX): value for key, value in metadata.items() if key != PAGE_ID
    }


def user_filter(where: Mapping[str, Any] | Callable[[Mapping[str, Any]], bool]) -> Predicate:
    """Convert a filter on the metadata of LangChain documents to a filter on stored metadata.

    Raises:
        FilterError: If the filter is invalid.
    """
    predicate = compile_where(where)
    return lambda record: bool(predicate(_visible_metadata(record)))


def _visible_metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a stored record to the metadata of retrieved documents."""
    source = record[_RESERVED_KEY]
    metadata = user_metadata({key: value for key, value in record.items() if key != _RESERVED_KEY})
    if PAGE_ID not in record:  # indexed without LangChain: `document_id` is not a user key
        metadata = {_RESERVED_KEY: source, "source": source, **metadata}
    return {**metadata, PAGE_ID: record.get(PAGE_ID, source), SOURCE_ID: source}


def _stored_metadata(page: Page) -> dict[str, Any]:
    renamed = {
        _USER_PREFIX + key if _is_reserved(key) else key: value
        for key, value in page.metadata.items()
    }
    return {**renamed, PAGE_ID: page.id}


def _is_reserved(key: object) -> bool:
    return key in (PAGE_ID, _RESERVED_KEY) or (
        isinstance(key, str) and key.startswith(_USER_PREFIX)
    )


def _first_number(page: Page, keys: Sequence[str]) -> float:
    for key in keys:
        value = page.metadata.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return math.inf


def _as_string(value: object) -> str:
    if isinstance(value, _STRING_TYPES):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")
