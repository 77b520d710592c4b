"""Numbers in words of English, in Roman numerals, and in Chinese characters."""

from __future__ import annotations

import re
from itertools import chain, pairwise
from types import MappingProxyType

_UNITS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINAL_UNITS = """
zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
""".split()
_ORDINAL_TENS = [f"{ten[:-1]}ieth" for ten in _TENS]
_VALUES = MappingProxyType(
    {word: n for n, word in chain(enumerate(_UNITS), enumerate(_ORDINAL_UNITS))}
    | {word: 10 * n for n, word in chain(enumerate(_TENS, 2), enumerate(_ORDINAL_TENS, 2))}
)
"""The English words for numbers, except those of two words."""


def one_of(*words: str) -> str:
    """Return the pattern of one of some words, of which longer ones come first."""
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


CARDINAL = rf"(?:(?:{one_of(*_TENS)})[ -](?:{one_of(*_UNITS[1:10])})|{one_of(*_UNITS, *_TENS)})"
ORDINALS = (
    *_ORDINAL_UNITS[1:],
    *_ORDINAL_TENS,
    *(f"{ten}{mark}{unit}" for ten in _TENS for unit in _ORDINAL_UNITS[1:10] for mark in " -"),
)
ORDINAL = f"(?:{one_of(*ORDINALS)})"

ROMAN = r"(?=[CLXVI])C{0,3}(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})"
"""A Roman numeral below 400, beyond which most are words or abbreviations."""

_ROMAN_DIGITS = MappingProxyType({"i": 1, "v": 5, "x": 10, "l": 50, "c": 100})

_HAN_DIGITS = MappingProxyType(
    {one: n for n, one in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
)
_HAN_UNITS = MappingProxyType({"十": 10, "百": 100, "千": 1000})
HAN_NUMBER = "[〇零一二三四五六七八九十百千两]{1,7}"

_NO_DIGIT, _BETWEEN = re.compile(r"\D"), re.compile("[ -]")


def value_of(number: str) -> int:
    """Return the value of a number such as 4, 4th, iv, four or twenty-fourth."""
    if number[0].isdigit():
        return int(_NO_DIGIT.sub("", number))
    words = _BETWEEN.split(number)
    if words[0] in _VALUES:
        return sum(_VALUES[one] for one in words)
    digits = [_ROMAN_DIGITS[one] for one in number]
    return sum(-a if a < b else a for a, b in pairwise([*digits, 0]))


def value_of_han(number: str) -> int:
    """Return the value of a number such as 二百零三, 二〇三 or 203."""
    if number.isdecimal():
        return int(number)
    if not any(one in _HAN_UNITS for one in number):
        return int("".join(str(_HAN_DIGITS[one]) for one in number))
    total, digit = 0, 0
    for one in number:
        if one in _HAN_UNITS:
            total += (digit or 1) * _HAN_UNITS[one]
            digit = 0
        else:
            digit = _HAN_DIGITS[one]
    return total + digit
