"""English numbers in words: `forty-two`, `three hundred and ten`, `twenty-first`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from e2graphrag_integrations.text.numbers import Found

_UNITS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINAL_UNITS = """
zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
""".split()
_ORDINAL_TENS = (*(f"{ten[:-1]}ieth" for ten in _TENS),)
_CARDINALS = {word: n for n, word in enumerate(_UNITS)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_ORDINALS = {word: n for n, word in enumerate(_ORDINAL_UNITS)} | {
    word: 10 * n for n, word in enumerate(_ORDINAL_TENS, 2)
}
NUMBER_WORDS: Mapping[str, int] = MappingProxyType(_CARDINALS | _ORDINALS)
"""The values of the English words for numbers below a hundred, except those of two words."""

SCALES: Mapping[str, int] = MappingProxyType(
    {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
)


def one_of(*words: str) -> str:
    """Return the pattern of one of some words, of which longer ones come first."""
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


CARDINAL = rf"(?:(?:{one_of(*_TENS)})[ -](?:{one_of(*_UNITS[1:10])})|{one_of(*_UNITS, *_TENS)})"
"""The pattern of a number below a hundred."""

ORDINALS = (
    *_ORDINAL_UNITS[1:],
    *_ORDINAL_TENS,
    *(f"{ten}{mark}{unit}" for ten in _TENS for unit in _ORDINAL_UNITS[1:10] for mark in " -"),
)
"""The ordinals below a hundred; those of two words with a hyphen and with a space."""

ORDINAL = f"(?:{one_of(*ORDINALS)})"
"""The pattern of such an ordinal."""

_SMALL, _LARGE = one_of(*_UNITS[1:], *_TENS), one_of(*SCALES, "hundred", "dozen")
SPELLED = (
    rf"(?:(?:half\ )?an?\ (?:{_LARGE})\b|(?:{_SMALL})\b)"
    rf"(?:(?:[ -]|\ and\ )(?:{_SMALL}|{_LARGE})\b){{0,24}}"
)
"""The pattern of a cardinal in lower case, which may have no value: `five twelve hundred`. Without
a limit, a long list of such words would take time quadratic in its length."""

_RUN = re.compile(rf"\b(?:{SPELLED}(?:(?:[ -]|\ and\ )(?:{one_of(*_ORDINALS)})\b)?)")
_SEVERAL_WORDS = re.compile(rf"y[ -](?<=ty.)(?:{one_of(*_UNITS[1:], *_TENS, *_ORDINAL_UNITS[1:])})")
_LARGE_WORDS = ("hundred", "thousand", "illion", "dozen")
TELLING_WORDS = frozenset(("hundred", "dozen", *SCALES, *_TENS))
"""One of these words is in each number of several words."""

_SEPARATOR = re.compile("[ -]")
_HALF = "half"
_FILLERS = frozenset({"a", "an", "and"})
_CENTURIES = range(10, 21)
"""The first part of a year in words, such as `nineteen eighty-four`."""


def find_spelled(lowered: str) -> Iterator[Found]:
    """Yield the numbers of several words in a text in lower case, in order; their form is digits.

    >>> [one.forms for one in find_spelled("forty-two of a hundred, the twenty-first of may")]
    [('42',), ('100',), ('21st',)]
    >>> [one.forms for one in find_spelled("nineteen eighty-four, one or two, nine")]
    [('1984',)]
    """
    if _SEVERAL_WORDS.search(lowered) is None and not any(one in lowered for one in _LARGE_WORDS):
        return
    for match in _RUN.finditer(lowered):
        words = _SEPARATOR.split(match.group())
        value = _value(words) if len(words) > 1 else None
        if value is not None:
            is_ordinal = words[-1] in _ORDINALS
            digits = f"{value}{_suffix(value)}" if is_ordinal else str(value)
            yield Found(*match.span(), (digits,))


def with_digits(text: str) -> str:
    """Return a text in which numbers of several words are written in digits.

    >>> with_digits("Who has forty-two boats?")
    'Who has 42 boats?'
    """
    end, parts = 0, []
    for number in find_spelled(lower(text)):
        parts += [text[end : number.start], *number.forms]
        end = number.end
    return "".join([*parts, text[end:]]) if parts else text


def lower(text: str) -> str:
    """Return a text in lower case, in which every character has its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := one.lower()) == 1 else one for one in text)


def fold(text: str) -> str:
    """Return a text for comparisons that ignore case as regular expressions do.

    For these, the Turkish letters with and without a dot equal an i, unlike for `str.casefold`.

    >>> fold("APRİL")
    'april'
    """
    return text.casefold().replace("i\u0307", "i").replace("\u0131", "i")


def value_of_spelled(number: str) -> int | None:
    """Return the value of a cardinal in words; None if it has none.

    >>> value_of_spelled("three hundred and ten"), value_of_spelled("half a million")
    (310, 500000)
    >>> value_of_spelled("ten five") is None
    True
    """
    return _value(_SEPARATOR.split(number))


def other_spellings_of_number(word: str) -> tuple[str, ...]:
    """Return a number of one word in digits, and the reverse; also ordinals and decades.

    >>> [other_spellings_of_number(one) for one in ("nine", "9", "ninth", "nineties", "one", "42")]
    [('9',), ('nine', '9th'), ('9th',), ('90s', '1990s'), (), ()]
    """
    return _OTHER.get(word, ())


def _suffix(value: int) -> str:
    teens = range(11, 14)
    return "th" if value % 100 in teens else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")


def _groups() -> Iterator[tuple[str, ...]]:
    """Yield spellings of one number, each of which finds those beside it."""
    for word, value in _CARDINALS.items():
        if value > 1:  # "one" is mostly a pronoun
            yield word, str(value)
    for word, value in _ORDINALS.items():
        if value:
            yield word, f"{value}{_suffix(value)}"
    for value in range(2, _DAYS + 1):  # March 9 is the 9th of March
        yield str(value), f"{value}{_suffix(value)}"
    for value, word in enumerate(_TENS, 2):
        yield f"{word[:-1]}ies", f"{value}0s", f"19{value}0s"


def _read_others() -> Mapping[str, tuple[str, ...]]:
    others: dict[str, tuple[str, ...]] = {}
    for group in _groups():
        for one in group:
            others[one] = (*others.get(one, ()), *(other for other in group if other != one))
    return MappingProxyType(others)


_DAYS = 31
_OTHER = _read_others()


def _value(words: Sequence[str]) -> int | None:
    """Return the value of the words of a number or of a year; None if they are several numbers."""
    counted = [one for one in words if one not in _FILLERS]
    if counted[0] == _HALF:
        whole = _sum(counted[1:])
        return None if whole is None or whole % 2 else whole // 2
    value = _sum(counted)
    if value is None:
        for place in range(1, len(counted)):
            century, year = _sum(counted[:place]), _sum(counted[place:])
            if century in _CENTURIES and year in range(10, 100):
                return 100 * (century or 0) + (year or 0)
    return value


def _sum(words: Sequence[str]) -> int | None:
    total, part, last = 0, 0, 10**15
    for word in words:
        if word in SCALES:
            if SCALES[word] >= last:
                return None
            total, part, last = total + (part or 1) * SCALES[word], 0, SCALES[word]
        elif word in {"hundred", "dozen"}:
            if part >= 100:  # noqa: PLR2004 - no number has two hundreds in a row
                return None
            part = (part or 1) * (100 if word == "hundred" else 12)
        else:
            value = NUMBER_WORDS[word]
            fits = part % 100 == 0 or (part % 10 == 0 and part % 100 > 10 and value < 10)  # noqa: PLR2004
            if not fits:
                return None
            part += value
    return total + part
