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
from e2graphrag_integrations.retrieval.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    allowed_nodes,
    ordered_kind,
    with_elements,
)
from e2graphrag_integrations.retrieval.page_filters import all_pass, any_passes
from e2graphrag_integrations.retrieval.strategy import NodeFilter
from e2graphrag_integrations.snapshot.snapshot import MetadataRecords, Snapshot
from e2graphrag_integrations.snapshot.tags import nodes_with_tags

_DOCUMENT_ID_KEYS = ("document_id", "doc_id", "ref_doc_id")
"""Keys that filter by document id, unless a document's own metadata contains the key."""

_Test = Callable[[Mapping[str, Any]], bool]
"""Tests the metadata of a node."""

_SOURCE_ID = "e2_source_id"
"""Key that filters by the id of a tree, such as the path of a file."""


def _is_equal(actual: Any, value: Any) -> bool:
    # A filter value is never a bool.
    return any(one == value and not isinstance(one, bool) for one in with_elements(actual))


def _is_in(actual: Any, options: frozenset[str | float]) -> bool:
    # A list or dict equals no option, but looking it up raises TypeError. A bool may equal 0 or 1.
    return any(
        isinstance(one, str | int | float) and not isinstance(one, bool) and one in options
        for one in with_elements(actual)
    )


def _contains(actual: Any, value: Any) -> bool:
    if isinstance(actual, str):
        return isinstance(value, str) and value in actual
    return isinstance(actual, list) and any(_is_equal(one, value) for one in actual)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison of two numbers or two strings, which no other values pass."""

    def test(actual: Any, value: Any) -> bool:
        kind = ordered_kind(value)
        return kind is not None and any(
            ordered_kind(one) is kind and compare(one, value) for one in with_elements(actual)
        )

    return test


_COMPARISONS: Mapping[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.EQ: _is_equal,
    FilterOperator.NE: lambda actual, value: not _is_equal(actual, value),
    FilterOperator.GT: _ordered(operator.gt),
    FilterOperator.GTE: _ordered(operator.ge),
    FilterOperator.LT: _ordered(operator.lt),
    FilterOperator.LTE: _ordered(operator.le),
    FilterOperator.IN: _is_in,
    FilterOperator.NIN: lambda actual, value: not _is_in(actual, value),
    FilterOperator.CONTAINS: _contains,
    FilterOperator.ANY: lambda actual, value: any(_contains(actual, one) for one in value),
    FilterOperator.ALL: lambda actual, value: all(_contains(actual, one) for one in value),
    FilterOperator.TEXT_MATCH: lambda actual, value: str(value) in str(actual),
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda actual, value: (
        str(value).lower() in str(actual).lower()
    ),
}
"""One function per operator, except IS_EMPTY, which `_compile_one` handles."""

_LIST_OPERATORS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
"""Operators whose filter value must be a list."""

_SET_OPERATORS = (FilterOperator.IN, FilterOperator.NIN)
"""Operators that look up the metadata value in a set of the filter values."""

_ORDER_OPERATORS = (FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE)
"""Operators whose filter value must be a number or a string."""


def node_filter(
    filters: MetadataFilters | None,
    doc_ids: Sequence[str] | None,
    node_ids: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> NodeFilter | None:
    """Return a filter over nodes, or None if no condition is given.

    A node matches if its text on each page matches, and a summary if all chunks below it match. A
    condition on a page key, such as `page_label`, matches any page that the node touches. `doc_ids`
    finds the chunks that touch a document, because short pages share chunks, and the summaries of
    nothing else. All other conditions must hold for all of its text. The metadata of a node
    consists of its document's metadata, `language`, `e2_level`, `e2_kind` and `doc_id`.
    `e2_source_id` is the id of its tree, such as the path of a file. A number never equals a
    string, and is neither less nor greater than one.

    Raises:
        FilterError: If an operator is unknown, a value has the wrong type, or the filters exceed
            10,000 conditions or a nesting of 50.
    """
    if filters is None and doc_ids is None and node_ids is None and tags is None:
        return None
    if filters is not None and not isinstance(filters, MetadataFilters):
        raise FilterError(f"filters={short_repr(filters)} must be MetadataFilters([...])")
    _check_lists(doc_ids=doc_ids, node_ids=node_ids, tags=tags)
    matches = None if filters is None else _Compiler().compile(filters)
    allowed_documents = None if doc_ids is None else frozenset(doc_ids)
    allowed_ids = None if node_ids is None else frozenset(node_ids)

    def mask(snapshot: Snapshot) -> NDArray[np.bool_]:
        allowed = np.zeros(len(snapshot.nodes.ids), dtype=np.bool_)
        for level in np.unique(snapshot.nodes.level).tolist():
            place = {LEVEL: level, KIND: "summary" if level else "chunk"}

            def passes(record: Mapping[str, Any], place: Mapping[str, Any] = place) -> bool:
                tree = record[TREE]
                document = record.get(PAGE_ID, tree)
                ids = dict.fromkeys(_DOCUMENT_ID_KEYS, document) | {_SOURCE_ID: tree}
                return matches is None or matches({**ids, **record, **place})

            matching = allowed_nodes(snapshot.records, passes)
            if allowed_documents is not None:
                matching &= _touches(snapshot.records, allowed_documents, all_text=level > 0)
            allowed |= matching & (snapshot.nodes.level == level)
        if allowed_ids is not None:
            ids = snapshot.nodes.ids
            allowed &= np.fromiter((id_ in allowed_ids for id_ in ids), np.bool_, len(ids))
        if tags is not None:
            allowed &= nodes_with_tags(snapshot, np.asarray(snapshot.tag_set.rows(tags)))
        return allowed

    return mask


def _touches(
    records: MetadataRecords, documents: frozenset[str], *, all_text: bool
) -> NDArray[np.bool_]:
    """Return the nodes with text, or whose text is all, of some documents or trees."""

    def passes(row: int) -> bool:
        record = records.filterable(row)
        tree = record[TREE]
        return not documents.isdisjoint((record.get(PAGE_ID, tree), tree))

    mask = np.fromiter(map(passes, range(len(records.values))), np.bool_, len(records.values))
    return all_pass(records, mask) if all_text else any_passes(records, mask)


def _check_lists(**lists: object) -> None:
    for name, values in lists.items():
        if isinstance(values, str) or not isinstance(values, Collection | None):
            what = "names" if name == "tags" else "ids"
            raise FilterError(f"{name}={short_repr(values)} must be a list of {what}")


class _Compiler:
    """Compiles one `MetadataFilters`. Filters that it contains several times count each time."""

    def __init__(self) -> None:
        self._conditions = 0

    def compile(self, filters: MetadataFilters, depth: int = 0) -> _Test:
        """Return a test of a node's metadata.

        Raises:
            FilterError: If the filters are invalid, too many, or nested too deeply.
        """
        if depth > MAX_DEPTH:
            raise FilterError(f"filters are nested more than {MAX_DEPTH} deep: flatten them")
        tests = [self._compile_part(part, depth) for part in filters.filters]
        if filters.condition == FilterCondition.OR:
            return lambda record: not tests or any(test(record) for test in tests)
        if filters.condition == FilterCondition.NOT:
            return lambda record: not any(test(record) for test in tests)
        return lambda record: all(test(record) for test in tests)

    def _compile_part(
        self, part: MetadataFilter | ExactMatchFilter | MetadataFilters, depth: int
    ) -> _Test:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise FilterError(
                f"filters have more than {MAX_CONDITIONS:,} conditions: use FilterOperator.IN to "
                "compare a key with many values"
            )
        if isinstance(part, MetadataFilters):
            return self.compile(part, depth + 1)
        return _compile_one(part)


def _compile_one(one: MetadataFilter | ExactMatchFilter) -> _Test:
    key, name, value = one.key, getattr(one, "operator", FilterOperator.EQ), _checked_value(one)
    if name == FilterOperator.IS_EMPTY:
        return lambda record: record.get(key) in (None, "", [])
    compare = _COMPARISONS[name]
    # LlamaIndex's own filters treat a missing key the same way.
    if_missing = name in (FilterOperator.NE, FilterOperator.NIN)

    def test(record: Mapping[str, Any]) -> bool:
        actual = record.get(key)
        return if_missing if actual is None else compare(actual, value)

    return test


def _checked_value(one: MetadataFilter | ExactMatchFilter) -> Any:
    """Return the value of a filter; a set of the values if the operator looks them up."""
    name = getattr(one, "operator", FilterOperator.EQ)
    if name not in _COMPARISONS and name != FilterOperator.IS_EMPTY:
        raise FilterError(f"filters: operator {name} on {one.key!r} is not supported")
    needed = None
    if name in _LIST_OPERATORS and not isinstance(one.value, list):
        needed = "a list"
    if name in _ORDER_OPERATORS and ordered_kind(one.value) is None:
        needed = "a number or a string"
    if name in _SET_OPERATORS and isinstance(one.value, list):
        try:
            return frozenset(one.value)
        except TypeError:
            needed = "a list of numbers and strings"
    if needed:
        where = f"filters: {one.key} {name.value} {short_repr(one.value)}"
        raise FilterError(f"{where}: the value must be {needed}")
    return one.value
