"""Tables of contents, which name every section of a text and say nothing about any.

They match most questions about the text. A text with one has the term `CONTENTS`, so that ranking
knows it (`retrieval/ranking/tables_of_contents.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

CONTENTS = "!contents"
"""The term of a table of contents. No word begins with an exclamation mark."""

# Bounds keep the time linear for any text.
_LEADER = (
    r"(?:(?<!\.)\.{3,200}|(?<!\.[ \xa0])(?:\.[ \xa0]){3,100}|(?<!…)…{1,100}|(?<!·)·{3,200}"
    r"|(?<!_)_{3,200})"
)
_PAGE_AFTER_LEADER = re.compile(
    rf"{_LEADER}[ \t.…·_]{{0,9}}(?P<page>\d{{1,4}})(?![\d%]|[ ]*[a-z])\|?"
)
_PAGE_AFTER_SPACES = re.compile(
    r"(?:\t|[ ]{3})[ \t]{0,99}(?P<page>\d{1,4})[ \t|]{0,9}$", re.MULTILINE
)
_LINK = re.compile(
    r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\[[^\]\n]{1,200}\]\(#[^)\n]{0,200}\)[ \t]*$", re.MULTILINE
)
_HINTS = ("...", ". . .", "…", "···", "___", "\t", "   ", "](#")
"""Every table of contents contains one of these, and few other texts do."""

_HEADING = re.compile(
    r"^\W{0,9}(?:(?:table of )?contents|inhalt(?:sverzeichnis)?|sommaire|table des matières|índice"
    r"|contenido|indice|содержание|оглавление|目\s?[录錄次])\W{0,9}$",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBERED = re.compile(r"(?:\d+(?:\.\d+)*[.)]?|[A-Z]\.|[A-Za-z]{4,9} (?:\d+|[IVXLC]+)\b|第)")

_LONGEST_TITLE = 200
"""Maximum number of characters of an entry before its page."""

_FEWEST = 3
"""Minimum number of entries."""

_MIN_SHARE = 0.5
"""Minimum share of the entries in the characters of a text, without spaces."""


def is_table_of_contents(text: str) -> bool:
    r"""Return whether most of a text is a table of contents.

    Its entries end with page numbers that never fall, after dots, or after a tab or spaces if there
    is a heading or most entries are numbered. Or they are links to sections.

    >>> is_table_of_contents("1. Cleaning ..... 4\n2. Battery ..... 7\n3. Warranty .... 9")
    True
    >>> is_table_of_contents("Soup ..... 4\nBread ..... 2\nFish .... 9")
    False
    """
    if not any(one in text for one in _HINTS):
        return False
    links = [one.group() for one in _LINK.finditer(text)]
    return (
        _are_most(text, links)
        or _entries_with_pages(text, _PAGE_AFTER_LEADER) is not None
        or _is_list_of_sections(text)
    )


def _is_list_of_sections(text: str) -> bool:
    entries = _entries_with_pages(text, _PAGE_AFTER_SPACES) or []
    numbered = sum(_NUMBERED.match(one) is not None for one in entries)
    return numbered > len(entries) / 2 or (bool(entries) and _HEADING.search(text) is not None)


def _entries_with_pages(text: str, page: re.Pattern[str]) -> list[str] | None:
    """Return the entries that end with a page, if they are most of a text and the pages rise."""
    entries, pages, last = [], [], 0
    for match in page.finditer(text):
        title = text[max(last, match.start() - _LONGEST_TITLE) : match.start()]
        title = title.rpartition("\n")[2].strip()
        if any(map(str.isalpha, title)):
            entries.append(title + match.group())
            pages.append(int(match["page"]))
        last = match.end()
    rises = all(one <= after for one, after in pairwise(pages))
    return entries if rises and _are_most(text, entries) else None


def _are_most(text: str, entries: Sequence[str]) -> bool:
    own = sum(len("".join(one.split())) for one in entries)
    return len(entries) >= _FEWEST and own >= _MIN_SHARE * len("".join(text.split()))
