"""Bridges: chunks that share a specific name with one of the best chunks.

A question of two hops describes one passage and asks about a second one: "Of what did the founder
of the Tarn Observatory die?" The first passage names the founder, and the second one contains the
rest of the question's words. Neither vectors nor BM25 rank it high, since it does not contain the
words of the first hop. The name is the only way there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, values_at
from e2graphrag_integrations.graph.entity_graph import places_of_rows
from e2graphrag_integrations.retrieval.names.name_sentences import NameSentences
from e2graphrag_integrations.retrieval.names.seeds import specificity
from e2graphrag_integrations.retrieval.ranking.relevance import Relevance
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.trace import FollowedName
from e2graphrag_integrations.search.fusion import Floats, reciprocal_rank, top_rows
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.text.words import is_common_word, terms_of

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

_OTHER_SENTENCE = 0.3
"""Strength of a bridge through a name whose sentence has none of the question's words, if that of
another name in the chunk has some."""

_FULL_WORTH = 0.1
"""A bridge of this worth has full weight."""

_RELEVANCE = 0.5
"""Weight of the relevance of a target, compared with the words that its source lacks."""

_BELOW_SOURCE = 0.8
"""A chunk that a bridge lifts gets at most this fraction of its source's score. The source answers
the first hop, so it comes first."""

_TELLING = 0.2
"""Words of the question with a lower IDF, relative to its rarest word, are ignored."""

_MAX_WORDS = 8
"""Number of words of a name of which parts are formed."""

_MAX_QUOTED = 200
"""Maximum number of characters of a sentence in a reason."""

_BETWEEN = re.compile(r"\W+")

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
class BridgedQuestion:
    """What bridges need to know of a question.

    Attributes:
        relevance: The relevance of windows to the question.
        names: The entities of the question and of parts of its names, as rows of the snapshot's
            subjects; they are no bridges.
        name_words: The words of these names.
        allowed: Mask over chunks, shape (chunks,); None allows all.
        texts: Reads the texts of nodes, given their rows; None weighs all sentences alike.
    """

    relevance: Relevance
    names: Collection[int]
    name_words: Collection[str]
    allowed: NDArray[np.bool_] | None
    texts: Callable[[Sequence[int]], list[str]] | None


@dataclass(frozen=True, eq=False)
class _Links:
    """Links from a source to a target through a name, one per row.

    Attributes:
        chunks: The target.
        strengths: The strength of the link.
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
    question: BridgedQuestion,
    *,
    weight: float,
    rrf_k: float,
) -> Bridges:
    """Follow the specific names of the best chunks to other chunks.

    A link from a source to a chunk of another document, through a name that is not in the question,
    is worth::

        source * (0.3 + share) * sentence * specificity * about * (missing + 0.5 * relevance)

    * source: the score of the source, about 1 if all lists agree on it;
    * share: the share of the question, by IDF, that the source's best window contains;
    * sentence: 0.3 to 1, by the question's words in the sentence of the source's best window that
      has the name, compared with the sentences of its other names (`name_sentences.py`);
    * specificity: that of the name, in [0, 1] (`seeds.specificity`);
    * about: the share of the mentions of the name that are in the target, its title included;
    * missing: the share of the words that the source lacks that the target contains;
    * relevance: the relevance of the target to the question.

    The target whose best link is worth `w`, the n-th most, gets
    `weight * min(1, w / 0.1) / (rrf_k + n)`, but only up to 0.8 times the score of the link's
    source.

    Args:
        rows: All ranked nodes, best first.
        scores: Their scores.
        snapshot: The search index.
        question: The question.
        weight: Weight of the bridges.
        rrf_k: Constant of reciprocal rank fusion.
    """
    nothing = np.empty(0, dtype=np.int64)
    best = np.flatnonzero(snapshot.nodes.level[rows] == 0)[:_MAX_SOURCES]
    starts, start_scores = rows[best], scores[best]
    sources = snapshot.nodes.first_leaf[starts]
    words = _Words(question.relevance, snapshot)
    shares, lacking = words.shares_and_lacking(sources)
    strengths = start_scores * (_ANY_NAME + shares)
    links = _links(sources, strengths, snapshot, question)
    if not len(links.chunks):
        return Bridges(nothing, np.empty(0), nothing, nothing)
    targets, places = np.unique(links.chunks, return_inverse=True)
    missing, relevance = words.found_and_relevance(lacking, targets)
    worth = missing[places, links.sources] + _RELEVANCE * relevance[places]
    worth *= links.strengths * _sentence_factors(links, starts, snapshot, question)
    order = np.lexsort((links.sources, -worth))
    _, first = np.unique(places[order], return_index=True)
    chosen = order[np.sort(first)]  # the best link of each target, best first
    ranks = np.arange(1, len(chosen) + 1)
    gains = weight * np.minimum(1, worth[chosen] / _FULL_WORTH) * reciprocal_rank(ranks, rrf_k)
    target_rows = snapshot.chunk_nodes[targets]
    own = values_at(target_rows, rows, scores)[places[chosen]]
    room = _BELOW_SOURCE * start_scores[links.sources[chosen]] - own
    gains = np.minimum(gains, room)
    order = np.argsort(-gains, kind="stable")
    order = order[gains[order] > 0]
    chosen = chosen[order]
    return Bridges(
        target_rows[places[chosen]],
        gains[order],
        links.entities[chosen],
        starts[links.sources[chosen]],
    )


def parts_of_name(name: str) -> list[str]:
    """Return a name and its parts of whole words.

    A text calls Berit Ruud "Ruud" later, so "Ruud" leads to what the question names already.

    >>> parts_of_name("berit ruud")
    ['berit', 'berit ruud', 'ruud']
    """
    words = name.split(" ")[:_MAX_WORDS]
    return [
        *(" ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)),
        *([name] if name.count(" ") >= _MAX_WORDS else []),
    ]


def _sentence_factors(
    links: _Links, starts: IntArray, snapshot: Snapshot, question: BridgedQuestion
) -> Floats:
    """Return a factor in [0.3, 1] for the sentence of each link's name, shape (links,)."""
    if question.texts is None:
        return np.ones(len(links.chunks))
    names = {one: snapshot.subjects.names[one] for one in np.unique(links.entities).tolist()}
    sentences = NameSentences(question.relevance.terms, question.name_words)
    used, places = np.unique(links.sources, return_inverse=True)
    pairs = list(zip(places.tolist(), links.entities.tolist(), strict=True))
    entities: list[set[int]] = [set() for _ in used]
    for place, entity in pairs:
        entities[place].add(entity)
    rows = starts[used]
    texts, spans = question.texts(rows.tolist()), question.relevance.best_spans(rows)
    shares: dict[tuple[int, int], float] = {}
    for place, (text, span, own) in enumerate(zip(texts, spans, entities, strict=True)):
        if len(own) > 1:  # a name is compared with the others
            window = text if span is None else text[span.start : span.end]
            by_name = {names[entity]: entity for entity in own}
            for name, share in sentences.shares(window, by_name).items():
                shares[place, by_name[name]] = share
    factors = np.asarray([shares.get(pair, 1.0) for pair in pairs])
    return _OTHER_SENTENCE + (1 - _OTHER_SENTENCE) * factors


class _Words:
    """The telling words of the question, and where they are."""

    def __init__(self, relevance: Relevance, snapshot: Snapshot) -> None:
        words = [*dict.fromkeys(relevance.terms.words)]
        weights = dict(zip(words, relevance.terms.rarity(words).tolist(), strict=True))
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
        mask = self._relevance.terms.contain(self._words, windows)
        shares = np.zeros(len(chunks))
        np.maximum.at(shares, owners, self._weights @ mask)
        lacking = self._weights[:, None] * ~_of_owners(mask, owners, len(chunks))
        return shares / max(float(self._weights.sum()), 1e-9), lacking

    def found_and_relevance(self, lacking: Floats, chunks: IntArray) -> tuple[Floats, Floats]:
        """Return the share of lacking words in each chunk, and the relevance of the chunks.

        Args:
            lacking: Weights of lacking words, shape (words, sources).
            chunks: The chunks.

        Returns:
            Shares by weight, in [0, 1], shape (chunks, sources), and the highest unsmoothed
            relevance of any window of each chunk, shape (chunks,).
        """
        windows, owners = self._windows_of(chunks)
        terms = self._relevance.terms_in(windows)
        mask = _of_owners(terms.contain(self._words), owners, len(chunks))
        found = mask.T.astype(np.float64) @ lacking
        best = np.zeros(len(chunks))
        np.maximum.at(best, owners, terms.unsmoothed)
        return np.asarray(found / np.maximum(lacking.sum(axis=0), 1e-9)), best

    def _windows_of(self, chunks: IntArray) -> tuple[IntArray, IntArray]:
        return self._snapshot.dense.windows_of(self._snapshot.chunk_nodes[chunks])


def _of_owners(mask: NDArray[np.bool_], owners: IntArray, count: int) -> NDArray[np.bool_]:
    """Return which words the windows of each chunk contain together, shape (words, chunks)."""
    together = np.zeros((len(mask), count), dtype=np.bool_)
    words, places = np.nonzero(mask)
    together[words, owners[places]] = True
    return together


def _links(
    sources: IntArray, strengths: Floats, snapshot: Snapshot, question: BridgedQuestion
) -> _Links:
    """Return the links from the sources, which have strengths of their own, strongest first."""
    documents, pagerank = snapshot.chunk_documents, snapshot.personalized_pagerank
    allowed, postings = question.allowed, pagerank.entity_chunks
    total = len(documents) if allowed is None else int(allowed.sum())
    names, places = _names_in(sources, snapshot, question.names)
    entries, sizes = places_of_rows(postings, names)
    owners = np.repeat(np.arange(len(names)), sizes)
    chunks, mentions = postings.indices[entries], pagerank.mentions_at(entries, names[owners])
    if allowed is not None:
        visible = allowed[chunks]
        chunks, owners, mentions = chunks[visible], owners[visible], mentions[visible]
    counts = np.bincount(owners, minlength=len(names))
    sums = np.bincount(owners, mentions, minlength=len(names))
    values = (strengths[places] * _specificities(counts, total))[owners] * mentions / sums[owners]
    others = documents[chunks] != documents[sources][places[owners]]
    chunks, owners, values = chunks[others], owners[others], values[others]
    order = top_rows(values, _MAX_TARGETS)
    owners = owners[order]
    return _Links(chunks[order].astype(np.int64), values[order], names[owners], places[owners])


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
    is_name &= ~np.isin(entities, np.asarray(sorted(known), dtype=np.int64), kind="sort")
    is_name &= ~_are_common_words(entities, is_name, snapshot)
    return entities[is_name], places[is_name]


def _are_common_words(
    entities: IntArray, among: NDArray[np.bool_], snapshot: Snapshot
) -> NDArray[np.bool_]:
    """Return which of some entities are a common word, as "Rain" at the start of a sentence.

    The subject of a document is none, even if it is such a word.
    """
    names, is_subject = snapshot.subjects.names, snapshot.subjects.is_subject
    are_common = np.zeros(len(entities), dtype=np.bool_)
    for place in np.flatnonzero(among & ~is_subject[entities]).tolist():
        are_common[place] = is_common_word(str(names[entities[place]]))
    return are_common


def _specificities(counts: IntArray, total: int) -> Floats:
    """Return the specificity of names that n of all chunks have."""
    if total < 2 or not len(counts):  # noqa: PLR2004 - the specificity needs two chunks
        return np.zeros(len(counts))
    values = [specificity(n, total) for n in range(1, int(counts.max()) + 1)]
    return np.asarray([0.0, *values])[counts]


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
    reasons = (_through(one, followed.name, sentence) for one in node.reasons)
    return replace(node, reasons=tuple(reasons))


def _through(reason: str, name: str, sentence: str) -> str:
    """Return a reason; that of the list of bridges names the bridge and its sentence."""
    if not isinstance(reason, Reason) or reason.values.get("list") != NAME:
        return reason
    if sentence:
        return Reason("rank_in_sentence", **reason.values, name=name, sentence=sentence)
    return Reason("rank_through", **reason.values, name=name)


def _sentence_with(name: str, text: str) -> str:
    """Return the sentence around the first occurrence of a name, shortened; empty if none."""
    words = terms_of(name)
    found = _find(words, text) if words else None
    if found is None:
        return ""
    first, last = found
    start = max(0, first - _MAX_QUOTED)
    around = text[start : last + _MAX_QUOTED]
    place = first - start
    spans = sentence_spans(around)
    sentence = next((around[one:end] for one, end in spans if one <= place < end), around)
    quoted = " ".join(sentence.split())
    is_short = len(quoted) <= _MAX_QUOTED
    return quoted if is_short else shorten(quoted, _MAX_QUOTED, placeholder=" ...")


def _find(words: Sequence[str], text: str) -> tuple[int, int] | None:
    """Return the span of the first place where words follow each other, in any case, or None.

    Complete words count first; in scripts without spaces, a name can be a part of a longer run.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # offsets must be those of the text
        lowered = "".join(low if len(low := one.lower()) == 1 else one for one in text)
    first = None
    start = lowered.find(words[0])
    while start >= 0:
        end = start + len(words[0])
        for word in words[1:]:
            between = _BETWEEN.match(lowered, end)
            if between is None or not lowered.startswith(word, between.end()):
                break
            end = between.end() + len(word)
        else:
            around = lowered[max(0, start - 1) : start] + lowered[end : end + 1]
            if not any(one.isalnum() for one in around):
                return start, end
            first = first or (start, end)
        start = lowered.find(words[0], start + 1)
    return first
