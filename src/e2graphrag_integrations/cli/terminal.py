"""Tables, colors and progress bars for terminals, drawn by rich.

rich honors `NO_COLOR`. All text is printed literally, without console markup.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from e2graphrag_integrations.reports import Progress, ProgressListener


def print_styled(text: str, style: str) -> None:
    """Print a text in a rich style, such as `"bold"`; the terminal wraps long lines."""
    Console().print(Text(text, style), soft_wrap=True)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Iterable[object]],
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print a table.

    Args:
        columns: Column titles.
        rows: Cells of each row; numbers are aligned to the right.
        styles: Maps the text of a cell to its rich style.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD)
    for position, title in enumerate(columns):
        numeric = all(row[position][:1].isdigit() for row in cells if row[position])
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell, (styles or {}).get(cell, "")) for cell in row))
    Console().print(table)


@contextlib.contextmanager
def progress_bars() -> Iterator[ProgressListener]:
    """Show one progress bar per stage on standard error; remove them at the end."""
    with Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def show(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage)
            task = tasks[progress.stage]
            bars.update(task, completed=progress.done, total=progress.total)

        yield show
