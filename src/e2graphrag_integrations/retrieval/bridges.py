"""Bridges: from the passages found to those whose title they name, or that name their title."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from e2graphrag_integrations.arrays import IntArray
from e2graphrag_integrations.ranking import Floats, firsts
from e2graphrag_integrations.store.snapshot import Snapshot

_MOST = 2000
"""Chunks, those led to most surely, after which no further way is followed."""

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
    links = [
        (score / found[0][1] * share, documents, chunks)
        for row, score in found
        for share, documents, chunks in _links(int(snapshot.nodes.first_leaf[row]), snapshot)
    ]
    reached: list[IntArray] = []
    sure: list[Floats] = []
    for surety, documents, chunks in sorted(links, key=lambda link: -link[0]):
        parts = [chunks, *(_chunks_of(document, snapshot) for document in documents)]
        reached += parts
        sure += [np.full(len(part), surety) for part in parts]
        if sum(map(len, reached)) >= _MOST:
            break
    if not reached:
        return {}
    together = np.concatenate(reached)
    first = firsts(together)  # the surest way to each
    values = np.concatenate(sure)[first] * fit(together[first])
    rows = snapshot.chunk_nodes[together[first]]
    return {int(row): float(value) for row, value in zip(rows, values, strict=True) if value > 0}


def _links(chunk: int, snapshot: Snapshot) -> Iterator[tuple[float, Sequence[int], IntArray]]:
    """Yield documents, or chunks, that a chunk's names lead to, and before them how surely."""
    own = int(snapshot.document_of_chunk[chunk])
    subjects = snapshot.subjects
    title = int(subjects.of_document[own])
    entities = snapshot.walk.entities_of(chunk)
    for entity in entities[subjects.is_title[entities]].tolist():
        named = subjects.documents[entity]
        # Its own title is no bridge to others that bear it, too.
        if entity != title and len(named) <= _COMMON:
            yield 1 / len(named), named, np.empty(0, dtype=np.int64)
    if 0 <= title < len(snapshot.graph.names):
        chunks, _ = snapshot.graph.chunks(title)
        documents = snapshot.document_of_chunk[chunks]
        others = len(np.unique(documents[documents != own]))
        if 0 < others <= _COMMON:
            yield 1 / float(np.log2(2 + others)), (), chunks[documents != own]


def _chunks_of(document: int, snapshot: Snapshot) -> IntArray:
    first, end = np.searchsorted(snapshot.document_of_chunk, [document, document + 1])
    return np.arange(first, end)
