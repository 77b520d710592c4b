"""Translate LlamaIndex's `MetadataFilters` and `doc_ids` into filters of the core."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import ExactMatchFilter, FilterCondition, FilterOperator
from numpy.typing import NDArray

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.corpus.page import document_ids, owners_of
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.grouping import tree_names
from e2graphrag_integrations.llama_index.hits import NodeIds
from e2graphrag_integrations.llama_index.nodes import TREE
from e2graphrag_integrations.pages import (
    DOCUMENT_ID,
    NODE_FIELDS,
    PAGE_ID,
    PAGE_KEYS,
    USER_PREFIX,
    source_ids,
)
from e2graphrag_integrations.retrieval.filters.pages import all_pass, any_passes
from e2graphrag_integrations.retrieval.filters.tree import (
    MISSING,
    Filter,
    Group,
    KeyCondition,
    Not,
    Part,
)
from e2graphrag_integrations.retrieval.filters.where import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    NodeMask,
    Predicate,
    compile_where,
    metadata_filter,
    ordered_kind,
)
from e2graphrag_integrations.retrieval.strategy import NodeFilter
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.tags import nodes_with_tags

_DOCUMENT_ID_KEYS = ("document_id", "doc_id", "ref_doc_id")
"""Keys that filter by document id, unless a document's own metadata contains the key."""

_TREE_KEYS = ("e2_source_id", TREE)
"""Keys that filter by the id of a tree, such as the path of a file."""

_OPERATORS: Mapping[FilterOperator, str] = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
    FilterOperator.ANY: "$contains",
    FilterOperator.ALL: "$contains",
    FilterOperator.TEXT_MATCH: "$contains",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "$icontains",
    FilterOperator.IS_EMPTY: "$empty",
}
"""The operator of the core for each of LlamaIndex."""

_LIST_OPERATORS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
"""Operators whose filter value must be a list."""

_SET_OPERATORS = (FilterOperator.IN, FilterOperator.NIN)
"""Operators that look up the metadata value in a set of the filter values."""

_ORDER_OPERATORS = (FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE)
"""Operators whose filter value must be a number or a string."""

_OF_ONE_OF: Mapping[FilterOperator, str] = {
    FilterOperator.EQ: "$in",
    FilterOperator.NE: "$nin",
    FilterOperator.CONTAINS: "$contains",
}
"""The operator of the core for a list of values instead of one value."""

_TEXT_OPERATORS = (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE)
"""Operators that look for the filter value as a text."""

_ALL: Mapping[str, Any] = {}
"""The filter that every node matches."""

_NONE: Mapping[str, Any] = {"$or": []}
"""The filter that no node matches."""


def where_of(
    filters: MetadataFilters | None = None,
    *,
    doc_ids: Sequence[str] | None = None,
    node_ids: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> NodeMask:
    """Return the filters of a retriever as a `where` for the methods of `index.rag`.

    For example, `index.rag.entities(where=where_of(filters))`.

    Args:
        filters: Metadata conditions.
        doc_ids: Ids of documents.
        node_ids: Ids of nodes.
        tags: Names of tags.

    Raises:
        InvalidInputError: If no condition is given, or one is invalid.
    """
    mask = node_filter(filters, doc_ids, node_ids, tags)
    if mask is None:
        raise InvalidInputError("where_of() needs a condition: omit where= to read everything")
    return NodeMask(mask)


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
    string, and is neither less nor greater than one; 1 and 0 also equal true and false.

    Raises:
        InvalidInputError: If an operator is unknown, a value has the wrong type, or the filters
            exceed 10,000 conditions or a nesting of 50.
    """
    if filters is None and doc_ids is None and node_ids is None and tags is None:
        return None
    _check_lists(doc_ids=doc_ids, node_ids=node_ids, tags=tags)
    matches = None
    if filters is not None:
        if not isinstance(filters, MetadataFilters):
            raise InvalidInputError(f"filters={short_repr(filters)} must be MetadataFilters([...])")
        compiled = cast("Filter", compile_where(_Translator().group(filters)))
        matches = metadata_filter(_WithIds(compiled))
    allowed_documents = None if doc_ids is None else frozenset(doc_ids)
    allowed_ids = None if node_ids is None else frozenset(node_ids)

    def mask(snapshot: Snapshot) -> NDArray[np.bool_]:
        ids = snapshot.nodes.ids
        allowed = np.ones(len(ids), dtype=np.bool_) if matches is None else matches(snapshot)
        if allowed_documents is not None:
            allowed &= _touches(snapshot, allowed_documents)
        if allowed_ids is not None:
            names = NodeIds.of(snapshot)
            shown = (names.show(id_) in allowed_ids for id_ in ids)
            allowed &= np.fromiter(shown, np.bool_, len(ids))
        if tags is not None:
            allowed &= nodes_with_tags(snapshot, np.asarray(snapshot.tag_set.rows(tags)))
        return allowed

    return mask


def user_predicate(where: Mapping[str, Any]) -> Predicate:
    """Return a filter of the core as one on the metadata of LlamaIndex documents.

    Raises:
        InvalidInputError: If the filter is invalid.
    """
    compiled = cast("Filter", compile_where(where))
    return compiled.with_conditions(lambda one: _with_ids(one, DOCUMENT_ID))


def _touches(snapshot: Snapshot, documents: frozenset[str]) -> NDArray[np.bool_]:
    """Return the chunks with text, and the summaries whose text is all, of documents or trees."""
    records = snapshot.records

    def passes(record: Mapping[str, Any]) -> bool:
        tree = record[records.id_key]
        fields = _fields(record)
        owners = owners_of(fields) if "source" in fields else ()
        page = record.get(PAGE_ID, tree)
        names = tree_names(tree, (page, *document_ids(owners)))
        return not documents.isdisjoint((page, *owners, *names))

    passing = np.fromiter(map(passes, records.values), np.bool_, len(records.values))
    is_summary = snapshot.nodes.level > 0
    return np.where(is_summary, all_pass(records, passing), any_passes(records, passing))


def _fields(record: Mapping[str, Any]) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = record.get(NODE_FIELDS, {})
    return fields


def _check_lists(**lists: object) -> None:
    for name, values in lists.items():
        if isinstance(values, str) or not isinstance(values, Collection | None):
            what = "names" if name == "tags" else "ids"
            raise InvalidInputError(f"{name}={short_repr(values)} must be a list of {what}")


@dataclass(frozen=True, slots=True)
class _WithIds:
    """A filter whose keys for ids of documents and trees need not be in the stored metadata."""

    filter: Filter

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return self.filter(record)

    def for_records(self, records: MetadataRecords) -> Filter:
        """Return a filter of the stored records."""
        has_lists = any(len(_fields(one).get("parts", ())) > 1 for one in records.values)

        def adapt(condition: KeyCondition) -> Part:
            if has_lists and condition.key in PAGE_KEYS:
                return Group((condition, _on_any_page(condition)), needs_all=False)
            return _with_ids(condition, records.id_key)

        return self.filter.with_conditions(adapt)


def _with_ids(condition: KeyCondition, id_key: str) -> Part:
    """Return a condition on a key of the user, else on the document's id, else on the tree's."""
    of_tree = replace(condition, key=id_key)
    if condition.key in _TREE_KEYS:
        return of_tree
    if condition.key not in _DOCUMENT_ID_KEYS:
        return condition
    user_key = USER_PREFIX + id_key if condition.key == id_key else condition.key
    of_page = _of_sources(condition, _if_present(replace(condition, key=PAGE_ID), of_tree))
    return _if_present(replace(condition, key=user_key), of_page)


def _on_any_page(condition: KeyCondition) -> KeyCondition:
    """Return a condition on the list of pages of a chunk over several pages."""

    def passes(pages: object) -> bool:
        if not isinstance(pages, list):
            return False
        return any(all(test(page) for test in condition.tests) for page in pages)

    return KeyCondition(PAGE_KEYS[condition.key], [passes])


def _if_present(condition: KeyCondition, otherwise: Part) -> Part:
    """Return a condition that another part replaces in records without its key."""
    present = KeyCondition(condition.key, [lambda value: value is not MISSING])
    return Group(
        (
            Group((present, condition), needs_all=True),
            Group((Not(present), otherwise), needs_all=True),
        ),
        needs_all=False,
    )


def _of_sources(condition: KeyCondition, otherwise: Part) -> Part:
    """Return a condition on the documents of a user's node, which another part replaces in others.

    All documents whose text the node contains must match.
    """

    def sources(fields: object) -> list[str]:
        return [] if fields is MISSING else source_ids({NODE_FIELDS: fields})

    def passes(fields: object) -> bool:
        own = sources(fields)
        return bool(own) and all(test(one) for one in own for test in condition.tests)

    has_source = KeyCondition(NODE_FIELDS, [lambda fields: bool(sources(fields))])
    of_sources = KeyCondition(NODE_FIELDS, [passes])
    others = Group((Not(has_source), otherwise), needs_all=True)
    return Group((of_sources, others), needs_all=False)


class _Translator:
    """Translates one `MetadataFilters`. Filters that it contains several times count each time."""

    def __init__(self) -> None:
        self._conditions = 0

    def group(self, filters: MetadataFilters, depth: int = 0) -> Mapping[str, Any]:
        """Return a group of filters, below `depth` others, as a `where`."""
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"filters are nested more than {MAX_DEPTH} deep: flatten them")
        parts = [
            self.group(part, depth + 1) if isinstance(part, MetadataFilters) else self._one(part)
            for part in filters.filters
        ]
        if not parts:
            return _ALL
        needs_all = filters.condition not in (FilterCondition.OR, FilterCondition.NOT)
        joined = parts[0]
        if len(parts) > 1:
            self._count()
            joined = {"$and" if needs_all else "$or": parts}
        if filters.condition == FilterCondition.NOT:
            self._count()
            joined = {"$not": joined}
        return joined

    def _one(self, one: MetadataFilter | ExactMatchFilter) -> Mapping[str, Any]:
        self._count()
        key, operator = one.key, getattr(one, "operator", FilterOperator.EQ)
        _check(one, operator)
        value: Any = one.value
        name = _OPERATORS[operator]
        if operator == FilterOperator.IS_EMPTY:
            value = True
        if operator in _TEXT_OPERATORS:
            value = str(value)
        if operator == FilterOperator.ALL:
            if not value:
                return {key: {"$exists": True}}
            for _ in value:
                self._count()
            return {"$and": [{key: {name: _or_bool([each])}} for each in value]}
        if value is None:  # LlamaIndex's own stores treat a null value as a missing key
            return _ALL if operator == FilterOperator.NE else _NONE
        if operator in (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY):
            value = _or_bool(value)
        elif operator in _OF_ONE_OF and _can_mean_bool(value):
            name, value = _OF_ONE_OF[operator], _or_bool([value])
        return {key: {name: value}}

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise InvalidInputError(
                f"filters have more than {MAX_CONDITIONS:,} conditions: use FilterOperator.IN to "
                "compare a key with many values"
            )


def _or_bool(values: Sequence[Any]) -> Sequence[Any]:
    """Return values with true for 1 and false for 0: a `MetadataFilter` cannot contain a bool."""
    return [*values, *(bool(one) for one in values if _can_mean_bool(one))]


def _can_mean_bool(value: object) -> bool:
    return isinstance(value, int | float) and value in (0, 1)


def _check(one: MetadataFilter | ExactMatchFilter, operator: FilterOperator) -> None:
    """Check the operator and the value of a filter."""
    if operator not in _OPERATORS:
        raise InvalidInputError(f"filters: operator {operator} on {one.key!r} is not supported")
    needed, value = None, one.value
    if operator in _LIST_OPERATORS and not isinstance(value, list):
        needed = "a list"
    elif operator in _ORDER_OPERATORS and ordered_kind(value) is None:
        needed = "a number or a string"
    elif operator in _SET_OPERATORS and isinstance(value, list):
        is_flat = all(isinstance(each, str | int | float) for each in value)
        needed = None if is_flat else "a list of numbers and strings"
    if needed:
        where = f"filters: {one.key} {operator.value} {short_repr(value)}"
        raise InvalidInputError(f"{where}: the value must be {needed}")
