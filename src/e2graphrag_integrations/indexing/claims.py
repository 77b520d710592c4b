"""Which process creates a content and writes a document.

A run that holds the lock of the index does everything itself. Workers share an index: see
`worker.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from e2graphrag_integrations.store.queue import enqueue, requeue, set_queue_status
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import SourceDocument


class ContentClaims(Protocol):
    """Decides which process creates a content, and when it may call an LLM."""

    def content(self, key: bytes, stopping: threading.Event | None) -> AbstractContextManager[None]:
        """Wait until no other process creates the content, and keep others from creating it.

        Raises:
            WorkStopped: If `stopping` is set while waiting.
        """

    def llm_call(self, stopping: threading.Event | None) -> AbstractContextManager[None]:
        """Wait until an LLM may be called.

        Raises:
            WorkStopped: If `stopping` is set while waiting.
        """


class OnlyProcess:
    """The claims of a process that holds the lock of the index: it never waits."""

    def content(
        self,
        key: bytes,  # noqa: ARG002 - see the protocol
        stopping: threading.Event | None,  # noqa: ARG002 - see the protocol
    ) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def llm_call(self, stopping: threading.Event | None) -> AbstractContextManager[None]:  # noqa: ARG002 - see the protocol
        """Do nothing."""
        return nullcontext()


class QueueEntries:
    """The entries of a run in the queue: none, because the caller stores the documents."""

    def begin(self, documents: Sequence[SourceDocument], manifest: Mapping[str, str]) -> None:
        """Record that the run has accepted the documents."""

    def mark_processing(self, ids: Sequence[str]) -> None:
        """Record that work on the documents begins."""

    def mark_failed(self, id_: str, error: Exception) -> None:
        """Record that a document failed."""

    def give_up(self) -> None:
        """Record that the run was aborted."""


@dataclass(frozen=True)
class Queued(QueueEntries):
    """The documents wait in the queue of the index until they are written.

    Attributes:
        store: The index.
    """

    store: Store

    def begin(self, documents: Sequence[SourceDocument], manifest: Mapping[str, str]) -> None:
        """Add the documents to the queue."""
        enqueue(self.store, documents, manifest)

    def mark_processing(self, ids: Sequence[str]) -> None:
        """Change the status of the documents."""
        set_queue_status(self.store, dict.fromkeys(ids, ("processing", None)))

    def mark_failed(self, id_: str, error: Exception) -> None:
        """Change the status of the document, and keep the reason."""
        set_queue_status(self.store, {id_: ("failed", str(error))})

    def give_up(self) -> None:
        """Reset the status of the documents that are not written."""
        requeue(self.store)
