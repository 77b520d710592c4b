"""Title links between a chunk and a document or section whose subject it mentions, both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.graph.titles import Section
from e2graphrag_integrations.retrieval.trace import FollowedSubject
from e2graphrag_integrations.search.fusion import Floats, first_occurrences
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MAX_CHUNKS = 1000
"""Stop following title links, strongest first, once this many chunks are collected."""

_MAX_DOCUMENTS = 100
"""Ignore a title that links to more documents than this: it is too common to be informative."""


@dataclass(frozen=True, eq=False)
class TitleLinks:
    """The result of following title links.

    Attributes:
        rows: Node rows of the linked chunks, strongest link first.
        scores: Their scores, all above 0.
        followed: The subjects whose links were followed, strongest first.
    """

    rows: IntArray
    scores: Floats
    followed: tuple[FollowedSubject, ...]


def title_links(
    sources: Sequence[tuple[int, float]],
    snapshot: Snapshot,
    relevance: Callable[[IntArray], Floats],
    allowed: NDArray[np.bool_] | None = None,
    asked: Iterable[int] = (),
) -> TitleLinks:
    """Return the chunks that title links reach from the source chunks, and their scores.

    A two-hop query (a bridge question of HotpotQA, Yang et al. 2018) describes one document and
    asks about another, and one of the two mentions the subject of the other. Links therefore run in
    both directions. A linked chunk scores `source * strength * relevance`:

    * source: the score of the source chunk, relative to the best source chunk;
    * strength: `1 / n` if the source chunk mentions a subject that n documents or sections share;
      `1 / log2(2 + n)` if n other documents mention the subject of the source chunk's document, or
      n chunks outside of its section the heading of the section;
    * relevance: the relevance of the linked chunk to the query.

    If several links reach a chunk, the one with the highest `source * strength` is used. A name of
    the question that is the subject of several documents leads nowhere: each of them would lift the
    others above itself.

    Args:
        sources: Node rows of chunks and their scores, best first.
        snapshot: The search index.
        relevance: Returns the relevance of chunks, given their numbers.
        allowed: Mask over chunks, shape (chunks,); None allows all.
        asked: The entities that the question names, as rows of `snapshot.subjects`.
    """
    shared = {one for one in asked if len(snapshot.subjects.documents.get(one, ())) > 1}
    links = [
        (score / sources[0][1] * strength, entity, targets)
        for row, score in sources
        for strength, entity, targets in _links_from(int(snapshot.nodes.first_leaf[row]), snapshot)
        if entity not in shared
    ]
    target_chunks: list[IntArray] = []
    target_strengths: list[Floats] = []
    followed: dict[int, int] = {}  # chunks by entity
    count = 0
    for strength, entity, targets in sorted(links, key=lambda link: -link[0]):
        for target in targets:
            chunks = target if allowed is None else target[allowed[target]]
            target_chunks.append(chunks)
            target_strengths.append(np.full(len(chunks), strength))
            count += len(chunks)
            followed[entity] = followed.get(entity, 0) + len(chunks)
        if count >= _MAX_CHUNKS:
            break
    if not count:
        return TitleLinks(np.empty(0, dtype=np.int64), np.empty(0), ())
    chunks = np.concatenate(target_chunks)
    strongest = first_occurrences(chunks)
    scores = np.concatenate(target_strengths)[strongest] * relevance(chunks[strongest])
    rows = snapshot.chunk_nodes[chunks[strongest]]
    subjects = snapshot.subjects
    described = (
        FollowedSubject(subjects.names[entity], subjects.source_of(entity), number)
        for entity, number in followed.items()
        if number
    )
    return TitleLinks(rows[scores > 0], scores[scores > 0], tuple(described))


def _links_from(chunk: int, snapshot: Snapshot) -> Iterator[tuple[float, int, list[IntArray]]]:
    """Yield the strength, the entity and the target chunks of each title link from a chunk."""
    chunk_documents, subjects = snapshot.chunk_documents, snapshot.subjects
    document = int(chunk_documents[chunk])
    # Sets are faster than NumPy's set functions on a few items.
    titles = set(subjects.names_of(document).tolist())
    own = titles.union(subjects.sections_of(chunk).tolist())
    entities = snapshot.personalized_pagerank.entities_of(chunk)
    others = set(entities[subjects.is_subject[entities]].tolist()).difference(own)
    for entity in sorted(others):
        if targets := _chunks_about(entity, snapshot):
            yield 1 / len(targets), entity, targets
    for name in sorted(name for name in own if name < len(snapshot.graph.names)):
        chunks, _ = snapshot.graph.chunks(name)
        if name in titles:
            sample = chunks[:: len(chunks) // (2 * _MAX_DOCUMENTS) + 1]
            if _count_distinct(chunk_documents[sample]) > _MAX_DOCUMENTS + 1:
                continue  # The sample alone exceeds the limit, so skip the full count.
            chunks = chunks[chunk_documents[chunks] != document]
            mentioning = _count_distinct(chunk_documents[chunks])
        else:
            chunks = chunks[~_within(chunks, subjects.sections[name])]
            mentioning = len(chunks)
        if 0 < mentioning <= _MAX_DOCUMENTS:
            yield 1 / float(np.log2(2 + mentioning)), name, [chunks]


def _within(chunks: IntArray, sections: Sequence[Section]) -> NDArray[np.bool_]:
    """Return whether each chunk lies in one of the sections."""
    inside = np.zeros(len(chunks), dtype=np.bool_)
    for section in sections:
        inside |= (chunks >= section.first) & (chunks < section.end)
    return inside


def _chunks_about(entity: int, snapshot: Snapshot) -> list[IntArray]:
    """Return the chunks of each document about a name, and of each section in other documents.

    There are none if the name is too common.
    """
    subjects, chunk_documents = snapshot.subjects, snapshot.chunk_documents
    titled = np.asarray(subjects.documents.get(entity, ()), dtype=chunk_documents.dtype)
    if len(titled) > _MAX_DOCUMENTS:
        return []
    known = set(titled.tolist())
    sections = [
        (section.first, section.end)
        for section in subjects.sections.get(entity, ())
        if int(chunk_documents[section.first]) not in known
    ]
    if len(titled) + len(sections) > _MAX_DOCUMENTS:
        return []
    first, end = (np.searchsorted(chunk_documents, titled, side) for side in ("left", "right"))
    bounds = [*zip(first.tolist(), end.tolist(), strict=True), *sections]
    return [np.arange(*one) for one in bounds]


def _count_distinct(documents: IntArray) -> int:
    """Return the number of distinct values in an ascending array."""
    return len(documents) and 1 + int(np.count_nonzero(documents[1:] != documents[:-1]))
