"""Turn the headings of a file into segments, which have the headings above them as metadata."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.text.headings import MAX_HEADING_WORDS, MAX_LEVEL
from e2graphrag_integrations.types import HEADINGS, Segment

_MAX_CHARACTERS = 400
"""Maximum length of a heading, in case it is one long word."""

_PERMALINKS = "¶#§ "
"""Characters of the links that documentation tools add to headings."""


class FileHeading(NamedTuple):
    """A heading in a file.

    Attributes:
        start: Its start in the document's text.
        level: Its level: 1 is the highest, except for the title in the text, which has 0.
        name: The heading in one line.
    """

    start: int
    level: int
    name: str


class FileHeadings:
    """Collects the headings of a file.

    Args:
        budget: Limits of the file.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._found: list[FileHeading] = []

    def add(self, start: int, level: int, text: str) -> None:
        """Add a heading, unless it is empty, too long, or deeper than level 6.

        Raises:
            FileLimitError: If the file has too many headings.
        """
        name = " ".join(text[: _MAX_CHARACTERS + 1].split()).rstrip(_PERMALINKS)
        is_short = len(text) <= _MAX_CHARACTERS and len(name.split()) <= MAX_HEADING_WORDS
        if name and is_short and level <= MAX_LEVEL:
            self._budget.add_heading()
            self._found.append(FileHeading(start, level, name))

    def segments(self, parts: Iterable[Segment]) -> list[Segment]:
        """Return the parts of the document, divided at headings.

        Each segment has the metadata of its part. Below a heading, `headings` lists that heading
        and those above it, highest first. Segments without metadata are left out.

        Args:
            parts: The pages, or one segment for the whole document; in order and disjoint.
        """
        return list(_divide(parts, _sections(sorted(self._found, key=lambda one: one.start))))


def _sections(headings: Sequence[FileHeading]) -> dict[int, list[str]]:
    """Return the headings above each section, by the start of the section, in order."""
    above: list[FileHeading] = []
    sections: dict[int, list[str]] = {}
    for heading in headings:
        while above and above[-1].level >= heading.level:
            above.pop()
        above.append(heading)
        sections[heading.start] = [one.name for one in above]
    return sections


def _divide(parts: Iterable[Segment], sections: dict[int, list[str]]) -> Iterator[Segment]:
    starts = list(sections)
    for part in parts:
        first, last = bisect_right(starts, part.start), bisect_left(starts, part.end)
        offsets = [part.start, *starts[first:last], part.end]
        for number, (start, end) in enumerate(pairwise(offsets), first - 1):
            own = {HEADINGS: sections[starts[number]]} if number >= 0 else {}
            metadata = {**part.metadata, **own}
            if metadata:
                yield Segment(start, end, metadata)
