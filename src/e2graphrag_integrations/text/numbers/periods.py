"""Parts of years and business years: `Q3 2024`, `the first half of 2024`, `KW 12`, `FY20`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import NamedTuple

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
