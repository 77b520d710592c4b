"""Read the slides of PPTX files as a stream of XML elements, with lxml.

python-pptx unpacks every image and keeps all slides in memory, so a small file can take all memory.
This reader unpacks only the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from e2graphrag_integrations.loaders.archives import Archive, attribute, local_name, relation_id
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.office.charts import read_chart
from e2graphrag_integrations.loaders.office.equations import RunsWithEquations
from e2graphrag_integrations.loaders.office.runs import unescape
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.loaders.tables import format_row, list_number
from e2graphrag_integrations.types import Segment, SourceDocument

_SEPARATOR = "\n\n"
"""Separates the paragraphs of different shapes, tables and slides."""

_SKIPPED = frozenset({"Fallback"})
"""Elements that are not part of the text: copies for old programs."""

_NO_CONTENT = frozenset({"dt", "ftr", "hdr", "sldNum", "sldImg"})
"""Placeholders for the date, footer, header and number of a slide, which repeat on all slides."""

_NO = frozenset({"0", "false"})

_KINDS = (
    ("alphaLc", "lowerLetter"),
    ("alphaUc", "upperLetter"),
    ("romanLc", "lowerRoman"),
    ("romanUc", "upperRoman"),
    ("", "decimal"),
)
"""How the kinds of numbers of lists begin, and their names in DOCX files."""

_SIGNS = (("ParenBoth", "({})"), ("ParenR", "{})"), ("Period", "{}."), ("", "{}"))
"""How they end, and the signs around the numbers."""

_LIST_LEVEL = re.compile(r"lvl([1-9])pPr")
_MAX_LEVEL = 8
_WHOLE = re.compile(r"\d{1,6}")


def read_pptx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the texts of the slides of a PPTX file, with their tables, diagrams and notes.

    Each row of a table, and of the data of a chart, becomes one line, with ` | ` between the cells.
    Items of numbered lists begin with their number, equations are written in one line, and between
    a digit and a raised number stands `^`. Headers, footers, dates and numbers of slides, and
    hidden slides are left out.

    Returns:
        The document. Each segment has the metadata `slide`, a number from 1 that counts hidden
        slides as PowerPoint does, and `headings` with the title of the slide if it has one.

    Raises:
        UnreadableFileError: If `data` is not a readable PPTX file.
        FileLimitError: If the file exceeds a limit.
        ImportError: If lxml is not installed.
    """
    import lxml.etree  # noqa: F401 - report a missing package before reading

    archive = Archive(data, "PPTX file", budget)
    parts = _slides(archive)
    texts: list[str] = []
    segments: list[Segment] = []
    start = 0
    for number, part in enumerate(parts, 1):
        slide = _read_slide(archive, part, budget)
        if slide.is_hidden:
            continue
        headings = FileHeadings(budget)  # a slide without a title is not below that before it
        for offset, title in slide.titles:
            headings.add(start + offset, 1, title)
        text = _SEPARATOR.join(slide.blocks) + _SEPARATOR
        segments += headings.segments([Segment(start, start + len(text), {"slide": number})])
        texts.append(text)
        start += len(text)
    if not "".join(texts).strip():
        raise archive.refuse("it has no text")
    return SourceDocument(document_id, "".join(texts), archive.title() or None, {}, segments)


def _slides(archive: Archive) -> list[str]:
    """Return the parts of all slides, in the order of the show."""
    main_part = archive.main_part()
    relations = archive.relations(main_part)
    ids = [
        relation_id(element)
        for event, element in archive.events(main_part)
        if event == "start" and local_name(element) == "sldId"
    ]
    return [relations[one].target for one in ids if one in relations]


def _parts(archive: Archive, slide: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a slide: itself, its diagrams and charts, and its notes."""
    yield "slide", slide
    relations = archive.related(slide)
    for kind in ("diagramData", "chart", "notesSlide"):
        yield from (one for one in relations if one.kind == kind and one.target != slide)


def _read_slide(archive: Archive, part: str, budget: Budget) -> _Slide:
    slide = _Slide(budget)
    for kind, name in _parts(archive, part):
        if kind == "chart":
            slide.add_block(read_chart(archive, name, budget))
            continue
        for event in archive.events_outside(_SKIPPED, name):
            slide.add(*event)
        if slide.is_hidden:
            break
        slide.end_part()
    return slide


class _Paragraph:
    """Builds the text of a paragraph from its elements."""

    def __init__(self) -> None:
        self._runs = RunsWithEquations()
        self._has_own_text = False
        self._field: str | None = None  # the kind of the open field

    def start(self, name: str, element: Any) -> None:
        """Begin an element."""
        if name in {"r", "fld"}:
            self._runs.start_run()
            self._field = (attribute(element, "type") or "") if name == "fld" else None
        elif name == "rPr":
            baseline = attribute(element, "baseline") or ""
            self._runs.is_raised = not baseline.startswith("-") and bool(baseline.strip("0%"))
        else:
            self._runs.start(name, element)

    def end(self, name: str, element: Any) -> None:
        """End an element."""
        if name == "t" and self._field != "slidenum":
            text = unescape(element.text or "").replace("\v", "\n")
            self._has_own_text = self._has_own_text or (self._field is None and bool(text.strip()))
            self._runs.add(text)
        elif name == "br":
            self._runs.add("\n")
        elif name == "fld":
            self._field = None
        else:
            self._runs.end(name, element)

    def text(self) -> str:
        """Return the text; a field alone, such as the date in a corner of a slide, is none."""
        return "".join(self._runs.texts) if self._has_own_text else ""


class _Style(NamedTuple):
    """The kind of the numbers of a list, such as `arabicPeriod`, and the first number."""

    kind: str
    first: int


class _Numbers:
    """Counts the paragraphs of the numbered lists of a shape."""

    def __init__(self) -> None:
        self._usual: dict[int, _Style] = {}  # by level
        self._counts: dict[int, tuple[_Style, int]] = {}
        self._level = 0
        self._style: _Style | None = None
        self._is_own = False  # whether the open paragraph says itself how its list is numbered

    def start(self, name: str, element: Any) -> None:
        """Begin an element."""
        if name == "pPr" and local_name(element.getparent()) == "p":
            level = attribute(element, "lvl") or ""
            self._level = min(int(level), _MAX_LEVEL) if _WHOLE.fullmatch(level) else 0
        elif name in {"buAutoNum", "buNone", "buChar", "buBlip"}:
            style = None
            if name == "buAutoNum":
                first = attribute(element, "startAt") or ""
                number = int(first) if _WHOLE.fullmatch(first) else 1
                style = _Style(attribute(element, "type") or "", number)
            place = _LIST_LEVEL.fullmatch(local_name(element.getparent()))
            if place is None:
                self._style, self._is_own = style, True
            elif style is not None:
                self._usual[int(place[1]) - 1] = style

    def end_paragraph(self, *, has_text: bool) -> str:
        """Return the number of the open paragraph, such as `2.`; empty if it has none."""
        level = self._level
        style = self._style if self._is_own else self._usual.get(level)
        self._level, self._style, self._is_own = 0, None, False
        if not has_text:
            return ""
        before, count = self._counts.get(level, (None, 0))
        self._counts = {one: own for one, own in self._counts.items() if one < level}
        if style is None:
            return ""
        count = count + 1 if before == style else style.first
        self._counts[level] = (style, count)
        kind = next(own for start, own in _KINDS if style.kind.startswith(start))
        signs = next(own for end, own in _SIGNS if style.kind.endswith(end))
        return signs.format(list_number(count, kind))


class _Slide:
    """Builds the text of a slide from its elements."""

    def __init__(self, budget: Budget) -> None:
        self.blocks: list[str] = []
        self.titles: list[tuple[int, str]] = []
        self.is_hidden = False
        self._budget = budget
        self._size = 0
        self._placeholder = ""
        self._paragraph = _Paragraph()
        self._numbers = _Numbers()
        self._shape: list[str] = []
        self._rows: list[str] | None = None
        self._cells: list[str] = []

    def add(self, event: str, name: str, element: Any) -> None:
        """Add the start or the end of an element."""
        (self._start if event == "start" else self._end)(name, element)

    def _start(self, name: str, element: Any) -> None:
        if name == "sld":
            self.is_hidden = attribute(element, "show") in _NO
        elif name == "sp":
            self._placeholder = ""
        elif name == "ph":
            self._placeholder = attribute(element, "type") or "body"
        elif name == "tbl":
            self._rows = []
        elif name == "tc":
            self._budget.add_cell()
        elif name == "bodyPr":
            self._numbers = _Numbers()
        else:
            self._paragraph.start(name, element)
            self._numbers.start(name, element)

    def _end(self, name: str, element: Any) -> None:
        if name == "p":
            text, self._paragraph = self._paragraph.text(), _Paragraph()
            label = self._numbers.end_paragraph(has_text=bool(text.strip()))
            self._shape.append(f"{label} {text}" if label else text)
        elif name == "tc":
            self._cells.append(" ".join(self._shape))
            self._shape = []
        elif name == "tr" and self._rows is not None:
            self._rows.append(format_row(self._cells))
            self._cells = []
        elif name == "tbl" and self._rows is not None:
            self.add_block("\n".join(filter(None, self._rows)))
            self._rows = None
        elif name == "txBody" and self._rows is None:
            self._end_shape()
        else:
            self._paragraph.end(name, element)

    def end_part(self) -> None:
        """End a part, such as a diagram, whose texts are in no shape."""
        self._placeholder = ""
        self._end_shape()

    def _end_shape(self) -> None:
        text = "\n".join(line for line in self._shape if line.strip())
        self._shape = []
        if self._placeholder in _NO_CONTENT:
            return
        if self._placeholder in {"title", "ctrTitle"} and text.strip():
            self.titles.append((self._size, text))
        self.add_block(text)

    def add_block(self, text: str) -> None:
        """Add the text of a shape, unless it is empty."""
        if text.strip():
            self.blocks.append(text)
            self._size += len(text) + len(_SEPARATOR)
