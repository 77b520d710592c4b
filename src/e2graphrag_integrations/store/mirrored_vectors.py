"""Which vectors of an index lie in a vector store elsewhere: what goes is removed there, too.

The table is made when it is first needed, as that of pending documents.
"""

from __future__ import annotations

from collections.abc import Collection

from e2graphrag_integrations.store.sqlite import Store

_TABLE = "CREATE TABLE IF NOT EXISTS mirrored (store TEXT, id TEXT, PRIMARY KEY (store, id))"


def read_mirrored(store: Store, name: str) -> set[str]:
    """Return the ids of the vectors that may lie in the vector store of a name."""
    with store.consistent():
        if not store.read("SELECT 1 FROM sqlite_master WHERE name = 'mirrored'"):
            return set()
        return {id_ for (id_,) in store.read("SELECT id FROM mirrored WHERE store = ?", (name,))}


def put_mirrored(store: Store, name: str, ids: Collection[str]) -> None:
    """Note the ids of the vectors that may lie in the vector store of a name."""
    with store.transaction() as db:
        db.execute(_TABLE)
        there = {id_ for (id_,) in db.execute("SELECT id FROM mirrored WHERE store = ?", (name,))}
        rows = [(name, id_) for id_ in there - set(ids)]
        db.executemany("DELETE FROM mirrored WHERE store = ? AND id = ?", rows)
        db.executemany(
            "INSERT INTO mirrored VALUES (?, ?)", [(name, id_) for id_ in set(ids) - there]
        )
