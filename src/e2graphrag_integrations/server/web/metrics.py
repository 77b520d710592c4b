"""Metrics for Prometheus, in a registry of their own."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from e2graphrag_integrations.server.web.answering.model import Usage
from e2graphrag_integrations.server.web.jobs import Jobs
from e2graphrag_integrations.server.web.limits import Admission
from e2graphrag_integrations.store.index_state import IndexState

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts the requests of an application.

    Args:
        admission: The requests in progress.
        jobs: The jobs.
    """

    def __init__(self, admission: Admission, jobs: Jobs) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        labels = ["operation"]
        self._requests = Counter(
            "e2graphrag_requests",
            "Requests by operation and status.",
            [*labels, "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "e2graphrag_request_seconds",
            "Time of requests, with their wait.",
            labels,
            buckets=_BUCKETS,
            registry=self._registry,
        )
        Gauge(
            "e2graphrag_requests_in_progress",
            "Requests that read the index or wait to do so.",
            registry=self._registry,
        ).set_function(lambda: admission.in_progress)
        active = Gauge(
            "e2graphrag_jobs", "Jobs that run or wait.", ["state"], registry=self._registry
        )
        active.labels("running").set_function(lambda: jobs.counts().get("running", 0))
        active.labels("waiting").set_function(lambda: jobs.counts().get("waiting", 0))
        self._documents = Gauge(
            "e2graphrag_documents", "Documents by state.", ["state"], registry=self._registry
        )
        self._rate = Gauge(
            "e2graphrag_queue_documents_per_second",
            "Documents that leave the queue per second; NaN if unknown.",
            registry=self._registry,
        )
        self._left = Gauge(
            "e2graphrag_queue_seconds_left",
            "Estimated seconds until the queue is empty; NaN if unknown.",
            registry=self._registry,
        )
        self._answers = Counter(
            "e2graphrag_answers", "Answers by how they ended.", ["end"], registry=self._registry
        )
        self._tokens = Counter(
            "e2graphrag_answer_tokens",
            "Tokens that answers used, in the prompt and the completion.",
            ["part"],
            registry=self._registry,
        )

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def count_answer(self, end: str, usage: Usage | None = None) -> None:
        """Count an answer, and the tokens that it used if they are known."""
        self._answers.labels(end).inc()
        if usage is not None:
            self._tokens.labels("prompt").inc(usage.prompt_tokens)
            self._tokens.labels("completion").inc(usage.completion_tokens)

    def show_state(self, state: IndexState) -> None:
        """Set the figures of the queue."""
        for name in ("indexed", "pending", "processing", "failed"):
            self._documents.labels(name).set(getattr(state, name))
        for gauge, value in (
            (self._rate, state.documents_per_second),
            (self._left, state.seconds_left),
        ):
            gauge.set(math.nan if value is None else value)

    def text(self) -> tuple[bytes, str]:
        """Return the metrics and their media type."""
        encode, media = choose_encoder("")
        return encode(self._registry), media
