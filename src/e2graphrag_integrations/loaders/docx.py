"""Read the text of DOCX files as a stream of XML elements, with lxml.

python-docx unpacks every image and keeps a Python object for each grid column of a table, so that
a file of a few kilobytes can take all memory. This reader unpacks only the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from e2graphrag_integrations.loaders.archives import Archive, attribute
from e2graphrag_integrations.loaders.docx_styles import (
    NO_NUMBER,
    Number,
    Numbering,
    Styles,
    read_notes,
    read_styles,
)
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.office.docx_runs import DocxRuns
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.types import Segment, SourceDocument

_SKIPPED = frozenset(
    {"Fallback", "moveFrom", "del", "tcPrChange", "trPrChange", "pPrChange", "rPrChange", "rt"}
)
"""Elements that are not part of the current text: copies for old programs, deleted text, the
earlier properties of a cell or a row, which can say that cells were merged, of a paragraph, which
can say that it was a heading, and of a run, which can say that it was raised. Phonetic guides
repeat a text in other letters."""

_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote"}
"""References to notes, and the elements of the notes."""

_PROPERTIES = frozenset({"pStyle", "numId", "ilvl", "outlineLvl"})
"""Elements that say the style of a paragraph, its list, its level in the list, and its level as a
heading."""

_LEVELS = frozenset("012345678")
"""The levels of a list, or of headings."""

_MAX_SPAN = 100
"""Maximum number of columns that a merged cell can cover."""

_SPAN = re.compile(r"\d{1,3}")
_EMBEDDED = "altChunk"
"""An element that stands for another file, such as a web page, whose text Word takes over."""

_UNREAD = frozenset({"drawing", "pict", "object", _EMBEDDED})
"""Elements that stand for images and other files."""

_ONLY_IMAGES = (
    "it has no text, only images: save it as PDF and run a program for text recognition on it, "
    "such as `ocrmypdf`"
)
_EMBEDDED_TEXT = "its text is in a file inside it: open it in Word and save it again"
"""Why a file without text is refused."""

_CELL_PROPERTIES = frozenset({"gridSpan", "gridBefore", "vMerge", "hMerge"})
"""Elements that say which columns and rows the cells of a table cover."""

_SEPARATOR = "\n\n"
"""Separates paragraphs and tables."""


def read_docx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the paragraphs and tables in a DOCX file as a document, in file order.

    Each row of a table becomes one line, with ` | ` between the cells. A merged cell appears once,
    and the other columns that it covers are empty. Between a digit and a raised number stands `^`.
    Equations are written in one line, as in `1/2`, and the boxes of forms as ☒ or ☐. Numbered
    paragraphs begin with their number. Text boxes, and the footnotes and endnotes of a paragraph,
    follow it. Headers, footers, comments and hidden text are left out. Paragraphs with the styles
    Title and Heading 1 to Heading 6, with styles based on these, or with a level of the outline,
    begin segments with the headings above them, unless they are in a table.

    Raises:
        UnreadableFileError: If `data` is not a readable DOCX file, or has images or another file
            instead of text.
        FileLimitError: If the file exceeds a limit.
        ImportError: If lxml is not installed.
    """
    import lxml.etree  # noqa: F401 - report a missing package before reading

    archive = Archive(data, "DOCX file", budget)
    main_part = archive.main_part()
    styles = read_styles(archive, main_part)
    notes = read_notes(archive, main_part, _SKIPPED, styles)
    body = _Body(styles, Numbering(archive, main_part), notes, budget)
    for event in archive.events_outside(_SKIPPED, main_part):
        body.add(*event)
    if not body.found:
        raise archive.refuse("it has no text")
    if body.unread and not any(map(str.strip, body.blocks)):
        raise archive.refuse(_EMBEDDED_TEXT if _EMBEDDED in body.unread else _ONLY_IMAGES)
    title = archive.title()
    text = _SEPARATOR.join(body.blocks)
    segments = body.headings.segments([Segment(0, len(text), {})])
    return SourceDocument(document_id, text, title or None, {}, segments)


class _Outer(NamedTuple):
    """A paragraph that contains an open text box, and the number of open tables outside of it."""

    paragraph: _Paragraph
    tables: int


@dataclass
class _Paragraph:
    """The text of an open paragraph, its style and number, and what follows it."""

    runs: DocxRuns
    style: str = ""
    outline: int | None = None
    """Its level as a heading, if it says one itself."""

    number: Number = NO_NUMBER
    following: list[str] = field(default_factory=list)

    def set(self, name: str, value: str) -> None:
        """Set a property."""
        if name == "pStyle":
            self.style = value
        elif name == "numId":
            self.number = self.number._replace(list_id=value)
        elif name == "ilvl" and value in _LEVELS:
            self.number = self.number._replace(level=int(value))
        elif name == "outlineLvl" and value in _LEVELS:
            self.outline = int(value) + 1


class _Body:
    """Builds the text from the elements of the main part."""

    def __init__(
        self,
        styles: Styles,
        numbering: Numbering,
        notes: Mapping[tuple[str, str], str],
        budget: Budget,
    ) -> None:
        self.found = False
        self.blocks: list[str] = []
        self.unread: set[str] = set()
        self.headings = FileHeadings(budget)
        self._styles, self._numbering, self._notes = styles, numbering, notes
        self._size = 0
        self._budget = budget
        self._paragraph = self._new_paragraph()
        self._outer: list[_Outer] = []
        self._tables: list[_Table] = []

    def add(self, event: str, name: str, element: Any) -> None:
        """Add the start or the end of an element."""
        (self._start if event == "start" else self._end)(name, element)

    def _start(self, name: str, element: Any) -> None:
        if name == "body":
            self.found = True
        elif name in _UNREAD:
            self.unread.add(name)
        elif name == "tbl":
            self._tables.append(_Table())
        elif name == "tc" and self._tables:
            for _ in range(self._tables[-1].add_cell()):
                self._budget.add_cell()
        elif name in _NOTES:
            note = self._notes.get((_NOTES[name], attribute(element, "id") or ""))
            if note and not self._paragraph.runs.is_hidden:
                self._budget.add_unpacked(len(note))  # many references can lead to one
                self._paragraph.following.append(note)
        elif name == "txbxContent":
            self._outer.append(_Outer(self._paragraph, len(self._tables)))
            self._paragraph = self._new_paragraph()
        else:
            self._set(name, element)

    def _set(self, name: str, element: Any) -> None:
        """Set a property of the open table, paragraph or run."""
        if name in _CELL_PROPERTIES and self._tables:
            self._tables[-1].set(name, attribute(element, "val") or "")
        elif name in _PROPERTIES:
            self._paragraph.set(name, attribute(element, "val") or "")
        else:
            self._paragraph.runs.start(name, element)

    def _end(self, name: str, element: Any) -> None:
        if name == "p":
            self._end_paragraph()
        elif name == "txbxContent" and self._outer:
            self._paragraph = self._outer.pop().paragraph
        elif name == "tr" and self._tables:
            self._tables[-1].end_row()
        elif name == "tbl" and self._tables:
            self._add_text("\n".join(self._tables.pop().rows))
        else:
            self._paragraph.runs.end(name, element)

    def _new_paragraph(self) -> _Paragraph:
        return _Paragraph(DocxRuns(self._styles.raised, self._styles.hidden))

    def _end_paragraph(self) -> None:
        ended, self._paragraph = self._paragraph, self._new_paragraph()
        text = "".join(ended.runs.texts)
        label = self._numbering.label(ended.number, self._styles.numbers.get(ended.style))
        text = f"{label} {text}" if label and text.strip() else text
        level = self._styles.levels.get(ended.style, ended.outline)
        if level is not None and not self._tables and not self._outer:
            self.headings.add(self._size, level, text)
        self._add_text(text)
        for following in ended.following:
            self._add_text(following)

    def _add_text(self, text: str) -> None:
        """Add a block to the open cell, to what follows a paragraph, or to the document."""
        if self._outer and len(self._tables) == self._outer[-1].tables:
            self._outer[-1].paragraph.following += [text] if text.strip() else []
        elif not self._tables:
            self.blocks.append(text)
            self._size += len(text) + len(_SEPARATOR)
        elif self._tables[-1].cells:
            self._tables[-1].cells[-1].texts.append(text)


def _columns(value: str) -> int:
    """Return a number of columns; 0 if it is not said or impossible."""
    return min(int(value), _MAX_SPAN) if _SPAN.fullmatch(value) else 0


@dataclass
class _Cell:
    """A table cell; `continues` if it is the rest of a merged cell."""

    texts: list[str] = field(default_factory=list)
    continues: bool = False


@dataclass
class _Table:
    """The finished rows of a table and the cells of its open row.

    Attributes:
        covered: Number of columns without a cell of their own before the next cell.
    """

    rows: list[str] = field(default_factory=list)
    cells: list[_Cell] = field(default_factory=list)
    covered: int = 0

    def add_cell(self) -> int:
        """Add a cell, after empty ones for covered columns; return the number of all."""
        before = len(self.cells)
        self.cells += [_Cell() for _ in range(self.covered + 1)]
        self.covered = 0
        return len(self.cells) - before

    def set(self, name: str, value: str) -> None:
        """Set a property of the open row or of its last cell."""
        if name == "gridBefore":
            self.covered = _columns(value)
        elif name == "gridSpan":
            self.covered = max(0, _columns(value) - 1)
        elif self.cells:
            self.cells[-1].continues = value != "restart"

    def end_row(self) -> None:
        """Add the open row to the finished rows, unless it has no text."""
        row = format_row("" if cell.continues else " ".join(cell.texts) for cell in self.cells)
        if row:
            self.rows.append(row)
        self.cells = []
        self.covered = 0
