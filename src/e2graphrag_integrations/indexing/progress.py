"""Stage timing and progress reporting.

Before work starts, a run with a listener plans all documents once to count the items of every
stage, so totals are exact from the first event and no bar goes back. Planning takes less than
1% of the time of indexing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.reports import Progress, ProgressListener, Stage


class StageTimer:
    """Measures the time of each stage and reports progress to a listener. Thread-safe.

    Raises:
        InvalidInputError: If the listener is not callable.
    """

    def __init__(self, listener: ProgressListener | None) -> None:
        if listener is not None and not callable(listener):
            raise InvalidInputError(
                f"progress={short_repr(listener)} must be a function that accepts a Progress"
            )
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._listener = listener
        self._done: defaultdict[Stage, float] = defaultdict(float)
        self._totals: Mapping[Stage, int] = {}
        self._started = time.perf_counter()
        self._lock = threading.Lock()

    @property
    def has_listener(self) -> bool:
        """Whether anybody receives events; if not, nothing needs to be counted."""
        return self._listener is not None

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Add the duration of a `with` block to the time of a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(stage, time.perf_counter() - started)

    def add(self, stage: Stage, seconds: float) -> None:
        """Add seconds to the time of a stage."""
        with self._lock:
            self.seconds[stage] += seconds

    def begin(self, totals: Mapping[Stage, int]) -> None:
        """Set the number of items of each stage, and report all stages that have items."""
        with self._lock:
            self._totals = {stage: total for stage, total in totals.items() if total}
            self._started = time.perf_counter()
            if self._listener is not None:
                for stage, total in self._totals.items():
                    self._listener(Progress(stage, 0, total))

    def advance(self, stage: Stage, count: float) -> None:
        """Add finished items to a stage; a partly embedded node counts as a fraction.

        The items of failed documents also count as finished. Every event has more finished items
        than the one before it in the same stage.
        """
        with self._lock:
            before = round(self._done[stage])
            self._done[stage] += count
            done, total = round(self._done[stage]), self._totals.get(stage, 0)
            if self._listener is not None and before < done <= total:
                self._listener(Progress(stage, done, total, time.perf_counter() - self._started))

    def announce(self, stage: Stage, note: str) -> None:
        """Send a line about a stage to the listener."""
        with self._lock:
            if self._listener is not None:
                self._listener(Progress(stage, 0, 0, note=note))


_REFRESH_SECONDS = 0.1
"""Minimum time between two drawings of the bar."""


class ProgressBar:
    """A progress listener that draws one bar for all stages, including in pipes and notebooks.

    The stages run at the same time, so the bar shows the stage that is furthest behind: indexing
    ends when that one does. It never goes back, and it is full only when everything is written.
    """

    def __init__(self) -> None:
        from tqdm import tqdm

        self._bar = tqdm(
            desc="loading models",
            total=100,
            bar_format="{l_bar}{bar}| [{elapsed}<{remaining}]",
            smoothing=0,
            disable=sys.stderr is None,
            leave=False,
        )
        self._latest: dict[Stage, Progress] = {}
        self._drawn = 0.0

    def __call__(self, progress: Progress) -> None:
        """Update the bar, or write a note above it."""
        if progress.note:
            self._bar.write(printable(progress.note), file=sys.stderr)
            return
        self._latest[progress.stage] = progress
        unfinished = [p for p in self._latest.values() if p.done < p.total]
        # A document is written at once, after all other work on its batch.
        working = [p for p in unfinished if p.stage != "write"]
        percent = min((100 * p.done // p.total for p in working), default=99)
        self._bar.n = max(self._bar.n, percent if unfinished else 100)
        self._bar.set_description(", ".join(map(_describe, unfinished)), refresh=False)
        now = time.perf_counter()
        if not unfinished or now - self._drawn >= _REFRESH_SECONDS:
            self._drawn = now
            self._bar.refresh()

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()


def _describe(progress: Progress) -> str:
    """Return the description of one stage in the bar.

    >>> _describe(Progress("embed", 12, 90, 0.857))
    'embed 12/90, 6 s left'
    """
    text = f"{progress.stage} {progress.done}/{progress.total}"
    if progress.seconds_left is None:
        return text
    return f"{text}, {progress.seconds_left:.0f} s left"
