"""Words of a text in any script, with their exact spans, for the rule-based extractor.

A word keeps the combining marks of its letters. It may contain invisible characters, such as a soft
hyphen or a joiner, but does not begin or end with one.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from functools import cache
from typing import NamedTuple

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.text.letters import (
    ALPHABETIC_UNSPACED,
    HAN_LETTERS,
    HANGUL_LETTERS,
    MARKS,
    UNSPACED,
)

INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
"""Regex character class of characters without a width that may stand inside a word."""

_HIRAGANA = "\u3041-\u3096\u3099-\u309a\u309d-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_MIDDLE_DOTS = "\u30fb\uff65"
_OWN_RULES = UNSPACED + HANGUL_LETTERS + _HIRAGANA + _KATAKANA
_IN_WORD_PUNCTUATION = "\u055a-\u055e"  # Armenian marks stand above a vowel
_CONNECTORS = "-\u2010\u2011'\u2019\u02bc\u00b7"
_HEBREW = "\u05d0-\u05ea"
_GEORGIAN = re.compile("[\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2f]")


class Kind(Enum):
    """The kind of a word, by its script."""

    SPACED = 0
    HAN = 1
    HIRAGANA = 2
    KATAKANA = 3
    SOUTHEAST_ASIAN = 4
    HANGUL = 5


class WordForm:
    """A word as written, and the facts about it that do not depend on its place.

    Attributes:
        text: The word as written.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @lazy
    def key(self) -> str:
        """The word in the form in which occurrences are compared."""
        return _DELETED.sub("", unicodedata.normalize("NFC", self.text)).casefold()

    @lazy
    def is_capitalized(self) -> bool:
        """Whether the word begins with a capital letter of a script that has small letters."""
        first = self.text[0]
        return (first.isupper() or first.istitle()) and not self._is_georgian

    @lazy
    def has_capital(self) -> bool:
        """Whether a letter of the word is a capital, as in "iPhone" and "al-Qaida"."""
        return any(map(str.isupper, self.text)) and not self._is_georgian

    @lazy
    def is_cased(self) -> bool:
        """Whether the script of the word distinguishes capital letters."""
        first = next((c for c in self.text if c.isalpha()), "")
        return first.lower() != first.upper() and not self._is_georgian

    @lazy
    def is_uppercase(self) -> bool:
        """Whether the word consists of at least two capital letters."""
        return self.text.isupper() and sum(c.isalpha() for c in self.text) > 1

    @lazy
    def has_digit(self) -> bool:
        """Whether the word contains a digit."""
        return any(c.isdigit() for c in self.text)

    @lazy
    def letters(self) -> int:
        """Number of letters in the word, and of vowel signs."""
        return sum(c.isalpha() or unicodedata.category(c) == "Mc" for c in self.key)

    @property
    def _is_georgian(self) -> bool:
        return _GEORGIAN.match(self.text) is not None  # its capitals do not begin names


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        form: The word as written; words that are written alike share it.
        start: Start of its span.
        kind: Its kind.
    """

    form: WordForm
    start: int
    kind: Kind

    @property
    def text(self) -> str:
        """The word as written."""
        return self.form.text

    @property
    def key(self) -> str:
        """The word in the form in which occurrences are compared."""
        return self.form.key

    @property
    def end(self) -> int:
        """End of the span."""
        return self.start + len(self.form.text)


_DELETED = re.compile(f"[{INVISIBLE}{_IN_WORD_PUNCTUATION}]")


class _Patterns(NamedTuple):
    word: re.Pattern[str]
    elision: re.Pattern[str]


def find_words(text: str) -> list[Word]:
    """Return the words of a text, in order.

    Runs of Han, kana, Hangul and the scripts of Thai, Lao, Khmer and Burmese are words of their
    own. A lowercase elision before a capital, as in "d'Arc", is separated from the name.
    """
    patterns = _patterns()
    words: list[Word] = []
    forms: dict[str, WordForm] = {}

    def add(written: str, start: int, kind: Kind) -> None:
        form = forms.get(written) or forms.setdefault(written, WordForm(written))
        words.append(Word(form, start, kind))

    for match in patterns.word.finditer(text):
        start, word = match.start(), match.group()
        kind = Kind(match.lastindex or 0)
        if kind is Kind.SPACED:
            elision = patterns.elision.match(word)
            if elision is not None and elision[1].islower() and word[elision.end()].isupper():
                add(elision[1], start, kind)
                start, word = start + elision.end(), word[elision.end() :]
        add(word, start, kind)
    return words


@cache
def _patterns() -> _Patterns:
    letter = rf"[^\W_{_OWN_RULES}]"
    inner = rf"(?:[{INVISIBLE}{_IN_WORD_PUNCTUATION}]*+{letter}|[{MARKS}])*+"
    hebrew = rf"(?<=[{_HEBREW}])[\"\u05f3\u05f4](?=[{_HEBREW}])"
    word = rf"{letter}{inner}(?:(?:[{_CONNECTORS}]|{hebrew})(?={letter}){letter}{inner})*+"
    sounds = "\u3099\u309a"  # combining sound marks of decomposed kana
    runs = [
        rf"[{HAN_LETTERS}][{HAN_LETTERS}\ufe00-\ufe0f\U000e0100-\U000e01ef]*",
        rf"[{_HIRAGANA}]+",
        rf"[{_KATAKANA}](?:[{_MIDDLE_DOTS}]?[{_KATAKANA}{sounds}])*",
        rf"[{ALPHABETIC_UNSPACED}](?:[{INVISIBLE}]*+[{ALPHABETIC_UNSPACED}])*",
        rf"[{HANGUL_LETTERS}]+",
    ]
    pattern = "|".join([*(f"({run})" for run in runs), word])
    elision = re.compile(r"([^\W\d_]{1,5})['\u2019\u02bc](?=[^\W\d_])")
    return _Patterns(re.compile(pattern), elision)
