"""The snapshot on disk, in the folder `<index>.snapshot/<generation>/`.

A snapshot can always be derived from the store, so a missing, incomplete or damaged folder is
rebuilt. The BM25 index, the IVF lists and the tags of the chunks are built on first use and stored
in the subfolders `words`, `cells` and `tags`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations._utils.string_array import StringArray
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.normalize import FORM_RULES, has_form_of_older_rules
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.graph.builder import MentionTable
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.subject_table import SubjectTable
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists
from e2graphrag_integrations.snapshot.array_files import (
    Arrays,
    load_arrays,
    remove_temporary_folders,
    save_arrays,
)
from e2graphrag_integrations.snapshot.build import bm25_from_store, build_snapshot
from e2graphrag_integrations.snapshot.incremental import SnapshotMerger
from e2graphrag_integrations.snapshot.snapshot import (
    NODE_ARRAYS,
    SECTION_ARRAYS,
    MetadataRecords,
    MetadataSections,
    NodeTable,
    Snapshot,
)
from e2graphrag_integrations.snapshot.tags import assign_tags
from e2graphrag_integrations.snapshot.validation import (
    is_consistent,
    is_consistent_bm25,
    is_consistent_ivf,
    is_consistent_tags,
)
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.entity_edits import read_edits
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.text.tags import TagSet
from e2graphrag_integrations.text.words import TERM_RULES

_MIN_UNCHANGED = 0.1
"""Minimum share of unchanged documents at which merging an older snapshot is faster than a full
build (benchmarks/snapshots.py)."""

_INVALID = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError)
"""Errors that invalid arrays cause; the snapshot is then rebuilt."""

_GENERATION = re.compile(r"[0-9a-f]{32}")
_META_FIELDS = ("generation", "made_with", "documents", "titles", "stamps")
_MENTION_ARRAYS = ("entities", "named", "sentence_sizes", "chunk_sizes")
_NAME_ARRAYS = ("names", "mention_names")
_MATRICES = ("edges", "postings")
_MATRIX_ARRAYS = ("data", "indices", "indptr")
_NO_RULES: Mapping[str, int] = MappingProxyType({})
_WORD_RULES = MappingProxyType({"terms": TERM_RULES})
"""Versions of the rules that derive the BM25 index, which is built again if they change."""


def load_or_build_snapshot(store: Store, older: Snapshot | None = None) -> Snapshot:
    """Return the snapshot of the store's current generation.

    If there is a valid snapshot on disk, it is loaded. Otherwise a snapshot is built and saved.

    Args:
        store: The store.
        older: A snapshot of a different generation, which avoids reading unchanged documents. If
            None, look for one on disk.

    Raises:
        CorruptStoreError: If a row is damaged or references a missing row.
    """
    if store.path == MEMORY:
        return update_snapshot(store, older, None if older is None else older.loaded_bm25)
    if not _GENERATION.fullmatch(store.generation):
        # The generation becomes a folder name, which must not lead outside the snapshot's folder.
        raise CorruptStoreError(f"{store.path}: the manifest's generation is damaged; run verify()")
    files = _SnapshotFiles(store)
    loaded = files.load(store.generation)
    if loaded is not None:
        return loaded
    older = older if older is not None else files.load_any()
    bm25 = None if older is None else older.loaded_bm25 or files.load_bm25(older)
    return files.save(update_snapshot(store, older, bm25))


def update_snapshot(
    store: Store, older: Snapshot | None, bm25: BM25Index | None = None
) -> Snapshot:
    """Build a snapshot of the current state, reusing an older snapshot if that is faster.

    Args:
        store: The store.
        older: A snapshot of a different generation; None builds the snapshot from all rows.
        bm25: The BM25 index of `older`; None leaves the new snapshot without one.

    Raises:
        CorruptStoreError: If a row is damaged or references a missing row.
    """
    if older is None:
        return build_snapshot(store)
    with store.read_transaction():
        stamps = store.stamps()
        unchanged = {
            id_
            for id_, stamp in zip(older.documents, older.stamps, strict=True)
            if stamps.get(id_) == stamp
        }
        reads_alike = older.edits.spelled_apart == read_edits(store).spelled_apart
        if len(unchanged) < _MIN_UNCHANGED * len(stamps) or not reads_alike:
            return build_snapshot(store)
        newer = build_snapshot(store, [id_ for id_ in stamps if id_ not in unchanged])
        if bm25 is not None:
            _ = newer.bm25  # reads texts, so it must run in this transaction
    merger = SnapshotMerger(older, newer, list(stamps))
    merged = merger.merge(newer.generation, newer.made_with)
    return replace(merged, prebuilt_bm25=None if bm25 is None else merger.merge_bm25(bm25))


def find_stale_parts(store: Store) -> list[str]:
    """Return the names of those parts of the snapshot on disk that differ from a fresh build.

    The result is empty if the snapshot of the current generation is missing from disk or damaged,
    because it is then rebuilt on the next use.
    """
    if store.path == MEMORY or not _GENERATION.fullmatch(store.generation):
        return []
    files = _SnapshotFiles(store)
    loaded = files.load(store.generation)
    if loaded is None:
        return []
    built = build_snapshot(store)
    actual, expected = snapshot_arrays(loaded), snapshot_arrays(built)
    stale = [name for name in expected if not np.array_equal(expected[name], actual.get(name, ()))]
    loaded_meta = snapshot_meta(loaded)
    built_meta = snapshot_meta(built)
    stale += [name for name, value in built_meta.items() if loaded_meta.get(name) != value]
    bm25 = files.load_bm25(built)
    if bm25 is not None:
        actual, expected = _bm25_arrays(bm25), _bm25_arrays(bm25_from_store(store, built))
        if not all(np.array_equal(actual[name], expected[name]) for name in expected):
            stale.append("words")
    tags = files.load_tags(built)
    if tags is not None and not np.array_equal(tags, built.chunk_tags):
        stale.append("tags")
    return stale


class _SnapshotFiles:
    """Reads and writes the snapshot folders of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = Path(f"{store.path}.snapshot")

    def load(self, generation: str) -> Snapshot | None:
        """Return the snapshot of a generation, or None if it is missing or damaged."""
        content = load_arrays(self._folder / generation)
        if content is None:
            return None
        arrays, meta = content
        if not _has_current_forms(arrays, meta):
            return None
        ivf = self._load_part(generation, "cells")
        try:
            dense = DenseIndex(
                arrays["vectors"],
                arrays["window_nodes"],
                None if ivf is None else InvertedLists(ivf["centroids"], ivf["of_vector"]),
                lambda ivf: self._save_ivf(generation, ivf),
            )
            snapshot = _restore(arrays, meta, dense, self._load_or_build_bm25)
            snapshot = replace(
                snapshot,
                tag_set=TagSet.from_json(meta.get("tag_set", "")),
                tags_factory=self._load_or_assign_tags,
            )
            if dense.ivf is not None and not is_consistent_ivf(dense.ivf, dense.vectors):
                dense.ivf = None
            is_valid = snapshot.generation == generation and is_consistent(snapshot)
        except _INVALID:
            return None
        return snapshot if is_valid else None

    def load_any(self) -> Snapshot | None:
        """Return a valid snapshot of any generation, or None if there is none."""
        try:
            names = [one.name for one in self._folder.iterdir() if _GENERATION.fullmatch(one.name)]
        except OSError:
            return None
        snapshots = (self.load(name) for name in names)
        return next((snapshot for snapshot in snapshots if snapshot is not None), None)

    def save(self, snapshot: Snapshot) -> Snapshot:
        """Save a snapshot if the folder is writable, and delete snapshots of other generations.

        Returns:
            The snapshot, loaded from disk if it was saved.
        """
        folder = self._folder / snapshot.generation
        with contextlib.suppress(OSError):  # read-only or full: the snapshot remains in memory
            self._folder.mkdir(exist_ok=True)
            save_arrays(folder, snapshot_arrays(snapshot), snapshot_meta(snapshot))
            for other in self._folder.iterdir():
                # Delete only folders named like a generation: the snapshot folder may be a symbolic
                # link to a folder that also contains other files.
                if _GENERATION.fullmatch(other.name) and other != folder:
                    shutil.rmtree(other, ignore_errors=True)
            remove_temporary_folders(self._folder)
            _, dense = snapshot.stored_parts()
            if dense.ivf is not None:
                self._save_ivf(snapshot.generation, dense.ivf)
            if snapshot.prebuilt_bm25 is not None:
                self._save_bm25(snapshot.generation, snapshot.prebuilt_bm25)
        # The loaded arrays are memory-mapped, which frees the memory of the originals.
        return self.load(snapshot.generation) or snapshot

    def load_bm25(self, snapshot: Snapshot) -> BM25Index | None:
        """Return the BM25 index of a snapshot, or None if it is missing or damaged."""
        arrays = self._load_part(snapshot.generation, "words", _WORD_RULES)
        if arrays is None:
            return None
        try:
            words = StringArray(arrays["words"], arrays["bounds"])
            weights = csc_array(
                tuple(arrays[name] for name in _MATRIX_ARRAYS),
                shape=(len(snapshot.dense.window_nodes), len(words)),
            )
            bm25 = BM25Index(words, weights, arrays["counts"], arrays["lengths"])
            return bm25 if is_consistent_bm25(bm25, len(snapshot.dense.window_nodes)) else None
        except _INVALID:
            return None

    def _load_or_build_bm25(self, snapshot: Snapshot) -> BM25Index:
        loaded = self.load_bm25(snapshot)
        if loaded is not None:
            return loaded
        built = bm25_from_store(self._store, snapshot)
        self._save_bm25(snapshot.generation, built)
        return self.load_bm25(snapshot) or built

    def load_tags(self, snapshot: Snapshot) -> NDArray[np.int16] | None:
        """Return the tags of the chunks of a snapshot, or None if they are missing or damaged."""
        arrays = self._load_part(snapshot.generation, "tags")
        tags = None if arrays is None else arrays.get("tags")
        is_valid = tags is not None and is_consistent_tags(tags, snapshot)
        return tags if is_valid else None

    def _load_or_assign_tags(self, snapshot: Snapshot) -> NDArray[np.int16]:
        loaded = self.load_tags(snapshot)
        if loaded is not None:
            return loaded
        tags = assign_tags(snapshot)
        if snapshot.tag_set.tags:
            self._save_part(snapshot.generation, "tags", {"tags": tags})
        return tags

    def _save_bm25(self, generation: str, bm25: BM25Index) -> None:
        self._save_part(generation, "words", _bm25_arrays(bm25), _WORD_RULES)

    def _save_ivf(self, generation: str, ivf: InvertedLists) -> None:
        arrays = {"centroids": ivf.centroids, "of_vector": ivf.assignments}
        self._save_part(generation, "cells", arrays)

    def _load_part(
        self, generation: str, name: str, rules: Mapping[str, int] = _NO_RULES
    ) -> Arrays | None:
        """Return the arrays of a part that was derived by these versions of rules, or None."""
        content = load_arrays(self._folder / generation / name)
        return None if content is None or content[1] != rules else content[0]

    def _save_part(
        self, generation: str, name: str, arrays: Arrays, rules: Mapping[str, int] = _NO_RULES
    ) -> None:
        with contextlib.suppress(OSError):  # read-only, or the snapshot's folder was deleted
            save_arrays(self._folder / generation / name, arrays, rules)


def _bm25_arrays(bm25: BM25Index) -> Arrays:
    words = StringArray.of(bm25.vocabulary)
    arrays: Arrays = {name: getattr(bm25.weights, name) for name in _MATRIX_ARRAYS}
    return arrays | {
        "words": words.data,
        "bounds": words.bounds,
        "counts": bm25.counts,
        "lengths": bm25.lengths,
    }


def _has_current_forms(arrays: Arrays, meta: Mapping[str, Any]) -> bool:
    """Return whether the names of a snapshot are normal forms of the current rules.

    The rules of version 2 change nothing in most snapshots of version 1, for example in English.
    """
    if meta.get("form_rules", 1) == FORM_RULES:
        return True
    names = b"\n".join(arrays[name].tobytes() for name in _NAME_ARRAYS if name in arrays)
    return not has_form_of_older_rules(names.decode(errors="replace"))


def snapshot_meta(snapshot: Snapshot) -> dict[str, Any]:
    """Return the parts of a snapshot that are stored as JSON, by name."""
    fields = {name: getattr(snapshot, name) for name in _META_FIELDS}
    fields |= {"records": snapshot.records.values, "edits": snapshot.edits.to_json()}
    fields |= {"form_rules": FORM_RULES}
    tag_set = snapshot.tag_set.to_json()
    fields |= {"tag_set": tag_set} if tag_set else {}
    languages = dict(snapshot.records.languages)
    return fields | {"languages": languages} if languages else fields


def snapshot_arrays(snapshot: Snapshot) -> Arrays:
    """Return the arrays of a snapshot by file name, without the suffix."""
    mentions, dense = snapshot.stored_parts()
    ids, names = StringArray.of(snapshot.nodes.ids), StringArray.of(snapshot.graph.names)
    subjects = StringArray.of(snapshot.subject_candidates.names)
    arrays: Arrays = {
        "ids": ids.data,
        "ids_bounds": ids.bounds,
        "names": names.data,
        "names_bounds": names.bounds,
        "chunk_nodes": snapshot.chunk_nodes,
        "words": snapshot.chunk_words,
        "named": snapshot.graph.named,
        "vectors": dense.vectors,
        "window_nodes": dense.window_nodes,
        "window_spans": snapshot.window_spans,
        "record_first": snapshot.records.starts,
        "record_last": snapshot.records.ends,
        "record_of_node": snapshot.records.indices,
        "subjects": subjects.data,
        "subjects_bounds": subjects.bounds,
        "subject_chunks": snapshot.subject_candidates.chunks,
        "subject_levels": snapshot.subject_candidates.levels,
        "subject_starts": snapshot.subject_candidates.starts,
    }
    if snapshot.mention_names is not None:
        unedited = StringArray.of(snapshot.mention_names)
        arrays |= {"mention_names": unedited.data, "mention_names_bounds": unedited.bounds}
    for name in _MENTION_ARRAYS:
        arrays[f"mention_{name}"] = getattr(mentions, name)
    for name in SECTION_ARRAYS:
        arrays[f"section_{name}"] = getattr(snapshot.records.sections, name)
    for name in NODE_ARRAYS:
        arrays[f"node_{name}"] = getattr(snapshot.nodes, name)
    for name in _MATRICES:
        matrix = getattr(snapshot.graph, name)
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in _MATRIX_ARRAYS}
        arrays[f"{name}_shape"] = np.asarray(matrix.shape)
    return arrays


def _restore(
    arrays: Arrays,
    meta: dict[str, Any],
    dense: DenseIndex,
    bm25_factory: Callable[[Snapshot], BM25Index],
) -> Snapshot:
    """Return the snapshot; the inverse of `snapshot_arrays` and `snapshot_meta`."""
    matrices = {
        name: csr_array(
            tuple(arrays[f"{name}_{part}"] for part in _MATRIX_ARRAYS),
            shape=tuple(arrays[f"{name}_shape"].tolist()),
        )
        for name in _MATRICES
    }
    return Snapshot(
        **{name: meta[name] for name in _META_FIELDS},
        nodes=NodeTable(
            StringArray(arrays["ids"], arrays["ids_bounds"]),
            *(arrays[f"node_{name}"] for name in NODE_ARRAYS),
        ),
        chunk_nodes=arrays["chunk_nodes"],
        chunk_words=arrays["words"],
        graph=EntityGraph(
            StringArray(arrays["names"], arrays["names_bounds"]), arrays["named"], **matrices
        ),
        dense=dense,
        window_spans=arrays["window_spans"],
        records=MetadataRecords(
            meta["records"],
            arrays["record_first"],
            arrays["record_last"],
            arrays["record_of_node"],
            sections=MetadataSections(*(arrays[f"section_{name}"] for name in SECTION_ARRAYS)),
            languages=meta.get("languages", {}),  # absent if all documents are in English
        ),
        bm25_factory=bm25_factory,
        mention_names=(
            StringArray(arrays["mention_names"], arrays["mention_names_bounds"])
            if "mention_names" in arrays
            else None
        ),
        edits=EntityEdits.from_json(meta.get("edits", [])),  # absent in snapshots before edits
        mentions=MentionTable(*(arrays[f"mention_{name}"] for name in _MENTION_ARRAYS)),
        subject_candidates=SubjectTable(
            arrays["subject_chunks"],
            arrays["subject_levels"],
            arrays["subject_starts"],
            StringArray(arrays["subjects"], arrays["subjects_bounds"]),
        ),
    )
