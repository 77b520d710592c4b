"""Times of the day in several notations, with 24 hours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from e2graphrag_integrations.text.dates import HAN_NUMBER, value_of_han

_HINT = re.compile(r"\d ?[ap]\.?m|\d ?Uhr|\dh\d|\d:\d|[点點时時]", re.IGNORECASE)
_TIME = re.compile(
    rf"""
      (?<![\d.:/-])(?P<h1>0?[1-9]|1[0-2])(?:[:.](?P<m1>[0-5]\d))?\ ?(?P<half>[ap])\.?m\b\.?
    | (?<![\d.:/-])(?P<h2>[01]?\d|2[0-4])(?:[:.](?P<m2>[0-5]\d))?\ ?Uhr\b
    | (?<![\w.:/-])(?P<h3>[01]?\d|2[0-4])h(?P<m3>[0-5]\d)\b
    | (?<![\w.:/-])(?P<h4>[01]?\d|2[0-4]):(?P<m4>[0-5]\d)(?P<seconds>:[0-5]\d)?(?![\w:]|[.-]\d)
    | (?P<part>凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上)
      \s*(?P<h5>\d{{1,2}}|{HAN_NUMBER})[点點时時]
      (?:(?P<m5>\d{{1,2}}|{HAN_NUMBER})分?|(?P<thirty>半))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_AFTERNOON = frozenset("中午 下午 傍晚 晚上".split())
_HALF_DAY = 12
_DAY = 24
_HOUR = 60


@dataclass(frozen=True, slots=True)
class Time:
    """A time of the day in a text.

    Attributes:
        start, end: Its characters, half-open.
        forms: It as hours and minutes, such as `15:05`. A time in the afternoon is also given with
            12 hours, because the half of the day may be left out elsewhere. A time to the second is
        also one to the minute.
    """

    start: int
    end: int
    forms: tuple[str, ...]


def find_times(text: str) -> Iterator[Time]:
    """Yield the times in a text, in order.

    >>> [one.forms for one in find_times("at 3:10 pm, 15.10 Uhr, 15h10 or 下午三点十分")]
    [('15:10', '3:10'), ('15:10',), ('15:10',), ('15:10', '3:10')]
    >>> [one.forms for one in find_times("at 08:05 or 08:05:30, but not 1:2 or 3 Amps")]
    [('8:05',), ('8:05:30', '8:05')]
    """
    if _HINT.search(text) is None:
        return
    for match in _TIME.finditer(text):
        forms = _forms(match)
        if forms:
            yield Time(match.start(), match.end(), forms)


def _forms(match: re.Match[str]) -> tuple[str, ...]:
    """Return the forms of a time; () if it does not exist."""
    place = next(one for one in "12345" if match[f"h{one}"])
    minute = 30 if match["thirty"] else value_of_han(match[f"m{place}"] or "0")
    said = hour = value_of_han(match[f"h{place}"])
    is_afternoon = (match["half"] or "").casefold() == "p" or match["part"] in _AFTERNOON
    if is_afternoon and hour < _HALF_DAY:
        hour += _HALF_DAY
    elif match["half"] and not is_afternoon and hour == _HALF_DAY:
        hour = 0
    if hour > _DAY or minute >= _HOUR:
        return ()
    forms = dict.fromkeys(f"{one}:{minute:02}" for one in (hour % _DAY, said))
    if match["seconds"]:
        return (f"{hour % _DAY}:{minute:02}{match['seconds']}", *forms)
    return tuple(forms)
