"""Page numbers in metadata: their keys, and how nodes that touch several pages show them.

A page is a segment whose metadata has one of the page keys. A node can touch several pages, so page
keys follow rules of their own: a filter on a page key matches any page that the node touches, and a
result lists all of its pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

PAGE_KEYS: Mapping[str, str] = MappingProxyType(
    {"page": "pages", "page_number": "page_numbers", "page_label": "page_labels"}
)
"""The metadata keys that name a page, and for each the key that lists the pages of a node."""


PAGE_ID = "e2_doc_id"
"""Key for the id of a LlamaIndex or LangChain document in the metadata of its segment.

Both frameworks load each page of a file as a document, and the integrations join the pages of a
file to one text with one segment for each page.
"""

CHUNK = "e2_chunk"
"""Key in the metadata of a segment that is a chunk and must not be split."""

NODE_FIELDS = "e2_fields"
"""Key in the metadata of a segment for what a framework needs to give its document back."""

DOCUMENT_ID = "document_id"
"""Key under which filters find the id of the document."""

SOURCE_ID = "e2_source_id"
"""Key that shows the id of the engine's document in the metadata of a result."""

USER_PREFIX = "e2_user_"
"""Prefix of user keys that equal a reserved key or already start with this prefix."""

_MAX_SHOWN_PAGES = 6
"""Number of pages up to which `describe_pages` lists them all."""


def copied(value: Any) -> Any:
    """Return a copy of a JSON value, so that a user who changes it does not change the index.

    Unlike `deepcopy`, it needs no record of what was copied, because JSON has no cycles.
    """
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    return [copied(one) for one in value] if isinstance(value, list) else value


def user_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of stored metadata with the user's original keys."""
    return {
        key.removeprefix(USER_PREFIX): copied(value)
        for key, value in metadata.items()
        if key not in (PAGE_ID, CHUNK, NODE_FIELDS)
    }


def source_ids(metadata: Mapping[str, Any]) -> list[str]:
    """Return the documents whose text a segment contains that the user passed as a node.

    The list is empty for any other segment.
    """
    fields = metadata.get(NODE_FIELDS, {})
    if "source" not in fields:
        return []
    return [str(part[0]) for part in fields.get("parts", ())] or [str(fields["source"])]


def page_part(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page keys of a metadata record, and its lists of pages."""
    return {key: metadata[key] for key in _page_keys(metadata) if key in metadata}


def with_pages_of(metadata: Mapping[str, Any], page: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with the page keys of another record instead of its own."""
    own = _page_keys(metadata)
    rest = {key: value for key, value in metadata.items() if key not in own}
    return rest | page_part(page)


def merge_metadata(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the metadata of a node, given that of each segment under it, in order.

    The result has the keys and values that all records share. For a page key on which they
    disagree, it has the first value, and the plural key lists the distinct values in order. A
    plural key that the records use themselves keeps its meaning, unless it is such a list.

    >>> merge_metadata([{"page": 2, "book": "a"}, {"page": 3, "book": "a"}])
    {'page': 2, 'book': 'a', 'pages': [2, 3]}
    """
    first, *others = records
    if not others:
        return dict(first)
    merged = {
        key: value
        for key, value in first.items()
        if key in PAGE_KEYS or all(key in other and other[key] == value for other in others)
    }
    for key, plural in PAGE_KEYS.items():
        values = page_values(records, key)
        if not values:
            continue
        merged[key] = values[0]
        differ = len(values) > 1 or any(key not in record for record in records)
        if differ and all(plural not in record or _is_page_list(record, key) for record in records):
            merged[plural] = values
    return merged


def with_page_lists(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merged metadata of a node with a list of its pages, even if there is only one."""
    lists = {
        plural: [metadata[key]]
        for key, plural in PAGE_KEYS.items()
        if metadata.get(key) is not None and plural not in metadata
    }
    return {**metadata, **lists}


def describe_pages(metadata: Mapping[str, Any]) -> str:
    """Return the pages of a node for readers, given its merged metadata; "" if it has no page.

    Printed page labels are preferred to page numbers, which some loaders count from 0.

    >>> describe_pages({"page": 1, "page_label": "2", "page_labels": ["2", "3"]})
    'pages 2, 3'
    """
    for key in ("page_label", "page", "page_number"):
        value = metadata.get(key)
        if value is None:
            continue
        values = metadata.get(PAGE_KEYS[key])
        pages = [str(page) for page in values] if isinstance(values, list) else [str(value)]
        if len(pages) > _MAX_SHOWN_PAGES:
            pages = [*pages[: _MAX_SHOWN_PAGES - 1], "...", pages[-1]]
        return f"{'pages' if len(pages) > 1 else 'page'} {', '.join(pages)}"
    return ""


def page_values(records: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    """Return the distinct values of a page key, in order."""
    values = [
        value
        for record in records
        if key in record
        for value in (record[PAGE_KEYS[key]] if _is_page_list(record, key) else [record[key]])
    ]
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


def _page_keys(record: Mapping[str, Any]) -> list[str]:
    return [*PAGE_KEYS, *(PAGE_KEYS[key] for key in PAGE_KEYS if _is_page_list(record, key))]


def _is_page_list(record: Mapping[str, Any], key: str) -> bool:
    """Return whether the plural of a page key lists the pages of a chunk over several pages."""
    plural = record.get(PAGE_KEYS.get(key, ""))
    return isinstance(plural, list) and plural[:1] == [record.get(key)]
