"""Markdown tables of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table with one line per row."""
    first, *others = [f"| {' | '.join(map(str, line))} |\n" for line in (head, *rows)]
    return "".join([first, f"|{'---|' * len(head)}\n", *others])


def difference(versus: Mapping[str, float]) -> str:
    """Return a paired difference with its interval."""
    return f"{versus['difference']:+.3f} [{versus['low']:+.3f}, {versus['high']:+.3f}]"


def marked(value: float, best: float) -> str:
    """Return a measure, in bold type if it is the best one."""
    return f"**{value:.3f}**" if value == best else f"{value:.3f}"
