"""Spellings of words without the marks of their letters, and of words that some write as one.

People write "creme brulee", "Bodo" or "Mueller" where a text has "crème brûlée", "Bodø" and
"Müller", and the reverse. A word with such a letter is therefore indexed a second time in each
plain spelling, as a term of its own, so that it still ranks above a word without marks.

So are "U.A.E.", "T. S. Eliot", "O'Brien" and "Mc Leod", which others write as "UAE", "TS Eliot",
"OBrien" and "McLeod". Apart, they are single letters and parts, which other texts have, too. A
question is searched for with the joined word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from e2graphrag_integrations.text.words import is_function_word

PLAIN = "~"
"""First character of the term of a plain spelling. No word begins with it."""

_CACHED = 8192

_LETTER = re.compile("[\u00e0-\u024f\u0370-\u03ff\u0451\u1e00-\u1fff]")
"""What every word with such a letter contains. Other scripts need no further look."""

_MARKED = re.compile("([a-z\u03b1-\u03c9])[\u0300-\u036f]+|(\u0435)\u0308")
"""A Latin or Greek letter with marks, or the Russian letter yo."""

STROKES = str.maketrans("øłđðħŧ", "olddht")
"""Letters with a stroke, which Unicode does not divide into a letter and a mark."""

_LIGATURES = str.maketrans({"æ": "ae", "œ": "oe", "þ": "th", "ı": "i"})
_PAIRS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae"})
"""How German and the Scandinavian languages write letters with two others."""

_PART = "[A-Z][a-z]{0,2}"
_APART = re.compile(
    rf"{_PART}\.(?:(?:{_PART}\.)*{_PART}(?!\w)\.?|(?<=[A-Z]\.)(?: [A-Z]\.)+)"
    r"|[DLO]['’][A-Z][^\W\d_]+|Ma?c [A-Z][a-z]+"
)
"""A part of an abbreviation has at most three letters, so "Node.JS" and the end of a sentence do
not match. Initials may have spaces between them."""

_SEPARATORS = str.maketrans("", "", ".'’ ")
_BEFORE = re.compile(r"[\w.]\Z")


@lru_cache(maxsize=_CACHED)
def plain_spellings(word: str) -> tuple[str, ...]:
    """Return the spellings of a casefolded word without marks; none if it has no such letter.

    A spelling that is a function word of English is left out: "för" is not "for".

    >>> plain_spellings("müller"), plain_spellings("bodø"), plain_spellings("müll")[0]
    (('muller', 'mueller'), ('bodo', 'bodoe'), 'mull')
    >>> plain_spellings("ёлка"), plain_spellings("cafe"), plain_spellings("йод")
    (('елка',), (), ())
    """
    if word.isascii() or not _LETTER.search(word):
        return ()
    found = dict.fromkeys(map(_without_marks, (word, word.translate(_PAIRS))))
    return tuple(one for one in found if one != word and not is_function_word(one))


def plain_terms(terms: Iterable[str]) -> list[str]:
    """Return the further terms of a text for its words that have marks.

    >>> plain_terms(["crème", "brulee"])
    ['~creme']
    """
    return [PLAIN + plain for term in terms for plain in plain_spellings(term)]


def other_spellings(word: str, *, is_known: bool) -> tuple[str, ...]:
    """Return the terms by which an index has a word of a question in another spelling.

    Args:
        word: The casefolded word.
        is_known: Whether a text has the word as it is. Otherwise, it may have it with other marks.

    >>> other_spellings("crème", is_known=True), other_spellings("creme", is_known=True)
    (('creme',), ('~creme',))
    >>> other_spellings("éleve", is_known=False)
    ('eleve', '~eleve')
    """
    plain = plain_spellings(word)
    if not plain:
        return (PLAIN + word,)
    return plain if is_known else (*plain, *(PLAIN + one for one in plain))


def joined_words(text: str) -> list[str]:
    """Return the casefolded words that are apart in a text, joined.

    One that would be a function word of English, such as `U.S.`, is left out: "us" says nothing.

    >>> joined_words("Ms. O'Brien has a Ph.D. from the U.S. Vitamin A. Nothing else.")
    ['obrien', 'phd']
    """
    return [joined for match in _APART.finditer(text) if (joined := _joined(match))]


def with_joined_words(text: str) -> str:
    """Return a text in which these words are joined.

    >>> with_joined_words("Is Mr. Mc Leod in the U.N. or the U.S.?")
    'Is Mr. mcleod in the un or the U.S.?'
    """
    return _APART.sub(lambda match: _joined(match) or match.group(), text)


def _joined(match: re.Match[str]) -> str:
    if _BEFORE.search(match.string[max(0, match.start() - 1) : match.start()]):
        return ""
    joined = match.group().translate(_SEPARATORS).casefold()
    return "" if is_function_word(joined) else joined


def _without_marks(word: str) -> str:
    bare = _MARKED.sub(lambda match: match[1] or match[2], unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare).translate(STROKES).translate(_LIGATURES)
