"""Copying an index to another number of shards, row by row and without a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from typing import Any

from e2graphrag_integrations.options import IndexSettings
from e2graphrag_integrations.shards.merging import check_placement, merged_manifest, shard_of
from e2graphrag_integrations.shards.shards_file import ShardsFile, new_shards, planned_shards
from e2graphrag_integrations.store.database import Transaction
from e2graphrag_integrations.store.rows import SOURCE_FILE, checked_row, put_manifest, row_to_header
from e2graphrag_integrations.store.store import QUEUE_MANIFEST, Store

_DOCUMENTS = 50
"""Documents that are copied in one transaction."""

_QUEUE = "SELECT * FROM queue {}"
_NODES = "SELECT * FROM nodes {}"
_WINDOWS = "SELECT w.* FROM windows w JOIN nodes n ON n.id = w.node_id {}"

_KEY = -2
"""The column of nodes and windows with the key of their content."""


def rebalance(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    shards: int | Sequence[str],
    *,
    lock_timeout: float = 30.0,
) -> ShardsFile:
    """Copy an index in shards to another number of shards, without calling a model.

    Nodes, summaries, vectors, stamps, tags and waiting documents are copied as they are. Nobody can
    write to the source meanwhile. The target can be opened when everything is copied; the source
    remains, and can be deleted then.

    Args:
        source: The file that lists the shards.
        target: The file to create for the new ones.
        shards: As in `create_shards`.
        lock_timeout: Seconds to wait while another process is writing.

    Returns:
        The content of the new file.

    Raises:
        InvalidInputError: If the target or a new shard exists. A copy that was killed may have left
            new shards: delete them, or choose another name.
        SettingsMismatchError: If the shards were built with different settings or models.
        CorruptStoreError: If a row is damaged.
        StoreLockedError: If another process is writing for longer than `lock_timeout`.
    """
    listed = ShardsFile.read(source)
    planned = planned_shards(target, shards, listed.embedder, IndexSettings(**listed.settings))
    locations = planned.new_locations(target)
    with ExitStack() as stack:
        sources = [
            stack.enter_context(closing(Store(one, timeout=lock_timeout)))
            for one in listed.locations(source)
        ]
        for store in sources:
            stack.enter_context(store.index_lock.acquire())
        create = stack.enter_context(new_shards(timeout=lock_timeout))
        targets = [stack.enter_context(closing(create(one))) for one in locations]
        _copy_manifests(sources, targets)
        for number, store in enumerate(sources):
            check_placement(list(store.content_hashes()), number, [each.path for each in sources])
            _copy_documents(store, targets)
            _copy_queue(store, targets)
        for store in targets:
            with store.transaction() as db:
                store.new_generation(db)
        planned.write(target)
    return planned


def _copy_manifests(sources: Sequence[Store], targets: Sequence[Store]) -> None:
    """Write what all shards have in common, and the file of each document."""
    made_with = merged_manifest({one.path: one.manifest() for one in sources})
    waiting = merged_manifest({one.path: one.queue_manifest() for one in sources})
    tag_set = sources[0].tag_set()
    edits = sources[0].read("SELECT * FROM entity_edits")
    rows = [row for one in sources for row in one.read("SELECT * FROM manifest")]
    files = [row for row in rows if row[0].startswith(SOURCE_FILE)]
    for number, target in enumerate(targets):
        with target.transaction() as db:
            for key, entries in (("made_with", made_with), (QUEUE_MANIFEST, waiting)):
                if entries:
                    put_manifest(db, key, json.dumps(entries))
            _insert(db, "entity_edits", edits)
            own = [
                row
                for row in files
                if shard_of(row[0].removeprefix(SOURCE_FILE), len(targets)) == number
            ]
            _insert(db, "manifest", own)
        if tag_set is not None:
            target.put_tag_set(tag_set)


def _copy_documents(source: Store, targets: Sequence[Store]) -> None:
    for number, ids in _batches(list(source.content_hashes()), len(targets)):
        read = source.database.read_keys
        documents = list(read("SELECT * FROM documents {}", "id", ids))
        nodes, windows = (
            list(read(_NODES, "document_id", ids)),
            list(read(_WINDOWS, "document_id", ids)),
        )
        keys = list({row[_KEY] for row in (*nodes, *windows)})
        content = list(read("SELECT * FROM content {}", "key", keys))
        for row in documents:
            row_to_header(row, source.path)
        for name, rows in (("nodes", nodes), ("windows", windows), ("content", content)):
            for row in rows:
                checked_row(row, source.path, f"a row of {name}")
        with targets[number].transaction() as db:
            _insert(db, "content", content)
            _insert(db, "documents", documents)
            _insert(db, "nodes", nodes)
            _insert(db, "windows", windows)


def _copy_queue(source: Store, targets: Sequence[Store]) -> None:
    ids = [row[0] for row in source.queue_rows()]
    for number, own in _batches(ids, len(targets)):
        rows = list(source.database.read_keys(_QUEUE, "id", own))
        for row in rows:
            checked_row(row, source.path, "a row of the queue")
        with targets[number].transaction() as db:
            _insert(db, "queue", rows)


def _batches(ids: Sequence[str], shards: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the shard of some ids, and at most `_DOCUMENTS` of them."""
    owners = sorted((shard_of(id_, shards), id_) for id_ in ids)
    for number, group in groupby(owners, key=lambda pair: pair[0]):
        own = [id_ for _, id_ in group]
        for first in range(0, len(own), _DOCUMENTS):
            yield number, own[first : first + _DOCUMENTS]


def _insert(db: Transaction, table: str, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        places = ", ".join("?" * len(rows[0]))
        db.executemany(
            f"INSERT INTO {table} VALUES ({places}) ON CONFLICT DO NOTHING",  # noqa: S608 - placeholders only
            rows,
        )
