"""How far the vectors of a new embedder are, as a row of the manifest.

The row exists from the first new vectors until the transaction that replaces the old ones, so it
also tells of a run that was interrupted.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.store.rows import REEMBEDDING, checked_row, put_manifest
from e2graphrag_integrations.store.store import Store


@dataclass(frozen=True, slots=True)
class Reembedding:
    """New vectors that are not used yet.

    Attributes:
        embedder: Name of the new embedder.
        model: The name by which it can be loaded; empty for an object of the user.
        done: Number of nodes with new vectors.
        total: Number of nodes.
        seconds: Wall time of the run.
        process: The process that computes them; empty if it has ended with an error or a stop.
        noted: When the figures were written, in local time.
    """

    embedder: str
    model: str
    done: int
    total: int
    seconds: float
    process: str
    noted: str

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the new vectors are used; None if that is unknown."""
        return self.seconds * (self.total - self.done) / self.done if self.done else None

    def is_running(self, writer: str | None) -> bool:
        """Return whether the run goes on.

        Args:
            writer: The other process that is writing, and since when.
        """
        if not self.process or self.process == _own_process():
            return bool(self.process)
        return writer is not None and writer.rpartition(" since ")[2] <= self.noted


def read_reembedding(store: Store) -> Reembedding | None:
    """Return how far new vectors are; None if no run has begun.

    Raises:
        CorruptStoreError: If the row is damaged.
    """
    for row in store.read("SELECT * FROM manifest WHERE key = ?", (REEMBEDDING,)):
        with invalid_rows(store.path, "the new vectors in the manifest"):
            value = checked_row(row, store.path, "the new vectors in the manifest")[1]
            return Reembedding(**json.loads(value))
    return None


def note_reembedding(
    store: Store,
    embedder: str,
    model: str,
    figures: tuple[int, int, float],
    *,
    ended: bool = False,
) -> None:
    """Record how far new vectors are.

    Args:
        store: The index.
        embedder: Name of the new embedder.
        model: The name by which it can be loaded, or an empty text.
        figures: The numbers of finished nodes and of all nodes, and the seconds.
        ended: Whether the run has been stopped or has failed.
    """
    process = "" if ended else _own_process()
    noted = time.strftime("%Y-%m-%d %H:%M:%S")
    row = Reembedding(embedder, model, *figures, process, noted)
    with store.transaction() as db:
        put_manifest(db, REEMBEDDING, canonical_json(asdict(row)))


def _own_process() -> str:
    return f"{os.getpid()} on {socket.gethostname()}"
