"""How long each stage took and how far it is."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2graphrag_integrations._utils.event_loop import AwaitableRunner
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.reports import Progress, ProgressListener, Stage


class StopSignal:
    """Asks work in other threads to end; what is in flight is finished and kept.

    After a failed summary no other call is begun, but batches before it are still written; after
    anything else nothing is begun at all.
    """

    def __init__(self) -> None:
        self.calls = threading.Event()
        self.everything = threading.Event()

    def all(self) -> None:
        """Stop calls and everything else."""
        self.everything.set()
        self.calls.set()


@dataclass(frozen=True)
class IndexingRun:
    """How one piece of indexing is run.

    Attributes:
        bridge: Runs coroutines of the summarizer; None takes a loop of the index's own.
        progress: Called with each step.
        stop: Set from outside, ends the work.
        queued: Whether documents wait in the file's queue until they are indexed; not where the
            caller keeps them itself.
    """

    bridge: AwaitableRunner | None = None
    progress: ProgressListener | None = None
    stop: StopSignal = field(default_factory=StopSignal)
    queued: bool = True


class StageTimer:
    """Times the stages and tells the listener how far they are; used from several threads."""

    def __init__(self, listener: ProgressListener | None) -> None:
        if listener is not None and not callable(listener):
            raise InvalidInputError(
                f"progress={short_repr(listener)} must be a function of a Progress"
            )
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._listener = listener
        self._done: defaultdict[str, float] = defaultdict(float)
        self._total: defaultdict[str, int] = defaultdict(int)
        self._began: dict[str, float] = {}
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
            self._began.setdefault(stage, time.perf_counter())
            self._total[stage] += count

    def advance(self, stage: Stage, count: float) -> None:
        """Add to what a stage has done; the share of a node that is embedded may be a fraction."""
        with self._lock:
            self._done[stage] += count
            if self._listener is not None and count:
                seconds = time.perf_counter() - self._began.get(stage, time.perf_counter())
                done = round(self._done[stage])
                self._listener(Progress(stage, done, self._total[stage], seconds))


class ProgressBar:
    """One bar for all stages.

    Args:
        always: Draw into pipes and notebooks too, not on a terminal only.
    """

    def __init__(self, *, always: bool = False) -> None:
        from tqdm import tqdm

        # None draws on a terminal and is silent in a pipe, but fails where there is no stderr.
        disable = True if sys.stderr is None else False if always else None
        self._bar = tqdm(total=0, unit="step", disable=disable, leave=False)
        self._latest: dict[str, Progress] = {}

    def __call__(self, progress: Progress) -> None:
        """Show a step."""
        self._latest[progress.stage] = progress
        self._bar.total = sum(p.total for p in self._latest.values())
        self._bar.n = sum(p.done for p in self._latest.values())
        open_stages = [p for p in self._latest.values() if p.done < p.total]
        self._bar.set_description(", ".join(map(_told, open_stages)))

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()


def _told(progress: Progress) -> str:
    """Return a stage as the bar shows it: `embed 12/90, 14/s, 6 s left`.

    >>> _told(Progress("embed", 12, 90, 0.857))
    'embed 12/90, 14/s, 6 s left'
    """
    text = f"{progress.stage} {progress.done}/{progress.total}"
    if progress.seconds_left is None:
        return text
    return f"{text}, {progress.rate:.3g}/s, {progress.seconds_left:.0f} s left"
