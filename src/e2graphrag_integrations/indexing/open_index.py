"""An open index file: its models, and exclusive access for writing."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from e2graphrag_integrations._utils.concurrency import (
    CallerLoop,
    OwnLoop,
    ProcessLock,
    process_rlock,
)
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import (
    InvalidInputError,
    SettingsMismatchError,
    StoppedError,
    StoreLockedError,
)
from e2graphrag_integrations.indexing.planning import DocumentPlanner, Planner
from e2graphrag_integrations.indexing.run import ChunkStage, IndexingRun, StopSignal
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.languages.language import AUTO
from e2graphrag_integrations.options import WriteOptions
from e2graphrag_integrations.settings import Settings, resolve_settings
from e2graphrag_integrations.store.records import DocumentSink
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.summarizers.retry import RetryPolicy

_POLL_SECONDS = 0.05
"""Seconds between checks for a stop request while an operation waits."""


@dataclass(eq=False)
class _Operation:
    """An operation that is writing.

    Attributes:
        index: The index; None after the end, because a context may outlive the operation.
        thread: The thread that holds the lock of the index.
    """

    index: OpenIndex | None
    thread: int = field(default_factory=threading.get_ident)


_OPERATIONS: ContextVar[tuple[_Operation, ...]] = ContextVar("e2graphrag_operations", default=())
"""The operations in whose threads the current code runs, such as a callback of the user."""


@dataclass(frozen=True)
class IndexingContext:
    """The inputs that all documents in a run share.

    Attributes:
        store: Receives documents and caches results.
        components: The models, already checked.
        manifest: Settings and fingerprints, written with each document.
        summaries: Creates summaries.
        planner: Builds document trees.
        concurrency: Maximum number of simultaneous summarizer calls.
        chunk_stage: A further stage for chunks; None if there is none.
    """

    store: DocumentSink
    components: Components
    manifest: Mapping[str, str]
    summaries: SummaryBuilder
    planner: Planner
    concurrency: int
    chunk_stage: ChunkStage | None = None


@dataclass(eq=False)
class OpenIndex:
    """An open index file with its models and options. One thread of one process writes at a time.

    Attributes:
        store: The file.
        settings, components, planner, writes, language: See `E2GraphRAG.open`.
        loop: Runs the coroutines of an async summarizer during synchronous calls.
        requested: The settings that the user has chosen, by name.
        not_recorded: Arguments that only writes need and that were not in the pickle from which
            the index was opened.
        after_write: Called after each operation that may have written, also if it failed.
    """

    store: Store
    settings: Settings
    components: Components
    planner: DocumentPlanner
    writes: WriteOptions
    language: str = AUTO
    loop: OwnLoop = field(default_factory=OwnLoop)
    requested: Mapping[str, Any] = field(default_factory=dict)
    not_recorded: tuple[str, ...] = ()
    after_write: Callable[[], None] = lambda: None
    _depth: int = 0  # of nested operations; guarded by the thread lock
    _thread_lock: ProcessLock = field(default_factory=process_rlock)
    _stops: set[StopSignal] = field(default_factory=set)
    _busy_loops: list[asyncio.AbstractEventLoop] = field(default_factory=list)
    """Event loops that running operations need."""
    _closing: bool = False

    def summary_builder(self, run: IndexingRun) -> SummaryBuilder:
        """Return a new summary builder that has its own usage counts.

        Raises:
            InvalidInputError: If the run's and the index's summarizers have different fingerprints.
        """
        own = self.components.summarizer
        summarizer = own if run.summarizer is None else run.summarizer
        expected = getattr(own, "fingerprint", None)
        if getattr(summarizer, "fingerprint", None) != expected:
            raise InvalidInputError(
                f"summarizer ({type(summarizer).__name__}) must have the fingerprint of the "
                f"index's summarizer, {expected}"
            )
        return SummaryBuilder(
            summarizer,
            self.components.summarizer_fingerprint,
            self.components.counter,
            self.settings.summary_tokens,
            self.writes.retry or RetryPolicy(),
            self.store,
            run.runner or self.loop,
            claims=run.claims,
        )

    def chunk_stage(self, summaries: SummaryBuilder) -> ChunkStage | None:
        """Return the stage of the enricher that the user passed; None if there is none.

        Args:
            summaries: The summary builder of the run, whose usage counts the stage shares.
        """
        enricher = self.writes.enricher
        return None if enricher is None else enricher.stage(summaries, self.components)

    def exclusive(self, run: IndexingRun | None = None) -> AbstractContextManager[None]:
        """Keep other threads and processes from writing; see `E2GraphRAG.write_lock`."""
        return self._holding(self.store.index_lock.acquire, run or IndexingRun())

    def exclusive_now(self) -> AbstractContextManager[None]:
        """Like `exclusive`, without waiting for other processes."""
        acquire = self.store.index_lock.acquire
        return self._holding(lambda _: acquire(lambda: True), IndexingRun())

    def shared(self, run: IndexingRun) -> AbstractContextManager[None]:
        """Keep other threads from writing, and other processes except workers."""
        return self._holding(self.store.index_lock.share, run)

    @contextlib.contextmanager
    def _holding(
        self,
        lock: Callable[[Callable[[], bool]], AbstractContextManager[None]],
        run: IndexingRun,
    ) -> Iterator[None]:
        self.check_writable()
        if self._needs_this_loop():
            raise InvalidInputError(
                "an operation that is writing needs this event loop, so waiting for it here would "
                "deadlock: await it first, or await aadd(), aupdate() or adelete()"
            )
        if self._is_in_operation():
            raise InvalidInputError(
                "a callback of an operation that is writing called this, so waiting for it here "
                "would deadlock: call it after that operation"
            )
        with self.stoppable(run.stop):
            try:
                with self._exclude_threads(run), lock(run.stop.no_new_work.is_set):
                    _check_stop(run)
                    with self._reporting_writes():
                        yield
            except StoreLockedError:
                _check_stop(run)
                raise

    @contextlib.contextmanager
    def stoppable(self, stop: StopSignal) -> Iterator[None]:
        """Let `stop` and `close` set a signal while the block runs."""
        self._stops.add(stop)
        try:
            yield
        finally:
            self._stops.discard(stop)

    def adopt(self, recorded: Mapping[str, str]) -> None:
        """Use the models and settings of an index or a queue that was empty when it was opened.

        Args:
            recorded: The manifest of the index, or else that of its queue.

        Raises:
            SettingsMismatchError: If the index was opened with others.
        """
        self.components.revalidate(recorded)
        settings = resolve_settings(self.requested, recorded, self.store.path)
        if settings != self.settings:
            self.settings = settings
            self.planner = replace(self.planner, settings=settings)

    @contextlib.contextmanager
    def _reporting_writes(self) -> Iterator[None]:
        """Call `after_write` at the end of the outermost operation. Needs the thread lock."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.after_write()

    @contextlib.contextmanager
    def _exclude_threads(self, run: IndexingRun) -> Iterator[None]:
        """Wait for other writing threads. On exit, close the file if `close` was called."""
        while not self._thread_lock.acquire(timeout=_POLL_SECONDS):
            _check_stop(run)
        loops = [run.runner.loop] if isinstance(run.runner, CallerLoop) else []
        self._busy_loops += loops
        operation = _Operation(self)
        _OPERATIONS.set((*_running_operations(), operation))
        try:
            yield
        finally:
            operation.index = None
            _OPERATIONS.set(_running_operations())
            for loop in loops:
                self._busy_loops.remove(loop)
            if self._closing and not self.store.is_closed:
                self._close()
            self._thread_lock.release()

    def check_writable(self) -> None:
        """Reject writes in a forked process, and through an index opened from a pickle.

        Raises:
            StoreError: If this process is a fork of the one that opened the file.
            SettingsMismatchError: If the pickle did not contain a model that writes need.
        """
        self.store.database.check_writable()
        check_recorded(self.store.path, self.not_recorded)

    def stop(self) -> None:
        """Stop running and waiting operations. Calls in flight finish."""
        if self.store.database.is_forked:
            return  # the operations run in the process that opened the file
        for stop in list(self._stops):
            stop.stop_all()

    def close(self) -> None:
        """Stop all operations and close the file; see `E2GraphRAG.close`."""
        self._closing = True
        self.stop()
        # In an operation, which may be one that a signal interrupts, its end closes the file.
        if not self._needs_this_loop() and not self._is_running_here():
            with self._thread_lock:
                self._close()

    def _close(self) -> None:
        if not self.store.database.is_forked:
            self.loop.close()
        self.store.close()

    def _needs_this_loop(self) -> bool:
        """Return whether a running operation needs the event loop that this thread runs."""
        try:
            return asyncio.get_running_loop() in self._busy_loops
        except RuntimeError:
            return False

    def _is_in_operation(self) -> bool:
        """Return whether an operation waits for this code, which another of its threads runs."""
        return self._is_running_here(but_not_in=threading.get_ident())

    def _is_running_here(self, but_not_in: int | None = None) -> bool:
        """Return whether this code belongs to a running operation, which may be in a thread."""
        return any(one.index is self and one.thread != but_not_in for one in _running_operations())


def _running_operations() -> tuple[_Operation, ...]:
    return tuple(one for one in _OPERATIONS.get() if one.index is not None)


def check_recorded(where: str, not_recorded: Sequence[str]) -> None:
    """Reject a write through an index that was opened from a pickle without all of its models.

    Raises:
        SettingsMismatchError: If a model is missing.
    """
    if not_recorded:
        raise SettingsMismatchError(
            f"{where} was opened from a pickle, which does not contain {', '.join(not_recorded)}: "
            "to write, open the index again with it"
        )


def _check_stop(run: IndexingRun) -> None:
    if run.stop.no_new_work.is_set():
        raise StoppedError("the operation was stopped before it started: call it again")
