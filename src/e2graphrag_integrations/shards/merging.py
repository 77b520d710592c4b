"""Which shard a document belongs to, and one snapshot of all shards with the places of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.errors import SettingsMismatchError
from e2graphrag_integrations.shards.host import without_search
from e2graphrag_integrations.snapshot.incremental import SnapshotMerger
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.subset import SnapshotSubsets
from e2graphrag_integrations.store.records import ATTACHED


def shard_of(document_id: str, shards: int) -> int:
    """Return the number of the shard of a document, from 0: a hash of its id, without a table."""
    digest = hashlib.blake2b(document_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards


class ShardRows:
    """The shards of all nodes and windows of a merged snapshot, and their rows there.

    Rows keep their order within a shard, because both are ordered by document.

    Args:
        snapshot: The merged snapshot.
        shards: Number of shards.
    """

    def __init__(self, snapshot: Snapshot, shards: int) -> None:
        owners = np.asarray([shard_of(id_, shards) for id_ in snapshot.documents], dtype=np.int16)
        of_nodes = owners[snapshot.nodes.document]
        of_windows = of_nodes[snapshot.dense.window_nodes]
        self.documents = owners
        """The shard of each document."""
        self.windows = [np.flatnonzero(of_windows == one) for one in range(shards)]
        """The rows of the windows of each shard, ascending."""
        self.nodes = [np.flatnonzero(of_nodes == one) for one in range(shards)]
        """The rows of the nodes of each shard, ascending."""
        self.chunks = [
            np.flatnonzero(of_nodes[snapshot.chunk_nodes] == one) for one in range(shards)
        ]
        """The numbers of the chunks of each shard, ascending."""
        self._owners = of_windows
        self._local = np.empty(len(of_windows), dtype=np.int32)
        for rows in self.windows:
            self._local[rows] = np.arange(len(rows))

    def split(self, windows: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Yield each shard of some windows, their places in the argument, and their rows there."""
        owners = self._owners[windows]
        for shard in np.unique(owners).tolist():
            places = np.flatnonzero(owners == shard)
            yield shard, places, self._local[windows[places]]


def generation_name(generations: Sequence[str]) -> str:
    """Return the name of the generation that consists of one of each shard."""
    return ".".join(generations)


def check_placement(documents: Sequence[str], shard: int, names: Sequence[str]) -> None:
    """Check that documents are in the shard of their ids.

    Raises:
        SettingsMismatchError: If one is not.
    """
    for id_ in documents:
        if (own := shard_of(id_, len(names))) != shard:
            raise SettingsMismatchError(
                f"{names[shard]} contains document {id_!r}, which belongs to {names[own]}: open "
                "all shards in the order in which they were created"
            )


def check_edits(snapshots: Mapping[str, Snapshot]) -> None:
    """Check that all shards, which are given by name, have the same entity edits.

    Raises:
        SettingsMismatchError: If they differ.
    """
    (first, one), *others = snapshots.items()
    for name, other in others:
        if other.edits != one.edits:
            raise SettingsMismatchError(
                f"{first} and {name} have different entity edits: make the same edits in each "
                "shard with E2GraphRAG.open(...).edit_entities, then open the shards again"
            )


def merge_snapshots(
    parts: Mapping[int, Snapshot], generation: str, names: Sequence[str]
) -> Snapshot:
    """Return one snapshot of disjoint documents, as if they had been indexed together.

    Args:
        parts: The snapshots, without vectors; at least one.
        generation: Name of the merged generation.
        names: The names of all shards.

    Raises:
        SettingsMismatchError: If they were built with different settings or models.
    """
    made_with = merged_manifest({names[shard]: one.made_with for shard, one in parts.items()})
    filled = [one for one in parts.values() if one.documents] or [next(iter(parts.values()))]
    while len(filled) > 1:  # in pairs, so that few rows are copied often
        odd = filled[len(filled) // 2 * 2 :]
        pairs = zip(filled[::2], filled[1::2], strict=False)
        filled = [*(_joined(*pair) for pair in pairs), *odd]
    return replace(filled[0], generation=generation, made_with=made_with)


def replace_shard(
    merged: Snapshot, rows: ShardRows, shard: int, newer: Snapshot, generation: str
) -> Snapshot:
    """Return a merged snapshot with another snapshot of one shard."""
    kept = [
        id_
        for id_, owner in zip(merged.documents, rows.documents.tolist(), strict=True)
        if owner != shard
    ]
    documents = sorted([*kept, *newer.documents])
    merger = SnapshotMerger(without_search(merged), newer, documents)
    settings = {
        "another shard": merged.made_with if kept else {},
        f"shard {shard}": newer.made_with,
    }
    return merger.merge(generation, merged_manifest(settings), None)


def without_shards(
    merged: Snapshot, rows: ShardRows, missing: Collection[int], generation: str
) -> Snapshot:
    """Return a merged snapshot without the documents of some shards."""
    is_kept = ~np.isin(rows.documents, list(missing))
    subsets = SnapshotSubsets(without_search(merged))
    left = subsets.take(is_kept[merged.nodes.document], merged.edits)
    return replace(left, generation=generation)


def _joined(older: Snapshot, newer: Snapshot) -> Snapshot:
    merger = SnapshotMerger(older, newer, sorted([*older.documents, *newer.documents]))
    return merger.merge(newer.generation, newer.made_with, None)


def merged_manifest(parts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the settings and model fingerprints of all shards, which are given by name.

    Raises:
        SettingsMismatchError: If they differ, or a shard is enriched.
    """
    merged: dict[str, str] = {}
    for name, one in parts.items():
        if ATTACHED in one:
            raise SettingsMismatchError(
                f"{name} is enriched, which an index in shards cannot search: call "
                "remove_enrichment() of the shard, or use an index in one file or schema"
            )
        for key, value in one.items():
            if merged.setdefault(key, value) != value:
                raise SettingsMismatchError(
                    f"{name} was built with {key}={value}, but another shard with {merged[key]}: "
                    "index its documents again"
                )
    return merged
