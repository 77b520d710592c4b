"""Filling a tree with summaries: bounded concurrency, nothing made twice, nothing lost."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace

from e2graphrag_integrations._utils.event_loop import AwaitableRunner
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import E2GraphRAGError, IndexingError, StoreError, SummaryError
from e2graphrag_integrations.indexing.failure_policy import FailFast, FailurePolicy
from e2graphrag_integrations.protocols import Summarizer, TokenCounter
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.records import ContentCache
from e2graphrag_integrations.summarizers.callable import RetryPolicy
from e2graphrag_integrations.text.chunking import truncate
from e2graphrag_integrations.text.tokens import count_tokens
from e2graphrag_integrations.tree import Tree, without_overlap
from e2graphrag_integrations.types import Node


class WorkStopped(Exception):  # noqa: N818 - no error: the run was stopped from outside
    """Raised within the package where nothing more is to be begun.

    A class of its own: `CancelledError` may come from a user's summarizer, as any other failure.
    """


@dataclass
class SummaryUsage:
    """Counts of what the summarizer was asked."""

    calls: int = 0
    retries: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


def summary_key(fingerprint: str, max_tokens: int, texts: Sequence[str], level: int) -> bytes:
    """Return the cache key of the summary of `texts` by a summarizer."""
    head = f"summary\0{fingerprint}\0{max_tokens}\0{level}"
    parts = "".join(f"\0{len(text)}:{text}" for text in texts)
    return hashlib.sha256((head + parts).encode()).digest()


@dataclass(frozen=True)
class SummaryBuilder:
    """Makes one summary, or finds it in the cache.

    Args:
        summarizer: The user's.
        fingerprint: Its part of the cache key.
        counter: Measures prompts and summaries.
        max_tokens: Longest summary kept.
        retry: For transient errors.
        store: Holds the cache.
        bridge: Runs coroutines.
    """

    summarizer: Summarizer
    fingerprint: str
    counter: TokenCounter
    max_tokens: int
    retry: RetryPolicy
    store: ContentCache
    bridge: AwaitableRunner
    usage: SummaryUsage = field(default_factory=SummaryUsage)
    in_flight: dict[bytes, threading.Event] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(
        cls,
        components: Components,
        settings: Settings,
        *,
        retry: RetryPolicy,
        store: ContentCache,
        bridge: AwaitableRunner,
    ) -> SummaryBuilder:
        """Return one with the summarizer and the sizes of an index."""
        return cls(
            summarizer=components.summarizer,
            fingerprint=components.summarizer_print,
            counter=components.counter,
            max_tokens=settings.summary_tokens,
            retry=retry,
            store=store,
            bridge=bridge,
        )

    def key(self, texts: Sequence[str], level: int) -> bytes:
        """Return the cache key of the summary of `texts`."""
        return summary_key(self.fingerprint, self.max_tokens, texts, level)

    def prompt(self, texts: Sequence[str], level: int) -> str:
        """Return what is sent for a summary, as far as it is known: the texts, or the prompt."""
        render = getattr(self.summarizer, "prompt", None)
        if render is None:
            return "\n\n".join(texts)
        with wrap_errors(SummaryError, f"{type(self.summarizer).__name__}.prompt() failed"):
            return str(render(texts, level=level, max_tokens=self.max_tokens))

    def make(
        self, texts: Sequence[str], level: int, stopping: threading.Event | None = None
    ) -> str:
        """Return the summary; equal requests made at the same time share one call.

        Once `stopping` is set a failed call is not repeated.
        """
        key = self.key(texts, level)
        done = threading.Event()
        while True:
            with self.lock:
                running = self.in_flight.setdefault(key, done)
            if running is done:
                break
            running.wait()  # then look again: it is in the cache, unless that call failed
        try:
            summary = self._cached(key)
            if summary is None:
                summary = self._call(texts, level, stopping)
                self.store.put_cached("summary", {key: summary.encode()})
        finally:
            with self.lock:
                del self.in_flight[key]
            done.set()
        return summary

    def _cached(self, key: bytes) -> str | None:
        found = self.store.cached([key])
        return found[key].decode() if key in found else None

    def _call(self, texts: Sequence[str], level: int, stopping: threading.Event | None) -> str:
        began = time.perf_counter()
        attempts = 0

        def attempt() -> object:
            nonlocal attempts
            attempts += 1
            answer = self.summarizer.summarize(texts, level=level, max_tokens=self.max_tokens)
            return self.bridge.run(answer) if inspect.isawaitable(answer) else answer

        try:
            answer = self.retry.retrying(stopping)(attempt)
        finally:
            with self.usage.lock:
                self.usage.retries += max(0, attempts - 1)
                if getattr(self.summarizer, "uses_llm", True):
                    self.usage.calls += attempts
        whole = self._checked(answer)
        summary, cut = truncate(whole, self.max_tokens, self.counter)
        with self.usage.lock:
            if getattr(self.summarizer, "uses_llm", True):
                self.usage.prompt_tokens += count_tokens(self.counter, self.prompt(texts, level))
                self.usage.completion_tokens += count_tokens(self.counter, whole)
            self.usage.cut += cut
            self.usage.seconds += time.perf_counter() - began
        return summary

    def _checked(self, answer: object) -> str:
        name = type(self.summarizer).__name__
        if not isinstance(answer, str):
            raise SummaryError(
                f"{name} returned {type(answer).__name__}, not str: return the text of the answer"
            )
        # A model may emit lone surrogates, which no store and no tokenizer takes.
        summary = answer.encode("utf-8", "replace").decode().strip()
        if not summary:
            raise SummaryError(f"{name} returned an empty summary: check its model and its prompt")
        return summary


def summarize_trees(
    trees: Sequence[Tree],
    maker: SummaryBuilder,
    pool: Executor,
    made: Callable[[], None],
    stopping: threading.Event,
    *,
    failures: FailurePolicy | None = None,
) -> list[Mapping[str, str] | None]:
    """Make every summary of `trees`, each as soon as its children have their texts.

    Once `stopping` is set no further one is begun; those that were in flight are finished and kept.
    So it is, too, with the rest of a tree of which one failed, and with all if `failures` says so.

    Args:
        trees: Each of a document of its own.
        maker: Makes one summary.
        pool: Its threads make them.
        made: Called for each.
        stopping: Set from outside, ends the work.
        failures: Says what becomes of the other trees when one fails; None ends the work.

    Returns:
        For each tree, the text of each summary by node id; None for one that failed.

    Raises:
        SummaryError: When one failed for good.
        Stopped: When it was stopped from outside.
    """
    failures = failures or FailFast()
    calls = _Calls(maker, stopping, failures)
    jobs = _Jobs(trees)
    running: dict[Future[str], tuple[int, Node]] = {}
    while running or (jobs.ready and not stopping.is_set()):
        while jobs.ready and not stopping.is_set():
            tree, node = jobs.ready.pop()
            if node.document_id in failures.failed:
                continue
            texts = jobs.texts_under(tree, node)
            running[pool.submit(calls.make, texts, node)] = (tree, node)
        if not running:
            break  # what was ready is of trees that failed
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            tree, node = running.pop(future)
            if future.exception() is None:
                jobs.finish(tree, node, future.result())
                made()
    calls.raise_failure()
    return [
        None if tree.document_id in failures.failed else summaries
        for tree, summaries in zip(trees, jobs.summaries, strict=True)
    ]


class _Calls:
    """Makes summaries until a failure ends the work, and remembers which."""

    def __init__(
        self, maker: SummaryBuilder, stopping: threading.Event, failures: FailurePolicy
    ) -> None:
        self._maker = maker
        self._stopping = stopping
        self._failures = failures
        self._cause: BaseException | None = None
        self._lock = threading.Lock()

    def make(self, texts: Sequence[str], node: Node) -> str:
        if self._stopping.is_set() or node.document_id in self._failures.failed:
            raise WorkStopped
        try:
            made = self._maker.make(texts, node.level, self._stopping)
        except BaseException as error:
            with self._lock:  # what fails after a stop may have been cut short by it
                if not self._stopping.is_set():
                    self._take(_named(error, node), node)
            raise
        self._failures.worked(SummaryError)
        return made

    def _take(self, error: BaseException, node: Node) -> None:
        """Leave the document out, or end the work."""
        if isinstance(error, IndexingError):
            try:
                self._failures.note([node.document_id], error)
            except E2GraphRAGError as final:
                error = final
            else:
                return
        self._cause = error
        self._stopping.set()

    def raise_failure(self) -> None:
        """Raise what failed first, or that it was stopped from outside, if either is so."""
        if self._cause is not None:
            raise self._cause
        if self._stopping.is_set():
            raise WorkStopped


def _named(error: BaseException, node: Node) -> BaseException:
    """Return the error of a summary with its place; one that is about more than it as it is."""
    if isinstance(error, StoreError) or not isinstance(error, Exception | asyncio.CancelledError):
        return error
    place = f"summary {node.position} of level {node.level} of document {node.document_id!r}"
    failed = SummaryError(
        f"{place} could not be made: {type(error).__name__}: {error}. What is finished is kept: "
        "see to the cause and index again"
    )
    failed.__cause__ = error
    return failed


class _Jobs:
    """Which summaries can be made now, and what has been made."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.summaries: list[Mapping[str, str]] = [{} for _ in trees]
        self.ready: list[tuple[int, Node]] = []
        self._nodes: list[dict[str, Node]] = [{n.id: n for n in tree.nodes} for tree in trees]
        self._waiting: dict[tuple[int, str], int] = {}
        for number, tree in enumerate(trees):
            for node in tree.nodes:
                if node.level == 1:
                    self.ready.append((number, node))
                elif node.level > 1:
                    self._waiting[number, node.id] = len(node.child_ids)
        self.ready.reverse()  # popped from the end: documents and positions in order

    def texts_under(self, tree: int, node: Node) -> list[str]:
        """Return the texts that a summary is made of, without overlap."""
        children = [self._nodes[tree][child] for child in node.child_ids]
        texts = self.summaries[tree]
        if node.level > 1:
            children = [replace(child, text=texts[child.id]) for child in children]
        return without_overlap(children)

    def finish(self, tree: int, node: Node, summary: str) -> None:
        """Note a summary; its parent may now be ready."""
        self.summaries[tree][node.id] = summary  # type: ignore[index] # ours until it is returned
        if node.parent_id is None:
            return
        key = (tree, node.parent_id)
        self._waiting[key] -= 1
        if not self._waiting[key]:
            self.ready.append((tree, self._nodes[tree][node.parent_id]))
