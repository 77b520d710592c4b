"""The snapshot on disk: `<index>.snapshot/<generation>/`, beside it what is made at first use.

Derived and disposable: a folder that is missing, incomplete or damaged is built again. The words of
windows and the cells of their vectors are in folders of their own within it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations._utils.string_array import StringArray
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.graph.entity_graph import EntityGraph, MentionTable
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists
from e2graphrag_integrations.snapshot.array_files import (
    Arrays,
    load_arrays,
    remove_temporary_folders,
    save_arrays,
)
from e2graphrag_integrations.snapshot.incremental import SnapshotMerge
from e2graphrag_integrations.snapshot.snapshot import (
    NODE_ARRAYS,
    MetadataRecords,
    NodeTable,
    Snapshot,
    bm25_from_store,
    build_snapshot,
)
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.sqlite import Store

_WORTH = 0.1
"""Share of documents that are as they were from which on copying them is quicker than reading all
(benchmarks/snapshots.py)."""

_GENERATION = re.compile(r"[0-9a-f]{32}")
_MENTION_ARRAYS = ("entities", "named", "sentence_sizes", "chunk_sizes")
_MATRICES = ("edges", "postings")
_PARTS = ("data", "indices", "indptr")


def current_snapshot(store: Store, older: Snapshot | None = None) -> Snapshot:
    """Return the snapshot of the store's present generation, from disk where it is there.

    Args:
        store: The truth.
        older: A snapshot of another generation, if the caller has one; else one on disk is looked
            for. Only what changed since is read.
    """
    if store.path == MEMORY:
        words = None if older is None else older.lexical_at_hand
        return updated_snapshot(store, older, words)
    if not _GENERATION.fullmatch(store.generation):
        # It becomes the name of a folder: never one outside the snapshot's.
        raise CorruptStoreError(f"{store.path}: the manifest's generation is damaged; run verify()")
    files = _Files(store)
    loaded = files.load(store.generation)
    if loaded is not None:
        return loaded
    older = older if older is not None else files.any_generation()
    words = None if older is None else older.lexical_at_hand or files.load_words(older)
    return files.saved(updated_snapshot(store, older, words))


def updated_snapshot(
    store: Store, older: Snapshot | None, words: BM25Index | None = None
) -> Snapshot:
    """Return the snapshot of the present state, copied as far as an older one has it.

    Args:
        store: The truth.
        older: A snapshot of another generation, if there is one.
        words: Its index of words, if there is one; then the new snapshot has one, too.

    Raises:
        CorruptStoreError: As `build_snapshot`.
    """
    if older is None:
        return build_snapshot(store)
    with store.consistent():
        stamps = store.stamps()
        same = {
            i
            for i, stamp in zip(older.documents, older.stamps, strict=True)
            if stamps.get(i) == stamp
        }
        if len(same) < _WORTH * len(stamps):
            return build_snapshot(store)
        newer = build_snapshot(store, [id_ for id_ in stamps if id_ not in same])
        if words is not None:
            _ = newer.lexical  # reads texts, as they are in this state
    merging = SnapshotMerge(older, newer, list(stamps))
    lexical = None if words is None else merging.lexical(words)
    snapshot = merging.snapshot(newer.generation, newer.made_with)
    return replace(snapshot, known_lexical=lexical)


def stale_parts(store: Store) -> list[str]:
    """Return what of the snapshot on disk is not what the store's present state gives.

    Nothing where there is none, or one that would be built again.
    """
    if store.path == MEMORY or not _GENERATION.fullmatch(store.generation):
        return []
    files = _Files(store)
    loaded = files.load(store.generation)
    if loaded is None:
        return []
    built = build_snapshot(store)
    there, expected = _arrays(loaded), _arrays(built)
    stale = [name for name in expected if not np.array_equal(expected[name], there[name])]
    told = _meta(loaded)
    stale += [name for name, value in _meta(built).items() if told[name] != value]
    words = files.load_words(built)
    if words is not None:
        fresh = bm25_from_store(store, built)
        one, other = _word_arrays(words), _word_arrays(fresh)
        same = all(np.array_equal(one[name], other[name]) for name in one)
        stale += [] if same else ["words"]
    return stale


class _Files:
    """The folders of one store's snapshots."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = Path(f"{store.path}.snapshot")

    def load(self, generation: str) -> Snapshot | None:
        found = load_arrays(self._folder / generation)
        if found is None:
            return None
        arrays, meta = found
        try:
            dense = DenseIndex(
                arrays["vectors"],
                arrays["window_nodes"],
                self._load_cells(generation),
                lambda cells: self._keep_cells(generation, cells),
            )
            loaded = _restore(arrays, meta, dense, self._words)
        except (ValueError, KeyError, TypeError):
            return None
        return loaded if loaded.generation == generation else None

    def any_generation(self) -> Snapshot | None:
        """Return a snapshot of another generation, if there is one."""
        try:
            found = [one.name for one in self._folder.iterdir() if _GENERATION.fullmatch(one.name)]
        except OSError:
            return None
        loaded = (self.load(name) for name in found)
        return next((snapshot for snapshot in loaded if snapshot is not None), None)

    def saved(self, snapshot: Snapshot) -> Snapshot:
        """Write a snapshot, if that can be, and remove others; return it as it would be loaded."""
        folder = self._folder / snapshot.generation
        with contextlib.suppress(OSError):  # a read-only place: held in memory
            self._folder.mkdir(exist_ok=True)
            save_arrays(folder, _arrays(snapshot), _meta(snapshot))
            for other in self._folder.iterdir():
                # Only what has a generation's name: the folder may be a link to someone else's.
                if _GENERATION.fullmatch(other.name) and other != folder:
                    shutil.rmtree(other, ignore_errors=True)
            remove_temporary_folders(self._folder)
            cells = _dense(snapshot).known_cells
            if cells is not None:
                self._keep_cells(snapshot.generation, cells)
            if snapshot.known_lexical is not None:
                self._keep_words(snapshot.generation, snapshot.known_lexical)
        # What was written is mapped: the memory of what it was written from is given back.
        return self.load(snapshot.generation) or snapshot

    # What is made at first use.

    def _words(self, snapshot: Snapshot) -> BM25Index:
        """Return the words of a snapshot's windows, from disk where they are there."""
        loaded = self.load_words(snapshot)
        if loaded is not None:
            return loaded
        built = bm25_from_store(self._store, snapshot)
        self._keep_words(snapshot.generation, built)
        return self.load_words(snapshot) or built

    def load_words(self, snapshot: Snapshot) -> BM25Index | None:
        found = load_arrays(self._folder / snapshot.generation / "words")
        if found is None:
            return None
        arrays, _ = found
        try:
            words = StringArray(arrays["words"], arrays["bounds"])
            parts = tuple(arrays[name] for name in _PARTS)
            shape = (len(snapshot.dense.nodes), len(words))
            weights = csc_array(parts, shape=shape)
            return BM25Index(words, weights, arrays["counts"], arrays["lengths"])
        except (ValueError, KeyError):
            return None

    def _keep_words(self, generation: str, words: BM25Index) -> None:
        self._keep(self._folder / generation / "words", _word_arrays(words))

    def _keep_cells(self, generation: str, cells: InvertedLists) -> None:
        arrays = {"centroids": cells.centroids, "of_vector": cells.of_vector}
        self._keep(self._folder / generation / "cells", arrays)

    def _load_cells(self, generation: str) -> InvertedLists | None:
        found = load_arrays(self._folder / generation / "cells")
        return (
            None if found is None else InvertedLists(found[0]["centroids"], found[0]["of_vector"])
        )

    def _keep(self, folder: Path, arrays: Arrays) -> None:
        with contextlib.suppress(OSError):  # a read-only place, or the snapshot is gone
            save_arrays(folder, arrays, {})


def _word_arrays(index: BM25Index) -> Arrays:
    words = StringArray.of(index.words)
    arrays: Arrays = {name: getattr(index.weights, name) for name in _PARTS}
    return arrays | {
        "words": words.data,
        "bounds": words.bounds,
        "counts": index.counts,
        "lengths": index.lengths,
    }


def _dense(snapshot: Snapshot) -> DenseIndex:
    if not isinstance(snapshot.dense, DenseIndex):
        raise TypeError("only a snapshot that holds its own vectors can be saved")
    return snapshot.dense


def _meta(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "generation": snapshot.generation,
        "made_with": dict(snapshot.made_with),
        "documents": list(snapshot.documents),
        "titles": list(snapshot.titles),
        "stamps": list(snapshot.stamps),
        "records": [dict(value) for value in snapshot.records.values],
    }


def _arrays(snapshot: Snapshot) -> Arrays:
    dense = _dense(snapshot)
    if snapshot.mentions is None:
        raise TypeError("only a snapshot that holds its own mentions can be saved")
    ids, names = StringArray.of(snapshot.nodes.ids), StringArray.of(snapshot.graph.names)
    arrays: Arrays = {
        "ids": ids.data,
        "ids_bounds": ids.bounds,
        "names": names.data,
        "names_bounds": names.bounds,
        "chunk_nodes": snapshot.chunk_nodes,
        "words": snapshot.words,
        "named": snapshot.graph.named,
        "vectors": dense.vectors,
        "window_nodes": dense.nodes,
        "window_spans": snapshot.window_spans,
        "record_first": snapshot.records.first,
        "record_last": snapshot.records.last,
        "record_of_node": snapshot.records.of_node,
    }
    for name in _MENTION_ARRAYS:
        arrays[f"mention_{name}"] = getattr(snapshot.mentions, name)
    for name in NODE_ARRAYS:
        arrays[f"node_{name}"] = getattr(snapshot.nodes, name)
    for name in _MATRICES:
        matrix = getattr(snapshot.graph, name)
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in _PARTS}
        arrays[f"{name}_shape"] = np.asarray(matrix.shape)
    return arrays


def _restore(
    arrays: Arrays,
    meta: dict[str, Any],
    dense: DenseIndex,
    words: Callable[[Snapshot], BM25Index],
) -> Snapshot:
    matrices = {
        name: csr_array(
            tuple(arrays[f"{name}_{part}"] for part in _PARTS),
            shape=tuple(arrays[f"{name}_shape"].tolist()),
        )
        for name in _MATRICES
    }
    return Snapshot(
        generation=meta["generation"],
        made_with=meta["made_with"],
        documents=meta["documents"],
        titles=meta["titles"],
        nodes=NodeTable(
            StringArray(arrays["ids"], arrays["ids_bounds"]),
            *(arrays[f"node_{name}"] for name in NODE_ARRAYS),
        ),
        chunk_nodes=arrays["chunk_nodes"],
        words=arrays["words"],
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
        ),
        lexical_from=words,
        stamps=meta["stamps"],
        mentions=MentionTable(*(arrays[f"mention_{name}"] for name in _MENTION_ARRAYS)),
    )
