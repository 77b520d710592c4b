"""Giving back the room of what was deleted."""

from __future__ import annotations

from pathlib import Path

from e2graphrag_integrations.reports import CompactReport
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.sqlite import Store


def compact_store(store: Store) -> CompactReport:
    """Drop content that nothing links to, unless something waits for it, and shrink the file."""
    before = _bytes(store)
    [(contents,)] = store.read("SELECT count(*) FROM content")
    store.drop_unused()
    [(left,)] = store.read("SELECT count(*) FROM content")
    store.vacuum()
    return CompactReport(before, _bytes(store), contents - left)


def _bytes(store: Store) -> int:
    if store.path == MEMORY:
        [(pages,)] = store.read("PRAGMA page_count")
        [(size,)] = store.read("PRAGMA page_size")
        return int(pages) * int(size)
    files = (Path(store.path), Path(f"{store.path}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
