"""Show numbers about as the number formats of spreadsheets and charts say.

openpyxl decides which formats are dates, and converts their numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_DIGITS = 15
"""Number of digits that a spreadsheet computes with; further ones are due to binary fractions."""

_MAX_AFFIX = 10
"""Maximum length of a currency or unit in a number format."""

_MAX_SCALE = 4
"""Maximum number of commas that scale a number, for trillions; more of them are no scale."""

_NUMBER_SECTIONS = 3
"""Number of sections of a number format that are for numbers; a fourth is for texts."""

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d{1,15}")
"""A number, and a whole number, in a file."""

_AFFIX = re.compile(
    r'"([^"]*)"|[\\!](.)|\[\$([^\]-]*+)[^\]]*+\]|\[[^\]]*+\]|[_*].|([0#?]|(?i:General))|(.)',
    re.DOTALL,
)
"""A part of a number format: a literal text, letter or currency, a color or condition, a space, a
digit or the word for all digits, or any other character."""

_SCALE = re.compile(r"(?<=[0#?]),+(?![0#?,])")
"""Commas that each divide a number by 1,000; those before a further digit group the digits."""

_SCALING = frozenset("0#?,.")
"""The characters of a number format that say where such commas are."""

_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?\d{1,15}(?:\.\d{1,15})?)\]")
_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}

_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
"""The hours, minutes or seconds of a duration."""

_MAX_TIME = 3_650
"""Number of days from which a number with a format for times is a date rather than a duration."""

_MAX_CODE = 20
"""Maximum number of digits of a code, such as an invoice number, and of the letters in it."""

_MAX_WORDS = 40
"""Maximum length of words that a number format shows instead of a number."""

_OF_CODES = frozenset(" -+():")
"""Characters that a code has between its digits without quotation marks."""

_SIGNS = frozenset("-−()")
"""Characters that say that a number is negative, or that it is 0 in formats for accounting."""

_LITERAL_POINT = re.compile(r'[0#?](?:[\\!]\.|"\.")[0#?]')
"""A point that is only a letter, as in `0!.0,"万"`, which shows 123456 as 12.3万."""

_JOINING = frozenset("-/_#")
"""The last characters of what a number follows without a space."""


class _Piece(NamedTuple):
    """A part of a number format that is shown: a literal text, or `0` or `#` for a digit."""

    text: str
    is_digit: bool


class _NumberFormat(NamedTuple):
    """How a cell shows a number.

    Attributes:
        is_date, is_duration, is_percent: What the number is.
        is_time: Whether it is a time, or a duration.
        code: The letters and digits of a code, such as RE-0042, with `0` or `#` for each digit.
        words: What is shown instead of the number.
        scale: How often the number is divided by 1,000.
        before, after: The currency or unit, with the space between it and the number.
        has_sign: Whether a minus sign is shown, rather than a word such as "Loss".
    """

    is_date: bool = False
    is_duration: bool = False
    is_percent: bool = False
    is_time: bool = False
    code: Sequence[_Piece] = ()
    words: str = ""
    scale: int = 0
    before: str = ""
    after: str = ""
    has_sign: bool = True


_PLAIN = _NumberFormat()


class NumberSection(NamedTuple):
    """A section of a number format, and the numbers for which it is."""

    relation: str
    limit: float
    shown: _NumberFormat


_NO_SECTION = NumberSection(">=", -math.inf, _PLAIN)
_EVERY_NUMBER = (">=", -math.inf)
_USUAL_CONDITIONS = {
    0: (),
    1: (_EVERY_NUMBER,),
    2: ((">=", 0.0), _EVERY_NUMBER),
    3: ((">", 0.0), ("<", 0.0), _EVERY_NUMBER),
}
"""Which numbers the sections are for, by their count, if a format does not say it."""


def number_sections(code: str) -> list[NumberSection]:
    """Return the sections of a number format that are for numbers."""
    parts: list[list[re.Match[str]]] = [[]]
    for match in _AFFIX.finditer(code[:1000]):
        if match[0] == ";":
            parts.append([])
        else:
            parts[-1].append(match)
    # A section with this sign is for texts.
    parts = [part for part in parts if all(match[0] != "@" for match in part)][:_NUMBER_SECTIONS]
    given = [_condition(part) for part in parts]
    sections = [
        NumberSection(*(own or usual), _number_format(part))
        for part, own, usual in zip(parts, given, _USUAL_CONDITIONS[len(parts)], strict=True)
    ]
    if given[:2] == [None, None]:
        is_signed = any(character in match[0] for match in parts[1] for character in "-(")
        sections[1] = _of_negatives(sections[1], sections[0], is_signed=is_signed)
    return sections


def _condition(part: Iterable[re.Match[str]]) -> tuple[str, float] | None:
    """Return which numbers a section says that it is for; None if it does not say it."""
    found = next(filter(None, (_CONDITION.fullmatch(match[0]) for match in part)), None)
    return (found[1], float(found[2])) if found else None


def _of_negatives(
    negative: NumberSection, positive: NumberSection, *, is_signed: bool
) -> NumberSection:
    """Return the section for negative numbers, without their sign if only words say it."""
    shown, other = negative.shown, positive.shown
    has_own_words = (shown.before, shown.after) not in {("", ""), (other.before, other.after)}
    return negative._replace(shown=shown._replace(has_sign=is_signed or not has_own_words))


def _number_format(part: Sequence[re.Match[str]]) -> _NumberFormat:
    """Return how a section of a number format, given in its parts, shows a number."""
    from openpyxl.styles.numbers import is_date_format

    if is_date_format("".join(match[0] for match in part)):
        is_duration = any(_ELAPSED.fullmatch(match[0]) for match in part)
        letters = {match[5].lower() for match in part if match[5]}
        is_time = letters <= set("hms:., ") and not letters.isdisjoint("hs")
        return _NumberFormat(is_date=True, is_duration=is_duration, is_time=is_time)
    literals: tuple[list[str], list[str]] = ([], [])
    bare = ""  # what is neither a literal nor in brackets
    has_digits = False
    for text, letter, currency, digit, other in (match.groups("") for match in part):
        bare += digit or other
        has_digits = has_digits or bool(digit)
        is_symbol = other.isspace() or unicodedata.category(other or " ") == "Sc"
        shown = text or letter or currency or (other if is_symbol else "")
        is_code = literals[has_digits] and literals[has_digits][-1][-1:].isalnum()
        literals[has_digits].append(shown if is_code or shown.strip() not in _SIGNS else "")
    before, after = "".join(literals[0]).lstrip(), "".join(literals[1]).rstrip()
    if not after.lstrip().startswith("%"):
        after = f" {after.lstrip()}"
    if _LITERAL_POINT.search("".join(match[0] for match in part)):
        return _NumberFormat(code=_code(part))
    scale = sum(map(len, _SCALE.findall("".join(one for one in bare if one in _SCALING))))
    # A number stays whole if the word for its scale, such as "million", is too long to be shown.
    is_shown = all(len(one.strip()) <= _MAX_AFFIX for one in (before, after) if _is_name(one))
    return _NumberFormat(
        is_percent="%" in bare,
        code=_code(part),
        words="" if has_digits or any(map(str.isalpha, bare)) else _words(before.strip()),
        scale=scale if is_shown and scale <= _MAX_SCALE else 0,
        before=_spaced(before, bare) if has_digits and _is_unit(before) else "",
        after=after if has_digits and _is_unit(after) else "",
    )


def _code(part: Iterable[re.Match[str]]) -> list[_Piece]:
    """Return the pieces of a section that shows a code, such as `"RE-"0000`; none otherwise."""
    pieces: list[_Piece] = []
    for text, letter, currency, digit, other in (match.groups("") for match in part):
        if other and other not in _OF_CODES and unicodedata.category(other) != "Sc":
            return []
        shown = text or letter or currency or digit or other
        pieces += [_Piece(shown, bool(digit))] if shown else []
    places = [at for at, piece in enumerate(pieces) if piece.is_digit]
    if not 1 < len(places) <= _MAX_CODE:
        return []
    inner = "".join(one.text for one in pieces[places[0] : places[-1]] if not one.is_digit)
    is_padded = all(pieces[at].text == "0" for at in places)
    is_grouped = "-" in inner and all(pieces[at].text in "0#" for at in places)
    size = sum(len(one.text) for one in pieces if not one.is_digit)
    return pieces if (is_padded or is_grouped) and size <= _MAX_CODE else []


def _words(text: str) -> str:
    """Return the words that a section without digits shows; empty if they are only signs."""
    is_text = any(map(str.isalpha, text)) and len(text) <= _MAX_WORDS
    return text if is_text else ""


def _spaced(before: str, bare: str) -> str:
    """Return a currency or unit with the space that separates it from its number."""
    is_code = before[-1] in _JOINING and any(map(str.isalnum, before))
    # Formats for accounting show a hyphen for 0, as in `"CHF"* "-"??`.
    is_joined = is_code and not {"0", "#"}.isdisjoint(bare)
    is_letter = len(before) == 1 and before.isalpha()
    is_currency = unicodedata.category(before.rstrip()[-1]) == "Sc"
    return before.rstrip() + ("" if is_joined or is_letter or is_currency else " ")


def _is_unit(text: str) -> bool:
    """Return whether a text is a currency or a unit rather than a bracket or a hyphen."""
    return _is_name(text) and len(text.strip()) <= _MAX_AFFIX


def _is_name(text: str) -> bool:
    return any(
        unicodedata.category(c)[0] == "L" or unicodedata.category(c) == "Sc" or c in "%‰"
        for c in text
    )


def number_text(
    value: str, sections: Sequence[NumberSection], *, is_from_1904: bool = False
) -> str:
    """Return a number about as a format shows it.

    Args:
        value: The number in the file, which matches `NUMBER`.
        sections: The sections of the format; none means that it has no format.
        is_from_1904: Whether days are counted from 1904 rather than 1900.
    """
    number = float(value)
    fitting = (one for one in sections if _RELATIONS[one.relation](number, one.limit))
    section = next(fitting, _NO_SECTION)
    style = section.shown
    if style.is_date:
        is_duration = style.is_duration or (style.is_time and 1 <= number < _MAX_TIME)
        date = _date_text(number, is_duration=is_duration, is_from_1904=is_from_1904)
        if date:
            return date
    if style.is_percent:
        return f"{number * 100:.{_DIGITS - 3}g}%"
    if not style.has_sign:
        number, value = abs(number), value.removeprefix("-")
    is_exact = WHOLE.fullmatch(value) and not style.scale
    text = value if is_exact else f"{number / 1000**style.scale:.{_DIGITS}g}"
    if style.words:
        # The words alone would not tell larger numbers apart.
        is_flag = section.relation == "=" or number in {-1, 0, 1}
        return style.words if is_flag else f"{style.words} {text}"
    digits = text.zfill(sum(one.is_digit and one.text == "0" for one in style.code))
    if style.code and digits.isdecimal() and len(digits) >= sum(one.is_digit for one in style.code):
        return _coded(digits, style.code)
    is_apart = text[0] == "-" and unicodedata.category(style.before[-1:] or " ") != "Sc"
    before = f"{style.before.rstrip()} " if is_apart else style.before
    return f"{before}{text}{style.after}".strip()


def _coded(digits: str, code: Sequence[_Piece]) -> str:
    """Return the digits between the letters of a code; the first place takes those left over."""
    text = ""
    left = sum(one.is_digit for one in code)
    for one in code:
        if one.is_digit:
            count = len(digits) - left + 1
            text, digits, left = text + digits[:count], digits[count:], left - 1
        else:
            # A unit after the number stays a word of its own.
            is_letter = unicodedata.category(one.text[:1] or " ")[0] in "LS"
            is_unit = is_letter and not left and text[-1:].isdecimal()
            text += f" {one.text}" if is_unit else one.text
    return text.strip()


def _date_text(number: float, *, is_duration: bool, is_from_1904: bool) -> str:
    """Return a date, a time or a duration in words of digits; empty if the number is none."""
    from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel

    if not math.isfinite(number) or (number < 0 and not is_duration):
        return ""
    try:
        value: Any = from_excel(number, MAC_EPOCH if is_from_1904 else WINDOWS_EPOCH, is_duration)
    except (OverflowError, ValueError):
        return ""
    if isinstance(value, dt.timedelta):
        seconds = round(value.total_seconds())
        sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    is_time = isinstance(value, dt.time)
    text = str(value.isoformat("seconds") if is_time else value.isoformat(" ", "seconds"))
    return text.removesuffix(" 00:00:00")
