"""Pending documents: accepted by an integration, stored in the file, and indexed later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from e2graphrag_integrations.indexing.access import WriteAccess
from e2graphrag_integrations.indexing.context import OpenIndex
from e2graphrag_integrations.indexing.pipeline import add_documents
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.reports import IndexReport
from e2graphrag_integrations.store.pending_documents import (
    drop_pending,
    file_state,
    put_pending,
    read_pending,
)
from e2graphrag_integrations.types import SourceDocument


class PendingDocuments:
    """The pending documents of an index; see `E2GraphRAG.pending`.

    The integration chooses the ids and the JSON values. Every change takes effect at once, in one
    transaction.
    """

    def __init__(self, index: OpenIndex, access: WriteAccess) -> None:
        self._index = index
        self._access = access

    def state(self) -> tuple[str, str]:
        """Return a value that changes with every change to the indexed or pending documents."""
        return file_state(self._index.store)

    def read(self) -> dict[str, Any]:
        """Return the value of every pending document, by id.

        Raises:
            CorruptStoreError: If a row does not match its checksum.
        """
        return read_pending(self._index.store)

    def put(
        self, values: Mapping[str, Any], expected_state: tuple[str, str]
    ) -> tuple[str, str] | None:
        """Store pending documents, unless the file has changed.

        Args:
            values: JSON values by id; they replace earlier values.
            expected_state: The `state()` that the values were computed from.

        Returns:
            The new state; None if the file was in another state, and nothing was stored.
        """
        return put_pending(self._index.store, values, expected_state)

    def index(self, documents: Sequence[SourceDocument], run: IndexingRun) -> IndexReport:
        """Index documents with unique ids, replacing changed ones, without using the queue.

        Raises:
            IndexingError: If no document could be indexed.
            StoppedError: If `run.stop` was set.
        """
        with self._access.exclusive(run):
            run = replace(run, queued=False)
            return add_documents(documents, self._index, run, on_duplicate="replace")

    def drop(self, values: Mapping[str, Any]) -> None:
        """Remove pending documents that still have the given values, and unused cache entries."""
        drop_pending(self._index.store, values)
        self._index.store.drop_unused(())
