"""`SnapshotReader`: the only method of an index that the views of its graph and trees need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.snapshot.snapshot import Snapshot

T = TypeVar("T")


class SnapshotReader(Protocol):
    """An index, or a scope of one."""

    def read_snapshot(self, work: Callable[[Snapshot, NodeSource], T]) -> T:
        """Return the result of a function of the newest snapshot and its stored nodes."""
        ...
