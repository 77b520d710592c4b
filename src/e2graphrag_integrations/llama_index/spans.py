"""The stages of a retrieval as spans of LlamaIndex's instrumentation."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llama_index.core.instrumentation.event_handlers import NullEventHandler
from llama_index.core.instrumentation.span import active_span_id
from llama_index.core.instrumentation.span_handlers import NullSpanHandler

from e2graphrag_integrations._utils.tracing import Attributes, CollectedSpan


@dataclass(frozen=True)
class LlamaSpans:
    """Records spans with a dispatcher of LlamaIndex.

    Attributes:
        dispatcher: The dispatcher.
    """

    dispatcher: Any

    @contextmanager
    def span(self, name: str, attributes: Attributes) -> Iterator[CollectedSpan]:
        """Open a span, whose id is its name and a random suffix, below the active one."""
        found = CollectedSpan(dict(attributes))
        id_ = f"{name}-{uuid.uuid4()}"
        arguments = inspect.Signature().bind()  # stages have none
        common: dict[str, Any] = {"id_": id_, "bound_args": arguments, "instance": None}
        parent = active_span_id.get()
        token = active_span_id.set(id_)
        self.dispatcher.span_enter(**common, parent_id=parent, tags=found.values)
        try:
            yield found
        except BaseException as error:
            self.dispatcher.span_drop(**common, err=error)
            raise
        else:
            self.dispatcher.span_exit(**common, result=found.values)
        finally:
            active_span_id.reset(token)


def spans_of(dispatcher: Any) -> LlamaSpans | None:
    """Return a recorder if somebody listens to the spans of a dispatcher."""
    is_heard = _has_handlers(dispatcher, "span_handlers", NullSpanHandler)
    return LlamaSpans(dispatcher) if is_heard else None


def hears_events(dispatcher: Any) -> bool:
    """Return whether somebody listens to the events of a dispatcher."""
    return _has_handlers(dispatcher, "event_handlers", NullEventHandler)


def _has_handlers(dispatcher: Any, name: str, null: type[Any]) -> bool:
    current = dispatcher
    while current is not None:
        if any(not isinstance(one, null) for one in getattr(current, name)):
            return True
        current = current.parent if current.propagate else None
    return False
