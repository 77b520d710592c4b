"""Stage `summarize` on the workers of an engine: level by level, each in slices.

In this process, `summarize_trees` starts each summary as soon as its inputs have texts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

from e2graphrag_integrations._utils.concurrency import OwnLoop
from e2graphrag_integrations.errors import IndexingError, SettingsMismatchError, SummaryError
from e2graphrag_integrations.indexing.run import RunControl, run_in_slices
from e2graphrag_integrations.indexing.stages.summaries import (
    SummaryBuilder,
    SummarySchedule,
    SummaryUsage,
    summary_error,
    summary_place,
)
from e2graphrag_integrations.indexing.stages.work import ComponentName, LocalRunner, StageWork
from e2graphrag_integrations.protocols import Summarizer, TokenCounter
from e2graphrag_integrations.reports import Stage
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import Node

_SLICE_SIZE = 8
"""Summaries per call, if they need no LLM. An LLM call is a slice of its own."""

_FEW = 32
"""Number of summaries without an LLM up to which a level is created in this process: they take
about three seconds, less than workers need to start."""


def summarize_in_waves(
    trees: Sequence[Tree],
    builder: SummaryBuilder,
    concurrency: int,
    on_summary: Callable[[], None],
    control: RunControl,
) -> list[Mapping[str, str] | None]:
    """Create every summary in `trees` with the runner of the stages, one level after another.

    Args:
        trees: Trees of different documents.
        builder: Finds summaries in the cache, and receives the counts of the calls.
        concurrency: Maximum number of simultaneous calls of an LLM.
        on_summary: Called once for each summary, in the end also for those of failed documents.
        control: Runs the slices and receives failures.

    Returns:
        For each tree, its summaries by node id, or None if its document failed.

    Raises:
        SummaryError: If a failure aborts the run.
        WorkStopped: After a stop request.
    """
    schedule = SummarySchedule(trees)
    work = SummaryWork(builder, concurrency)
    failed = control.failures.failed
    while schedule.ready:
        ready, schedule.ready = schedule.ready, []
        nodes: dict[bytes, list[tuple[int, Node]]] = {}
        inputs: dict[bytes, SummaryInput] = {}
        for tree, node in ready:
            if node.document_id in failed:
                continue
            texts = schedule.inputs(tree, node)
            key = builder.key(texts, node.level)
            nodes.setdefault(key, []).append((tree, node))
            inputs.setdefault(key, (texts, node.level, summary_place(node)))

        def finish(summaries: Mapping[bytes, bytes], nodes: Any = nodes) -> None:
            for key, summary in summaries.items():
                for tree, node in nodes[key]:
                    schedule.finish(tree, node, summary.decode())
                    on_summary()

        def store(summaries: dict[bytes, bytes], finish: Any = finish) -> None:
            builder.store.put_cached("summary", summaries)
            finish(summaries)

        cached = builder.store.cached(inputs)
        finish(cached)
        missing = {key: one for key, one in inputs.items() if key not in cached}
        owners = {key: _documents(own) for key, own in nodes.items()}
        size = 1 if builder.uses_llm else _SLICE_SIZE
        is_small = not builder.uses_llm and len(missing) <= _FEW
        near = replace(control, runner=LocalRunner()) if is_small else control
        for _ in run_in_slices(missing, owners, work, store, slice_size=size, control=near):
            pass
    for _ in range(schedule.unfinished):
        on_summary()
    return schedule.results(failed)


def _documents(nodes: Iterable[tuple[int, Node]]) -> list[str]:
    return list(dict.fromkeys(node.document_id for _, node in nodes))


SummaryInput = tuple[list[str], int, str]
"""The texts to summarize, the level of the summary, and its place, for error messages."""


@dataclass(frozen=True)
class SummaryWork(StageWork[SummaryInput]):
    """Creates summaries, with the retries and the counts of `SummaryBuilder`."""

    stage: ClassVar[Stage] = "summarize"
    name: ClassVar[str] = "summarizing"
    component_name: ClassVar[ComponentName] = "summarizer"
    error_type: ClassVar[type[IndexingError]] = SummaryError

    builder: SummaryBuilder
    concurrency: int

    def __call__(self, inputs: Sequence[SummaryInput]) -> list[bytes]:
        """Return the summary of each input."""
        return [self._create(*one).encode() for one in inputs]

    def _create(self, texts: Sequence[str], level: int, place: str) -> str:
        try:
            return self.builder.create(texts, level)
        except (Exception, asyncio.CancelledError) as error:  # of the summarizer
            raise summary_error(error, place, self.builder.summarizer) from error

    @property
    def component(self) -> Summarizer:
        """The summarizer."""
        return self.builder.summarizer

    def recipe(self) -> Callable[[Summarizer], SummaryWork]:
        """Return a function that creates this work with a summarizer."""
        builder = self.builder
        return partial(
            _summary_work,
            expected=getattr(builder.summarizer, "fingerprint", None),
            counter=builder.counter,
            max_tokens=builder.max_tokens,
            retry=builder.retry,
        )

    @property
    def max_workers(self) -> int | None:
        """The limit on simultaneous calls of an LLM."""
        return self.concurrency if self.builder.uses_llm else None

    def take_usage(self) -> dict[str, float]:
        """Return the counts of the calls since the last call of this method."""
        usage = self.builder.usage
        counts = asdict(usage)
        for name, empty in asdict(SummaryUsage()).items():
            setattr(usage, name, empty)
        return counts

    def add_usage(self, usage: Mapping[str, float]) -> None:
        """Add counts from another process to those of the builder."""
        with self.builder.lock:
            for name, count in usage.items():
                setattr(self.builder.usage, name, getattr(self.builder.usage, name) + count)


class _NoCache:
    """The content cache of a worker: its results go to the process that writes the file."""

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:  # noqa: ARG002 - see `ContentCache`
        return {}

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        pass


def _summary_work(
    summarizer: Summarizer,
    expected: str | None,
    counter: TokenCounter,
    max_tokens: int,
    retry: RetryPolicy,
) -> SummaryWork:
    actual = getattr(summarizer, "fingerprint", None)
    if actual != expected:
        raise SettingsMismatchError(f"the summarizer is {actual}, not {expected}")
    cache, loop = _NoCache(), OwnLoop()
    builder = SummaryBuilder(summarizer, str(expected), counter, max_tokens, retry, cache, loop)
    return SummaryWork(builder, concurrency=1)
