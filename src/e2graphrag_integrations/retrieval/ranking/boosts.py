"""Boosts: the user's preferences for tags, documents, recent dates and values in the metadata."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from typing import Any, Literal

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations._utils.moments import INVALID, first_moment
from e2graphrag_integrations._utils.validation import closest_or_all, short_repr
from e2graphrag_integrations.errors import InvalidInputError, UnknownDocumentError
from e2graphrag_integrations.pages import PAGE_ID
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.tags import TAGS_PER_CHUNK, has_tag_vectors, tags_of_nodes

BoostScale = Literal["linear", "log"]
BOOST_SCALES: tuple[BoostScale, ...] = ("linear", "log")

_MAX_WEIGHT = 1_000.0
"""Largest weight of a tag, a document or recency."""

_MAX_VALUE = 1e9
"""Largest value of a numeric field."""

_DATE = "date"
"""The default metadata key of dates."""

_DAY = 86_400_000.0
"""Milliseconds per day."""


@dataclass(frozen=True)
class Boosts:
    """Preferences that multiply the scores of the candidates of a strategy.

    The score of a node is multiplied by the product of four factors::

        tags       the weights of the node's tags, multiplied
        documents  the weight of its document
        field      its value v of `boost_field`, or 1 + ln(1 + v) with `boost_scale="log"`
        recency    1 + recency_weight * 0.5 ** (age in days / half_life_days)

    A factor is 1 if it is not used, or if the node has no such tag, value or date. A node whose
    segments differ has the mean of their factors. Scores of strategies that can be negative are
    shifted first, so that the lowest is 0.

    Attributes:
        tag: Weights of tags of the index, from 0 to 1,000; 2.0 doubles the score.
        documents: Weights of documents by id, from 0 to 1,000.
        boost_field: Metadata key of a number of at least 0, such as a priority.
        boost_scale: `linear`, or `log` for values such as counts.
        half_life_days: Age in days at which the preference for recent nodes has halved.
        date_field: Metadata key of a date: ISO 8601 text, which may be a year, a month, a day or a
            time, or a year as an integer. The age counts from its beginning, in UTC without a zone.
        recency_weight: Strength of the preference for recent nodes: a node of today has the factor
            `1 + recency_weight`, and a very old one 1.
        now: The date from which ages are counted; None means now. A later date has age 0.

    Raises:
        InvalidInputError: If a value is invalid.
    """

    tag: Mapping[str, float] = field(default_factory=dict)
    documents: Mapping[str, float] = field(default_factory=dict)
    boost_field: str | None = None
    boost_scale: BoostScale = "linear"
    half_life_days: float | None = None
    date_field: str = _DATE
    recency_weight: float = 1.0
    now: date | str | None = None

    def __post_init__(self) -> None:
        for name in ("tag", "documents"):
            object.__setattr__(self, name, _checked_weights(name, getattr(self, name)))
        named = {unicodedata.normalize("NFC", name): one for name, one in self.tag.items()}
        object.__setattr__(self, "tag", named)  # as `Tag` does
        for name in ("boost_field", "date_field"):
            key = getattr(self, name)
            if not (isinstance(key, str) and key.strip()) and (key, name) != (None, "boost_field"):
                raise _refusal(
                    "no_key",
                    "{name}={value} must be a metadata key",
                    name=name,
                    value=short_repr(key),
                )
        if self.boost_scale not in BOOST_SCALES:
            raise _refusal(
                "scale",
                "boost_scale={value} must be linear or log",
                value=short_repr(self.boost_scale),
            )
        weight = _checked_number("recency_weight", self.recency_weight)
        object.__setattr__(self, "recency_weight", weight)
        if self.half_life_days is not None:
            days = _checked_number("half_life_days", self.half_life_days, least=1e-6, most=1e6)
            object.__setattr__(self, "half_life_days", days)
        elif (self.date_field, weight, self.now) != (_DATE, 1.0, None):
            raise _refusal(
                "no_age",
                "date_field, recency_weight and now have no effect without half_life_days",
            )
        if self.boost_field is None and self.boost_scale != "linear":
            raise _refusal("no_field", "boost_scale has no effect without boost_field")
        if self.now is not None:
            is_date = isinstance(self.now, date | str)
            if not is_date or not math.isfinite(_date(self.now)):
                raise _refusal(
                    "now",
                    "now={value} must be a date, or an ISO 8601 date such as '2024-05-01'",
                    value=short_repr(self.now),
                )

    @property
    def is_neutral(self) -> bool:
        """Whether no preference is set."""
        return not (self.tag or self.documents or self.boost_field or self.half_life_days)

    def at(self, now: datetime) -> Boosts:
        """Return boosts whose ages are counted from a time, unless `now` is set."""
        return replace(self, now=now) if self.half_life_days and self.now is None else self

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that have an effect as JSON values."""
        values: dict[str, Any] = {"tag": dict(self.tag), "documents": dict(self.documents)}
        if self.boost_field is not None:
            values |= {"boost_field": self.boost_field, "boost_scale": self.boost_scale}
        if self.half_life_days is not None:
            values |= {
                "half_life_days": self.half_life_days,
                "date_field": self.date_field,
                "recency_weight": self.recency_weight,
                "now": None if self.now is None else _iso(self.now),
            }
        return {name: value for name, value in values.items() if value not in ({}, None)}


Boost = Boosts | Mapping[str, Any]
"""Boosts as users give them: an object, or a mapping with its fields."""


def as_boosts(boost: Any) -> Boosts:
    """Return boosts, given as an object or as a mapping with its fields.

    Raises:
        InvalidInputError: If the mapping has an unknown key, or a value is invalid.
    """
    if isinstance(boost, Boosts):
        return boost
    if not isinstance(boost, Mapping):
        raise InvalidInputError(
            f"boost={short_repr(boost)} must be Boosts(...), or a mapping such as "
            "{'tag': {'billing': 2.0}}"
        )
    known = [one.name for one in fields(Boosts)]
    for name in boost:
        if name not in known:
            raise InvalidInputError(
                CodedText(
                    "boost_unknown_key",
                    "boost has the unknown key {key}: {hint}",
                    key=short_repr(name),
                    hint=closest_or_all(name, known),
                    keys=", ".join(known),
                )
            )
    return Boosts(**boost)


class BoostFactors:
    """The factors of nodes in one snapshot.

    Args:
        boosts: The boosts, with `now` set if they use it.
        snapshot: The index.
        allowed: Mask of the nodes that a filter admits; None admits all. Values of other nodes are
            not read, so that no error message shows them.

    Raises:
        InvalidInputError: If a tag is unknown, or if an admitted node has a value or a date that
            cannot be used.
        UnknownDocumentError: If a document is unknown.
    """

    def __init__(self, boosts: Boosts, snapshot: Snapshot, allowed: Any = None) -> None:
        self._boosts = boosts
        self._snapshot = snapshot
        self._records: dict[str, Floats] = {}
        self._check_tags()
        self._documents = self._document_weights()
        used = snapshot.records.used_by(allowed)
        if boosts.boost_field is not None:
            values = self._numbers(boosts.boost_field, _value, used)
            values = values if boosts.boost_scale == "linear" else 1 + np.log1p(values)
            self._records[f"field {boosts.boost_field}"] = np.where(np.isnan(values), 1.0, values)
        if boosts.half_life_days is not None:
            dates = self._numbers(boosts.date_field, _date, used)
            today = _date(datetime.now(UTC) if boosts.now is None else boosts.now)
            ages = np.maximum(0.0, today - dates) / boosts.half_life_days
            recency = 1 + boosts.recency_weight * 0.5**ages
            name = f"recency of {boosts.date_field}"
            self._records[name] = np.where(np.isnan(dates), 1.0, recency)
        self._used = used

    @property
    def spread(self) -> float:
        """The highest factor that a node can have, relative to the lowest."""
        if not len(self._used):
            return 1.0
        weights = np.asarray(list(self._boosts.tag.values()))
        above, below = np.sort(weights[weights > 1]), np.sort(weights[weights < 1])
        highest = float(np.prod(above[-TAGS_PER_CHUNK:]))
        lowest = float(np.prod(below[:TAGS_PER_CHUNK]))
        for factors in (np.asarray([1.0, *self._documents.values()]), *self._record_factors()):
            highest *= float(factors.max(initial=0.0))
            lowest *= float(factors.min(initial=np.inf))
        return highest / lowest if lowest > 0 else math.inf

    def of(self, rows: IntArray) -> tuple[Floats, list[dict[str, float]]]:
        """Return the factor of each node, and its parts that differ from 1, by name."""
        parts: list[dict[str, float]] = [{} for _ in rows]
        if self._boosts.tag:
            for own, names in zip(parts, tags_of_nodes(self._snapshot, rows), strict=True):
                own |= {
                    f"tag {name}": self._boosts.tag[name]
                    for name in names
                    if name in self._boosts.tag
                }
        columns = dict(self._records)
        if self._documents:
            columns["document"] = self._weights_of_records
        for name, column in columns.items():
            means = _means_under(self._snapshot.records, rows, column)
            for own, mean in zip(parts, means.round(6).tolist(), strict=True):
                own[name] = mean
        parts = [{name: one for name, one in own.items() if one != 1} for own in parts]
        factors = np.asarray([math.prod(own.values()) for own in parts])
        return factors, parts

    def _check_tags(self) -> None:
        if not self._boosts.tag:
            return
        self._snapshot.tag_set.rows(self._boosts.tag)
        if self._snapshot.made_with and not has_tag_vectors(self._snapshot):
            raise InvalidInputError(
                "the tags were embedded with another model than the documents: call set_tags() "
                "again"
            )

    def _document_weights(self) -> dict[int, float]:
        """Return the weights of metadata records that belong to one of the documents."""
        if not self._boosts.documents:
            return {}
        records = self._snapshot.records
        weights: dict[int, float] = {}
        unknown = dict(self._boosts.documents)
        # A page of a file is a document in LlamaIndex and LangChain; the file is one in the core.
        for key in (PAGE_ID, records.id_key):
            places = records.places(key)
            wanted = {places[id_]: id_ for id_ in self._boosts.documents if id_ in places}
            for id_ in wanted.values():
                unknown.pop(id_, None)
            of_record = records.column(key, None)[1]
            for row in np.flatnonzero(np.isin(of_record, list(wanted))).tolist():
                weights[row] = self._boosts.documents[wanted[int(of_record[row])]]
        if unknown:
            name = next(iter(unknown))
            known = self._snapshot.documents
            if name not in known:  # a document without text has no metadata records
                raise UnknownDocumentError(f"boost: no document {name!r} is in the index", name)
        return weights

    @property
    def _weights_of_records(self) -> Floats:
        column = np.ones(len(self._snapshot.records.values))
        column[list(self._documents)] = list(self._documents.values())
        return column

    def _record_factors(self) -> list[Floats]:
        return [column[self._used] for column in self._records.values()]

    def _numbers(self, key: str, convert: Callable[[Any], float], used: IntArray) -> Floats:
        """Return the value of a key in each record as a number, or NaN if it is missing."""
        records = self._snapshot.records
        numbers = records.numbers(key, convert)
        invalid = used[numbers[used] == INVALID]
        if len(invalid):
            record = records.values[int(invalid[0])]
            document = record.get(PAGE_ID, record[records.id_key])
            code, needed = (
                ("no_date", "an ISO 8601 date such as '2024-05-01'")
                if convert is _date
                else ("no_value", f"a number from 0 to {_MAX_VALUE:,.0f}")
            )
            raise _refusal(
                code,
                f"document {{document!r}} has {{key}}={{value}}, which is not {needed}: update its "
                "metadata, or exclude it with a filter",
                document=document,
                key=key,
                value=short_repr(record[key]),
                most=_MAX_VALUE,
            )
        return numbers


def _means_under(records: MetadataRecords, rows: IntArray, column: Floats) -> Floats:
    """Return the mean of a column of the records under each node."""
    starts, ends = records.starts[rows], records.ends[rows]
    sizes = ends - starts
    values = column[records.indices[concatenated_ranges(starts, sizes)]]
    bounds = exclusive_sums(sizes)
    means: Floats = np.add.reduceat(values, bounds[:-1]) / sizes if len(rows) else np.empty(0)
    return means


def _value(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MAX_VALUE else INVALID


def _date(value: Any) -> float:
    """Return the days between 1970 and the beginning of a date; NaN if it is blank."""
    return first_moment(value) / _DAY


def _iso(moment: date | str) -> str:
    return moment.isoformat() if isinstance(moment, date) else moment


def _refusal(code: str, template: str, **values: Any) -> InvalidInputError:
    return InvalidInputError(CodedText(f"boost_{code}", f"boost: {template}", **values))


def _checked_weights(name: str, given: Any) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise _refusal(
            "no_weights",
            "{name}={value} must map names to weights, as in {{'a': 2.0}}",
            name=name,
            value=short_repr(given),
        )
    for key in given:
        if not isinstance(key, str):
            raise InvalidInputError(
                f"boost: {name} has the key {short_repr(key)}, which is not a string"
            )
    return {key: _checked_number(f"{name}[{key!r}]", weight) for key, weight in given.items()}


def _checked_number(name: str, value: Any, least: float = 0.0, most: float = _MAX_WEIGHT) -> float:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # also excludes NaN
        above = "above 0" if least else "from 0"
        raise _refusal(
            "no_number",
            f"{{name}}={{value}} must be a number {above} to {{most:,.0f}}",
            name=name,
            value=short_repr(value),
            most=most,
        )
    return float(value)
