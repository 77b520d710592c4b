"""Read the slides of PPTX files as a stream of XML elements, with lxml.

python-pptx unpacks every image and keeps all slides in memory, so a small file can take all memory.
This reader unpacks only the text.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from e2graphrag_integrations.loaders.archives import Archive, attribute, local_name
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.types import Segment, SourceDocument

_SEPARATOR = "\n\n"
"""Separates the paragraphs of different shapes, tables and slides."""

_SKIPPED = frozenset({"Fallback", "fld"})
"""Elements that are not part of the text: copies for old programs, and fields such as the date and
the number of the slide."""

_NO_CONTENT = frozenset({"dt", "ftr", "hdr", "sldNum", "sldImg"})
"""Placeholders for the date, footer, header and number of a slide, which repeat on all slides."""

_NO = frozenset({"0", "false"})

_CHART_ROLES = frozenset({"tx", "cat", "val", "xVal", "yVal", "bubbleSize"})
"""Elements of a series of a chart that contain its name, its categories and its values."""


def read_pptx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the texts of the slides of a PPTX file, with their tables, diagrams and notes.

    Each row of a table, and of the data of a chart, becomes one line, with ` | ` between the cells.
    Headers, footers, dates and numbers of slides, and hidden slides are left out.

    Args:
        document_id: The document's id.
        data: Content of the file.
        budget: Limits of the file.

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
        _relation_id(element)
        for event, element in archive.events(main_part)
        if event == "start" and local_name(element) == "sldId"
    ]
    return [relations[one].target for one in ids if one in relations]


def _relation_id(element: Any) -> str:
    """Return the id of a relation; a slide also has an id of its own, without a namespace."""
    found = (v for k, v in element.attrib.items() if k.startswith("{") and k.endswith("}id"))
    return next(found, "")


def _parts(archive: Archive, slide: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a slide: itself, its diagrams and charts, and its notes."""
    yield "slide", slide
    folder, name = posixpath.split(slide)
    if posixpath.join(folder, "_rels", f"{name}.rels") not in archive.names:
        return
    relations = archive.relations(slide).values()
    for kind in ("diagramData", "chart", "notesSlide"):
        for one in relations:
            if one.kind == kind and one.target in archive.names and one.target != slide:
                yield kind, one.target


def _read_slide(archive: Archive, part: str, budget: Budget) -> _Slide:
    slide = _Slide(budget)
    for kind, name in _parts(archive, part):
        if kind == "chart":
            slide.add_block(_chart(archive, name, budget))
            continue
        for event in archive.events_outside(_SKIPPED, name):
            slide.add(*event)
        if slide.is_hidden:
            break
        slide.end_part()
    return slide


def _chart(archive: Archive, part: str, budget: Budget) -> str:
    """Return the title of a chart and its data as a table."""
    title: list[str] = []
    categories: dict[str, str] = {}
    series: list[dict[str, str]] = []  # the values, by category, and the name at ""
    role = index = ""
    is_series = False
    for event, name, element in archive.events_outside({"dLbls"}, part):
        if name == "ser":
            is_series = event == "start"
            series += [{}] if is_series else []
        elif event == "start" and name in _CHART_ROLES:
            role = name
        elif event == "start" and name == "pt":
            index = attribute(element, "idx") or ""
        elif event == "end" and name == "t" and not is_series:
            title.append(element.text or "")
        elif event == "end" and name == "title":
            title.append(" ")  # those of the axes follow
        elif event == "end" and name == "v" and is_series:
            if role in {"cat", "xVal"}:
                categories.setdefault(index, element.text or "")
            else:
                series[-1]["" if role == "tx" else index] = element.text or ""
    places = ["", *dict.fromkeys([*categories, *(one for own in series for one in own if one)])]
    for _ in range(len(places) * len(series)):
        budget.add_cell()
    rows = [[categories.get(at, ""), *(own.get(at, "") for own in series)] for at in places]
    return "\n".join(filter(None, [" ".join("".join(title).split()), *map(format_row, rows)]))


class _Slide:
    """Builds the text of a slide from its elements."""

    def __init__(self, budget: Budget) -> None:
        self.blocks: list[str] = []
        self.titles: list[tuple[int, str]] = []
        self.is_hidden = False
        self._budget = budget
        self._size = 0
        self._placeholder = ""
        self._paragraph: list[str] = []
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

    def _end(self, name: str, element: Any) -> None:
        if name == "t":
            self._paragraph.append(element.text or "")
        elif name == "br":
            self._paragraph.append("\n")
        elif name == "p":
            self._shape.append("".join(self._paragraph))
            self._paragraph = []
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
