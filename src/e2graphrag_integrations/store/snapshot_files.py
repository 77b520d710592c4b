"""The snapshot on disk: `<index>.snapshot/<generation>/`, written aside, then renamed.

Derived and disposable: a folder that is missing, incomplete or damaged is built again. No pickle:
numpy arrays are loaded with `allow_pickle=False`, the rest is JSON.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
import uuid
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.graph import EntityGraph, MentionColumns
from e2graphrag_integrations.lexical import LexicalIndex
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.merging import Merging, can_merge
from e2graphrag_integrations.store.snapshot import (
    NodeTable,
    Records,
    Snapshot,
    build_snapshot,
    lexical_of,
)
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.vectors import DenseIndex

_FORMAT = 3
"""Goes up when the files or what is derived in them change: older snapshots are built again."""

_WORTH = 0.1
"""Share of documents that are as they were from which on copying them is quicker than reading all
(benchmarks/snapshots.py)."""

_GENERATION = re.compile(r"[0-9a-f]{32}")
_ASIDE = re.compile(r"new-[0-9a-f]{32}")
_DAY = 86_400.0
_META, _ARRAYS, _WORDS = "meta.json", "arrays.npz", "words.npz"
_NODE_ARRAYS = ("document", "level", "position", "start", "end", "first_leaf", "end_leaf")
_MENTION_ARRAYS = ("entities", "named", "sentence_sizes", "chunk_sizes")
_MATRICES = ("edges", "postings")

Words = Callable[[Snapshot], LexicalIndex]


def current_snapshot(store: Store, older: Snapshot | None = None) -> Snapshot:
    """Return the snapshot of the store's present generation, from disk where it is there.

    Args:
        store: The truth.
        older: A snapshot of another generation, if the caller has one; else one on disk is looked
            for. Only what changed since is read.
    """
    if store.path == MEMORY:
        return updated_snapshot(store, older)
    if not _GENERATION.fullmatch(store.generation):
        # It becomes the name of a folder: never one outside the snapshot's.
        raise CorruptStoreError(f"{store.path}: the manifest's generation is damaged; run verify()")
    folder = Path(f"{store.path}.snapshot")

    def words(snapshot: Snapshot) -> LexicalIndex:
        return _words(store, snapshot, folder / snapshot.generation / _WORDS)

    loaded = _load(folder / store.generation, words)
    if loaded is not None:
        return loaded
    if older is None:
        older = _any_generation(folder, words)
    snapshot = replace(updated_snapshot(store, older), lexical_from=words)
    with contextlib.suppress(OSError):  # a read-only place: held in memory
        _save(snapshot, folder)
    return snapshot


def updated_snapshot(store: Store, older: Snapshot | None) -> Snapshot:
    """Return the snapshot of the present state, copied as far as an older one has it.

    Raises:
        CorruptStoreError: As `build_snapshot`.
    """
    if older is None or not can_merge(older):
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
    merging = Merging(older, newer, list(stamps))
    return merging.snapshot(newer.generation, newer.made_with)


def _any_generation(folder: Path, words: Words) -> Snapshot | None:
    """Return a snapshot of another generation, if there is one."""
    try:
        found = [one for one in folder.iterdir() if _GENERATION.fullmatch(one.name)]
    except OSError:
        return None
    loaded = (_load(one, words) for one in found)
    return next((snapshot for snapshot in loaded if snapshot is not None), None)


def stale_parts(store: Store) -> list[str]:
    """Return what of the snapshot on disk is not what the store's present state gives.

    Nothing where there is none, or one that would be built again.
    """
    if store.path == MEMORY or not _GENERATION.fullmatch(store.generation):
        return []
    folder = Path(f"{store.path}.snapshot") / store.generation
    loaded = _load(folder, lambda snapshot: lexical_of(store, snapshot))
    if loaded is None:
        return []
    built = build_snapshot(store)
    there, expected = _arrays(loaded), _arrays(built)
    stale = [name for name in expected if not np.array_equal(expected[name], there[name])]
    stale += [name for name, value in _meta(built).items() if _meta(loaded)[name] != value]
    words = _load_words(folder / _WORDS, len(built.dense.nodes))
    if words is not None:
        fresh = lexical_of(store, built)
        same = list(words.words) == list(fresh.words) and not (words.weights != fresh.weights).nnz
        stale += [] if same else ["words"]
    return stale


def _words(store: Store, snapshot: Snapshot, path: Path) -> LexicalIndex:
    """Return the words of a snapshot, from disk where they are there."""
    loaded = _load_words(path, len(snapshot.dense.nodes))
    if loaded is not None:
        return loaded
    built = lexical_of(store, snapshot)
    aside = path.with_name(f"new-{uuid.uuid4().hex}.npz")
    parts = {name: getattr(built.weights, name) for name in ("data", "indices", "indptr")}
    vocabulary = np.frombuffer("\n".join(built.words).encode(), dtype=np.uint8)
    with contextlib.suppress(OSError):  # a read-only place, or the snapshot is gone
        try:
            np.savez(aside, **parts, vocabulary=vocabulary)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
    return built


def _load_words(path: Path, texts: int) -> LexicalIndex | None:
    try:
        # The zip's own checksums are verified as its parts are read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            words = arrays["vocabulary"].tobytes().decode().split("\n")
            parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
        words = words if words != [""] else []
        return LexicalIndex(words, csc_array(parts, shape=(texts, len(words))))
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile):
        return None


def _save(snapshot: Snapshot, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    aside = folder / f"new-{uuid.uuid4().hex}"  # not mkdtemp: other users may read it
    aside.mkdir()
    try:
        np.savez(aside / _ARRAYS, **_arrays(snapshot))
        meta = _meta(snapshot) | {"checksum": _crc(aside / _ARRAYS)}
        text = json.dumps(meta, ensure_ascii=False)
        wrapped = {"format": _FORMAT, "checksum": zlib.crc32(text.encode()), "meta": text}
        (aside / _META).write_text(json.dumps(wrapped), encoding="utf-8")
        shutil.rmtree(folder / snapshot.generation, ignore_errors=True)  # a damaged one
        aside.rename(folder / snapshot.generation)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    for other in folder.iterdir():
        # Only what has the name of a generation, or was left aside by a process that died: the
        # folder may be a link to someone else's.
        old = _GENERATION.fullmatch(other.name) or _is_leftover(other)
        if other.name != snapshot.generation and old:
            shutil.rmtree(other, ignore_errors=True)


def _is_leftover(folder: Path) -> bool:
    try:
        return bool(_ASIDE.fullmatch(folder.name)) and time.time() - folder.stat().st_mtime > _DAY
    except OSError:
        return False


def _load(folder: Path, words: Words) -> Snapshot | None:
    try:
        wrapped = json.loads((folder / _META).read_text(encoding="utf-8"))
        text = wrapped["meta"]
        if wrapped["format"] != _FORMAT or wrapped["checksum"] != zlib.crc32(text.encode()):
            return None
        meta = json.loads(text)
        if meta["checksum"] != _crc(folder / _ARRAYS) or meta["generation"] != folder.name:
            return None
        with np.load(folder / _ARRAYS, allow_pickle=False) as arrays:
            return _restore(meta, dict(arrays), words)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def _meta(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "generation": snapshot.generation,
        "made_with": dict(snapshot.made_with),
        "documents": list(snapshot.documents),
        "titles": list(snapshot.titles),
        "stamps": list(snapshot.stamps),
        "nodes": list(snapshot.nodes.ids),
        "entities": list(snapshot.graph.names),
        "records": [dict(value) for value in snapshot.records.values],
    }


def _arrays(snapshot: Snapshot) -> dict[str, Any]:
    if not isinstance(snapshot.dense, DenseIndex) or snapshot.mentions is None:
        raise TypeError("only a snapshot that holds its own vectors and mentions can be saved")
    arrays: dict[str, Any] = {
        "chunk_nodes": snapshot.chunk_nodes,
        "words": snapshot.words,
        "named": snapshot.graph.named,
        "vectors": snapshot.dense.vectors,
        "window_nodes": snapshot.dense.nodes,
        "window_spans": snapshot.window_spans,
        "record_first": snapshot.records.first,
        "record_last": snapshot.records.last,
        "record_of_node": snapshot.records.of_node,
    }
    for name in _MENTION_ARRAYS:
        arrays[f"mention_{name}"] = getattr(snapshot.mentions, name)
    for name in _NODE_ARRAYS:
        arrays[f"node_{name}"] = getattr(snapshot.nodes, name)
    for name in _MATRICES:
        matrix = getattr(snapshot.graph, name)
        arrays |= {
            f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")
        }
        arrays[f"{name}_shape"] = np.asarray(matrix.shape)
    return arrays


def _restore(meta: dict[str, Any], arrays: dict[str, Any], words: Words) -> Snapshot:
    matrices = {
        name: csr_array(
            tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr")),
            shape=tuple(arrays[f"{name}_shape"].tolist()),
        )
        for name in _MATRICES
    }
    return Snapshot(
        generation=meta["generation"],
        made_with=meta["made_with"],
        documents=meta["documents"],
        titles=meta["titles"],
        nodes=NodeTable(meta["nodes"], *(arrays[f"node_{name}"] for name in _NODE_ARRAYS)),
        chunk_nodes=arrays["chunk_nodes"],
        words=arrays["words"],
        graph=EntityGraph(meta["entities"], arrays["named"], **matrices),
        dense=DenseIndex(arrays["vectors"], arrays["window_nodes"]),
        window_spans=arrays["window_spans"],
        records=Records(
            meta["records"],
            arrays["record_first"],
            arrays["record_last"],
            arrays["record_of_node"],
        ),
        lexical_from=words,
        stamps=meta["stamps"],
        mentions=MentionColumns(*(arrays[f"mention_{name}"] for name in _MENTION_ARRAYS)),
    )
