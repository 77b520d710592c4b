"""Snapshots as arrays and JSON values, as they are stored on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations._utils.strings import StringArray
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.normalize import FORM_RULES
from e2graphrag_integrations.graph.builder import MentionTable
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.pair_weights import PairWeights
from e2graphrag_integrations.graph.subject_table import SubjectTable
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.segmented import SegmentedVectors
from e2graphrag_integrations.search.term_postings import TermPostings
from e2graphrag_integrations.snapshot.array_files import Arrays
from e2graphrag_integrations.snapshot.snapshot import (
    NODE_ARRAYS,
    SECTION_ARRAYS,
    MetadataRecords,
    MetadataSections,
    NodeTable,
    Snapshot,
)

_META_FIELDS = ("generation", "made_with", "documents", "titles", "stamps")
_MENTION_ARRAYS = ("entities", "named", "sentence_sizes", "chunk_sizes")
_PAIR_ARRAYS = ("keys", "units")
_MATRICES = ("edges", "postings")
_MATRIX_ARRAYS = ("data", "indices", "indptr")


def bm25_arrays(bm25: BM25Index) -> Arrays:
    """Return the arrays of a BM25 index by file name, without the suffix."""
    postings = bm25.postings
    words = StringArray.of(postings.vocabulary)
    arrays: Arrays = {name: getattr(postings.counts, name) for name in _MATRIX_ARRAYS}
    return arrays | {"words": words.data, "bounds": words.bounds, "lengths": postings.lengths}


def restore_bm25(arrays: Arrays, windows: int) -> BM25Index:
    """Return the BM25 index of a number of windows; the inverse of `bm25_arrays`."""
    words = StringArray(arrays["words"], arrays["bounds"])
    counts = csc_array(tuple(arrays[name] for name in _MATRIX_ARRAYS), shape=(windows, len(words)))
    return BM25Index.of(TermPostings(words, counts, arrays["lengths"]))


def has_current_forms(meta: Mapping[str, Any]) -> bool:
    """Return whether the names of a snapshot are normal forms of the current rules."""
    return bool(meta.get("form_rules") == FORM_RULES)


def snapshot_meta(snapshot: Snapshot) -> dict[str, Any]:
    """Return the parts of a snapshot that are stored as JSON, by name."""
    fields = {name: getattr(snapshot, name) for name in _META_FIELDS}
    fields |= {"records": snapshot.records.values, "edits": snapshot.edits.to_json()}
    fields |= {"form_rules": FORM_RULES}
    tag_set = snapshot.tag_set.to_json()
    fields |= {"tag_set": tag_set} if tag_set else {}
    languages = dict(snapshot.records.languages)
    return fields | {"languages": languages} if languages else fields


def snapshot_arrays(snapshot: Snapshot) -> dict[str, NDArray[Any] | SegmentedVectors]:
    """Return the arrays of a snapshot by file name, without the suffix."""
    mentions, dense = snapshot.stored_parts()
    ids, names = StringArray.of(snapshot.nodes.ids), StringArray.of(snapshot.graph.names)
    subjects = StringArray.of(snapshot.subject_candidates.names)
    arrays: dict[str, NDArray[Any] | SegmentedVectors] = {
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
    if snapshot.graph.pairs is not None:
        arrays |= {f"pair_{name}": getattr(snapshot.graph.pairs, name) for name in _PAIR_ARRAYS}
    for name in NODE_ARRAYS:
        arrays[f"node_{name}"] = getattr(snapshot.nodes, name)
    for name in _MATRICES:
        matrix = getattr(snapshot.graph, name)
        arrays |= {f"{name}_{part}": getattr(matrix, part) for part in _MATRIX_ARRAYS}
        arrays[f"{name}_shape"] = np.asarray(matrix.shape)
    return arrays


def restore_snapshot(
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
            StringArray(arrays["names"], arrays["names_bounds"]),
            arrays["named"],
            **matrices,
            pairs=PairWeights(*(arrays[f"pair_{name}"] for name in _PAIR_ARRAYS)),
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
        edits=EntityEdits.from_json(meta["edits"]),
        mentions=MentionTable(*(arrays[f"mention_{name}"] for name in _MENTION_ARRAYS)),
        subject_candidates=SubjectTable(
            arrays["subject_chunks"],
            arrays["subject_levels"],
            arrays["subject_starts"],
            StringArray(arrays["subjects"], arrays["subjects_bounds"]),
        ),
    )
