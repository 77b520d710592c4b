"""Read the visible text of HTML files with lxml, in time linear in the size of the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from e2graphrag_integrations.loaders.encodings import (
    decode,
    decode_declared,
    marked_encoding,
    meant_codec,
)
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.main_content import (
    INVISIBLE_TAGS,
    Content,
    ContentFilter,
    Event,
    role_of,
)
from e2graphrag_integrations.loaders.parsing import replace_surrogates, translate_errors
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.loaders.tables import format_row, list_number
from e2graphrag_integrations.text.headings import MAX_LEVEL
from e2graphrag_integrations.types import Segment, SourceDocument

_BLOCK_TAGS = frozenset(
    "address article aside blockquote br caption dd div dl dt figcaption footer form h1 h2 h3 h4 "
    "h5 h6 header hr li main nav ol p pre section table td th tr ul "
    "button details figure legend optgroup option select summary svg textarea".split()
)
"""Tags whose content starts on a new line."""

_PARAGRAPH_TAGS = frozenset({"p", "li", "div"})
"""Block tags that are preceded by a blank line."""

_LIST_TAGS = frozenset({"ol", "ul"})

_LIST_KINDS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
"""Kinds of numbers by the attribute `type` of a list."""

_SIZED_TAGS = frozenset({"td", "th", "ol", "li"})
"""Tags whose attributes are read."""

_MAX_SPAN, _WRONG_SPAN = 100, 1000
"""Maximum number of rows and columns that a merged cell can cover, and that counts as a mistake."""

_INDENT = "\ue000"
"""Stands for a space before a line of code, until extra white space is removed."""

_VOID_TAGS = frozenset({"br", "hr"})
"""Block tags without content."""

_HEADING_LEVELS = {f"h{level}": level for level in range(1, MAX_LEVEL + 1)}

_READING_TAGS = frozenset({"rt", "rp", "rtc"})
"""Tags of ruby text: how the letters before it are read, which would part them from the next."""

_SCRIPT_SIGNS = {"sup": "^", "sub": "_"}
"""What stands before a raised or lowered number after a digit, of which it would become a part."""

_INLINE_TAGS = frozenset({"a", "del", "ruby", *_READING_TAGS, *_SCRIPT_SIGNS})

_MATH_SIGNS = {
    "mfrac": ("", "/"),
    "msup": ("", "^"),
    "msub": ("", "_"),
    "msubsup": ("", "_", "^"),
    "munder": ("", "_"),
    "munderover": ("", "_", "^"),
    "mroot": ("", "^(1/"),
    "mtr": ("", " "),
    "mtable": ("", "; "),
}
"""What stands before the parts of a formula; the last one also before all further parts."""

_PRIMES = frozenset("'′″‴°∘*†")
"""Raised signs that are no exponents."""

_SIGNS = frozenset("+-−±")

_FRACTION_SLASHES = frozenset("/⁄")

_FIRST_INDENT, _LATER_INDENT = re.compile(r"(?:\A|(?<=\n))[ \t]+"), re.compile(r"(?<=\n)[ \t]+")
_NUMBER = re.compile(r"\d{1,9}")
_BLANK_LINES = re.compile("\n{3,}")
_VISIBLE = re.compile(r"\S")
_MAIN = re.compile(r"""(?i)<main\b|\brole\s*=\s*["']?\s*main\b""")

_PIECE_CHARACTERS = 64 * 1024
_HEAD_BYTES = 1024
"""Browsers look for a declared encoding in this part of the file."""

_DECLARED_ENCODING = re.compile(
    rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w-]{1,40})""", re.IGNORECASE
)
_MAX_TABLE_DEPTH = 8
"""Tables nested more deeply are read as plain blocks, since each level copies its text."""


def read_html(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the visible text of a page as a document that has the page's title.

    Each row of a table becomes one line, with ` | ` between the cells, unless a cell contains
    several paragraphs or another table. Headings outside of tables begin segments with the
    headings above them.

    Formulas in MathML are read as text, such as `1/2` and `10^6`. Deleted text is left out.

    Only the `main` element is read if there is one with text. Otherwise navigation, headers and
    footers of the page, asides and cookie notices are left out, unless nothing else remains.

    A byte order mark or a declaration gives the encoding; otherwise it is found by `decode`.

    Raises:
        UnreadableFileError: If `data` is not readable HTML.
        FileLimitError: If the file exceeds a limit.
        ImportError: If lxml is not installed.
    """
    return read_page(document_id, data, budget, tuple(Content))


def read_page(
    document_id: str, data: bytes, budget: Budget, contents: Sequence[Content]
) -> SourceDocument:
    """Return the first content of a page that has text; see `read_html`.

    Args:
        document_id: The document's id.
        data: Content of the file.
        budget: Limits of the file.
        contents: Which parts of the page are read, the preferred one first.

    Raises:
        UnreadableFileError: If `data` is not readable HTML.
        FileLimitError: If the file exceeds a limit.
        ImportError: If lxml is not installed.
    """
    markup = _decode(data, budget)
    for content in contents:
        if content is Content.MAIN and not _MAIN.search(markup):
            continue
        kept = ContentFilter(content)
        page = _parse(markup, kept, budget)
        if notices := kept.content_notices():
            kept = ContentFilter(content, notices)
            page = _parse(markup, kept, budget)
        text, segments = page.finish()
        if text:
            break
    title = " ".join(replace_surrogates("".join(page.title) or kept.title).split())
    return SourceDocument(document_id, text, title or None, {}, segments)


def _parse(markup: str, kept: ContentFilter, budget: Budget) -> _Page:
    from lxml import etree

    events = _Events()
    parser: Any = etree.HTMLParser(target=events, huge_tree=True)
    page = _Page(budget)
    for start in range(0, len(markup), _PIECE_CHARACTERS):
        with translate_errors("HTML file", budget.origin, etree.LxmlError):
            parser.feed(markup[start : start + _PIECE_CHARACTERS])
        page.add(kept.keep(events.take()))
        budget.check_time()
    if markup.strip():
        with translate_errors("HTML file", budget.origin, etree.LxmlError):
            parser.close()
    page.add(kept.keep(events.take()))
    return page


def _decode(data: bytes, budget: Budget) -> str:
    encoding = marked_encoding(data)
    if encoding is not None:
        return data.decode(encoding, "replace")
    declared = _DECLARED_ENCODING.search(data[:_HEAD_BYTES])
    label = declared[1].decode() if declared else "utf-8"
    if meant_codec(label).startswith(("utf-16", "utf-32")):  # the declaration itself is in ASCII
        label = "utf-8"
    text = decode_declared(data, label)
    if text is not None:
        return text
    decoded = decode(data, budget)
    budget.guess = decoded.guess
    return decoded.text


def _clean(raw: str, offsets: Sequence[int]) -> tuple[str, list[int]]:
    """Return a text without extra white space, and where lines begin in it.

    Args:
        raw: The text.
        offsets: The starts of the lines, ascending.
    """
    joined = "\n".join(" ".join(line.split()).rstrip(_INDENT) for line in raw.splitlines())
    collapsed = _BLANK_LINES.sub("\n\n", joined)
    text = replace_surrogates(collapsed.strip()).replace(_INDENT, " ")
    if not offsets:
        return text, []
    raw_starts = list(accumulate(map(len, raw.splitlines(keepends=True)), initial=0))
    starts = list(accumulate((len(line) + 1 for line in joined.split("\n")), initial=0))
    runs = [(run.end(), run.end() - run.start() - 2) for run in _BLANK_LINES.finditer(joined)]
    run_ends = [end for end, _ in runs]
    removed = list(accumulate((size for _, size in runs), initial=0))
    indent = len(collapsed) - len(collapsed.lstrip())
    found = []
    for offset in offsets:
        visible = _VISIBLE.search(joined, starts[bisect_right(raw_starts, offset) - 1])
        start = visible.start() if visible else len(joined)
        start -= removed[bisect_right(run_ends, start)] + indent
        found.append(min(start, len(text)))
    return text, found


class _Events:
    """Receives the parser's events; `_Page` handles them outside of the parser's call."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        read = attributes if tag in _SIZED_TAGS else {}
        self._events.append(Event("start", tag, role_of(tag, attributes), read))

    def end(self, tag: str) -> None:
        self._events.append(Event("end", tag))

    def data(self, text: str) -> None:
        self._events.append(Event("data", text))

    def comment(self, _text: str) -> None:
        """Ignore a comment; without this method, the parser would keep it."""

    def pi(self, _target: str, _data: str | None = None) -> None:
        """Ignore a processing instruction."""

    def close(self) -> None:
        """End the document."""

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events


class _Page:
    """Builds the text and the title of a page."""

    def __init__(self, budget: Budget) -> None:
        self.title: list[str] = []
        self._budget = budget
        self._text: list[str] = []
        self._tables: list[_Table] = []
        self._deeper_tables = 0
        self._invisible: list[str] = []
        self._has_title = False
        self._headings: list[tuple[int, int, int]] = []  # level, first and last piece
        self._open_heading: tuple[str, int] | None = None
        self._open_code = 0
        self._lists: list[_List] = []
        self._label = ""  # of a list item whose text has not begun
        self._rubies = 0
        self._readings = 0  # open tags of ruby text
        self._deletions = 0  # open tags of deleted text
        self._formula: list[_Formula] = []  # open elements
        self._script = ""  # tag of a raised or lowered text that has not begun
        self._link: tuple[list[str], int] | None = None  # where the open link begins

    def add(self, events: Iterable[Event]) -> None:
        """Add the parser's events."""
        for event, value, _, attributes in events:
            if event == "data":
                self._data(value)
            elif value in INVISIBLE_TAGS:
                self._toggle(event, value)
            elif not self._invisible and value in _BLOCK_TAGS:
                self._block(event, value, attributes)
            elif not self._invisible and value in _INLINE_TAGS:
                self._inline(event, value)
            elif not self._invisible and (self._formula or value == "math"):
                self._math(event, value)

    def finish(self) -> tuple[str, list[Segment]]:
        """Return the text with line breaks around blocks, and the sections below its headings."""
        while self._tables:
            self._end_table()
        offsets = list(accumulate(map(len, self._text), initial=0)) if self._headings else []
        text, starts = _clean(
            "".join(self._text), [offsets[first] for _, first, _ in self._headings]
        )
        headings = FileHeadings(self._budget)
        for (level, first, end), start in zip(self._headings, starts, strict=True):
            headings.add(start, level, replace_surrogates("".join(self._text[first:end])))
        return text, headings.segments([Segment(0, len(text), {})])

    def _data(self, text: str) -> None:
        if self._readings or self._deletions:
            return
        if not self._invisible:
            pieces = self._open()
            if self._formula:
                text = self._formula[-1].add(text)
                if not text:
                    return
            if self._script and text.strip():
                self._begin_script(pieces, text.lstrip())
            if self._label and text.strip():
                self._write_label(pieces)
                text = text.lstrip()
            if self._open_code:
                text = _indented(text, is_line_start=not pieces or pieces[-1].endswith("\n"))
            pieces.append(text)
        elif self._invisible == ["title"] and not self._has_title:
            self.title.append(text)

    def _write_label(self, pieces: list[str]) -> None:
        """Write the number of a list item before the first of its text."""
        if self._label:
            if self._lists:
                self._lists[-1].note_label(pieces)
            pieces.append(self._label)
            self._label = ""

    def _toggle(self, event: str, tag: str) -> None:
        if event == "start":
            self._invisible.append(tag)
        elif self._invisible:
            self._invisible.pop()
            self._has_title = self._has_title or tag == "title"

    def _inline(self, event: str, tag: str) -> None:
        is_start = event == "start"
        if tag == "ruby":
            self._rubies = max(0, self._rubies + (1 if is_start else -1))
            self._readings = 0
        elif tag in _READING_TAGS:
            if self._rubies:
                self._readings = max(0, self._readings + (1 if is_start else -1))
        elif tag == "del":
            self._deletions = max(0, self._deletions + (1 if is_start else -1))
        elif tag == "a":
            pieces = self._open()
            self._link = (pieces, len(pieces)) if is_start else None
        else:
            self._script = tag if is_start else ""

    def _math(self, event: str, tag: str) -> None:
        """Read a formula as text, such as `1/2`, `x^2` and `√(a+b)`."""
        if event == "start":
            pieces = self._open()
            self._write_label(pieces)
            outer = self._formula[-1] if self._formula else None
            self._formula.append(_Formula(tag, pieces, outer))
        elif self._formula:
            self._formula.pop().finish()

    def _begin_script(self, pieces: list[str], text: str) -> None:
        """Keep a raised or lowered text from becoming a part of the number before it.

        `10<sup>6</sup>` becomes `10^6`. A space goes before a note's mark, which is a link or in
        brackets, before a number that would be the decimals of another, and before a fraction.

        Args:
            pieces: The pieces of the text before it.
            text: The first piece of the raised or lowered text.
        """
        tag, self._script = self._script, ""
        before = pieces[-1][-1:] if pieces else ""
        is_mark = self._link is not None and (
            self._link[0] is pieces and self._link[1] == len(pieces)
        )
        is_number = text[0].isdecimal() or text[0] in "-−–"
        if tag == "sub" and pieces[-3:-2] == ["^"] and before in _FRACTION_SLASHES:
            pieces[-3] = " "
        elif tag == "sup" and before.strip() and (is_mark or text[0] == "["):
            pieces.append(" ")
        elif is_number and before.isdecimal():
            pieces.append(_SCRIPT_SIGNS[tag])
        elif tag == "sup" and is_number and before in {".", ","}:
            pieces.append(" ")

    def _block(self, event: str, tag: str, attributes: Mapping[str, str | None]) -> None:
        self._count(event, tag, attributes)
        self._rubies = self._readings = 0  # a block is no ruby text, whose end tag is missing
        self._formula.clear()
        if tag not in _VOID_TAGS:
            self._deletions = 0  # without its end tag, it would hide the rest of the page
        if tag in _HEADING_LEVELS and not self._tables:
            self._heading(event, tag)
        elif tag == "table":
            self._table(event)
        elif self._tables and not self._deeper_tables and tag in {"td", "th", "tr"}:
            table = self._tables[-1]
            if tag == "tr":
                table.end_row()
            elif event == "start":
                spans = _span_of(attributes, "rowspan"), _span_of(attributes, "colspan")
                for _ in range(table.add_cell(*spans)):
                    self._budget.add_cell()
        elif event == "start":
            self._open().append("\n\n" if tag in _PARAGRAPH_TAGS else "\n")
        elif tag not in _VOID_TAGS:
            self._open().append("\n")

    def _count(self, event: str, tag: str, attributes: Mapping[str, str | None]) -> None:
        """Count the items of lists, and note where code is."""
        if tag == "pre":
            if self._tables:
                self._tables[-1].has_block = True  # its lines are no cells
            self._open_code = max(0, self._open_code + (1 if event == "start" else -1))
        elif tag in _LIST_TAGS:
            self._label = ""
            if event == "start":
                kind = _LIST_KINDS.get(attributes.get("type") or "", "decimal")
                self._lists.append(_List(kind if tag == "ol" else "", attributes))
            elif self._lists:
                self._lists.pop().finish()
        elif tag == "li":
            self._label = ""
            if event == "start" and self._lists and self._lists[-1].kind:
                self._label = self._lists[-1].next_label(attributes)

    def _heading(self, event: str, tag: str) -> None:
        if event == "start":
            self._text.append("\n")
            self._open_heading = (tag, len(self._text))
            return
        if self._open_heading is not None and self._open_heading[0] == tag:
            first = self._open_heading[1]
            self._headings.append((_HEADING_LEVELS[tag], first, len(self._text)))
            self._open_heading = None
        self._text.append("\n")

    def _table(self, event: str) -> None:
        if event == "start":
            if len(self._tables) == _MAX_TABLE_DEPTH:
                self._deeper_tables += 1
            else:
                self._tables.append(_Table())
        elif self._deeper_tables:
            self._deeper_tables -= 1
        elif self._tables:
            self._end_table()

    def _end_table(self) -> None:
        table = self._tables.pop()
        table.end_row()
        if self._tables:
            self._tables[-1].has_block = True
        self._open().extend(["\n\n", *table.lines, "\n"])

    def _open(self) -> list[str]:
        """Return the pieces of the open cell, or of the page."""
        if not self._tables:
            return self._text
        table = self._tables[-1]
        return table.cells[-1] if table.cells else table.lines


def _indented(text: str, *, is_line_start: bool) -> str:
    """Return a piece of code in which the spaces before lines are kept."""
    pattern = _FIRST_INDENT if is_line_start else _LATER_INDENT
    return pattern.sub(lambda match: _INDENT * len(match[0].expandtabs(4)), text)


def _number_of(attributes: Mapping[str, str | None], name: str) -> int:
    """Return a number of up to nine digits in an attribute; 1 if there is none."""
    value = (attributes.get(name) or "").strip()
    return int(value) if _NUMBER.fullmatch(value) else 1


def _span_of(attributes: Mapping[str, str | None], name: str) -> int:
    """Return a number of rows or columns; those of 1,000 or more are mistakes."""
    number = _number_of(attributes, name)
    return number if 0 < number < _WRONG_SPAN else 1


class _Formula:
    """An element of a formula. The sign before it is written when its content is known.

    Args:
        tag: Its tag.
        pieces: The pieces of the text.
        outer: The element around it, which counts its parts.
    """

    def __init__(self, tag: str, pieces: list[str], outer: _Formula | None) -> None:
        self.tag, self.parts = tag, 0
        self.texts, self.first = 0, ""
        self.is_shown: bool = not tag.startswith("annotation") and (outer is None or outer.is_shown)
        self._pieces, self._outer = pieces, outer
        signs = _MATH_SIGNS.get(outer.tag, ()) if outer else ()
        self._sign = signs[min(outer.parts, len(signs) - 1)] if outer and signs else ""
        self._may_group = bool(signs) and tag not in {"mtr", "mtd"}
        if tag == "msqrt":
            self._sign, self._may_group = self._sign + "√", True
        # What is first in a part of another element stands after its sign.
        self.is_part: bool = self._may_group or bool(outer and outer.is_part and not outer.texts)
        if tag == "mfrac" and not self.is_part and "".join(pieces[-3:])[-1:].isdecimal():
            self._sign = " "
        self._at = len(pieces)
        pieces.append("")

    def add(self, text: str) -> str:
        """Count a text, and return what is shown of it."""
        text = text.strip(" \t\r\n") if self.is_shown else ""
        self.texts += bool(text)
        self.first = self.first or text
        return text

    def finish(self) -> None:
        """Write the sign, and parentheses around what has several parts."""
        if self._outer:
            self._outer.parts += 1
            self._outer.texts += self.texts
            self._outer.first = self._outer.first or self.first
        if not self.texts or (self._sign == "^" and self.first in _PRIMES):
            return
        is_signed = self.texts == 2 and self.first in _SIGNS  # noqa: PLR2004 - sign and number
        is_whole = self.texts == 1 or is_signed or (self.first, self._pieces[-1]) == ("(", ")")
        opening = "" if is_whole or not self._may_group else "("
        self._pieces[self._at] = self._sign + opening
        if closing := ")" * (self._sign + opening).count("("):
            self._pieces.append(closing)


class _List:
    """Counts the items of a list.

    Args:
        kind: That of its numbers, or empty.
        attributes: Those of the list.
    """

    def __init__(self, kind: str, attributes: Mapping[str, str | None]) -> None:
        self.kind = kind
        self._step = -1 if "reversed" in attributes else 1
        # A list that counts down to 1 begins with the number of its items, known at its end.
        self._is_open = self._step < 0 and not attributes.get("start")
        self._next = 0 if self._is_open else _number_of(attributes, "start")
        self._items = 0
        self._open: list[tuple[list[str], int, int]] = []  # pieces, place and number of labels

    def next_label(self, attributes: Mapping[str, str | None]) -> str:
        """Return the number of the next item, such as `3. `."""
        if attributes.get("value"):
            self._next, self._is_open = _number_of(attributes, "value"), False
        self._items += 1
        number, self._next = self._next, self._next + self._step
        return f"{list_number(number, self.kind)}. "

    def note_label(self, pieces: list[str]) -> None:
        """Note where a label goes that is not known yet: behind the pieces of the text."""
        if self._is_open:
            self._open.append((pieces, len(pieces), self._next - self._step))

    def finish(self) -> None:
        """Write the labels that are known only now."""
        for pieces, at, number in self._open:
            if at < len(pieces):
                pieces[at] = f"{list_number(self._items + number, self.kind)}. "


class _Table:
    """The finished lines of a table and the cells of its open row."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cells: list[list[str]] = []
        self.has_block = False
        self._columns = 0  # that the last cell covers beyond its own
        self._above: dict[int, int] = {}  # rows that cells above still cover, by column
        self._below: dict[int, int] = {}

    def add_cell(self, rows: int, columns: int) -> int:
        """Add a cell, after empty ones where merged cells are; return the number of all."""
        before = len(self.cells)
        self.cells += [[] for _ in range(self._columns)]
        while len(self.cells) in self._above:
            self.cells.append([])
        self._columns = min(columns, _MAX_SPAN) - 1
        if rows > 1:
            start = len(self.cells)
            covered = range(start, start + self._columns + 1)
            self._below |= dict.fromkeys(covered, min(rows, _MAX_SPAN) - 1)
        self.cells.append([])
        return len(self.cells) - before

    def end_row(self) -> None:
        """Add the open row to the lines."""
        if not self.cells:
            self.has_block = False
            return
        texts = ["".join(cell).strip() for cell in self.cells]
        if self.has_block or any(re.search(r"\n\s*\n", text) for text in texts):
            self.lines += [f"{text}\n\n" for text in texts]  # a table for layout, not for data
        elif row := format_row(texts):
            self.lines.append(f"{row}\n")
        self._start_row()

    def _start_row(self) -> None:
        self.cells = []
        self.has_block = False
        self._columns = 0
        left = {column: rows - 1 for column, rows in self._above.items() if rows > 1}
        self._above, self._below = left | self._below, {}
