"""A word and the letter that follows it: `Exhibit B`, `Vitamin C`, `size S`, `Rev. B`.

The letter alone is no term of an index, because every text has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from e2graphrag_integrations.text.numbers.numbered import PARTS, Numbered, label
from e2graphrag_integrations.text.words import FUNCTION_WORDS

_LETTERED_PARTS = PARTS | frozenset(
    """
    anlage attachment building case category class column enclosure exhibit hepatitis option plan
    revision scenario schedule size terminal tier tower type variant version vitamin wing
    """.split()
)
"""Words for what may have the letter A or I, or a letter before the end of a sentence."""

_LETTER = re.compile(r" [A-Z](?![\w'’-])")
_LETTER_ANYWHERE = re.compile(r" [A-Za-z](?![\w'’-])")
_WORD = re.compile(r"[^\W\d_]{2,15}\.?\Z")
_LONGEST_WORD = 16
_INITIAL = re.compile(r"\.(?:\w| [A-Z])")
_ARTICLES = frozenset("AIai")


def find_lettered(text: str) -> Iterator[Numbered]:
    """Yield the words before one capital letter in a text, in order.

    >>> [one.forms for one in find_lettered("Exhibit B. Vitamin C, John F. Kennedy, as I said")]
    [('exhibit-b',), ('vitamin-c',)]
    """
    return _find(text, _LETTER)


def lettered_in_question(question: str) -> Iterator[Numbered]:
    """Yield the words before one letter in a question, in order; the letter may be a small one.

    >>> [one.forms for one in lettered_in_question("How much vitamin c has a lemon?")]
    [('vitamin-c',)]
    """
    return _find(question, _LETTER_ANYWHERE)


def _find(text: str, letter: re.Pattern[str]) -> Iterator[Numbered]:
    for place in letter.finditer(text):
        match = _WORD.search(text, max(0, place.start() - _LONGEST_WORD), place.start())
        if match is None or text[match.start() - 1 : match.start()].isalnum():
            continue
        if _belongs(label(match.group().rstrip(".")), place):
            form = f"{label(match.group().rstrip('.'))}-{place.group().strip().casefold()}"
            yield Numbered(match.start(), place.end(), (form,))


def _belongs(word: str, place: re.Match[str]) -> bool:
    """Return whether a letter belongs to the word before it, unlike an initial or an article."""
    letter = place.group().strip()
    if word in _LETTERED_PARTS:
        return letter != "a"
    is_initial = _INITIAL.match(place.string, place.end()) is not None
    return word not in FUNCTION_WORDS and letter not in _ARTICLES and not is_initial
