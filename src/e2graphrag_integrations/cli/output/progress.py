"""Show the progress of a run on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations.cli.output.terminal import is_terminal, print_line

if TYPE_CHECKING:
    from e2graphrag_integrations import reports

_PROGRESS_SECONDS = 5.0
"""Seconds between two lines of progress without a terminal."""


class _ProgressLines:
    """Prints the notes, and every few seconds one line with the progress of all stages.

    A run that takes less time prints no line.
    """

    def __init__(self) -> None:
        self._stages: dict[str, reports.Progress] = {}
        self._printed_at = time.monotonic()

    def show(self, progress: reports.Progress) -> None:
        """Handle an event; events come one at a time."""
        if progress.note:
            print_line(progress.note, error=True)
            return
        self._stages[progress.stage] = progress
        now = time.monotonic()
        if now - self._printed_at < _PROGRESS_SECONDS:
            return
        self._printed_at = now
        stages = [f"{one.stage} {one.done:,}/{one.total:,}" for one in self._stages.values()]
        left = max((one.seconds_left or 0.0 for one in self._stages.values()), default=0.0)
        if left:
            stages.append(f"about {left:,.0f} s left")
        print_line(f"progress: {', '.join(stages)}", error=True)


@contextlib.contextmanager
def progress_bar() -> Iterator[reports.ProgressListener]:
    """Show a progress bar per stage on standard error, or a line now and then in a pipe."""
    if not is_terminal(sys.stderr):
        yield _ProgressLines().show
        return
    from rich import progress as rich_progress
    from rich.console import Console

    with rich_progress.Progress(
        "{task.description}",
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        loading = bars.add_task("loading models", total=None)
        tasks: dict[str, rich_progress.TaskID] = {}

        def show(progress: reports.Progress) -> None:
            if progress.note:
                bars.console.print(printable(progress.note), markup=False, highlight=False)
                return
            bars.update(loading, visible=False)
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(progress.stage, total=progress.total)
            # A worker starts again for each group of documents.
            bars.update(tasks[progress.stage], completed=progress.done, total=progress.total)

        yield show
