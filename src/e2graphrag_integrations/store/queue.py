"""The queue of accepted documents that are not indexed yet, and the status of each.

A document enters the queue when `add` or `update` accepts it, and leaves the queue in the
transaction that writes its tree. After a crash, a stop or a model failure, `resume()` continues
with the queued documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations._utils.redaction import redact
from e2graphrag_integrations.store.records import (
    canonical_json,
    document_fields,
    document_from_fields,
)
from e2graphrag_integrations.store.rows import checked_row, put_manifest
from e2graphrag_integrations.store.schema import checksum
from e2graphrag_integrations.store.store import QUEUE_MANIFEST, Store
from e2graphrag_integrations.types import SourceDocument

QueueStatus = Literal["pending", "processing", "failed"]

_PUT = (
    "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
    "number = excluded.number, document = excluded.document, status = excluded.status, "
    "reason = excluded.reason, checksum = excluded.checksum"
)

_MAX_REASON = 2000
"""Maximum number of characters stored for the reason of a failure."""


@dataclass(frozen=True, slots=True)
class QueuedDocument:
    """A document in the queue.

    Attributes:
        document: The document that was passed to `add` or `update`.
        status: `pending`, `processing` or `failed`. The status remains `processing` if the process
            dies while it indexes the document.
        reason: Why the document failed, if it did.
    """

    document: SourceDocument
    status: QueueStatus
    reason: str | None = None


def read_queue(store: Store) -> list[QueuedDocument]:
    """Return the documents in the queue, oldest first.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    with invalid_rows(store.path, "the queue"):
        return [
            QueuedDocument(document_from_fields(id_, json.loads(encoded)), status, reason)
            for id_, _, encoded, status, reason in _rows(store)
        ]


def queue_states(store: Store) -> dict[str, tuple[QueueStatus, str | None]]:
    """Return the status and failure reason of each queued document, without decoding its text.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    # Files of earlier versions may contain keys that a server repeated.
    return {id_: (status, reason and redact(reason)) for id_, _, _, status, reason in _rows(store)}


def _rows(store: Store) -> Iterator[list[Any]]:
    for row in store.read("SELECT * FROM queue ORDER BY number, id"):
        yield checked_row(row, store.path, f"waiting document {row[0]!r}")


def enqueue(store: Store, documents: Iterable[SourceDocument], manifest: Mapping[str, str]) -> None:
    """Add documents to the queue in one transaction, replacing earlier queued versions.

    Args:
        store: The index file.
        documents: New and changed documents.
        manifest: The settings and model fingerprints to index the documents with.
    """
    with store.transaction() as db:
        put_manifest(db, QUEUE_MANIFEST, canonical_json(dict(manifest)))
        [last] = db.execute("SELECT coalesce(max(number), 0) FROM queue").fetchone()
        rows = [
            (document.id, number, canonical_json(document_fields(document)), "pending", None)
            for number, document in enumerate(documents, last + 1)
        ]
        db.executemany(
            _PUT,
            ((*row, checksum(*row)) for row in rows),
        )


def set_queue_status(store: Store, states: Mapping[str, tuple[QueueStatus, str | None]]) -> None:
    """Set the status and failure reason of queued documents; ignore other ids."""
    with store.transaction() as db:
        for id_, (status, full_reason) in states.items():
            reason = full_reason and redact(full_reason)[:_MAX_REASON]
            row = db.execute("SELECT * FROM queue WHERE id = ?", (id_,)).fetchone()
            if row is not None:
                unchanged = checked_row(row, store.path, f"waiting document {id_!r}")[:3]
                db.execute(
                    "UPDATE queue SET status = ?, reason = ?, checksum = ? WHERE id = ?",
                    (status, reason, checksum(*unchanged, status, reason), id_),
                )


def requeue(store: Store) -> None:
    """Reset the status of documents from `processing` to `pending`."""
    begun = [id_ for id_, (status, _) in queue_states(store).items() if status == "processing"]
    set_queue_status(store, dict.fromkeys(begun, ("pending", None)))


def dequeue(store: Store, ids: Sequence[str]) -> None:
    """Remove documents from the queue; ignore ids that are not in it."""
    if not ids:
        return
    with store.transaction() as db:
        db.executemany("DELETE FROM queue WHERE id = ?", ((id_,) for id_ in ids))
