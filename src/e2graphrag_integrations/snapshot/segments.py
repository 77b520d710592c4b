"""Snapshots in several segments: a large one, and small ones for the documents that changed since.

A segment is the snapshot of some documents. It never changes. A document that has changed is in
several segments, of which the last one counts, as in the segments of Lucene.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from e2graphrag_integrations.snapshot.incremental import SnapshotMerger
from e2graphrag_integrations.snapshot.snapshot import Segments, Snapshot


def followed_by(segments: Segments, newer: Snapshot, removed: Iterable[str]) -> Segments:
    """Return segments with a further one.

    Args:
        segments: The segments before the change.
        newer: The snapshot of the documents that changed.
        removed: Ids of the documents that were deleted.
    """
    deleted = segments.deleted.union(removed).difference(newer.documents)
    return Segments((*segments.generations, newer.generation), frozenset(deleted))


def join_segments(
    parts: Sequence[Snapshot], deleted: AbstractSet[str], *, may_segment: bool = False
) -> Snapshot:
    """Return one snapshot of the documents in several segments, with its BM25 index.

    Args:
        parts: The segments, oldest first. Each can load its BM25 index. The last one contains no
            document that was deleted since.
        deleted: Ids of the documents that were deleted.
        may_segment: Whether to leave most of the first segment where it is.
    """
    *older, joined = parts
    for part in reversed(older):  # so that the newer one of two contains no outdated document
        documents = sorted({*part.documents, *joined.documents} - deleted)
        merger = SnapshotMerger(part, joined, documents)
        joined = merger.merge(
            joined.generation, joined.made_with, part.bm25, may_segment=may_segment
        )
    return joined
