"""A compiled metadata filter: conditions on keys, combined by "and", "or" and "not".

The parts form a directed acyclic graph, because a filter can contain the same part several times.
Each part is evaluated once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.snapshot.metadata import MetadataRecords

ConditionTest = Callable[[Any], bool]
"""Tests a record's value for one key; `MISSING` represents a missing key."""

MISSING = object()


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """Accepts records in which the value of one key satisfies all tests."""

    key: str
    tests: Sequence[ConditionTest]

    @property
    def keys(self) -> frozenset[str]:
        """The metadata keys that the condition refers to."""
        return frozenset((self.key,))

    @property
    def depth(self) -> int:
        """The nesting of logical operators."""
        return 0

    def passes(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record matches."""
        return self._passes(record.get(self.key, MISSING))

    def mask(self, records: MetadataRecords) -> NDArray[np.bool_]:
        """Return the mask of matching records; each distinct value of the key is tested once."""
        values, of_record = records.column(self.key, MISSING)
        passes = np.fromiter(map(self._passes, values), dtype=np.bool_, count=len(values))
        return passes[of_record]

    def _passes(self, value: Any) -> bool:
        return all(test(value) for test in self.tests)


@dataclass(frozen=True, slots=True)
class Group:
    """Accepts records that match all parts, or any part if `needs_all` is false."""

    parts: Sequence[Part]
    needs_all: bool
    own_depth: int = 0
    keys: frozenset[str] = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        distinct = tuple({id(part): part for part in self.parts}.values())
        object.__setattr__(self, "parts", distinct)
        keys = frozenset[str]().union(*(part.keys for part in distinct))
        object.__setattr__(self, "keys", keys)
        depth = max((part.depth + self.own_depth for part in distinct), default=0)
        object.__setattr__(self, "depth", depth)


@dataclass(frozen=True, slots=True)
class Not:
    """Accepts records that its part rejects."""

    part: Part

    @property
    def keys(self) -> frozenset[str]:
        """The metadata keys that the part refers to."""
        return self.part.keys

    @property
    def depth(self) -> int:
        """The nesting of logical operators."""
        return self.part.depth + 1


Part = KeyCondition | Group | Not
"""A part of a filter.

`keys` are the metadata keys that it refers to, and `depth` is the nesting of logical operators.
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """A compiled filter: calling it tests one record, and `mask` tests all records."""

    root: Part

    def __call__(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record matches."""
        return _passes(self.root, record, {})

    def mask(self, records: MetadataRecords) -> NDArray[np.bool_]:
        """Return the mask of matching records."""
        return _Masks(records, _uses(self.root)).of(self.root)

    def with_conditions(self, change: Callable[[KeyCondition], Part]) -> Filter:
        """Return a filter with other conditions on keys; parts that are shared stay shared."""
        changed: dict[int, Part] = {}

        def copy(part: Part) -> Part:
            if id(part) not in changed:
                if isinstance(part, KeyCondition):
                    changed[id(part)] = change(part)
                elif isinstance(part, Group):
                    parts = [copy(inner) for inner in part.parts]
                    changed[id(part)] = replace(part, parts=parts)
                else:
                    changed[id(part)] = Not(copy(part.part))
            return changed[id(part)]

        return Filter(copy(self.root))


def _passes(part: Part, record: Mapping[str, Any], known: dict[int, bool]) -> bool:
    """Return whether a record matches a part, given the results of groups by id."""
    if isinstance(part, KeyCondition):
        return part.passes(record)
    if isinstance(part, Not):
        return not _passes(part.part, record, known)
    if id(part) not in known:
        results = (_passes(inner, record, known) for inner in part.parts)
        known[id(part)] = all(results) if part.needs_all else any(results)
    return known[id(part)]


def _uses(root: Part) -> Counter[int]:
    """Count how often each part is used, by id."""
    inner = (id(one) for part in distinct_parts(root) for one in _inner_parts(part))
    return Counter([id(root), *inner])


def distinct_parts(root: Part) -> Sequence[Part]:
    """Return a part and all parts in it, each once."""
    found: dict[int, Part] = {}
    pending = [root]
    while pending:
        part = pending.pop()
        if id(part) not in found:
            found[id(part)] = part
            pending += _inner_parts(part)
    return list(found.values())


def _inner_parts(part: Part) -> Sequence[Part]:
    if isinstance(part, KeyCondition):
        return ()
    return part.parts if isinstance(part, Group) else (part.part,)


@dataclass(frozen=True, slots=True)
class _Masks:
    """The masks of a filter's parts. A shared mask is kept until its last use, to save memory."""

    records: MetadataRecords
    uses_left: Counter[int]
    kept: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def of(self, part: Part) -> NDArray[np.bool_]:
        """Return the mask of records that match a part. The caller must not change it."""
        self.uses_left[id(part)] -= 1
        if not self.uses_left[id(part)]:
            kept = self.kept.pop(id(part), None)
            return self._compute(part) if kept is None else kept
        if id(part) not in self.kept:
            self.kept[id(part)] = self._compute(part)
        return self.kept[id(part)]

    def _compute(self, part: Part) -> NDArray[np.bool_]:
        if isinstance(part, KeyCondition):
            return part.mask(self.records)
        if isinstance(part, Not):
            return ~self.of(part.part)
        combine = np.logical_and if part.needs_all else np.logical_or
        passes = np.full(len(self.records.values), part.needs_all)
        for inner in part.parts:
            combine(passes, self.of(inner), out=passes)
        return passes
