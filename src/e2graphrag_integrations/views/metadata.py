"""The metadata of an index: its keys, their kinds and values, and how many documents have each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.pages import CHUNK, NODE_FIELDS, PAGE_ID
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot

Kind = Literal["text", "number", "date", "boolean", "mixed"]
"""What the values of a key are; a date is a text in ISO form, and so sorts as a text does."""

Scalar = str | int | float | bool

MAX_KEYS = 100
"""Maximum number of keys in a view; those of the most documents are kept."""

MAX_VALUES = 100
"""Maximum number of values of a key in a view."""

MAX_LENGTH = 200
"""Texts with more characters are no values to choose from."""

_OWN_KEYS = frozenset((PAGE_ID, CHUNK, NODE_FIELDS))
"""Keys that the integrations add for themselves."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ][0-9:.,+Z-]*)?")


@dataclass(frozen=True, slots=True)
class ValueCount:
    """A value, and the number of documents that have it."""

    value: Scalar
    documents: int


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key of the metadata.

    Attributes:
        kind: What its values, or the elements of its lists, are.
        is_list: Whether some of its values are lists.
        documents: Number of documents with it.
        distinct: Number of its distinct values.
        least, greatest: Its range if it has numbers or dates only; otherwise None.
        values: Its values, those of the most documents first.
    """

    name: str
    kind: Kind
    is_list: bool
    documents: int
    distinct: int
    least: Scalar | None
    greatest: Scalar | None
    values: tuple[ValueCount, ...]


@dataclass(frozen=True, slots=True)
class MetadataView:
    """The keys in alphabetical order; `total` also counts those that are left out."""

    total: int
    keys: tuple[KeyView, ...]


@dataclass(slots=True)
class _Found:
    """What was found of one key so far."""

    documents: int = 0
    is_list: bool = False
    counts: Counter[tuple[type, Scalar]] = field(default_factory=Counter)


def metadata_view(snapshot: Snapshot, values: int = 20) -> MetadataView:
    """Return the keys of an index, or of a scope of it.

    Args:
        snapshot: What the reader sees.
        values: Maximum number of values of each key.
    """
    found = _found(snapshot.records)
    most = sorted(found, key=lambda name: (-found[name].documents, name))[:MAX_KEYS]
    return MetadataView(
        len(found), tuple(_view(name, found[name], values) for name in sorted(most))
    )


def key_view(snapshot: Snapshot, name: str, search: str = "", values: int = 20) -> KeyView | None:
    """Return one key with the values that contain a text, in upper or lower case; None if unknown.

    The numbers, the kind and the range are those of all values.
    """
    found = _found(snapshot.records, name).get(name)
    return None if found is None else _view(name, found, values, search)


def is_iso_date(text: str) -> bool:
    """Return whether a text is a day in ISO form, with or without a time."""
    return _DATE.fullmatch(text) is not None


def _found(records: MetadataRecords, only: str | None = None) -> Mapping[str, _Found]:
    found: dict[str, _Found] = {}
    for own in _by_document(records):
        seen: dict[str, set[tuple[type, Scalar]]] = {}
        for record in own:
            for key, value in record.items():
                if only not in (None, key) or key in _OWN_KEYS or key == records.id_key:
                    continue
                one = seen.setdefault(key, set())
                if isinstance(value, list):
                    found.setdefault(key, _Found()).is_list = True
                one.update((type(part), part) for part in _scalars(value))
        for key, values in seen.items():
            if values:
                one_key = found.setdefault(key, _Found())
                one_key.documents += 1
                one_key.counts.update(values)
    return {key: one for key, one in found.items() if one.documents}


def _by_document(records: MetadataRecords) -> Iterable[list[Mapping[str, Any]]]:
    """Return the records of each document; with its language if there are several languages."""
    ids = [record.get(records.id_key, "") for record in records.values]
    is_mixed = len({records.languages.get(one, ENGLISH) for one in ids}) > 1
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row, (id_, record) in enumerate(zip(ids, records.values, strict=True)):
        grouped.setdefault(id_, []).append(records.filterable(row) if is_mixed else record)
    return grouped.values()


def _scalars(value: Any) -> Iterator[Scalar]:
    for one in value if isinstance(value, list) else (value,):
        if isinstance(one, str | int | float):  # a bool is an int
            yield one


def _view(name: str, found: _Found, values: int, search: str = "") -> KeyView:
    kinds = {_kind(value) for _, value in found.counts}
    kind: Kind = next(iter(kinds)) if len(kinds) == 1 else "mixed"
    if kinds == {"date", "text"}:
        kind = "text"
    bounds: list[Any] = [value for _, value in found.counts] if kind in ("number", "date") else []
    wanted = search.casefold()
    listed = (
        ValueCount(value, count)
        for (_, value), count in sorted(
            found.counts.items(), key=lambda one: (-one[1], one[0][0].__name__, one[0][1])
        )
        if len(str(value)) <= MAX_LENGTH and wanted in str(value).casefold()
    )
    return KeyView(
        name,
        kind,
        found.is_list,
        found.documents,
        len(found.counts),
        min(bounds, default=None),
        max(bounds, default=None),
        tuple(one for one, _ in zip(listed, range(min(values, MAX_VALUES)), strict=False)),
    )


def _kind(value: Scalar) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "date" if is_iso_date(value) else "text"
    return "number"
