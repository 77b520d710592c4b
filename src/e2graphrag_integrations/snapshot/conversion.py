"""Snapshots as arrays and JSON values, as they are stored on disk, and checks that they fit.

A checksum proves only that a file is complete. The checks ensure that no row number of a damaged
or crafted snapshot lies outside its array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations._utils.strings import StringArray
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.normalize import FORM_RULES
from e2graphrag_integrations.graph.builder import MentionTable
from e2graphrag_integrations.graph.entity_graph import EntityGraph, PairWeights
from e2graphrag_integrations.graph.titles import SubjectTable
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.search.ivf import ROW_TYPE, InvertedLists, stored_rows
from e2graphrag_integrations.search.term_postings import TermPostings
from e2graphrag_integrations.snapshot.array_files import Arrays
from e2graphrag_integrations.snapshot.metadata import (
    SECTION_ARRAYS,
    MetadataRecords,
    MetadataSections,
)
from e2graphrag_integrations.snapshot.snapshot import NODE_ARRAYS, NodeTable, Snapshot
from e2graphrag_integrations.text.headings import MAX_LEVEL

if TYPE_CHECKING:
    from e2graphrag_integrations.search.segmented import SegmentedVectors

INVALID = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError)
"""Errors that invalid arrays cause; what they contain is then computed again."""

_META_FIELDS = ("generation", "made_with", "documents", "titles", "stamps")
_MENTION_ARRAYS = ("entities", "label_numbers", "sentence_sizes", "chunk_sizes")
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
    mentions, _ = snapshot.stored_parts()
    fields |= {"form_rules": FORM_RULES, "labels": list(mentions.labels)}
    tags = "" if snapshot.tags is None else snapshot.tags.to_json()
    fields |= {"tag_set": tags} if tags else {}
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
        **dense.kind.arrays(dense.vectors),
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
    dense: NodeSearch,
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
        mentions=MentionTable(
            **{name: arrays[f"mention_{name}"] for name in _MENTION_ARRAYS},
            labels=meta["labels"],
        ),
        subject_candidates=SubjectTable(
            arrays["subject_chunks"],
            arrays["subject_levels"],
            arrays["subject_starts"],
            StringArray(arrays["subjects"], arrays["subjects_bounds"]),
        ),
    )


_FIRST_CONTINUATION, _CONTINUATION_MASK = 0x80, 0xC0
"""The bits that mark a byte within a character in UTF-8."""

_BLOCK = 1 << 16
"""Number of pairs that are checked at a time."""

_LOW_32 = 0xFFFFFFFF
"""Mask for the second of two rows packed into one integer."""


def is_consistent(snapshot: Snapshot, pause: Callable[[], None] = lambda: None) -> bool:
    """Return whether all arrays of a snapshot have suitable types, shapes and row numbers.

    Args:
        snapshot: The snapshot.
        pause: Called after each check, so that other threads can run.
    """
    for is_valid in _checks(snapshot):
        if not is_valid:
            return False
        pause()
    return True


def is_consistent_bm25(bm25: BM25Index, windows: int) -> bool:
    """Return whether a BM25 index fits a snapshot with a number of windows."""
    postings = bm25.postings
    words, counts = postings.vocabulary, postings.counts
    return (
        are_strings(words)
        and is_sparse(counts, len(words), windows)
        and are_rows(counts.data, None, len(counts.indices))
        and are_rows(postings.lengths, None, windows)
    )


def is_consistent_ivf(ivf: InvertedLists, vectors: Any) -> bool:
    """Return whether IVF lists fit the vectors of a snapshot."""
    centroids = ivf.centroids
    return (
        _is_matrix(centroids)
        and centroids.shape[1] == vectors.shape[1]
        and 0 < len(centroids) <= max(1, len(vectors))
        and are_rows(ivf.assignments, len(centroids), len(vectors))
    )


def is_consistent_codes(lists: InvertedLists) -> bool:
    """Return whether the quantized vectors of IVF lists have the rows that are assigned to them."""
    codes = lists.codes
    if codes is None:
        return True
    data, count = np.asarray(codes.data), len(lists.assignments)
    if data.dtype != np.uint8 or data.shape != (
        count,
        lists.centroids.shape[1] + ROW_TYPE.itemsize,
    ):
        return False
    rows = stored_rows(data, lists.sizes)
    return (
        codes.quantizer.dtype == np.float32
        and codes.quantizer.shape == (2,)
        and are_rows(rows, count)
        and np.array_equal(lists.assignments[rows], np.repeat(np.arange(lists.nlist), lists.sizes))
    )


def _checks(snapshot: Snapshot) -> Iterator[bool]:
    nodes, graph, dense = snapshot.nodes, snapshot.graph, snapshot.dense
    documents, count = len(snapshot.documents), len(nodes.ids)
    yield are_strings(nodes.ids)
    yield are_strings(graph.names)
    yield _is_list_of(snapshot.documents, str)
    yield _is_list_of(snapshot.titles, str | None, documents)
    yield _is_list_of(snapshot.stamps, str, documents)
    yield all(isinstance(value, str) for value in dict(snapshot.made_with).values())
    for name in NODE_ARRAYS:
        yield are_rows(getattr(nodes, name), None, count)
    chunks = len(snapshot.chunk_nodes)
    yield are_rows(nodes.document, documents, count)
    yield _ascends(nodes.document)
    yield bool((nodes.position <= np.arange(count)).all())
    yield bool((nodes.start <= nodes.end).all())
    yield bool((nodes.first_leaf < nodes.end_leaf).all())
    yield are_rows(nodes.end_leaf, chunks + 1, count)
    yield are_rows(snapshot.chunk_nodes, count)
    yield np.array_equal(snapshot.chunk_nodes, np.flatnonzero(nodes.level == 0))
    yield are_rows(snapshot.chunk_words, None, chunks)
    # The graph
    entities = len(graph.names)
    yield graph.named.dtype == np.bool_ and graph.named.shape == (entities,)
    yield graph.edges.shape == (entities, entities) and is_sparse(graph.edges, entities, entities)
    yield graph.postings.shape == (entities, chunks)
    yield is_sparse(graph.postings, entities, chunks)
    yield graph.edges.data.dtype.kind == "f"
    yield are_rows(graph.postings.data, None)
    yield _are_pairs(graph.pairs, entities)
    mentions, _ = snapshot.stored_parts()
    yield are_strings(snapshot.unedited_names)
    yield are_rows(mentions.entities, len(snapshot.unedited_names))
    yield _is_list_of(mentions.labels, str)
    yield are_rows(mentions.label_numbers, len(mentions.labels) + 1, len(mentions.entities))
    yield _are_sizes(mentions.sentence_sizes, len(mentions.entities))
    yield _are_sizes(mentions.chunk_sizes, len(mentions.sentence_sizes))
    yield len(mentions.chunk_sizes) == chunks
    yield from _checks_of_subjects(snapshot.subject_candidates, chunks)
    # The vectors
    windows = len(dense.window_nodes)
    _, index = snapshot.stored_parts()
    yield index.kind.are_valid(index.vectors)
    yield len(index.vectors) == windows
    yield are_rows(dense.window_nodes, count) and _ascends(dense.window_nodes)
    yield len(np.flatnonzero(np.diff(dense.window_nodes, prepend=-1))) == count
    yield not windows or snapshot.made_with.get("dimension") == str(index.vectors.shape[1])
    spans = snapshot.window_spans
    yield spans.dtype.kind in "iu" and spans.shape == (windows, 2)
    yield not windows or bool((spans[:, 0] >= 0).all() and (spans[:, 0] <= spans[:, 1]).all())
    yield from _checks_of_metadata(snapshot.records, documents, count)


def _checks_of_metadata(records: MetadataRecords, documents: int, nodes: int) -> Iterator[bool]:
    values, sections = len(records.values), records.sections
    yield _is_list_of(records.values, dict)
    languages = dict(records.languages)
    yield _is_list_of([*languages, *languages.values()], str)
    yield are_rows(records.indices, values)
    yield are_rows(records.starts, None, nodes) and bool((records.starts <= records.ends).all())
    yield are_rows(records.ends, len(records.indices) + 1, nodes)
    for name in SECTION_ARRAYS:
        yield are_rows(getattr(sections, name), None, len(sections.documents))
    yield are_rows(sections.documents, documents) and _ascends(sections.documents)
    yield are_rows(sections.records, values)


def _checks_of_subjects(table: SubjectTable, chunks: int) -> Iterator[bool]:
    candidates = len(table.names)
    yield are_strings(table.names) or table.names == ()
    yield are_rows(table.chunks, chunks, candidates) and _ascends(table.chunks)
    yield are_rows(table.levels + 1, MAX_LEVEL + 2, candidates)
    yield are_rows(table.starts, None, candidates)


def are_rows(array: Any, end: int | None, length: int | None = None) -> bool:
    """Return whether an array contains integers from 0 to `end` - 1."""
    return bool(
        array.dtype.kind in "iu"
        and array.ndim == 1
        and (length is None or len(array) == length)
        and (not len(array) or array.min() >= 0)
        and (end is None or not len(array) or array.max() < end)
    )


def _are_pairs(pairs: PairWeights | None, entities: int) -> bool:
    """Return whether weights are positive, and their keys are ascending pairs of rows."""
    if pairs is None:
        return True
    keys, units = pairs.keys, pairs.units
    if not (_are_integers(keys) and _are_integers(units) and len(keys) == len(units)):
        return False
    # In blocks, because arrays of millions of pairs do not fit into the cache of a processor.
    for start in range(0, len(keys), _BLOCK):
        own = keys[start : start + _BLOCK + 1]
        first, second = own >> 32, own & _LOW_32
        if not (
            bool((own[1:] > own[:-1]).all())
            and bool(((first >= 0) & (first < second) & (second < entities)).all())
            and bool((units[start : start + _BLOCK] > 0).all())
        ):
            return False
    return True


def _are_integers(array: Any) -> bool:
    return bool(array.dtype.kind in "iu" and array.ndim == 1)


def _are_sizes(array: Any, total: int) -> bool:
    return are_rows(array, total + 1) and int(array.sum(dtype=np.float64)) == total


def _ascends(array: Any) -> bool:
    return bool((array[1:] >= array[:-1]).all())


def _is_matrix(array: Any) -> bool:
    return bool(array.dtype == np.float32 and array.ndim == 2)  # noqa: PLR2004 - a matrix


def is_sparse(matrix: Any, rows: int, columns: int) -> bool:
    """Return whether the arrays of a sparse matrix with this number of rows are valid."""
    indptr = matrix.indptr
    return (
        are_rows(indptr, None, rows + 1)
        and indptr[0] == 0
        and _ascends(indptr)
        and indptr[-1] == len(matrix.indices) == len(matrix.data)
        and matrix.data.ndim == 1
        and are_rows(matrix.indices, columns)
    )


def are_strings(strings: Any) -> bool:
    """Return whether the bounds of a `StringArray` lie between whole characters of its data."""
    if not isinstance(strings, StringArray):
        return _is_list_of(strings, str)
    data, bounds = strings.data, strings.bounds
    if not (
        data.dtype == np.uint8
        and data.ndim == 1
        and are_rows(bounds, len(data) + 1)
        and len(bounds)
        and bounds[0] == 0
        and bounds[-1] == len(data)
        and _ascends(bounds)
    ):
        return False
    first = data[bounds[bounds < len(data)]]
    return not ((first & _CONTINUATION_MASK) == _FIRST_CONTINUATION).any()


def _is_list_of(values: Any, kind: Any, length: int | None = None) -> bool:
    return (
        isinstance(values, list)
        and (length is None or len(values) == length)
        and all(isinstance(value, kind) for value in values)
    )
