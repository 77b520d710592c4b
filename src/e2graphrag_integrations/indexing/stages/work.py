"""Where the model work of indexing runs: in this process, or on the workers of an engine.

A stage describes its work as a `StageWork`, which turns inputs into the bytes that the content
cache stores. A `StageRunner` runs the work on slices of the inputs. Only the process that holds the
lock of the file writes the results, whichever runner is used.
"""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import IndexingError
from e2graphrag_integrations.reports import Stage

T = TypeVar("T")

ComponentName = Literal["splitter", "extractor", "embedder", "summarizer"]


class StageWork(abc.ABC, Generic[T]):
    """The work of a stage on its inputs, which must be JSON values.

    Attributes:
        stage: The stage.
        name: Description of the work, for error messages.
        component_name: Name of the component that the user can replace.
        error_type: Type of the error that wraps an exception raised by the component.
    """

    stage: ClassVar[Stage]
    name: ClassVar[str]
    component_name: ClassVar[ComponentName]
    error_type: ClassVar[type[IndexingError]]

    @abc.abstractmethod
    def __call__(self, inputs: Sequence[T]) -> list[bytes]:
        """Return one result for each input."""

    @property
    @abc.abstractmethod
    def component(self) -> object:
        """The component that does the work."""

    @abc.abstractmethod
    def recipe(self) -> Callable[[Any], StageWork[T]]:
        """Return a function that creates this work again, given the component or an equal one.

        It raises a SettingsMismatchError if the component differs.
        """

    @property
    def max_workers(self) -> int | None:
        """Maximum number of calls at the same time; None means no limit."""
        return None

    def take_usage(self) -> dict[str, float]:
        """Return counts of the calls since the last call of this method."""
        return {}

    def add_usage(self, usage: Mapping[str, float]) -> None:
        """Add counts that `take_usage` returned in another process."""


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """Inputs that are processed together.

    Attributes:
        number: Identifies the slice within a run of the stage.
        inputs: The inputs.
    """

    number: int
    inputs: Sequence[T]


@dataclass(frozen=True, slots=True)
class SliceResult:
    """The result of a slice: either values or an error.

    Attributes:
        number: The number of the slice.
        values: One value for each input; empty if the slice failed.
        error: The reason for the failure.
        seconds: The duration of the work.
        usage: See `StageWork.take_usage`.
    """

    number: int
    values: Sequence[bytes]
    error: IndexingError | None
    seconds: float
    usage: Mapping[str, float] = field(default_factory=dict)


class StageRunner(Protocol):
    """Runs the work of stages during one run of the pipeline."""

    @property
    def batch_chunks(self) -> int | None:
        """Number of chunks at which a batch of documents is full; None means the default."""

    def is_remote(self, stage: Stage, *, uses_llm: bool = False) -> bool:
        """Return whether a stage runs outside this process."""

    def run(
        self, work: StageWork[T], slices: Iterable[Slice[T]]
    ) -> Generator[SliceResult, None, None]:
        """Process slices, and yield their results in any order.

        Errors of the type `work.error_type` are part of a result. All others are raised.
        """


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs the work in the calling thread, one slice after another."""

    batch_chunks: int | None = None

    def is_remote(self, stage: Stage, *, uses_llm: bool = False) -> bool:  # noqa: ARG002 - see the protocol
        """Return False."""
        return False

    def run(
        self, work: StageWork[T], slices: Iterable[Slice[T]]
    ) -> Generator[SliceResult, None, None]:
        """Process each slice when its result is asked for."""
        for one in slices:
            yield run_slice(work, one.number, one.inputs)


def run_slice(work: StageWork[T], number: int, inputs: Sequence[T]) -> SliceResult:
    """Process a slice in this thread."""
    started = time.perf_counter()
    values: list[bytes] = []
    failure: IndexingError | None = None
    try:
        with wrap_errors(work.error_type, f"{work.name} failed"):
            values = work(inputs)
    except IndexingError as error:
        failure = error
    seconds = time.perf_counter() - started
    return SliceResult(number, values, failure, seconds, work.take_usage())


@runtime_checkable
class IndexingEngine(Protocol):
    """Provides the runner of the stages for the duration of a run."""

    def start(self, stop: threading.Event) -> AbstractContextManager[StageRunner]:
        """Return a context manager that provides a runner, which ends its work if `stop` is set.

        Raises:
            MissingDependencyError: If a package of the engine is not installed.
            IndexingError: If the engine cannot start.
        """


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs all stages in this process."""

    def start(self, stop: threading.Event) -> AbstractContextManager[StageRunner]:  # noqa: ARG002 - see the protocol
        """Return a `LocalRunner`."""
        return nullcontext(LocalRunner())
