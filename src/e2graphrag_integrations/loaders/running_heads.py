"""Find running heads and page numbers: lines that repeat at the tops or bottoms of pages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from e2graphrag_integrations.loaders.tables import CELL_SEPARATOR

_ZONE = 3
"""Number of lines at each end of a page that can be running heads."""

_MIN_PAGES = 3
"""Minimum number of pages with a running head. A page number needs only two."""

_MIN_SHARE = 1 / 3
"""Minimum share of the pages with a running head. Those of left and right pages can differ."""

_MAX_LENGTH = 200

_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"(?i)[ivxl]{1,8}")
_NUMBERED_NAME = re.compile(r"[^\W\d_]+\W*\d+\W*")
"""A name with a number, such as "Chapter 3": a heading rather than a page number."""

_PAGE_WORDS = frozenset(
    "page pages pg p seite seiten s página pagina páginas pág pag side sida sivu strana strona str "
    "stránka стр страница с oldal bladzijde blz sayfa σελίδα ページ 頁 页 第 쪽 trang".split()
)
"""Words before or after the number of a page."""


class _Line(NamedTuple):
    """A line near an end of a page, counted from that end, and its place in the page."""

    at: int
    text: str
    inner: str


def without_running_heads(pages: Sequence[str]) -> list[str]:
    r"""Return the texts of pages without running heads and page numbers.

    A line is one if it is at the top or bottom of at least three pages and a third of all, with
    the same letters, and its numbers, if they differ, count the pages. Two pages are enough for
    numbers of pages. The header of a table that continues on the next page stays, and so does the
    last line of a page that has no other.

    >>> without_running_heads([f"Annual Report\nText {n * n}.\n{n}" for n in (4, 5, 6)])
    ['Text 16.', 'Text 25.', 'Text 36.']
    """
    lines = [page.splitlines() for page in pages]
    zones = [list(_zone(page)) for page in lines]
    running = _running(zones)
    cleaned = []
    for page, zone, text in zip(lines, zones, pages, strict=True):
        dropped = _dropped(zone, running)
        rest = [line for at, line in enumerate(page) if at not in dropped]
        cleaned.append("\n".join(rest) if dropped and any(map(str.strip, rest)) else text)
    return cleaned


def _dropped(zone: Sequence[_Line], running: Mapping[str, bool]) -> set[int]:
    """Return the places of the running heads of a page: from its ends on, without gaps."""
    dropped: set[int] = set()
    for lines in (zone, zone[::-1]):
        for line in lines:
            if _key(line.text) not in running or _is_table_header(line, running):
                break
            dropped.add(line.at)
    return dropped


def _zone(page: Sequence[str]) -> Iterator[_Line]:
    full = [at for at, line in enumerate(page) if line.strip()]
    for place, at in enumerate(full):
        from_end = len(full) - 1 - place
        if min(place, from_end) < _ZONE and len(page[at]) <= _MAX_LENGTH:
            inner = place + 1 if place <= from_end else place - 1
            yield _Line(at, page[at], page[full[inner]] if 0 <= inner < len(full) else "")


def _key(line: str) -> str:
    """Return the letters of a line, in which every number is `#`."""
    text = " ".join(line.split()).casefold()
    return "#" if _ROMAN.fullmatch(text.strip(" -–—.|[]()")) else _NUMBER.sub("#", text)


def _running(zones: Sequence[Sequence[_Line]]) -> Mapping[str, bool]:
    """Return the keys of running heads, and whether they are equal on all pages."""
    found: defaultdict[str, dict[int, list[str]]] = defaultdict(dict)
    for number, zone in enumerate(zones):
        for line in zone:
            found[_key(line.text)].setdefault(number, []).append(line.text)
    running: dict[str, bool] = {}
    for key, texts in found.items():
        enough = max(_MIN_PAGES, _MIN_SHARE * len(zones))
        first = next(iter(texts.values()))[0]
        same = Counter(" ".join(line.split()) for on in texts.values() for line in set(on))
        if key != "#" and max(same.values()) >= enough:
            running[key] = True
        elif "#" in key and _counts_pages(texts) >= min(enough, len(zones)):
            is_name = _NUMBERED_NAME.fullmatch(first.strip()) and not _has_page_word(first)
            if not is_name and (len(texts) >= _MIN_PAGES or _has_page_word(first) or key == "#"):
                running[key] = False
    return running


def _counts_pages(texts: Mapping[int, Sequence[str]]) -> int:
    """Return on how many pages a number in the line is the number of the page plus a constant."""
    if len(texts) < 2:  # noqa: PLR2004 - one page shows nothing
        return 0
    differences = Counter(
        difference
        for number, lines in texts.items()
        for difference in {value - number for line in lines for value in _values(line)}
    )
    return max(differences.values(), default=0)


def _values(line: str) -> Iterator[int]:
    roman = line.strip().strip("-–—.|[]() ")
    if _ROMAN.fullmatch(roman):
        values = [{"i": 1, "v": 5, "x": 10, "l": 50}[letter] for letter in roman.lower()]
        following = [*values[1:], 0]
        yield sum(-a if a < b else a for a, b in zip(values, following, strict=True))
    for match in _NUMBER.finditer(line):
        if len(match[0]) <= 9:  # noqa: PLR2004 - no page number is longer
            yield int(match[0])


def _has_page_word(line: str) -> bool:
    return any(word in _PAGE_WORDS for word in re.findall(r"[^\W\d_]+", line.casefold()))


def _is_table_header(line: _Line, running: Mapping[str, bool]) -> bool:
    cells = line.text.count(CELL_SEPARATOR.strip())
    is_row = _key(line.inner) not in running and line.inner.count(CELL_SEPARATOR.strip()) == cells
    return cells > 0 and running[_key(line.text)] and is_row
