"""Jobs: work that takes longer than a request, such as indexing, and its progress."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal
from weakref import WeakValueDictionary

from e2graphrag_integrations.errors import StoppedError
from e2graphrag_integrations.reports import Progress, ProgressListener
from e2graphrag_integrations.server.web.access import Caller
from e2graphrag_integrations.server.web.limits import Turns
from e2graphrag_integrations.server.web.options import Limits
from e2graphrag_integrations.server.web.problems import ErrorDetails, Explainer, Problem, busy

JobKind = Literal["upload", "reindex", "resume", "evaluation"]
JobState = Literal["waiting", "running", "done", "failed", "stopped"]

_EVALUATIONS = 4
"""Maximum number of evaluations that run at the same time, each of another client."""

_EVALUATIONS_OF_CLIENT = 2
"""Maximum number of evaluations of a client that run or wait."""

_CLIENTS = 10
"""Maximum number of results, in multiples of the number that is kept for each client."""

FINAL: tuple[JobState, ...] = ("done", "failed", "stopped")

Work = Callable[[ProgressListener], Awaitable[Any]]
"""Does the work of a job; called with a function that accepts its progress."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """The progress of a stage: finished items, all items, and the seconds since the start."""

    stage: str
    done: int
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class JobView:
    """A job.

    Attributes:
        id: Its id.
        kind: What it does.
        state: `waiting` until earlier jobs end, then `running`, and at the end `done`, `failed`
            or `stopped`.
        progress: The progress of its stages, in the order in which they began.
        error: Why it failed.
        result: Its result; null until it is done, and in lists of jobs.
    """

    id: str
    kind: JobKind
    state: JobState
    progress: tuple[StageProgress, ...] = ()
    error: ErrorDetails | None = None
    result: Mapping[str, Any] | None = None


class Job:
    """One job; used in the event loop only.

    Attributes:
        view: Its state.
        owner: Name of the client that started it.
        value: The object of which `result` is the description.
        started: When it was started, by the clock of the server.
    """

    def __init__(self, kind: JobKind, owner: str) -> None:
        self.view = JobView(secrets.token_urlsafe(12), kind, "waiting")
        self.owner = owner
        self.value: Any = None
        self.started = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._stages: dict[str, StageProgress] = {}

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.view.state in FINAL

    def update(self, **changes: Any) -> None:
        """Change the state and wake everyone who waits for a change."""
        self.view = replace(self.view, **changes)
        self.changed.set()
        self.changed = asyncio.Event()

    def listener(self) -> ProgressListener:
        """Return a function that accepts progress from any thread."""
        loop = asyncio.get_running_loop()

        def listen(progress: Progress) -> None:
            if not progress.note:
                loop.call_soon_threadsafe(self._note, progress)

        return listen

    def _note(self, progress: Progress) -> None:
        if not self.is_final:
            self._stages[progress.stage] = StageProgress(
                progress.stage, progress.done, progress.total, round(progress.seconds, 3)
            )
            self.update(progress=tuple(self._stages.values()))


class Jobs:
    """Runs jobs: one that writes, and one evaluation of each client at a time; others wait.

    Args:
        limits: The limits.
        explainer: Describes errors to clients.
    """

    def __init__(self, limits: Limits, explainer: Explainer) -> None:
        self._limits = limits
        self._explainer = explainer
        self._jobs: dict[str, Job] = {}
        self._writing = asyncio.Semaphore(1)
        self._evaluating = Turns(_EVALUATIONS)
        self._own: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def counts(self) -> Mapping[JobState, int]:
        """Return the number of jobs in each state."""
        return Counter(job.view.state for job in self._jobs.values())

    @property
    def writing_since(self) -> str | None:
        """When the oldest job started that writes or waits to write; None if there is none."""
        for job in list(self._jobs.values()):
            if job.view.kind != "evaluation" and not job.is_final:
                return job.started
        return None

    def check_room(self, kind: JobKind, caller: Caller) -> None:
        """Check that one more job may start.

        Raises:
            Problem: If too many jobs that write, or too many evaluations, run or wait.
        """
        is_evaluation = kind == "evaluation"
        others = [
            job
            for job in self._jobs.values()
            if not job.is_final and (job.view.kind == "evaluation") == is_evaluation
        ]
        own = sum(job.owner == caller.name for job in others)
        if is_evaluation and own >= _EVALUATIONS_OF_CLIENT:
            message = f"you have {own} evaluations in progress: wait, or stop one"
            raise busy(429, message, 10, code="too_many_evaluations", count=own)
        if len(others) >= self._limits.jobs:
            raise busy(503, "too many jobs are waiting: try again later", 10, code="too_many_jobs")

    def start(
        self, kind: JobKind, caller: Caller, work: Work, at_end: Callable[[], None] = lambda: None
    ) -> Job:
        """Start a job.

        Args:
            kind: What it does.
            caller: Who starts it.
            work: Its work; it returns an object with `to_dict`, or JSON values.
            at_end: Called when it has ended, in whatever way.

        Raises:
            Problem: If too many jobs run or wait.
        """
        self.check_room(kind, caller)
        job = Job(kind, caller.name)
        self._jobs[job.view.id] = job
        job.task = asyncio.create_task(self._run(job, work, at_end))
        self._forget()
        return job

    async def _run(self, job: Job, work: Work, at_end: Callable[[], None]) -> None:
        try:
            async with self._turn(job):
                job.update(state="running")
                job.value = await work(job.listener())
                result = job.value
                if hasattr(result, "to_dict"):
                    result = await asyncio.to_thread(result.to_dict)
            job.update(state="done", result=result)
        except (asyncio.CancelledError, StoppedError):
            job.update(state="stopped")
        except Exception as error:  # noqa: BLE001 - the client sees it as the state of the job
            problem = self._explainer.problem(error)
            job.update(state="failed", error=problem.details)
        finally:
            at_end()
            self._forget()

    @contextlib.asynccontextmanager
    async def _turn(self, job: Job) -> AsyncIterator[None]:
        if job.view.kind != "evaluation":
            async with self._writing:
                yield
            return
        own = self._own.setdefault(job.owner, asyncio.Lock())
        async with own:
            await self._evaluating.acquire(job.owner)
            try:
                yield
            finally:
                self._evaluating.release()

    def _forget(self) -> None:
        """Forget the oldest jobs that have ended: of each client, and of all."""
        most = self._limits.kept_jobs
        ended = [job for job in self._jobs.values() if job.is_final]
        by_owner: dict[str, list[Job]] = {}
        for job in ended:
            by_owner.setdefault(job.owner, []).append(job)
        old = [job for own in by_owner.values() for job in own[: max(0, len(own) - most)]]
        for job in [*old, *ended[: max(0, len(ended) - _CLIENTS * most)]]:
            self._jobs.pop(job.view.id, None)

    def visible(self, caller: Caller) -> list[Job]:
        """Return the jobs that a caller may see, newest first."""
        own = [
            job for job in self._jobs.values() if not caller.is_scoped or job.owner == caller.name
        ]
        return own[::-1]

    def find(self, id_: str, caller: Caller) -> Job:
        """Return a job.

        Raises:
            Problem: If there is none, or the caller may not see it.
        """
        job = self._jobs.get(id_)
        if job is None or job not in self.visible(caller):
            raise Problem(404, "UnknownJobError", "no such job: it may have been forgotten")
        return job

    @staticmethod
    async def stop(job: Job) -> None:
        """Stop a job; calls in flight end before."""
        if job.task is not None and not job.is_final:
            job.task.cancel()
            await asyncio.wait([job.task])
            if not job.is_final:  # it was cancelled before it began
                job.update(state="stopped")

    async def stop_all(self) -> None:
        """Stop all jobs."""
        await asyncio.gather(*(self.stop(job) for job in list(self._jobs.values())))
