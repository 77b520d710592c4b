"""LlamaIndex's `MetadataFilters` and `doc_ids` as a mask over nodes, the same on both routes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import (
    ExactMatchFilter,
    FilterCondition,
    FilterOperator,
)
from numpy.typing import NDArray

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import FilterError
from e2graphrag_integrations.llama_index.storage.nodes import KIND, LEVEL, TREE
from e2graphrag_integrations.retrieval.filters import allowed_nodes
from e2graphrag_integrations.retrieval.strategy import NodeFilter
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_ID_NAMES = ("document_id", "doc_id", "ref_doc_id", "e2_source_id")
"""By these documents can be filtered, unless their own metadata have them."""

Test = Callable[[Any, Any], bool]

_TESTS: Mapping[FilterOperator, Test] = {
    FilterOperator.EQ: lambda own, value: bool(own == value),
    FilterOperator.NE: lambda own, value: bool(own != value),
    FilterOperator.GT: lambda own, value: bool(own > value),
    FilterOperator.GTE: lambda own, value: bool(own >= value),
    FilterOperator.LT: lambda own, value: bool(own < value),
    FilterOperator.LTE: lambda own, value: bool(own <= value),
    FilterOperator.IN: lambda own, value: own in value,
    FilterOperator.NIN: lambda own, value: own not in value,
    FilterOperator.CONTAINS: lambda own, value: value in own,
    FilterOperator.ANY: lambda own, value: any(one in own for one in value),
    FilterOperator.ALL: lambda own, value: all(one in own for one in value),
    FilterOperator.TEXT_MATCH: lambda own, value: str(value) in str(own),
}


def node_filter(
    filters: MetadataFilters | None,
    doc_ids: Sequence[str] | None,
    node_ids: Sequence[str] | None = None,
) -> NodeFilter | None:
    """Return the filter of nodes, None where there is none; a summary passes if all its leaves do.

    Beside the documents' metadata, `e2_level`, `e2_kind` and `doc_id` can be filtered by.

    Raises:
        FilterError: For an operator or a value that makes no sense.
    """
    if filters is None and doc_ids is None and node_ids is None:
        return None
    if filters is not None and not isinstance(filters, MetadataFilters):
        raise FilterError(f"filters={short_repr(filters)} must be MetadataFilters([...])")
    for name, given in (("doc_ids", doc_ids), ("node_ids", node_ids)):
        if isinstance(given, str) or not isinstance(given, Collection | None):
            raise FilterError(f"{name}={short_repr(given)} must be a list of ids")
    _check(filters)
    wanted = None if doc_ids is None else frozenset(doc_ids)
    only = None if node_ids is None else frozenset(node_ids)

    def mask(snapshot: Snapshot) -> NDArray[np.bool_]:
        allowed = np.zeros(len(snapshot.nodes.ids), dtype=np.bool_)
        for level in np.unique(snapshot.nodes.level).tolist():
            place = {LEVEL: level, KIND: "summary" if level else "chunk"}
            passes = allowed_nodes(
                snapshot.records,
                lambda record, place=place: (  # type: ignore[misc] # mypy cannot infer the default
                    (wanted is None or record[TREE] in wanted)
                    and (filters is None or _holds(filters, {**_with_ids(record), **place}))
                ),
            )
            allowed |= passes & (snapshot.nodes.level == level)
        if only is not None:
            ids = snapshot.nodes.ids
            allowed &= np.fromiter((id_ in only for id_ in ids), np.bool_, len(ids))
        return allowed

    return mask


def _with_ids(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(_ID_NAMES, record[TREE]), **record}


def _check(filters: MetadataFilters | None) -> None:
    for one in filters.filters if filters is not None else ():
        if isinstance(one, MetadataFilters):
            _check(one)
        elif _operator(one) not in _TESTS and _operator(one) not in _WITHOUT_TEST:
            raise FilterError(f"filters: operator {_operator(one)} on {one.key!r} is not supported")
        elif _operator(one) in _OF_LISTS and not isinstance(one.value, list):
            raise FilterError(
                f"filters: {one.key} {_operator(one).value} {short_repr(one.value)}: the value must be "
                "a list"
            )


_OF_LISTS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
_WITHOUT_TEST = (FilterOperator.IS_EMPTY, getattr(FilterOperator, "TEXT_MATCH_INSENSITIVE", None))


def _operator(one: MetadataFilter | ExactMatchFilter) -> FilterOperator:
    return getattr(one, "operator", FilterOperator.EQ)


def _holds(filters: MetadataFilters, record: Mapping[str, Any]) -> bool:
    results = [
        _holds(one, record) if isinstance(one, MetadataFilters) else _passes(one, record)
        for one in filters.filters
    ]
    if filters.condition == FilterCondition.OR:
        return any(results) or not results
    if filters.condition == FilterCondition.NOT:
        return not any(results)
    return all(results)


def _passes(one: MetadataFilter | ExactMatchFilter, record: Mapping[str, Any]) -> bool:
    own, operator = record.get(one.key), _operator(one)
    if operator == FilterOperator.IS_EMPTY:
        return own in (None, "", [])
    if own is None:  # as LlamaIndex has it
        return operator in (FilterOperator.NE, FilterOperator.NIN)
    try:
        if operator not in _TESTS:
            return str(one.value).lower() in str(own).lower()
        return _TESTS[operator](own, one.value)
    except TypeError as error:
        raise FilterError(
            f"filters: {one.key} {operator.value} {short_repr(one.value)} does not fit the value "
            f"{short_repr(own)} of a document: {error}"
        ) from error
