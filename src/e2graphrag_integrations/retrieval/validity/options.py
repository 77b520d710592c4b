"""The options of facts in time: a date, and the metadata keys with dates and versions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from e2graphrag_integrations._utils.moments import parse_period
from e2graphrag_integrations._utils.validation import closest_or_all, short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.types import SUPERSEDES

Moment = dt.date | str | int
"""A date: a `date` or `datetime`, ISO 8601 text such as `2024-05`, or a year."""


@dataclass(frozen=True)
class Validity:
    """The date at which answers hold, and the metadata keys with dates and versions.

    A fact holds at a date if `valid_from <= date` and `date <= valid_to`. A missing or blank key
    leaves that side open, so documents without dates always hold. A day, month or year counts as a
    whole: `valid_from` begins with its first moment, `valid_to` ends with its last, and `at` means
    its last moment. Times are compared to the millisecond; without a zone, they are in UTC.

    A version is newer than those that it supersedes, and than earlier ones of its `source`. The
    newest of the versions that the scope, the filter and the date admit comes before older ones.

    Attributes:
        at: The date; None does not restrict the answer. No clock is read.
        valid_from, valid_to: Metadata keys of the first and the last date; None uses none.
        date: Metadata key of the date of a version, of which the date is `valid_from` without it.
            With `at`, a version holds from this date on, unless it has a `valid_from`.
        supersedes: Metadata key of the id of an older version, or a list of ids. Unknown ids are
            ignored.
        source: Metadata key that several versions share, such as a URL; None uses none. They are
            versions only if their dates differ.
        closed: Whether a fact still holds on the day, in the month or year, or at the time of
            `valid_to`. False ends it just before.

    Raises:
        InvalidInputError: If the date or a key is invalid.
    """

    at: Moment | None = None
    valid_from: str | None = "valid_from"
    valid_to: str | None = "valid_to"
    date: str | None = "date"
    supersedes: str | None = SUPERSEDES
    source: str | None = None
    closed: bool = True

    def __post_init__(self) -> None:
        for name in ("valid_from", "valid_to", "date", "supersedes", "source"):
            key = getattr(self, name)
            if key is not None and not (isinstance(key, str) and key.strip()):
                raise InvalidInputError(
                    f"as_of: {name}={short_repr(key)} must be a metadata key or None"
                )
        if not isinstance(self.closed, bool):
            raise InvalidInputError(
                f"as_of: closed={short_repr(self.closed)} must be True or False"
            )
        if self.at is not None:
            try:
                period = parse_period(self.at)
            except (ValueError, OverflowError):
                period = None
            if period is None:
                raise InvalidInputError(
                    f"as_of={short_repr(self.at)} must be a date, or ISO 8601 text such as "
                    "'2024-05-01', '2024-05' or '2024-05-01T12:00+02:00'"
                )

    @property
    def moment(self) -> int | None:
        """The last millisecond of `at`, counted from 1970 in UTC."""
        period = parse_period(self.at)
        return None if period is None else period.end - 1

    @property
    def described(self) -> str:
        """The date as ISO 8601 text; empty without a date."""
        if self.at is None:
            return ""
        return self.at.isoformat() if isinstance(self.at, dt.date) else str(self.at).strip()


AsOf = Moment | Validity | Mapping[str, Any]
"""A date; or a date and keys, as `Validity` or a mapping with its fields."""


def as_validity(as_of: Any) -> Validity:
    """Return the options of `as_of`, given as a date, an object, or a mapping with its fields.

    Raises:
        InvalidInputError: If the mapping has an unknown key, or a value is invalid.
    """
    if isinstance(as_of, Validity):
        return as_of
    if not isinstance(as_of, Mapping):
        if as_of is None:
            raise InvalidInputError("as_of=None must be a date: omit it to search without one")
        return Validity(as_of)
    known = [one.name for one in fields(Validity)]
    for name in as_of:
        if name not in known:
            hint = closest_or_all(name, known)
            raise InvalidInputError(f"as_of has the unknown key {short_repr(name)}: {hint}")
    return Validity(**as_of)


def options_of(as_of: AsOf | None) -> tuple[Validity, ...]:
    """Return the `Query.options` of an `as_of`; none if it is None.

    Raises:
        InvalidInputError: If it is invalid.
    """
    return () if as_of is None else (as_validity(as_of),)
