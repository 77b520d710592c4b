"""Line breaks that end a line on purpose, in contrast to those of wrapped prose.

In a list of names, an address or a table, a name does not go on in the next line. In wrapped prose,
it may, so a break counts only if the line is a piece of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from e2graphrag_integrations.text.layout.rows import RowBlock, row_blocks
from e2graphrag_integrations.types import Span

_PARAGRAPH = re.compile(r"(?:[^\n]*\S[^\n]*(?:\n|\Z))+")
_LINE = re.compile(r"[^\n]+")
_MARKER = re.compile(r"\s*(?:[-*•–▪◦+]|\d{1,3}[.)]|[A-Za-z][.)]|[^\W\d_][\w ]{0,20}:)(?:\s|$)")
"""The beginning of an item of a list, or of a line with a key and a value."""

_JOINERS = frozenset("of the and de la du des von van der den & y e i in".split())
_MAX_TITLE_WORDS, _MAX_TITLE = 6, 50
"""Maximum number of words, and length, of a line that is a name."""

_MAX_ITEM_WORDS, _MAX_ITEM = 3, 30
_MIN_ITEMS = 3
"""Maximum number of words, and length, of the lines of a list in lower case, and the minimum number
of its lines."""

_FITS = 0.9
"""A line that ends before this share of the width of its paragraph, although the next word would
have fit, was ended on purpose."""

_CELL_ENDS = {"\t": "\t", "|": "|", ";": ";", ",": ","}


def name_ends(text: str) -> list[int]:
    r"""Return the places of the line breaks and separators of cells that end a name, ascending.

    >>> name_ends("Guests:\nElsa Grimm\nEdith Orth")
    [7, 18]
    """
    places: set[int] = set()
    for block in row_blocks(text):
        places.update(_cell_ends(text, block))
    for paragraph in _PARAGRAPH.finditer(text):
        lines = [Span(*match.span()) for match in _LINE.finditer(text, *paragraph.span())]
        if len(lines) > 1:
            places.update(_line_ends(text, lines))
    return sorted(places)


def _cell_ends(text: str, block: RowBlock) -> Iterator[int]:
    yield from (start - 1 for start in block.starts[1:])
    separator = _CELL_ENDS.get(block.kind)
    at = text.find(separator, block.start, block.end) if separator else -1
    while at >= 0:
        yield at
        at = text.find(separator or "", at + 1, block.end)


def _line_ends(text: str, lines: Sequence[Span]) -> Iterator[int]:
    written = [text[start:end].strip() for start, end in lines]
    width = max(map(len, written))
    is_list = len(lines) >= _MIN_ITEMS and all(map(_is_item, written))
    titles = [_is_title(one) for one in written]
    for number, (line, following) in enumerate(pairwise(written)):
        first, _, _ = following.partition(" ")
        fits = len(line) + 1 + len(first) <= _FITS * width
        if (
            is_list
            or line.endswith(":")
            or _MARKER.match(following)
            or (titles[number] and (titles[number + 1] or fits))
        ):
            yield lines[number].end


def _is_item(line: str) -> bool:
    words = line.split()
    return len(line) <= _MAX_ITEM and len(words) <= _MAX_ITEM_WORDS and line[-1].isalnum()


def _is_title(line: str) -> bool:
    """Return whether a line may be a name: it is short, and its words begin with capitals."""
    words = line.rstrip(",").split()
    return (
        len(line) <= _MAX_TITLE
        and len(words) <= _MAX_TITLE_WORDS
        and line[-1] not in ".;!?"
        and all(not word[:1].islower() or word in _JOINERS for word in words)
        and any(word[:1].isalpha() for word in words)
    )
