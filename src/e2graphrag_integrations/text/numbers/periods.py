"""Parts of years and weeks, and ranges: `Q3 2024`, `KW 12`, `FY20`, `Mon-Fri`, `2014-2018`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from e2graphrag_integrations.text.numbers.english import CARDINAL, one_of
from e2graphrag_integrations.text.numbers.han import HAN_DIGITS

_NUMBERS = MappingProxyType(
    {
        written: number
        for number, line in enumerate(
            ("1 1st first 一 上", "2 2nd second 二 下", "3 3rd third 三", "4 4th fourth 四"), 1
        )
        for written in line.split()
    }
)
_ORDINAL = "|".join(one for one in _NUMBERS if one.isascii() and len(one) > 1)
_YEAR = r"(?:(?:19|20)\d\d|['’]\d\d)(?!\d)"
_OF = r"(?:\ ?[/,-]\ ?|\ (?:of\ )?(?:the\ )?(?:fiscal\ )?(?:year\ |fy\ ?)?)"

_PERIOD = re.compile(
    rf"""
      (?<![\w.])(?P<kind1>[qh])(?P<n1>[1-4])(?!\w)(?:{_OF}?(?P<y1>{_YEAR}|(?<=fy)\d\d(?!\d)))?
    | (?<![\w.-])(?P<n2>[1-4])(?P<kind2>[qh])\ ?(?P<y2>(?:20)?\d\d)(?!\w)
    | (?<![\w.-])(?P<y3>(?:19|20)\d\d)[\ /-]?(?P<kind3>[qh])(?P<n3>[1-4])(?!\w)
    | (?<!\w)(?P<n4>{_ORDINAL})[\ -](?P<kind4>quarter|half)(?!\w)(?:{_OF}(?P<y4>{_YEAR}))?
    | (?<!\w)(?P<n5>[1-4])\.\ (?P<kind5>quartal|halbjahr)(?!\w)(?:\ (?P<y5>{_YEAR}))?
    | (?:(?P<y6>(?:19|20)\d\d)\ ?[年년]\ ?)?(?:第\ ?)?
      (?P<n6>[1-4一二三四])\ ?(?P<kind6>季度|四半期|분기)
    | (?P<y7>(?:19|20)\d\d)\ ?年\ ?(?P<n7>[上下])(?P<kind7>半年)
    | (?<!\w)(?P<kind8>calendar\ week|week|kw|cw)\.?\ ?(?P<n8>\d\d?)
      (?:{_OF}(?P<y8>{_YEAR})|(?![\w-]|[.,/:]\d))
    | (?<![\w.])(?P<y9>(?:19|20)\d\d)-?(?P<kind9>w)(?P<n9>\d\d)(?!\w)
    | (?<!\w)(?:fy|(?:fiscal|financial)(?:\ year)?|geschäftsjahr(?:es)?)[\ -]?
      (?P<y10>{_YEAR}|(?<=fy)\d\d(?!\d)|(?<=fy.)\d\d(?!\d))
    | (?P<y11>(?:19|20)\d\d)(?:年)?财年
    """,
    re.VERBOSE,
)
_PLACES = "123456789"
_YEARS = "y10", "y11"
"""The groups with a business year."""

_WORDS = re.compile(
    "quart|hal[fb]|week|[kc]w|w\\d\\d|fy|fiscal|financial|geschäfts|季度|半期|분기|半年|财年"
)
_HINTS = "half", "quart", "halb", "week", "kw", "cw", "fy", "fiscal", "financial", "-w"
_SHORT = re.compile("[1-4](?:(?<=[qh].)|[qh])")
"""The short name that a period has if it has none of these words."""

_PLACE = re.compile(f"{_SHORT.pattern}|{_WORDS.pattern}")
_BEFORE, _AFTER = 12, 40
"""Maximum number of characters of a period before such a place and after its start."""

_KINDS = MappingProxyType(
    dict.fromkeys(("h", "half", "halbjahr", "半年"), "h")
    | dict.fromkeys(("calendar week", "week", "kw", "cw", "w"), "w")
)
"""The short names of the kinds, except for quarters."""

_LAST = MappingProxyType({"q": 4, "h": 2, "w": 53})


class Period(NamedTuple):
    """A part of a year, or a business year, in a text.

    Attributes:
        start, end: Its characters, half-open.
        name: It without the year, such as `q3` or `w12`; `fy` for a business year.
        year: Its year, or "".
    """

    start: int
    end: int
    name: str
    year: str


def find_periods(lowered: str) -> Iterator[Period]:
    """Yield the parts of years and the business years in a text in lower case, in order.

    >>> [f"{one.year} {one.name}" for one in find_periods("q3 2024, 3q24, third quarter of 2024")]
    ['2024 q3', '2024 q3', '2024 q3']
    >>> [f"{one.year} {one.name}" for one in find_periods("in h1, in the second half of '23")]
    [' h1', '2023 h2']
    >>> [f"{one.year} {one.name}" for one in find_periods("kw 12, fiscal year 2020, 2024-w07")]
    [' w12', '2020 fy', '2024 w7']
    """
    # Searches for strings are faster than one for a pattern.
    has_word = any(one in lowered for one in _HINTS)
    if not has_word and not lowered.isascii():
        has_word = _WORDS.search(lowered) is not None
    if not has_word and _SHORT.search(lowered) is None:
        return
    end = 0
    for place in _PLACE.finditer(lowered):  # the pattern is slow where there is no period
        start = max(end, place.start() - _BEFORE)
        match = _PERIOD.search(lowered, start, place.start() + _AFTER)
        if match is not None:
            end = match.end()
            if (period := _period(match)) is not None:
                yield period


def _period(match: re.Match[str]) -> Period | None:
    place = next((one for one in _PLACES if match[f"n{one}"]), None)
    if place is None:
        year = next(match[one] for one in _YEARS if match[one])
        return Period(*match.span(), "fy", _complete(year))
    kind = _KINDS.get(match[f"kind{place}"], "q")
    number = int(_NUMBERS.get(match[f"n{place}"], match[f"n{place}"]))
    if not number or number > _LAST[kind]:
        return None
    return Period(*match.span(), f"{kind}{number}", _complete(match[f"y{place}"] or ""))


def _complete(year: str) -> str:
    year = year.lstrip("'’")
    return f"20{year}" if len(year) == len("24") else year


_ENGLISH_DAYS = (
    "monday mon",
    "tuesday tues tue",
    "wednesday wed",
    "thursday thurs thur thu",
    "friday fri",
    "saturday sat",
    "sunday sun",
)
_GERMAN_DAYS = (
    "montag mo",
    "dienstag di",
    "mittwoch mi",
    "donnerstag do",
    "freitag fr",
    "samstag sa",
    "sonntag so",
)
WEEKDAYS = tuple(name for line in (*_ENGLISH_DAYS, *_GERMAN_DAYS) for name in line.split())
"""The names of the days of a week in lower case, also in short."""

_MONTH_NAMES = (
    "january jan",
    "february feb",
    "march mar",
    "april apr",
    "may",
    "june jun",
    "july jul",
    "august aug",
    "september sept sep",
    "october oct",
    "november nov",
    "december dec",
)
_HAN_DAYS = "一二三四五六日天"

_TO = r"\.?\s?(?:[-–—]|to|through|thru|until|till|bis)\s?"
_MAX_YEARS = 15
"""Maximum length of a range of years of which each counts: in a longer one, no year says much."""


def _places_of(lines: Sequence[str]) -> Mapping[str, int]:
    """Return the place of each name, which begins with a capital letter or consists of them."""
    return MappingProxyType(
        {
            written: place
            for place, line in enumerate(lines)
            for name in line.split()
            for written in (name.title(), name.upper())
        }
    )


_CYCLES = tuple(
    (_places_of(lines), tuple(line.split()[0] for line in lines))
    for lines in (_ENGLISH_DAYS, _GERMAN_DAYS, _MONTH_NAMES)
)
_RANGES = tuple(
    re.compile(rf"(?<!\w)({one_of(*places)}){_TO}({one_of(*places)})(?!\w)")
    for places, _ in _CYCLES
)
# Begins with one class of characters, as `_HINT` in `codes` does.
_SHORT_DAY = re.compile(
    r"[MTWFS](?<!\w.)(?:(?:on|ON|u(?:es?)?|UE|ed|ED|h(?:u(?:rs?)?)?|HU|ri|RI|at|AT|un|UN))"
    r"\.?(?=,? ?\d|:)"
)
_LISTS = tuple(
    re.compile(
        rf"(?<!\w)(?:{one_of(*places)})"
        rf"(?:\.?(?: ?[,/&+] ?| )(?:(?:and|or|und|oder|&) )?(?:{one_of(*places)})(?!\w))+"
    )
    for places, _ in _CYCLES[:2]
)
_LIST_HINT = re.compile(r"[MTWFSD](?<!\w.)(?i:on|ue|ed|hu|ri|at|un|[oira](?!\w))")
_CAPITALIZED = re.compile(r"[A-Z]\w+")
_PARTS_OF_WEEK = MappingProxyType(
    {
        "weekend": ("saturday", "sunday"),
        "weekday": ("monday", "tuesday", "wednesday", "thursday", "friday"),
        "wochenend": ("samstag", "sonntag"),
        "werktag": ("montag", "dienstag", "mittwoch", "donnerstag", "freitag"),
        **dict.fromkeys(("周末", "週末"), ("周六", "期六", "周日", "期日")),
        "工作日": tuple(f"{week}{day}" for day in "一二三四五" for week in "周期"),
    }
)
"""The terms of the days in parts of a week, by how a word for it begins."""

_PART_OF_WEEK = re.compile(rf"(?i:{one_of(*_PARTS_OF_WEEK)})")
_IS_DURATION = re.compile(
    r"(?:(?<![\d:.,–-])(?<!\bat )(?<!\bto )(?<!\bfrom )(?<!\btill )(?<!\buntil )(?<!–.)(?<!-.)\d\d?"
    rf"|(?<!\w)(?:{CARDINAL}|many|few|einem?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn"
    rf"|wenigen?))[ -]\Z|[\d{HAN_DIGITS}几幾个個]\Z",
    re.IGNORECASE,
)
"""A number of weekdays, as in "within 5 weekdays", but not the hour in "9-5 weekdays"."""

_AFTER_DIGIT = re.compile(r"\d[ -]\Z")
_BEFORE_PART = 12
"""Number of characters before a part of a week in which a number can stand."""

_RANGE_HINT = re.compile(r"[A-Z]\w{1,8}\.? ?(?:[-–—]|to|through|thru|until|till|bis) ?[A-Z]")
_RANGE_OF_YEARS = re.compile(
    r"(?<![\w./-])((?:19|20)\d\d) ?(?:[-–—]|to|until|till|through|bis|至|到"
    r"|(?<=[Bb]etween \d{4} )and|(?<=[Zz]wischen \d{4} )und) ?"
    r"((?:19|20)?\d\d)(?![\w/-]|[.,]\d)"
)
_HAN_RANGE = re.compile(
    r"(?:周|星期|礼拜|禮拜|週)([一二三四五六日天])(?:至|到|[-–—~～])(?:周|星期|礼拜|禮拜|週)?([一二三四五六日天])"
)


def days_of(word: str) -> tuple[str, ...]:
    """Return the terms of the days that a word for a part of the week means, also in the plural.

    >>> days_of("weekend"), days_of("monday")
    (('saturday', 'sunday', 'saturdays', 'sundays'), ())
    """
    found = (days for part, days in _PARTS_OF_WEEK.items() if word.startswith(part))
    days = next(found, ())
    return (*days, *(f"{day}s" for day in days if day.isascii()))


def words_in_ranges(text: str) -> Iterator[str]:
    """Yield the terms of the days, months and years in ranges, and of the days in short.

    >>> list(words_in_ranges("Open Mon-Wed, closed Nov to Jan; led 2014-16"))
    ['monday', 'tuesday', 'wednesday', 'november', 'december', 'january', '2014', '2015', '2016']
    >>> list(words_in_ranges("Sat 9-12, Tue and Thu; between 2001 and 2003"))
    ['tuesday', 'thursday', 'saturday', '2001', '2002', '2003']
    """
    yield from _days_and_months(text)
    yield from _days_in_lists(text)
    places, names = _CYCLES[0]
    for match in _SHORT_DAY.finditer(text):
        place = places.get(match.group().rstrip("."))
        if place is not None:
            yield names[place]
    for match in _RANGE_OF_YEARS.finditer(text):
        first, last = match.groups()
        last = last if len(last) == len(first) else first[:2] + last
        if 0 < int(last) - int(first) <= _MAX_YEARS:
            yield from map(str, range(int(first), int(last) + 1))
    if not text.isascii():
        for match in _HAN_RANGE.finditer(text):
            first_day, last_day = (min(_HAN_DAYS.index(one), 6) for one in match.groups())
            for day in _between(first_day, last_day, _HAN_DAYS[:7]):
                yield from (f"周{day}", f"期{day}")


def _days_in_lists(text: str) -> Iterator[str]:
    """Yield the names of the days in lists, and in words such as "weekend"."""
    if _LIST_HINT.search(text) is not None:
        for pattern, (places, names) in zip(_LISTS, _CYCLES, strict=False):
            for match in pattern.finditer(text):
                yield from (names[places[one]] for one in _CAPITALIZED.findall(match.group()))
    for match in _PART_OF_WEEK.finditer(text):
        before = text[max(0, match.start() - _BEFORE_PART) : match.start()]
        part = match.group().lower()
        # Hours are on "werktags", so "3-5 Werktage" are a duration.
        is_counted = part == "werktag" and text[match.end() : match.end() + 1] != "s"
        is_duration = _IS_DURATION.search(before) or (is_counted and _AFTER_DIGIT.search(before))
        if not is_duration:
            yield from _PARTS_OF_WEEK[part]


def _days_and_months(text: str) -> Iterator[str]:
    """Yield the names of the days and months in ranges."""
    if _RANGE_HINT.search(text) is None:
        return
    for pattern, (places, names) in zip(_RANGES, _CYCLES, strict=True):
        for match in pattern.finditer(text):
            yield from _between(places[match[1]], places[match[2]], names)


def _between(first: int, last: int, names: Sequence[str]) -> list[str]:
    """Return the names from one place to another, which may be in the next week or year."""
    count = (last - first) % len(names) + 1
    return [names[(first + one) % len(names)] for one in range(count)]
