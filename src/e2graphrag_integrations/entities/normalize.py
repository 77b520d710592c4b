"""Normal forms of entity names in any script."""

from __future__ import annotations

import re
import unicodedata

from e2graphrag_integrations.text.words import has_unspaced

ARTICLES = frozenset({"the", "a", "an"})
ADDRESSES = frozenset(
    "mr mrs ms miss mme mlle messrs dr prof rev hon capt col gen maj lt sgt cpl".split()
)
"""Forms of address that are not part of a name."""

HONORIFICS = ADDRESSES | frozenset(
    "madame monsieur doctor professor sir dame lady lord reverend captain colonel general major "
    "lieutenant sergeant president king queen prince princess duke duchess count countess baron "
    "baroness saint st father mother uncle aunt pope emperor empress".split()
)
"""Words that precede a name or, as in "Prince of Wales", are part of one."""

_SPACE = re.compile(r"\s+")
_MAX_PART = 24
"""Maximum length of a part of a name, in words, or in characters for a script without spaces.
Bounds the number of parts."""

_POSSESSIVE = re.compile(r"['’]s?$")
_WORD = re.compile(r"\w+")


def normal_form(name: str) -> str:
    r"""Return the normal form of a name: NFKC, casefolded, trimmed, with single spaces.

    Leading articles, quotes and a trailing possessive are removed unless nothing would remain.

    >>> normal_form("The  Palace of  Green Porcelain's")
    'palace of green porcelain'
    """
    previous = ""
    form = name
    while form != previous:  # casefolding can undo NFKC, so repeat until stable
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
    """Strip all characters except letters and digits from both ends, but keep a final period."""
    start, end = 0, len(form)
    while start < end and not _WORD.match(form[start]):
        start += 1
    last = end
    while last > start and form[last - 1] != "." and not _WORD.match(form[last - 1]):
        last -= 1
    # Vowel signs and tone marks belong to the preceding letter, although `\w` excludes them.
    while last < end and unicodedata.category(form[last]).startswith("M"):
        last += 1
    return form[start:last]


def without_honorifics(form: str) -> str:
    """Remove leading honorifics and articles from a normal form, but keep at least one word."""
    words = form.split(" ")
    while len(words) > 1 and words[0].rstrip(".") in HONORIFICS | ARTICLES:
        words = words[1:]
    return " ".join(words)


def sub_spans(form: str) -> list[str]:
    """Return the contiguous parts of a normal form, longest first, then left to right.

    Parts consist of complete words. In scripts without spaces, a form that contains no space is
    split between characters instead, and each part has at least two characters.
    """
    units, glue, least = (form.split(" "), " ", 1)
    if len(units) == 1:
        if not has_unspaced(form):
            return []
        units, glue, least = list(form), "", 2
    return [
        glue.join(units[start : start + size])
        for size in range(min(len(units) - 1, _MAX_PART), least - 1, -1)
        for start in range(len(units) - size + 1)
    ]
