"""Translate LlamaIndex's `MetadataFilters` and `doc_ids` into a mask over nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import ExactMatchFilter, FilterCondition, FilterOperator
from numpy.typing import NDArray

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import FilterError
from e2graphrag_integrations.llama_index.storage.nodes import KIND, LEVEL, TREE
from e2graphrag_integrations.pages import PAGE_ID
from e2graphrag_integrations.retrieval.filters import allowed_nodes, ordered_kind
from e2graphrag_integrations.retrieval.strategy import NodeFilter
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_DOCUMENT_ID_KEYS = ("document_id", "doc_id", "ref_doc_id")
"""Keys that filter by document id, unless a document's own metadata contains the key."""

_SOURCE_ID = "e2_source_id"
"""Key that filters by the id of a tree, such as the path of a file."""


def _is_equal(actual: Any, value: Any) -> bool:
    return bool(actual == value) and not isinstance(actual, bool)  # a filter value is never a bool


def _contains(actual: Any, value: Any) -> bool:
    if isinstance(actual, str):
        return isinstance(value, str) and value in actual
    return isinstance(actual, list) and any(_is_equal(one, value) for one in actual)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of two numbers or two strings, which no other values pass."""

    def test(actual: Any, value: Any) -> bool:
        kind = ordered_kind(actual)
        return kind is not None and kind is ordered_kind(value) and compare(actual, value)

    return test


_COMPARISONS: Mapping[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.EQ: _is_equal,
    FilterOperator.NE: lambda actual, value: not _is_equal(actual, value),
    FilterOperator.GT: _ordered(operator.gt),
    FilterOperator.GTE: _ordered(operator.ge),
    FilterOperator.LT: _ordered(operator.lt),
    FilterOperator.LTE: _ordered(operator.le),
    FilterOperator.IN: lambda actual, value: not isinstance(actual, bool) and actual in value,
    FilterOperator.NIN: lambda actual, value: isinstance(actual, bool) or actual not in value,
    FilterOperator.CONTAINS: _contains,
    FilterOperator.ANY: lambda actual, value: any(_contains(actual, one) for one in value),
    FilterOperator.ALL: lambda actual, value: all(_contains(actual, one) for one in value),
    FilterOperator.TEXT_MATCH: lambda actual, value: str(value) in str(actual),
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda actual, value: (
        str(value).lower() in str(actual).lower()
    ),
}
"""One function per operator, except IS_EMPTY, which `_matches_one` handles."""

_LIST_OPERATORS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
"""Operators whose filter value must be a list."""

_ORDER_OPERATORS = (FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE)
"""Operators whose filter value must be a number or a string."""


def node_filter(
    filters: MetadataFilters | None,
    doc_ids: Sequence[str] | None,
    node_ids: Sequence[str] | None = None,
) -> NodeFilter | None:
    """Return a filter over nodes, or None if no condition is given.

    A node matches if its text on each page matches, and a summary if all chunks below it match. A
    condition on a page key, such as `page_label`, matches any page that the node touches. All
    other conditions, `doc_ids` included, must hold for all of its text. The metadata of a node
    consists of its document's metadata, `e2_level`, `e2_kind` and `doc_id`. `e2_source_id` is the
    id of its tree, such as the path of a file. A number never equals a string, and is neither
    less nor greater than one.

    Raises:
        FilterError: If an operator is unknown or a value has the wrong type.
    """
    if filters is None and doc_ids is None and node_ids is None:
        return None
    if filters is not None and not isinstance(filters, MetadataFilters):
        raise FilterError(f"filters={short_repr(filters)} must be MetadataFilters([...])")
    for name, ids in (("doc_ids", doc_ids), ("node_ids", node_ids)):
        if isinstance(ids, str) or not isinstance(ids, Collection | None):
            raise FilterError(f"{name}={short_repr(ids)} must be a list of ids")
    _check(filters)
    allowed_documents = None if doc_ids is None else frozenset(doc_ids)
    allowed_ids = None if node_ids is None else frozenset(node_ids)

    def mask(snapshot: Snapshot) -> NDArray[np.bool_]:
        allowed = np.zeros(len(snapshot.nodes.ids), dtype=np.bool_)
        for level in np.unique(snapshot.nodes.level).tolist():
            place = {LEVEL: level, KIND: "summary" if level else "chunk"}

            def passes(record: Mapping[str, Any], place: Mapping[str, Any] = place) -> bool:
                tree = record[TREE]
                document = record.get(PAGE_ID, tree)
                if allowed_documents is not None and allowed_documents.isdisjoint((document, tree)):
                    return False
                ids = dict.fromkeys(_DOCUMENT_ID_KEYS, document) | {_SOURCE_ID: tree}
                return filters is None or _matches(filters, {**ids, **record, **place})

            matching = allowed_nodes(snapshot.records, passes)
            allowed |= matching & (snapshot.nodes.level == level)
        if allowed_ids is not None:
            ids = snapshot.nodes.ids
            allowed &= np.fromiter((id_ in allowed_ids for id_ in ids), np.bool_, len(ids))
        return allowed

    return mask


def _check(filters: MetadataFilters | None) -> None:
    for one in filters.filters if filters is not None else ():
        if isinstance(one, MetadataFilters):
            _check(one)
            continue
        name = _operator(one)
        if name not in _COMPARISONS and name != FilterOperator.IS_EMPTY:
            raise FilterError(f"filters: operator {name} on {one.key!r} is not supported")
        needed = None
        if name in _LIST_OPERATORS and not isinstance(one.value, list):
            needed = "a list"
        if name in _ORDER_OPERATORS and ordered_kind(one.value) is None:
            needed = "a number or a string"
        if needed:
            where = f"filters: {one.key} {name.value} {short_repr(one.value)}"
            raise FilterError(f"{where}: the value must be {needed}")


def _operator(one: MetadataFilter | ExactMatchFilter) -> FilterOperator:
    return getattr(one, "operator", FilterOperator.EQ)


def _matches(filters: MetadataFilters, record: Mapping[str, Any]) -> bool:
    results = [
        _matches(one, record) if isinstance(one, MetadataFilters) else _matches_one(one, record)
        for one in filters.filters
    ]
    if filters.condition == FilterCondition.OR:
        return any(results) or not results
    if filters.condition == FilterCondition.NOT:
        return not any(results)
    return all(results)


def _matches_one(one: MetadataFilter | ExactMatchFilter, record: Mapping[str, Any]) -> bool:
    actual, name = record.get(one.key), _operator(one)
    if name == FilterOperator.IS_EMPTY:
        return actual in (None, "", [])
    if actual is None:  # LlamaIndex's own filters treat a missing key the same way
        return name in (FilterOperator.NE, FilterOperator.NIN)
    return _COMPARISONS[name](actual, one.value)
