"""Writing the reports of communities, with a cache and a limit on LLM calls."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from e2graphrag_integrations._utils.concurrency import ContextThreads
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.validation import check_choice, wrap_errors
from e2graphrag_integrations.errors import (
    StoppedError,
    SummaryError,
)
from e2graphrag_integrations.indexing.run import WorkStopped
from e2graphrag_integrations.indexing.stages.llm_calls import (
    announce_llm_calls,
    check_calls,
    models_of,
)
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.reports import CostEstimate, LevelEstimate
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.community_reports import ReportSource, put_reports
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.text.tokens import count_tokens

Reports = Literal["extractive", "summarizer"]
"""Who writes reports: `extractive` selects sentences, `summarizer` is the one of the index."""

_TREE_LEVEL = 1
"""Level that a summarizer is told: reports summarize text, as the first level of a tree does."""


def check_reports(reports: object) -> None:
    """Check the argument `reports`.

    Raises:
        InvalidInputError: If it is neither None nor one of `Reports`.
    """
    if reports is not None:
        check_choice("reports", reports, get_args(Reports))


class _ReportCache:
    """Caches reports, the next one with the ids of the chunks from which it is written."""

    def __init__(self, store: Store, chunks: Sequence[str] = ()) -> None:
        self._store = store
        self._chunks = list(chunks)

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        own = {_report_key(key): key for key in keys}
        return {own[key]: value for key, value in self._store.cached(own).items()}

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Store reports permanently, unless one of their chunks has been deleted since."""
        del kind
        reports = {_report_key(key): value for key, value in contents.items()}
        with self._store.transaction() as db:
            put_reports(db, self._store.path, reports, self._chunks)


def _report_key(key: bytes) -> bytes:
    """Return a key that differs from that of a summary of the same texts."""
    return hashlib.sha256(b"report\0" + key).digest()


@dataclass(frozen=True)
class ReportWriter:
    """Writes the reports of communities.

    Reports by an LLM are cached by the texts that they are written from, so that an update pays
    only for communities whose texts changed. Extracted reports are not cached: they are made faster
    than they are stored, and reading an index must not change it.

    Attributes:
        summaries: Calls the summarizer.
        store: Caches the reports of an LLM.
        level: The level of the communities, for estimates.
    """

    summaries: SummaryBuilder
    store: Store
    level: int

    @classmethod
    def of(
        cls, reports: Reports, summaries: SummaryBuilder, store: Store, level: int
    ) -> ReportWriter:
        """Return a writer with the summarizer that `reports` names."""
        if reports == "extractive":
            extractive = ExtractiveSummarizer(counter=summaries.counter)
            fingerprint = extractive.fingerprint
            summaries = replace(summaries, summarizer=extractive, fingerprint=fingerprint)
        return cls(summaries, store, level)

    @property
    def uses_llm(self) -> bool:
        """Whether an LLM writes the reports."""
        return self.summaries.uses_llm

    def estimate(self, sources: Iterable[ReportSource]) -> CostEstimate:
        """Return the cost of the reports; cached and repeated ones need no call."""
        counted: set[bytes] = set()
        reports = prompt_tokens = 0
        cache = _ReportCache(self.store)
        for source in sources:
            reports += 1
            key = self._key(source)
            if key not in counted and not cache.cached([key]):
                counted.add(key)
                prompt = self.summaries.prompt(source.texts, _TREE_LEVEL)
                prompt_tokens += count_tokens(self.summaries.counter, prompt)
        calls = len(counted)
        completion_tokens = calls * self.summaries.max_tokens
        level = LevelEstimate(self.level, reports, calls, prompt_tokens, completion_tokens)
        return CostEstimate(
            documents=0,
            chunks=0,
            summaries=0,
            llm_calls=calls,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            community_reports=level,
        )

    def write(
        self,
        sources: Sequence[ReportSource],
        *,
        concurrency: int = 1,
        max_llm_calls: int | None = None,
        stopping: threading.Event | None = None,
    ) -> list[str]:
        """Return the reports, in the order of their sources.

        Args:
            sources: The texts of each community.
            concurrency: Maximum number of simultaneous calls of an LLM.
            max_llm_calls: Maximum number of LLM calls, without retries; None means no limit.
            stopping: Once set, no further call starts.

        Raises:
            LLMCallLimitError: If the reports need more calls. No model was called.
            SummaryError: If the summarizer failed. Finished reports of an LLM are kept.
            StoppedError: If `stopping` was set.
        """
        if not self.uses_llm:
            return [self._write(source) for source in sources]
        cost = self.estimate(sources)
        check_calls(cost, models_of(self.summaries), max_llm_calls, "reports")
        announce_llm_calls(cost, models_of(self.summaries), what="community reports")
        stopping = threading.Event() if stopping is None else stopping

        def write(source: ReportSource) -> str:
            if stopping.is_set():
                raise WorkStopped
            with on_error(lambda _: stopping.set()):
                return self._write(source, stopping)

        with ContextThreads(concurrency, "e2graphrag-reports") as threads:
            futures = [threads.submit(write, source) for source in sources]
        failures = [error for future in futures if (error := future.exception()) is not None]
        for error in failures:
            if not isinstance(error, WorkStopped):
                raise error
        if failures:
            raise StoppedError("writing reports was stopped; finished reports are kept: call again")
        return [future.result() for future in futures]

    def _key(self, source: ReportSource) -> bytes:
        return self.summaries.key(source.texts, _TREE_LEVEL)

    def _write(self, source: ReportSource, stopping: threading.Event | None = None) -> str:
        what = f"the report of a community of level {self.level} failed"
        hint = "finished reports are kept: fix the cause and call again"
        with wrap_errors(SummaryError, what, hint, self.summaries.summarizer):
            if not self.uses_llm:
                return self.summaries.create(source.texts, _TREE_LEVEL)
            cache = _ReportCache(self.store, source.node_ids)
            return replace(self.summaries, store=cache).build(source.texts, _TREE_LEVEL, stopping)
