"""The cache of community reports in the `content` table.

No node references a report. A row of the kind `report index` therefore lists the chunks that each
report was written from, and a report is dropped together with the first of its chunks: nothing that
was derived from a deleted document remains.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.store.database import Transaction
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.store.rows import (
    REPORT,
    REPORT_INDEX,
    REPORT_INDEX_KEY,
    checked_row,
    insert_rows,
)

_PUT = (
    "INSERT INTO content VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
    "SET kind = excluded.kind, value = excluded.value, checksum = excluded.checksum"
)

_BATCH = 500
"""Keys per query."""


@dataclass(frozen=True, slots=True)
class ReportSource:
    """The sentences that a report is made from.

    Attributes:
        texts: For each chunk, its sentences that mention several entities of the community.
        node_ids: Ids of the chunks.
    """

    texts: tuple[str, ...]
    node_ids: tuple[str, ...]


def put_reports(
    db: Transaction, path: str, reports: Mapping[bytes, bytes], chunks: Sequence[str]
) -> None:
    """Store reports by key, unless one of the chunks that they were written from is missing."""
    if _missing(db, chunks):
        return
    index = _read_index(db, path)
    insert_rows(db, _PUT, ((key, REPORT, value) for key, value in reports.items()))
    _write_index(db, index | {key.hex(): list(chunks) for key in reports})


def drop_stale_reports(db: Transaction, path: str) -> None:
    """Delete the reports of which a chunk no longer exists.

    Raises:
        CorruptStoreError: If the list of reports is damaged.
    """
    index = _read_index(db, path)
    if not index:
        return
    missing = _missing(db, {chunk for chunks in index.values() for chunk in chunks})
    stale = {key for key, chunks in index.items() if not missing.isdisjoint(chunks)}
    if stale:
        rows = ((bytes.fromhex(key),) for key in stale)
        db.executemany("DELETE FROM content WHERE key = ?", rows)
        _write_index(db, {key: chunks for key, chunks in index.items() if key not in stale})


def _read_index(db: Transaction, path: str) -> dict[str, list[str]]:
    row = db.execute("SELECT * FROM content WHERE key = ?", (REPORT_INDEX_KEY,)).fetchone()
    if row is None:
        return {}
    _, _, value = checked_row(row, path, "the list of community reports")
    with invalid_rows(path, "the list of community reports"):
        return {
            str(bytes.fromhex(key).hex()): [str(chunk) for chunk in chunks]
            for key, chunks in json.loads(value).items()
        }


def _write_index(db: Transaction, index: dict[str, list[str]]) -> None:
    row = (REPORT_INDEX_KEY, REPORT_INDEX, canonical_json(index).encode())
    insert_rows(db, _PUT, [row])


def _missing(db: Transaction, chunks: Iterable[str]) -> set[str]:
    wanted = sorted(set(chunks))
    missing = set(wanted)
    for start in range(0, len(wanted), _BATCH):
        batch = wanted[start : start + _BATCH]
        places = ",".join("?" * len(batch))
        rows = db.execute(f"SELECT id FROM nodes WHERE id IN ({places})", batch)  # noqa: S608 - only placeholders
        missing.difference_update(id_ for (id_,) in rows)
    return missing
