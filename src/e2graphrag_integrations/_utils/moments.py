"""Dates of any precision as periods, in whole milliseconds since 1970 in UTC."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from typing import Any

INVALID = math.inf
"""Represents a value that is not a date. It raises only if a filter admits a node with it."""

_DAY = 86_400_000
_EPOCH = dt.date(1970, 1, 1).toordinal()
_YEAR_OR_MONTH = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d\d))?")


@dataclass(frozen=True, slots=True)
class Period:
    """A day, month or year, or the millisecond of a time.

    Attributes:
        first: Its first millisecond.
        end: The first millisecond after it.
    """

    first: int
    end: int


def parse_period(value: Any) -> Period | None:
    """Return the period that a date means; None if it is missing or blank.

    Args:
        value: A date or a datetime; ISO 8601 text: a year, a month, a day, or a day with a time,
            but no week; or a year as an integer. A time without a zone is in UTC, as are all days.

    Raises:
        ValueError: If it is none of these.

    >>> year, day = parse_period("2024"), parse_period("2024-12-31")
    >>> year.first < day.first, year.end == day.end
    (True, True)
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, dt.date):
        return _period_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _days(dt.date(value, 1, 1), _ordinal_after(value, 12))
    text = value.strip() if isinstance(value, str) else ""
    if not text or "W" in text:  # Python reads a week as its Monday
        raise ValueError("not a date")
    if match := _YEAR_OR_MONTH.fullmatch(text):
        year, month = int(match["year"]), int(match["month"] or 1)
        last = month if match["month"] else 12
        return _days(dt.date(year, month, 1), _ordinal_after(year, last))
    try:
        return _period_of(dt.date.fromisoformat(text))
    except ValueError:
        return _period_of(dt.datetime.fromisoformat(text))


def _period_of(value: dt.date) -> Period:
    if not isinstance(value, dt.datetime):
        return _days(value, value.toordinal() + 1)
    first = _millisecond(value)
    return Period(first, first + 1)


def first_moment(value: Any) -> float:
    """Return the first millisecond of a date; NaN if it is blank, `INVALID` if it is no date."""
    return _moment(value, is_end=False)


def end_moment(value: Any) -> float:
    """Return the first millisecond after a date; NaN if it is blank, `INVALID` if it is no date."""
    return _moment(value, is_end=True)


def _moment(value: Any, *, is_end: bool) -> float:
    try:
        period = parse_period(value)
    except (ValueError, OverflowError):
        return INVALID
    if period is None:
        return math.nan
    return float(period.end if is_end else period.first)


def _days(first: dt.date, end: int) -> Period:
    return Period((first.toordinal() - _EPOCH) * _DAY, (end - _EPOCH) * _DAY)


def _ordinal_after(year: int, month: int) -> int:
    """Return the ordinal of the day after a month, also of the last month of year 9999."""
    if month == 12:  # noqa: PLR2004 - December
        return dt.date(year, 12, 31).toordinal() + 1
    return dt.date(year, month + 1, 1).toordinal()


def _millisecond(moment: dt.datetime) -> int:
    # Not by timestamp(), which fails for a zone at the ends of the calendar.
    offset = moment.utcoffset() or dt.timedelta()
    clock = dt.timedelta(
        moment.toordinal() - _EPOCH,
        hours=moment.hour,
        minutes=moment.minute,
        seconds=moment.second,
        microseconds=moment.microsecond,
    )
    return (clock - offset) // dt.timedelta(milliseconds=1)
