"""The versions of documents, found by links between them and by dates of one source.

A *unit* is a document as the user added it: in LangChain and LlamaIndex, a page of a file is one.
Units of one source and date, such as the pages of a file, are one version.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.moments import first_moment
from e2graphrag_integrations.pages import PAGE_ID
from e2graphrag_integrations.retrieval.validity.options import Validity
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot

logger = logging.getLogger(__name__)

_MAX_SHOWN = 5
"""Maximum number of documents that the warning about a cycle names."""


@dataclass(frozen=True, eq=False)
class Versions:
    """The versions of the documents of a snapshot.

    Attributes:
        names: Id of each unit.
        unit_of_record: The unit of each metadata record.
        group: The group of each unit, whose members are versions of one document; -1 for a unit
            without other versions.
        rank: The place of each unit in time, equal for units of one version; a higher one is newer.
        groups: Number of groups.
    """

    names: Sequence[str]
    unit_of_record: IntArray
    group: IntArray
    rank: IntArray
    groups: int

    @property
    def have_others(self) -> NDArray[np.bool_]:
        """The mask of the units with other versions."""
        mask: NDArray[np.bool_] = self.group >= 0
        return mask


@dataclass(frozen=True)
class FindVersions:
    """Finds the versions in a snapshot, given the keys of a `Validity`.

    Attributes:
        valid_from, date, supersedes, source: See `Validity`.
    """

    valid_from: str | None
    date: str | None
    supersedes: str | None
    source: str | None

    @classmethod
    def of(cls, validity: Validity) -> FindVersions:
        """Return the finder for the keys of some options."""
        return cls(validity.valid_from, validity.date, validity.supersedes, validity.source)

    def __call__(self, snapshot: Snapshot) -> Versions | None:
        """Return the versions; None if there are no documents with several."""
        records = snapshot.records
        keys = {self.supersedes, self.source} - {None}
        if not any(key in record for record in records.values for key in keys):
            return None
        names, unit_of_record = _units(records)
        dates = _dates(records, unit_of_record, len(names), (self.date, self.valid_from))
        nodes = list(range(len(names)))  # the version of each unit, named by its first unit
        edges = list(self._links(records, names, unit_of_record))
        for units in self._sources(records, unit_of_record, dates).values():
            by_date: dict[float, int] = {}
            for unit in units:
                nodes[unit] = by_date.setdefault(float(dates[unit]), unit)
            ordered = [by_date[one] for one in sorted(by_date)]
            edges += pairwise(ordered)
        merged = {(nodes[old], nodes[new]) for old, new in edges}
        pairs = sorted(one for one in merged if one[0] != one[1])
        if not pairs:
            return None
        count, group_of, rank_of = _ordered(pairs, dates, names)
        group = np.asarray([group_of.get(one, -1) for one in nodes], dtype=np.int64)
        rank = np.asarray([rank_of.get(one, 0) for one in nodes], dtype=np.int64)
        return Versions(names, unit_of_record, group, rank, count)

    def _links(
        self, records: MetadataRecords, names: Sequence[str], unit_of_record: IntArray
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of an older and a newer unit, by the ids that metadata name."""
        if self.supersedes is None:
            return
        units_of: dict[str, set[int]] = defaultdict(set)
        for record, unit in zip(records.values, unit_of_record.tolist(), strict=True):
            units_of[record[records.id_key]].add(unit)
        units_of.update({name: {unit} for unit, name in enumerate(names)})
        for record, unit in zip(records.values, unit_of_record.tolist(), strict=True):
            given = record.get(self.supersedes)
            for name in given if isinstance(given, list) else [given]:
                if isinstance(name, str):
                    yield from ((old, unit) for old in units_of.get(name, ()) if old != unit)

    def _sources(
        self,
        records: MetadataRecords,
        unit_of_record: IntArray,
        dates: NDArray[np.float64],
    ) -> Mapping[str, list[int]]:
        """Return the dated units of each source."""
        found: dict[str, list[int]] = defaultdict(list)
        if self.source is not None:
            units, first = np.unique(unit_of_record, return_index=True)
            for unit, row in zip(units.tolist(), first.tolist(), strict=True):
                value = records.values[row].get(self.source)
                if isinstance(value, str) and value.strip() and math.isfinite(dates[unit]):
                    found[value].append(unit)
        return found


def _units(records: MetadataRecords) -> tuple[list[str], IntArray]:
    """Return the id of each unit, and the unit of each record."""
    places: dict[tuple[Any, Any], int] = {}
    of_record = [
        places.setdefault((record[records.id_key], record.get(PAGE_ID)), len(places))
        for record in records.values
    ]
    names = [str(document if page is None else page) for document, page in places]
    return names, np.asarray(of_record, dtype=np.int64)


def _dates(
    records: MetadataRecords, unit_of_record: IntArray, count: int, keys: Sequence[str | None]
) -> NDArray[np.float64]:
    """Return the latest date of each unit, by the first key that has one; -inf without a date."""
    of_record = np.full(len(records.values), np.nan)
    for key in keys:
        if key is not None:
            numbers = records.numbers(key, first_moment)
            of_record = np.where(np.isnan(of_record) & np.isfinite(numbers), numbers, of_record)
    dates = np.full(count, -np.inf)
    np.maximum.at(dates, unit_of_record, np.nan_to_num(of_record, nan=-np.inf))
    return dates


def _ordered(
    pairs: Sequence[tuple[int, int]], dates: NDArray[np.float64], names: Sequence[str]
) -> tuple[int, dict[int, int], dict[int, int]]:
    """Order versions from the oldest to the newest.

    A version follows those that it supersedes; otherwise, dates decide, and then ids. Of several
    that nothing supersedes, all with the latest date are the newest. Versions that supersede each
    other in a circle are ordered by their dates alone.

    Args:
        pairs: Pairs of an older and a newer unit.
        dates: The date of each unit.
        names: The id of each unit.

    Returns:
        The number of groups, the group of each unit in a pair, and its place in the order.
    """
    members = sorted({unit for pair in pairs for unit in pair})
    place = {unit: number for number, unit in enumerate(members)}
    old, new = np.asarray([(place[a], place[b]) for a, b in pairs]).T
    size = len(members)
    links = coo_array((np.ones(len(old)), (old, new)), shape=(size, size)).tocsr()
    count, groups = connected_components(links, directed=False)
    parts, part_of = connected_components(links, connection="strong")
    moments = dates.tolist()
    of_part: list[list[int]] = [[] for _ in range(parts)]
    for unit, part in zip(members, part_of.tolist(), strict=True):
        of_part[part].append(unit)
    circles = [part for part in of_part if len(part) > 1]
    for part in circles:
        part.sort(key=lambda one: (moments[one], names[one]))
    _warn_of(circles, names)
    between = np.unique(np.stack([part_of[old], part_of[new]], axis=1), axis=0).tolist()
    after: list[list[int]] = [[] for _ in range(parts)]
    waiting = [0] * parts
    for a, b in between:
        if a != b:
            after[a].append(b)
            waiting[b] += 1

    def key(part: int) -> tuple[float, str, int]:
        last = of_part[part][-1]
        return moments[last], names[last], part

    ready = [key(part) for part in range(parts) if not waiting[part]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        part = heapq.heappop(ready)[2]
        order += of_part[part]
        for one in after[part]:
            waiting[one] -= 1
            if not waiting[one]:
                heapq.heappush(ready, key(one))
    group_of = dict(zip(members, groups.tolist(), strict=True))
    ranks = {unit: rank for rank, unit in enumerate(order)}
    newest = {group_of[unit]: unit for unit in order}
    # Two that nothing supersedes, of the same date, do not supersede each other.
    ends = {of_part[part][-1] for part in range(parts) if not after[part]}
    last = {unit: newest[group_of[unit]] for unit in ends}
    equal = {unit: ranks[one] for unit, one in last.items() if moments[unit] == moments[one]}
    return int(count), group_of, ranks | equal


def _warn_of(circles: Sequence[Sequence[int]], names: Sequence[str]) -> None:
    if circles:
        named = ", ".join(repr(names[unit]) for unit in circles[0][:_MAX_SHOWN])
        logger.warning(
            "%d circle(s) of documents supersede each other, such as %s: their dates decide which "
            "is the newest",
            len(circles),
            named,
        )
