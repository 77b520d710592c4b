"""Find running heads and page numbers: lines that repeat at the tops or bottoms of pages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from e2graphrag_integrations.loaders.tables import CELL_SEPARATOR

_ZONE = 3
"""Number of lines at each end of a page that can be running heads."""

_MIN_PAGES = 3
"""Minimum number of pages with a running head. A page number needs only two."""

_MIN_SHARE = 1 / 3
"""Minimum share of the pages with a running head. Those of left and right pages can differ."""

_MAX_LENGTH = 200

_MAX_START = 1000
"""A number alone in a line is no page number if it would make the first page at least this one.

Years and invoice numbers are larger. Journals with as many pages keep their numbers.
"""

_MAX_APART = 50
"""The same for a number in a cell of its own beside a text."""

_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_ROMAN = re.compile(r"[ivxl]{1,8}")
_OF_TOTAL = re.compile(r"(\d{1,9}) ?(?:/|of|von|sur|de|di|av|af|van|z|из) ?(\d{1,9})")
_LABEL = re.compile(r"([^:：]*[^\W\d_][^:：]*)(?:: |：)(?=.*[^\W_])")
"""What stands before the value in a line of a form."""

_AROUND_NUMBER = " -–—.|[](){}<>•·~*"
_MAX_DIGITS = 9

_PAGE_WORDS = frozenset(
    "page pages pg p seite seiten s página pagina páginas pág pag side sida sivu strana strona str "
    "stránka стр страница с oldal bladzijde blz sayfa σελίδα ページ 頁 页 第 쪽 trang".split()
)
"""Words before or after the number of a page."""

_NUMBER_WORDS = frozenset("no nr num number nummer".split())
"""Words that can stand between a word for page and its number."""

_ITEM_WORDS = _NUMBER_WORDS | frozenset(
    "id ref invoice receipt order customer patient case total sum amount exercise problem question "
    "task sheet lesson unit week day chapter part section step figure table rechnung aufgabe blatt "
    "kapitel teil summe facture exercice chapitre total factura ejercicio capítulo".split()
)
"""Words before a number that counts something else than pages."""


class _Line(NamedTuple):
    """A normalized line near an end of a page, and its neighbors.

    Attributes:
        at: Its place on the page.
        text: The line.
        inner_at, inner: The next one towards the middle.
        above: The line above, normalized; empty if there is none.
        below_at: The place of the line below; that of the line itself if there is none.
    """

    at: int
    text: str
    inner_at: int
    inner: str
    above: str
    below_at: int


class _Number(NamedTuple):
    """A number in a line that can be the number of the page.

    Attributes:
        rest: The line without the number.
        start: The number that the first page has if this is the number of its page.
        is_clear: Whether the line alone shows that it is the number of a page.
    """

    rest: str
    start: int
    is_clear: bool


def without_running_heads(pages: Sequence[str]) -> list[str]:
    r"""Return the texts of pages without running heads and page numbers.

    A line is one if it is the same at the top or bottom of at least three pages and a third of
    all, or if it has the number of the page: a number that grows by one from page to page, while
    the rest of the line stays the same. Two pages are enough for a number alone in its line, or
    beside a word for page.

    Invoices, exercises or days can be numbered like pages, one on each page, and their numbers are
    content. Beside other text, a number therefore counts as that of a page only if it is in a cell
    of its own at an end of a running head, or if the same count goes on in other lines on other
    pages, as on left and right pages, or where a chapter starts. In doubt, a line stays.

    The header of a table that continues on the next page stays, and so does the last line of a
    page that has no other. Forms have the same lines on all pages, too: a line with a label whose
    value differs on other pages stays, such as "Result: passed", and so do a label that ends with a
    colon and the number below it. If more than half of most pages would be left out as lines that
    repeat, they are forms, and only page numbers are left out.

    >>> without_running_heads([f"Annual Report\nText {n * n}.\n{n}" for n in (4, 5, 6)])
    ['Text 16.', 'Text 25.', 'Text 36.']
    >>> without_running_heads([f"Exercise sheet {n}\nText {n * n}." for n in (1, 2, 3)])[2]
    'Exercise sheet 3\nText 9.'
    """
    lines = [page.splitlines() for page in pages]
    zones = [list(_zone(page)) for page in lines]
    labels = _labels(zones)
    numbers = [
        {
            line.at: list(_numbers(line.text, page, len(zones)))
            for line in zone
            if line.above not in labels
        }
        for page, zone in enumerate(zones)
    ]
    counting = _page_numbers(numbers)
    numbered = [
        {at: False for at, found in on.items() if not counting.isdisjoint(found)} for on in numbers
    ]
    same = _same_lines(zones)
    running = [
        on | {line.at: True for line in zone if line.text in same}
        for on, zone in zip(numbered, zones, strict=True)
    ]
    if _are_forms(lines, zones, running):
        running = numbered
    cleaned = []
    for page, zone, on, text in zip(lines, zones, running, pages, strict=True):
        dropped = _dropped(zone, on)
        rest = [line for at, line in enumerate(page) if at not in dropped]
        cleaned.append("\n".join(rest) if dropped and any(map(str.strip, rest)) else text)
    return cleaned


def _dropped(zone: Sequence[_Line], running: Mapping[int, bool]) -> set[int]:
    """Return the places of the running heads of a page: from its ends on, without gaps.

    Args:
        zone: The lines near the ends of the page.
        running: The places of lines that can be running heads, and whether they are the same on
            all pages.
    """
    dropped: set[int] = set()
    for lines in (zone, zone[::-1]):
        for line in lines:
            is_label = line.text.endswith((":", "：")) and line.below_at != line.at
            if (
                line.at not in running
                or _is_table_header(line, running)
                or (is_label and line.below_at not in running)
            ):
                break
            dropped.add(line.at)
    return dropped


def _zone(page: Sequence[str]) -> Iterator[_Line]:
    full = [at for at, line in enumerate(page) if line.strip()]
    for place, at in enumerate(full):
        from_end = len(full) - 1 - place
        if min(place, from_end) < _ZONE and len(page[at]) <= _MAX_LENGTH:
            inner = place + 1 if place <= from_end else place - 1
            inner_at = full[inner] if 0 <= inner < len(full) else at
            inner_line = page[inner_at] if inner_at != at else ""
            above = _normal(page[full[place - 1]]) if place else ""
            below_at = full[place + 1] if from_end else at
            yield _Line(at, _normal(page[at]), inner_at, inner_line, above, below_at)


def _normal(line: str) -> str:
    return " ".join(line.split()).casefold()


def _labels(zones: Sequence[Sequence[_Line]]) -> set[str]:
    """Return the lines that end with a colon above lines of several pages."""
    above = Counter(text for zone in zones for text in {line.above for line in zone})
    return {
        text
        for text, count in above.items()
        if count > 1 and text.endswith((":", "：")) and _PAGE_WORDS.isdisjoint(_words(text))
    }


def _same_lines(zones: Sequence[Sequence[_Line]]) -> set[str]:
    """Return the lines that are the same on enough pages.

    A number alone can be anything, and a label with several values is not the head of the pages.
    """
    enough = max(_MIN_PAGES, _MIN_SHARE * len(zones))
    counts = Counter(text for zone in zones for text in {line.text for line in zone})
    found = {text: _LABEL.match(text) for text in counts}
    values = Counter(label[1] for label in found.values() if label)
    return {
        text
        for text, count in counts.items()
        if count >= enough
        and _alone(text) is None
        and ((label := found[text]) is None or values[label[1]] == 1)
    }


def _are_forms(
    lines: Sequence[Sequence[str]],
    zones: Sequence[Sequence[_Line]],
    running: Sequence[Mapping[int, bool]],
) -> bool:
    """Return whether more than half of most pages would be left out as lines that repeat."""
    forms = 0
    for page, zone, on in zip(lines, zones, running, strict=True):
        repeated = sum(on[at] for at in _dropped(zone, on))
        forms += repeated > sum(1 for line in page if line.strip()) / 2
    return forms > len(lines) / 2


def _page_numbers(numbers: Sequence[Mapping[int, Sequence[_Number]]]) -> set[_Number]:
    """Return those of the numbers in lines that are the numbers of pages.

    Args:
        numbers: The numbers in each line of each page.
    """
    found: defaultdict[int, defaultdict[_Number, set[int]]]
    found = defaultdict(lambda: defaultdict(set))
    for page, lines in enumerate(numbers):
        for number in chain.from_iterable(lines.values()):
            found[number.start][number].add(page)
    few = min(_MIN_PAGES, len(numbers))
    counting: set[_Number] = set()
    numbered: set[int] = set()
    for on in found.values():
        if len(numbers) > 1 and len(pages := _confirm(on, few)) >= few:
            numbered |= pages
            counting |= {one for one, pages in on.items() if not one.rest or len(pages) >= few}
    enough = max(_MIN_PAGES, _MIN_SHARE * len(numbers))
    return counting if len(numbered) >= min(enough, len(numbers)) else set()


def _confirm(on: dict[_Number, set[int]], few: int) -> set[int]:
    """Return the pages that one count numbers, after removing what only seems to be a part of it.

    Args:
        on: The pages of each number of the count.
        few: The minimum number of pages of a line beside whose text a number stands.
    """
    clear = {page for number, pages in on.items() if number.is_clear for page in pages}
    numbered = set(clear)
    for number, pages in list(on.items()):
        # A page that has a clear number has no other: a second one counts something else.
        if not number.is_clear and (len(pages) < few or not clear.isdisjoint(pages)):
            del on[number]
        numbered |= on.get(number, set())
    for number, pages in list(on.items()):
        if not number.is_clear and len(numbered) - len(pages) < few:
            del on[number]
    return {page for pages in on.values() for page in pages}


def _numbers(line: str, page: int, pages: int) -> Iterator[_Number]:
    """Yield the numbers of a line that can be that of the page, at most six.

    Args:
        line: The line, normalized.
        page: The place of its page, from 0.
        pages: The number of all pages.
    """
    if (value := _alone(line, page, pages)) is not None:
        if value - page < _MAX_START:
            yield _Number("", value - page, is_clear=True)
        return
    for separator in (CELL_SEPARATOR, " "):
        first, _, after = line.partition(separator)
        before, _, last = line.rpartition(separator)
        ends = [(first, after), *([] if _is_item(before) else [(last, before)])]
        for part, rest in ends:
            value = _alone(part, page, pages) if rest else None
            if value is not None and value - page < _MAX_START:
                is_apart = separator == CELL_SEPARATOR and value - page <= _MAX_APART
                is_head = pages >= _MIN_PAGES and len(_words(rest)) > 1
                yield _Number(rest, value - page, is_apart and is_head)
    yield from islice(_beside_page_words(line, page), 2)


def _beside_page_words(line: str, page: int) -> Iterator[_Number]:
    if _PAGE_WORDS.isdisjoint(_TOKEN.findall(line)):
        return
    tokens = list(_TOKEN.finditer(line))
    words = ["", "", *(token[0] for token in tokens), "", ""]
    for at, token in enumerate(tokens, 2):
        if not words[at].isdecimal() or len(words[at]) > _MAX_DIGITS:
            continue
        before = words[at - 2] if words[at - 1] in _NUMBER_WORDS else words[at - 1]
        # In "Invoice 1001, page 2", the word belongs to the second number.
        is_before_word = words[at + 1] in _PAGE_WORDS and not words[at + 2].isdecimal()
        if before in _PAGE_WORDS or is_before_word:
            rest = f"{line[: token.start()]}#{line[token.end() :]}"
            yield _Number(rest, int(words[at]) - page, is_clear=True)


def _alone(text: str, page: int = 0, pages: int = 0) -> int | None:
    """Return the number that is all of a text, perhaps with the number of the last page."""
    number = text.strip(_AROUND_NUMBER)
    if number.isdecimal() and len(number) <= _MAX_DIGITS:
        return int(number)
    if _ROMAN.fullmatch(number):
        values = [{"i": 1, "v": 5, "x": 10, "l": 50}[letter] for letter in number]
        following = [*values[1:], 0]
        return sum(-a if a < b else a for a, b in zip(values, following, strict=True))
    if match := _OF_TOTAL.fullmatch(number):
        value, total = int(match[1]), int(match[2])
        # The total tells it from a date, such as 12/3.
        return value if total - (pages - 1) == value - page else None
    return None


def _words(text: str) -> list[str]:
    return [word for word in _TOKEN.findall(text) if not word.isdecimal()]


def _is_item(label: str) -> bool:
    """Return whether the text before a number says that it counts something else than pages."""
    words = _words(label)
    return label.endswith((":", "#", "№", "§")) or (bool(words) and words[-1] in _ITEM_WORDS)


def _is_table_header(line: _Line, running: Mapping[int, bool]) -> bool:
    cells = line.text.count(CELL_SEPARATOR.strip())
    is_row = line.inner_at not in running and line.inner.count(CELL_SEPARATOR.strip()) == cells
    return cells > 0 and running[line.at] and is_row
