"""The table of the user's entity edits."""

from __future__ import annotations

import json

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.store.rows import checked_row, insert_rows
from e2graphrag_integrations.store.store import Store


def read_edits(store: Store) -> EntityEdits:
    """Return the edits of an index.

    Raises:
        CorruptStoreError: If a row does not match its checksum, or the edits contradict each other.
    """
    rows = store.read("SELECT * FROM entity_edits ORDER BY id")
    with invalid_rows(store.path, "an entity edit"):
        return EntityEdits.from_json(
            [json.loads(checked_row(row, store.path, f"entity edit {row[0]!r}")[1]) for row in rows]
        )


def write_edits(store: Store, edits: EntityEdits) -> None:
    """Replace the edits of an index, in one transaction that starts a new generation."""
    rows = [(one.id, canonical_json([one.kind, *one.names])) for one in edits]
    with store.transaction() as db:
        db.execute("DELETE FROM entity_edits")
        insert_rows(db, "INSERT INTO entity_edits VALUES (?, ?, ?)", rows)
        store.new_generation(db)
