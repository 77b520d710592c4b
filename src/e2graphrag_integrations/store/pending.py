"""Documents that were handed over and not yet indexed, kept in the file: no crash loses them.

The table is made when it is first needed; a file without it has nothing pending.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.store.rows import checked
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.store.sqlite import Store

_TABLE = """CREATE TABLE IF NOT EXISTS pending (
    id TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID"""


def read_pending(store: Store) -> dict[str, Any]:
    """Return what is pending, by document id.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    with store.consistent():
        if not store.read("SELECT 1 FROM sqlite_master WHERE name = 'pending'"):
            return {}
        rows = store.read("SELECT * FROM pending ORDER BY id")
    return {
        row[0]: json.loads(checked(row, store.path, f"pending document {row[0]!r}")[1])
        for row in rows
    }


def put_pending(store: Store, values: Mapping[str, Any]) -> None:
    """Keep plain JSON values for documents, at once and for good."""
    rows = [(id_, canonical_json(value)) for id_, value in values.items()]
    with store.transaction() as db:
        db.execute(_TABLE)
        db.executemany(
            "INSERT OR REPLACE INTO pending VALUES (?, ?, ?)",
            ((id_, value, checksum(id_, value)) for id_, value in rows),
        )


def drop_pending(store: Store, ids: Iterable[str]) -> None:
    """Forget documents that are indexed now."""
    with store.transaction() as db:
        db.execute(_TABLE)
        db.executemany("DELETE FROM pending WHERE id = ?", ((id_,) for id_ in ids))
