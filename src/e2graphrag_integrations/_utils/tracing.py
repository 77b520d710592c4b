"""Spans of the stages, for OpenTelemetry and for the tracing of frameworks.

OpenTelemetry is used only if the process has imported its API and set a tracer provider. So it is
neither imported here, nor does it cost more than a look into `sys.modules`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

SCOPE = "e2graphrag_integrations"
"""Name of the instrumentation scope of the spans."""

PREFIX = "e2graphrag."
"""Prefix of the names of spans and attributes."""

Attributes = Mapping[str, str | int | float | bool]


class Recorder(Protocol):
    """Records spans."""

    def span(self, name: str, attributes: Attributes) -> AbstractContextManager[OpenSpan]:
        """Return the context of a span, which ends with it."""


class OpenSpan(Protocol):
    """A span that has not ended."""

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""


@dataclass(frozen=True)
class CollectedSpan:
    """A span of a framework, which takes all attributes when it ends.

    Attributes:
        values: The attributes by name.
    """

    values: dict[str, Any] = field(default_factory=dict)

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        self.values.update(attributes)


@dataclass(frozen=True)
class _Spans:
    spans: tuple[OpenSpan, ...]

    def set(self, attributes: Attributes) -> None:
        """Add attributes to all spans."""
        for one in self.spans:
            one.set(attributes)


_NOTHING = nullcontext(_Spans(()))

_OF_FRAMEWORK: ContextVar[Recorder | None] = ContextVar("e2graphrag_recorder", default=None)


@dataclass(frozen=True)
class Tracer:
    """Opens spans with all recorders; a tracer without recorders does nothing."""

    recorders: tuple[Recorder, ...] = ()

    def span(self, name: str, **attributes: Any) -> AbstractContextManager[OpenSpan]:
        """Return the context of a span.

        Args:
            name: Its name without the prefix `e2graphrag.`.
            **attributes: Its attributes without the prefix; those that are None are left out.
        """
        return self._open(name, attributes) if self.recorders else _NOTHING

    def traced(self, function: Callable[..., T], name: str, **attributes: Any) -> Callable[..., T]:
        """Return a function whose calls are spans; itself if nothing is recorded."""
        if not self.recorders:
            return function

        def call(*arguments: Any, **options: Any) -> T:
            with self.span(name, **attributes):
                return function(*arguments, **options)

        return call

    @contextmanager
    def _open(self, name: str, attributes: Mapping[str, Any]) -> Iterator[OpenSpan]:
        with ExitStack() as stack:
            given = with_prefix(attributes)
            spans = [stack.enter_context(r.span(PREFIX + name, given)) for r in self.recorders]
            yield _Spans(tuple(spans))


def with_prefix(attributes: Mapping[str, Any]) -> Attributes:
    """Return attributes with their full names, without those that are None."""
    return {PREFIX + name: value for name, value in attributes.items() if value is not None}


def current_tracer() -> Tracer:
    """Return the tracer of the calling thread and task; it does nothing unless asked for."""
    recorders = [_opentelemetry(), _OF_FRAMEWORK.get()]
    return Tracer(tuple(one for one in recorders if one is not None))


@contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """Record the spans of a `with` body with the tracing of a framework, too; None does not."""
    token = _OF_FRAMEWORK.set(recorder)
    try:
        yield
    finally:
        _OF_FRAMEWORK.reset(token)


def _opentelemetry() -> Recorder | None:
    """Return a recorder if the process has set up OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    get_provider = getattr(api, "get_tracer_provider", None)
    if api is None or get_provider is None:  # missing, or still being imported
        return None
    provider = get_provider()
    if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return None
    return _OpenTelemetry(provider.get_tracer(SCOPE), api.StatusCode.ERROR)


@dataclass(frozen=True)
class _OpenTelemetry:
    """Records spans with OpenTelemetry.

    Attributes:
        tracer: A tracer of the API.
        error: Its status code of an error.
    """

    tracer: Any
    error: Any

    @contextmanager
    def span(self, name: str, attributes: Attributes) -> Iterator[OpenSpan]:
        """Open a span as the current one. Messages of errors can quote texts, so none is kept."""
        with self.tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield _Adapted(span)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(self.error)
                raise


@dataclass(frozen=True)
class _Adapted:
    one: Any

    def set(self, attributes: Attributes) -> None:
        """Add attributes to a span of OpenTelemetry."""
        self.one.set_attributes(dict(attributes))
