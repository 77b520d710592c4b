"""Read the sheets of XLSX files with openpyxl, row by row."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from typing import Any

from e2graphrag_integrations.loaders.archives import Archive
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.parsing import replace_surrogates, translate_errors
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.types import Segment, SourceDocument

_FORMAT = "XLSX file"
_ROWS_PER_CHECK = 100
_DIGITS = 15
"""Number of digits that a spreadsheet computes with; further ones are due to binary fractions."""


def read_xlsx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the sheets of an XLSX file; each row becomes one line, with ` | ` between the cells.

    Formulas are read as their last results. Dates are in ISO format. Empty rows, hidden sheets,
    charts and comments are left out.

    Args:
        document_id: The document's id.
        data: Content of the file.
        budget: Limits of the file.

    Returns:
        The document. Each sheet begins with its name, and is a segment with the metadata `sheet`,
        its name.

    Raises:
        UnreadableFileError: If `data` is not a readable XLSX file.
        FileLimitError: If the file exceeds a limit.
        ImportError: If openpyxl or lxml is not installed.
    """
    import lxml.etree  # noqa: F401 - report a missing package before reading
    import openpyxl

    archive = Archive(data, _FORMAT, budget)
    for name in sorted(archive.names):
        # openpyxl does not limit what it unpacks, so everything that it may unpack is counted.
        if name.endswith((".xml", ".rels")):
            for _ in archive.pieces(name):
                pass
    with translate_errors(_FORMAT, budget.origin):
        book = openpyxl.load_workbook(
            io.BytesIO(data), read_only=True, data_only=True, keep_links=False
        )
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    parts: list[str] = []
    segments: list[Segment] = []
    start = 0
    for sheet in sheets:
        rows = list(_rows(sheet, budget))
        if not rows:
            continue
        name = replace_surrogates(sheet.title)
        text = "\n".join([name, "", *rows]) + "\n\n"
        segments.append(Segment(start, start + len(text), {"sheet": name}))
        parts.append(text)
        start += len(text)
    if not parts:
        raise archive.refuse("it has no text")
    with translate_errors(_FORMAT, budget.origin):
        title = book.properties.title
    return SourceDocument(
        document_id, "".join(parts), replace_surrogates(title or "").strip() or None, {}, segments
    )


def _rows(sheet: Any, budget: Budget) -> Iterator[str]:
    with translate_errors(_FORMAT, budget.origin):
        sheet.reset_dimensions()  # the file can claim any size
        rows = iter(sheet.iter_rows(values_only=False))
    number = 0
    while True:
        with translate_errors(_FORMAT, budget.origin):
            row = next(rows, None)
        if row is None:
            return
        number += 1
        if number % _ROWS_PER_CHECK == 0:
            budget.check_time()
        texts = []
        for cell in row:
            budget.add_cell()
            texts.append(_cell_text(cell.value, cell))
        while texts and not texts[-1]:
            texts.pop()
        line = format_row(texts)
        if line:
            yield replace_surrogates(line)


def _cell_text(value: Any, cell: Any) -> str:
    """Return the value of a cell as a spreadsheet would show it, without colors and currencies."""
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        value = value.date()
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "%" in str(cell.number_format):
            return f"{value * 100:.{_DIGITS - 3}g}%"
        return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)
    return "" if value is None else str(value)
