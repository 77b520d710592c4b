"""Bridges: from the passages found to those whose title they name, or that name their title."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from e2graphrag_integrations.arrays import IntArray
from e2graphrag_integrations.ranking import Floats
from e2graphrag_integrations.store.snapshot import Snapshot

_COMMON = 100
"""A title that more documents than this name leads nowhere in particular."""


def bridges(
    found: Sequence[tuple[int, float]],
    snapshot: Snapshot,
    fit: Callable[[IntArray], Floats],
) -> dict[int, float]:
    """Return the chunks that passages lead to by titles, with how good each is.

    A question of two hops names one document and asks about another: the second is named in the
    first, or names it. A chunk's value is that of the passage that leads there, times how few
    documents the title stands for, times how well the chunk itself fits the question.

    Args:
        found: Chunks by their rows, best first, with their scores.
        snapshot: Of the index.
        fit: Returns how well chunks, given by their numbers, fit the question.
    """
    reached: dict[int, float] = {}
    for row, score in found:
        chunk = int(snapshot.nodes.first_leaf[row])
        trust = score / found[0][1]
        for targets, share in _links(chunk, snapshot):
            for target in targets.tolist():
                reached[target] = max(reached.get(target, 0.0), trust * share)
    if not reached:
        return {}
    chunks = np.asarray(list(reached), dtype=np.int64)
    values = np.asarray(list(reached.values())) * fit(chunks)
    rows = snapshot.chunk_nodes[chunks]
    return {int(row): float(value) for row, value in zip(rows, values, strict=True) if value > 0}


def _links(chunk: int, snapshot: Snapshot) -> Iterator[tuple[IntArray, float]]:
    """Yield chunks of other documents that a chunk's names lead to, and how surely."""
    own = int(snapshot.document_of_chunk[chunk])
    subjects = snapshot.subjects
    title = int(subjects.of_document[own])
    entities = snapshot.walk.entities_of(chunk)
    for entity in entities[subjects.is_title[entities]].tolist():
        named = subjects.documents[entity]
        # Its own title is no bridge to others that bear it, too.
        if entity != title and len(named) <= _COMMON:
            for document in named:
                yield _chunks_of(document, snapshot), 1 / len(named)
    if 0 <= title < len(snapshot.graph.names):
        chunks, _ = snapshot.graph.chunks(title)
        documents = snapshot.document_of_chunk[chunks]
        others = len(np.unique(documents[documents != own]))
        if 0 < others <= _COMMON:
            yield chunks[documents != own], 1 / float(np.log2(2 + others))


def _chunks_of(document: int, snapshot: Snapshot) -> IntArray:
    first, end = np.searchsorted(snapshot.document_of_chunk, [document, document + 1])
    return np.arange(first, end)
