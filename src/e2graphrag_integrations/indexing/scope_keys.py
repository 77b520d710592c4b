"""Metadata keys on which the documents of one summary tree must agree: those of tenants.

A summary is made from everything under it, so it can be shown to a tenant only if all of that may
be shown. If no tree spans two tenants, each of them has its summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.text.span_sets import is_covered
from e2graphrag_integrations.types import Segment, SourceDocument


def scoped_tree_name(name: str, metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the name of a tree whose documents agree on the keys.

    >>> scoped_tree_name("a.pdf", {"tenant": "x", "page": 1}, ("tenant",))
    'a.pdf {"tenant":"x"}'
    """
    own = {key: metadata[key] for key in keys if key in metadata}
    return f"{name} {canonical_json(own)}" if own else name


def check_scope_keys(documents: Iterable[SourceDocument], keys: Sequence[str]) -> None:
    """Check that all metadata of each document agrees on the keys.

    Raises:
        InvalidInputError: If the segments of a document have different values.
    """
    for document in documents if keys else ():
        segments = [Segment(*segment) for segment in document.segments]
        records = [{**document.metadata, **segment.metadata} for segment in segments]
        spans = [(segment.start, segment.end) for segment in segments]
        if not segments or not is_covered(document.text, spans):
            records.append(dict(document.metadata))
        first: dict[str, tuple[str, str]] = {}
        for record, key in product(records, keys):
            identity, shown = "", f"no {key}"
            if key in record:
                identity, shown = canonical_json(record[key]), f"{key}={short_repr(record[key])}"
            known = first.setdefault(key, (identity, shown))
            if known[0] != identity:
                raise InvalidInputError(
                    f"document {document.id!r} has parts with {known[1]} and with {shown}, but "
                    f"scope_keys={list(keys)} keeps them in trees of their own: make one document "
                    "for each value"
                )
