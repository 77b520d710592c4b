"""Seeds: the indexed entities that a query names, their specificity, and where they meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, values_at
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.matching.linking import Link, Linking, link
from e2graphrag_integrations.retrieval.question_words import content_words
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.words import (
    is_capitalized_function_word,
    is_common_word,
    is_function_word,
    terms_of,
)
from e2graphrag_integrations.types import NOUN


def specificity(count: int, total: int) -> float:
    """Return inverse document frequency (Spärck Jones 1972), scaled by its maximum, in [0, 1].

    This is `ln((N + 1) / (n + 1)) / ln((N + 1) / 2)`: 1 in a single chunk, and 0 in all chunks.

    Args:
        count: Number of chunks that have it, at least 1.
        total: Number of all chunks, at least 2.

    >>> specificity(1, 100), specificity(100, 100), round(specificity(9, 100), 2)
    (1.0, 0.0, 0.59)
    """
    return log((total + 1) / (count + 1)) / log((total + 1) / 2)


_MAX_SEEDS = 32
"""Maximum number of query entities, rarest first, that seed personalized PageRank. Limits the cost
of a very long query."""

_FEW_CHUNKS = 10
"""Maximum number of chunks with a full name that identifies what the query is about."""

_MAX_WRITTEN = 4
"""Number of seeds, rarest first, whose words are looked up."""

_MAX_WINDOWS = 1000
"""Maximum number of windows with the rarest word of a name, which limits the time."""

_WRITTEN = 0.7
"""Part of the lowest score of a chunk with a name that one with its words gets."""

_MAX_PAIRED = 16
"""Maximum number of seeds, rarest first, that form pairs. This gives at most 120 pairs."""


@dataclass(frozen=True, slots=True)
class Seed:
    """An entity that the query names.

    Attributes:
        entity: Row in the `subjects` of the snapshot.
        score: Confidence of the entity link, in (0, 1].
        doc_freq: Number of allowed chunks, at least 1, that mention the entity or have it as their
            title.
    """

    entity: int
    score: float
    doc_freq: int


class Seeds:
    """The entities of one query from which personalized PageRank starts.

    Args:
        query: The query.
        snapshot: The search index.
        allowed: Mask over chunks, shape (chunks,); None allows all.
        use_aliases: Whether surnames, initials and misspellings link to entities.

    Attributes:
        linking: The entity links of the query's mentions, and the mentions without a link.
    """

    def __init__(
        self,
        query: Query,
        snapshot: Snapshot,
        allowed: NDArray[np.bool_] | None,
        *,
        use_aliases: bool,
    ) -> None:
        self._query = query
        self._snapshot = snapshot
        self._allowed = allowed
        self.linking = _link_names(query, snapshot, use_aliases=use_aliases)

    @lazy
    def ranked(self) -> Sequence[Seed]:
        """At most 32 seeds, rarest first."""
        index = self._snapshot.subjects.index
        seeds, carried = [], self._query.carried_names
        for one in self.linking.links:
            entity = index[one.entity]
            doc_freq = self._count_allowed(self._snapshot.personalized_pagerank.chunks_of(entity))
            if doc_freq:
                score = one.score * carried.get(one.mention, 1.0)
                seeds.append(Seed(entity, score, doc_freq))
        return sorted(seeds, key=lambda seed: seed.doc_freq)[:_MAX_SEEDS]

    @property
    def paired(self) -> Sequence[Seed]:
        """At most 16 seeds that form pairs, rarest first."""
        return self.ranked[:_MAX_PAIRED]

    @lazy
    def specificity(self) -> float:
        """The highest specificity of a seed, or of a pair of seeds that share a chunk, in [0, 1].

        The specificity of a seed among the allowed chunks (`specificity`), or of both
        seeds of a pair, is weighted by the link score. A pair gets the lower link score of its
        seeds. Pairs are included because the paper retrieves locally if two entities share chunks
        (arXiv 2505.24226, section 3.3).
        """
        chunks = self.allowed_count
        if not self.ranked or chunks < 2:  # noqa: PLR2004 - the formula needs two chunks
            return 0.0
        pairs = (
            (min(a.score, b.score), shared)
            for a, b in combinations(self.paired, 2)
            if (shared := self._count_shared(a, b))
        )
        return max(
            score * specificity(doc_freq, chunks)
            for score, doc_freq in [*((one.score, one.doc_freq) for one in self.ranked), *pairs]
        )

    @lazy
    def coverage(self) -> float:
        """The share of the query that its linked names cover, by IDF of its words, in [0, 1].

        A function word that the index lacks does not count: lists and chats have no "what" and
        "did", which would be its rarest words. The words of a name replace its abbreviation.
        """
        bm25, carried = self._snapshot.bm25, self._query.carried_terms
        words = content_words(self._query.terms, bm25)
        terms = {one for one in words if not is_function_word(one) or bm25.doc_freq(one)}
        terms.update(carried)
        names = {t for one in self.linking.links for t in terms_of(one.mention)}
        names.update(
            term
            for one in self.linking.links
            if one.how == "user alias"  # may be translated
            for term in terms_of(one.entity)
        )
        terms, names = self._write_out(terms), self._write_out(names)
        # Sorted, because a sum in the order of a set would differ between processes.
        total = bm25.reference_score(sorted(terms), weights=carried)
        covered = bm25.reference_score(sorted(terms & names), weights=carried)
        return covered / total if total else 0.0

    @lazy
    def written_out(self) -> Mapping[str, tuple[str, ...]]:
        """The words of the names that abbreviations mean, for those that no text contains.

        An abbreviation that is spelled like a function word says nothing where texts contain it.
        """
        bm25 = self._snapshot.bm25
        found: dict[str, tuple[str, ...]] = {}
        for one in self.linking.links:
            terms = terms_of(one.mention)
            if one.how != "alias" or len(terms) != 1:
                continue
            if is_capitalized_function_word(one.mention) or not bm25.doc_freq(terms[0]):
                words = dict.fromkeys(terms_of(one.entity))
                found[terms[0]] = tuple(word for word in words if not is_function_word(word))
        return found

    def _write_out(self, terms: Iterable[str]) -> set[str]:
        return {word for one in terms for word in self.written_out.get(one, (one,))}

    @property
    def has_full_name(self) -> bool:
        """Whether the query has a name of several words as a few chunks have it."""
        index = self._snapshot.subjects.index
        exact = {index[one.entity] for one in self.linking.links if one.how == "exact"}
        return any(
            seed.entity in exact
            and seed.doc_freq <= _FEW_CHUNKS
            and " " in self._snapshot.subjects.names[seed.entity]
            for seed in self.ranked
        )

    def personalized_pagerank(
        self, damping: float, n_iter: int
    ) -> tuple[IntArray, NDArray[np.float64]]:
        """Return the allowed chunks that personalized PageRank reaches, and their scores.

        The restart distribution gives each seed `score / doc_freq`, as in HippoRAG's node
        specificity (Gutiérrez et al. 2024).

        Args:
            damping: Probability of following an edge instead of restarting at a seed.
            n_iter: Power iterations.

        Returns:
            Chunk numbers, ascending, and scores, both of shape (reached chunks,).
        """
        weights = {seed.entity: seed.score / seed.doc_freq for seed in self.ranked}
        chunks, scores = self._snapshot.personalized_pagerank.rank(
            weights, damping=damping, n_iter=n_iter, allowed=self._allowed
        )
        added: dict[int, float] = {}
        for seed in self.ranked[:_MAX_WRITTEN]:
            own = self.allowed_chunks(seed.entity)
            least = float(values_at(own, chunks, scores).min(initial=np.inf))
            for chunk in np.setdiff1d(self._with_words_of(seed), own).tolist():
                added[chunk] = max(added.get(chunk, 0.0), _WRITTEN * least)
        if not added:
            return chunks, scores
        found = np.union1d(chunks, np.asarray([*added], dtype=np.int64))
        values = np.asarray(values_at(found, chunks, scores), dtype=np.float64)
        places = np.searchsorted(found, [*added])
        values[places] = np.maximum(values[places], [*added.values()])
        return found, values

    def _with_words_of(self, seed: Seed) -> IntArray:
        """Return the allowed chunks whose text or title has all words of a name, if they are few.

        The extractor does not find every mention, and a page below another has its name in the
        title.
        """
        snapshot, bm25 = self._snapshot, self._snapshot.bm25
        words = [*dict.fromkeys(terms_of(snapshot.subjects.names[seed.entity]))]
        nothing = np.empty(0, dtype=np.int64)
        if all(map(is_common_word, words)):
            return nothing
        rarest = min(words, key=bm25.doc_freq)
        if bm25.doc_freq(rarest) > _MAX_WINDOWS:
            return nothing
        windows = bm25.texts_with(rarest)
        windows = windows[bm25.contain(words, windows).all(axis=0)]
        nodes = np.unique(snapshot.dense.window_nodes[windows])
        chunks = np.searchsorted(snapshot.chunk_nodes, nodes[snapshot.is_chunk[nodes]])
        return self.allowed_among(chunks) if len(chunks) <= _FEW_CHUNKS else nothing

    def _count_shared(self, a: Seed, b: Seed) -> int:
        """Return the number of allowed chunks with both seeds."""
        chunks_of = self._snapshot.personalized_pagerank.chunks_of
        fewer, more = sorted((chunks_of(a.entity), chunks_of(b.entity)), key=len)
        places = np.minimum(np.searchsorted(more, fewer), len(more) - 1)
        return self._count_allowed(fewer[more[places] == fewer])

    @property
    def allowed_count(self) -> int:
        """The number of allowed chunks."""
        allowed = self._allowed
        return len(self._snapshot.chunk_nodes) if allowed is None else int(allowed.sum())

    def allowed_chunks(self, entity: int) -> IntArray:
        """Return the allowed chunks that mention an entity, ascending."""
        return self.allowed_among(self._snapshot.personalized_pagerank.chunks_of(entity))

    def allowed_among(self, chunks: IntArray) -> IntArray:
        """Return the allowed ones of some chunks."""
        return chunks if self._allowed is None else chunks[self._allowed[chunks]]

    def _count_allowed(self, chunks: IntArray) -> int:
        return len(chunks) if self._allowed is None else int(self._allowed[chunks].sum())


def _link_names(query: Query, snapshot: Snapshot, *, use_aliases: bool) -> Linking:
    """Link the names in the query to entities.

    A common noun is linked only to the subject of a document or section, so that "person" does not
    mean a band of that name; BM25 covers the others. A name is not linked to a common noun either.
    """
    if not query.mentions:
        return Linking((), ())
    subjects, named = snapshot.subjects, snapshot.graph.named
    found = link(
        query.mentions,
        subjects.index,
        snapshot.aliases if use_aliases else None,
        subjects.subject_index,
        edits=snapshot.edits,
    )

    def is_name_or_subject(one: Link) -> bool:
        row = subjects.index[one.entity]
        return one.how == "user alias" or one.entity in subjects.subject_index or bool(named[row])

    nouns = {mention.entity for mention in query.mentions if mention.label == NOUN}
    return Linking(
        tuple(one for one in found.links if is_name_or_subject(one)),
        tuple(name for name in found.unlinked if name not in nouns),
        found.ties,
    )


_MIN_CHUNKS = 10
"""Minimum number of chunks of a long text."""

_MAX_NAMES = 6
"""Number of names, rarest first, that may join."""


def joined_names(seeds: Seeds, snapshot: Snapshot) -> tuple[IntArray, IntArray]:
    """Return the allowed chunks of long texts with two or more names, and their number of names.

    A name within a longer one ("Anna" and "Anna Krog") does not count beside it, and the title of a
    text counts only in the chunks that mention it.
    """
    nothing = np.empty(0, dtype=np.int64)
    graph = snapshot.graph
    mentioned = [one for one in seeds.ranked[:_MAX_NAMES] if one.entity < len(graph.names)]
    names = _apart(mentioned, snapshot.subjects.names)
    if len(names) < 2:  # noqa: PLR2004 - joins two names
        return nothing, nothing
    found = np.concatenate([seeds.allowed_among(graph.chunks(one.entity)[0]) for one in names])
    chunks, counts = np.unique(found, return_counts=True)
    chunks, counts = chunks[counts > 1], counts[counts > 1]
    documents = snapshot.chunk_documents
    own = documents[chunks]
    sizes = np.searchsorted(documents, own, side="right") - np.searchsorted(documents, own)
    is_long = sizes >= _MIN_CHUNKS
    return chunks[is_long], counts[is_long]


def _apart(seeds: Sequence[Seed], names: Sequence[str]) -> list[Seed]:
    """Return the seeds whose name is in no other seed's name."""
    return [
        one
        for one in seeds
        if not any(one is not other and names[one.entity] in names[other.entity] for other in seeds)
    ]
