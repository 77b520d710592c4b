"""Events that this package sends to LlamaIndex's instrumentation."""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.instrumentation.events import BaseEvent


class E2RoutingEvent(BaseEvent):
    """The route of one retrieval; sent between RetrievalStartEvent and RetrievalEndEvent."""

    route: str = Field(description="`local` or `global`.")
    reason: str = Field(description="The reason for the route, in words.")
    entities: list[str] = Field(description="Entities of the query that the index contains.")
    node_ids: list[str] = Field(description="Ids of the returned nodes, best first.")
    reasons: dict[str, list[str]] = Field(description="For each node, the reasons for its rank.")
    trace: Any = Field(description="A `Trace` of every step, with `to_dict()` and `explain()`.")

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "E2RoutingEvent"
