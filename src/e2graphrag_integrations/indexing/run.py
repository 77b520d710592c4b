"""One indexing run: its options, its stop signal, and the control of its model calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from e2graphrag_integrations._utils.event_loop import AwaitableRunner
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import IndexingError
from e2graphrag_integrations.indexing.failure_policy import FailurePolicy
from e2graphrag_integrations.indexing.progress import StageTimer
from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.reports import ProgressListener

_SLICE_SIZE = 64
"""Items per call of an extractor or embedder. Bounds the work that a crash can lose."""

T = TypeVar("T")


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
    failures: FailurePolicy = field(default_factory=FailurePolicy)
    stop: StopSignal = field(default_factory=StopSignal)


def run_in_slices(
    inputs: Mapping[bytes, T],
    owners: Mapping[bytes, Sequence[str]],
    process: Callable[[Mapping[bytes, T]], None],
    error_type: type[IndexingError],
    *,
    stage: str,
    control: RunControl,
) -> Iterator[int]:
    """Run a model on slices of its inputs, and yield the number of inputs of each finished slice.

    If a slice with inputs of several documents fails, the inputs of each document are retried
    separately, so that only the document at fault is skipped.

    Args:
        inputs: Model inputs by the cache key of their result.
        owners: Ids of the documents that need each result, by cache key.
        process: Processes a slice and stores its results.
        error_type: Wraps exceptions of the model.
        stage: Name in error messages.
        control: Receives failures; ends the loop after a stop request.

    Raises:
        WorkStopped: After a stop request.
    """
    failures = control.failures
    keys = list(inputs)
    finished: set[bytes] = set()
    for start in range(0, len(keys), _SLICE_SIZE):
        # Each attempt maps keys to the documents that it processes them for.
        attempts = deque([{key: owners[key] for key in keys[start : start + _SLICE_SIZE]}])
        while attempts:
            if control.stop.no_new_work.is_set():
                raise WorkStopped
            attempt = {
                key: ids
                for key, ids in attempts.popleft().items()
                if key not in finished and any(id_ not in failures.failed for id_ in ids)
            }
            if not attempt:
                continue
            try:
                with wrap_errors(error_type, f"{stage} failed"):
                    process({key: inputs[key] for key in attempt})
            except IndexingError as error:
                suspects = list(dict.fromkeys(id_ for ids in attempt.values() for id_ in ids))
                if not failures.record_failure(suspects, error):
                    attempts.extend(
                        {key: [id_] for key, ids in attempt.items() if id_ in ids}
                        for id_ in suspects
                    )
                continue
            failures.record_success(error_type)
            finished.update(attempt)
            yield len(attempt)
