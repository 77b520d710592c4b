"""Read the sheets of XLSX files as a stream of XML elements, with lxml.

openpyxl reads styles, charts and properties as well, and refuses the whole file for a detail of
them that it does not know, such as the fonts of other programs. This reader takes the values only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError
from e2graphrag_integrations.loaders.archives import Archive, attribute, local_name, relation_id
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.office.number_formats import (
    NUMBER,
    WHOLE,
    NumberSection,
    number_sections,
    number_text,
)
from e2graphrag_integrations.loaders.office.runs import Runs, unescape
from e2graphrag_integrations.loaders.parsing import replace_surrogates
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.types import Segment, SourceDocument

_FORMAT = "XLSX file"
_ROWS_PER_CHECK = 100
_MAX_COLUMNS = 16_384
"""Number of columns of a sheet."""

_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?\d+")
_YES = frozenset({"1", "true"})


def read_xlsx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the sheets of an XLSX file; each row becomes one line, with ` | ` between the cells.

    Formulas are read as their last results, or as they are if they have none. Dates are in ISO
    format. Currencies and units stand beside their numbers, which are scaled as in the sheet:
    2500000 that the sheet shows as 2.5M is `2.5 M`. Codes such as RE-0042, and words that a format
    shows for a number, are read as shown. Between a digit and a raised number stands `^`. Empty
    rows, hidden sheets, charts and comments are left out.

    Returns:
        The document. Each sheet begins with its name, and is a segment with the metadata `sheet`,
        its name.

    Raises:
        UnreadableFileError: If `data` is not a readable XLSX file.
        FileLimitError: If the file exceeds a limit.
        ImportError: If openpyxl or lxml is not installed.
    """
    import openpyxl  # noqa: F401 - report a missing package before reading

    archive = Archive(data, _FORMAT, budget)
    main_part = archive.main_part()
    book = _read_book(archive, main_part)
    parts: list[str] = []
    segments: list[Segment] = []
    start = 0
    for sheet in book.sheets:
        rows = list(_rows(archive, sheet.part, book, budget))
        if not rows:
            continue
        name = replace_surrogates(sheet.name)
        text = "\n".join([name, "", *rows]) + "\n\n"
        segments.append(Segment(start, start + len(text), {"sheet": name}))
        parts.append(text)
        start += len(text)
    if not parts:
        raise archive.refuse("it has no text")
    title = replace_surrogates(archive.title())
    return SourceDocument(document_id, "".join(parts), title or None, {}, segments)


class _Sheet(NamedTuple):
    name: str
    part: str


@dataclass(frozen=True)
class _Book:
    """What the cells of a file refer to.

    Attributes:
        sheets: The visible sheets, in order.
        strings: The texts that cells share.
        formats: The sections of the number format of each style of cells.
        is_from_1904: Whether days are counted from 1904, as old Macs did, rather than 1900.
    """

    sheets: Sequence[_Sheet]
    strings: Sequence[str]
    formats: Sequence[Sequence[NumberSection]]
    is_from_1904: bool


def _read_book(archive: Archive, main_part: str) -> _Book:
    relations = archive.relations(main_part)
    of_kind = {one.kind: one.target for one in relations.values() if one.target in archive.names}
    sheets: list[_Sheet] = []
    is_from_1904 = False
    for event, element in archive.events(main_part):
        name = local_name(element)
        if event == "start" and name == "workbookPr":
            is_from_1904 = attribute(element, "date1904") in _YES
        elif event == "start" and name == "sheet":
            relation = relations.get(relation_id(element))
            is_shown = attribute(element, "state") in {None, "visible"}
            if relation is not None and relation.kind == "worksheet" and is_shown:
                sheets.append(_Sheet(attribute(element, "name") or "", relation.target))
    return _Book(
        sheets,
        list(_strings(archive, of_kind.get("sharedStrings"))),
        _formats(archive, of_kind.get("styles")),
        is_from_1904,
    )


def _strings(archive: Archive, part: str | None) -> Iterator[str]:
    runs = Runs()
    # Phonetic guides repeat a text in other letters.
    for event, name, element in archive.events_outside({"rPh"}, part) if part else ():
        if event == "end" and name == "si":
            yield runs.take()
        else:
            _add_run(runs, event, name, element)


def _add_run(runs: Runs, event: str, name: str, element: Any) -> None:
    """Add the start or the end of an element of a text."""
    if event == "end" and name == "t":
        runs.add(unescape(element.text or ""))
    elif event == "start" and name == "r":
        runs.start_run()
    elif event == "start" and name == "vertAlign":
        runs.is_raised = attribute(element, "val") == "superscript"


def _formats(archive: Archive, part: str | None) -> list[list[NumberSection]]:
    """Return the number format of each style of cells; none if the styles cannot be read."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS

    codes: dict[str, str] = {str(number): code for number, code in BUILTIN_FORMATS.items()}
    known: dict[str, list[NumberSection]] = {}
    found: list[list[NumberSection]] = []
    in_cells = False
    try:
        for event, element in archive.events(part) if part else ():
            name = local_name(element)
            if name == "cellXfs":
                in_cells = event == "start"
            elif event == "start" and name == "numFmt":
                number = attribute(element, "numFmtId") or ""
                codes[number] = attribute(element, "formatCode") or ""
            elif event == "start" and name == "xf" and in_cells:
                code = codes.get(attribute(element, "numFmtId") or "", "General")
                if code not in known:
                    known[code] = number_sections(code)
                found.append(known[code])
    except FileLimitError:
        raise
    except UnreadableFileError:
        return []
    return found


@dataclass
class _Cell:
    """An open cell."""

    kind: str = "n"
    style: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    """Its value `v`, its formula `f` and its own text `t`."""


def _rows(archive: Archive, part: str, book: _Book, budget: Budget) -> Iterator[str]:
    if part not in archive.names:
        return
    row: list[str] = []
    cell, runs = _Cell(), Runs()
    number = 0
    for event, name, element in archive.events_outside({"rPh"}, part):
        if event == "start" and name == "c":
            cell = _Cell(element.get("t", "n"), element.get("s", ""))
            for _ in range(_column(element.get("r")) - len(row)):
                budget.add_cell()
                row.append("")
        elif event == "end" and name == "c":
            cell.texts["t"] = runs.take()
            budget.add_cell()
            row.append(_cell_text(cell, book))
            budget.add_unpacked(len(row[-1]))  # many cells can refer to one long string
        elif event == "end" and name in {"v", "f"}:
            cell.texts[name] = cell.texts.get(name, "") + (element.text or "")
        elif event == "end" and name == "row":
            number += 1
            if number % _ROWS_PER_CHECK == 0:
                budget.check_time()
            line = _line(row)
            row = []
            if line:
                yield line
        else:
            _add_run(runs, event, name, element)


def _line(row: list[str]) -> str:
    while row and not row[-1]:
        row.pop()
    return replace_surrogates(format_row(row))


def _column(reference: str | None) -> int:
    """Return the number of a cell's column from 0; 0 if it is not said or impossible."""
    match = _REFERENCE.fullmatch(reference or "")
    number = 0
    for letter in match[1].upper() if match else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1 if 0 < number <= _MAX_COLUMNS else 0


def _cell_text(cell: _Cell, book: _Book) -> str:
    """Return the value of a cell about as a spreadsheet would show it."""
    value = cell.texts.get("v", "")
    match cell.kind:
        case "inlineStr":
            text = cell.texts["t"]
        case "s":
            text = _at(book.strings, value, "")
        case "b":
            text = str(value.strip() in _YES)
        case "d":
            text = value.replace("T00:00:00", "").replace("T", " ")
        case "n" if NUMBER.fullmatch(value.strip()):
            sections = _at(book.formats, cell.style, ())
            text = number_text(value.strip(), sections, is_from_1904=book.is_from_1904)
        case "n" if not value and cell.texts.get("f"):  # written by a program, and never computed
            text = f"={cell.texts['f']}"
        case _:
            text = unescape(value)
    return text


T = TypeVar("T")


def _at(items: Sequence[T], index: str, default: T) -> T:
    """Return the element at an index in a file, or the default if there is none."""
    number = int(index) if WHOLE.fullmatch(index.strip()) else -1
    return items[number] if 0 <= number < len(items) else default
