"""How long each stage took and how far it is."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from e2graphrag_integrations.reports import Progress, ProgressListener, Stage


class StageWatch:
    """Times the stages and tells the listener how far they are; used from several threads."""

    def __init__(self, listener: ProgressListener | None) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._listener = listener
        self._done: defaultdict[str, float] = defaultdict(float)
        self._total: defaultdict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Add the time that the block takes to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.seconds[stage] += time.perf_counter() - began

    def expect(self, stage: Stage, count: int) -> None:
        """Add to what a stage has to do."""
        with self._lock:
            self._total[stage] += count

    def advance(self, stage: Stage, count: float) -> None:
        """Add to what a stage has done; the share of a node that is embedded may be a fraction."""
        with self._lock:
            self._done[stage] += count
            if self._listener is not None and count:
                self._listener(Progress(stage, round(self._done[stage]), self._total[stage]))
