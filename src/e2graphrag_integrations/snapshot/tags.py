"""Assigning tags to chunks, without a language model.

A chunk gets up to three tags, by the cosine between its windows and the tags, and by the words of
their names. The assignment of a chunk depends only on its own windows and on the tag set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.words import longest_terms

TAGS_PER_CHUNK = 3
"""Maximum number of tags of a chunk."""

_THRESHOLD = 0.06
"""Minimum score of a tag. Chosen on the dev halves of three labeled sets (docs/boosts.md)."""

_NAME_WEIGHT = 0.05
"""Score of a window that contains all words of the name of a tag."""

_BATCH = 20_000
"""Windows per batch, which bounds the memory."""

_SUMMARY_SHARE = 0.5
"""A summary has the tags of at least this share of the chunks under it."""


def assign_tags(snapshot: Snapshot) -> NDArray[np.int16]:
    """Return the tags of each chunk, best first, shape (chunks, 3), padded with -1.

    The score of a tag for a window is::

        (cosine(tag, window) - reference) / (1 - background) + 0.05 * share of the words of the name

    `background` is the cosine between the tags and unrelated texts. `reference` is the mean of
    `background` and the cosines of all tags to this window, so a tag must stand out among
    the others. A chunk has the score of its best window, and gets the tags that score at
    least 0.06.
    """
    tag_set, dense = snapshot.tag_set, snapshot.dense
    n_tags = len(tag_set.tags)
    assigned = np.full((len(snapshot.chunk_nodes), TAGS_PER_CHUNK), -1, dtype=np.int16)
    if not n_tags or not has_tag_vectors(snapshot):
        return assigned
    windows = np.flatnonzero(snapshot.is_chunk[dense.window_nodes])
    chunk_of_node = np.cumsum(snapshot.is_chunk) - 1
    chunks = chunk_of_node[dense.window_nodes[windows]]
    scores = np.full((len(snapshot.chunk_nodes), n_tags), -np.inf, dtype=np.float32)
    for first in range(0, len(windows), _BATCH):
        batch = slice(first, first + _BATCH)
        np.maximum.at(scores, chunks[batch], _window_scores(snapshot, windows[batch]))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :TAGS_PER_CHUNK]
    best = np.take_along_axis(scores, order, axis=1)
    assigned[:, : order.shape[1]] = np.where(best >= _THRESHOLD, order, -1)
    return assigned


def are_consistent(tags: Any, snapshot: Snapshot) -> bool:
    """Return whether the stored tags of chunks fit a snapshot and its tag set."""
    return (
        tags.shape == (len(snapshot.chunk_nodes), TAGS_PER_CHUNK)
        and tags.dtype == np.int16
        and bool(((tags >= -1) & (tags < len(snapshot.tag_set.tags))).all())
    )


def has_tag_vectors(snapshot: Snapshot) -> bool:
    """Return whether the embedder of the index made the vectors of the tag set.

    It did not if all documents were deleted, and new ones were indexed with another embedder.
    """
    tag_set = snapshot.tag_set
    same_size = snapshot.made_with.get("dimension", "") == str(tag_set.vectors.shape[-1])
    return same_size and snapshot.made_with.get("embedder") == tag_set.embedder


def _window_scores(snapshot: Snapshot, windows: IntArray) -> NDArray[np.float32]:
    """Return the score of each tag for each window, shape (windows, tags)."""
    tag_set, bm25 = snapshot.tag_set, snapshot.bm25
    cosines = snapshot.dense.cosines_of(tag_set.vectors, windows)
    background = tag_set.background
    reference = (cosines.sum(axis=1, keepdims=True) + background) / (len(tag_set.tags) + 1)
    scores = (cosines - reference) / max(1 - background, 1e-3)
    for place, name in enumerate(tag_set.names):
        words = set(longest_terms(name))
        known = [word for word in sorted(words) if bm25.idf(word)]
        if known:
            found = bm25.contain(known, windows)
            scores[:, place] += _NAME_WEIGHT * found.sum(axis=0) / len(words)
    rounded: NDArray[np.float32] = scores.round(6).astype(np.float32)
    return rounded


def tags_of_nodes(snapshot: Snapshot, rows: IntArray) -> list[tuple[str, ...]]:
    """Return the names of the tags of each node.

    A summary has the tags of at least half of the chunks under it, most frequent first.
    """
    names = snapshot.tag_set.names
    if not names:
        return [()] * len(rows)
    nodes, chunk_tags = snapshot.nodes, snapshot.chunk_tags
    tags = []
    for row in rows.tolist():
        first, end = int(nodes.first_leaf[row]), int(nodes.end_leaf[row])
        present = chunk_tags[first:end].ravel()
        found: IntArray = present[present >= 0]
        if nodes.level[row]:
            counts = np.bincount(found, minlength=len(names))
            frequent = np.flatnonzero(counts >= max(1, _SUMMARY_SHARE * (end - first)))
            found = frequent[np.argsort(-counts[frequent], kind="stable")]
        tags.append(tuple(names[tag] for tag in found.tolist()))
    return tags


def nodes_with_tags(snapshot: Snapshot, tags: IntArray) -> NDArray[np.bool_]:
    """Return the mask of the nodes in which every chunk has one of the tags, shape (nodes,)."""
    has_one = np.isin(snapshot.chunk_tags, tags).any(axis=1)
    missing = np.concatenate([[0], np.cumsum(~has_one)])
    mask: NDArray[np.bool_] = missing[snapshot.nodes.end_leaf] == missing[snapshot.nodes.first_leaf]
    return mask


def count_tags(snapshot: Snapshot) -> dict[str, int]:
    """Return the number of chunks with each tag, by name, in the order of the tag set.

    If names of other tags may not be listed, only those that chunks have are.
    """
    names = snapshot.tag_set.names
    found = snapshot.chunk_tags[snapshot.chunk_tags >= 0]
    counts = np.bincount(found, minlength=len(names)).tolist()
    if not names:
        return {}
    listed = snapshot.tag_set.is_listed
    return {name: count for name, count in zip(names, counts, strict=True) if listed or count}
