"""Headings of texts without markup: short lines of their own above prose, as in a PDF or a manual.

A name in an address, an item of a list and the last line of a paragraph are short lines, too. A
heading stands below a blank line or the end of a sentence, does not end like a sentence itself, and
has prose below it. At most a few headings follow each other: more lines are a list.

`HeadingsAbove` finds the headings of a place in any text, in Markdown or without markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from e2graphrag_integrations.text.headings import (
    MAX_WIDTH,
    MAY_HAVE_MARKDOWN,
    Heading,
    is_too_long,
    markdown_headings,
)

_LINE = re.compile(
    r"^[ \t\u3000]*+([\w§][^\n\t|{}<>=;@]{0,79})(?<=[\w)\]）」』》\"”’'*%+])[ \t\r]*$",
    re.MULTILINE,
)
_PAGE = re.compile(r"(?:page|seite|p\.)\s*\d+(?:\s+(?:of|von)\s+\d+)?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_LETTER = re.compile(r"[^\W\d_]")
_SENTENCE_END = re.compile(r"[.!?。！？][\"'”’」』)]*\Z")
_KEY = re.compile(r"[\w .-]{1,30}[:：]")
_NUMBER = re.compile(r"(\d+(?:\.\d+)*)[.)]?\s")
_PART = re.compile(r"(?:part|book|volume|teil)\s+[\divxlc]+\b|第\w{1,6}[部卷编編篇]", re.IGNORECASE)
_CHAPTER = re.compile(
    r"(?:chapter|section|article|appendix|annex|kapitel|abschnitt)\s+[\da-zivxlc]{1,6}\b"
    r"|第\w{1,6}[章回条條节節]",
    re.IGNORECASE,
)

_MAX_CHAIN = 3
"""Maximum number of headings that follow each other without text between them."""

_SEEN_ABOVE = 120
"""Number of characters above a line in which the line above it is looked for."""

_PART_LEVEL, _CHAPTER_LEVEL, _CAPITALS_LEVEL, _OTHER_LEVEL = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class _Line:
    """A short line that may be a heading.

    Attributes:
        name: The line without surrounding whitespace.
        start, end: Its span.
        is_alone: Whether a blank line is above it.
    """

    name: str
    start: int
    end: int
    is_alone: bool


def plain_headings(text: str) -> Iterator[Heading]:
    r"""Yield the headings of a text without markup.

    >>> text = "ASTER 200\n\nCleaning\n\nRinse the tank.\n\nStorage\n\nKeep it cool."
    >>> [(h.name, h.level) for h in plain_headings(text)]
    [('ASTER 200', 3), ('Cleaning', 4), ('Storage', 4)]
    """
    groups: list[list[Heading]] = []  # headings that follow each other, both from the last one
    for line in reversed([*_lines(text)]):
        after = _next_line(text, line.end)
        level = _level(line.name)
        if groups and after is not None and after[0] == groups[-1][-1].start:
            level = max(min(level, groups[-1][-1].level - 1), _PART_LEVEL)
        elif _is_prose_below(line, text, after):
            groups.append([])
        else:
            continue
        groups[-1].append(Heading(line.name, level, line.start, line.end))
    for group in reversed(groups):
        if len(group) <= _MAX_CHAIN:
            yield from reversed(group)


def _lines(text: str) -> Iterator[_Line]:
    """Yield the short lines that have the end of a paragraph or of a sentence above.

    Or a line of a higher level: in a PDF, "3.1 Filter" directly follows "3 Care".
    """
    last: _Line | None = None
    for match in _LINE.finditer(text):
        name, start = match[1], match.start()
        above = text[max(0, start - _SEEN_ABOVE) : start].rsplit("\n", 2)[-2:]
        previous = above[0].rstrip() if len(above) > 1 else ""
        follows = last is not None and last.end + 1 == start and _level(last.name) < _level(name)
        if name[0].islower() or not (follows or not previous or _SENTENCE_END.search(previous)):
            continue
        if _SENTENCE_END.search(name) or (_KEY.match(name) and _level(name) > _CHAPTER_LEVEL):
            continue
        is_named = _LETTER.search(name) is not None or _DATE.fullmatch(name) is not None
        if is_named and not _PAGE.fullmatch(name) and not is_too_long(name):
            last = _Line(name, start, match.end(), not previous)
            yield last


def _next_line(text: str, end: int) -> tuple[int, str] | None:
    """Return where the next line that is not blank begins, and the line; None at the end."""
    while end < len(text):
        start, end = end + 1, text.find("\n", end + 1)
        end = len(text) if end < 0 else end
        if line := text[start:end].strip():
            return start, line
    return None


def _is_prose_below(line: _Line, text: str, after: tuple[int, str] | None) -> bool:
    """Return whether a line that may be a heading has prose below it, or the text ends there."""
    if after is None:
        return line.is_alone
    start, below = after
    if below[0].islower() or (_KEY.match(below) and not _SENTENCE_END.search(below)):
        return False
    if len(line.name) <= MAX_WIDTH * len(below):
        return True
    has_gap = text.count("\n", line.end, start) > 1
    return line.is_alone and has_gap and _SENTENCE_END.search(below) is not None


def _level(name: str) -> int:
    if _PART.match(name):
        return _PART_LEVEL
    if _CHAPTER.match(name):
        return _CHAPTER_LEVEL
    number = _NUMBER.match(name)
    if number is not None:
        return _OTHER_LEVEL + number[1].count(".")
    return _CAPITALS_LEVEL if name.isupper() else _OTHER_LEVEL


class HeadingsAbove:
    """The headings above a place, in texts of one document that follow each other.

    A document with a Markdown heading has no others from there on.
    """

    def __init__(self) -> None:
        self._open: list[Heading] = []
        self._found: list[Heading] = []
        self._is_markdown = False

    def read(self, text: str) -> None:
        """Read the next text of the document."""
        self._open = _below(self._open, self._found)
        found = [*markdown_headings(text)] if MAY_HAVE_MARKDOWN.search(text) else []
        self._is_markdown |= bool(found)
        self._found = found if self._is_markdown else [*plain_headings(text)]

    def at(self, place: int) -> list[str]:
        """Return the headings above a place in the last text, highest first."""
        found = [heading for heading in self._found if heading.start < place]
        return [heading.name for heading in _below(self._open, found)]


def _below(above: Sequence[Heading], headings: Sequence[Heading]) -> list[Heading]:
    """Return the headings above a place after more headings, highest first."""
    found = [*above]
    for heading in headings:
        while found and found[-1].level >= heading.level:
            found.pop()
        found.append(heading)
    return found
