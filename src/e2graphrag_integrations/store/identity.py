"""The identity of an index: a random name, which moving or renaming the index does not change."""

from __future__ import annotations

import uuid

from e2graphrag_integrations.store.rows import checked_row, put_manifest
from e2graphrag_integrations.store.store import Store

_IDENTITY = "identity"
"""Manifest key of the identity; missing until something outside of the index refers to it."""


def read_identity(store: Store) -> str:
    """Return the identity of an index, or an empty string if it has none yet."""
    rows = store.read("SELECT * FROM manifest WHERE key = ?", (_IDENTITY,))
    return str(checked_row(rows[0], store.path, "identity in the manifest")[1]) if rows else ""


def ensure_identity(store: Store) -> str:
    """Return the identity of an index; give it one if it has none yet."""
    found = read_identity(store)
    if found:
        return found
    with store.transaction() as db:
        if not db.execute("SELECT 1 FROM manifest WHERE key = ?", (_IDENTITY,)).fetchone():
            put_manifest(db, _IDENTITY, uuid.uuid4().hex)
    return read_identity(store)
