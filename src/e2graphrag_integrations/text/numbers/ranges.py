"""Days, months and years within a range: `Mon-Fri`, `April to October`, `2014-2018`, `周一至周五`.

A question asks for one of them, such as Wednesday, which the text does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from e2graphrag_integrations.text.numbers.english import one_of

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
_MONTHS = (
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


def _places(lines: Sequence[str]) -> Mapping[str, int]:
    """Return the place of each name, which begins with a capital letter or consists of them."""
    return MappingProxyType(
        {
            written: place
            for place, line in enumerate(lines)
            for name in line.split()
            for written in (name.title(), name.upper())
        }
    )


_KINDS = tuple(
    (_places(lines), tuple(line.split()[0] for line in lines))
    for lines in (_ENGLISH_DAYS, _GERMAN_DAYS, _MONTHS)
)
_RANGES = tuple(
    re.compile(rf"(?<!\w)({one_of(*places)}){_TO}({one_of(*places)})(?!\w)") for places, _ in _KINDS
)
# Begins with one class of characters, as `_HINT` in `codes` does.
_SHORT_DAY = re.compile(
    r"[MTWFS](?<!\w.)(?:(?:on|ON|u(?:es?)?|UE|ed|ED|h(?:u(?:rs?)?)?|HU|ri|RI|at|AT|un|UN))"
    r"\.?(?=,? ?\d|:)"
)
_RANGE_HINT = re.compile(r"[A-Z]\w{1,8}\.? ?(?:[-–—]|to|through|thru|until|till|bis) ?[A-Z]")
_YEARS = re.compile(
    r"(?<![\w./-])((?:19|20)\d\d) ?(?:[-–—]|to|until|till|through|bis|至|到) ?"
    r"((?:19|20)?\d\d)(?![\w/-]|[.,]\d)"
)
_HAN_RANGE = re.compile(
    r"(?:周|星期|礼拜|禮拜|週)([一二三四五六日天])(?:至|到|[-–—~～])(?:周|星期|礼拜|禮拜|週)?([一二三四五六日天])"
)


def words_in_ranges(text: str) -> Iterator[str]:
    """Yield the terms of the days, months and years in ranges, and of the days in short.

    >>> list(words_in_ranges("Open Mon-Wed, closed Nov to Jan; led 2014-16"))
    ['monday', 'tuesday', 'wednesday', 'november', 'december', 'january', '2014', '2015', '2016']
    >>> list(words_in_ranges("Sat 9-12"))
    ['saturday']
    """
    yield from _named(text)
    places, names = _KINDS[0]
    for match in _SHORT_DAY.finditer(text):
        place = places.get(match.group().rstrip("."))
        if place is not None:
            yield names[place]
    for match in _YEARS.finditer(text):
        first, last = match.groups()
        last = last if len(last) == len(first) else first[:2] + last
        if 0 < int(last) - int(first) <= _MAX_YEARS:
            yield from map(str, range(int(first), int(last) + 1))
    if not text.isascii():
        for match in _HAN_RANGE.finditer(text):
            first_day, last_day = (min(_HAN_DAYS.index(one), 6) for one in match.groups())
            for day in _between(first_day, last_day, _HAN_DAYS[:7]):
                yield from (f"周{day}", f"期{day}")


def _named(text: str) -> Iterator[str]:
    """Yield the names of the days and months in ranges."""
    if _RANGE_HINT.search(text) is None:
        return
    for pattern, (places, names) in zip(_RANGES, _KINDS, strict=True):
        for match in pattern.finditer(text):
            yield from _between(places[match[1]], places[match[2]], names)


def _between(first: int, last: int, names: Sequence[str]) -> list[str]:
    """Return the names from one place to another, which may be in the next week or year."""
    count = (last - first) % len(names) + 1
    return [names[(first + one) % len(names)] for one in range(count)]
