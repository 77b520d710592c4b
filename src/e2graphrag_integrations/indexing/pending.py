"""Pending documents: accepted by an integration, stored in the file, and indexed later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.pipeline import add_documents
from e2graphrag_integrations.indexing.run import IndexingRun
from e2graphrag_integrations.reports import IndexReport
from e2graphrag_integrations.store.tables.pending_documents import (
    drop_pending,
    file_state,
    put_pending,
    read_pending,
)
from e2graphrag_integrations.types import SourceDocument


@dataclass(frozen=True)
class PendingDocuments:
    """The pending documents of an index; see `E2GraphRAG.pending`.

    The integration chooses the ids and the JSON values. Each change is committed immediately, in a
    single transaction.
    """

    _index: OpenIndex

    def state(self) -> tuple[str, str]:
        """Return a value that changes whenever the indexed or pending documents change."""
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
        """Store pending documents by id, and return the new state.

        Returns None and stores nothing if `state()` no longer equals `expected_state`.
        """
        self._index.check_writable()
        state = put_pending(self._index.store, values, expected_state)
        self._index.after_write()
        return state

    def index(self, documents: Sequence[SourceDocument], run: IndexingRun) -> IndexReport:
        """Index documents with unique ids, replacing changed ones, without using the queue.

        Raises the same errors as `E2GraphRAG.add`.
        """
        run = replace(run, queued=False)
        with self._index.exclusive(run):
            return add_documents(documents, self._index, run, on_duplicate="replace")

    def drop(self, values: Mapping[str, Any]) -> None:
        """Remove pending documents that still have the given values, and unused cache entries."""
        drop_pending(self._index.store, values)
        self._index.store.drop_unused(())
