"""Bridges: from the passages found to those whose title they name, or that name their title."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.search.fusion import Floats, first_occurrences
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MOST = 1000
"""Chunks, those led to most surely, after which no further way is followed."""

_COMMON = 100
"""A title that more documents than this name leads nowhere in particular."""


def title_links(
    found: Sequence[tuple[int, float]],
    snapshot: Snapshot,
    fit: Callable[[IntArray], Floats],
    seen: NDArray[np.bool_] | None = None,
) -> tuple[IntArray, Floats]:
    """Return the rows of chunks that passages lead to by titles, and how good each is.

    A question of two hops names one document and asks about another: the second is named in the
    first, or names it. A chunk's value is that of the passage that leads there, times how few
    documents the title stands for, times how well the chunk itself fits the question.

    Args:
        found: Chunks by their rows, best first, with their scores.
        snapshot: Of the index.
        fit: Returns how well chunks, given by their numbers, fit the question.
        seen: Mask over chunks; None where all may be seen.
    """
    ways = [
        (score / found[0][1] * share, parts)
        for row, score in found
        for share, parts in _ways(int(snapshot.nodes.first_leaf[row]), snapshot)
    ]
    reached: list[IntArray] = []
    sure: list[Floats] = []
    count = 0
    for surety, parts in sorted(ways, key=lambda way: -way[0]):
        for part in parts:
            chunks = part if seen is None else part[seen[part]]
            reached.append(chunks)
            sure.append(np.full(len(chunks), surety))
            count += len(chunks)
        if count >= _MOST:
            break
    if not count:
        return np.empty(0, dtype=np.int64), np.empty(0)
    together = np.concatenate(reached)
    first = first_occurrences(together)  # the surest way to each
    values = np.concatenate(sure)[first] * fit(together[first])
    rows = snapshot.chunk_nodes[together[first]]
    return rows[values > 0], values[values > 0]


def _ways(chunk: int, snapshot: Snapshot) -> Iterator[tuple[float, Iterable[IntArray]]]:
    """Yield how surely a chunk's names lead to chunks of other documents, and to which."""
    own = int(snapshot.document_of_chunk[chunk])
    subjects = snapshot.subjects
    title = int(subjects.of_document[own])
    entities = snapshot.walk.entities_of(chunk)
    for entity in entities[subjects.is_title[entities]].tolist():
        named = subjects.documents[entity]
        # Its own title is no bridge to others that bear it, too.
        if entity != title and len(named) <= _COMMON:
            yield 1 / len(named), (_chunks_of(document, snapshot) for document in named)
    if 0 <= title < len(snapshot.graph.names):
        chunks, _ = snapshot.graph.chunks(title)
        some = chunks[:: len(chunks) // (2 * _COMMON) + 1]
        if _distinct(snapshot.document_of_chunk[some]) > _COMMON + 1:
            return  # some tell already that there are too many
        documents = snapshot.document_of_chunk[chunks]
        chunks, documents = chunks[documents != own], documents[documents != own]
        others = _distinct(documents)
        if 0 < others <= _COMMON:
            yield 1 / float(np.log2(2 + others)), [chunks]


def _distinct(documents: IntArray) -> int:
    """Return how many documents there are among ascending ones, as those of chunks are."""
    return len(documents) and 1 + int(np.count_nonzero(documents[1:] != documents[:-1]))


def _chunks_of(document: int, snapshot: Snapshot) -> IntArray:
    first, end = np.searchsorted(snapshot.document_of_chunk, [document, document + 1])
    return np.arange(first, end)
