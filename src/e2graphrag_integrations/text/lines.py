"""Lines of a layout: rows of tables, logs and records, their headers, and line breaks on purpose.

A row is not cut, as a sentence is not, and its cells mean little without the header. Tables are
recognized by lines with equally many separators: tabs, semicolons, vertical bars, or commas. A
comma in prose is followed by a space, and lines of prose seldom have equally many of them.

In a list of names, an address or a table, a name does not go on in the next line. In wrapped prose,
it may, so a break counts only if the line is a piece of its own.

A window of a table has many rows, so most windows contain all words of "the small black scarf", and
only one has them in one row. A text has a term for each two words of a row, and a question is
searched for with the pairs of its words. The keys of records, which each has, form no pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, pairwise

from e2graphrag_integrations.text.words import is_function_word, terms_of
from e2graphrag_integrations.types import Span

_SEPARATORS = ("\t", "|", ";", ",")
_FIRST = re.compile(r"\n(?:\W{0,2}(?:\d|\w{3} +\d)|[^\S\n]*[{<])")
"""How a line of a log, an object of JSON or an element of XML begins."""

_LINE = re.compile(r"[^\n]*\n?")
_QUOTED = re.compile(r'"[^"\n]*"')
# A pattern that begins with a character is ten times as fast as one that begins with a lookbehind.
_THOUSANDS = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
_RULE = re.compile(r"(?:(?!--)[\s|:+=-])*+--[\s|:+=-]*+")
"""The line below the header of a table in Markdown."""

_TIME = re.compile(
    r"\W{0,2}(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d)?|\d{1,2}/\w{1,3}/\d{2,4}|\d\d:\d\d(?::\d\d)?"
    r"|\w{3} +\d{1,2} \d\d:\d\d)\b"
)
"""The time at the start of a line of a log."""

_RECORD = re.compile(r"\s*(?:\{.*\}|<\w.*>),?")
"""A line with an object of JSON or an element of XML."""

_MIN_ROWS = {"\t": 2, "|": 2, ";": 3, ",": 3, "time": 3, "record": 2}
"""Minimum number of lines of a table, log or list of records, with the header."""

_WITHOUT_CELLS = frozenset({"time", "record"})

_MAX_CELL = 4
"""Maximum number of words in a cell of a header, and of a table with spaces after separators."""

_MIN_SPACED = 4
"""Minimum number of lines of such a table."""

_SENTENCE = re.compile(r"[.!?:][\"'”’)]*(?:\s|$)|[“”]")
"""What a sentence has, but not a row of such a table."""

_HAS_DIGIT = re.compile(r"\d")
_SEEN_ROWS = 20
"""Number of lines with which a header is compared."""

_MAX_HEADER = 500
"""Maximum length of a line that is a header, in characters."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """A table or a log.

    Attributes:
        kind: The separator of the cells, "time" for a log, or "record" for objects of JSON or
            elements of XML.
        columns: Number of cells of a row; 1 for logs and records.
        starts: Where each line begins, ascending.
        end: Where the last line ends.
        header: The header, with the rule below it in Markdown; None if there is none.
    """

    kind: str
    columns: int
    starts: Sequence[int]
    end: int
    header: Span | None = None

    @property
    def start(self) -> int:
        """Where the first line begins."""
        return self.starts[0]


def row_blocks(text: str) -> list[RowBlock]:
    r"""Return the tables and logs in a text, in order.

    >>> [block] = row_blocks("sku,price\nA1,30\nB2,40\n")
    >>> block.header, block.starts
    (Span(start=0, end=9), [0, 10, 16])
    """
    return list(_blocks(text, 0, len(text)))


def row_block_at(text: str, at: int) -> RowBlock | None:
    r"""Return the table or log that contains a place, or None.

    Reads only the lines around the place, so it is faster than `row_blocks` in prose.

    >>> row_block_at("sku,price\nA1,30\nB2,40\n", 12).columns
    2
    """
    start, end = text.rfind("\n", 0, at) + 1, _line_end(text, at)
    above = below = _kinds(text[start:end].rstrip())
    while start and above:
        before = text.rfind("\n", 0, start - 1) + 1
        kinds = _kinds(text[before : start - 1].rstrip())
        if not kinds & above:
            break
        start, above = before, kinds
    while end < len(text) and below:
        after = _line_end(text, end + 1)
        kinds = _kinds(text[end + 1 : after].rstrip())
        if not kinds & below:
            break
        end, below = after, kinds
    return next((one for one in _blocks(text, start, end) if one.start <= at < one.end), None)


def last_row_block(text: str) -> RowBlock | None:
    """Return the table or log with which a text ends, or None."""
    return row_block_at(text, len(text.rstrip()) - 1)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _blocks(text: str, start: int, end: int) -> Iterator[RowBlock]:
    """Yield the tables and logs between the beginning of a line and the end of one."""
    if text.find("\n", start, end) >= 0 and _may_have_rows(text[start:end]):
        for lines, kind in _runs(text, start, end):
            yield _block(text, lines, kind)


def _may_have_rows(text: str) -> bool:
    """Return False for most prose, in less time than splitting its lines into cells takes."""
    if "\t" in text or "|" in text or _FIRST.search(f"\n{text}"):
        return True
    dense = spaced = 0
    for line in text.split("\n"):
        separators = line.count(",") + line.count(";")
        is_dense = separators > line.count(", ") + line.count("; ")
        dense = dense + 1 if is_dense else 0
        spaced = spaced + 1 if separators > 1 else 0
        if dense >= _MIN_ROWS[","] or spaced >= _MIN_SPACED:
            return True
    return False


def may_continue(text: str, block: RowBlock) -> bool:
    """Return whether a text may begin with further rows of a table."""
    return (block.kind, block.columns) in _first_kinds(text)


def may_begin_in_rows(text: str) -> bool:
    """Return whether a text may begin with further rows of some table."""
    return bool(_first_kinds(text))


def _first_kinds(text: str) -> set[tuple[str, int]]:
    line, _, _ = text.partition("\n")
    return {(kind, columns) for kind, columns in _kinds(line.rstrip()) if not _is_prose(line, kind)}


def _is_prose(line: str, kind: str) -> bool:
    """Return whether separators are followed by spaces in a line with long parts or a sentence."""
    # The other kinds are names: a line of a log may have the word "time".
    return (kind in _SEPARATORS and f"{kind} " in line) and (
        _SENTENCE.search(line) is not None
        or any(len(cell.split()) > _MAX_CELL for cell in line.split(kind))
    )


class RowHeaders:
    """The headers of rows, in texts of one document that follow each other.

    The table of a text may begin in an earlier one.
    """

    def __init__(self) -> None:
        self._headers: list[tuple[Span, str]] = []
        self._unfinished: tuple[RowBlock, str] | None = None

    def read(self, text: str) -> None:
        """Read the next text of the document."""
        blocks = row_blocks(text)
        before = self._unfinished
        if before is not None and not may_continue(text, before[0]):
            before = None
        self._headers = []
        for block in blocks:
            header = "" if block.header is None else text[slice(*block.header)]
            if block.header is not None:
                self._headers.append((Span(block.header.end, block.end), header))
            elif before is not None and not text[: block.start].strip():
                header = before[1]
                self._headers.append((Span(0, block.end), header))
            self._unfinished = (block, header) if header else None
        if not blocks:  # too few rows to be recognized
            self._headers = [(Span(0, 1), before[1])] if before is not None else []
            self._unfinished = before
        elif text[blocks[-1].end :].strip():
            self._unfinished = None

    def above(self, at: int) -> str:
        """Return the header of the table to which a place in the last text belongs, or ""."""
        return next((header for span, header in self._headers if span.start <= at < span.end), "")


def _runs(text: str, start: int, end: int) -> Iterator[tuple[list[Span], tuple[str, int]]]:
    """Yield consecutive lines with equally many cells, with the separator and the number."""
    lines: list[Span] = []
    kinds: list[set[tuple[str, int]]] = []
    for match in _LINE.finditer(text, start, end):
        line = match.group().rstrip()
        own = _kinds(line)
        if kinds and own & kinds[-1]:
            lines.append(Span(match.start(), match.start() + len(line)))
            kinds.append(own & kinds[-1])
            continue
        yield from _checked(text, lines, kinds)
        lines = [Span(match.start(), match.start() + len(line))] if own else []
        kinds = [own] if own else []
    yield from _checked(text, lines, kinds)


def _kinds(line: str) -> set[tuple[str, int]]:
    """Return the separators that a line may have, with the number of cells between them."""
    start = line.lstrip()[:1]
    if not start:
        return set()
    if start in "{<" and _RECORD.fullmatch(line):
        return {("record", 1)}
    kinds = {("time", 1)} if _TIME.match(line) else set()
    separators = [one for one in _SEPARATORS if one in line]
    if not separators:
        return kinds
    unquoted = _unquoted(line)
    plain = _plain(line)
    if "|" in separators and _RULE.fullmatch(plain):
        return {("|", plain.count("|") + 1)}
    kinds |= {(one, count + 1) for one in separators if (count := plain.count(one))}
    if ", " not in unquoted and (commas := unquoted.count(",")):
        kinds.add((",", commas + 1))  # a cell of three digits looks like thousands
    return kinds


def _unquoted(line: str) -> str:
    return _QUOTED.sub("q", line) if '"' in line else line


def _plain(line: str) -> str:
    """Return a line in which only separators of cells look like separators."""
    unquoted = _unquoted(line)
    return _THOUSANDS.sub("", unquoted) if "," in unquoted else unquoted


def _checked(
    text: str, lines: list[Span], kinds: list[set[tuple[str, int]]]
) -> Iterator[tuple[list[Span], tuple[str, int]]]:
    """Yield a run of lines if it is a table or a log."""
    for kind in sorted(kinds[-1], key=_order) if kinds else ():
        if _is_table(text, lines, *kind):
            yield lines, kind
            return


def _order(kind: tuple[str, int]) -> tuple[int, int]:
    name, columns = kind
    return (_SEPARATORS.index(name) if name in _SEPARATORS else len(_SEPARATORS), -columns)


def _is_table(text: str, lines: Sequence[Span], kind: str, columns: int) -> bool:
    if len(lines) < _MIN_ROWS[kind]:
        return False
    if kind in {"\t", "|", *_WITHOUT_CELLS}:
        return True
    rows = [_plain(text[start:end]) for start, end in lines]
    if not any(f"{kind} " in f"{row} " for row in rows):
        return columns > 2 or _header(text, lines, kind) is not None  # noqa: PLR2004 - as below
    return (
        len(lines) >= _MIN_SPACED
        and columns > 2  # noqa: PLR2004 - two cells with a comma and a space are prose
        and not any(_SENTENCE.search(row) for row in rows)
        and all(len(cell.split()) <= _MAX_CELL for row in rows for cell in row.split(kind))
        and _header(text, lines, kind) is not None
    )


def _block(text: str, lines: list[Span], kind: tuple[str, int]) -> RowBlock:
    name, columns = kind
    starts = [line.start for line in lines]
    header = None if name in _WITHOUT_CELLS else _header(text, lines, name)
    return RowBlock(name, columns, starts, lines[-1].end, header)


def _header(text: str, lines: Sequence[Span], separator: str) -> Span | None:
    """Return the header of a table: a line above a rule, or one that is unlike the rows."""
    first, second = lines[0], lines[1]
    if first.end - first.start > _MAX_HEADER:
        return None
    if _RULE.fullmatch(text, second.start, second.end):
        return Span(first.start, second.end)
    head, *rows = ([c.strip() for c in text[a:b].split(separator)] for a, b in lines[:_SEEN_ROWS])
    if any(_HAS_DIGIT.search(cell) for cell in head) or not any(head):
        return None
    differs = any(_HAS_DIGIT.search(cell) for row in rows for cell in row)
    is_short = all(len(cell.split()) <= _MAX_CELL for cell in head)
    return first if is_short and (differs or all(one.islower() for one in head if one)) else None


_PARAGRAPH = re.compile(r"(?:[^\n]*\S[^\n]*(?:\n|\Z))+")
_NONEMPTY_LINE = re.compile(r"[^\n]+")
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


def name_ends(text: str) -> list[int]:
    r"""Return the places of the line breaks and separators of cells that end a name, ascending.

    >>> name_ends("Guests:\nElsa Grimm\nEdith Orth")
    [7, 18]
    """
    places: set[int] = set()
    for block in row_blocks(text):
        places.update(_cell_ends(text, block))
    for paragraph in _PARAGRAPH.finditer(text):
        lines = [Span(*match.span()) for match in _NONEMPTY_LINE.finditer(text, *paragraph.span())]
        if len(lines) > 1:
            places.update(_line_ends(text, lines))
    return sorted(places)


def _cell_ends(text: str, block: RowBlock) -> Iterator[int]:
    yield from (start - 1 for start in block.starts[1:])
    at = text.find(block.kind, block.start, block.end) if block.kind in _SEPARATORS else -1
    while at >= 0:
        yield at
        at = text.find(block.kind, at + 1, block.end)


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


# Pairs of words in a row

ROWS = "!rows"
"""The term of a text with rows. No word begins with an exclamation mark."""

_MOST_PAIRED = 10
"""Maximum number of words of a row that form pairs, from its first cell on: 45 pairs."""

MOST_ASKED = 20
"""Maximum number of words of a question that form pairs."""


def row_pairs(text: str) -> list[str]:
    r"""Return the terms of the pairs in the rows of a text, and `ROWS` if there are any.

    >>> row_pairs("hat\tblue\t30\nscarf\tred\t40")
    ['!rows', 'blue&hat', 'red&scarf']
    """
    found: set[str] = set()
    for block in row_blocks(text):
        ends = [*block.starts[1:], block.end]
        rows = [
            _paired_words(text[start:end]) for start, end in zip(block.starts, ends, strict=True)
        ]
        keys: set[str] = set() if block.columns > 1 else set.intersection(*map(set, rows))
        for row in rows:
            found.update(pairs_of(word for word in row if word not in keys))
    return [ROWS, *sorted(found)] if found else []


def pairs_of(words: Iterable[str], most: int = _MOST_PAIRED) -> Iterator[str]:
    """Yield the terms of the pairs of the first words; a pair does not depend on their order.

    >>> list(pairs_of(["small", "black", "scarf"]))
    ['black&scarf', 'black&small', 'scarf&small']
    """
    kept = sorted(islice(dict.fromkeys(words), most))
    yield from (f"{first}&{second}" for first, second in combinations(kept, 2))


def can_be_paired(word: str) -> bool:
    """Return whether a word forms pairs. Numbers and codes are rare by themselves."""
    return len(word) > 1 and word.isalpha() and not is_function_word(word)


def _paired_words(row: str) -> list[str]:
    return list(filter(can_be_paired, dict.fromkeys(terms_of(row))))
