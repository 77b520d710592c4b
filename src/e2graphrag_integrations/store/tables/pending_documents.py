"""Documents that a caller has submitted but that are not indexed yet.

They are stored in the index file, so that they survive a crash. Every change writes a new stamp to
the manifest, so that other users of the file notice it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.store.rows import GENERATION, checked_row, insert_rows, put_manifest
from e2graphrag_integrations.store.store import Store

_PUT = (
    "INSERT INTO pending VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE "
    "SET value = excluded.value, checksum = excluded.checksum"
)
_STAMP = "pending"
_STATE = f"SELECT key, value FROM manifest WHERE key IN ('{GENERATION}', '{_STAMP}')"  # noqa: S608 - constants only


def read_pending(store: Store) -> dict[str, Any]:
    """Return the pending documents by id.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    rows = store.read("SELECT * FROM pending ORDER BY id")
    with invalid_rows(store.path, "a pending document"):
        return {
            row[0]: json.loads(checked_row(row, store.path, f"pending document {row[0]!r}")[1])
            for row in rows
        }


def pending_ids(store: Store) -> set[str]:
    """Return the ids of the pending documents."""
    return {id_ for (id_,) in store.read("SELECT id FROM pending")}


def put_pending(
    store: Store, values: Mapping[str, Any], expected_state: tuple[str, str] | None = None
) -> tuple[str, str] | None:
    """Store pending documents in one transaction.

    Args:
        store: The index file.
        values: A JSON value for each document id, which replaces any earlier value.
        expected_state: The `file_state` when the values were computed; None skips the check.

    Returns:
        The new state of the file, or None if its state differed from `expected_state`. In that
            case, nothing is stored.
    """
    rows = [(id_, canonical_json(value)) for id_, value in values.items()]
    with store.transaction() as db:
        if expected_state is not None and expected_state != _state(db.execute(_STATE).fetchall()):
            return None
        insert_rows(db, _PUT, rows)
        put_manifest(db, _STAMP, uuid.uuid4().hex)
        return _state(db.execute(_STATE).fetchall())


def drop_pending(store: Store, values: Mapping[str, Any]) -> None:
    """Delete pending documents, except those whose stored value differs from the given one."""
    rows = [(id_, canonical_json(value)) for id_, value in values.items()]
    with store.transaction() as db:
        db.executemany("DELETE FROM pending WHERE id = ? AND value = ?", rows)
        put_manifest(db, _STAMP, uuid.uuid4().hex)


def file_state(store: Store) -> tuple[str, str]:
    """Return the generation and the pending stamp.

    At least one of them changes whenever an indexed or pending document changes.
    """
    return _state(store.read(_STATE))


def _state(rows: Sequence[Sequence[Any]]) -> tuple[str, str]:
    values = {row[0]: str(row[1]) for row in rows}
    return values.get(GENERATION, ""), values.get(_STAMP, "")
