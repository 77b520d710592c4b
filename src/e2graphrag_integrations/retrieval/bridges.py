"""Bridges: chunks that share a specific name with one of the best chunks.

A question of two hops describes one passage and asks about a second one: "Of what did the founder
of the Tarn Observatory die?" The first passage names the founder, and the second one contains the
rest of the question's words. Neither vectors nor BM25 rank it high, since it does not contain the
words of the first hop. The name is the only way there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, values_at
from e2graphrag_integrations.retrieval.relevance import Relevance
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.specificity import specificity
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

_MAX_TARGETS = 300
"""Stop following bridges, strongest first, once this many chunks are collected."""

_ANY_NAME = 0.3
"""Strength of a bridge from a chunk without a word of the question."""

_RELEVANCE = 0.5
"""Weight of the relevance of a target, compared with the words that its source lacks."""

_BELOW_SOURCE = 0.8
"""A chunk that a bridge lifts gets at most this fraction of its source's score. The source answers
the first hop, so it comes first."""

_TELLING = 0.2
"""Words of the question with a lower IDF, relative to its rarest word, are ignored."""

_MAX_QUOTED = 200
"""Maximum number of characters of a sentence in a reason."""

_MAX_FOLLOWED = 20
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
    * specificity: that of the name, in [0, 1] (`retrieval/specificity.py`);
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
    words = _Words(relevance, snapshot)
    shares, lacking = words.shares_and_lacking(sources)
    strengths = start_scores / start_scores[:1] * (_ANY_NAME + shares)
    links = _links(sources, strengths, snapshot, known, allowed)
    if not len(links.chunks):
        return Bridges(nothing, np.empty(0), nothing, nothing)
    targets, places = np.unique(links.chunks, return_inverse=True)
    missing = words.found_of(lacking, targets)[places, links.sources]
    worth = missing + _RELEVANCE * relevance.of_chunks(targets)[places]
    gains = weight * float(start_scores[0]) * links.strengths * worth
    target_rows = snapshot.chunk_nodes[targets]
    own = values_at(target_rows, rows, scores)
    room = _BELOW_SOURCE * start_scores[links.sources] - own[places]
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


class _Words:
    """The telling words of the question, and where they are.

    Args:
        relevance: Knows which windows contain which words.
        snapshot: The search index.
    """

    def __init__(self, relevance: Relevance, snapshot: Snapshot) -> None:
        bm25 = snapshot.bm25
        weights = {one: bm25.idf(one) or bm25.idf_of_unique for one in relevance.terms}
        least = _TELLING * max(weights.values(), default=0.0)
        self._words = [one for one, weight in weights.items() if weight >= least]
        self._weights = np.asarray([weights[one] for one in self._words])
        self._relevance = relevance
        self._snapshot = snapshot

    def shares_and_lacking(self, chunks: IntArray) -> tuple[Floats, Floats]:
        """Return the share of the question in the best window of each chunk, and what it lacks.

        Returns:
            Shares in [0, 1], shape (chunks,), and the weights of the words that each chunk lacks,
            shape (words, chunks).
        """
        windows, owners = self._windows_of(chunks)
        mask = self._relevance.contain(self._words, windows)
        shares = np.zeros(len(chunks))
        np.maximum.at(shares, owners, self._weights @ mask)
        lacking = self._weights[:, None] * ~_of_owners(mask, owners, len(chunks))
        return shares / max(float(self._weights.sum()), 1e-9), lacking

    def found_of(self, lacking: Floats, chunks: IntArray) -> Floats:
        """Return the share of lacking words, by weight, that each chunk contains, in [0, 1].

        Args:
            lacking: Weights of lacking words, shape (words, sources).
            chunks: The chunks.

        Returns:
            Shape (chunks, sources).
        """
        windows, owners = self._windows_of(chunks)
        mask = _of_owners(self._relevance.contain(self._words, windows), owners, len(chunks))
        found = mask.T.astype(np.float64) @ lacking
        return np.asarray(found / np.maximum(lacking.sum(axis=0), 1e-9))

    def _windows_of(self, chunks: IntArray) -> tuple[IntArray, IntArray]:
        return self._snapshot.dense.windows_of(self._snapshot.chunk_nodes[chunks])


def _of_owners(mask: NDArray[np.bool_], owners: IntArray, count: int) -> NDArray[np.bool_]:
    """Return which words the windows of each chunk contain together, shape (words, chunks)."""
    together = np.zeros((len(mask), count), dtype=np.bool_)
    words, places = np.nonzero(mask)
    together[words, owners[places]] = True
    return together


def _links(
    sources: IntArray,
    strengths: Floats,
    snapshot: Snapshot,
    known: Collection[int],
    allowed: NDArray[np.bool_] | None,
) -> _Links:
    """Return the links from the sources, which have strengths of their own, strongest first."""
    documents, postings = snapshot.chunk_documents, snapshot.personalized_pagerank.entity_chunks
    total = len(documents) if allowed is None else int(allowed.sum())
    names, places = _names_in(sources, snapshot, known)
    first = postings.indptr[names]
    sizes = postings.indptr[names + 1] - first
    owners = np.repeat(np.arange(len(names)), sizes)
    chunks = postings.indices[concatenated_ranges(first, sizes)]
    if allowed is not None:
        chunks, owners = chunks[allowed[chunks]], owners[allowed[chunks]]
    counts = np.bincount(owners, minlength=len(names))
    values = strengths[places] * _worth_of_names(counts, total)
    others = documents[chunks] != documents[sources][places[owners]]
    chunks, owners = chunks[others], owners[others]
    order = np.argsort(-values[owners], kind="stable")[:_MAX_TARGETS]
    chunks, owners = chunks[order], owners[order]
    return _Links(chunks.astype(np.int64), values[owners], names[owners], places[owners])


def _names_in(
    chunks: IntArray, snapshot: Snapshot, known: Collection[int]
) -> tuple[IntArray, IntArray]:
    """Return the names in each chunk that are in few chunks, and the place of their chunk."""
    pagerank, named = snapshot.personalized_pagerank, snapshot.graph.named
    found = [pagerank.entities_of(chunk) for chunk in chunks.tolist()]
    entities = np.concatenate([np.empty(0, dtype=np.int64), *found])
    places = np.repeat(np.arange(len(found)), [len(some) for some in found])
    is_name = pagerank.doc_freq[entities] <= _MAX_CHUNKS
    in_graph = entities < len(named)
    is_named = snapshot.subjects.is_subject[entities]
    is_named[in_graph] |= named[entities[in_graph]]
    is_name &= is_named
    is_name &= ~np.isin(entities, np.asarray(sorted(known), dtype=np.int64))
    return entities[is_name], places[is_name]


def _worth_of_names(counts: IntArray, total: int) -> Floats:
    """Return the worth of names that n of all chunks have: specificity / log2(1 + n)."""
    if total < 2 or not len(counts):  # noqa: PLR2004 - the specificity needs two chunks
        return np.zeros(len(counts))
    worth = [specificity(n, total) / log2(1 + n) for n in range(1, int(counts.max()) + 1)]
    return np.asarray([0.0, *worth])[counts]


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
    """Return the sentence around the first occurrence of a name, shortened; empty if none."""
    words = r"\W+".join(map(re.escape, terms_of(name)))
    match = re.search(words, text, re.IGNORECASE) if words else None
    if match is None:
        return ""
    start = max(0, match.start() - _MAX_QUOTED)
    around = text[start : match.end() + _MAX_QUOTED]
    place = match.start() - start
    spans = sentence_spans(around)
    sentence = next((around[one:end] for one, end in spans if one <= place < end), around)
    return shorten(" ".join(sentence.split()), _MAX_QUOTED, placeholder=" ...")
