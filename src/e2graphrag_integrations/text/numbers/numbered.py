"""Numbered parts and names: `Chapter IV`, `the fourth chapter`, `Henry VIII`, `§ 4`, `第四条`.

Also parts and names with a letter, such as `Exhibit B` or `Vitamin C`: one letter alone is no term
of an index, because every text has it.

A document numbers its parts with digits, Roman numerals or words, and a question may use another
spelling. All have one form: the word and its number in digits, such as `chapter4` or `第4条`. In a
text, the word begins with a capital letter, as in headings and names; in a question, it need not.
Words for numbers are those of English, Chinese and Japanese.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, pairwise
from types import MappingProxyType

from e2graphrag_integrations.text.letters import UNSPACED
from e2graphrag_integrations.text.numbers import Found
from e2graphrag_integrations.text.numbers.dates import MONTHS
from e2graphrag_integrations.text.numbers.english import (
    CARDINAL,
    NUMBER_WORDS,
    ORDINAL,
    ORDINALS,
    fold,
    one_of,
)
from e2graphrag_integrations.text.numbers.han import HAN_NUMBER, value_of_han
from e2graphrag_integrations.text.words import FUNCTION_WORDS

_ROMAN = r"(?=[CLXVI])C{0,3}(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})"
"""A Roman numeral below 400, beyond which most are words or abbreviations."""

_ROMAN_DIGITS = MappingProxyType({"i": 1, "v": 5, "x": 10, "l": 50, "c": 100})

_NO_DIGIT, _BETWEEN = re.compile(r"\D"), re.compile("[ -]")


_PARTS = frozenset(
    """
    act amendment annex annexe appendix article bay block book box canto chapter clause column
    district exercise figure flat floor gate grade group hall item lesson level line lot module
    paragraph part phase platform problem psalm question room route row rule scene section sonnet
    stage step table team title track unit verse volume ward zone
    acte annexe article chapitre livre partie scène tome titre
    abschnitt anhang artikel band buch kapitel teil
    capítulo artículo libro parte sección capitolo articolo sezione
    глава статья часть раздел том
    """.split()
)
"""Words for what is numbered. An ordinal before another word, as in "the first film", seldom is its
number, and neither is one letter or "one" after it, as in "Vitamin C"."""

_SHORT = MappingProxyType(
    {
        "app": "appendix",
        "art": "article",
        "arts": "article",
        "ch": "chapter",
        "chap": "chapter",
        "cl": "clause",
        "fig": "figure",
        "kap": "kapitel",
        "nr": "number",
        "para": "paragraph",
        "pt": "part",
        "rev": "revision",
        "sec": "section",
        "sect": "section",
        "vol": "volume",
    }
)
"""Abbreviations, which a period may follow."""

_SIZED = frozenset({"size", "sizes"})
"""Words before letters that look like Roman numerals, as in "size XL"."""

_DOUBTFUL = frozenset({"one", "i", "l", "c"})
"""What is seldom a number after a word that is not a part."""

_SIGN = "§"
_SIGNED = ("section", "paragraph")
"""What `§` is called in a question."""

_LETTER = r"[^\W\d_]"
_CAPITAL = "[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я]"
_LONGEST_WORD = 15
_WORD = rf"{_LETTER}{{2,{_LONGEST_WORD}}}"
_TITLE = rf"{_CAPITAL}{_LETTER}{{1,{_LONGEST_WORD - 1}}}+"
_END = r"(?![\w'’(]|[.,:-]\w)"


def _number(roman: str, spelled: str) -> str:
    return (
        rf"(?P<period>\.?)\ (?:[Tt]he\ |[Nn](?:o|r|umber)\.?\ |\#\ ?)?"
        rf"(?:(?P<roman>{roman})(?![\w'’-])"
        rf"|(?P<spelled>{spelled})(?![\w'’-])|(?P<digits>\d{{1,3}}){_END})"
    )


# Without a lookbehind, such a pattern is several times as fast.
_NUMBERED = re.compile(
    rf"(?P<word>{_TITLE})" + _number(_ROMAN, rf"(?=[A-Z])(?i:{ORDINAL}|{CARDINAL})")
)
_NUMBERED_ANYWHERE = re.compile(
    rf"(?P<word>{_WORD})" + _number(f"(?i:{_ROMAN})", rf"(?i:{ORDINAL}|{CARDINAL})")
)
_CAPITALS = re.compile(r"[CLXVI]{2,8}(?![\w'’-])")
"""What may be a Roman numeral after a word in lower case, as in "type II"."""

_AFTER_WORD = re.compile(
    rf"(?<!\w)(?P<word>[a-zß-öø-ÿ]{{2,{_LONGEST_WORD}}}) (?P<roman>{_ROMAN})\Z"
)
_ORDERED = re.compile(
    rf"(?P<spelled>{one_of(*map(str.title, ORDINALS), *map(str.upper, ORDINALS))}"
    rf"|\d{{1,3}}(?:st|nd|rd|th))\ (?P<words>{_TITLE}(?:\ {_TITLE})?)"
)
_MAY_BE_ORDERED = re.compile(
    r"[EFNST\d](?:(?<=\d)\d{0,2}(?:st|nd|rd|th)\b|(?<=[A-Z])[A-Za-z]{4,10}+(?=[ -][A-Z]))"
)
"""What `_ORDERED` begins with. It is slow where nothing matches."""

_ORDERED_ANYWHERE = re.compile(
    rf"(?P<spelled>(?i:{ORDINAL}|\d{{1,3}}(?:st|nd|rd|th)))"
    rf"\ (?P<words>{_WORD}(?:\ {_WORD})?)"
)
_IN_DATE = f"(?:{one_of(*(one.title() for one in MONTHS if one not in {'may', 'march'}))})"
"""A month after a number, which is a day then. "3. May I bring a dog?" is an item."""

_AFTER_COUNTS = "May|March|Uhr|Euro|EUR|USD|CHF|AM|PM"
"""Other words after a number at the beginning of a line that is not that of an item."""

_ITEM = re.compile(
    rf"^[ \t#>*(\[\"']{{0,8}}(?P<number>\d{{1,3}})(?:[.):\]]{{1,2}}[ \t]"
    rf"(?!{_IN_DATE}\b)|[ \t]+(?={_CAPITAL})(?!(?:{_IN_DATE}|{_AFTER_COUNTS})\b))",
    re.MULTILINE,
)
"""The number of an item of a list, a heading, or a reference."""

_LISTED = frozenset(
    """
    article chapter clause entry exercise footnote item lesson note number paragraph phase point
    principle problem question recommendation reference requirement rule section source stage step
    task tip
    """.split()
)
"""Words that a question may use for an item."""

_SECTION = re.compile(rf"§{{1,2}}\s?(?P<number>\d{{1,4}}[a-z]?){_END}")
_BRACKETED = re.compile(r"\[(?P<number>\d{1,3})\]")
_HAN = re.compile(rf"[第제]\s?(?P<number>\d{{1,4}}|{HAN_NUMBER})\s?(?P<unit>[{UNSPACED}가-힣])")
_HAN_IN_QUESTION = re.compile(
    rf"(?P<number>(?<!\d)\d{{1,4}}|{HAN_NUMBER})\s?(?P<unit>[条條章节節款项項编編回卷篇课課])"
    r"(?=(?P<about>[的规規内內讲講说說写寫])?)"
)
"""A part whose 第 is left out."""

_MIN_UNMARKED = 10
"""Minimum number of such a part, unless the next word asks what it says: smaller ones count things.
"""


_LETTERED_PARTS = _PARTS | frozenset(
    """
    anlage attachment building case category class column enclosure exhibit hepatitis option plan
    revision scenario schedule size terminal tier tower type variant version vitamin wing
    """.split()
)
"""Words for what may have the letter A or I, or a letter before the end of a sentence."""

_ONE_LETTER = re.compile(r" [A-Z](?![\w'’-])")
_LETTER_ANYWHERE = re.compile(r" [A-Za-z](?![\w'’-])")
_WORD_BEFORE = re.compile(r"[^\W\d_]{2,15}\.?\Z")
_INITIAL = re.compile(r"\.(?:\w| [A-Z])")
_ARTICLES = frozenset("AIai")


def find_numbered(text: str) -> Iterator[Found]:
    """Yield the numbered parts and names in a text.

    >>> [one.forms for one in find_numbered("Chapter IV. Henry the Eighth. 第十二条")]
    [('chapter4',), ('henry8',), ('第12条',)]
    """
    for match in _NUMBERED.finditer(text):
        if _is_numbered(match):
            yield _numbered(match, label(match["word"]) + _value(match))
    yield from _after_lower_case(text)
    end = 0
    for place in _MAY_BE_ORDERED.finditer(text):
        found = _ORDERED.match(text, place.start()) if place.start() >= end else None
        if found is not None and _is_separate(found):
            end = found.end("spelled")
            if parts := _ordered(found):
                yield _numbered(found, *(one + _value(found) for one in parts))
    for match in _ITEM.finditer(text):
        yield _numbered(match, f"item{int(match['number'])}")
    if not text.isascii():
        yield from _after_signs(text)


def _after_signs(text: str) -> Iterator[Found]:
    """Yield the sections after `§` and the parts after 第."""
    for match in _SECTION.finditer(text):
        yield _numbered(match, f"{_SIGN}{match['number']}")
    for match in _HAN.finditer(text):
        yield _numbered(match, _han_form(match))


def _after_lower_case(text: str) -> Iterator[Found]:
    """Yield the words in lower case before a Roman numeral of two or more capital letters."""
    for place in _CAPITALS.finditer(text):
        start = max(0, place.start() - _LONGEST_WORD - 1)
        match = _AFTER_WORD.search(text, start, place.end())
        if match and (word := match["word"]) not in FUNCTION_WORDS | _SIZED:
            number = _value_of(fold(match["roman"]))
            yield _numbered(match, f"{label(word)}{number}")


def numbered_in_question(question: str) -> Iterator[Found]:
    """Yield what may be numbered parts and names in a question.

    >>> [one.forms for one in numbered_in_question("What is in the third chapter, or section ix?")]
    [('section9', '§9', 'item9'), ('chapter3', 'item3')]
    """
    for match in _NUMBERED_ANYWHERE.finditer(question):
        if _is_numbered(match) and not _is_name(match):
            yield _numbered(match, *_asked(label(match["word"]), _value(match)))
    for match in _BRACKETED.finditer(question):
        yield _numbered(match, f"item{match['number']}")
    for match in _ORDERED_ANYWHERE.finditer(question):
        if _is_separate(match) and (parts := _ordered(match)):
            yield _numbered(match, *chain(*(_asked(one, _value(match)) for one in parts)))
    for match in _SECTION.finditer(question):
        number = match["number"]
        yield _numbered(match, _SIGN + number, *(one + number for one in (*_SIGNED, "item")))
    for match in _HAN.finditer(question):
        yield _numbered(match, _han_form(match))
    for match in _HAN_IN_QUESTION.finditer(question):
        if match["about"] or value_of_han(match["number"]) >= _MIN_UNMARKED:
            yield _numbered(match, _han_form(match))


def find_lettered(text: str) -> Iterator[Found]:
    """Yield the words before one capital letter in a text, in order.

    >>> [one.forms for one in find_lettered("Exhibit B. Vitamin C, John F. Kennedy, as I said")]
    [('exhibit-b',), ('vitamin-c',)]
    """
    return _find_lettered(text, _ONE_LETTER)


def lettered_in_question(question: str) -> Iterator[Found]:
    """Yield the words before one letter in a question, in order; the letter may be a small one.

    >>> [one.forms for one in lettered_in_question("How much vitamin c has a lemon?")]
    [('vitamin-c',)]
    """
    return _find_lettered(question, _LETTER_ANYWHERE)


def other_numeral(word: str) -> str:
    """Return a number from 2 to 39 in digits as a Roman numeral, and the reverse; else "".

    Numerals of one letter are left out.

    >>> other_numeral("viii"), other_numeral("8"), other_numeral("v"), other_numeral("five")
    ('8', 'viii', '', '')
    """
    return _other_numerals().get(word, "")


@cache
def _other_numerals() -> Mapping[str, str]:
    units = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
    pairs = [(str(n), "x" * (n // 10) + units[n % 10]) for n in range(2, 40)]
    kept = [(digits, roman) for digits, roman in pairs if len(roman) > 1]
    return MappingProxyType(dict(kept) | {roman: digits for digits, roman in kept})


def label(word: str) -> str:
    """Return the word for a part in lower case, and not abbreviated.

    >>> label("Art"), label("Henry")
    ('article', 'henry')
    """
    folded = word.casefold()
    return _SHORT.get(folded, folded)


def _numbered(match: re.Match[str], *forms: str) -> Found:
    return Found(*match.span(), tuple(dict.fromkeys(forms)))


def _ordered(match: re.Match[str]) -> list[str]:
    """Return the parts of which an ordinal is the number, among the words after it."""
    return [one for one in map(label, match["words"].split()) if one in _PARTS]


def _asked(name: str, number: str) -> Iterator[str]:
    """Yield the forms that a part of a question may have in a text."""
    yield name + number
    if name in _SIGNED:
        yield _SIGN + number
    if name in _LISTED:
        yield f"item{number}"


def _is_separate(match: re.Match[str]) -> bool:
    """Return whether a match does not begin within a word."""
    before = match.string[match.start() - 1 : match.start()]
    return not (before.isalnum() or before in {"_", "-"})


def _is_numbered(match: re.Match[str]) -> bool:
    """Return whether a word before a number is numbered by it, unlike "Then I" or "in one"."""
    word, roman = match["word"], match["roman"]
    name = label(word)
    if (
        name in FUNCTION_WORDS
        or name in MONTHS
        or (match["period"] and word.casefold() not in _SHORT)
    ):
        return False
    if roman and name in _SIZED:
        return False
    is_doubtful = (match["roman"] or match["spelled"] or "").casefold() in _DOUBTFUL
    if name not in _PARTS and (is_doubtful or (roman and not _is_roman(word, roman))):
        return False
    return _is_separate(match)


def _is_roman(word: str, roman: str) -> bool:
    """Return whether letters are a number after a word that is not a part.

    After a word in lower case, as in "type II", one letter is none.
    """
    return roman.isupper() and (word[0].isupper() or len(roman) > 1)


def _is_name(match: re.Match[str]) -> bool:
    """Return whether a numbered word is a name, such as Henry VIII, which the index has as one."""
    word = match["word"]
    return bool(match["roman"]) and word[0].isupper() and label(word) not in _PARTS


def _value(match: re.Match[str]) -> str:
    groups = match.groupdict()
    written = groups.get("roman") or groups.get("digits") or match["spelled"]
    return str(_value_of(fold(written)))


def _value_of(number: str) -> int:
    """Return the value of a number such as 4, 4th, iv, four or twenty-fourth."""
    if number[0].isdigit():
        return int(_NO_DIGIT.sub("", number))
    words = _BETWEEN.split(number)
    if words[0] in NUMBER_WORDS:
        return sum(NUMBER_WORDS[one] for one in words)
    digits = [_ROMAN_DIGITS[one] for one in number]
    return sum(-a if a < b else a for a, b in pairwise([*digits, 0]))


def _han_form(match: re.Match[str]) -> str:
    return f"第{value_of_han(match['number'])}{match['unit']}"


def _find_lettered(text: str, letter: re.Pattern[str]) -> Iterator[Found]:
    for place in letter.finditer(text):
        match = _WORD_BEFORE.search(text, max(0, place.start() - _LONGEST_WORD - 1), place.start())
        if match is None or text[match.start() - 1 : match.start()].isalnum():
            continue
        written = match.group()
        word = label(written.rstrip("."))
        if written.endswith(".") and written[:-1].casefold() not in _SHORT:
            continue  # "We lost the plan. A dog barked."
        if _belongs(word, place):
            form = f"{word}-{place.group().strip().casefold()}"
            yield Found(match.start(), place.end(), (form,))


def _belongs(word: str, place: re.Match[str]) -> bool:
    """Return whether a letter belongs to the word before it, unlike an initial or an article."""
    letter = place.group().strip()
    if word in _LETTERED_PARTS:
        return letter != "a"
    is_initial = _INITIAL.match(place.string, place.end()) is not None
    return word not in FUNCTION_WORDS and letter not in _ARTICLES and not is_initial
