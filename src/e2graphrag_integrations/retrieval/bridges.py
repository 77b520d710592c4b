"""Bridges: chunks that share a specific name with one of the best chunks.

A question of two hops describes one passage and asks about a second one: "Of what did the founder
of the Tarn Observatory die?" The first passage names the founder, and the second one contains the
rest of the question's words. Neither vectors nor BM25 rank it high, since it does not contain the
words of the first hop. The name is the only way there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, log2
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.relevance import Relevance
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.trace import FollowedName
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.text.words import terms_of

NAME = "bridges"
"""Name of the list in the trace and in reasons."""

_MAX_SOURCES = 8
"""Number of the best chunks from which bridges are followed."""

_MAX_CHUNKS = 100
"""A name in more chunks than this is too common to lead anywhere."""

_MAX_TARGETS = 2_000
"""Stop following bridges, strongest first, once this many chunks are collected."""

_ANY_NAME = 0.3
"""Strength of a bridge from a chunk without a word of the question."""

_RELEVANCE = 0.5
"""Weight of the relevance of a target, compared with the words that its source lacks."""

_BELOW_SOURCE = 0.8
"""A chunk that a bridge lifts gets at most this fraction of its source's score. The source answers
the first hop, so it comes first."""


_MAX_QUOTED = 200
"""Maximum number of characters of a sentence in a reason."""

_MAX_FOLLOWED = 50
"""Maximum number of bridges in the trace."""


@dataclass(frozen=True, eq=False)
class Bridges:
    """The chunks that bridges reach.

    Attributes:
        rows: Node rows of the chunks, strongest bridge first.
        gains: What each adds to the score of its chunk, above 0.
        entities: The name of each bridge, as a row of the snapshot's subjects.
        sources: The node row of the chunk from which it leads.
    """

    rows: IntArray
    gains: Floats
    entities: IntArray
    sources: IntArray

    def followed(self, snapshot: Snapshot) -> tuple[FollowedName, ...]:
        """Return the strongest bridges as names and node ids."""
        ids, names = snapshot.nodes.ids, snapshot.subjects.names
        columns = (self.entities, self.sources, self.rows)
        chosen = (column[:_MAX_FOLLOWED].tolist() for column in columns)
        return tuple(
            FollowedName(names[entity], ids[source], ids[row])
            for entity, source, row in zip(*chosen, strict=True)
        )


@dataclass(frozen=True, eq=False)
class _Links:
    """Links from a source to a target through a name, one per row.

    Attributes:
        chunks: The target.
        strengths: The strength of the link, in [0, 1.3].
        entities: The name.
        sources: The place of the source among the sources.
    """

    chunks: IntArray
    strengths: Floats
    entities: IntArray
    sources: IntArray


def find_bridges(
    rows: IntArray,
    scores: Floats,
    snapshot: Snapshot,
    relevance: Relevance,
    *,
    known: Collection[int],
    allowed: NDArray[np.bool_] | None,
    weight: float,
) -> Bridges:
    """Follow the specific names of the best chunks to other chunks.

    A link from a source to a chunk of another document, through a name that is in n chunks and not
    in the question, is worth::

        source * (0.3 + share) * specificity / log2(1 + n) * (missing + 0.5 * relevance)

    * source: the score of the source, relative to the best source;
    * specificity: that of the name, in [0, 1], as in `Seeds.specificity`;
    * share: the share of the question, by IDF, that the source's best window contains;
    * missing: the share of the words that the source lacks that the target contains;
    * relevance: the relevance of the target to the question.

    A target gets `weight` times the best source's score times the worth of its best link, but only
    up to 0.8 times the score of the link's source.

    Args:
        rows: All ranked nodes, best first.
        scores: Their scores.
        snapshot: The search index.
        relevance: The relevance of windows to the question.
        known: The entities of the question; they are no bridges.
        allowed: Mask over chunks, shape (chunks,); None allows all.
        weight: Weight of the bridges.
    """
    nothing = np.empty(0, dtype=np.int64)
    best = np.flatnonzero(snapshot.nodes.level[rows] == 0)[:_MAX_SOURCES]
    starts, start_scores = rows[best], scores[best]
    sources = snapshot.nodes.first_leaf[starts]
    words = _Words.of(relevance, snapshot)
    strengths = start_scores / start_scores[:1] * (_ANY_NAME + words.shares(sources))
    links = _links(sources, strengths, snapshot, known, allowed)
    if not len(links.chunks):
        return Bridges(nothing, np.empty(0), nothing, nothing)
    targets, places = np.unique(links.chunks, return_inverse=True)
    missing = words.missing_in(targets, sources)[places, links.sources]
    worth = missing + _RELEVANCE * relevance.of_chunks(targets)[places]
    gains = weight * float(start_scores[0]) * links.strengths * worth
    own = np.zeros(len(snapshot.nodes.ids))
    own[rows] = scores
    target_rows = snapshot.chunk_nodes[targets]
    room = _BELOW_SOURCE * start_scores[links.sources] - own[target_rows[places]]
    gains = np.minimum(gains, room)
    order = np.lexsort((links.sources, -gains))
    order = order[gains[order] > 0]
    _, first = np.unique(places[order], return_index=True)
    chosen = order[np.sort(first)]
    return Bridges(
        target_rows[places[chosen]],
        gains[chosen],
        links.entities[chosen],
        starts[links.sources[chosen]],
    )


@dataclass(frozen=True, eq=False)
class _Words:
    """The words of the question, and where they are.

    Attributes:
        weights: The IDF of each word, shape (words,).
        contain: Returns which windows contain which words, shape (words, windows).
        windows_of: Returns the windows of chunks, and the place of each window's chunk.
    """

    weights: Floats
    contain: Callable[[IntArray], NDArray[np.bool_]]
    windows_of: Callable[[IntArray], tuple[IntArray, IntArray]]

    @classmethod
    def of(cls, relevance: Relevance, snapshot: Snapshot) -> _Words:
        """Return the words of a question."""
        idf = snapshot.bm25.idf
        words = dict.fromkeys(relevance.terms)
        highest = snapshot.bm25.idf_of_unique
        return cls(
            np.asarray([idf(word) or highest for word in words]),
            relevance.contain,
            lambda chunks: snapshot.dense.windows_of(snapshot.chunk_nodes[chunks]),
        )

    def shares(self, chunks: IntArray) -> Floats:
        """Return the share of the question in the best window of each chunk, in [0, 1]."""
        windows, owners = self.windows_of(chunks)
        shares = np.zeros(len(chunks))
        np.maximum.at(shares, owners, self.weights @ self.contain(windows))
        return shares / max(float(self.weights.sum()), 1e-9)

    def missing_in(self, targets: IntArray, sources: IntArray) -> Floats:
        """Return the share of each source's missing words in each target, in [0, 1].

        Returns:
            Shape (targets, sources).
        """
        missing = self.weights[:, None] * ~self._in(sources)
        found = self._in(targets).T.astype(np.float64) @ missing
        return np.asarray(found / np.maximum(missing.sum(axis=0), 1e-9))

    def _in(self, chunks: IntArray) -> NDArray[np.bool_]:
        """Return which words each chunk contains, shape (words, chunks)."""
        windows, owners = self.windows_of(chunks)
        mask = np.zeros((len(self.weights), len(chunks)), dtype=np.bool_)
        words, places = np.nonzero(self.contain(windows))
        mask[words, owners[places]] = True
        return mask


def _links(
    sources: IntArray,
    strengths: Floats,
    snapshot: Snapshot,
    known: Collection[int],
    allowed: NDArray[np.bool_] | None,
) -> _Links:
    """Return the links from the sources, which have strengths of their own, strongest first."""
    documents = snapshot.chunk_documents
    total = len(documents) if allowed is None else int(allowed.sum())
    found: list[tuple[float, int, int, IntArray]] = []
    for place, (chunk, value) in enumerate(zip(sources.tolist(), strengths.tolist(), strict=True)):
        for entity in _names_in(chunk, snapshot):
            if entity in known:
                continue
            chunks = snapshot.personalized_pagerank.chunks_of(entity)
            chunks = chunks if allowed is None else chunks[allowed[chunks]]
            others = chunks[documents[chunks] != documents[chunk]]
            if len(others):
                found.append((value * _worth_of_name(len(chunks), total), entity, place, others))
    found.sort(key=lambda link: -link[0])
    sizes = np.asarray([len(chunks) for *_, chunks in found], dtype=np.int64)
    kept = int(np.searchsorted(np.cumsum(sizes), _MAX_TARGETS)) + 1
    found, sizes = found[:kept], sizes[:kept]
    empty: IntArray = np.empty(0, dtype=np.int64)
    return _Links(
        np.concatenate([empty, *(chunks for *_, chunks in found)]),
        np.repeat([strength for strength, *_ in found], sizes),
        np.repeat(np.asarray([entity for _, entity, *_ in found], dtype=np.int64), sizes),
        np.repeat(np.asarray([place for _, _, place, _ in found], dtype=np.int64), sizes),
    )


def _names_in(chunk: int, snapshot: Snapshot) -> list[int]:
    """Return the names in a chunk that are in few chunks, ascending."""
    pagerank, named = snapshot.personalized_pagerank, snapshot.graph.named
    entities = pagerank.entities_of(chunk)
    entities = entities[pagerank.doc_freq[entities] <= _MAX_CHUNKS]
    is_name = snapshot.subjects.is_subject[entities]
    in_graph = entities < len(named)
    is_name[in_graph] |= named[entities[in_graph]]
    names: list[int] = np.sort(entities[is_name]).tolist()
    return names


def _worth_of_name(chunks: int, total: int) -> float:
    """Return the worth of a name in some of all chunks: 1 / log2(1 + n) times its specificity.

    The specificity is that of `Seeds.specificity`: 0 if all chunks have the name.
    """
    if total <= 2:  # noqa: PLR2004 - the formula needs more than two chunks
        return 1 / log2(1 + chunks)
    specificity = log((total + 1) / (chunks + 1)) / log((total + 1) / 2)
    return max(0.0, specificity) / log2(1 + chunks)


def with_sentences(
    nodes: Iterable[RetrievedNode], followed: Sequence[FollowedName], texts: Mapping[str, str]
) -> list[RetrievedNode]:
    """Add the sentence that names a bridge to the reasons of the nodes that it led to.

    Args:
        nodes: The result.
        followed: The bridges.
        texts: The texts that have been read, by node id. Without the text of its source, a bridge
            has no sentence.
    """
    by_target = {one.target: one for one in followed}
    return [_with_sentence(node, by_target.get(node.node_id), texts) for node in nodes]


def _with_sentence(
    node: RetrievedNode, followed: FollowedName | None, texts: Mapping[str, str]
) -> RetrievedNode:
    if followed is None:
        return node
    sentence = _sentence_with(followed.name, texts.get(followed.source, ""))
    through = f"through {followed.name}"
    if sentence:
        through += f", in the sentence {sentence!r}"
    reasons = [f"{one}, {through}" if one.startswith(f"{NAME}: ") else one for one in node.reasons]
    return replace(node, reasons=tuple(reasons))


def _sentence_with(name: str, text: str) -> str:
    """Return the first sentence with all words of a name, shortened; empty if there is none."""
    words = set(terms_of(name))
    for start, end in sentence_spans(text):
        sentence = " ".join(text[start:end].split())
        if words <= set(terms_of(sentence)):
            return shorten(sentence, _MAX_QUOTED, placeholder=" ...")
    return ""
