"""Pages: documents of a framework as parts of one text, which the engine indexes.

Each page becomes a segment of the engine's document and keeps its own metadata.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, starmap
from types import MappingProxyType
from typing import Any, NamedTuple

from e2graphrag_integrations.indexing.grouping import (
    START,
    chunk_number,
    page_number,
    row_number,
)
from e2graphrag_integrations.languages.language import metadata_language
from e2graphrag_integrations.pages import (
    CHUNK,
    DOCUMENT_ID,
    NODE_FIELDS,
    PAGE_ID,
    PAGE_KEYS,
    USER_PREFIX,
    user_metadata,
)
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.text.joined_chunks import JoinedChunks, join_chunks, overlap
from e2graphrag_integrations.types import Segment, SourceDocument

PAGE_SEPARATOR = "\n\n"
"""What separates the pages in the text of a source."""

_SOURCES = ("file_path", "source")
"""Metadata keys that name the file of a page."""

_LABEL = "page_label"
"""Metadata key of a printed page label, which need not be a number and can occur twice."""

RESERVED_KEYS = (PAGE_ID, CHUNK, NODE_FIELDS, DOCUMENT_ID)
"""Keys in the metadata of a segment that are not keys of the user."""

_MAX_SPACES = 1_000_000
"""Maximum number of spaces before the texts of one page; if more, offsets are ignored."""

_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


class Page(NamedTuple):
    """A document of a framework with an id and JSON metadata: a page, a chunk or a complete text.

    Attributes:
        id: Id of the document.
        text: Its text.
        metadata: Its metadata as JSON values.
        fields: What else the framework needs to give the document back, as JSON values: `chunk` if
            the text must not be split, its offset `start` in the text of its source, the id
            `source` of the document that it is a part of, its `parts` if it lies on several pages,
            and the metadata keys `excluded_embed` that are not embedded.
    """

    id: str
    text: str
    metadata: Mapping[str, Any]
    fields: Mapping[str, Any] = _NO_FIELDS

    @property
    def start(self) -> int | None:
        """The offset of a chunk in its page or text, if known."""
        start = self.fields.get("start", self.metadata.get(START))
        return start if isinstance(start, int) and not isinstance(start, bool) else None

    @property
    def is_chunk(self) -> bool:
        """Whether the framework says that the text must not be split."""
        return bool(self.fields.get("chunk"))

    @property
    def source(self) -> str:
        """The id of the document that the page is, or is a part of."""
        return str(self.fields.get("source", self.id))

    @property
    def title(self) -> str | None:
        """The title to embed with each chunk."""
        title = self.metadata.get("title")
        is_hidden = "title" in self.fields.get("excluded_embed", ())
        return title if isinstance(title, str) and not is_hidden else None

    @property
    def parent_metadata(self) -> dict[str, Any]:
        """The metadata of the page or text that a chunk comes from."""
        return {key: value for key, value in self.metadata.items() if key != START}

    @property
    def parent(self) -> str:
        """A key that all chunks of a page or text share."""
        return canonical_json([self.fields.get("source"), self.parent_metadata])

    def to_json(self) -> list[Any]:
        """Return the page as JSON values, from which `Page(*values)` restores it."""
        fields = [dict(self.fields)] if self.fields else []
        return [self.id, self.text, dict(self.metadata), *fields]


def sort_pages(pages: Sequence[Page]) -> list[Page]:
    """Sort pages by file, page and row, and chunks by page, start index and number.

    Pages without a number come last. Labels do not count in a file in which some label is not a
    number or occurs twice: they can be Roman numerals, or start again in an appendix. Chunks of one
    page can have different metadata, such as a
    number of the chunk; their start indexes show whether they come from one text. The sort is
    stable. The result does not depend on the batches in which pages arrived, unless a later batch
    shows that chunks with different metadata do not come from one text.
    """
    files: dict[str, int] = {}
    parents: dict[str, int] = {}
    for page in pages:
        files.setdefault(_file(page), len(files))
        if page.start is not None:
            parents.setdefault(page.parent, len(parents))
    unordered = _files_with_unordered_labels(pages)

    def key(page: Page) -> tuple[float, ...]:
        parent = start = math.inf
        if parents:  # keep the chunks of one text together
            parent = parents.get(page.parent, math.inf)
            start = math.inf if page.start is None else page.start
        file, number = _file(page), page_number(page.metadata)
        place = (math.inf if file in unordered else number, row_number(page.metadata))
        return files[file], *place, parent, start, chunk_number(page.metadata)

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
class PagePart:
    """Adjacent pages of a source whose texts belong together: one page, or the chunks of a text."""

    pages: Sequence[Page]
    joined: JoinedChunks
    is_chunked: bool


def page_parts(pages: Sequence[Page]) -> Iterator[PagePart]:
    """Yield the parts of the sorted pages of a source."""
    for _, group in groupby(pages, key=_location):
        members = list(group)
        joined = _join_exactly(members)
        if joined is None:
            yield from _parts_by_metadata(members)
        else:
            yield PagePart(members, joined, is_chunked=True)


def _location(page: Page) -> tuple[str, float, float, str]:
    if "parts" in page.fields:  # its offset refers to the text of all pages of the file
        return _file(page), math.inf, math.inf, ""
    own = str(page.fields.get("source", ""))
    return _file(page), page_number(page.metadata), row_number(page.metadata), own


def _file(page: Page) -> str:
    return str(next((page.metadata[key] for key in _SOURCES if page.metadata.get(key)), None))


def _files_with_unordered_labels(pages: Sequence[Page]) -> set[str]:
    """Return the files whose pages have only labels, of which some are not unique numbers."""
    labels = {
        (_file(page), page_number(page.metadata), own)
        for page in pages
        if _is_labelled(page)
        for own in (page.source if page.start is None else page.parent,)
    }
    counts = Counter((file, label) for file, label, _ in labels)
    return {file for (file, label), count in counts.items() if count > 1 or label == math.inf}


def _is_labelled(page: Page) -> bool:
    return _LABEL in page.metadata and not any(
        key in page.metadata for key in PAGE_KEYS if key != _LABEL
    )


def _join_exactly(pages: Sequence[Page]) -> JoinedChunks | None:
    """Join chunks by their start indexes, or return None if these do not describe one text."""
    starts = [page.start for page in pages]
    if None in starts:
        return None
    joined = join_chunks([page.text for page in pages], starts)
    return joined if joined.is_exact else None


def _parts_by_metadata(pages: Sequence[Page]) -> Iterator[PagePart]:
    groups = [list(group) for _, group in groupby(pages, key=lambda page: page.parent)]
    spaces = sum(members[0].start or 0 for members in groups)
    for members in groups:
        texts, starts = [page.text for page in members], [page.start for page in members]
        if any(start is not None for start in starts) or any(starmap(overlap, pairwise(texts))):
            usable: Sequence[int | None] = starts if spaces <= _MAX_SPACES else [None] * len(starts)
            yield PagePart(members, join_chunks(texts, usable), is_chunked=True)
        else:
            for page in members:
                yield PagePart([page], join_chunks([page.text], [0]), is_chunked=page.is_chunk)


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
    for part in page_parts(pages):
        for page, span in zip(part.pages, part.joined.spans, strict=True):
            metadata = _stored_metadata(page) | ({CHUNK: True} if part.is_chunked else {})
            segments.append(Segment(offset + span.start, offset + span.end, metadata))
        texts.append(part.joined.text)
        offset += len(part.joined.text) + len(PAGE_SEPARATOR)
    text = PAGE_SEPARATOR.join(texts)
    titles = {page.title for page in pages}
    return SourceDocument(
        source,
        text,
        titles.pop() if len(titles) == 1 else None,
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
            segment.metadata.get(NODE_FIELDS, _NO_FIELDS),
        )
        for segment in segments
    ]


def page_ids(document_id: str, segments: Sequence[Segment]) -> list[str]:
    """Return the ids of the pages of a stored document."""
    ids = [segment.metadata.get(PAGE_ID) for segment in segments]
    return [document_id] if not ids or None in ids else [str(id_) for id_ in ids]


def page_owners(segments: Sequence[Segment]) -> dict[str, tuple[str, ...]]:
    """Return, for each page that is a part of documents, the ids of those documents."""
    return {
        str(one.metadata[PAGE_ID]): owners_of(one.metadata[NODE_FIELDS])
        for one in segments
        if "source" in one.metadata.get(NODE_FIELDS, ())
    }


def owners_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the documents that a page with these fields is a part of."""
    return (str(fields["source"]), *(str(part[0]) for part in fields.get("parts", ())))


def document_ids(owners: Sequence[str]) -> Sequence[str]:
    """Return the owners of a page without its SOURCE, which is a tree if it has several parts."""
    return owners[1:] or owners


def stored_key(key: str) -> str:
    """Return the stored key of a key in the metadata of a page."""
    return USER_PREFIX + key if _is_reserved(key) else key


def _stored_metadata(page: Page) -> dict[str, Any]:
    renamed = {stored_key(key): value for key, value in page.metadata.items()}
    fields = {NODE_FIELDS: dict(page.fields)} if page.fields else {}
    return {**renamed, PAGE_ID: page.id, **fields}


def _is_reserved(key: str) -> bool:
    return key in RESERVED_KEYS or key.startswith(USER_PREFIX)
