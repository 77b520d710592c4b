"""The stages of a retrieval as runs of LangChain's tracers, such as LangSmith."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import CallbackManager
from langchain_core.tracers.base import BaseTracer

from e2graphrag_integrations._utils.tracing import Attributes, CollectedSpan

_PARENT: ContextVar[UUID | None] = ContextVar("e2graphrag_parent_run", default=None)


@dataclass(frozen=True)
class RunSpans:
    """Records spans as runs below the run of a retriever.

    Attributes:
        tracers: The tracers.
        run_id: The run of the retriever.
    """

    tracers: tuple[BaseTracer, ...]
    run_id: UUID

    @contextmanager
    def span(self, name: str, attributes: Attributes) -> Iterator[CollectedSpan]:
        """Open a run with the name of the span; its inputs are the attributes."""
        found = CollectedSpan(dict(attributes))
        parent = _PARENT.get() or self.run_id
        manager = CallbackManager(list(self.tracers), parent_run_id=parent)
        run = manager.on_chain_start(None, dict(attributes), name=name)
        token = _PARENT.set(run.run_id)
        try:
            yield found
        except BaseException as error:
            run.on_chain_error(error)
            raise
        else:
            run.on_chain_end(found.values)
        finally:
            _PARENT.reset(token)


def spans_of(run_manager: Any) -> RunSpans | None:
    """Return a recorder if the run of a retriever has tracers; other handlers see no stages."""
    tracers = tuple(one for one in run_manager.handlers if isinstance(one, BaseTracer))
    return RunSpans(tracers, run_manager.run_id) if tracers else None
