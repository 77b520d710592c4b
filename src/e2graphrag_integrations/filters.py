"""`where`: which nodes a question may see, by metadata, decided before any ranking."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.checks import shown
from e2graphrag_integrations.errors import FilterError
from e2graphrag_integrations.store.snapshot import Records, Snapshot

Predicate = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class NodeMask:
    """A filter that is not one of metadata: makes the mask over a snapshot's nodes itself."""

    make: Callable[[Snapshot], NDArray[np.bool_]]


Where = Mapping[str, Any] | Predicate | NodeMask

_MISSING = object()


def compile_where(where: Where) -> Predicate:
    """Turn a filter into a test of one metadata record.

    `{"author": "Wells", "year": {"$in": [1894, 1895]}}` holds where every key does. The key
    `document_id` stands for the document's id. Values compare as JSON does: `1` is not `true`. A
    missing key matches nothing. A function of the metadata is taken as it is.

    Raises:
        FilterError: For anything else, naming the key.
    """
    if not isinstance(where, Mapping) and callable(where):
        return where
    if not isinstance(where, Mapping):
        raise FilterError(f"where must be a mapping of metadata keys, not {type(where).__name__}")
    tests = [(key, _options(key, condition)) for key, condition in where.items()]

    def holds(record: Mapping[str, Any]) -> bool:
        return all(_canonical(record.get(key, _MISSING)) in options for key, options in tests)

    return holds


def allowed_nodes(records: Records, predicate: Predicate) -> NDArray[np.bool_]:
    """Return the mask of nodes all of whose records pass: a summary only if all its leaves do."""
    passes = np.zeros(len(records.values), dtype=np.bool_)
    for row in np.unique(records.of_node).tolist():  # a function need not bear others
        passes[row] = predicate(records.values[row])
    failures = np.concatenate([[0], np.cumsum(~passes[records.of_node])])
    mask: NDArray[np.bool_] = failures[records.last] == failures[records.first]
    return mask


def metadata_filter(where: Where) -> Callable[[Snapshot], NDArray[np.bool_]]:
    """Return the filter of nodes that `where` stands for.

    Raises:
        FilterError: If it is not understood.
    """
    if isinstance(where, NodeMask):
        return where.make
    predicate = compile_where(where)
    return lambda snapshot: allowed_nodes(snapshot.records, predicate)


def _options(key: object, condition: Any) -> frozenset[str]:
    if not isinstance(key, str):
        raise FilterError(f"where: key {shown(key)} is not a string")
    if key.startswith("$"):
        raise FilterError(f"where: {key!r} is not supported; use metadata keys with a value or $in")
    values: Any = [condition]
    if isinstance(condition, Mapping) and any(str(k).startswith("$") for k in condition):
        if set(condition) != {"$in"}:
            raise FilterError(
                f"where[{key!r}]: only {{'$in': [...]}} is supported, not {shown(condition)}"
            )
        values = condition["$in"]
        if not isinstance(values, list | tuple | set | frozenset | range):
            raise FilterError(f"where[{key!r}]: $in needs a list, not {shown(values)}")
    try:
        return frozenset(_canonical(value) for value in values)
    except (TypeError, ValueError, RecursionError) as error:
        raise FilterError(f"where[{key!r}]: {shown(condition)} is no JSON value") from error


def _canonical(value: Any) -> str:
    """Return JSON that is equal for equal values: 1.0 is 1, at any depth."""
    if value is _MISSING:
        return ""  # no JSON text is empty
    text = json.dumps(value, sort_keys=True, allow_nan=False, default=_from_numpy)
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
