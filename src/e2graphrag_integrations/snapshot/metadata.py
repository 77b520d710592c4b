"""The metadata of all nodes: which record applies where, and the columns that filters read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import (
    IntArray,
    concatenated_ranges,
    exclusive_sums,
    smallest_int_type,
)
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.pages import PAGE_KEYS
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.types import SUPERSEDES

_MAX_CACHED_COLUMNS = 64
"""Maximum number of metadata keys whose columns are cached for later filters."""

LANGUAGE_KEY = "language"
"""Key under which filters find the language of a document."""

_MISSING = object()


@dataclass(frozen=True, eq=False)
class MetadataSections:
    """The parts of all texts that have one metadata record each, ordered by document and start.

    A section ends where the next section of its document starts, or at the end of the text.

    Attributes:
        documents: Row of each section's document.
        starts: Start of each section in its document's text.
        records: Row of each section's metadata record.
    """

    documents: IntArray
    starts: IntArray
    records: IntArray

    @classmethod
    def of(cls, sections: Iterable[tuple[int, int, int]]) -> Self:
        """Return sections given as `(document, start, record)`, in order."""
        columns = np.asarray([*sections], dtype=np.int64).reshape(-1, 3)
        return cls(*np.ascontiguousarray(columns.T))

    def start_at(self, document: int, offset: int) -> int:
        """Return the start of the section with a character of a text; 0 if it has no section."""
        first, last = np.searchsorted(self.documents, [document, document + 1]).tolist()
        section = first + int(np.searchsorted(self.starts[first:last], offset, "right")) - 1
        return int(self.starts[max(section, first)]) if first < last else 0

    def within(self, document: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return `(start, end, record)` of the sections in a part of a text, clipped to it."""
        first, last = np.searchsorted(self.documents, [document, document + 1]).tolist()
        starts = self.starts[first:last]
        begin = max(int(np.searchsorted(starts, start, "right")) - 1, 0)
        stop = int(np.searchsorted(starts, end, "left"))
        bounds = [max(start, own) for own in starts[begin:stop].tolist()] + [end]
        records = self.records[first + begin : first + stop].tolist()
        return list(zip(bounds[:-1], bounds[1:], records, strict=True))


SECTION_ARRAYS = tuple(field.name for field in fields(MetadataSections))
"""Names of the columns of `MetadataSections`."""


@dataclass(frozen=True, eq=False)
class MetadataRecords:
    """The distinct metadata records of all nodes, which filters are evaluated on.

    A node has one record for each segment that it overlaps. If part of the node lies outside all
    segments, the node also has the record of its document.

    Attributes:
        values: The records. Each contains its document's id under `id_key`.
        starts, ends: For each node, the half-open range of its records in `indices`.
        indices: The nodes' records, as rows of `values`.
        sections: Where in the texts each record applies.
        id_key: The key for the document's id, the only key that the user does not provide.
        languages: Language of each document that is not in English, by id. A filter finds the
            language of any document under the key `language`, unless the user provides that key.
    """

    values: Sequence[Mapping[str, Any]]
    starts: IntArray
    ends: IntArray
    indices: IntArray
    id_key: str = "document_id"
    sections: MetadataSections = field(default_factory=lambda: MetadataSections.of([]))
    languages: Mapping[str, str] = field(default_factory=dict)

    @lazy
    def has_versions(self) -> bool:
        """Whether a document names an older version under the default key."""
        return any(SUPERSEDES in record for record in self.values)

    def filterable(self, row: int) -> Mapping[str, Any]:
        """Return a record with the language of its document."""
        record = self.values[row]
        return {LANGUAGE_KEY: self._language_of(record), **record}

    def _language_of(self, record: Mapping[str, Any]) -> str:
        return self.languages.get(record.get(self.id_key, ""), ENGLISH)

    @lazy
    def pages(self) -> IntArray:
        """Return the row of each record's page: equal for records with the same page keys."""
        keys = (*PAGE_KEYS, *PAGE_KEYS.values())  # a chunk over several pages lists them
        columns = [self.column(key, _MISSING)[1] for key in keys]
        if not any(column.any() for column in columns):
            return np.zeros(len(self.values), dtype=np.int64)
        pages: IntArray = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1]
        return pages.reshape(-1)

    def used_by(self, allowed: NDArray[np.bool_] | None) -> IntArray:
        """Return the rows of the records of the nodes in a mask; None means all nodes."""
        indices = self.indices
        if allowed is not None:
            starts = self.starts[allowed]
            indices = indices[concatenated_ranges(starts, self.ends[allowed] - starts)]
        is_used = np.zeros(len(self.values), dtype=np.bool_)
        is_used[indices] = True
        return np.flatnonzero(is_used)

    @lazy
    def multi_page_nodes(self) -> IntArray:
        """Return the rows of the nodes that touch several pages."""
        several: IntArray = np.flatnonzero(self.ends - self.starts > 1)
        if not len(several):
            return several
        pages = self.pages[self.indices]
        changes = exclusive_sums(pages[1:] != pages[:-1])
        differ = changes[self.ends[several] - 1] > changes[self.starts[several]]
        multiple: IntArray = several[differ]
        return multiple

    @cached_method(_MAX_CACHED_COLUMNS)
    def places(self, key: str) -> Mapping[str, int]:
        """Return the place in `column(key, None)` of each value that is a string."""
        values = self.column(key, None)[0]
        return {one: place for place, one in enumerate(values) if isinstance(one, str)}

    @cached_method(_MAX_CACHED_COLUMNS)
    def numbers(self, key: str, convert: Callable[[Any], float]) -> NDArray[np.float64]:
        """Return the value of one metadata key in each record as a number.

        Args:
            key: The metadata key.
            convert: Returns the number of a value. It is NaN where the value is missing or null.
        """
        values, of_record = self.column(key, _MISSING)
        numbers = [np.nan if one is _MISSING or one is None else convert(one) for one in values]
        return np.asarray(numbers, dtype=np.float64)[of_record]

    @cached_method(_MAX_CACHED_COLUMNS)
    def column(self, key: str, missing: object) -> tuple[Sequence[Any], IntArray]:
        """Return the distinct values of one metadata key and, for each record, their row.

        Args:
            key: The metadata key.
            missing: The value of records without this key.
        """
        rows: dict[Any, int] = {}
        values: list[Any] = []
        value_of_record = np.empty(len(self.values), dtype=smallest_int_type(len(self.values)))
        for number, record in enumerate(self.values):
            value = record.get(key, missing)
            if value is missing and key == LANGUAGE_KEY:
                value = self._language_of(record)
            identity = _identity(value) if value is not missing else missing
            if identity not in rows:
                rows[identity] = len(values)
                values.append(value)
            value_of_record[number] = rows[identity]
        return values, value_of_record


def _identity(value: Any) -> Any:
    """Return a hashable key, equal only for equal values of one type: 1, 1.0 and True differ."""
    if value is None or isinstance(value, str | int | float):
        return type(value), value
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError):  # not JSON: equal only to itself
        return id(value)
