"""Numbers in Chinese characters, such as 三百二十万."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from types import MappingProxyType

from e2graphrag_integrations.text.numbers import Found

_DIGITS = MappingProxyType(
    {one: n for n, one in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
)
_UNITS = MappingProxyType({"十": 10, "百": 100, "千": 1000})
_LARGE_UNITS = MappingProxyType({"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8})
_ALL_UNITS = MappingProxyType({**_UNITS, **_LARGE_UNITS})
HAN_DIGITS = "〇零一二三四五六七八九十百千两兩"
HAN_NUMBER = f"[{HAN_DIGITS}]{{1,7}}"


def value_of_han(number: str) -> int:
    """Return the value of a number such as 三百二十万, 二百零三, 二〇三 or 203."""
    if number.isdecimal():
        return int(number)
    if not any(one in _ALL_UNITS for one in number):
        return int("".join(str(_DIGITS[one]) for one in number))
    total = section = digit = 0
    for one in number:
        if one in _LARGE_UNITS:
            section, digit = section + digit, 0
            if _LARGE_UNITS[one] > total:  # as in 一万亿, which is ten thousand times 一亿
                section, total = total + section, 0
            total, section = total + section * _LARGE_UNITS[one], 0
        elif one in _UNITS:
            section += (digit or 1) * _UNITS[one]
            digit = 0
        else:
            digit = _DIGITS[one]
    return total + section + digit


_AMOUNT = re.compile(
    rf"""
      (?<![\d.第制])(?<!\d,)(?P<digits>\d{{1,4}}(?:\.\d{{1,4}})?|\d{{1,3}},\d{{3}})
      \s?(?P<unit>[百千]?(?:[万萬]?[亿億]|[万萬]))
    | (?<![{HAN_DIGITS}])(?P<year>[一二三四五六七八九][〇零一二三四五六七八九]{{3}})(?=年)
    | (?<![第制{HAN_DIGITS}万萬亿億])
      (?P<han>[一二三四五六七八九十两兩][{HAN_DIGITS}万萬亿億]{{1,14}})(?![月日号號点點时時])
    """,
    re.VERBOSE,
)
# Begins with one class of characters, as `_HINT` in `codes` does.
_AMOUNT_HINT = re.compile("[十百千万萬亿億年](?:(?<!年)|(?<=[〇零一二三四五六七八九]{4}年))")
_ADJACENT_DIGITS = re.compile("[一二三四五六七八九两兩]{2}")


def find_amounts(text: str) -> Iterator[Found]:
    """Yield the numbers in Chinese characters from 10, and the years, in order.

    Also those in digits with a character for ten thousand or a hundred million. Their form is
    digits.

    >>> [one.forms[0] for one in find_amounts("三百二十万, 320万, 3.2百万, 两万五, 一九九八年")]
    ['3200000', '3200000', '3200000', '25000', '1998']
    """
    if text.isascii() or _AMOUNT_HINT.search(text) is None:
        return
    for match in _AMOUNT.finditer(text):
        if digits := _digits_of(match):
            yield Found(*match.span(), (digits,))


def _digits_of(match: re.Match[str]) -> str:
    """Return an amount in digits; "" if it is not a whole number, or none at all."""
    if match["year"]:
        return str(value_of_han(match["year"]))
    if match["han"]:
        return _in_digits(match["han"])
    unit = 1
    for one in match["unit"]:
        unit *= _LARGE_UNITS.get(one) or _UNITS[one]
    value = Decimal(match["digits"].replace(",", "")) * unit
    return str(int(value)) if value == int(value) else ""


def _in_digits(number: str) -> str:
    if _ADJACENT_DIGITS.search(number) or not any(one in _ALL_UNITS for one in number):
        return ""
    last, before = number[-1], _ALL_UNITS.get(number[-2], 1)
    rest = 0
    if last in _DIGITS and before > 10:  # noqa: PLR2004 - as in 两万五, which is 25,000
        rest = _DIGITS[last] * before // 10
        number = number[:-1]
    return str(value_of_han(number) + rest)
