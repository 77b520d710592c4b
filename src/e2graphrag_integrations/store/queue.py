"""The queue: documents that were given and are not indexed yet, each with how far it came.

A document stands here from the moment `add` or `update` takes it until the transaction that writes
its tree: what a crash, a stop or a failing model left is gone on with by `resume()`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from e2graphrag_integrations.store.records import canonical_json, decode_segments, encode_segments
from e2graphrag_integrations.store.rows import checked_row, put_manifest
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.store.sqlite import WAITING, Store
from e2graphrag_integrations.types import SourceDocument

Waiting = Literal["pending", "processing", "failed"]

_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True)
class Queued:
    """A document in the queue.

    Attributes:
        document: As it was given.
        status: `pending`, `processing` while (or when) a process worked on it, `failed`.
        reason: Why it failed.
    """

    document: SourceDocument
    status: Waiting
    reason: str | None = None


def read_queue(store: Store) -> list[Queued]:
    """Return what waits, in the order it was given.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    return [_queued(fields) for fields in _rows(store)]


def queue_states(store: Store) -> dict[str, tuple[Waiting, str | None]]:
    """Return how far each waiting document came, and why it failed; decodes no text.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    return {id_: (status, reason) for id_, _, _, status, reason in _rows(store)}


def _rows(store: Store) -> Iterator[list[Any]]:
    for row in store.read("SELECT * FROM queue ORDER BY number, id"):
        yield checked_row(row, store.path, f"waiting document {row[0]!r}")


def enqueue(store: Store, documents: Iterable[SourceDocument], manifest: Mapping[str, str]) -> None:
    """Let documents wait, all or none; a version that waits already is replaced.

    Args:
        store: The file.
        documents: New and changed ones.
        manifest: What they are to be made with.
    """
    with store.transaction() as db:
        put_manifest(db, WAITING, canonical_json(dict(manifest)))
        [last] = db.execute("SELECT coalesce(max(number), 0) FROM queue").fetchone()
        rows = [
            (document.id, number, _encoded(document), "pending", None)
            for number, document in enumerate(documents, last + 1)
        ]
        db.executemany(
            "INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?, ?, ?)",
            ((*row, checksum(*row)) for row in rows),
        )


def mark(store: Store, states: Mapping[str, tuple[Waiting, str | None]]) -> None:
    """Note how far waiting documents came; of one that does not wait, nothing."""
    with store.transaction() as db:
        for id_, (status, why) in states.items():
            reason = why and why[:_LONGEST_REASON]
            row = db.execute("SELECT * FROM queue WHERE id = ?", (id_,)).fetchone()
            if row is not None:
                kept = checked_row(row, store.path, f"waiting document {id_!r}")[:3]
                db.execute(
                    "UPDATE queue SET status = ?, reason = ?, checksum = ? WHERE id = ?",
                    (status, reason, checksum(*kept, status, reason), id_),
                )


def requeue(store: Store) -> None:
    """Note that nobody works on documents any more."""
    begun = [id_ for id_, (status, _) in queue_states(store).items() if status == "processing"]
    mark(store, dict.fromkeys(begun, ("pending", None)))


def dequeue(store: Store, ids: Sequence[str]) -> None:
    """Let documents wait no more; of one that does not wait, nothing."""
    if not ids:
        return
    with store.transaction() as db:
        db.executemany("DELETE FROM queue WHERE id = ?", ((id_,) for id_ in ids))


def _encoded(document: SourceDocument) -> str:
    return canonical_json(
        {
            "title": document.title,
            "text": document.text,
            "metadata": dict(document.metadata),
            "segments": json.loads(encode_segments(document.segments)),
        }
    )


def _queued(fields: Sequence[Any]) -> Queued:
    id_, _, encoded, status, reason = fields
    value = json.loads(encoded)
    document = SourceDocument(
        id_,
        value["text"],
        value["title"],
        value["metadata"],
        decode_segments(canonical_json(value["segments"])),
    )
    return Queued(document, status, reason)
