"""Documents that were handed over and not yet indexed, kept in the file: no crash loses them.

The table is made when it is first needed; a file without it has nothing pending. A row of the
manifest gets a new name with each change, so that other users of the file notice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from e2graphrag_integrations.store.database import GENERATION
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.store.rows import checked_row, put_manifest
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.store.sqlite import Store

_TABLE = """CREATE TABLE IF NOT EXISTS pending (
    id TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID"""
_STAMP = "pending"
_STATE = f"SELECT key, value FROM manifest WHERE key IN ('{GENERATION}', '{_STAMP}')"  # noqa: S608 - constants only


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
        row[0]: json.loads(checked_row(row, store.path, f"pending document {row[0]!r}")[1])
        for row in rows
    }


def put_pending(
    store: Store, values: Mapping[str, Any], seen: tuple[str, str] | None = None
) -> tuple[str, str] | None:
    """Keep plain JSON values for documents, at once and for good.

    Returns:
        The file's state now; None if it was not in the state `seen`, and nothing was kept.
    """
    rows = [(id_, canonical_json(value)) for id_, value in values.items()]
    with store.transaction() as db:
        if seen is not None and seen != _state(db.execute(_STATE).fetchall()):
            return None
        db.execute(_TABLE)
        db.executemany(
            "INSERT OR REPLACE INTO pending VALUES (?, ?, ?)",
            ((id_, value, checksum(id_, value)) for id_, value in rows),
        )
        put_manifest(db, _STAMP, uuid.uuid4().hex)
        return _state(db.execute(_STATE).fetchall())


def drop_pending(store: Store, values: Mapping[str, Any]) -> None:
    """Forget documents that are indexed now, but none that has another value by now."""
    rows = [(id_, canonical_json(value)) for id_, value in values.items()]
    with store.transaction() as db:
        db.execute(_TABLE)
        db.executemany("DELETE FROM pending WHERE id = ? AND value = ?", rows)
        put_manifest(db, _STAMP, uuid.uuid4().hex)


def file_state(store: Store) -> tuple[str, str]:
    """Return what changes whenever a document is indexed, is pending, or no longer is."""
    return _state(store.read(_STATE))


def _state(rows: Sequence[Sequence[Any]]) -> tuple[str, str]:
    found = {row[0]: str(row[1]) for row in rows}
    return found.get(GENERATION, ""), found.get(_STAMP, "")
