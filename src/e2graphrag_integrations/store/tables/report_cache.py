"""`ReportCache`: the reports of communities as a `ContentCache`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.community_reports import put_reports


class ReportCache:
    """Caches the reports of communities; no node shares their content.

    Args:
        store: The index file.
        chunks: Ids of the chunks from which the next report is written.
    """

    def __init__(self, store: Store, chunks: Sequence[str] = ()) -> None:
        self._store = store
        self._chunks = list(chunks)

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the cached reports by key."""
        own = {_report_key(key): key for key in keys}
        return {own[key]: value for key, value in self._store.cached(own).items()}

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Store reports permanently, unless one of their chunks has been deleted since."""
        del kind
        reports = {_report_key(key): value for key, value in contents.items()}
        with self._store.transaction() as db:
            put_reports(db, self._store.path, reports, self._chunks)


def _report_key(key: bytes) -> bytes:
    """Return a key that differs from that of a summary of the same texts."""
    return hashlib.sha256(b"report\0" + key).digest()
