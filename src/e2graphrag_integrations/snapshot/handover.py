"""Handing a snapshot in segments over to another process, without its large segment.

A process that prepares snapshots (`retrieval/background`) writes the joined arrays into a folder,
with what questions compute of them. The process that answers questions maps them, and takes the
large segment from its last snapshot. So it merges nothing itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations.entities.normalize import FORM_RULES
from e2graphrag_integrations.search.bm25 import BM25Index, BM25Part
from e2graphrag_integrations.search.dense import OwnVectors
from e2graphrag_integrations.search.segmented import SegmentedIndex
from e2graphrag_integrations.search.term_postings import TermPostings
from e2graphrag_integrations.snapshot.array_files import (
    FORMAT,
    Arrays,
    ArraysToSave,
    Part,
    read_arrays,
    save_arrays,
)
from e2graphrag_integrations.snapshot.conversion import (
    INVALID,
    bm25_arrays,
    restore_bm25,
    restore_snapshot,
    snapshot_arrays,
    snapshot_meta,
)
from e2graphrag_integrations.snapshot.kept_preparation import KEPT, KeptPreparation, computed_parts
from e2graphrag_integrations.snapshot.snapshot import Segments, Snapshot
from e2graphrag_integrations.text.words import TERM_RULES

RULES = {"format": FORMAT, "terms": TERM_RULES, "forms": FORM_RULES}
"""Versions that both processes must have: the package may be replaced while a program runs."""

_RECENT = "recent_"
"""Prefix of the names of the arrays of the recent vectors."""

_CONTENT, _WORDS = "content", "words"
"""Name of the folder inside the temporary one, and of its part with the recent words."""


@dataclass(frozen=True)
class LargeSegment:
    """The segment that is not handed over.

    Attributes:
        generation: The generation of its folder.
        dense: Its vectors.
        postings: Its words.
    """

    generation: str
    dense: OwnVectors
    postings: TermPostings

    @classmethod
    def of(cls, snapshot: Snapshot) -> LargeSegment | None:
        """Return the large segment of a snapshot; None if it is not saved or lacks its words."""
        segments, dense, bm25 = snapshot.segments, snapshot.own_vectors, snapshot.loaded_bm25
        if segments is None or dense is None or bm25 is None:
            return None
        base = dense.base if isinstance(dense, SegmentedIndex) else dense
        return cls(segments.generations[0], base, bm25.parts[0].postings)


def hand_over(snapshot: Snapshot, folder: Path) -> bool:
    """Write a snapshot into a new folder, which the process that takes it over deletes.

    Args:
        snapshot: The snapshot.
        folder: The folder, which does not exist.

    Returns:
        False if the snapshot is not in segments on disk, so that its files are enough.

    Raises:
        OSError: If it cannot be written.
    """
    dense, segments = snapshot.dense, snapshot.segments
    if not isinstance(dense, SegmentedIndex) or segments is None:
        return False
    [large, recent] = snapshot.bm25.parts
    of_vectors = dense.kind.arrays(dense.vectors)
    arrays: dict[str, Any] = {
        name: array for name, array in snapshot_arrays(snapshot).items() if name not in of_vectors
    }
    arrays |= {_RECENT + name: one for name, one in dense.kind.arrays(dense.recent).items()}
    arrays |= {"base_rows": dense.base_rows, "recent_rows": dense.recent_rows}
    arrays |= {"word_rows": large.own_rows, "recent_word_rows": recent.own_rows}
    arrays["dropped_words"] = np.asarray([*large.dropped], dtype=np.int64)
    arrays["dropped_counts"] = np.asarray([*large.dropped.values()], dtype=np.int64)
    if snapshot.tags is not None:
        arrays["chunk_tags"] = snapshot.chunk_tags
    meta = snapshot_meta(snapshot) | {
        "segments": segments.generations,
        "deleted": sorted(segments.deleted),
    }
    words: ArraysToSave = bm25_arrays(BM25Index.of(recent.postings))
    parts: dict[str, Part] = {**computed_parts(snapshot), _WORDS: (words, {})}
    folder.mkdir()
    with on_error(lambda _: shutil.rmtree(folder, ignore_errors=True)):
        save_arrays(folder / _CONTENT, arrays, meta, parts, with_checksums=False)
    return True


def take_over(
    folder: Path, large: LargeSegment, pause: Callable[[], None] = lambda: None
) -> Snapshot | None:
    """Return the snapshot in a folder that `hand_over` has written.

    Everything in the folder is loaded or mapped, so that the folder can be deleted.

    Args:
        folder: The folder.
        large: The large segment.
        pause: Called between steps, so that other threads can run.

    Returns:
        The snapshot; None if a file is missing or damaged, or if it needs another large segment.
    """
    content = folder / _CONTENT
    main, words = read_arrays(content, pause), read_arrays(content / _WORDS, pause)
    kept = {name: read_arrays(content / name, pause) for name in KEPT}
    if main is None or words is None:
        return None
    try:
        snapshot = _restored(*main, large)
        if snapshot is None:
            return None
        pause()
        bm25 = _restored_bm25(main[0], words[0], large.postings)
        pause()
    except INVALID:
        return None
    preparation = KeptPreparation(snapshot.graph, kept.get, lambda *_: None)
    return replace(
        snapshot, prebuilt_bm25=bm25, bm25_factory=lambda _: bm25, preparation=preparation
    )


def _restored(arrays: Arrays, meta: dict[str, Any], large: LargeSegment) -> Snapshot | None:
    """Return the snapshot without its words; None if it needs another large segment."""
    segments = Segments(tuple(meta["segments"]), frozenset(meta["deleted"]))
    if segments.generations[0] != large.generation:
        return None
    kind = large.dense.kind
    names = kind.arrays(large.dense.vectors)
    dense = SegmentedIndex(
        large.dense,
        arrays["base_rows"],
        kind.restored({name: arrays[_RECENT + name] for name in names}),
        arrays["recent_rows"],
        arrays["window_nodes"],
    )
    snapshot = replace(restore_snapshot(arrays, meta, dense, _no_words), segments=segments)
    if not (tags := meta.get("tag_set")):
        return snapshot
    from e2graphrag_integrations.text.tags import TagSet

    assigned = np.asarray(arrays["chunk_tags"])
    return replace(snapshot, tags=TagSet.from_json(tags), tags_factory=lambda _: assigned)


def _restored_bm25(arrays: Arrays, words: Arrays, large: TermPostings) -> BM25Index:
    recent_rows = arrays["recent_word_rows"]
    recent = restore_bm25(words, len(recent_rows)).postings
    columns, counts = arrays["dropped_words"].tolist(), arrays["dropped_counts"].tolist()
    dropped = dict(zip(columns, counts, strict=True))
    unchanged = BM25Part(large, arrays["word_rows"], dropped)
    unchanged.prepare()
    return BM25Index((unchanged, BM25Part(recent, recent_rows)), len(arrays["window_nodes"]))


def _no_words(_: Snapshot) -> BM25Index:
    raise TypeError("the words were not taken over")
