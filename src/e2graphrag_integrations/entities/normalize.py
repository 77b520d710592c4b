"""Normal forms of entity names, Unicode-safe: no script is filtered away."""

from __future__ import annotations

import re
import unicodedata

from e2graphrag_integrations.text.words import has_unspaced

ARTICLES = frozenset({"the", "a", "an"})
ADDRESSES = frozenset(
    "mr mrs ms miss mme mlle messrs dr prof rev hon capt col gen maj lt sgt cpl".split()
)
"""Forms of address that are never part of a name."""

HONORIFICS = ADDRESSES | frozenset(
    "madame monsieur doctor professor sir dame lady lord reverend captain colonel general major "
    "lieutenant sergeant president king queen prince princess duke duchess count countess baron "
    "baroness saint st father mother uncle aunt pope emperor empress".split()
)
"""Words that may stand before a name or, as in "Prince of Wales", be part of one."""

_SPACE = re.compile(r"\s+")
_LONGEST_PART = 24
"""Units in the longest part of a name that is looked up: bounds the parts of an endless one."""

_POSSESSIVE = re.compile(r"['’]s?$")
_WORD = re.compile(r"\w+")


def normal_form(name: str) -> str:
    r"""Return the form under which a name is stored: NFKC, casefolded, trimmed, one space a gap.

    Leading articles, quotes and a trailing possessive are dropped, unless nothing would be left.

    >>> normal_form("The  Palace of  Green Porcelain's")
    'palace of green porcelain'
    """
    previous = ""
    form = name
    while form != previous:  # casefolding can undo NFKC: repeat until nothing changes
        previous = form
        form = unicodedata.normalize("NFKC", form).casefold()
        form = _SPACE.sub(" ", form).strip()
        form = _trim(form)
        form = _POSSESSIVE.sub("", form).strip()
        head, space, rest = form.partition(" ")
        if space and head in ARTICLES and _WORD.search(rest):
            form = rest
    return form if _WORD.search(form) else ""


def _trim(form: str) -> str:
    """Cut what is no letter or digit off both ends, but for a full stop at the end."""
    start, end = 0, len(form)
    while start < end and not _WORD.match(form[start]):
        start += 1
    last = end
    while last > start and form[last - 1] != "." and not _WORD.match(form[last - 1]):
        last -= 1
    # Vowel signs and tone marks are part of the letter before them, though `\w` leaves them out.
    while last < end and unicodedata.category(form[last]).startswith("M"):
        last += 1
    return form[start:last]


def without_honorifics(form: str) -> str:
    """Drop leading honorifics and articles from a normal form, keeping at least one word."""
    words = form.split(" ")
    while len(words) > 1 and words[0].rstrip(".") in HONORIFICS | ARTICLES:
        words = words[1:]
    return " ".join(words)


def sub_spans(form: str) -> list[str]:
    """Return the proper contiguous parts of a normal form, longest first, then left to right.

    Parts are made of words; a form without spaces in a script that has none is cut in characters,
    of which a part needs two.
    """
    units, glue, least = (form.split(" "), " ", 1)
    if len(units) == 1:
        if not has_unspaced(form):
            return []
        units, glue, least = list(form), "", 2
    return [
        glue.join(units[start : start + size])
        for size in range(min(len(units) - 1, _LONGEST_PART), least - 1, -1)
        for start in range(len(units) - size + 1)
    ]
