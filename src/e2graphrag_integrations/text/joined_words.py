"""Words that some write as one, and others apart.

Examples are `UAE` and `U.A.E.`, `TS Eliot` and `T. S. Eliot`, `OBrien` and `O'Brien`, and `McLeod`
and `Mc Leod`. Apart, they are single letters and parts, which other texts have, too. A
text has the joined word as a further term (`spellings.PLAIN`), and a question is searched for with
that word.
"""

from __future__ import annotations

import re

from e2graphrag_integrations.text.words import is_function_word

_PART = "[A-Z][a-z]{0,2}"
_APART = re.compile(
    rf"{_PART}\.(?:(?:{_PART}\.)*{_PART}(?!\w)\.?|(?<=[A-Z]\.)(?: [A-Z]\.)+)"
    r"|[DLO]['’][A-Z][^\W\d_]+|Ma?c [A-Z][a-z]+"
)
"""A part of an abbreviation has at most three letters, so "Node.JS" and the end of a sentence do
not match. Initials may have spaces between them."""

_SEPARATORS = str.maketrans("", "", ".'’ ")
_BEFORE = re.compile(r"[\w.]\Z")


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
