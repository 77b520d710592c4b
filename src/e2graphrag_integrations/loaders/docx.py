"""Read the text of DOCX files as a stream of XML elements, with lxml.

python-docx unpacks every image and keeps a Python object for each grid column of a table, so that
a file of a few kilobytes can take all memory. This reader unpacks only the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from e2graphrag_integrations.loaders.archives import Archive, attribute, local_name
from e2graphrag_integrations.loaders.docx_styles import (
    NO_NUMBER,
    Number,
    Numbering,
    Styles,
    read_notes,
    read_styles,
)
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.types import Segment, SourceDocument

_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
"""Elements that stand for a character."""

_SKIPPED = frozenset({"Fallback", "moveFrom", "del", "tcPrChange", "pPrChange"})
"""Elements that are not part of the current text: copies for old programs, deleted text, and the
earlier properties of a cell, which can say that it was merged, or of a paragraph, which can say
that it was a heading."""

_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote"}
"""References to notes, and the elements of the notes."""

_PROPERTIES = frozenset({"pStyle", "numId", "ilvl"})
"""Elements that say the style of a paragraph, its list, and its level in the list."""

_LEVELS = frozenset("012345678")
"""The levels of a list."""

_SEPARATOR = "\n\n"
"""Separates paragraphs and tables."""


def read_docx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the paragraphs and tables in a DOCX file as a document, in file order.

    Each row of a table becomes one line, with ` | ` between the cells. A merged cell appears once.
    Numbered paragraphs begin with their number. Text boxes, and the footnotes and endnotes of a
    paragraph, follow it. Headers, footers and comments are left out. Paragraphs with the styles
    Title and Heading 1 to Heading 6, or with styles based on these, begin segments with the
    headings above them, unless they are in a table.

    Args:
        document_id: The document's id.
        data: Content of the file.
        budget: Limits of the file.

    Raises:
        UnreadableFileError: If `data` is not a readable DOCX file.
        FileLimitError: If the file exceeds a limit.
        ImportError: If lxml is not installed.
    """
    import lxml.etree  # noqa: F401 - report a missing package before reading

    archive = Archive(data, "DOCX file", budget)
    main_part = archive.main_part()
    body = _Body(
        read_styles(archive, main_part),
        Numbering(archive, main_part),
        read_notes(archive, main_part, _SKIPPED),
        budget,
    )
    for event in archive.events_outside(_SKIPPED, main_part):
        body.add(*event)
    if not body.found:
        raise archive.refuse("it has no text")
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

    texts: list[str] = field(default_factory=list)
    style: str = ""
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
        self.headings = FileHeadings(budget)
        self._styles, self._numbering, self._notes = styles, numbering, notes
        self._size = 0
        self._budget = budget
        self._paragraph = _Paragraph()
        self._outer: list[_Outer] = []
        self._tables: list[_Table] = []

    def add(self, event: str, name: str, element: Any) -> None:
        """Add the start or the end of an element."""
        (self._start if event == "start" else self._end)(name, element)

    def _start(self, name: str, element: Any) -> None:
        if name == "body":
            self.found = True
        elif name == "tbl":
            self._tables.append(_Table())
        elif name == "tc" and self._tables:
            self._budget.add_cell()
            self._tables[-1].cells.append(_Cell())
        elif name in _NOTES:
            note = self._notes.get((_NOTES[name], attribute(element, "id") or ""))
            if note:
                self._budget.add_unpacked(len(note))  # many references can lead to one
                self._paragraph.following.append(note)
        elif name == "txbxContent":
            self._outer.append(_Outer(self._paragraph, len(self._tables)))
            self._paragraph = _Paragraph()
        elif name in {"vMerge", "hMerge"} and self._tables and self._tables[-1].cells:
            self._tables[-1].cells[-1].continues = attribute(element, "val") != "restart"
        elif name in _PROPERTIES:
            self._paragraph.set(name, attribute(element, "val") or "")

    def _end(self, name: str, element: Any) -> None:
        if name == "t":
            self._paragraph.texts.append(element.text or "")
        elif name in _CHARACTERS and local_name(element.getparent()) == "r":
            if attribute(element, "type") not in {"page", "column"}:
                self._paragraph.texts.append(_CHARACTERS[name])
        elif name == "p":
            self._end_paragraph()
        elif name == "txbxContent" and self._outer:
            self._paragraph = self._outer.pop().paragraph
        elif name == "tr" and self._tables:
            self._tables[-1].end_row()
        elif name == "tbl" and self._tables:
            self._add_text("\n".join(self._tables.pop().rows))

    def _end_paragraph(self) -> None:
        ended, self._paragraph = self._paragraph, _Paragraph()
        text = "".join(ended.texts)
        label = self._numbering.label(ended.number, self._styles.numbers.get(ended.style))
        text = f"{label} {text}" if label and text.strip() else text
        level = self._styles.levels.get(ended.style)
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


@dataclass
class _Cell:
    """A table cell; `continues` if it is the rest of a merged cell."""

    texts: list[str] = field(default_factory=list)
    continues: bool = False


@dataclass
class _Table:
    """The finished rows of a table and the cells of its open row."""

    rows: list[str] = field(default_factory=list)
    cells: list[_Cell] = field(default_factory=list)

    def end_row(self) -> None:
        """Add the open row to the finished rows, unless it has no text."""
        row = format_row("" if cell.continues else " ".join(cell.texts) for cell in self.cells)
        if row:
            self.rows.append(row)
        self.cells = []
