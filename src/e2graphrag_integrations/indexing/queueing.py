"""Stage `enqueue`: keep documents in the file's queue until they are indexed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations.errors import E2GraphRAGError, StoreError
from e2graphrag_integrations.store.queue import enqueue, requeue, set_queue_status
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.types import SourceDocument


@dataclass(frozen=True)
class QueueTracker:
    """Records the state of a run's documents in the queue.

    A document leaves the queue in the transaction that writes it, so a crash loses nothing.

    Attributes:
        store: The file.
        enabled: If False, every method does nothing: the caller stores the pending documents.
    """

    store: Store
    enabled: bool

    def enqueue(self, documents: Sequence[SourceDocument], manifest: Mapping[str, str]) -> None:
        """Put documents in the queue, all or none."""
        if self.enabled:
            enqueue(self.store, documents, manifest)

    def mark_processing(self, document_ids: Sequence[str]) -> None:
        """Record that work on documents started."""
        if self.enabled:
            set_queue_status(self.store, dict.fromkeys(document_ids, ("processing", None)))

    def mark_failed(self, document_id: str, error: E2GraphRAGError) -> None:
        """Record that a document failed."""
        if self.enabled:
            set_queue_status(self.store, {document_id: ("failed", str(error))})

    def release(self) -> None:
        """Mark documents as pending after the run was aborted."""
        if self.enabled:
            with contextlib.suppress(StoreError):  # the error that aborted the run matters more
                requeue(self.store)
