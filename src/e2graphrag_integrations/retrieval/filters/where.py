"""The metadata filter `where`, which restricts the nodes of a retrieval before ranking.

Values are only compared: none becomes part of an SQL query or a regular expression.
"""

from __future__ import annotations

import inspect
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations._utils.validation import MAX_COUNT, short_repr, wrap_errors
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.pages import PAGE_ID, PAGE_KEYS, copied
from e2graphrag_integrations.retrieval.filters.pages import all_pass, any_passes, pages_match
from e2graphrag_integrations.retrieval.filters.tree import (
    MISSING,
    ConditionTest,
    Filter,
    Group,
    KeyCondition,
    Not,
    Part,
)
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.tags import nodes_with_tags

Predicate = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class NodeMask:
    """A filter that computes its own mask over a snapshot's nodes.

    Attributes:
        build: Returns the mask of matching nodes, shape (nodes,).
    """

    build: Callable[[Snapshot], NDArray[np.bool_]]


Where = Mapping[str, Any] | Predicate | NodeMask


_MakeTest = Callable[[str, Any], ConditionTest]
"""Builds an operator's test from its path (for error messages) and its operand."""

MAX_DEPTH = 50
"""Maximum nesting of `$and`, `$or` and `$not`."""

MAX_CONDITIONS = 10_000
"""Maximum number of conditions and logical operators; each is tested on all distinct values."""

LEVEL, KIND, TYPES = "e2_level", "e2_kind", "e2_types"
"""Keys of a node itself, which hide metadata of these names: its level in the tree, `chunk` or
`summary`, and the types of the entities in its text or in the chunks below it."""

_NOT_JSON = (TypeError, ValueError, RecursionError)


@runtime_checkable
class RecordsFilter(Protocol):
    """A test of one record that may know a faster equivalent for all records of a snapshot."""

    def __call__(self, record: Mapping[str, Any], /) -> bool:
        """Return whether a record matches."""

    def for_records(self, records: MetadataRecords) -> Predicate:
        """Return an equivalent filter of these records."""


def compile_where(where: Where, name: str = "where") -> Predicate:
    """Compile a filter into a test of one metadata record; a mapping becomes a `Filter`.

    A mapping gives a condition for each metadata key, and all conditions must hold. The key
    `document_id` refers to the id of the document, and the key `language` to the code of its
    language, unless the metadata has a key of that name. The keys `e2_level` (0 for chunks),
    `e2_kind` (`chunk` or `summary`) and `e2_types` (the types of the entities in it, such as
    `person`) refer to the node; a scope does not know them. A condition on a page key (`page`,
    `page_number`, `page_label`) matches any page that a node touches. A condition is one of

    - a value that the metadata must equal as JSON: `1` equals `1.0` but not `true`;
    - a mapping of operators, all of which must hold: `$eq`, `$in` (a list); their negations `$ne`
      and `$nin`, which also hold for a missing key; `$gt`, `$gte`, `$lt`, `$lte`, which compare two
      numbers or two strings (by code point, so ISO dates sort correctly) and reject other pairs;
      `$all` (a list; the metadata is a list that contains all of them); `$size` (the length of a
      list); `$contains` (a value or a list of them: the metadata is a text with one of these texts
      in it, or a list with one of these elements); `$icontains`, the same without regard to case;
      `$exists` (true or false; a key with a null value exists); `$empty` (true or false: the key is
      missing, or its value is null, an empty text or an empty list).

    As in MongoDB, `$eq`, `$in` and comparisons also hold for a list with an element for which they
    hold: `{"tags": "Oslo"}` matches `["Oslo", "Rome"]`. `$ne` and `$nin` hold if no element does.

    Besides metadata keys, a mapping may contain `$and` and `$or`, which take lists of filters, and
    `$not`, which takes a filter. An empty `$and` matches every record, and an empty `$or` matches
    none. A missing key only satisfies `$ne`, `$nin`, `$exists: false` and `$empty: true`. A
    function of the metadata is returned unchanged.

    Logical operators nest up to 50 deep. A filter has up to 10,000 conditions and logical
    operators, and a list of `$in` has up to 10,000,000 values. A mapping that a filter contains
    several times is evaluated once; each further use counts as one condition. `name` is that of the
    argument, for messages.

    >>> wells = compile_where({"author": "Wells", "year": {"$gte": 1890, "$lt": 1900}})
    >>> wells({"author": "Wells", "year": 1895}), wells({"author": "Wells"})
    (True, False)
    >>> compile_where({"$or": [{"year": 1895}, {"$not": {"read": True}}]})({"read": False})
    True

    Raises:
        InvalidInputError: If the filter is invalid; the message names the key.
    """
    with wrap_errors(InvalidInputError, f"{name} could not be read"):
        if not isinstance(where, Mapping) and callable(where):
            return where
        return Filter(_Compiler().mapping(where, name, 0))


def allowed_nodes(
    records: MetadataRecords, predicate: Predicate, is_chunk: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Return the mask of matching nodes.

    A node matches if all of its records match; a summary has the records of its leaves. If a node
    touches several pages, conditions on page keys need to hold only for one of them (see
    `pages`).

    Args:
        records: The metadata of the nodes.
        predicate: The filter.
        is_chunk: The mask of the chunks, of which a condition on the id of a page in a framework
            needs to hold only for one page, too. None makes no difference between nodes.
    """
    if isinstance(predicate, RecordsFilter):
        predicate = predicate.for_records(records)
    if isinstance(predicate, Filter):
        with wrap_errors(InvalidInputError, "where could not be tested on the metadata"):
            mask = _allowed_by_filter(records, predicate)
            if is_chunk is not None and PAGE_ID in predicate.root.keys:
                mask |= is_chunk & _touching(records, predicate)
            return mask
    used = np.unique(records.indices)  # the function may fail on unused records
    passes = np.zeros(len(records.values), dtype=np.bool_)
    passes[used] = _call(predicate, [records.filterable(row) for row in used.tolist()])
    mask = all_pass(records, passes)
    nodes = _undecided(records, mask)
    mask[nodes] = pages_match(records, nodes, passes, lambda values: _call(predicate, values))
    return mask


def _allowed_by_filter(records: MetadataRecords, predicate: Filter) -> NDArray[np.bool_]:
    passes = predicate.mask(records)
    mask = all_pass(records, passes)
    if not predicate.root.keys & PAGE_KEYS.keys():
        return mask
    nodes = _undecided(records, mask)
    parts = _separate(predicate)
    if not len(nodes):
        return mask
    if parts is None:
        mask[nodes] = pages_match(records, nodes, passes, lambda v: _mask_of(predicate, v))
    else:
        on_pages, on_rest = parts
        matches = any_passes(records, on_pages.mask(records))
        matches &= all_pass(records, on_rest.mask(records))
        mask[nodes] = matches[nodes]
    return mask


def _touching(records: MetadataRecords, predicate: Filter) -> NDArray[np.bool_]:
    """Return the nodes of which one page has the given id, and all text fulfills the rest."""
    # All pages of a node are in one document, so its id is a condition of either kind.
    parts = _separate(predicate, frozenset({*PAGE_KEYS, PAGE_ID}), frozenset({records.id_key}))
    if parts is None:
        return np.zeros(len(records.starts), dtype=np.bool_)
    on_pages, on_rest = parts
    return any_passes(records, on_pages.mask(records)) & all_pass(records, on_rest.mask(records))


def _undecided(records: MetadataRecords, mask: NDArray[np.bool_]) -> IntArray:
    """Return the rows of the nodes that may match by another of their pages."""
    nodes = records.multi_page_nodes
    undecided: IntArray = nodes[~mask[nodes]]
    return undecided


def _separate(
    predicate: Filter,
    page_keys: frozenset[str] = frozenset(PAGE_KEYS),
    common_keys: frozenset[str] = frozenset(),
) -> tuple[Filter, Filter] | None:
    """Return conditions on page keys and conditions on other keys, which must all hold.

    Args:
        predicate: The filter.
        page_keys: The page keys.
        common_keys: Keys with the same value on all pages of a node.

    Returns:
        None if a condition needs both kinds of keys.
    """
    on_pages, on_rest, mixed = list[Part](), list[Part](), [predicate.root]
    seen = set[int]()
    while mixed:
        part = mixed.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if not part.keys & page_keys:
            on_rest.append(part)
        elif part.keys <= page_keys | common_keys:
            on_pages.append(part)
        elif isinstance(part, Group) and part.needs_all:
            mixed += part.parts
        else:
            return None
    return Filter(Group(on_pages, needs_all=True)), Filter(Group(on_rest, needs_all=True))


def _call(predicate: Predicate, values: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_]:
    with wrap_errors(InvalidInputError, "where: the function failed on a node's metadata"):
        return np.asarray([_passes(predicate, copied(value)) for value in values], dtype=np.bool_)


def _passes(predicate: Predicate, value: Mapping[str, Any]) -> bool:
    passes: object = predicate(value)
    if inspect.iscoroutine(passes):  # which is true
        passes.close()
        raise InvalidInputError("where: the function is async: pass one that returns True or False")
    return bool(passes)


def _mask_of(predicate: Filter, values: Sequence[Mapping[str, Any]]) -> NDArray[np.bool_]:
    rows = np.arange(len(values))
    return predicate.mask(MetadataRecords(values, rows, rows + 1, rows))


def metadata_filter(where: Where) -> Callable[[Snapshot], NDArray[np.bool_]]:
    """Return a function that computes the mask of matching nodes in a snapshot.

    Raises:
        InvalidInputError: If `where` is invalid.
    """
    if isinstance(where, NodeMask):
        return where.build
    predicate = compile_where(where)
    return lambda snapshot: _matching_nodes(snapshot, predicate)


def _matching_nodes(snapshot: Snapshot, predicate: Predicate) -> NDArray[np.bool_]:
    records, levels = snapshot.records, snapshot.nodes.level
    if isinstance(predicate, RecordsFilter):
        predicate = predicate.for_records(records)
    if not isinstance(predicate, Filter) or predicate.root.keys.isdisjoint((LEVEL, KIND, TYPES)):
        return allowed_nodes(records, predicate, snapshot.is_chunk)
    mask = np.zeros(len(levels), dtype=np.bool_)
    types: list[tuple[str, ...]] = [()]
    groups: IntArray = np.zeros(len(levels), dtype=np.int64)
    if TYPES in predicate.root.keys:
        types, groups = snapshot.derived(_entity_types)
    for level, group in sorted({*zip(levels.tolist(), groups.tolist(), strict=True)}):
        at_place = _at_place(predicate, level, types[group])
        own = allowed_nodes(records, at_place, snapshot.is_chunk)
        mask |= own & (levels == level) & (groups == group)
    return mask


def _entity_types(snapshot: Snapshot) -> tuple[list[tuple[str, ...]], IntArray]:
    """Return all combinations of types that nodes mention, and the combination of each node."""
    types, postings = snapshot.entity_types, snapshot.graph.postings
    entities = np.repeat(np.arange(postings.shape[0]), np.diff(postings.indptr))
    chunks = np.zeros((len(snapshot.chunk_nodes) + 1, len(types.names)), dtype=np.int64)
    chunks[postings.indices + 1, types.numbers[entities]] = 1
    counts = np.cumsum(chunks, axis=0)
    below = counts[snapshot.nodes.end_leaf] > counts[snapshot.nodes.first_leaf]
    combinations, groups = np.unique(below, axis=0, return_inverse=True)
    names = np.asarray(types.names, dtype=object)
    return [tuple(names[used]) for used in combinations], groups.reshape(-1)


def _at_place(predicate: Filter, level: int, types: Sequence[str]) -> Filter:
    """Return what a filter requires of the metadata of nodes on a level, with these types."""
    place = {LEVEL: level, KIND: "summary" if level else "chunk", TYPES: list(types)}

    def decide(condition: KeyCondition) -> Part:
        if condition.key not in place:
            return condition
        return Group((), needs_all=condition.passes(place))

    return predicate.with_conditions(decide)


def tagged(*names: str, where: Where | None = None) -> NodeMask:
    """Return a filter of the nodes with at least one of some tags; see `E2GraphRAG.set_tags`.

    As for other filters, a summary matches only if every chunk under it matches. An unknown tag
    raises an InvalidInputError when the filter is used.

    Args:
        *names: Names of tags.
        where: A further filter, which must hold, too.

    Raises:
        InvalidInputError: If there is no name, or `where` is invalid.
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"tagged{short_repr(names)} needs names of tags")
    if where is not None:
        metadata_filter(where)
    return NodeMask(_TagMask(names, where))


@dataclass(frozen=True, slots=True)
class _TagMask:
    """Computes the mask of `tagged`; a class so that it can be pickled."""

    names: tuple[str, ...]
    where: Where | None

    def __call__(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        mask = nodes_with_tags(snapshot, np.asarray(snapshot.tag_set.rows(self.names)))
        return mask if self.where is None else mask & metadata_filter(self.where)(snapshot)


@dataclass(slots=True)
class _Compiler:
    """Compiles one filter. A mapping that occurs several times is compiled once.

    Attributes:
        conditions: The number of conditions and logical operators so far.
        compiled: The mappings that are compiled, by id, and their parts. It keeps the mappings
            alive, because Python can reuse the id of an object that no longer exists.
    """

    conditions: int = 0
    compiled: dict[int, tuple[Mapping[Any, Any], Part]] = field(default_factory=dict)

    def mapping(self, where: Any, path: str, depth: int) -> Part:
        """Compile a mapping below `depth` logical operators."""
        if not isinstance(where, Mapping):
            raise _refusal(
                "no_mapping",
                "{path} must be a mapping of metadata keys, not {type}",
                path=path,
                type=type(where).__name__,
            )
        _, part = self.compiled.get(id(where), (where, None))
        if depth + (part.depth if part else 0) > MAX_DEPTH:
            raise _refusal(
                "deep", "where is nested more than {most} deep: flatten it", most=MAX_DEPTH
            )
        if part:
            self._count()
            return part
        entries = [self._entry(key, value, path, depth) for key, value in where.items()]
        if not entries:
            self._count()
        part = entries[0] if len(entries) == 1 else Group(entries, needs_all=True)
        self.compiled[id(where)] = where, part
        return part

    def _entry(self, key: object, condition: Any, path: str, depth: int) -> Part:
        """Compile one entry of a mapping: a key with a condition, or a logical operator."""
        self._count()
        if not isinstance(key, str):
            raise InvalidInputError(f"{path}: key {short_repr(key)} must be a string")
        here = f"{path}[{short_repr(key)}]"
        with wrap_errors(InvalidInputError, f"{here} could not be read"):
            if key in _LOGICAL:
                if not isinstance(condition, list | tuple):
                    raise _refusal(
                        "no_filters",
                        "{path} needs a list of filters, not {value}",
                        path=here,
                        value=short_repr(condition),
                    )
                parts = [
                    self.mapping(part, f"{here}[{i}]", depth + 1)
                    for i, part in enumerate(condition)
                ]
                if key == "$or":
                    parts = _with_merged_equalities(parts)
                return Group(parts, needs_all=key == "$and", own_depth=1)
            if key == "$not":
                return Not(self.mapping(condition, here, depth + 1))
            if key.startswith("$"):
                raise _refusal(
                    "no_logical",
                    "{path}: {name} is not a logical operator: use {logical} or $not here, or "
                    "{operators} under a metadata key, as in {{'year': {{'$gte': 1890}}}}",
                    path=path,
                    name=short_repr(key),
                    logical=", ".join(_LOGICAL),
                    operators=", ".join(_OPERATORS),
                )
            self._count(_compared_one_by_one(condition))
            return KeyCondition(key, _compile_condition(condition, here))

    def _count(self, number: int = 1) -> None:
        self.conditions += number
        if self.conditions > MAX_CONDITIONS:
            raise _refusal(
                "many",
                "where has more than {most:,} conditions: use $in to compare a key with many "
                "values",
                most=MAX_CONDITIONS,
            )


def _compared_one_by_one(condition: Any) -> int:
    """Return the number of values that each value of the index is compared with in turn."""
    if not isinstance(condition, Mapping):
        return 0
    given = [condition.get(name) for name in ("$contains", "$icontains", "$all")]
    return sum(len(one) for one in given if isinstance(one, list | tuple | set | frozenset))


def _with_merged_equalities(parts: Sequence[Part]) -> list[Part]:
    """Combine conditions of an `$or` that compare one key with one value each.

    A single set lookup replaces them, so the cost does not grow with the number of conditions.
    """
    options: dict[str, set[str]] = {}
    others = list[Part]()
    for part in parts:
        test = part.tests[0] if isinstance(part, KeyCondition) and len(part.tests) == 1 else None
        if isinstance(part, KeyCondition) and isinstance(test, _OneOf) and len(test.options) == 1:
            options.setdefault(part.key, set()).update(test.options)
        else:
            others.append(part)
    merged = [KeyCondition(key, [_OneOf(frozenset(one))]) for key, one in options.items()]
    return [*merged, *others]


def _compile_condition(condition: Any, path: str) -> list[ConditionTest]:
    """Return the tests for a key's value: one per operator, or a single equality test."""
    keys = condition if isinstance(condition, Mapping) else ()
    if not any(isinstance(key, str) and key.startswith("$") for key in keys):
        return [_equals(path, condition)]
    for name in condition:
        if name in _LOGICAL or name == "$not":
            raise _refusal(
                "misplaced",
                "{path}: {name} combines filters: put it next to metadata keys, not under one",
                path=path,
                name=name,
            )
        if name not in _OPERATORS:
            raise _refusal(
                "no_operator",
                "{path}: {name} is not an operator: use {operators} ($eq matches an object that "
                "has such keys)",
                path=path,
                name=short_repr(name),
                operators=", ".join(_OPERATORS),
            )
    return [_OPERATORS[name](f"{path}: {name}", value) for name, value in condition.items()]


def _refusal(code: str, template: str, **values: Any) -> InvalidInputError:
    return InvalidInputError(CodedText(f"filter_{code}", template, **values))


def _needs(code: str, what: str, path: str, value: Any) -> InvalidInputError:
    template = f"{{path}} needs {what}, not {{value}}"
    return _refusal(f"needs_{code}", template, path=path, value=short_repr(value))


@dataclass(frozen=True, slots=True)
class _OneOf:
    """Accepts values, and lists with an element, that equal one of the options.

    Attributes:
        options: Results of `_equality_key`.
    """

    options: frozenset[str]

    def __call__(self, value: Any) -> bool:
        if value is MISSING:
            return False
        return any(_equality_key(one) in self.options for one in with_elements(value))


def _equals(path: str, value: Any) -> _OneOf:
    return _OneOf(frozenset((_checked_key(path, value),)))


def _is_in(path: str, values: Any) -> _OneOf:
    if not isinstance(values, list | tuple | set | frozenset | range):
        raise _needs("list", "a list", path, values)
    # A range's len() may overflow.
    if values[MAX_COUNT:] if isinstance(values, range) else len(values) > MAX_COUNT:
        raise _refusal(
            "long",
            "{path} takes up to {most:,} values: use $gte and $lt instead",
            path=path,
            most=MAX_COUNT,
        )
    return _OneOf(frozenset(_checked_key(path, value) for value in values))


def _has_all(path: str, values: Any) -> ConditionTest:
    if not isinstance(values, list | tuple | set | frozenset):
        raise _needs("list", "a list", path, values)
    tests = [_equals(path, value) for value in values]
    return lambda actual: bool(tests) and all(test(actual) for test in tests)


def _has_size(path: str, size: Any) -> ConditionTest:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _needs("size", "a number of elements of at least 0", path, size)
    return lambda actual: isinstance(actual, list | tuple) and len(actual) == size


def _contains(path: str, values: Any) -> ConditionTest:
    options = values if isinstance(values, list | tuple | set | frozenset) else (values,)
    texts = [one for one in options if isinstance(one, str)]
    is_option = _is_in(path, options)

    def test(actual: Any) -> bool:
        if isinstance(actual, str):
            return any(text in actual for text in texts)
        return isinstance(actual, list | tuple) and any(map(is_option, actual))

    return test


def _contains_in_any_case(path: str, values: Any) -> ConditionTest:
    options = values if isinstance(values, list | tuple | set | frozenset) else (values,)
    if not all(isinstance(one, str) for one in options):
        raise _needs("texts", "a text or a list of texts", path, values)
    test = _contains(path, [one.casefold() for one in options])
    return lambda actual: test(_folded(actual))


def _folded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_folded(one) for one in value]
    return value.casefold() if isinstance(value, str) else value


def _is_empty(path: str, value: Any) -> ConditionTest:
    wanted = _checked_bool(path, value)
    return lambda actual: (actual is MISSING or actual in (None, "", [])) == wanted


def _exists(path: str, value: Any) -> ConditionTest:
    wanted = _checked_bool(path, value)
    return lambda actual: (actual is not MISSING) == wanted


def _checked_bool(path: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _needs("bool", "True or False", path, value)
    return bool(value)


def _negated(make: _MakeTest) -> _MakeTest:
    def make_negated(path: str, value: Any) -> ConditionTest:
        test = make(path, value)
        return lambda actual: not test(actual)

    return make_negated


def _ordered(compare: Callable[[Any, Any], bool]) -> _MakeTest:
    def make(path: str, value: Any) -> ConditionTest:
        try:
            bound = json.loads(_canonical(value))
        except _NOT_JSON:
            bound = None
        kind = ordered_kind(bound)
        if kind is None:
            raise _refusal(
                "no_bound",
                "{path} needs a finite number or a string (an ISO date, for example), not {value}: "
                "to leave a side unbounded, omit the operator",
                path=path,
                value=short_repr(value),
            )
        return lambda actual: any(
            ordered_kind(one) is kind and compare(one, bound) for one in with_elements(actual)
        )

    return make


def with_elements(value: Any) -> Sequence[Any]:
    """Return a value and, if it is a list, its elements: a condition holds for any, as in MongoDB.

    >>> with_elements("Oslo"), with_elements(["Oslo", "Rome"])
    (('Oslo',), (['Oslo', 'Rome'], 'Oslo', 'Rome'))
    """
    return (value, *value) if isinstance(value, list | tuple) else (value,)


def ordered_kind(value: object) -> type | None:
    """Return the type of values that can be ordered relative to this one, or None."""
    if isinstance(value, str):
        return str
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return None


_LOGICAL = ("$and", "$or")

_OPERATORS: Mapping[str, _MakeTest] = {
    "$eq": _equals,
    "$ne": _negated(_equals),
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
    "$in": _is_in,
    "$nin": _negated(_is_in),
    "$all": _has_all,
    "$size": _has_size,
    "$contains": _contains,
    "$icontains": _contains_in_any_case,
    "$exists": _exists,
    "$empty": _is_empty,
}


def _checked_key(path: str, value: Any) -> str:
    try:
        return _equality_key(value)
    except _NOT_JSON as error:
        raise InvalidInputError(
            f"{path}: {short_repr(value)} is not a JSON value: use str, int, finite float, bool, "
            "None, lists and dicts"
        ) from error


def _equality_key(value: Any) -> str:
    """Return a string that is the same for equal values only: 1 equals 1.0, but not True or "1".

    Most values are strings and numbers, which are not encoded as JSON, because `$in` can list
    millions of them.
    """
    if isinstance(value, str):
        # No other key starts with a quotation mark. A subclass can override __str__, as enums do.
        return '"' + str.__str__(value)
    if type(value) is float and math.isfinite(value):
        value = _without_fraction(value)
        return float.__repr__(value) if type(value) is float else int.__repr__(value)
    if type(value) is int:
        return int.__repr__(value)
    return _canonical(value)


def _canonical(value: Any) -> str:
    """Return JSON text that is the same for equal values, so 1.0 becomes 1 at any depth."""
    text = _ENCODER.encode(value)
    return json.dumps(json.loads(text, parse_float=_parse_number), sort_keys=True)


def _parse_number(text: str) -> float:
    return _without_fraction(float(text))


def _without_fraction(number: float) -> float:
    return int(number) if number.is_integer() else number


def _from_numpy(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a JSON type")


_ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=False, default=_from_numpy)
"""Created once, because every test of a record encodes a value."""
