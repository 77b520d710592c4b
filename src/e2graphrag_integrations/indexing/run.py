"""One indexing run: its options, progress, stop signal, failure policy, and model calls in slices.

Before work starts, a run with a listener plans all documents once to count the items of every
stage, so totals are exact from the first event and no bar goes back. Planning takes less than
1% of the time of indexing.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from e2graphrag_integrations._utils.concurrency import AwaitableRunner
from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import E2GraphRAGError, InvalidInputError
from e2graphrag_integrations.indexing.stages.work import (
    IndexingEngine,
    LocalEngine,
    LocalRunner,
    Slice,
    StageRunner,
    StageWork,
)
from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.reports import LevelEstimate, Progress, ProgressListener, Stage
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import SourceDocument


def check_listener(progress: object) -> None:
    """Check an argument `progress`.

    Raises:
        InvalidInputError: If it is neither None nor a function.
    """
    if progress is not None and not callable(progress):
        raise InvalidInputError(
            f"progress={short_repr(progress)} must be a function that accepts a Progress"
        )


class StageTimer:
    """Measures the time of each stage and reports progress to a listener. Thread-safe."""

    def __init__(self, listener: ProgressListener | None) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._listener = listener
        self._done: defaultdict[Stage, float] = defaultdict(float)
        self._reused: defaultdict[Stage, float] = defaultdict(float)
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

    def advance(self, stage: Stage, count: float, *, reused: bool = False) -> None:
        """Add finished items to a stage; a partly embedded node counts as a fraction.

        The items of failed documents also count as finished. Every event has more finished items
        than the one before it in the same stage.

        Args:
            stage: The stage.
            count: Number of items.
            reused: Whether they needed no work.
        """
        with self._lock:
            before = round(self._done[stage])
            self._done[stage] += count
            if reused:
                self._reused[stage] += count
            done, total = round(self._done[stage]), self._totals.get(stage, 0)
            if self._listener is not None and before < done <= total:
                seconds = time.perf_counter() - self._started
                # Rounded down, so that a fraction of an item that was made counts.
                reused_items = min(done, int(self._reused[stage]))
                self._listener(Progress(stage, done, total, seconds, reused=reused_items))

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


_MAX_BEFORE_SUCCESS = 3
"""Abort after this many failures of one type if the stage never succeeded: the cause is probably a
wrong key or a missing model, so all other documents would fail as well."""

_MAX_CONSECUTIVE = 30
"""Abort after this many consecutive failures of one type, even if the stage worked earlier: the
service has probably gone down."""

T = TypeVar("T")


class WorkStopped(Exception):  # noqa: N818 - a control signal, not an error
    """Raised in worker threads after a stop request.

    `CancelledError` would be ambiguous: a user's summarizer can raise it as an ordinary failure.
    """


class StopSignal:
    """Asks worker threads to stop. Calls in flight finish, and their results are kept.

    A summary failure sets only `no_new_calls`, so that earlier batches are still written. Any other
    failure, or an external stop request, sets both events.
    """

    def __init__(self) -> None:
        self.no_new_calls = threading.Event()
        self.no_new_work = threading.Event()

    def stop_all(self) -> None:
        """Start no new calls and no other new work."""
        self.no_new_work.set()
        self.no_new_calls.set()


class ContentClaims(Protocol):
    """Decides which process creates a content, and when it may call an LLM."""

    def content(self, key: bytes, stopping: threading.Event | None) -> AbstractContextManager[None]:
        """Wait until no other process creates the content, and keep others from creating it.

        Raises:
            WorkStopped: If `stopping` is set while waiting.
        """

    def llm_call(self, stopping: threading.Event | None) -> AbstractContextManager[None]:
        """Wait until an LLM may be called.

        Raises:
            WorkStopped: If `stopping` is set while waiting.
        """


class OnlyProcess:
    """The claims of a process that holds the lock of the index: it never waits."""

    def content(
        self,
        key: bytes,  # noqa: ARG002 - see the protocol
        stopping: threading.Event | None,  # noqa: ARG002 - see the protocol
    ) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def llm_call(self, stopping: threading.Event | None) -> AbstractContextManager[None]:  # noqa: ARG002 - see the protocol
        """Do nothing."""
        return nullcontext()


@dataclass(frozen=True)
class IndexingRun:
    """The options of one run.

    Attributes:
        runner: Runs the coroutines of an async summarizer; None means the index's own event loop.
        progress: Called with every progress event.
        stop: Ends the run when set.
        queued: Whether documents wait in the file's queue until they are indexed. False if the
            caller stores the pending documents.
        wait: Whether to index the documents, and not only to add them to the queue.
        max_llm_calls: Maximum number of LLM calls, without retries; None means no limit.
        summarizer: Replaces the index's summarizer for this run. It must have the same
            fingerprint.
        engine: Provides the runner of the stages.
        claims: Decides whether this process creates a content, and when it may call an LLM.
        wanted: Returns the ids of the documents that are still to be queued. Called in the
            transaction that queues them; None means all.

    Raises:
        InvalidInputError: If `progress` is not a function.
    """

    runner: AwaitableRunner | None = None
    progress: ProgressListener | None = None
    stop: StopSignal = field(default_factory=StopSignal)
    queued: bool = True
    wait: bool = True
    max_llm_calls: int | None = None
    summarizer: Summarizer | None = None
    engine: IndexingEngine = field(default_factory=LocalEngine)
    claims: ContentClaims = field(default_factory=OnlyProcess)
    wanted: Callable[[], Collection[str]] | None = None

    def __post_init__(self) -> None:
        check_listener(self.progress)


class FailurePolicy:
    """Skips failed documents, and aborts the run if the documents are probably not the cause.

    Thread-safe.

    Args:
        on_failure: Called once for each failed document. None aborts at the first failure.

    Attributes:
        failed: Errors of the skipped documents, by id.
    """

    def __init__(self, on_failure: Callable[[str, E2GraphRAGError], None] | None = None) -> None:
        self.failed: dict[str, E2GraphRAGError] = {}
        self._on_failure = on_failure
        self._consecutive: Counter[type[E2GraphRAGError]] = Counter()
        self._succeeded: set[type[E2GraphRAGError]] = set()
        self._lock = threading.Lock()

    def record_failure(self, document_ids: Sequence[str], error: E2GraphRAGError) -> bool:
        """Record that work on some documents failed.

        Returns:
            True if the document is skipped from now on; False if the caller should retry each
            document separately to find the cause.

        Raises:
            E2GraphRAGError: The first error of this type, if the run must abort.
        """
        if self._on_failure is None:
            raise error
        if len(document_ids) > 1:
            return False
        error_type = type(error)
        with self._lock:
            [document_id] = document_ids
            if document_id not in self.failed:
                self.failed[document_id] = error
                self._consecutive[error_type] += 1
                self._on_failure(document_id, error)
            limit = _MAX_CONSECUTIVE if error_type in self._succeeded else _MAX_BEFORE_SUCCESS
            if self._consecutive[error_type] >= limit:
                raise next(e for e in self.failed.values() if type(e) is error_type)
        return True

    def for_next_documents(self) -> FailurePolicy:
        """Return a policy for other documents that continues to count failures."""
        policy = FailurePolicy(self._on_failure)
        policy._consecutive, policy._succeeded = self._consecutive, self._succeeded
        return policy

    def record_success(self, error_type: type[E2GraphRAGError]) -> None:
        """Record a success in the stage whose failures have the type `error_type`."""
        with self._lock:
            self._succeeded.add(error_type)
            self._consecutive[error_type] = 0


@dataclass(frozen=True)
class RunControl:
    """The objects that all stages of a run share.

    Attributes:
        timer: Measures the stages and reports progress.
        failures: Decides whether the run continues after a document failed.
        stop: Ends the run when set.
        runner: Runs the work of the stages.
    """

    timer: StageTimer
    failures: FailurePolicy = field(default_factory=FailurePolicy)
    stop: StopSignal = field(default_factory=StopSignal)
    runner: StageRunner = field(default_factory=LocalRunner)


class ChunkCost(Protocol):
    """Counts the calls of a `ChunkStage`; cached and repeated ones need none."""

    def add(self, document: SourceDocument, tree: Tree) -> None:
        """Add a document to the counts."""

    def total(self) -> LevelEstimate:
        """Return the counts, with the number of chunks as `summaries`."""


class ChunkStage(Protocol):
    """A further stage: a language model says something about each chunk, which is kept with it.

    What it caches, by its inputs, outlasts a crash. The transaction that writes a document links
    its chunks to the cached contents (`StoredNode.attached`).
    """

    @property
    def stage(self) -> Stage:
        """The name of the stage, for progress."""

    @property
    def model(self) -> str:
        """The name of the language model."""

    @property
    def entries(self) -> Mapping[str, str]:
        """Entries in the manifest of an index with such contents."""

    def cost(self) -> ChunkCost:
        """Return a new counter."""

    def ask(
        self,
        documents: Sequence[SourceDocument],
        trees: Sequence[Tree],
        control: RunControl,
        pool: Executor,
    ) -> Mapping[str, Any]:
        """Return the answers about the chunks, by node id, without those of failed documents.

        Args:
            documents: The documents.
            trees: Their trees, in the same order.
            control: Receives progress and failures; ends the stage after a stop request.
            pool: Runs the calls.

        Raises:
            IndexingError: If a failure aborts the run.
            WorkStopped: After a stop request.
        """

    def attach(
        self, answers: Mapping[str, Any], prefixes: Mapping[str, str], control: RunControl
    ) -> Mapping[str, tuple[bytes, ...]]:
        """Cache what is made of the answers, and return the keys of the contents by node id.

        The thread of the embedder calls it.

        Args:
            answers: The result of `ask`.
            prefixes: The text prepended to the windows of each document, by id.
            control: As for `ask`.
        """


def run_in_slices(
    inputs: Mapping[bytes, T],
    owners: Mapping[bytes, Sequence[str]],
    work: StageWork[T],
    store: Callable[[dict[bytes, bytes]], None],
    *,
    slice_size: int,
    control: RunControl,
) -> Iterator[int]:
    """Run the work of a stage on slices of its inputs; yield the number of inputs in each.

    If a slice with inputs from several documents fails, the inputs of each document are retried
    separately, so that only the document at fault is skipped.

    Args:
        inputs: Inputs by the cache key of their result.
        owners: Ids of the documents that need each result, by cache key.
        work: Processes the inputs of a slice.
        store: Stores results by cache key.
        slice_size: Inputs per call. Limits the work that a crash can lose.
        control: Runs the slices; receives failures; ends the loop after a stop request.

    Raises:
        WorkStopped: After a stop request.
    """
    failures = control.failures
    keys = list(inputs)
    finished: set[bytes] = set()
    # Each attempt maps cache keys to the ids of the documents for which it is made.
    attempts = deque(
        {key: owners[key] for key in keys[start : start + slice_size]}
        for start in range(0, len(keys), slice_size)
    )
    started: dict[int, Mapping[bytes, Sequence[str]]] = {}
    numbers = itertools.count()

    def next_slices() -> Iterator[Slice[T]]:
        while attempts:
            if control.stop.no_new_work.is_set():
                raise WorkStopped
            attempt = {
                key: ids
                for key, ids in attempts.popleft().items()
                if key not in finished and any(id_ not in failures.failed for id_ in ids)
            }
            if attempt:
                number = next(numbers)
                started[number] = attempt
                yield Slice(number, [inputs[key] for key in attempt])

    while attempts:
        with contextlib.closing(control.runner.run(work, next_slices())) as results:
            for result in results:
                attempt = started.pop(result.number)
                control.timer.add(work.stage, result.seconds)
                work.add_usage(result.usage)
                if result.error is not None:
                    suspects = list(dict.fromkeys(id_ for ids in attempt.values() for id_ in ids))
                    if not failures.record_failure(suspects, result.error):
                        # A runner that has not taken the other slices yet retries these first.
                        attempts.extendleft(
                            {key: [id_] for key, ids in attempt.items() if id_ in ids}
                            for id_ in reversed(suspects)
                        )
                    continue
                store(dict(zip(attempt, result.values, strict=True)))
                failures.record_success(work.error_type)
                finished.update(attempt)
                yield len(attempt)
