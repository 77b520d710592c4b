"""Abbreviations with periods: `U.A.E.` is `UAE`, `Ph.D.` is `PhD`, and `T. S. Eliot` is `TS Eliot`.

As words, they would be single letters, which most texts have. A text has the letters without
periods as a further term (`spellings.PLAIN`), and a question is searched for with that term.
"""

from __future__ import annotations

import re

from e2graphrag_integrations.text.words import is_function_word

_PART = "[A-Z][a-z]{0,2}"
_WITH_PERIODS = re.compile(
    rf"{_PART}\.(?:(?:{_PART}\.)*{_PART}(?!\w)\.?|(?<=[A-Z]\.)(?: [A-Z]\.)+)"
)
"""A part has at most three letters, so "Node.JS" and the end of a sentence do not match. Initials
may have spaces between them, as in "T. S. Eliot"."""

_NO_PERIODS = str.maketrans("", "", ". ")
_BEFORE = re.compile(r"[\w.]\Z")


def joined_abbreviations(text: str) -> list[str]:
    """Return the casefolded abbreviations with periods in a text, without the periods.

    One that would be a function word of English, such as `U.S.`, is left out: "us" says nothing.

    >>> joined_abbreviations("A Ph.D. from the U.A.E., not the U.S. Vitamin A. Nothing else.")
    ['phd', 'uae']
    """
    return [joined for match in _WITH_PERIODS.finditer(text) if (joined := _joined(match))]


def with_joined_abbreviations(text: str) -> str:
    """Return a text whose abbreviations have no periods, except those that would be left out.

    >>> with_joined_abbreviations("Is the U.A.E. in the U.N. or the U.S.?")
    'Is the uae in the un or the U.S.?'
    """
    return _WITH_PERIODS.sub(lambda match: _joined(match) or match.group(), text)


def _joined(match: re.Match[str]) -> str:
    if _BEFORE.search(match.string[max(0, match.start() - 1) : match.start()]):
        return ""
    joined = match.group().translate(_NO_PERIODS).casefold()
    return "" if is_function_word(joined) else joined
