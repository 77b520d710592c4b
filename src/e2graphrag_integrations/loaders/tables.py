"""Lay out the rows of tables as lines of text."""

from __future__ import annotations

from collections.abc import Iterable

CELL_SEPARATOR = " | "
"""Separates the cells of a row; unlike a tab, it is visible and survives white space cleaning."""


def format_row(cells: Iterable[str]) -> str:
    r"""Return the cells of a row as one line; a row without text is empty.

    An empty cell keeps its place, so that the columns of all rows agree.

    >>> format_row(["Alice\nMiller", "", "Oslo"])
    'Alice Miller | | Oslo'
    """
    texts = [cell.strip() for cell in cells]
    return " ".join(CELL_SEPARATOR.join(texts).split()) if any(texts) else ""
