"""Stage `summarize`: create the summaries in trees, with limited concurrency and a cache."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from e2graphrag_integrations._utils.concurrency import AwaitableRunner
from e2graphrag_integrations._utils.failures import redact_error
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import E2GraphRAGError, IndexingError, StoreError, SummaryError
from e2graphrag_integrations.indexing.run import (
    ContentClaims,
    FailurePolicy,
    OnlyProcess,
    WorkStopped,
)
from e2graphrag_integrations.protocols import Summarizer, TokenCounter
from e2graphrag_integrations.store.records import ContentCache
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.text.chunking import truncate
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.tree import Tree, without_overlap
from e2graphrag_integrations.types import Node


@dataclass
class SummaryUsage:
    """Usage counts for a summarizer. `seconds` is summed over threads."""

    calls: int = 0
    retries: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


def summary_key(fingerprint: str, max_tokens: int, texts: Sequence[str], level: int) -> bytes:
    """Return the cache key of the summary of `texts`."""
    head = f"summary\0{fingerprint}\0{max_tokens}\0{level}"
    parts = "".join(f"\0{len(text)}:{text}" for text in texts)
    return hashlib.sha256((head + parts).encode()).digest()


@dataclass(frozen=True)
class SummaryBuilder:
    """Creates single summaries, or finds them in the cache. Thread-safe.

    Attributes:
        summarizer: The summarizer to call.
        fingerprint: Identifies the summarizer in cache keys.
        counter: Measures prompts and summaries.
        max_tokens: Maximum tokens in a summary; longer ones are truncated after a sentence.
        retry: Retry policy for transient errors.
        store: Stores summaries.
        runner: Runs the coroutines of an async summarizer.
        usage: Counts of the calls so far.
        claims: Decides whether this process creates a summary, and when it may call an LLM.
    """

    summarizer: Summarizer
    fingerprint: str
    counter: TokenCounter
    max_tokens: int
    retry: RetryPolicy
    store: ContentCache
    runner: AwaitableRunner
    usage: SummaryUsage = field(default_factory=SummaryUsage)
    in_flight: dict[bytes, threading.Event] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    claims: ContentClaims = field(default_factory=OnlyProcess)

    @property
    def uses_llm(self) -> bool:
        """The summarizer's `uses_llm`; True if it has none."""
        return bool(getattr(self.summarizer, "uses_llm", True))

    @property
    def model(self) -> str:
        """The summarizer's name for its model, or the name of its class."""
        model = getattr(self.summarizer, "model", None)
        return model if model and isinstance(model, str) else type(self.summarizer).__name__

    def key(self, texts: Sequence[str], level: int) -> bytes:
        """Return the cache key of the summary of `texts`."""
        return summary_key(self.fingerprint, self.max_tokens, texts, level)

    def cached(self, key: bytes) -> str | None:
        """Return a cached summary, or None."""
        value = self.store.cached([key]).get(key)
        return None if value is None else value.decode()

    def prompt(self, texts: Sequence[str], level: int) -> str:
        """Return the prompt, or the joined texts if the summarizer does not expose its prompt."""
        render = getattr(self.summarizer, "prompt", None)
        if render is None:
            return "\n\n".join(texts)
        with wrap_errors(SummaryError, f"{type(self.summarizer).__name__}.prompt() failed"):
            return str(render(texts, level=level, max_tokens=self.max_tokens))

    def build(
        self, texts: Sequence[str], level: int, stopping: threading.Event | None = None
    ) -> str:
        """Return the summary of `texts`. Concurrent equal requests share one call.

        Once `stopping` is set, failed calls are not retried.
        """
        key = self.key(texts, level)
        done = threading.Event()
        while True:
            with self.lock:
                running = self.in_flight.setdefault(key, done)
            if running is done:
                break
            running.wait()  # then check again: unless that call failed, the cache has the summary
        try:
            with self.claims.content(key, stopping):
                summary = self.cached(key)
                if summary is None:
                    with self.claims.llm_call(stopping) if self.uses_llm else nullcontext():
                        summary = self.create(texts, level, stopping)
                    self.store.put_cached("summary", {key: summary.encode()})
        finally:
            with self.lock:
                del self.in_flight[key]
            done.set()
        return summary

    def create(
        self, texts: Sequence[str], level: int, stopping: threading.Event | None = None
    ) -> str:
        """Return a new summary of `texts` without using the cache; see `build`."""
        started = time.perf_counter()
        uses_llm = self.uses_llm
        attempts = 0

        def attempt() -> object:
            nonlocal attempts
            attempts += 1
            answer = self.summarizer.summarize(texts, level=level, max_tokens=self.max_tokens)
            return self.runner.run(answer) if inspect.isawaitable(answer) else answer

        try:
            answer = self.retry.retrying(stopping)(attempt)
        finally:
            with self.lock:
                self.usage.retries += max(0, attempts - 1)
                if uses_llm:
                    self.usage.calls += attempts
        full = self._checked(answer)
        summary, was_cut = truncate(full, self.max_tokens, self.counter)
        prompt_tokens = count_tokens(self.counter, self.prompt(texts, level)) if uses_llm else 0
        completion_tokens = count_tokens(self.counter, full) if uses_llm else 0
        with self.lock:
            self.usage.prompt_tokens += prompt_tokens
            self.usage.completion_tokens += completion_tokens
            self.usage.cut += was_cut
            self.usage.seconds += time.perf_counter() - started
        return summary

    def _checked(self, answer: object) -> str:
        name = type(self.summarizer).__name__
        if not isinstance(answer, str):
            raise SummaryError(
                f"{name} returned {type(answer).__name__}, not a text or a message: "
                "return the text of the answer"
            )
        # A model may emit lone surrogates, which neither SQLite nor tokenizers accept.
        summary = answer.encode("utf-8", "replace").decode().strip()
        if not summary:
            raise SummaryError(f"{name} returned an empty summary: check its model and its prompt")
        return summary


def summarize_trees(
    trees: Sequence[Tree],
    builder: SummaryBuilder,
    pool: Executor,
    on_summary: Callable[[], None],
    stopping: threading.Event,
    *,
    failures: FailurePolicy | None = None,
) -> list[Mapping[str, str] | None]:
    """Create every summary in `trees`, each as soon as its children have texts.

    Args:
        trees: Trees of different documents.
        builder: Creates single summaries.
        pool: Runs the calls.
        on_summary: Called once for each summary, in the end also for those of failed documents.
        stopping: Once set, no further summary starts; summaries in progress finish and are kept. A
            failure that aborts the run sets this event.
        failures: Decides whether the other trees continue after a failure; None aborts the run.

    Returns:
        For each tree, its summaries by node id, or None if its document failed.

    Raises:
        SummaryError: If a failure aborts the run.
        WorkStopped: If `stopping` was set from outside.
    """
    failures = failures or FailurePolicy()
    calls = _Calls(builder, stopping, failures)
    schedule = SummarySchedule(trees)
    running: dict[Future[str], tuple[int, Node]] = {}
    while True:
        while schedule.ready and not stopping.is_set():
            tree, node = schedule.ready.pop()
            if node.document_id not in failures.failed:
                texts = schedule.inputs(tree, node)
                running[pool.submit(calls.run, texts, node)] = (tree, node)
        if not running:
            break
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            tree, node = running.pop(future)
            if future.exception() is None:
                schedule.finish(tree, node, future.result())
                on_summary()
    if calls.failure is not None:
        raise calls.failure
    if stopping.is_set():
        raise WorkStopped
    for _ in range(schedule.unfinished):
        on_summary()
    return schedule.results(failures.failed)


@dataclass
class _Calls:
    """Runs calls until a failure aborts the run, and remembers that failure."""

    builder: SummaryBuilder
    stopping: threading.Event
    policy: FailurePolicy
    failure: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, texts: Sequence[str], node: Node) -> str:
        if self.stopping.is_set() or node.document_id in self.policy.failed:
            raise WorkStopped
        try:
            summary = self.builder.build(texts, node.level, self.stopping)
        except BaseException as error:  # of the summarizer: `_with_place` converts it
            with self.lock:  # after a stop, a failure may be only a consequence of it
                if not self.stopping.is_set():
                    self._handle(_with_place(error, node, self.builder.summarizer), node)
            raise
        self.policy.record_success(SummaryError)
        return summary

    def _handle(self, error: BaseException, node: Node) -> None:
        """Skip the document, or abort the run."""
        if isinstance(error, IndexingError):
            try:
                self.policy.record_failure([node.document_id], error)
            except E2GraphRAGError as fatal:
                error = fatal
            else:
                return
        self.failure = error
        self.stopping.set()


def _with_place(error: BaseException, node: Node, summarizer: Summarizer) -> BaseException:
    """Return a SummaryError that names the summary, or a store error or interrupt unchanged."""
    if isinstance(error, StoreError) or not isinstance(error, Exception | asyncio.CancelledError):
        return error
    return summary_error(error, summary_place(node), summarizer)


def summary_place(node: Node) -> str:
    """Return the name of a summary in error messages."""
    return f"summary {node.position} of level {node.level} of document {node.document_id!r}"


def summary_error(error: BaseException, place: str, summarizer: Summarizer) -> SummaryError:
    """Return the error that names the summary, without the keys of the summarizer."""
    message = redact_error(error, summarizer)
    failed = SummaryError(
        f"{place} failed: {type(error).__name__}: {message}. Finished summaries are kept: fix the "
        "cause and index again"
    )
    failed.__cause__ = error
    return failed


class SummarySchedule:
    """Tracks which summaries are ready to be created, and collects the finished ones.

    Attributes:
        ready: The tree number and the node of each summary whose inputs have texts.
        summaries: The finished summaries of each tree, by node id.
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        self._trees = trees
        self.summaries: list[dict[str, str]] = [{} for _ in trees]
        self._nodes = [{node.id: node for node in tree.nodes} for tree in trees]
        self.ready = [
            (number, node)
            for number, tree in enumerate(trees)
            for node in tree.nodes
            if node.level == 1
        ][::-1]  # reversed, because nodes are popped from the end

    def inputs(self, tree: int, node: Node) -> list[str]:
        """Return the texts to summarize, without the overlap between chunks."""
        children = [self._nodes[tree][child] for child in node.child_ids]
        texts = self.summaries[tree]
        return without_overlap([replace(c, text=texts.get(c.id, c.text)) for c in children])

    @property
    def unfinished(self) -> int:
        """Number of summaries without a text."""
        planned = sum(node.level > 0 for nodes in self._nodes for node in nodes.values())
        return planned - sum(map(len, self.summaries))

    def results(self, failed: Container[str]) -> list[Mapping[str, str] | None]:
        """Return the summaries of each tree, or None for a tree of a failed document."""
        return [
            None if tree.document_id in failed else summaries
            for tree, summaries in zip(self._trees, self.summaries, strict=True)
        ]

    def finish(self, tree: int, node: Node, summary: str) -> None:
        """Record a summary; its parent may become ready."""
        self.summaries[tree][node.id] = summary
        if node.parent_id is not None:
            parent = self._nodes[tree][node.parent_id]
            if self.summaries[tree].keys() >= set(parent.child_ids):
                self.ready.append((tree, parent))
