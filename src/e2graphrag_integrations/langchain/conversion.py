"""Conversion of LangChain documents to pages, and of filters on their metadata."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from langchain_core.documents import Document

from e2graphrag_integrations._utils.validation import (
    check_name,
    no_json,
    plain_json,
    short_repr,
)
from e2graphrag_integrations.corpus.page import Page, page_parts, stored_key
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.grouping import START, marked, position_keys
from e2graphrag_integrations.indexing.scope_keys import scoped_tree_name
from e2graphrag_integrations.options import TreePer
from e2graphrag_integrations.pages import DOCUMENT_ID, PAGE_ID, SOURCE_ID, user_metadata
from e2graphrag_integrations.retrieval.filters.tree import (
    MISSING,
    Filter,
    Group,
    KeyCondition,
    Not,
    Part,
)
from e2graphrag_integrations.retrieval.filters.where import NodeMask, Predicate, compile_where
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.store.records import canonical_json

_MISSING = object()

_STRING_TYPES = (dt.date, dt.time, uuid.UUID, PurePath)
"""Metadata types that are stored as strings."""


class LangChainDocuments:
    """LangChain documents as pages; see `DocumentFormat`."""

    source_keys = ("source", "file_path")

    def to_page(self, document: Any) -> Page:
        """Convert a document to a page; a document without an id gets a random UUID.

        Raises:
            InvalidInputError: If `document` is not a `Document`, its id is blank, or its metadata
                is not JSON.
        """
        if not isinstance(document, Document):
            raise InvalidInputError(
                f"{short_repr(document)} is not a Document: wrap text as Document(page_content=...)"
            )
        text = document.page_content
        where = f"document {short_repr(text)}"
        metadata = plain_json(document.metadata, where, _as_string)
        given = document.id
        id_ = str(uuid.uuid4()) if given is None else check_name(f"id of {where}", given)
        return Page(id_, text, metadata)

    def to_document(self, page: Page) -> Document:
        """Convert a page to a LangChain document with a copy of the metadata."""
        return Document(id=page.id, page_content=page.text, metadata=deepcopy(dict(page.metadata)))

    def own_tree(self, page: Page, scope_keys: Sequence[str]) -> str:
        """Return the id of a tree that contains only this page, which names its source."""
        source = str(page.metadata.get("source") or "")
        if source in ("", page.id):
            return page.id
        return marked(scoped_tree_name(source, page.metadata, scope_keys), page.id)

    def problem(
        self, sources: Sequence[tuple[str, Sequence[Page]]], tree_per: TreePer
    ) -> str | None:
        """Return the first problem with chunks or versions."""
        found = (problem_with_chunks(source, pages) for source, pages in sources)
        problem = next((one for one in found if one is not None), None)
        if problem is None and tree_per == "source":
            problem = problem_with_versions([pages[0] for _, pages in sources if pages])
        return problem


def problem_with_chunks(source: str, pages: Sequence[Page]) -> str | None:
    """Return what is wrong with the chunks among the sorted pages of a source, if anything."""
    parts = list(page_parts(pages))
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
            "own: set metadata['source'] before splitting, or pass "
            "settings=IndexSettings(tree_per=...)"
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


def user_filter(
    where: Mapping[str, Any] | Callable[[Mapping[str, Any]], bool] | NodeMask,
) -> Predicate | NodeMask:
    """Convert a filter on the metadata of LangChain documents to a filter on stored metadata.

    The result of `tagged` is returned unchanged.

    Raises:
        InvalidInputError: If the filter is invalid.
    """
    return where if isinstance(where, NodeMask) else _UserFilter(compile_where(where, "filter"))


@dataclass(frozen=True, slots=True)
class _UserFilter:
    """Tests stored records with a filter on the metadata of retrieved documents."""

    predicate: Predicate

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return self.predicate(_visible_metadata(record))

    def for_records(self, records: MetadataRecords) -> Predicate:
        """Return a filter that need not convert each record, unless it is a function."""
        if not isinstance(self.predicate, Filter):
            return self.__call__
        ids, row_of_record = records.column(PAGE_ID, _MISSING)
        has_no_id = np.asarray([id_ is _MISSING for id_ in ids], dtype=np.bool_)[row_of_record]
        used = np.unique(records.indices)
        foreign = {records.values[row][DOCUMENT_ID] for row in used[has_no_id[used]].tolist()}
        return self.predicate.with_conditions(lambda one: _on_stored(one, foreign))


def _on_stored(condition: KeyCondition, foreign: Collection[str]) -> Part:
    """Return a condition on stored records for one on the metadata of retrieved documents.

    Args:
        condition: The condition.
        foreign: Ids of the documents that were indexed without LangChain.
    """
    key, of_document = condition.key, replace(condition, key=DOCUMENT_ID)
    if key == SOURCE_ID:
        return of_document
    own = replace(condition, key=key if key == PAGE_ID else stored_key(key))
    if not foreign or key not in (PAGE_ID, DOCUMENT_ID, "source"):
        return own
    # Foreign documents show their id under these keys, unless they have a value of their own.
    has_own = KeyCondition(own.key, [lambda value: value is not MISSING])
    is_foreign = KeyCondition(DOCUMENT_ID, [foreign.__contains__])
    shows_id = Group((is_foreign, Not(has_own)), needs_all=True)
    return Group(
        (
            Group((shows_id, of_document), needs_all=True),
            Group((Not(shows_id), own), needs_all=True),
        ),
        needs_all=False,
    )


def _visible_metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a stored record to the metadata of retrieved documents."""
    source = record[DOCUMENT_ID]
    metadata = user_metadata({key: value for key, value in record.items() if key != DOCUMENT_ID})
    if PAGE_ID not in record:  # indexed without LangChain: `document_id` is not a user key
        metadata = {DOCUMENT_ID: source, "source": source, **metadata}
    return {**metadata, PAGE_ID: record.get(PAGE_ID, source), SOURCE_ID: source}


def _as_string(value: object) -> Any:
    return str(value) if isinstance(value, _STRING_TYPES) else no_json(value)
