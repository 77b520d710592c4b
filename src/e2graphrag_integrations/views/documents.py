"""The views of the documents: their states, and parts of their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from e2graphrag_integrations._utils.redaction import redact
from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.reports import DocumentStatus
from e2graphrag_integrations.retrieval.outline import find_document, list_documents
from e2graphrag_integrations.scoped_reader import ScopedReader
from e2graphrag_integrations.snapshot.snapshot import Snapshot

Readable = E2GraphRAG | ScopedReader
"""An index, or a part of one."""

Status = Literal["pending", "processing", "done", "failed"]

MAX_PART = 20_000
"""Maximum number of characters in a part of a text."""


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document and its state; see `DocumentStatus`.

    Attributes:
        title: The title; None if there is none, or the document is not searchable yet.
        reason: Why the document failed.
        chunks: Number of searchable chunks.
        language: Code of the language; None if the document is not searchable yet.
    """

    id: str
    title: str | None
    status: Status
    reason: str | None
    indexed: bool
    chunks: int
    language: str | None
    worker: str | None


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A part of the documents, ordered by id.

    Attributes:
        total: Number of documents that match the search and the status.
        counts: Number of all documents by status.
    """

    total: int
    counts: Mapping[str, int]
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
) -> DocumentPage:
    """Return a part of the documents.

    Args:
        reader: The index, or a scope. A scope contains only documents that are indexed.
        offset: Number of documents to skip.
        limit: Maximum number of documents.
        status: Only documents with this status.
        search: Only documents whose id or title contains this, in upper or lower case.
    """
    if isinstance(reader, E2GraphRAG):
        states: Sequence[DocumentStatus] = reader.status()
    else:
        states = [DocumentStatus(id_, "done") for id_ in reader.document_ids]
    wanted = search.casefold()

    def page(snapshot: Snapshot) -> DocumentPage:
        found = [
            state
            for state in states
            if (status is None or state.status == status)
            and (not wanted or wanted in _searched(snapshot, state.id))
        ]
        counts = dict.fromkeys(("done", "processing", "pending", "failed"), 0)
        counts |= Counter(state.status for state in states)
        views = tuple(_view(snapshot, state) for state in found[offset : offset + limit])
        return DocumentPage(len(found), counts, views)

    return reader.read_snapshot(lambda snapshot, _: page(snapshot))


def _searched(snapshot: Snapshot, document_id: str) -> str:
    row = find_document(snapshot, document_id)
    title = "" if row is None else snapshot.titles[row] or ""
    return f"{document_id}\n{title}".casefold()


def _view(snapshot: Snapshot, state: DocumentStatus) -> DocumentView:
    row = find_document(snapshot, state.id)
    title, chunks, language = None, 0, None
    if row is not None:
        [[info], _] = list_documents(snapshot, row, row + 1)
        title, chunks, language = info.title, info.chunks, snapshot.languages[row]
    reason = None if state.reason is None else redact(state.reason)
    return DocumentView(
        state.id, title, state.status, reason, state.indexed, chunks, language, state.worker
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
