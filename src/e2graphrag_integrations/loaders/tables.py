"""Lay out the rows of tables and the numbers of lists as text."""

from __future__ import annotations

from collections.abc import Iterable

CELL_SEPARATOR = " | "
"""Separates the cells of a row; unlike a tab, it is visible and survives white space cleaning."""

_MAX_ROMAN, _MAX_LETTER = 399, 702
"""Numbers above these are shown in digits, as nobody counts so far in letters."""

_ROMANS = (
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
    (9, "ix"),
    (5, "v"),
    (4, "iv"),
    (1, "i"),
)


def format_row(cells: Iterable[str]) -> str:
    r"""Return the cells of a row as one line; a row without text is empty.

    An empty cell keeps its place, so that the columns of all rows agree.

    >>> format_row(["Alice\nMiller", "", "Oslo"])
    'Alice Miller | | Oslo'
    """
    texts = [cell.strip() for cell in cells]
    return " ".join(CELL_SEPARATOR.join(texts).split()) if any(texts) else ""


def list_number(count: int, kind: str) -> str:
    """Return a number as a list shows it.

    Args:
        count: The number.
        kind: Its kind, as DOCX files name it, such as `decimal` or `lowerRoman`.

    >>> [list_number(4, kind) for kind in ("decimal", "lowerLetter", "upperRoman")]
    ['4', 'd', 'IV']
    """
    if kind == "decimalZero":
        return f"{count:02}"
    if kind in {"lowerRoman", "upperRoman"} and 0 < count <= _MAX_ROMAN:
        text = ""
        for value, letters in _ROMANS:
            text += letters * (count // value)
            count %= value
        return text.upper() if kind == "upperRoman" else text
    if kind in {"lowerLetter", "upperLetter"} and 0 < count <= _MAX_LETTER:
        letter = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letter.upper() if kind == "upperLetter" else letter
    return str(count)
