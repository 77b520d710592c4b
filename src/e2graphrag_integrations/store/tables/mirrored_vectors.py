"""A record of the vectors that were copied to an external vector store.

When a document changes, the record tells which vectors to delete from the external store.
"""

from __future__ import annotations

from collections.abc import Collection

from e2graphrag_integrations.store.store import Store


def read_mirrored(store: Store, name: str) -> set[str]:
    """Return the ids of all vectors that the named vector store may contain."""
    return {id_ for (id_,) in store.read("SELECT id FROM mirrored WHERE store = ?", (name,))}


def put_mirrored(store: Store, name: str, ids: Collection[str]) -> None:
    """Record the ids of all vectors that the named vector store may contain."""
    with store.transaction() as db:
        old = {id_ for (id_,) in db.execute("SELECT id FROM mirrored WHERE store = ?", (name,))}
        rows = [(name, id_) for id_ in old - set(ids)]
        db.executemany("DELETE FROM mirrored WHERE store = ? AND id = ?", rows)
        db.executemany(
            "INSERT INTO mirrored VALUES (?, ?)", [(name, id_) for id_ in set(ids) - old]
        )
