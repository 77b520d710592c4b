"""Timings of one retrieval, by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Measures the seconds spent in each step.

    Steps may nest: the time of an inner step does not count toward the outer one, and a step that
    runs several times is summed.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._last = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure the body of a `with` statement as one step."""
        self._record()
        self._running.append(name)
        try:
            yield
        finally:
            self._record()
            self._running.pop()

    def _record(self) -> None:
        """Add the time since the last call to the innermost running step."""
        now = time.perf_counter()
        if self._running:
            step = self._running[-1]
            self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now
