"""Title links between a chunk and a document whose title it mentions, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.search.fusion import Floats, first_occurrences
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MAX_CHUNKS = 1000
"""Stop following title links, strongest first, once this many chunks are collected."""

_MAX_DOCUMENTS = 100
"""Ignore a title that links to more documents than this: it is too common to be informative."""


def title_links(
    sources: Sequence[tuple[int, float]],
    snapshot: Snapshot,
    relevance: Callable[[IntArray], Floats],
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[IntArray, Floats]:
    """Return the chunks that title links reach from the source chunks, and their scores.

    A two-hop query (a bridge question of HotpotQA, Yang et al. 2018) describes one document and
    asks about another, and one of the two mentions the title of the other. Links therefore run in
    both directions. A linked chunk scores `source * strength * relevance`:

    * source: the score of the source chunk, relative to the best source chunk;
    * strength: `1 / n` if the source chunk mentions a title that n documents share;
      `1 / log2(2 + n)` if n other documents mention the title of the source chunk's document;
    * relevance: the relevance of the linked chunk to the query.

    If several links reach a chunk, the one with the highest `source * strength` is used.

    Args:
        sources: Node rows of chunks and their scores, best first.
        snapshot: The search index.
        relevance: Returns the relevance of chunks, given their numbers.
        allowed: Mask over chunks, shape (chunks,); None allows all.

    Returns:
        Node rows and scores of the linked chunks, both of shape (linked chunks,), strongest link
        first. Chunks with a score of 0 are omitted.
    """
    links = [
        (score / sources[0][1] * strength, targets)
        for row, score in sources
        for strength, targets in _links_from(int(snapshot.nodes.first_leaf[row]), snapshot)
    ]
    target_chunks: list[IntArray] = []
    target_strengths: list[Floats] = []
    count = 0
    for strength, targets in sorted(links, key=lambda link: -link[0]):
        for target in targets:
            chunks = target if allowed is None else target[allowed[target]]
            target_chunks.append(chunks)
            target_strengths.append(np.full(len(chunks), strength))
            count += len(chunks)
        if count >= _MAX_CHUNKS:
            break
    if not count:
        return np.empty(0, dtype=np.int64), np.empty(0)
    chunks = np.concatenate(target_chunks)
    strongest = first_occurrences(chunks)
    scores = np.concatenate(target_strengths)[strongest] * relevance(chunks[strongest])
    rows = snapshot.chunk_nodes[chunks[strongest]]
    return rows[scores > 0], scores[scores > 0]


def _links_from(chunk: int, snapshot: Snapshot) -> Iterator[tuple[float, Iterable[IntArray]]]:
    """Yield the strength and the target chunks of each title link from a chunk."""
    chunk_documents, subjects = snapshot.chunk_documents, snapshot.subjects
    document = int(chunk_documents[chunk])
    own = subjects.names_of(document)
    entities = snapshot.personalized_pagerank.entities_of(chunk)
    for entity in np.setdiff1d(entities[subjects.is_subject[entities]], own).tolist():
        titled = subjects.documents[entity]
        if len(titled) <= _MAX_DOCUMENTS:
            bounds = (np.searchsorted(chunk_documents, [other, other + 1]) for other in titled)
            yield 1 / len(titled), (np.arange(first, end) for first, end in bounds)
    for name in own[own < len(snapshot.graph.names)].tolist():
        chunks, _ = snapshot.graph.chunks(name)
        sample = chunks[:: len(chunks) // (2 * _MAX_DOCUMENTS) + 1]
        if _count_distinct(chunk_documents[sample]) > _MAX_DOCUMENTS + 1:
            continue  # The sample alone exceeds the limit, so skip the full count.
        chunks = chunks[chunk_documents[chunks] != document]
        mentioning = _count_distinct(chunk_documents[chunks])
        if 0 < mentioning <= _MAX_DOCUMENTS:
            yield 1 / float(np.log2(2 + mentioning)), [chunks]


def _count_distinct(documents: IntArray) -> int:
    """Return the number of distinct values in an ascending array."""
    return len(documents) and 1 + int(np.count_nonzero(documents[1:] != documents[:-1]))
