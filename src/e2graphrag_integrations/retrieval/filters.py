"""`where`: which nodes a question may see, by metadata, decided before any ranking.

Values are compared and never become part of any query or pattern.
"""

from __future__ import annotations

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import exclusive_sums
from e2graphrag_integrations._utils.validation import MAX_COUNT, short_repr, wrap_errors
from e2graphrag_integrations.errors import FilterError
from e2graphrag_integrations.snapshot.snapshot import MetadataRecords, Snapshot

Predicate = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class NodeMask:
    """A filter that is not one of metadata: makes the mask over a snapshot's nodes itself."""

    make: Callable[[Snapshot], NDArray[np.bool_]]


Where = Mapping[str, Any] | Predicate | NodeMask


class Filter(ABC):
    """A filter by metadata, understood; as a function it tests one record."""

    @abstractmethod
    def __call__(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record passes."""

    @abstractmethod
    def among(self, records: MetadataRecords) -> NDArray[np.bool_]:
        """Return the mask of records that pass: of each key every value is tested but once."""


_Test = Callable[[Any], bool]
"""Of a record's value under one key, which may be `_MISSING`."""

_MakeTest = Callable[[str, Any], _Test]
"""Makes the test of an operator: from its place, for messages, and its operand."""

_MISSING = object()
_DEEPEST = 50
_NOT_JSON = (TypeError, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class _Key(Filter):
    """What the value under one key must be."""

    key: str
    tests: Sequence[_Test]

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return self._passes(record.get(self.key, _MISSING))

    def among(self, records: MetadataRecords) -> NDArray[np.bool_]:
        values, of_record = records.column(self.key, _MISSING)
        passes = np.fromiter(map(self._passes, values), dtype=np.bool_, count=len(values))
        return passes[of_record]

    def _passes(self, value: Any) -> bool:
        return all(test(value) for test in self.tests)


@dataclass(frozen=True, slots=True)
class _All(Filter):
    """Passes what all parts pass."""

    parts: Sequence[Filter]

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return all(part(record) for part in self.parts)

    def among(self, records: MetadataRecords) -> NDArray[np.bool_]:
        passes = np.ones(len(records.values), dtype=np.bool_)
        for part in self.parts:
            passes &= part.among(records)
        return passes


@dataclass(frozen=True, slots=True)
class _Any(Filter):
    """Passes what any part passes."""

    parts: Sequence[Filter]

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return any(part(record) for part in self.parts)

    def among(self, records: MetadataRecords) -> NDArray[np.bool_]:
        passes = np.zeros(len(records.values), dtype=np.bool_)
        for part in self.parts:
            passes |= part.among(records)
        return passes


@dataclass(frozen=True, slots=True)
class _Not(Filter):
    """Passes what its part does not."""

    part: Filter

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return not self.part(record)

    def among(self, records: MetadataRecords) -> NDArray[np.bool_]:
        return ~self.part.among(records)


def compile_where(where: Where) -> Predicate:
    """Turn a filter into a test of one metadata record; a mapping becomes a `Filter`.

    A filter maps keys to conditions, which must all hold. The key `document_id` stands for the
    document's id. A condition is

    - a value: the record's equals it, as in JSON: `1` is `1.0` and not `true`;
    - operators, which must all hold: `$eq`, `$in` (a list); `$ne`, `$nin`, their negations, which
      therefore hold for a missing key; `$gt`, `$gte`, `$lt`, `$lte`, which hold between two
      numbers or two strings (by code points: ISO dates are in order) and between nothing else;
      `$exists` (true or false; null exists).

    Beside keys stand `$and` and `$or` (lists of filters; an empty `$and` holds, an empty `$or`
    does not) and `$not` (a filter). A missing key passes `$ne`, `$nin`, `$exists: false` and
    nothing else. A function of the metadata is taken as it is.

    >>> wells = compile_where({"author": "Wells", "year": {"$gte": 1890, "$lt": 1900}})
    >>> wells({"author": "Wells", "year": 1895}), wells({"author": "Wells"})
    (True, False)
    >>> compile_where({"$or": [{"year": 1895}, {"$not": {"read": True}}]})({"read": False})
    True

    Raises:
        FilterError: For anything else, naming the key.
    """
    with wrap_errors(FilterError, "where could not be read"):
        if not isinstance(where, Mapping) and callable(where):
            return where
        return _compiled(where, "where", 0)


def allowed_nodes(records: MetadataRecords, predicate: Predicate) -> NDArray[np.bool_]:
    """Return the mask of nodes all of whose records pass: a summary only if all its leaves do."""
    if isinstance(predicate, Filter):
        with wrap_errors(FilterError, "where could not be tested on the metadata"):
            passes = predicate.among(records)
    else:
        passes = _passed_by_function(records, predicate)
    failures = exclusive_sums(~passes[records.of_node])
    mask: NDArray[np.bool_] = failures[records.last] == failures[records.first]
    return mask


def _passed_by_function(records: MetadataRecords, predicate: Predicate) -> NDArray[np.bool_]:
    passes = np.zeros(len(records.values), dtype=np.bool_)
    used = np.zeros(len(records.values), dtype=np.bool_)
    used[records.of_node] = True
    for row in np.flatnonzero(used).tolist():  # it need not bear others
        with wrap_errors(FilterError, "where: the function failed on a node's metadata"):
            passes[row] = predicate(records.values[row])
    return passes


def metadata_filter(where: Where) -> Callable[[Snapshot], NDArray[np.bool_]]:
    """Return the filter of nodes that `where` stands for.

    Raises:
        FilterError: If it is not understood.
    """
    if isinstance(where, NodeMask):
        return where.make
    predicate = compile_where(where)
    return lambda snapshot: allowed_nodes(snapshot.records, predicate)


def _compiled(where: Any, at: str, depth: int) -> Filter:
    if not isinstance(where, Mapping):
        raise FilterError(f"{at} must be a mapping of metadata keys, not {type(where).__name__}")
    if depth > _DEEPEST:
        raise FilterError(f"where is nested more than {_DEEPEST} deep: write it flatter")
    parts = [_part(key, condition, at, depth) for key, condition in where.items()]
    return _All(parts)


def _part(key: object, condition: Any, at: str, depth: int) -> Filter:
    """Return the test of a record by one key of a filter."""
    if not isinstance(key, str):
        raise FilterError(f"{at}: key {short_repr(key)} is not a string")
    here = f"{at}[{short_repr(key)}]"
    with wrap_errors(FilterError, f"{here} could not be read"):
        if key in _JOINS:
            return _joined(key, condition, here, depth)
        if key == "$not":
            return _Not(_compiled(condition, here, depth + 1))
        if key.startswith("$"):
            raise FilterError(
                f"{at}: {short_repr(key)} does not stand beside keys; there are {_names(_JOINS)}, $not, "
                "and under a key, as in {'year': {'$gte': 1890}}, " + _names(_OPERATORS)
            )
        return _Key(key, _tests(condition, here))


def _joined(name: str, filters: Any, here: str, depth: int) -> Filter:
    if not isinstance(filters, list | tuple):
        raise FilterError(f"{here} needs a list of filters, not {short_repr(filters)}")
    return _JOINS[name]([_compiled(f, f"{here}[{i}]", depth + 1) for i, f in enumerate(filters)])


def _tests(condition: Any, here: str) -> list[_Test]:
    """Return the tests of the value under a key: one for each operator, or that it is equal."""
    if not isinstance(condition, Mapping) or not any(map(_is_operator, condition)):
        return [_equals(here, condition)]
    for name in condition:
        if name in _JOINS or name == "$not":
            raise FilterError(f"{here}: {name} stands beside keys, over filters that name them")
        if name not in _OPERATORS:
            raise FilterError(
                f"{here}: {short_repr(name)} is no operator; there are {_names(_OPERATORS)} "
                "(an object with such keys is matched by $eq)"
            )
    return [_OPERATORS[name](f"{here}: {name}", value) for name, value in condition.items()]


def _is_operator(key: object) -> bool:
    return isinstance(key, str) and key.startswith("$")


def _names(operators: Mapping[str, Any]) -> str:
    return ", ".join(operators)


def _equals(at: str, value: Any) -> _Test:
    wanted = _json(at, value)
    return lambda own: _canonical(own) == wanted


def _among(at: str, values: Any) -> _Test:
    if not isinstance(values, list | tuple | set | frozenset | range):
        raise FilterError(f"{at} needs a list, not {short_repr(values)}")
    if isinstance(values, range) and values[MAX_COUNT:]:  # its len() may overflow
        raise FilterError(f"{at} takes up to {MAX_COUNT:,} values: give bounds by $gte and $lt")
    options = frozenset(_json(at, value) for value in values)
    return lambda own: _canonical(own) in options


def _exists(at: str, value: Any) -> _Test:
    if not isinstance(value, bool | np.bool_):
        raise FilterError(f"{at} needs True or False, not {short_repr(value)}")
    wanted = bool(value)
    return lambda own: (own is not _MISSING) == wanted


def _negated(make: _MakeTest) -> _MakeTest:
    def make_negated(at: str, value: Any) -> _Test:
        test = make(at, value)
        return lambda own: not test(own)

    return make_negated


def _bounded(compare: Callable[[Any, Any], bool]) -> _MakeTest:
    def make(at: str, value: Any) -> _Test:
        try:
            bound = json.loads(_canonical(value))
        except _NOT_JSON:
            bound = None
        kind = _ordered_kind(bound)
        if kind is None:
            raise FilterError(
                f"{at} needs a finite number or a string, a date as ISO text, not {short_repr(value)}; "
                "leave it out where there is no bound"
            )
        return lambda own: _ordered_kind(own) is kind and compare(own, bound)

    return make


def _ordered_kind(value: object) -> type | None:
    """Return what values are in order with this one."""
    if isinstance(value, str):
        return str
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return None


_JOINS: Mapping[str, Callable[[Sequence[Filter]], Filter]] = {"$and": _All, "$or": _Any}

_OPERATORS: Mapping[str, _MakeTest] = {
    "$eq": _equals,
    "$ne": _negated(_equals),
    "$gt": _bounded(operator.gt),
    "$gte": _bounded(operator.ge),
    "$lt": _bounded(operator.lt),
    "$lte": _bounded(operator.le),
    "$in": _among,
    "$nin": _negated(_among),
    "$exists": _exists,
}


def _json(at: str, value: Any) -> str:
    try:
        return _canonical(value)
    except _NOT_JSON as error:
        raise FilterError(
            f"{at}: {short_repr(value)} is no JSON value; use str, int, finite float, bool, None, lists "
            "and dicts"
        ) from error


def _canonical(value: Any) -> str:
    """Return JSON that is equal for equal values: 1.0 is 1, at any depth."""
    if value is _MISSING:
        return ""  # no JSON text is empty
    text = _ENCODER.encode(value)
    if value is None or isinstance(value, str | int):  # most are, and need no second look
        return text
    return json.dumps(json.loads(text, parse_float=_number), sort_keys=True)


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _from_numpy(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON type")


_ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=False, default=_from_numpy)
"""Made once: of each record a value is encoded."""
