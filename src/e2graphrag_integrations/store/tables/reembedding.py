"""How far the vectors of a new embedder are, as a row of the manifest.

The row exists from the first new vectors until the transaction that replaces the old ones, so it
also tells of a run that was interrupted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.reports import Progress
from e2graphrag_integrations.store.database import Writer
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.store.rows import REEMBEDDING, checked_row, put_manifest
from e2graphrag_integrations.store.store import Store


@dataclass(frozen=True, slots=True)
class NewEmbedderName:
    """How users name the embedder of new vectors.

    Attributes:
        name: Its name.
        model: The name by which it can be loaded; empty for an object of the user.
    """

    name: str
    model: str

    def __add__(self, other: NewEmbedderName) -> NewEmbedderName:
        """Return how to name two embedders; no command can load different ones."""
        if self == other:
            return self
        names = sorted({*self.name.split(", "), *other.name.split(", ")})
        return NewEmbedderName(", ".join(names), "")


@dataclass(frozen=True, slots=True)
class Reembedding:
    """New vectors that are not used yet.

    Attributes:
        embedder: The new embedder.
        done: Number of nodes with new vectors.
        total: Number of nodes.
        is_running: Whether they are being computed; if not, the run was interrupted.
        seconds_left: Estimated seconds until they are used; None if that is unknown.
    """

    embedder: NewEmbedderName
    done: int
    total: int
    is_running: bool
    seconds_left: float | None

    def __add__(self, other: Reembedding) -> Reembedding:
        """Return the sum of two shards. Those that are running do so at the same time."""
        lefts = [one.seconds_left for one in (self, other) if one.is_running]
        known = [left for left in lefts if left is not None]
        return Reembedding(
            self.embedder + other.embedder,
            self.done + other.done,
            self.total + other.total,
            bool(lefts),
            max(known, default=None) if len(known) == len(lefts) else None,
        )


def read_reembedding(store: Store, holder: Writer | None) -> Reembedding | None:
    """Return how far new vectors are; None if no run has begun.

    Args:
        store: The index.
        holder: The other process that is writing.

    Raises:
        CorruptStoreError: If the row is damaged.
    """
    for row in store.read("SELECT * FROM manifest WHERE key = ?", (REEMBEDDING,)):
        with invalid_rows(store.path, "the new vectors in the manifest"):
            value = json.loads(checked_row(row, store.path, "the new vectors in the manifest")[1])
            name = NewEmbedderName(value["embedder"], value["model"])
            writer = Writer.from_json(value["writer"]) if value["writer"] else None
            writing = [one for one in (store.index_lock.own(), holder) if one is not None]
            # A later writer, or one that died, has another time.
            is_running = writer is not None and any(one.may_be(writer) for one in writing)
            left = value["seconds_left"] if is_running else None
            return Reembedding(name, value["done"], value["total"], is_running, left)
    return None


def note_reembedding(
    store: Store, embedder: NewEmbedderName, progress: Progress, writer: Writer | None
) -> None:
    """Record how far new vectors are.

    Args:
        store: The index.
        embedder: The new embedder.
        progress: The progress of the stage `embed`.
        writer: The process that computes them; None if it has failed or was stopped.
    """
    row = {
        "embedder": embedder.name,
        "model": embedder.model,
        "done": progress.done,
        "total": progress.total,
        "seconds_left": progress.seconds_left,
        "writer": "" if writer is None else writer.to_json(),
    }
    with store.transaction() as db:
        put_manifest(db, REEMBEDDING, canonical_json(row))
