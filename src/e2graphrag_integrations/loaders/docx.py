"""Read the text of DOCX files as a stream of XML elements, with lxml.

python-docx unpacks every image and keeps a Python object for each grid column of a table, so that
a file of a few kilobytes can take all memory. This reader unpacks only the text.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError
from e2graphrag_integrations.loaders.archives import Archive, attribute, local_name
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.text.headings import MAX_LEVEL
from e2graphrag_integrations.types import Segment, SourceDocument

_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
"""Elements that stand for a character."""

_SKIPPED = frozenset({"txbxContent", "Fallback", "moveFrom", "del", "tcPrChange", "pPrChange"})
"""Elements that are not part of the current text: text boxes, copies for old programs, deleted
text, and the earlier properties of a cell, which can say that it was merged, or of a paragraph,
which can say that it was a heading."""

_SEPARATOR = "\n\n"
"""Separates paragraphs and tables."""

_TITLE_LEVEL = 0
"""Level of a paragraph with the style Title."""


def read_docx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the paragraphs and tables in a DOCX file as a document, in file order.

    Each row of a table becomes one line, with ` | ` between the cells. A merged cell appears once.
    Paragraphs with the styles Title and Heading 1 to Heading 6, or with styles based on these,
    begin segments with the headings above them, unless they are in a table.

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
    body = _Body(_heading_levels(archive, main_part), budget)
    for event in archive.events_outside(_SKIPPED, main_part):
        body.add(*event)
    if not body.found:
        raise archive.refuse("it has no text")
    title = archive.title()
    text = _SEPARATOR.join(body.blocks)
    segments = body.headings.segments([Segment(0, len(text), {})])
    return SourceDocument(document_id, text, title or None, {}, segments)


class _Body:
    """Builds the text from the elements of the main part."""

    def __init__(self, levels: Mapping[str, int], budget: Budget) -> None:
        self.found = False
        self.blocks: list[str] = []
        self.headings = FileHeadings(budget)
        self._levels = levels
        self._level: int | None = None  # of the open paragraph
        self._size = 0
        self._budget = budget
        self._paragraph: list[str] = []
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
        elif name == "pStyle":
            self._level = self._levels.get(attribute(element, "val") or "")
        elif name in {"vMerge", "hMerge"} and self._tables and self._tables[-1].cells:
            self._tables[-1].cells[-1].continues = attribute(element, "val") != "restart"

    def _end(self, name: str, element: Any) -> None:
        if name == "t":
            self._paragraph.append(element.text or "")
        elif name in _CHARACTERS and local_name(element.getparent()) == "r":
            if attribute(element, "type") not in {"page", "column"}:
                self._paragraph.append(_CHARACTERS[name])
        elif name == "p":
            text = "".join(self._paragraph)
            self._paragraph = []
            if self._level is not None and not self._tables:
                self.headings.add(self._size, self._level, text)
            self._level = None
            self._add_text(text)
        elif name == "tr" and self._tables:
            self._tables[-1].end_row()
        elif name == "tbl" and self._tables:
            self._add_text("\n".join(self._tables.pop().rows))

    def _add_text(self, text: str) -> None:
        """Add a block to the open cell or to the document."""
        if not self._tables:
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


def _heading_levels(archive: Archive, main_part: str) -> dict[str, int]:
    """Return the level of each style that is a heading, by its id, which depends on the language.

    A file whose styles cannot be read has no headings.
    """
    part = posixpath.join(posixpath.dirname(main_part), "styles.xml")
    known = {"title": _TITLE_LEVEL, **{f"heading {n}": n for n in range(1, MAX_LEVEL + 1)}}
    levels: dict[str, int] = {}
    based_on: dict[str, str] = {}
    style = ""
    try:
        for event, element in archive.events(part) if part in archive.names else ():
            name = local_name(element)
            value = attribute(element, "val") or ""
            if event == "end":
                style = "" if name == "style" else style
            elif name == "style":
                style = attribute(element, "styleId") or ""
            elif name == "name" and style and value.lower() in known:
                levels[style] = known[value.lower()]
            elif name == "basedOn" and style:
                based_on[style] = value
    except FileLimitError:
        raise
    except UnreadableFileError:
        return {}
    return _inherited(levels, based_on)


def _inherited(levels: Mapping[str, int], based_on: Mapping[str, str]) -> dict[str, int]:
    """Return the levels of all styles, including those that are based on a heading."""
    derived: dict[str, list[str]] = {}
    for style, base in based_on.items():
        derived.setdefault(base, []).append(style)
    inherited = dict(levels)
    pending = list(levels)
    while pending:
        base = pending.pop()
        for style in derived.get(base, ()):
            if style not in inherited:
                inherited[style] = inherited[base]
                pending.append(style)
    return inherited
