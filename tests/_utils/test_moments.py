"""Dates of every precision as periods."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.moments import (
    INVALID,
    Period,
    end_moment,
    first_moment,
    parse_period,
)
from strategies import quick

UTC = dt.UTC


def milliseconds(*date: int) -> int:
    return round(dt.datetime(*date, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("value", "first", "end"),
    [
        ("2024", (2024, 1, 1), (2025, 1, 1)),
        (2024, (2024, 1, 1), (2025, 1, 1)),
        ("2024-02", (2024, 2, 1), (2024, 3, 1)),
        ("2024-12", (2024, 12, 1), (2025, 1, 1)),
        (" 2024-02-29\n", (2024, 2, 29), (2024, 3, 1)),
        ("20240229", (2024, 2, 29), (2024, 3, 1)),
        (dt.date(2024, 2, 29), (2024, 2, 29), (2024, 3, 1)),
        ("1066-10-14", (1066, 10, 14), (1066, 10, 15)),
    ],
    ids=str,
)
def test_days_months_and_years_are_periods(value, first, end):
    assert parse_period(value) == Period(milliseconds(*first), milliseconds(*end))


@pytest.mark.parametrize(
    "value",
    [
        "2024-05-01T12:00",
        "2024-05-01 12:00:00Z",
        "2024-05-01T14:00+02:00",
        "2024-05-01T12:00:00.0004",
        dt.datetime.fromisoformat("2024-05-01T12:00"),
        dt.datetime(2024, 5, 1, 7, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    ],
    ids=str,
)
def test_a_time_is_a_millisecond_in_utc(value):
    first = milliseconds(2024, 5, 1, 12)
    assert parse_period(value) == Period(first, first + 1)


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_blank_values_are_no_date(value):
    assert parse_period(value) is None
    assert math.isnan(first_moment(value))


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", "2024-13", "2024-02-30", "24-05-01", "05/01/2024", "2024-5", "2024-W07"),
        *("2024-05-01T25:00", "2024-05-01Tnoon", "2024-W07-1T10:00"),
        *(0, 10_000, 1_714_521_600, 10**30, 2024.0, True, ["2024"], {"year": 2024}, "2024-05-01\0"),
    ],
    ids=repr,
)
def test_other_values_are_invalid(value):
    with pytest.raises((ValueError, OverflowError)):
        parse_period(value)
    assert first_moment(value) == end_moment(value) == INVALID


@pytest.mark.parametrize(
    "value", ["9999", "9999-12", "9999-12-31", "0001-01-01", "9999-12-31T23:59-12:00"]
)
def test_the_ends_of_the_calendar_are_dates(value):
    period = parse_period(value)
    assert period is not None
    assert period.first < period.end


@quick
@given(st.datetimes(timezones=st.timezones() | st.none()))
def test_text_and_objects_mean_the_same_moment(moment):
    assert parse_period(moment.isoformat()) == parse_period(moment)
    day = parse_period(moment.date())
    assert day == parse_period(moment.date().isoformat())
    month = parse_period(moment.date().isoformat()[: len("2024-05")])
    year = parse_period(moment.year)
    assert year.first <= month.first <= day.first < day.end <= month.end <= year.end
