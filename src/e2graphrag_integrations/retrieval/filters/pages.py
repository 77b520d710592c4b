"""Filters on nodes that touch several pages.

A node matches if, for every segment under it, the filter holds for the metadata of that segment
with the page keys of some segment under the node. So a condition on a page matches any page that
the node touches, while all other conditions must hold for the whole node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations.pages import with_pages_of
from e2graphrag_integrations.snapshot.metadata import MetadataRecords

TestRecords = Callable[[Sequence[Mapping[str, Any]]], NDArray[np.bool_]]
"""Tests metadata records; returns one boolean per record."""


def all_pass(records: MetadataRecords, passes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask of nodes whose records all pass."""
    failures = exclusive_sums(~passes[records.indices])
    mask: NDArray[np.bool_] = failures[records.ends] == failures[records.starts]
    return mask


def any_passes(records: MetadataRecords, passes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask of nodes with a record that passes."""
    return ~all_pass(records, ~passes)


def pages_match(
    records: MetadataRecords, nodes: IntArray, passes: NDArray[np.bool_], test: TestRecords
) -> NDArray[np.bool_]:
    """Return which nodes match, for a filter whose conditions cannot be separated by key.

    Args:
        records: The metadata of all nodes.
        nodes: Rows of the nodes to test.
        passes: Which records pass with their own page keys.
        test: The filter.
    """
    return np.fromiter(
        (_node_matches(records, node, passes, test) for node in nodes.tolist()),
        dtype=np.bool_,
        count=len(nodes),
    )


def _node_matches(
    records: MetadataRecords, node: int, passes: NDArray[np.bool_], test: TestRecords
) -> bool:
    """Return whether each record of a node passes with the page keys of one of its records.

    A page that suits one record usually suits all, so that two passes over the records suffice.
    """
    values = records.values
    under = records.indices[int(records.starts[node]) : int(records.ends[node])]
    pages = under[np.unique(records.pages[under], return_index=True)[1]].tolist()
    failing = under[~passes[under]].tolist()
    while failing:
        first, *others = failing
        record = records.filterable(first)
        suits = test([with_pages_of(record, values[page]) for page in pages])
        if not suits.any():
            return False
        page = values[pages[int(suits.argmax())]]
        suits = test([with_pages_of(records.filterable(other), page) for other in others])
        failing = [other for other, suited in zip(others, suits, strict=True) if not suited]
    return True
