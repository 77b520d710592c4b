"""Stage timing and progress reporting."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

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
        self._done: defaultdict[str, float] = defaultdict(float)
        self._total: defaultdict[str, int] = defaultdict(int)
        self._started: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Add the duration of a `with` block to the time of a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.seconds[stage] += time.perf_counter() - started

    def expect(self, stage: Stage, count: int) -> None:
        """Add items to the total of a stage."""
        with self._lock:
            self._started.setdefault(stage, time.perf_counter())
            self._total[stage] += count

    def advance(self, stage: Stage, count: float) -> None:
        """Add finished items to a stage; a partly embedded node counts as a fraction."""
        with self._lock:
            self._done[stage] += count
            if self._listener is not None and count:
                seconds = time.perf_counter() - self._started.get(stage, time.perf_counter())
                done = round(self._done[stage])
                self._listener(Progress(stage, done, self._total[stage], seconds))

    def announce(self, stage: Stage, note: str) -> None:
        """Send a line about a stage to the listener."""
        with self._lock:
            if self._listener is not None:
                done = round(self._done[stage])
                self._listener(Progress(stage, done, self._total[stage], note=note))


class ProgressBar:
    """A progress listener that draws one bar for all stages, including in pipes and notebooks."""

    def __init__(self) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=0, unit="step", disable=sys.stderr is None, leave=False)
        self._latest: dict[str, Progress] = {}

    def __call__(self, progress: Progress) -> None:
        """Update the bar, or write a note above it."""
        if progress.note:
            self._bar.write(progress.note, file=sys.stderr)
            return
        self._latest[progress.stage] = progress
        self._bar.total = sum(p.total for p in self._latest.values())
        self._bar.n = sum(p.done for p in self._latest.values())
        unfinished = [p for p in self._latest.values() if p.done < p.total]
        self._bar.set_description(", ".join(map(_describe, unfinished)))

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()


def _describe(progress: Progress) -> str:
    """Return the description of one stage in the bar.

    >>> _describe(Progress("embed", 12, 90, 0.857))
    'embed 12/90, 14/s, 6 s left'
    """
    text = f"{progress.stage} {progress.done}/{progress.total}"
    if progress.seconds_left is None:
        return text
    return f"{text}, {progress.rate:.3g}/s, {progress.seconds_left:.0f} s left"
