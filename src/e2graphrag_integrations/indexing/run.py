"""One indexing run: the options of its caller, and the signals that its threads share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from e2graphrag_integrations._utils.event_loop import AwaitableRunner
from e2graphrag_integrations.indexing.failure_policy import FailFast, FailurePolicy
from e2graphrag_integrations.indexing.progress import StageTimer
from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.reports import ProgressListener


class WorkStopped(Exception):  # noqa: N818 - a control signal, not an error
    """Raised in worker threads after a stop request.

    `CancelledError` would not do: a user's summarizer can raise it as an ordinary failure.
    """


class StopSignal:
    """Asks worker threads to stop. Calls in flight finish, and their results are kept.

    A failed summary sets only `no_new_calls`, so earlier batches are still written. Any other
    failure, and a request from outside, sets both events.
    """

    def __init__(self) -> None:
        self.no_new_calls = threading.Event()
        self.no_new_work = threading.Event()

    def stop_all(self) -> None:
        """Start no new calls and no other new work."""
        self.no_new_work.set()
        self.no_new_calls.set()


@dataclass(frozen=True)
class IndexingRun:
    """The options of one run.

    Attributes:
        runner: Runs the coroutines of an async summarizer; None means the index's own event loop.
        progress: Called with every progress event.
        stop: Ends the run when set.
        queued: Whether documents wait in the file's queue until they are indexed. False if the
            caller stores the pending documents.
        summarizer: Replaces the index's summarizer for this run. It must have the same
            fingerprint.
    """

    runner: AwaitableRunner | None = None
    progress: ProgressListener | None = None
    stop: StopSignal = field(default_factory=StopSignal)
    queued: bool = True
    summarizer: Summarizer | None = None


@dataclass(frozen=True)
class RunControl:
    """The objects that all stages of a run share.

    Attributes:
        timer: Measures the stages and reports progress.
        failures: Decides whether the run continues after a document failed.
        stop: Ends the run when set.
    """

    timer: StageTimer
    failures: FailurePolicy = field(default_factory=FailFast)
    stop: StopSignal = field(default_factory=StopSignal)

    def check_stop(self) -> None:
        """Raise WorkStopped after a stop request."""
        if self.stop.no_new_work.is_set():
            raise WorkStopped
