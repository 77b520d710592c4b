"""What the instrumentation of LlamaIndex hears from this package."""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.instrumentation.events import BaseEvent


class E2RoutingEvent(BaseEvent):
    """One retrieval: which way it went and why; sent between RetrievalStart and RetrievalEnd."""

    route: str = Field(description="`local` or `global`.")
    reason: str = Field(description="Why that route, in words.")
    entities: list[str] = Field(description="Entities of the question that are in the index.")
    node_ids: list[str] = Field(description="Nodes returned, best first.")
    reasons: dict[str, list[str]] = Field(description="Why each of them is there, in words.")
    trace: Any = Field(description="Every step: a `Trace`, with `to_dict()` and `explain()`.")

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "E2RoutingEvent"
