"""The snapshot on disk, in the folder `<index>.snapshot/<generation>/`.

A snapshot can always be derived from the store, so a missing, incomplete or damaged folder is
rebuilt. The BM25 index, the IVF lists, their quantized vectors and the tags of the chunks are built
on first use and stored in the subfolders `words`, `cells`, `codes` and `tags`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.files import discard_folder
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import FLOAT32, DenseIndex, VectorKind
from e2graphrag_integrations.search.ivf import InvertedLists, ListCodes
from e2graphrag_integrations.snapshot.array_files import (
    Arrays,
    ArraysToSave,
    Part,
    array_file,
    load_arrays,
    newest_version,
    publish,
    read_meta,
    remove_temporary_folders,
    save_arrays,
    unused_name,
)
from e2graphrag_integrations.snapshot.build import bm25_from_store, build_snapshot, stored_edits
from e2graphrag_integrations.snapshot.conversion import (
    INVALID,
    bm25_arrays,
    has_current_forms,
    is_consistent,
    is_consistent_bm25,
    is_consistent_codes,
    is_consistent_ivf,
    restore_bm25,
    restore_snapshot,
    snapshot_arrays,
    snapshot_meta,
)
from e2graphrag_integrations.snapshot.snapshot import Segments, Snapshot
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.text.words import TERM_RULES

_MIN_UNCHANGED = 0.1
"""Minimum share of unchanged documents at which merging an older snapshot is faster than a full
build (measured 2026-11-22)."""

_MAX_SEGMENTS = 8
"""Maximum number of folders of a snapshot. One more, and those of recent changes become one."""

_MIN_KEPT = 20_000
"""Minimum number of nodes at which what the first question computes is kept. In a smaller index,
computing it takes no longer than checking the files."""

_GENERATION = re.compile(r"[0-9a-f]{32}")
_FOLDER = re.compile(rf"({_GENERATION.pattern})(?:\.\d+)?")
"""Names of snapshots: the generation, and a number if an older version was in use."""

_NO_RULES: Mapping[str, int] = MappingProxyType({})
_WORD_RULES = MappingProxyType({"terms": TERM_RULES})
"""Versions of the rules that derive the BM25 index, which is built again if they change."""


_KINDS = ("", "int8")
"""The names of all kinds of vectors."""


def vector_kind(name: object) -> VectorKind:
    """Return the kind of vectors that a value of `vectors=` chooses, or else float32."""
    if name == "int8":
        from e2graphrag_integrations.search.int8 import INT8

        return INT8
    return FLOAT32


def load_or_build_snapshot(
    store: Store, older: Snapshot | None = None, *, kind: VectorKind = FLOAT32
) -> Snapshot:
    """Return the snapshot of the store's current generation.

    If there is a valid snapshot on disk, it is loaded. Otherwise a snapshot is built and saved.

    Args:
        store: The store.
        older: A snapshot of a different generation, which avoids reading unchanged documents. If
            None, look for one on disk.
        kind: The kind of the vectors, which is also that of `older`.

    Raises:
        CorruptStoreError: If a row is damaged or references a missing row.
    """
    if store.snapshot_folder is None:
        bm25 = None if older is None else older.loaded_bm25
        return _update(store, older, bm25, kind=kind)[0]
    if not _GENERATION.fullmatch(store.generation):
        # The generation becomes a folder name, which must not lead outside the snapshot's folder.
        raise CorruptStoreError(f"{store.path}: the manifest's generation is damaged; run verify()")
    files = _SnapshotFiles(store, store.snapshot_folder, kind=kind)
    if older is None or not _is_large(older):  # otherwise, an update takes less time than loading
        loaded = files.load(store.generation)
        if loaded is not None:
            return loaded
    older = older if older is not None else files.load_any()
    if older is None and kind is not FLOAT32:
        exact = _SnapshotFiles(store, store.snapshot_folder)
        converted = exact.load_encoded(store.generation, kind)
        if converted is not None:
            return files.save(converted)
    bm25 = None if older is None else older.loaded_bm25 or files.load_bm25(older)
    updated, newer = _update(store, older, bm25, kind=kind)
    if older is not None and newer is not None and updated.has_segments:
        return files.save_segment(updated, newer, older)
    return files.save(updated)


def load_snapshot(
    store: Store, generation: str, pause: Callable[[], None], *, kind: VectorKind = FLOAT32
) -> Snapshot | None:
    """Return the snapshot of a generation from disk; None if it is missing or damaged.

    Args:
        store: The store.
        generation: The generation.
        pause: Called between steps, so that other threads can run.
        kind: The kind of the vectors.
    """
    if store.snapshot_folder is None:
        return None
    return _SnapshotFiles(store, store.snapshot_folder, kind=kind).load(generation, pause)


def load_segment(
    store: Store, generation: str, pause: Callable[[], None], *, kind: VectorKind = FLOAT32
) -> Snapshot | None:
    """Return the documents in the folder of one generation; None without its BM25 index.

    The arguments are those of `load_snapshot`.
    """
    if store.snapshot_folder is None:
        return None
    return _SnapshotFiles(store, store.snapshot_folder, kind=kind).load_segment(generation, pause)


def _is_large(snapshot: Snapshot) -> bool:
    from e2graphrag_integrations.snapshot.incremental import is_large

    return is_large(snapshot)


def merge_segments(store: Store, snapshot: Snapshot) -> Callable[[], Snapshot | None]:
    """Write a snapshot in one segment, and return a function that replaces all others by it.

    Nothing else of this process may save a snapshot during that call, because it would refer to
    segments that no longer exist.

    Args:
        store: The store.
        snapshot: A snapshot of any generation.

    Returns:
        The function. It returns the snapshot; None if it cannot be saved, because it would then
        need too much memory.
    """
    if store.snapshot_folder is None:
        from e2graphrag_integrations.snapshot.incremental import merged_segments

        merged = merged_segments(snapshot)
        return lambda: merged
    files = _SnapshotFiles(store, store.snapshot_folder, kind=snapshot.kind)
    return files.write_in_one(snapshot)


def _update(
    store: Store, older: Snapshot | None, bm25: BM25Index | None, *, kind: VectorKind
) -> tuple[Snapshot, Snapshot | None]:
    """Build a snapshot of the current state, reusing an older one if that is faster.

    `bm25` and `kind` are those of `older`. Without `bm25`, the new snapshot has none either.

    Returns:
        The snapshot, and that of the changed documents; None if all rows were read.

    Raises:
        CorruptStoreError: If a row is damaged or references a missing row.
    """
    if older is None:
        return build_snapshot(store, kind=kind), None
    with store.read_transaction():
        stamps = store.stamps()
        unchanged = {
            id_
            for id_, stamp in zip(older.documents, older.stamps, strict=True)
            if stamps.get(id_) == stamp
        }
        edits = stored_edits(store)
        reads_alike = (older.edits.spelled_apart, older.edits.homonyms) == (
            edits.spelled_apart,
            edits.homonyms,
        )
        if len(unchanged) < _MIN_UNCHANGED * len(stamps) or not reads_alike:
            return build_snapshot(store, kind=kind), None
        changed = [id_ for id_ in stamps if id_ not in unchanged]
        newer = build_snapshot(store, changed, kind=kind)
        if bm25 is not None:
            _ = newer.bm25  # reads texts, so it must run in this transaction
    from e2graphrag_integrations.snapshot.incremental import SnapshotMerger

    merger = SnapshotMerger(older, newer, list(stamps))
    return merger.merge(newer.generation, newer.made_with, bm25), newer


def find_stale_parts(store: Store) -> list[str]:
    """Return the names of those parts of the snapshot on disk that differ from a fresh build.

    The result is empty if the snapshot of the current generation is missing from disk or damaged,
    because it is then rebuilt on the next use.
    """
    if store.snapshot_folder is None or not _GENERATION.fullmatch(store.generation):
        return []
    folder = store.snapshot_folder
    every = (_SnapshotFiles(store, folder, kind=vector_kind(kind)) for kind in _KINDS)
    return [name for files in every for name in _stale_parts(store, files)]


def _stale_parts(store: Store, files: _SnapshotFiles) -> list[str]:
    loaded = files.load(store.generation)
    if loaded is None:
        return []
    built = build_snapshot(store, kind=loaded.kind)
    actual, expected = snapshot_arrays(loaded), snapshot_arrays(built)
    stale = [name for name in expected if not np.array_equal(expected[name], actual.get(name, ()))]
    loaded_meta = snapshot_meta(loaded)
    built_meta = snapshot_meta(built)
    stale += [name for name, value in built_meta.items() if loaded_meta.get(name) != value]
    bm25 = loaded.loaded_bm25 or files.load_bm25(built)
    if bm25 is not None:
        words, built_words = bm25_arrays(bm25), bm25_arrays(bm25_from_store(store, built))
        if not all(np.array_equal(words[name], built_words[name]) for name in built_words):
            stale.append("words")
    stale += loaded.preparation.stale(built)
    dense = loaded.dense
    if isinstance(dense, DenseIndex) and dense.ivf and not dense.ivf.has_codes_of(dense.vectors):
        stale.append("codes")
    tags = None if built.tags is None else files.load_tags(built)
    if tags is not None and not np.array_equal(tags, built.chunk_tags):
        stale.append("tags")
    return stale


class _SnapshotFiles:
    """Reads and writes the snapshot folders of one store.

    Args:
        store: The store.
        folder: Their folder.
        kind: The kind of the vectors. Each but float32 has a subfolder of its own, so that readers
            of two kinds do not replace each other's.
    """

    def __init__(self, store: Store, folder: Path, *, kind: VectorKind = FLOAT32) -> None:
        self._store = store
        self._folder = folder / kind.name
        self._kind = kind

    def load(self, generation: str, pause: Callable[[], None] = lambda: None) -> Snapshot | None:
        """Return the snapshot of a generation, or None if a part is missing or damaged."""
        content = load_arrays(self._folder / generation, pause)
        if content is None:
            return None
        arrays, meta = content
        try:
            own = self._restore(generation, arrays, meta, pause)
            if own is None:
                return None
            if not meta.get("segments"):
                return self._with_preparation(own)
            generations = [str(one) for one in meta["segments"]]
            return self._join(own, generations, frozenset(map(str, meta["deleted"])))
        except INVALID:
            return None

    def _restore(
        self, generation: str, arrays: Arrays, meta: dict[str, Any], pause: Callable[[], None]
    ) -> Snapshot | None:
        """Return the snapshot of the documents in one folder, or None if it is not valid."""
        if not has_current_forms(meta):
            return None
        vectors = self._kind.restored(arrays)
        dense = DenseIndex(
            vectors,
            arrays["window_nodes"],
            self._load_ivf(generation, vectors),
            lambda ivf: self._save_ivf(generation, ivf),
        )
        snapshot = replace(
            restore_snapshot(arrays, meta, dense, self._load_or_build_bm25),
            segments=Segments((generation,)),
        )
        if tags := meta.get("tag_set"):
            from e2graphrag_integrations.text.tags import TagSet

            snapshot = replace(
                snapshot, tags=TagSet.from_json(tags), tags_factory=self._load_or_assign_tags
            )
        is_valid = snapshot.generation == generation and is_consistent(snapshot, pause)
        return snapshot if is_valid else None

    def _with_preparation(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot that keeps what questions compute, if it is large."""
        if len(snapshot.nodes.ids) < _MIN_KEPT:
            return snapshot
        from e2graphrag_integrations.snapshot.kept_preparation import KeptPreparation

        folder = self._folder / snapshot.generation
        return replace(
            snapshot,
            preparation=KeptPreparation(
                snapshot.graph,
                lambda name: load_arrays(newest_version(folder) / name),
                lambda *part: self._save_part(snapshot.generation, *part),
            ),
        )

    def load_segment(
        self, generation: str, pause: Callable[[], None] = lambda: None
    ) -> Snapshot | None:
        """Return the documents in the folder of one generation; None without its BM25 index."""
        content = load_arrays(self._folder / generation, pause)
        segment = None if content is None else self._restore(generation, *content, pause)
        return None if segment is None else self._with_words(segment)

    def _load_segments(self, generations: Sequence[str]) -> list[Snapshot] | None:
        """Return the documents in several folders, or None if one is damaged."""
        found = [self.load_segment(generation) for generation in generations]
        valid = [segment for segment in found if segment is not None]
        return valid if len(valid) == len(found) else None

    def _with_words(self, segment: Snapshot) -> Snapshot | None:
        """Return a snapshot with its BM25 index; None if that is missing or damaged."""
        words = self.load_bm25(segment)
        return None if words is None else replace(segment, prebuilt_bm25=words)

    def _join(
        self, own: Snapshot, generations: Sequence[str], deleted: frozenset[str]
    ) -> Snapshot | None:
        """Return the snapshot whose documents are in several folders, or None if one is damaged.

        `own` has those in the last folder, `generations` name the others, oldest first, and
        `deleted` are the ids of documents that only the folders contain.
        """
        from e2graphrag_integrations.snapshot.incremental import join_segments

        last, segments = self._with_words(own), self._load_segments(generations)
        if last is None or segments is None:
            return None
        recent = join_segments([*segments[1:], last], deleted)
        joined = join_segments([segments[0], recent], deleted, may_segment=True)
        return replace(joined, segments=Segments((*generations, own.generation), deleted))

    def load_encoded(self, generation: str, kind: VectorKind) -> Snapshot | None:
        """Return the snapshot of a generation with vectors of another kind, if there is one."""
        loaded = self.load(generation)
        if loaded is None:
            return None
        _, own = loaded.stored_parts()
        dense = DenseIndex(kind.encoded(own.vectors), own.window_nodes, own.lists)
        return replace(loaded, dense=dense, prebuilt_bm25=self.load_bm25(loaded))

    def load_any(self) -> Snapshot | None:
        """Return the last valid snapshot of any generation, or None if there is none."""
        try:
            folders = [one for one in self._folder.iterdir() if _FOLDER.fullmatch(one.name)]
            folders.sort(key=lambda one: one.stat().st_mtime, reverse=True)
        except OSError:
            return None
        generations = dict.fromkeys(folder.name.partition(".")[0] for folder in folders)
        snapshots = map(self.load, generations)
        return next((snapshot for snapshot in snapshots if snapshot is not None), None)

    def save_segment(self, snapshot: Snapshot, newer: Snapshot, older: Snapshot) -> Snapshot:
        """Save only the documents that changed, in a folder that refers to those of older ones.

        Args:
            snapshot: The snapshot.
            newer: The snapshot of the documents that changed.
            older: The snapshot before the change.

        Returns:
            The snapshot, which remains in memory. If it cannot be saved, the next process derives
            it from an older one.
        """
        folder = self._folder / snapshot.generation
        generations = older.segments.generations if older.segments is not None else ()
        saved = [newest_version(self._folder / generation) for generation in generations]
        if older.segments is not None and newest_version(folder).exists():
            return self._saved_by_another(snapshot, older.segments)
        if older.segments is None or not all(one.is_dir() for one in saved):
            return replace(snapshot, segments=None)
        segments = older.segments.followed_by(newer, set(older.documents) - {*snapshot.documents})
        if len(segments.generations) > _MAX_SEGMENTS:
            recent = self._load_segments(generations[1:])
            if recent is None:
                return replace(snapshot, segments=None)
            from e2graphrag_integrations.snapshot.incremental import join_segments

            newer = join_segments([*recent, newer], segments.deleted)
            segments = Segments((generations[0], snapshot.generation), segments.deleted)
        meta = {"segments": segments.generations[:-1], "deleted": sorted(segments.deleted)}
        try:
            parts: dict[str, Part] = {"words": (bm25_arrays(newer.bm25), _WORD_RULES)}
            save_arrays(folder, snapshot_arrays(newer), snapshot_meta(newer) | meta, parts)
        except OSError:
            return replace(snapshot, segments=None)
        self._remove_others(segments.generations)
        return replace(snapshot, segments=segments)

    def _saved_by_another(self, snapshot: Snapshot, older: Segments) -> Snapshot:
        """Return a snapshot that another process has saved, with the segments that it wrote."""
        meta = read_meta(self._folder / snapshot.generation)
        try:
            generations = tuple(map(str, meta["segments"])) if meta is not None else ()
            deleted = frozenset(map(str, meta["deleted"])) if meta is not None else frozenset()
        except INVALID:
            generations, deleted = (), frozenset()
        if generations[:1] == older.generations[:1]:
            segments = Segments((*generations, snapshot.generation), deleted)
            return replace(snapshot, segments=segments)
        return self.load(snapshot.generation) or replace(snapshot, segments=None)

    def save(self, snapshot: Snapshot) -> Snapshot:
        """Save a snapshot if the folder is writable, and delete snapshots of other generations.

        Returns:
            The snapshot, loaded from disk if it was saved.
        """
        # The loaded arrays are memory-mapped, which frees the memory of the originals.
        return self.write_in_one(snapshot)() or snapshot

    def write_in_one(self, snapshot: Snapshot) -> Callable[[], Snapshot | None]:
        """Write a snapshot into one new folder, and return a function that replaces all others.

        The vectors of several segments are written without copying them in memory first. The
        function returns the snapshot from the folder; None if that is impossible.
        """
        parts: dict[str, Part] = {}
        _, dense = snapshot.stored_parts()
        if dense.lists is not None:
            parts["cells"] = _ivf_arrays(dense.lists), {}
        if snapshot.prebuilt_bm25 is not None:
            parts["words"] = bm25_arrays(snapshot.prebuilt_bm25), _WORD_RULES
        arrays, meta = snapshot_arrays(snapshot), snapshot_meta(snapshot)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            new = unused_name(self._folder)
            save_arrays(new, arrays, meta, parts)
        except OSError:  # read-only or full
            return lambda: None
        return partial(self._replace_others, new, snapshot.generation)

    def _replace_others(self, new: Path, generation: str) -> Snapshot | None:
        """Replace all other folders by a new one, and return the snapshot in it."""
        try:
            publish(new, self._folder / generation)
        except OSError:
            return None
        self._remove_others((generation,))
        return self.load(generation)

    def _remove_others(self, generations: Sequence[str]) -> None:
        """Delete the snapshots of all other generations, and what dead processes left.

        What somebody reads stays until a later call, where the system does not allow deleting it.
        """
        kept = {newest_version(self._folder / generation) for generation in generations}
        with contextlib.suppress(OSError):
            for other in self._folder.iterdir():
                # Delete only folders named like a generation: the snapshot folder may be a symbolic
                # link to a folder that also contains other files.
                if _FOLDER.fullmatch(other.name) and other not in kept:
                    discard_folder(other)
            remove_temporary_folders(self._folder)

    def load_bm25(self, snapshot: Snapshot) -> BM25Index | None:
        """Return the BM25 index of a snapshot, or None if it is missing or damaged."""
        arrays = self._load_part(snapshot.generation, "words", _WORD_RULES)
        if arrays is None:
            return None
        try:
            windows = len(snapshot.dense.window_nodes)
            bm25 = restore_bm25(arrays, windows)
            return bm25 if is_consistent_bm25(bm25, windows) else None
        except INVALID:
            return None

    def _load_or_build_bm25(self, snapshot: Snapshot) -> BM25Index:
        loaded = self.load_bm25(snapshot)
        if loaded is not None:
            return loaded
        built = bm25_from_store(self._store, snapshot)
        self._save_part(snapshot.generation, "words", bm25_arrays(built), _WORD_RULES)
        return self.load_bm25(snapshot) or built

    def load_tags(self, snapshot: Snapshot) -> NDArray[np.int16] | None:
        """Return the tags of the chunks of a snapshot, or None if they are missing or damaged."""
        from e2graphrag_integrations.snapshot.tags import are_consistent

        arrays = self._load_part(snapshot.generation, "tags")
        tags = None if arrays is None else arrays.get("tags")
        is_valid = tags is not None and are_consistent(tags, snapshot)
        return tags if is_valid else None

    def _load_or_assign_tags(self, snapshot: Snapshot) -> NDArray[np.int16]:
        loaded = self.load_tags(snapshot)
        if loaded is not None:
            return loaded
        from e2graphrag_integrations.snapshot.tags import assign_tags

        tags = assign_tags(snapshot)
        self._save_part(snapshot.generation, "tags", {"tags": tags})
        return tags

    def _load_ivf(self, generation: str, vectors: Any) -> InvertedLists | None:
        """Return the IVF lists of some vectors, or None if they are missing or damaged."""
        arrays = self._load_part(generation, "cells")
        if arrays is None:
            return None
        ivf = InvertedLists(arrays["centroids"], arrays["of_vector"])
        if not is_consistent_ivf(ivf, vectors):
            return None
        stored = self._load_part(generation, "codes")
        if stored is None:
            return ivf
        folder = newest_version(newest_version(self._folder / generation) / "codes")
        codes = ListCodes(stored["data"], stored["quantizer"], array_file(folder, "data"))
        with_codes = replace(ivf, codes=codes)
        return with_codes if is_consistent_codes(with_codes) else ivf

    def _save_ivf(self, generation: str, ivf: InvertedLists) -> None:
        if ivf.codes is None:
            self._save_part(generation, "cells", _ivf_arrays(ivf))
        else:
            codes = {"data": ivf.codes.data, "quantizer": ivf.codes.quantizer}
            self._save_part(generation, "codes", codes)

    def _load_part(
        self, generation: str, name: str, rules: Mapping[str, int] = _NO_RULES
    ) -> Arrays | None:
        """Return the arrays of a part that was derived by these versions of rules, or None."""
        content = load_arrays(newest_version(self._folder / generation) / name)
        return None if content is None or content[1] != rules else content[0]

    def _save_part(
        self, generation: str, name: str, arrays: ArraysToSave, rules: Mapping[str, Any] = _NO_RULES
    ) -> None:
        with contextlib.suppress(OSError):  # read-only, or the snapshot's folder was deleted
            save_arrays(newest_version(self._folder / generation) / name, arrays, rules)


def _ivf_arrays(ivf: InvertedLists) -> Arrays:
    return {"centroids": ivf.centroids, "of_vector": ivf.assignments}
