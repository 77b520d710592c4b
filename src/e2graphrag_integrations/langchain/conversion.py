"""Conversion of LangChain documents: all documents from one source become one engine document.

Each LangChain document becomes a segment of the engine document and keeps its own metadata.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby, pairwise, starmap
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

import numpy as np
from langchain_core.documents import Document

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.grouping import (
    START,
    Tree,
    chunk_number,
    marked,
    page_number,
    position_keys,
    row_number,
    tree_of,
)
from e2graphrag_integrations.indexing.scope_keys import scoped_tree_name
from e2graphrag_integrations.languages.language import metadata_language
from e2graphrag_integrations.pages import CHUNK, PAGE_ID, USER_PREFIX, user_metadata
from e2graphrag_integrations.retrieval.filter_tree import Filter
from e2graphrag_integrations.retrieval.filters import NodeMask, Predicate, compile_where
from e2graphrag_integrations.snapshot.snapshot import MetadataRecords
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.text.joining import JoinedChunks, join_chunks, overlap
from e2graphrag_integrations.types import Segment, SourceDocument

TREE_PER_VALUES = ("source", "document", "corpus")
"""The named values of `TreePer`."""

TreePer = Literal["source", "document", "corpus"] | Callable[[Document], str]
"""A named rule for sharing summary trees, or a function that returns a document's source."""

SOURCE_ID = "e2_source_id"
"""Metadata key for the source of a passage, which is the id of the engine document."""

_RESERVED_KEY = "document_id"
"""Key under which the engine's filters find the document id."""

_MISSING = object()

_PAGE_SEPARATOR = "\n\n"

_SOURCE_KEYS = ("source", "file_path")
"""Metadata keys that name the source of a document, in order of preference."""

_MAX_SPACES = 1_000_000
"""Maximum number of spaces before the texts of one page; if more, offsets are ignored."""

_STRING_TYPES = (dt.date, dt.time, uuid.UUID, PurePath)
"""Metadata types that are stored as strings."""


class Page(NamedTuple):
    """A LangChain document with an id and JSON metadata: a page, a chunk or a complete text."""

    id: str
    text: str
    metadata: Mapping[str, Any]

    @property
    def start(self) -> int | None:
        """The offset of a chunk in its page or text, if known."""
        start = self.metadata.get(START)
        return start if isinstance(start, int) and not isinstance(start, bool) else None

    @property
    def parent_metadata(self) -> dict[str, Any]:
        """The metadata of the page or text that a chunk comes from."""
        return {key: value for key, value in self.metadata.items() if key != START}


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


def page_tree(
    document: Document, page: Page, tree_per: TreePer, scope_keys: Sequence[str] = ()
) -> Tree:
    """Return the summary tree of a document, which is named by its source.

    Args:
        document: The document.
        page: The same as a page.
        tree_per: Decides which documents share a tree.
        scope_keys: Metadata keys on which all documents of a tree agree.

    Raises:
        InvalidInputError: If the user's function does not return a non-empty string.
    """

    def name(source: str) -> str:
        return scoped_tree_name(source, page.metadata, scope_keys)

    if callable(tree_per):
        source = tree_per(document)
        if not isinstance(source, str) or not source:
            raise InvalidInputError(
                f"tree_per returned {short_repr(source)} for document {page.id!r}: return the "
                "name of its source as a non-empty string"
            )
        return Tree(name(source))
    if tree_per == "corpus":
        return Tree(name("corpus"))
    if tree_per == "document":
        return Tree(page.id)
    tree = tree_of(page.id, page.metadata, _SOURCE_KEYS, scope_keys)
    source = str(page.metadata.get("source") or "")
    if tree.reasons or source in ("", page.id):
        return tree
    return Tree(marked(name(source), page.id))


def sort_pages(pages: Sequence[Page]) -> list[Page]:
    """Sort pages by source, page and row, and chunks by page, start index and number.

    Pages without a number come last. Chunks of one page can have different metadata, such as a
    number of the chunk; their start indexes show whether they come from one text. The sort is
    stable. The result does not depend on the batches in which pages arrived, unless a later batch
    shows that chunks with different metadata do not come from one text.
    """
    sources: dict[str, int] = {}
    parents: dict[str, int] = {}
    for page in pages:
        sources.setdefault(str(page.metadata.get("source")), len(sources))
        if page.start is not None:
            parents.setdefault(canonical_json(page.parent_metadata), len(parents))

    def key(page: Page) -> tuple[float, ...]:
        parent = start = math.inf
        if parents:  # keep the chunks of one text together
            parent = parents.get(canonical_json(page.parent_metadata), math.inf)
            start = math.inf if page.start is None else page.start
        source, *place = _location(page)
        return sources[source], *place, parent, start, chunk_number(page.metadata)

    ordered = sorted(pages, key=key)
    if len(parents) <= 1:
        return ordered
    result: list[Page] = []
    for _, group in groupby(ordered, key=_location):
        members = list(group)
        chunks = [page for page in members if page.start is not None]
        by_start = sorted(chunks, key=lambda page: page.start or 0)
        others = [page for page in members if page.start is None]
        result += members if _join_exactly(by_start) is None else [*by_start, *others]
    return result


@dataclass(frozen=True, slots=True)
class _Part:
    """Adjacent pages of a source whose texts belong together: one page, or the chunks of a text."""

    pages: Sequence[Page]
    joined: JoinedChunks
    is_chunked: bool


def _parts(pages: Sequence[Page]) -> Iterator[_Part]:
    for _, group in groupby(pages, key=_location):
        members = list(group)
        joined = _join_exactly(members)
        if joined is None:
            yield from _parts_by_metadata(members)
        else:
            yield _Part(members, joined, is_chunked=True)


def _location(page: Page) -> tuple[str, float, float]:
    metadata = page.metadata
    return str(metadata.get("source")), page_number(metadata), row_number(metadata)


def _join_exactly(pages: Sequence[Page]) -> JoinedChunks | None:
    """Join chunks by their start indexes, or return None if these do not describe one text."""
    starts = [page.start for page in pages]
    if None in starts:
        return None
    joined = join_chunks([page.text for page in pages], starts)
    return joined if joined.is_exact else None


def _parts_by_metadata(pages: Sequence[Page]) -> Iterator[_Part]:
    groups = [list(group) for _, group in groupby(pages, key=lambda page: page.parent_metadata)]
    spaces = sum(members[0].start or 0 for members in groups)
    for members in groups:
        texts, starts = [page.text for page in members], [page.start for page in members]
        if any(start is not None for start in starts) or any(starmap(overlap, pairwise(texts))):
            usable: Sequence[int | None] = starts if spaces <= _MAX_SPACES else [None] * len(starts)
            yield _Part(members, join_chunks(texts, usable), is_chunked=True)
        else:
            for page in members:
                yield _Part([page], join_chunks([page.text], [0]), is_chunked=False)


def problem_with_chunks(source: str, pages: Sequence[Page]) -> str | None:
    """Return what is wrong with the chunks among the sorted pages of a source, if anything."""
    parts = list(_parts(pages))
    inexact = [page for part in parts if not part.joined.is_exact for page in part.pages]
    if inexact:
        hint = (
            f"their {START!r} contradicts their texts, perhaps because the splitter found a very "
            "short chunk too early; split into longer chunks"
            if all(page.start is not None for page in inexact)
            else "use add_start_index=True in the text splitter"
        )
        return (
            f"{len(inexact)} documents of {source!r} are chunks without usable offsets, so their "
            f"spans refer to the joined chunks, not to the source: {hint}, or pass unsplit "
            "documents"
        )
    equal = Counter(
        canonical_json(part.pages[0].metadata)
        for part in parts
        if not part.is_chunked and "source" in part.pages[0].metadata
    )
    if any(count > 1 for count in equal.values()):
        return (
            f"several documents of {source!r} have the same metadata. They are joined and split "
            "again: if they are chunks, use add_start_index=True in the text splitter, and if they "
            "are pages, add a 'page' to the metadata"
        )
    if len(pages) == 1 and pages[0].start is not None and pages[0].id == source:
        return (
            f"document {source!r} is a chunk without a 'source', so it has a summary tree of its "
            "own: set metadata['source'] before splitting, or pass tree_per="
        )
    return None


def problem_with_versions(pages: Sequence[Page]) -> str | None:
    """Return that documents with trees of their own may be chunks or pages, if they look so.

    Args:
        pages: The first page of each tree.
    """
    records = [
        p.metadata for p in pages if p.metadata.get("source") and not position_keys(p.metadata)
    ]
    counts = Counter(map(canonical_json, records))
    repeated = next((one for one in records if counts[canonical_json(one)] > 1), None)
    if repeated is None:
        return None
    return (
        f"{counts[canonical_json(repeated)]} documents have the source {repeated['source']!r} and "
        "equal metadata without a position, so each is a document of its own: if they are chunks, "
        f"use add_start_index=True in the text splitter, and if they are pages, add a 'page'"
    )


def is_chunk(metadata: Mapping[str, Any]) -> bool:
    """Return whether a segment with this stored metadata is a chunk that must not be split."""
    return metadata.get(CHUNK) is True


def join_pages(source: str, pages: Sequence[Page]) -> SourceDocument:
    """Join the sorted pages of a source into one engine document, with one segment per page.

    Chunks of one text overlap in the document as they do in that text. The document has the title
    that all pages share, if any.

    Raises:
        InvalidInputError: If a page cannot be stored unchanged.
    """
    segments: list[Segment] = []
    texts: list[str] = []
    offset = 0
    for part in _parts(pages):
        for page, span in zip(part.pages, part.joined.spans, strict=True):
            metadata = _stored_metadata(page) | ({CHUNK: True} if part.is_chunked else {})
            segments.append(Segment(offset + span.start, offset + span.end, metadata))
        texts.append(part.joined.text)
        offset += len(part.joined.text) + len(_PAGE_SEPARATOR)
    text = _PAGE_SEPARATOR.join(texts)
    titles = [page.metadata.get("title") for page in pages]
    title = titles[0] if titles and titles.count(titles[0]) == len(titles) else None
    return SourceDocument(
        source,
        text,
        title if isinstance(title, str) else None,
        {},
        segments,
        metadata_language([page.metadata for page in pages]),
    )


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


def user_filter(
    where: Mapping[str, Any] | Callable[[Mapping[str, Any]], bool] | NodeMask,
) -> Predicate | NodeMask:
    """Convert a filter on the metadata of LangChain documents to a filter on stored metadata.

    The result of `tagged` is returned unchanged.

    Raises:
        FilterError: If the filter is invalid.
    """
    return where if isinstance(where, NodeMask) else _UserFilter(compile_where(where))


@dataclass(frozen=True, slots=True)
class _UserFilter:
    """Tests stored records with a filter on the metadata of retrieved documents."""

    predicate: Predicate

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return bool(self.predicate(_visible_metadata(record)))

    def for_records(self, records: MetadataRecords) -> Predicate:
        """Return a filter that need not convert each record, if all come from LangChain."""
        ids, row_of_record = records.column(PAGE_ID, _MISSING)
        has_no_id = np.asarray([id_ is _MISSING for id_ in ids], dtype=np.bool_)[row_of_record]
        if isinstance(self.predicate, Filter) and not has_no_id[records.indices].any():
            return self.predicate.rename_keys(_stored_key)
        return self.__call__


def _stored_key(key: str) -> str:
    """Return the stored key of a key in the metadata of retrieved documents."""
    if key == SOURCE_ID:
        return _RESERVED_KEY
    return USER_PREFIX + key if key != PAGE_ID and _is_reserved(key) else key


def _visible_metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a stored record to the metadata of retrieved documents."""
    source = record[_RESERVED_KEY]
    metadata = user_metadata({key: value for key, value in record.items() if key != _RESERVED_KEY})
    if PAGE_ID not in record:  # indexed without LangChain: `document_id` is not a user key
        metadata = {_RESERVED_KEY: source, "source": source, **metadata}
    return {**metadata, PAGE_ID: record.get(PAGE_ID, source), SOURCE_ID: source}


def _stored_metadata(page: Page) -> dict[str, Any]:
    renamed = {
        USER_PREFIX + key if _is_reserved(key) else key: value
        for key, value in page.metadata.items()
    }
    return {**renamed, PAGE_ID: page.id}


def _is_reserved(key: object) -> bool:
    return key in (PAGE_ID, CHUNK, _RESERVED_KEY) or (
        isinstance(key, str) and key.startswith(USER_PREFIX)
    )


def _as_string(value: object) -> str:
    if isinstance(value, _STRING_TYPES):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")
