"""Reclaiming disk space from deleted documents."""

from __future__ import annotations

from e2graphrag_integrations.reports import CompactReport
from e2graphrag_integrations.store.connection import MEMORY, file_size
from e2graphrag_integrations.store.sqlite import Store


def compact_store(store: Store) -> CompactReport:
    """Delete unused cached content and shrink the file.

    While documents are waiting to be indexed, unused content is kept because they may need it.
    """
    bytes_before = _size(store)
    [(rows_before,)] = store.read("SELECT count(*) FROM content")
    store.drop_unused()
    [(rows_after,)] = store.read("SELECT count(*) FROM content")
    store.vacuum()
    return CompactReport(bytes_before, _size(store), rows_before - rows_after)


def _size(store: Store) -> int:
    if store.path != MEMORY:
        return file_size(store.path)
    [(pages,)] = store.read("PRAGMA page_count")
    [(page_size,)] = store.read("PRAGMA page_size")
    return int(pages) * int(page_size)
