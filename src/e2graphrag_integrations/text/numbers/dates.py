"""Dates and times in several notations and languages."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from types import MappingProxyType

from e2graphrag_integrations.text.numbers import Found
from e2graphrag_integrations.text.numbers.english import CARDINAL, NUMBER_WORDS, fold
from e2graphrag_integrations.text.numbers.han import HAN_DIGITS, HAN_NUMBER, value_of_han

_MONTHS = """
january jan januar janvier enero gennaio janeiro januari января stycznia
february feb februar février fevrier febrero febbraio fevereiro februari февраля lutego
march mar märz maerz mars marzo março maart марта marca
april apr avril abril aprile апреля kwietnia
may mai mayo maggio maio mei мая maja
june jun juni juin junio giugno junho июня czerwca
july jul juli juillet julio luglio julho июля lipca
august aug août aout agosto augustus augusti августа sierpnia
september sept sep septembre septiembre settembre setembro сентября września
october oct oktober okt octobre octubre ottobre outubro октября października
november nov novembre noviembre novembro ноября listopada
december dec dezember dez décembre decembre diciembre dicembre dezembro декабря grudnia
"""
"""The names of the months in ten languages, one month per line."""

MONTHS = MappingProxyType(
    {
        name: number
        for number, line in enumerate(_MONTHS.strip().splitlines(), 1)
        for name in line.split()
    }
)
"""The number of each month, by its name in lower case."""

_BY_LENGTH = sorted(MONTHS, key=lambda name: (-len(name), name))
_MONTH = "|".join(
    f"{first}(?:{'|'.join(one[1:] for one in _BY_LENGTH if one[0] == first)})"
    for first in sorted({one[0] for one in MONTHS})
)
"""Their names by first letter, because a search tries one alternative after the other."""

_OF = r"(?:of\s+|de\s+|d['’])?"

_DATE = re.compile(
    rf"""
      (?=[\d〇零一二三四五六七八九])(?:
      (?<![\d.-])(?P<y1>\d{{4}})(?P<mark>[-/.])(?P<m1>\d{{1,2}})(?P=mark)(?P<d1>\d{{1,2}})(?![\d-]|\.\d)
    | (?<![\d.])(?P<d2>\d{{1,2}})\.\ ?(?P<m2>\d{{1,2}})\.\ ?(?P<y2>\d{{4}})(?![\d]|\.\d)
    | (?<![\d/])(?P<a3>\d{{1,2}})/(?P<b3>\d{{1,2}})/(?P<y3>\d{{4}})(?![\d/])
    | (?P<y4>\d{{4}})\s*[年년]\s*(?P<m4>\d{{1,2}})\s*[月월](?:\s*(?P<d4>\d{{1,2}})\s*[日号號일])?
    | (?<!\d)(?P<d5>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?(?:\s+|-){_OF}
      (?P<m5>{_MONTH})\.?,?(?:\s+|-){_OF}(?P<y5>\d{{4}})(?!\d)
    | (?<![\d.-])(?P<y8>(?:19|20)\d\d)-(?P<m8>\d\d)(?![\d-])
    | (?P<y10>[〇零一二三四五六七八九]{{4}})年\s*(?P<m10>十?[一二三四五六七八九十])月
      (?:\s*(?P<d10>[一二三]?十?[一二三四五六七八九十])[日号號])?
    | (?<!\d)(?P<y9>(?:19|20)\d\d)(?P<m9>0[1-9]|1[0-2])(?P<d9>0[1-9]|[12]\d|3[01])(?!\d)
    | (?<![\d./-])(?P<m0>0?[1-9]|1[0-2])/(?P<y0>(?:19|20)\d\d)(?![\d/]))
    | \b(?:(?P<m6>{_MONTH})\.?\s+(?P<d6>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y6>\d{{4}})(?!\d)
    | (?P<m7>{_MONTH})\.?,?\s+{_OF}(?P<y7>\d{{4}})(?!\d))
    """,
    re.VERBOSE | re.IGNORECASE,
)
# This and `_TIME_HINT` begin with one class of characters, as `_HINT` in `codes` does.
_YEAR_IN_DATE = re.compile(
    r"[\d〇零一二三四五六七八九](?:(?<!\d\d)(?<=\d)(?:\d{3}|(?<=1)9\d{6}|(?<=2)0\d{6})(?!\d)"
    r"|(?<!\d)[〇零一二三四五六七八九]{3}年)"
)
_PLACES = ("0", "1", "2", "4", "5", "6", "7", "8", "9", "10")
_MONTHS_ONLY = frozenset("078")
"""The groups of the pattern without a day."""

_BEFORE_PLACE, _AFTER_PLACE = 32, 16
"""Maximum number of characters of a date before and after its year; also of a time in words before
and after a word such as `past`."""


def find_dates(text: str) -> Iterator[Found]:
    """Yield the dates in a text that have a year and a month, in order.

    Their forms are in ISO 8601, with the day if that is given. A date such as 03/05/2024 has two.

    >>> [one.forms for one in find_dates("On 5. März 2024, 5 March 2024 or 2024年3月5日")]
    [('2024-03-05',), ('2024-03-05',), ('2024-03-05',)]
    >>> [one.forms for one in find_dates("03/05/2024, but not 13/13/2024")]
    [('2024-05-03', '2024-03-05')]
    """
    if _YEAR_IN_DATE.search(text) is None:
        return
    end = 0
    for year in _YEAR_IN_DATE.finditer(text):  # the pattern is slow where there is no date
        start = max(end, year.start() - _BEFORE_PLACE)
        for match in _DATE.finditer(text, start, year.end() + _AFTER_PLACE):
            end = match.end()
            forms = tuple(dict.fromkeys(filter(None, _date_forms(match))))
            if forms:
                yield Found(match.start(), end, forms)


_SHORT_DATE = re.compile(
    rf"""
      (?=\d)(?<![\d./-])(?:
        (?P<a>\d\d?)(?P<mark>[./])(?P<b>\d\d?)(?P=mark)(?P<y1>\d\d)(?![\d]|[./-]\d)
      | (?P<d2>\d\d?)[\ -](?P<m2>{_MONTH})\.?[\ -]['’]?(?P<y2>\d\d)
        (?!\w|[.,:/-]\d)(?:(?<=[-'’]\d\d)|(?!\ \w)))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_VERSION = re.compile(
    r"(?:v|version|release|clause|section|article|build|update|§)[.\s]*\Z", re.IGNORECASE
)
_LONGEST_VERSION = 12
_FIRST_YEAR = 70
"""The year 70 is 1970, and 69 is 2069."""


def find_short_dates(text: str) -> Iterator[Found]:
    """Yield the dates in a text whose year has two digits, in order.

    A date with dots may be a version or a clause, unless a word before it says so.

    >>> [one.forms for one in find_short_dates("05.03.24, 5/3/24, 5-Mar-24 or version 5.3.24")]
    [('2024-03-05',), ('2024-03-05', '2024-05-03'), ('2024-03-05',)]
    """
    for match in _SHORT_DATE.finditer(text):
        year = int(match["y1"] or match["y2"])
        full = f"{(1900 if year >= _FIRST_YEAR else 2000) + year}"
        if match["d2"]:
            forms = [_form(full, match["m2"], match["d2"])]
        else:
            forms = [_form(full, match["b"], match["a"])]
            if match["mark"] == "/":
                forms.append(_form(full, match["a"], match["b"]))
            elif _VERSION.search(text, max(0, match.start() - _LONGEST_VERSION), match.start()):
                continue
        if found := tuple(dict.fromkeys(filter(None, forms))):
            yield Found(*match.span(), found)


_HAN_DAY = re.compile(
    r"""
      (?<![\d./])(?P<m1>\d{1,2})\s?[月월](?:份|\s?(?P<d1>\d{1,2})\s?[日号號일])?
    | (?<![一二三四五六七八九十百])(?P<m2>十?[一二三四五六七八九十])月
      (?:份|(?P<d2>[一二三]?十?[一二三四五六七八九十])[日号號]|(?![后後内內以]))
    """,
    re.VERBOSE,
)
_HAN_DAY_HINT = re.compile("[月월]")


def find_han_days(text: str) -> Iterator[Found]:
    """Yield the days and months without a year in Chinese, Japanese and Korean, in order.

    >>> [one.forms for one in find_han_days("九月六日, 9月6日, 9월 6일, 九月份")]
    [('--09-06',), ('--09-06',), ('--09-06',), ('--09',)]
    """
    if text.isascii() or _HAN_DAY_HINT.search(text) is None:
        return
    for match in _HAN_DAY.finditer(text):
        if form := _form_of_day(match):
            yield Found(*match.span(), (form,))


_DAY = re.compile(
    rf"""
      (?<![\w.,:/-])(?P<d1>\d\d?)(?:st|nd|rd|th|er|[.º°])?\ {_OF}(?P<m1>{_MONTH})(?!\w)
    | (?<!\w)(?P<m2>{_MONTH})\.?\ (?:the\ )?(?P<d2>\d\d?)(?:st|nd|rd|th)?(?!\w|[:.,]\d)
    """,
    re.VERBOSE,
)


def find_days(lowered: str) -> Iterator[Found]:
    """Yield the days with the name of a month in a text in lower case, without their years.

    >>> [one.forms for one in find_days("march 3, 3 mar., the 3rd of march 2024, 3. märz")]
    [('--03-03',), ('--03-03',), ('--03-03',), ('--03-03',)]
    """
    for match in _DAY.finditer(lowered):
        if form := _form_of_day(match):
            yield Found(*match.span(), (form,))


_NUMERIC_DAY = re.compile(
    r"(?<![\w./,-])([0-3]\d)(?:/([0-3]\d)(?![\w/]|[.,-]\d)|\.([01]\d)\.(?![\w.]))"
)


def find_numeric_days(text: str) -> Iterator[Found]:
    """Yield the days in two times two digits without a year in a text, in order.

    >>> [one.forms for one in find_numeric_days("24/03, 03/24, 24.03. or 03/04")]
    [('--03-24',), ('--03-24',), ('--03-24',), ('--04-03', '--03-04')]
    >>> list(find_numeric_days("24/7, 1/2, 24.03 or 24/03/2024"))
    []
    """
    for match in _NUMERIC_DAY.finditer(text):
        first, second, dotted = match.groups()
        forms = [_form("2024", dotted or second, first)]
        if second:
            forms.append(_form("2024", first, second))
        if found := tuple(f"-{one[len('2024') :]}" for one in dict.fromkeys(forms) if one):
            yield Found(*match.span(), found)


def _form_of_day(match: re.Match[str]) -> str:
    """Return a day or month without a year in ISO 8601; "" if it does not exist."""
    day = match["d1"] or match["d2"]
    form = _form("2024", match["m1"] or match["m2"], day)  # a leap year has all days
    return form and f"-{form[len('2024') :]}"


def is_month(word: str) -> bool:
    """Return whether a word is the name of a month in one of ten languages."""
    return fold(word) in MONTHS


def _date_forms(match: re.Match[str]) -> Iterator[str]:
    if match["a3"]:  # day first, as in most countries, or month first
        yield _form(match["y3"], match["b3"], match["a3"])
        yield _form(match["y3"], match["a3"], match["b3"])
        return
    for place in _PLACES:
        if match[f"m{place}"]:
            day = match[f"d{place}"] if place not in _MONTHS_ONLY else None
            yield _form(match[f"y{place}"], match[f"m{place}"], day)


def _form(year: str, month: str, day: str | None) -> str:
    """Return a date in ISO 8601; "" if it does not exist."""
    try:
        number = MONTHS.get(fold(month)) or value_of_han(month)
        date = dt.date(value_of_han(year), number, value_of_han(day or "1"))
    except ValueError:
        return ""
    return date.isoformat() if day else date.isoformat()[: len("2024-03")]


_TIME_HINT = re.compile(r"[\d点點时時시](?:(?<!\d)|\ ?(?i:[ap]\.?m|Uhr)|(?i:h)\d|:\d)")
_TIME = re.compile(
    rf"""
      (?:(?<![\d.:/-])|(?<=\d:[0-5]\d-)|(?<=\d[apAP][mM]-)
        |(?<=\b\d-)(?<!-\d-)|(?<=\b\d\d-)(?<!-\d\d-))
      (?P<h1>0?[1-9]|1[0-2])(?:[:.](?P<m1>[0-5]\d))?\ ?(?P<half>[ap])\.?m\b\.?
    | (?:(?<![\d.:/-])|(?<=\d-))(?P<h2>[01]?\d|2[0-4])(?:[:.](?P<m2>[0-5]\d))?\ ?Uhr\b
    | (?<![\w.:/-])(?P<h8>[01]?\d|2[0-4])(?:\.(?P<m8>[0-5]\d))?
      (?=\ ?[–-]\ ?(?:[01]?\d|2[0-4])(?:\.[0-5]\d)?\ ?Uhr\b)
    | (?<![\w.:/-])(?P<h9>0?[1-9]|1[0-2])(?:[:.](?P<m9>[0-5]\d))?
      (?=\ ?(?:[–-]|to|and|till|until)\ ?
         (?P<end>0?[1-9]|1[0-2])(?:[:.][0-5]\d)?\ ?(?P<half9>[ap])\.?m\b)
    | (?<![\w.:/-])(?P<h3>[01]?\d|2[0-4])h(?P<m3>[0-5]\d)\b
    | (?:(?<![0-9a-z_.:/-])|(?<=\d:[0-5]\d-))
      (?P<h4>[01]?\d|2[0-4]):(?P<m4>[0-5]\d)(?P<seconds>:[0-5]\d)?
      (?![0-9a-z_:]|\.\d|-\d(?!\d?:[0-5]\d(?![\d:])))
    | (?P<part>凌晨|清晨|早上|早晨|上午|午前|오전|中午|下午|午後|오후|傍晚|晚上)
      \s*(?P<h5>\d{{1,2}}|{HAN_NUMBER})\s?[点點时時시]
      (?:(?P<quarters>[一三])刻|\s?(?P<m5>\d{{1,2}}|{HAN_NUMBER})\s?[分분]?|(?P<thirty>半|반))?
    | (?<![\d.:/{HAN_DIGITS}])(?P<h6>\d{{1,2}}|{HAN_NUMBER})\s?[点點时時시]
      (?:[钟鐘整]|\s?(?P<m6>\d{{1,2}}|{HAN_NUMBER})\s?[分분]|(?P<thirty6>半|반)|(?P<quarters6>[一三])刻)
    | (?<![\d.:/])(?P<h7>1[3-9]|2[0-4])[点點时時시](?![间間])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SPOKEN = re.compile(
    rf"""
      (?<!\w)
      (?:(?P<half>half)|(?P<quarter>quarter)|(?P<minutes>{CARDINAL}|\d\d?)(?P<unit>\ minutes)?)
      \ (?:past|(?P<before>(?<!half\ )to))\ (?P<hour>{CARDINAL}|\d\d?)(?!\w|[:.]\d)
    | (?<![\w:.])(?P<clock>{CARDINAL}|\d\d?)\ o['’]clock(?!\w)
    | (?<!\w)(?P<name>noon|midnight)(?!\w)
    """,
    re.VERBOSE,
)
_SPOKEN_PLACE = re.compile("o['’]clock|noon|midnight|past|quarter to|minutes to")
SPOKEN_WORDS = frozenset({"clock", "noon", "midnight", "past", "quarter", "minutes"})
"""One of these words is in each time in words."""

_AFTERNOON = frozenset("中午 下午 午後 오후 傍晚 晚上".split())
_NIGHT = frozenset("凌晨 晚上 오전".split())
_NOON = 12
_HOURS = 24
_MINUTES = 60


def find_times(text: str) -> Iterator[Found]:
    """Yield the times of the day in a text, in order.

    Their forms are hours and minutes, such as `15:05`. A time in the afternoon is also given with
    12 hours, because the half of the day may be left out elsewhere. A time to the second is also
    one to the minute.

    >>> [one.forms for one in find_times("at 3:10 pm, 15.10 Uhr, 15h10 or 下午三点十分")]
    [('15:10', '3:10'), ('15:10',), ('15:10',), ('15:10', '3:10')]
    >>> [one.forms for one in find_times("at 08:05 or 08:05:30, but not 1:2 or 3 Amps")]
    [('8:05',), ('8:05:30', '8:05')]
    >>> [one.forms[0] for one in find_times("10:15-11:30, 9.15-10 Uhr, 9am-5pm")]
    ['10:15', '11:30', '9:15', '10:00', '9:00', '17:00']
    """
    if _TIME_HINT.search(text) is not None:
        for match in _TIME.finditer(text):
            if forms := _time_forms(match):
                yield Found(*match.span(), forms)


def find_spoken_times(lowered: str) -> Iterator[Found]:
    """Yield the times in English words in a text in lower case, in order.

    >>> [one.forms for one in find_spoken_times("half past eight, a quarter to nine, noon")]
    [('8:30',), ('8:45',), ('12:00',)]
    """
    end = 0
    for place in _SPOKEN_PLACE.finditer(lowered):  # the pattern is slow where there is no time
        start = max(end, place.start() - _BEFORE_PLACE)
        match = _SPOKEN.search(lowered, start, place.end() + _AFTER_PLACE)
        if match is not None:
            end = match.end()
            if form := _form_of_spoken(match):
                yield Found(match.start(), end, (form,))


def _time_forms(match: re.Match[str]) -> tuple[str, ...]:
    """Return the forms of a time; () if it does not exist."""
    place = next(one for one in "123456789" if match[f"h{one}"])
    quarters = match["quarters"] or match["quarters6"]
    if match["thirty"] or match["thirty6"]:
        quarters = "二"
    minute = value_of_han(match.groupdict().get(f"m{place}") or "0")
    minute = value_of_han(quarters) * _MINUTES // 4 if quarters else minute
    said = hour = value_of_han(match[f"h{place}"])
    half = (match["half"] or match["half9"] or "").casefold()
    is_afternoon = half == "p" or match["part"] in _AFTERNOON
    if match["end"] and hour % _NOON > int(match["end"]) % _NOON:
        is_afternoon = not is_afternoon  # "11-1 pm"
    is_midnight = hour == _NOON and ((half and not is_afternoon) or match["part"] in _NIGHT)
    if is_midnight:
        said = hour = 0
    elif is_afternoon and hour < _NOON:
        hour += _NOON
    if hour > _HOURS or minute >= _MINUTES:
        return ()
    forms = dict.fromkeys(f"{one}:{minute:02}" for one in (hour % _HOURS, said))
    if match["seconds"]:
        return (f"{hour % _HOURS}:{minute:02}{match['seconds']}", *forms)
    return tuple(forms)


def _form_of_spoken(match: re.Match[str]) -> str:
    """Return the form of a time in words; "" if it does not exist."""
    if match["name"]:
        return "12:00" if match["name"] == "noon" else "0:00"
    hour = _value_of_word(match["clock"] or match["hour"])
    minute = 0
    if match["hour"]:
        minute = (
            30 if match["half"] else 15 if match["quarter"] else _value_of_word(match["minutes"])
        )
        if match["before"]:
            if not (match["quarter"] or match["unit"]):
                return ""  # as in "five to ten people"
            hour, minute = hour - 1 or _NOON, _MINUTES - minute
    exists = 0 < hour <= _NOON and 0 <= minute < _MINUTES
    return f"{hour}:{minute:02}" if exists else ""


def _value_of_word(number: str) -> int:
    if number.isdecimal():
        return int(number)
    return sum(NUMBER_WORDS[one] for one in re.split("[ -]", number))
