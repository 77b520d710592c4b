"""LangChain documents as the core's: those of one source together, each a segment of its text."""

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

TreeScope = Literal["source", "document", "corpus"]
Scope = TreeScope | Callable[[Document], str]

PAGE_ID = "e2_doc_id"
"""Metadata key of the id of the document that a passage comes from."""

SOURCE_ID = "e2_source_id"
"""Metadata key of the source, or of the core's document, that a passage comes from."""

_RESERVED = "document_id"
_USER = "e2_user_"
"""Put before a user's key that is one of ours; what begins like that gets it once more."""

_BETWEEN = "\n\n"
_ORDER = (("page", "page_number"), ("start_index",))
_AS_TEXT = (dt.date, dt.time, uuid.UUID, PurePath)


class Page(NamedTuple):
    """A LangChain document as it was given: a page, a row, or a whole text."""

    id: str
    text: str
    metadata: Mapping[str, Any]


def page_of(document: Any) -> Page:
    """Return a document as a page; one without an id gets a random one.

    Raises:
        InvalidInputError: If it is no document, or its metadata are no plain JSON.
    """
    if not isinstance(document, Document):
        raise InvalidInputError(
            f"{short_repr(document)} is no Document: wrap text as Document(page_content=...)"
        )
    try:
        plain = json.loads(json.dumps(document.metadata, default=_as_text, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"metadata of the document {short_repr(document.page_content)} is no plain JSON ({error}): "
            "use str, int, float, bool, None, lists and dicts"
        ) from error
    return Page(document.id or str(uuid.uuid4()), document.page_content, plain)


def document_of(page: Page) -> Document:
    """Undo `page_of`; what is done to the document is not done to the page."""
    return Document(id=page.id, page_content=page.text, metadata=deepcopy(dict(page.metadata)))


def source_of(document: Document, page: Page, scope: Scope) -> str:
    """Return the source that a document belongs to: what has one source has one tree.

    Raises:
        InvalidInputError: If the user's function returns no text.
    """
    if callable(scope):
        source = scope(document)
        if not isinstance(source, str) or not source:
            raise InvalidInputError(
                f"tree_scope returned {short_repr(source)} for document {page.id!r}: return the name of "
                "its source"
            )
        return source
    if scope == "corpus":
        return "corpus"
    named = page.metadata.get("source") if scope == "source" else None
    return page.id if named in (None, "") else str(named)


def in_order(pages: Sequence[Page]) -> list[Page]:
    """Return pages by source, page number and start, what lacks a number last.

    The same, in whatever batches they came: where these are equal, the order is as it was.
    """
    sources: dict[str, int] = {}
    for page in pages:
        sources.setdefault(str(page.metadata.get("source")), len(sources))
    return sorted(
        pages,
        key=lambda page: (
            sources[str(page.metadata.get("source"))],
            *(_number(page, names) for names in _ORDER),
        ),
    )


def to_source(source: str, pages: Sequence[Page]) -> SourceDocument:
    """Return the pages of a source as one document of the core, each a segment of it.

    Raises:
        InvalidInputError: If a page cannot be stored as it is.
    """
    parts: list[str] = []
    segments: list[Segment] = []
    at = 0
    for page in pages:
        if parts:
            parts.append(_BETWEEN)
            at += len(_BETWEEN)
        parts.append(page.text)
        segments.append(Segment(at, at + len(page.text), _stored(page)))
        at += len(page.text)
    titles = [page.metadata.get("title") for page in pages]
    title = titles[0] if titles and titles.count(titles[0]) == len(titles) else None
    return SourceDocument(
        source, "".join(parts), title if isinstance(title, str) else None, {}, segments
    )


def from_source(document: SourceDocument) -> list[Page]:
    """Undo `to_source`; a document that was not made by it is one page."""
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
    """Return metadata as the user gave them."""
    return {key.removeprefix(_USER): value for key, value in metadata.items() if key != PAGE_ID}


def user_filter(where: Mapping[str, Any] | Callable[[Mapping[str, Any]], bool]) -> Predicate:
    """Return a filter on metadata as documents show them as one on the stored ones.

    Raises:
        FilterError: If it is not understood.
    """
    predicate = compile_where(where)
    return lambda record: bool(predicate(_shown(record)))


def _shown(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored record as the metadata of the documents found under it."""
    source = record[_RESERVED]
    own = user_metadata({key: value for key, value in record.items() if key != _RESERVED})
    # A file of the core has no key of that name but the document's id.
    named = own if PAGE_ID in record else {_RESERVED: source, "source": source, **own}
    return {**named, PAGE_ID: record.get(PAGE_ID, source), SOURCE_ID: source}


def _stored(page: Page) -> dict[str, Any]:
    renamed = {
        _USER + key if key == PAGE_ID or _is_ours(key) else key: value
        for key, value in page.metadata.items()
    }
    return {**renamed, PAGE_ID: page.id}


def _is_ours(key: object) -> bool:
    return key == _RESERVED or (isinstance(key, str) and key.startswith(_USER))


def _number(page: Page, names: Sequence[str]) -> float:
    for name in names:
        value = page.metadata.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return math.inf


def _as_text(value: object) -> str:
    if isinstance(value, _AS_TEXT):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON type")
