"""Keeping the last complete snapshot of a file, and preparing the next one in the background.

Two things decide which snapshot a reader gets: the time up to which its answer must contain all
changes, and the time up to which the last snapshot is known to contain them. Times are those of
`time.monotonic`, which the clock of the machine does not affect.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.concurrency import (
    BackgroundTask,
    Pace,
    lower_thread_priority,
    process_lock,
    release_free_memory,
)
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.lazy import compute_like
from e2graphrag_integrations.errors import ShardUnavailableError
from e2graphrag_integrations.options import FreshnessPolicy
from e2graphrag_integrations.reports import Freshness
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.snapshot.files import merge_segments
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.records import StaleSnapshotError
from e2graphrag_integrations.store.store import Store

logger = logging.getLogger(__name__)

_MAX_LEFT_OUT = 0.1
"""Maximum share of the nodes that an answer may leave out because their documents were changed. If
there are more, questions wait for the next generation."""

_LARGE = 20_000
"""Minimum number of nodes of a replaced generation whose memory is returned to the system."""

_SHARE_OF_TIME = 0.25
"""Share of the time in which the background thread works while nobody waits for it."""

_NICENESS_OF_MERGE = 5
"""By how much the priority of a merge is below that of the process: nobody waits for it."""

_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 60.0
"""Delay after a generation could not be prepared; it doubles with every further failure."""


Build = Callable[[Store, Snapshot | None], tuple[Snapshot, Snapshot]]
"""Returns the snapshot of the newest generation, for questions and as the base of the next build.
Its arguments are the store to read and the last base."""

BuildInBackground = Callable[
    [Store, Snapshot | None, Callable[[], None]], tuple[Snapshot, Snapshot]
]
"""The same, with a function to call between steps, which may pause."""


@dataclass(frozen=True, eq=False)
class Generation:
    """A snapshot that answers questions.

    Attributes:
        snapshot: The snapshot.
        base: The same with the vectors in the file, for the next build.
        complete_until: The snapshot contains all changes that were committed before this time.
        left_out: Rows of the documents that are known to have changed since.
    """

    snapshot: Snapshot
    base: Snapshot
    complete_until: float
    left_out: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """The name of the generation."""
        return self.snapshot.generation

    def visible_nodes(self) -> NDArray[np.bool_]:
        """Return a mask over the nodes: False for those of documents that were left out."""
        is_changed = np.zeros(len(self.snapshot.documents), dtype=np.bool_)
        is_changed[list(self.left_out)] = True
        visible: NDArray[np.bool_] = ~is_changed[self.snapshot.nodes.document]
        return visible

    @property
    def leaves_out_too_much(self) -> bool:
        """Whether an answer without the changed documents is of little use."""
        if not self.left_out:
            return False
        n_nodes = len(self.snapshot.nodes.document)
        bounds = np.asarray(sorted(self.left_out))
        first, end = np.searchsorted(self.snapshot.nodes.document, [bounds, bounds + 1])
        return int((end - first).sum()) > _MAX_LEFT_OUT * n_nodes

    def left_out_in(self, snapshot: Snapshot) -> frozenset[int]:
        """Return the rows of the documents that are left out in a snapshot of some documents."""
        if not self.left_out:
            return frozenset()
        changed = {self.snapshot.documents[row] for row in self.left_out}
        return frozenset(row for row, id_ in enumerate(snapshot.documents) if id_ in changed)

    def stamp_of(self, document: str) -> str | None:
        """Return the stamp that a document had, or None if there was no such document."""
        documents = self.snapshot.documents  # sorted
        row = bisect_left(documents, document)
        is_known = row < len(documents) and documents[row] == document
        return self.snapshot.stamps[row] if is_known else None


@dataclass(frozen=True, eq=False)
class Served:
    """The generation that answers a question.

    Attributes:
        generation: The generation.
        asked_at: Time of the question.
        waited: Seconds that the question waited for a newer generation than the last one.
    """

    generation: Generation
    asked_at: float
    waited: float = 0.0


@dataclass(frozen=True)
class _Failure:
    """A generation that could not be prepared.

    Attributes:
        problem: The error as text.
        count: Number of consecutive failures.
        retry_at: Time before which the background thread does not try again.
    """

    problem: str
    count: int
    retry_at: float


class GenerationKeeper:
    """Keeps the last complete generation of a file, and prepares the next one.

    A generation is built and warmed up before it replaces the last one. At most one is prepared at
    a time. Safe for concurrent use by several threads.

    Args:
        store: The index file.
        build: Returns the snapshot of the newest generation.
        policy: How old an answer may be.
        build_in_background: The same for a generation that no question waits for; by default,
            `build`.
        needs_merge: Returns whether to merge the segments of a base.
        run_in_background: Calls the function that prepares a generation, in the background thread.
    """

    def __init__(
        self,
        store: Store,
        build: Build,
        policy: FreshnessPolicy,
        *,
        build_in_background: BuildInBackground | None = None,
        needs_merge: Callable[[Snapshot], bool] | None = None,
        run_in_background: Callable[[Callable[[], object]], object] = lambda prepare: prepare(),
    ) -> None:
        self._store = store
        self._build = build
        self._build_in_background = build_in_background
        self._needs_merge = _needs_merge if needs_merge is None else needs_merge
        self._run_in_background = run_in_background
        self._policy = policy
        self._build_lock = process_lock()
        self._state_lock = process_lock()  # guards the attributes below
        self._last: Generation | None = None
        self._failure: _Failure | None = None
        self._last_write = -math.inf
        self._was_asked = False  # since the last swap
        self._waiting = 0  # threads that wait for the next generation
        self._task = BackgroundTask("e2graphrag-refresh")
        self._background_store: Store | None = None
        self._merge_task = BackgroundTask("e2graphrag-merge")
        self._merged: Snapshot | None = None  # the base of the next build, if there is one

    # Questions

    def current(self) -> Served:
        """Return the generation that answers a question now.

        The first one must be waited for, and a newer one if the policy demands it.

        Raises:
            StoreError: If a generation must be prepared, but cannot be.
        """
        now, last = time.monotonic(), self._last
        self._was_asked = True
        if last is None:
            return Served(self._prepare(now), now)
        self._store.listen(self._note_change)
        required = self._policy.required_time(now, self._last_write)
        newest = self._store.newest_generation(required)
        if newest.name == last.name:
            return Served(self._confirm(last, newest.complete_until), now)
        if last.complete_until >= required:
            self._refresh_in_background()
            return Served(last, now)
        prepared = self._prepare(required)
        return Served(prepared, now, time.monotonic() - now)

    def answered(self, served: Served) -> Served:
        """Note what the answer has shown about the newest generation.

        The texts are read together with the name of the newest generation, so this makes a query
        only if no text was read.
        """
        generation = served.generation
        if generation.complete_until >= served.asked_at:
            return served
        newest = self._store.newest_generation(served.asked_at)
        if newest.name == generation.name:
            return replace(served, generation=self._confirm(generation, newest.complete_until))
        last = self._last
        if last is None or last.name != newest.name:
            self._refresh_in_background()
        return served

    def newest(self) -> Generation:
        """Return the newest generation, and wait until it is prepared.

        Raises:
            StoreError: If it cannot be prepared.
        """
        now, last = time.monotonic(), self._last
        if last is not None:
            newest = self._store.newest_generation(now)
            if newest.name == last.name:
                return self._confirm(last, newest.complete_until)
        return self._prepare(now)

    def leave_out(self, generation: Generation, documents: frozenset[int]) -> Generation:
        """Leave out documents that were changed since a generation, and return the new one."""
        with self._state_lock:
            last = self._last
            known = last.left_out if last is not None and last.name == generation.name else ()
            reduced = replace(generation, left_out=generation.left_out.union(known, documents))
            if last is not None and last.name == generation.name:
                self._last = reduced
        return reduced

    def freshness(self, served: Served | None = None) -> Freshness:
        """Return how old an answer is; None means the next one, if it did not wait."""
        failure, now = self._failure, time.monotonic()
        problem = "" if failure is None else failure.problem
        if served is None:
            last = self._last
            if last is None:
                return Freshness("", is_newest=False, max_age=math.inf, problem=problem)
            newest = self._store.newest_generation(now)
            is_newest = newest.name == last.name
            served = Served(self._confirm(last, newest.complete_until) if is_newest else last, now)
        generation = served.generation
        is_newest = generation.complete_until >= served.asked_at
        return Freshness(
            generation.name,
            is_newest,
            max_age=max(0.0, served.asked_at - generation.complete_until),
            is_preparing=not is_newest and self._task.is_running,
            left_out=len(generation.left_out),
            waited=served.waited,
            problem="" if is_newest else problem,
        )

    def _confirm(self, generation: Generation, now: float) -> Generation:
        """Record that a generation was still the newest at a time."""
        if now <= generation.complete_until:
            return generation
        confirmed = replace(generation, complete_until=now)
        with self._state_lock:
            last = self._last
            if last is not None and last.name == generation.name and last.complete_until < now:
                self._last = confirmed
            if self._failure is not None and last is not None and last.name == generation.name:
                self._failure = None  # the change that could not be prepared was undone
        return confirmed

    # Changes

    def note_write(self) -> None:
        """Record that the file may have been changed through this object.

        The next generation is prepared at once if questions are asked: a program that only writes
        needs no snapshot.
        """
        self._last_write = time.monotonic()
        self._note_change()

    def _note_change(self) -> None:
        """Prepare the next generation if questions are asked."""
        if self._was_asked and self._last is not None:
            self._refresh_in_background()

    def _refresh_in_background(self) -> None:
        if not self._waits_to_retry():
            self._task.request(self._refresh)

    def _waits_to_retry(self) -> bool:
        failure = self._failure
        return failure is not None and time.monotonic() < failure.retry_at

    def _refresh(self) -> None:
        """Prepare the next generation; runs in the background thread."""
        if self._waits_to_retry() and not self._task.stopping.is_set():
            return  # it was requested while the attempt that failed was running
        try:
            with self._build_lock:
                pace = Pace(_SHARE_OF_TIME, self._is_urgent)
                store, build = self._store_for_background(), self._in_background(pace)
                self._run_in_background(lambda: self._build_next(store, build, pace))
            self._release_memory()
        except Exception as error:  # noqa: BLE001 - becomes the problem of `freshness`
            self._record_failure(error)
        if self._task.stopping.is_set():
            self._close_background_store()

    def _prepare(self, required: float) -> Generation:
        """Return a generation that contains all changes until a time."""
        with self._awaited(), self._build_lock:  # another thread may be preparing it
            last = self._last
            if last is not None and last.complete_until >= required:
                return last
            is_first, last = last is None, None  # which frees its arrays
            with on_error(partial(self._record_failure, is_raised=True), Exception):
                built = self._build_next(self._store, self._build, _go_on)
            if not is_first:
                self._release_memory()
            return built

    def _release_memory(self) -> None:
        """Return the memory of the replaced generation to the operating system if it was large."""
        last = self._last
        if last is not None and len(last.snapshot.nodes.document) >= _LARGE:
            release_free_memory()

    def _in_background(self, pace: Pace) -> Build:
        build, last = self._build_in_background, self._last
        required = self._policy.required_time(time.monotonic(), self._last_write)
        if build is None or last is None or last.complete_until < required:
            return self._build  # the next question would wait for it
        return lambda store, older: build(store, older, pace)

    @contextmanager
    def _awaited(self) -> Iterator[None]:
        """Let the background thread hurry during the `with` block."""
        with self._state_lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._state_lock:
                self._waiting -= 1

    def _is_urgent(self) -> bool:
        return self._waiting > 0 or self._task.stopping.is_set()

    def _build_next(self, store: Store, build: Build, pace: Callable[[], None]) -> Generation:
        """Build, warm up and publish the newest generation. Needs the build lock."""
        now, last = time.monotonic(), self._last
        newest = store.newest_generation(now)
        if last is not None and newest.name == last.name:
            return self._confirm(last, newest.complete_until)
        try:
            snapshot, base = self._build_warm(store, build, pace, last)
        except StaleSnapshotError:  # the file changed before all its texts were read
            with store.read_transaction():
                snapshot, base = self._build_warm(store, self._build, pace, last)
        built = Generation(snapshot, base, now)
        with self._state_lock:
            self._last, self._failure, self._was_asked = built, None, False
        is_merged = self._merged is not None or self.is_merging
        if base.has_segments and not is_merged and self._needs_merge(base):
            self._merge_task.request(self._merge)
        return built

    def _build_warm(
        self, store: Store, build: Build, pace: Callable[[], None], last: Generation | None
    ) -> tuple[Snapshot, Snapshot]:
        """Build the newest snapshot with all parts that questions have used in the last one."""
        with self._state_lock:
            merged, self._merged = self._merged, None
        older = merged if merged is not None or last is None else last.base
        snapshot, base = build(store, older)

        def proceed() -> bool:
            pace()
            return not self._task.stopping.is_set()

        if last is not None:
            try:
                compute_like(snapshot, last.snapshot, proceed)
            except ShardUnavailableError as error:  # questions that need the rest say so
                logger.debug("%s: not all is computed ahead (%s)", store.path, error)
        return snapshot, base

    def _merge(self) -> None:
        """Merge the segments of the last snapshot; runs in a thread of its own.

        Generations are prepared meanwhile. If it fails, it is tried again after the next one.
        """
        last = self._last
        if last is None:
            return
        lower_thread_priority(_NICENESS_OF_MERGE)
        try:
            replace_others = merge_segments(self._store, last.base)
            with self._build_lock:  # a generation in preparation refers to the old segments
                merged = replace_others()
                if merged is not None and isinstance(merged.dense, DenseIndex):
                    merged.dense.prepare()
                with self._state_lock:
                    self._merged = merged
        except Exception as error:  # noqa: BLE001 - becomes a warning: questions do not need it
            if not self._merge_task.stopping.is_set():
                logger.warning("%s: segments could not be merged (%s)", self._store.path, error)
        else:
            self._release_memory()

    def _record_failure(self, error: BaseException, *, is_raised: bool = False) -> None:
        if self._task.stopping.is_set():
            return  # closing the file ends a build with an error
        problem = f"{type(error).__name__}: {error}"
        with self._state_lock:
            before = self._failure
            count = 1 if before is None else before.count + 1
            delay = min(_RETRY_SECONDS * 2 ** (count - 1), _MAX_RETRY_SECONDS)
            self._failure = _Failure(problem, count, time.monotonic() + delay)
        if not is_raised and (before is None or before.problem != problem):
            logger.warning(
                "%s: the newest state could not be prepared for questions (%s); the last one keeps "
                "answering, and the next questions try again",
                self._store.path,
                problem,
            )

    def _store_for_background(self) -> Store:
        """Return a second handle to the file: questions do not wait for its transactions.

        An in-memory database has only one connection.
        """
        if self._background_store is None:
            store = self._store.reopen()
            if store is self._store:
                return store
            self._background_store = store
        return self._background_store

    # End

    @property
    def is_merging(self) -> bool:
        """Whether segments are being merged."""
        return self._merge_task.is_running

    def cancel(self) -> None:
        """Stop preparing generations, without waiting."""
        self._task.cancel()
        self._merge_task.cancel()

    def close(self) -> None:
        """Stop preparing generations, and wait a bounded time for the step in progress."""
        self._task.cancel()
        self._merge_task.stop()
        if self._task.stop():
            self._close_background_store()
        with self._state_lock:
            self._last = self._merged = None  # Windows deletes no file that is still mapped

    def _close_background_store(self) -> None:
        store, self._background_store = self._background_store, None
        if store is not None:
            store.close(merge_log=False)


def _go_on() -> None:
    """Do not pause: a question waits."""


def _needs_merge(snapshot: Snapshot) -> bool:
    from e2graphrag_integrations.snapshot.incremental import needs_merge

    return needs_merge(snapshot)
