"""How many documents of an index file wait to be indexed."""

from __future__ import annotations

from e2graphrag_integrations.store.pending_documents import pending_ids
from e2graphrag_integrations.store.queue import queued_ids
from e2graphrag_integrations.store.store import Store


def count_unfinished(store: Store) -> int:
    """Return the number of documents that are stored but not indexed, failed ones included."""
    with store.read_transaction():
        return len(queued_ids(store) | pending_ids(store))
