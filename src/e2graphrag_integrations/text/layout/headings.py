"""Recognizes headings: in the first line of a text, and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from e2graphrag_integrations.text.letters import UNSPACED

MAX_HEADING_WORDS = 12
"""Maximum number of words in a heading."""

MAX_LEVEL = 6
"""Deepest level of a heading, in Markdown and HTML."""

MAX_HEADING_LETTERS = 30
"""Maximum number of letters in a heading in a script without spaces between words."""

_END_PUNCTUATION = frozenset(".!?;,…。！？；，、")

_MAX_WIDTH = 0.6
"""Maximum length of a heading relative to the longest other line. The first line of hard-wrapped
prose is about as long as the others."""

_UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MAX_LINE = 400
"""Maximum length of a line that can be a Markdown heading, with the addresses of its links."""


class Heading(NamedTuple):
    """A heading in a text.

    Attributes:
        name: The heading without markup.
        level: Its level: 1 is the highest.
        start, end: The span of its line, and of the line below it if that underlines it.
    """

    name: str
    level: int
    start: int
    end: int


def first_line_heading(text: str) -> str | None:
    r"""Return the first line of a text if it reads as a heading, without surrounding whitespace.

    A heading has at most 12 words (30 letters in a script without spaces), does not end like a
    sentence, is much shorter than the longest of the following lines, and is not continued in
    lowercase.

    >>> first_line_heading("Jeff Porcaro\nJeffrey Thomas Porcaro was an American drummer.")
    'Jeff Porcaro'
    >>> first_line_heading("It was a long line that goes on\nin the next one.") is None
    True
    """
    line, newline, rest = text.lstrip().partition("\n")
    line, rest = line.strip(), rest.lstrip()
    if not newline or not line or not rest:
        return None
    ends_like_sentence = line[-1] in _END_PUNCTUATION
    if ends_like_sentence or rest[0].islower() or _is_long(line):
        return None
    longest = max(len(other) for other in rest.split("\n"))
    return line if len(line) <= _MAX_WIDTH * longest else None


def _is_long(line: str) -> bool:
    letters = sum(1 for _ in _UNSPACED_LETTER.finditer(line))
    return len(line.split()) > MAX_HEADING_WORDS or letters > MAX_HEADING_LETTERS


def markdown_headings(text: str) -> Iterator[Heading]:
    r"""Yield the headings of a Markdown text, except in fenced code.

    >>> [(h.name, h.level) for h in markdown_headings("# Tools\n\nSaws\n----\n\nThey cut.")]
    [('Tools', 1), ('Saws', 2)]
    """
    is_code = False
    start, previous = 0, (0, "")
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if len(bare) > _MAX_LINE:
            bare = ""
        if _FENCE.match(bare):
            is_code, bare = not is_code, ""
        if not is_code:
            found = _heading(bare, start, *previous)
            if found is not None:
                yield found
                bare = ""
        start, previous = start + len(line), (start, bare)


def _heading(line: str, start: int, previous_start: int, previous: str) -> Heading | None:
    """Return the heading that ends with a line, if there is one."""
    level, end = None, start + len(line)
    atx = _ATX.fullmatch(line)
    if atx is not None:
        level, name = len(atx[1]), atx[2]
    elif (underline := _UNDERLINE.fullmatch(line)) is not None:
        level, name, start = (1 if underline[1][0] == "=" else 2), previous, previous_start
    if level is None:
        return None
    name = _LINK.sub(r"\1", name).strip("*_` \t")
    is_short = 0 < len(name.split()) <= MAX_HEADING_WORDS
    return Heading(name, level, start, end) if is_short else None
