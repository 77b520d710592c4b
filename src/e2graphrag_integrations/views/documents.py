"""The views of the documents: their states, and parts of their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations._utils.natural_order import natural_key
from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.scoped_reader import ScopedReader
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.reports import DocumentStatus
from e2graphrag_integrations.retrieval.outline import list_documents
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.views.metadata import is_iso_date

Readable = E2GraphRAG | ScopedReader
"""An index, or a part of one."""

_Found = tuple[DocumentStatus, int | None]
"""The state of a document, and its row in the snapshot; None if it cannot be searched yet."""

Status = Literal["pending", "processing", "done", "failed"]

Order = Literal[
    "title",
    "-title",
    "status",
    "-status",
    "chunks",
    "-chunks",
    "characters",
    "-characters",
    "date",
    "-date",
]
"""What documents are sorted by; a minus means descending."""

_STATES = ("failed", "pending", "processing", "done")
"""The states in ascending order: what needs attention first."""

_DATE_KEYS = ("date", "last_modified_date", "creation_date")
"""Keys of the metadata that have the date of a document, the best first: the key that boosts look
at, and those of the readers of LlamaIndex. The store has no date of its own."""

MAX_PART = 20_000
"""Maximum number of characters in a part of a text."""


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document and its state; see `DocumentStatus`.

    Attributes:
        title: The title; None if there is none, or the document is not searchable yet.
        reason: Why the document failed.
        chunks: Number of searchable chunks.
        characters: Number of searchable characters, without white space at the end of the text.
        language: Code of the language; None if the document is not searchable yet.
        date: Its date in the metadata, as in the index; None if there is none.
    """

    id: str
    title: str | None
    status: Status
    reason: str | None
    indexed: bool
    chunks: int
    characters: int
    language: str | None
    date: str | None
    worker: str | None


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A part of the sorted documents.

    Attributes:
        total: Number of documents that match the search and the status.
        counts: Number of all documents by status.
        has_dates: Whether a document has a date.
    """

    total: int
    counts: Mapping[str, int]
    has_dates: bool
    items: tuple[DocumentView, ...]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a document's text; `length` is the number of characters of the whole text."""

    id: str
    title: str | None
    metadata: Mapping[str, Any]
    language: str
    length: int
    start: int
    end: int
    text: str


def document_page(
    reader: Readable,
    *,
    offset: int = 0,
    limit: int = 50,
    status: Status | None = None,
    search: str = "",
    order: Order = "title",
) -> DocumentPage:
    """Return a part of the documents.

    Args:
        reader: The index, or a scope. A scope contains only documents that are indexed.
        offset: Number of documents to skip.
        limit: Maximum number of documents.
        status: Only documents with this status.
        search: Only documents whose id or title contains this, in upper or lower case.
        order: What to sort by. Documents that are equal in it are in the natural order of their
            titles, or of their ids if they have none: page 2 comes before page 10.
    """
    if isinstance(reader, E2GraphRAG):
        states: Sequence[DocumentStatus] = reader.status()
    else:
        states = [DocumentStatus(id_, "done") for id_ in reader.document_ids]
    wanted = search.casefold()

    def page(snapshot: Snapshot) -> DocumentPage:
        rows = {id_: row for row, id_ in enumerate(snapshot.documents)}
        dates = _dates(snapshot)
        found: Sequence[_Found] = [
            (state, rows.get(state.id))
            for state in states
            if (status is None or state.status == status)
            and (not wanted or wanted in _searched(snapshot, state.id, rows.get(state.id)))
        ]
        found = _sorted(snapshot, found, order, dates)
        counts = dict.fromkeys(("done", "processing", "pending", "failed"), 0)
        counts |= Counter(state.status for state in states)
        views = tuple(_view(snapshot, dates, *one) for one in found[offset : offset + limit])
        return DocumentPage(len(found), counts, bool(dates), views)

    return reader.read_snapshot(lambda snapshot, _: page(snapshot))


def _searched(snapshot: Snapshot, document_id: str, row: int | None) -> str:
    title = "" if row is None else snapshot.titles[row] or ""
    return f"{document_id}\n{title}".casefold()


def _sorted(
    snapshot: Snapshot, found: Sequence[_Found], order: Order, dates: Mapping[str, str]
) -> list[_Found]:
    def title(one: _Found) -> tuple[Any, ...]:
        state, row = one
        return natural_key((None if row is None else snapshot.titles[row]) or state.id)

    key, is_descending = order.removeprefix("-"), order.startswith("-")
    by_title = sorted(found, key=title, reverse=is_descending and key == "title")
    if key == "title":
        return by_title
    if key == "status":
        return sorted(by_title, key=lambda one: _STATES.index(one[0].status), reverse=is_descending)
    if key == "date":  # documents without a date are the last in both orders
        dated = [one for one in by_title if one[0].id in dates]
        dated.sort(key=lambda one: dates[one[0].id], reverse=is_descending)
        return dated + [one for one in by_title if one[0].id not in dates]
    counts, ends = _sizes(snapshot)
    sizes = counts if key == "chunks" else ends
    return sorted(
        by_title, key=lambda one: 0 if one[1] is None else sizes[one[1]], reverse=is_descending
    )


def _sizes(snapshot: Snapshot) -> tuple[list[int], list[int]]:
    """Return the number of chunks, and of characters, of every document of a snapshot."""
    bounds = np.searchsorted(snapshot.chunk_documents, np.arange(len(snapshot.documents) + 1))
    counts = np.diff(bounds)
    ends = np.zeros(len(counts), dtype=np.int64)
    filled = np.flatnonzero(counts)
    ends[filled] = snapshot.nodes.end[np.asarray(snapshot.chunk_nodes)[bounds[filled + 1] - 1]]
    return counts.tolist(), ends.tolist()


def _dates(snapshot: Snapshot) -> dict[str, str]:
    """Return the date of each document that has one, by id."""
    records, dates = snapshot.records, dict[str, str]()
    for key in reversed(_DATE_KEYS):
        values, of_record = records.column(key, None)
        if len(values) == 1 and values[0] is None:
            continue
        for record, place in zip(records.values, of_record.tolist(), strict=True):
            if isinstance(value := values[place], str) and is_iso_date(value):
                dates[record[records.id_key]] = value
    return dates


def _view(
    snapshot: Snapshot, dates: Mapping[str, str], state: DocumentStatus, row: int | None
) -> DocumentView:
    title, chunks, characters, language = None, 0, 0, None
    if row is not None:
        [[info], _] = list_documents(snapshot, row, row + 1)
        title, chunks, characters = info.title, info.chunks, info.end
        language = snapshot.languages[row]
    reason = None if state.reason is None else redact(state.reason)
    return DocumentView(
        state.id,
        title,
        state.status,
        reason,
        state.indexed,
        chunks,
        characters,
        language,
        dates.get(state.id),
        state.worker,
    )


def text_part(
    reader: Readable, document_id: str, start: int = 0, end: int | None = None
) -> TextPart:
    """Return a part of a document's text, at most 20,000 characters.

    Args:
        reader: The index, or a scope.
        document_id: Id of the document.
        start: First character.
        end: End of the part; None means as much as possible.

    Raises:
        InvalidInputError: If the range is not in the text.
        UnknownDocumentError: If the document is not in the index.
    """
    document = reader.document(document_id)
    size = len(document.text)
    start = check_int("start", start, 0, size)
    end = size if end is None else check_int("end", end, start, size)
    end = min(end, start + MAX_PART)
    return TextPart(
        document.id,
        document.title,
        document.metadata,
        document.language or ENGLISH,
        size,
        start,
        end,
        document.text[start:end],
    )
