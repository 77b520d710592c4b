"""The queue of accepted documents that are not indexed yet, and the status of each.

A document enters the queue when `add` or `update` accepts it, and leaves the queue in the
transaction that writes its tree. After a crash, a stop or a model failure, `resume()` continues
with the queued documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import SettingsMismatchError
from e2graphrag_integrations.store.database import Transaction
from e2graphrag_integrations.store.records import (
    canonical_json,
    document_fields,
    document_from_fields,
)
from e2graphrag_integrations.store.rows import checked_row, checksum, insert_rows, put_manifest
from e2graphrag_integrations.store.store import QUEUE_MANIFEST, Store
from e2graphrag_integrations.types import SourceDocument

QueueStatus = Literal["pending", "processing", "failed"]
"""It remains `processing` if the process dies while it indexes the document."""

_PUT = (
    "INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
    "number = excluded.number, document = excluded.document, status = excluded.status, "
    "reason = excluded.reason, checksum = excluded.checksum"
)

_PACE = "pace"
"""Manifest key for the number of documents that left the queue, and the seconds that it took."""

_PACE_SECONDS = 300.0
"""Seconds after which earlier documents count half, so the pace is that of the last minutes."""

_MAX_REASON = 2000
"""Maximum number of characters stored for the reason of a failure."""


def read_queue(
    store: Store, ids: Collection[str] | None = None, *, with_failed: bool = True
) -> Iterator[SourceDocument]:
    """Yield the documents in the queue, as they were passed to `add` or `update`, oldest first.

    Args:
        store: The index.
        ids: The ids of the documents to yield; None yields all.
        with_failed: Whether to yield those that have failed.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    for id_, _, encoded, status, _ in _rows(store, ids):
        with invalid_rows(store.path, "the queue"):
            document = document_from_fields(id_, json.loads(encoded))
        if with_failed or status != "failed":
            yield document


def queue_states(store: Store) -> dict[str, tuple[QueueStatus, str | None]]:
    """Return the status and failure reason of each queued document, without decoding its text.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    return {id_: (status, reason) for id_, _, _, status, reason in _rows(store)}


def _rows(store: Store, ids: Collection[str] | None = None) -> Iterator[list[Any]]:
    for row in store.queue_rows(ids):
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
        _put(db, documents)


def enqueue_selected(
    store: Store, select: Callable[[], Sequence[SourceDocument]], manifest: Mapping[str, str]
) -> Sequence[SourceDocument]:
    """Add documents to the queue while other processes index it or add to it.

    Args:
        store: The index.
        select: Returns the documents to add. Called in the transaction, so nobody else writes
            between this and the end of the transaction.
        manifest: The settings and model fingerprints to index the documents with.

    Returns:
        The documents.

    Raises:
        SettingsMismatchError: If documents in the queue were added with others.
    """
    with store.transaction() as db:
        documents = select()
        recorded = store.queue_manifest()
        for key, value in manifest.items():
            if recorded.get(key, value) != value and not key.endswith("_model"):
                raise SettingsMismatchError(
                    f"documents in the queue of {store.path} were added with {key}="
                    f"{short_repr(recorded[key])}, not {short_repr(value)}: open the index with "
                    "the same settings and models, or index the queue first"
                )
        put_manifest(db, QUEUE_MANIFEST, canonical_json({**recorded, **manifest}))
        if not queued_ids(store).isdisjoint(document.id for document in documents):
            store.note_unused(db)  # a worker may have created content of the older version
        _put(db, documents)
    return documents


def _put(db: Transaction, documents: Iterable[SourceDocument]) -> None:
    [last] = db.execute("SELECT coalesce(max(number), 0) FROM queue").fetchone()
    rows = (  # not a list: it would contain all texts
        (document.id, number, canonical_json(document_fields(document)), "pending", None)
        for number, document in enumerate(documents, last + 1)
    )
    insert_rows(db, _PUT, rows)


def queued_ids(store: Store) -> set[str]:
    """Return the ids of the documents in the queue."""
    return {id_ for (id_,) in store.read("SELECT id FROM queue")}


def count_unfinished(store: Store) -> int:
    """Return the number of documents that are stored but not indexed, failed ones included."""
    waiting = "SELECT id FROM queue UNION SELECT id FROM pending"
    [(count,)] = store.read(f"SELECT count(*) FROM ({waiting}) AS waiting")  # noqa: S608 - constant
    return int(count)


def has_unfinished(store: Store) -> bool:
    """Return whether the queue has documents that have not failed."""
    return bool(store.read("SELECT 1 FROM queue WHERE status <> 'failed' LIMIT 1"))


def note_pace(store: Store, documents: int, seconds: float, *, is_first: bool = False) -> None:
    """Record how long it took to index some documents, for the figures of the queue.

    Args:
        store: The index.
        documents: Number of documents, including those that failed.
        seconds: Wall time of the run, or of the worker, since the documents before them.
        is_first: Whether to forget the pace of earlier runs.
    """
    with store.transaction() as db:
        before, spent = (0.0, 0.0) if is_first else _read_pace(store)
        if spent > _PACE_SECONDS:
            before, spent = before / 2, spent / 2
        put_manifest(db, _PACE, canonical_json([before + documents, spent + seconds]))


def documents_per_second(store: Store) -> float | None:
    """Return how many documents one process indexes per second; None if it is unknown.

    Raises:
        CorruptStoreError: If the row does not match its checksum.
    """
    documents, seconds = _read_pace(store)
    return documents / seconds if documents > 0 and seconds > 0 else None


def _read_pace(store: Store) -> tuple[float, float]:
    """Return the number of documents, and the seconds of all processes."""
    for row in store.read("SELECT * FROM manifest WHERE key = ?", (_PACE,)):
        with invalid_rows(store.path, "the pace in the manifest"):
            value = checked_row(row, store.path, "the pace in the manifest")[1]
            documents, seconds = json.loads(value)
            return float(documents), float(seconds)
    return 0.0, 0.0


def set_queue_status(
    store: Store,
    states: Mapping[str, tuple[QueueStatus, str | None]],
    check: Callable[[Transaction], None] = lambda _: None,
) -> None:
    """Set the status and failure reason of queued documents; ignore other ids.

    `check` is called first in the transaction. If it raises, nothing is changed.
    """
    with store.transaction() as db:
        check(db)
        for id_, (status, full_reason) in states.items():
            reason = full_reason and _storable(full_reason)
            row = db.execute("SELECT * FROM queue WHERE id = ?", (id_,)).fetchone()
            if row is not None:
                unchanged = checked_row(row, store.path, f"waiting document {id_!r}")[:3]
                db.execute(
                    "UPDATE queue SET status = ?, reason = ?, checksum = ? WHERE id = ?",
                    (status, reason, checksum(*unchanged, status, reason), id_),
                )


def _storable(reason: str) -> str:
    """Return a reason without secrets and lone surrogates, which an answer of a model may have."""
    return redact(reason)[:_MAX_REASON].encode("utf-8", "replace").decode()


def requeue(store: Store) -> None:
    """Reset the status of documents from `processing` to `pending`."""
    begun = [id_ for id_, (status, _) in queue_states(store).items() if status == "processing"]
    set_queue_status(store, dict.fromkeys(begun, ("pending", None)))


def dequeue(
    store: Store, ids: Sequence[str], check: Callable[[Transaction], None] = lambda _: None
) -> None:
    """Remove documents from the queue; ignore ids that are not in it.

    `check` is called first in the transaction. If it raises, nothing is changed.
    """
    if not ids:
        return
    with store.transaction() as db:
        check(db)
        db.executemany("DELETE FROM queue WHERE id = ?", ((id_,) for id_ in ids))
