"""BM25 over the windows of all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, sorted_union
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.search.fusion import top_rows
from e2graphrag_integrations.search.term_postings import (
    TermPostings,
    merge_postings,
    read_postings,
)

Weights = Mapping[str, float]
"""Factors of terms in a query."""

_EQUAL: Weights = MappingProxyType({})
"""No factors: all terms have the factor 1."""

_K1, _B = 1.5, 0.75
"""BM25's usual parameters (Robertson and Zaragoza, 2009): term-frequency saturation and length
normalization."""

_MAX_DOC_FREQ = 100_000
"""In an index with more texts than this, a term that occurs in more texts than this does not
retrieve texts by itself. It only adds to the scores of texts that rarer terms retrieve."""

_ROUNDING = 1.0001
"""Safety factor for an upper bound: a sum in a different order may be slightly larger."""

_CACHED_TERMS = 4096
"""Number of terms of which an index remembers the document frequency and the IDF."""

_NO_ROWS: IntArray = np.empty(0, dtype=np.int32)

_CACHED_SETS = 4
"""Number of sets of terms for which an index remembers whether one of them is frequent."""

_MIN_SAMPLE = 1000
"""Minimum number of texts in the sample whose scores set the pruning threshold."""


@dataclass(frozen=True, eq=False)
class BM25Part:
    """The terms of some of the texts in an index.

    Attributes:
        postings: The terms.
        rows: The row in the index of each of these texts, ascending; -1 for a text that is not in
            the index. None if they are all texts of the index, in order.
        known_dropped: The value of `dropped`, if it was computed before.
    """

    postings: TermPostings
    rows: IntArray | None = None
    known_dropped: Mapping[int, int] | None = None

    @property
    def own_rows(self) -> IntArray:
        """The row in the index of each of these texts; -1 for a text that is not in the index."""
        return np.arange(len(self.postings.lengths)) if self.rows is None else self.rows

    @lazy
    def dropped(self) -> Mapping[int, int]:
        """The number of texts that contain a term but are not in the index, by column."""
        if self.known_dropped is not None:
            return self.known_dropped
        return {} if self.rows is None else self.postings.doc_freq_in(self.rows < 0)

    def prepare(self) -> None:
        """Compute what the first query would need."""
        _ = self.dropped, self._texts

    def find(self, term: str) -> tuple[IntArray, IntArray]:
        """Return the rows of the texts that contain a term, ascending, and how often they do."""
        column = self.postings.column_of(term)
        if column is None:
            return _NO_ROWS, _NO_ROWS
        texts, counts = self.postings.of(column)
        if self.rows is None:
            return texts, counts
        rows = self.rows[texts]
        if column in self.dropped:
            is_kept = rows >= 0
            return rows[is_kept], counts[is_kept]
        return rows, counts

    def doc_freq(self, term: str) -> int:
        """Return the number of texts in the index that contain a term."""
        column = self.postings.column_of(term)
        if column is None:
            return 0
        return self.postings.doc_freq(column) - self.dropped.get(column, 0)

    def shortest(self, term: str) -> tuple[IntArray, IntArray]:
        """Return the distinct frequencies of a term, and a lower bound for the lengths of each."""
        column = self.postings.column_of(term)
        return (_NO_ROWS, _NO_ROWS) if column is None else self.postings.shortest(column)

    def texts_at(self, rows: IntArray) -> IntArray:
        """Return the text at each row of the index; none of the texts for rows of other parts."""
        texts = rows if self.rows is None else self._texts.take(rows, mode="clip")
        # searchsorted would copy all texts of a term to convert them to another type.
        return texts.astype(self.postings.counts.indices.dtype)

    def counts_in(self, term: str, own: IntArray) -> IntArray | None:
        """Return how often a term occurs in some texts; None if in none of this part.

        Args:
            term: The term.
            own: The result of `texts_at`. Texts of other parts get the count 0.
        """
        column = self.postings.column_of(term)
        if column is None:
            return None
        texts, counts = self.postings.of(column)
        positions = texts.searchsorted(own)
        found: IntArray = counts.take(positions, mode="clip")
        found *= texts.take(positions, mode="clip") == own
        return found

    def are_in(self, term: str, own: IntArray) -> NDArray[np.bool_] | None:
        """Return which texts contain a term; None if no text of this part does. See `counts_in`."""
        column = self.postings.column_of(term)
        if column is None:
            return None
        texts, _ = self.postings.of(column)
        return np.asarray(texts.take(texts.searchsorted(own), mode="clip") == own)

    @lazy
    def _texts(self) -> IntArray:
        """The text at each row of the index, up to the last one of this part; -1 for others."""
        rows = self.own_rows
        texts = np.full(int(rows.max(initial=-1)) + 2, -1, dtype=np.int32)
        texts[rows] = np.arange(len(rows))  # a row of -1 is the last entry
        texts[-1] = -1
        return texts


@dataclass(frozen=True, eq=False)
class CorpusStatistics:
    """The statistics that BM25 needs of all texts, for an index that contains only some of them.

    Attributes:
        n_texts: Number of texts.
        mean_length: Mean number of terms per text.
        doc_freq: Number of texts that contain each term.
    """

    n_texts: int
    mean_length: float
    doc_freq: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class BM25Index:
    """BM25 in Lucene's form.

    The weight of a term in a text is idf * tf / (tf + k1 (1 - b + b length / mean length)), with
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)). Weights are computed when a term is looked up,
    because each new text changes all of them.

    Queries accept an `idf_power`: each term's weight is multiplied by `idf ** idf_power`, in
    addition to BM25's own idf. This reduces the influence of stop words in any language; 0 gives
    plain BM25.

    Attributes:
        parts: The terms of all texts. Each text is in exactly one part.
        n_texts: Number of texts.
        max_doc_freq: In an index with more texts than this, terms that occur in more texts than
            this do not retrieve texts by themselves.
        corpus: The statistics of a corpus that contains these texts; None if they are the corpus.
    """

    parts: Sequence[BM25Part]
    n_texts: int
    max_doc_freq: int = _MAX_DOC_FREQ
    corpus: CorpusStatistics | None = None

    @classmethod
    def of(cls, postings: TermPostings) -> Self:
        """Return the index of texts."""
        return cls((BM25Part(postings),), len(postings.lengths))

    @property
    def postings(self) -> TermPostings:
        """The terms of all texts in one part."""
        [first, *others] = self.parts
        if first.rows is None and not others:
            return first.postings
        parts = [(part.postings, part.own_rows) for part in self.parts]
        return merge_postings(parts, self.n_texts)

    @lazy
    def lengths(self) -> IntArray:
        """The number of terms per text, including repetitions, shape (texts,)."""
        [first, *others] = self.parts
        if first.rows is None and not others:
            return first.postings.lengths
        lengths = np.zeros(self.n_texts, dtype=np.int64)
        for part in self.parts:
            rows = part.own_rows
            lengths[rows[rows >= 0]] = part.postings.lengths[rows >= 0]
        return lengths

    @lazy
    def mean_length(self) -> float:
        """The mean number of terms per text of the corpus."""
        if self.corpus is not None:
            return self.corpus.mean_length
        return float(self.lengths.mean()) if self.n_texts else 0.0

    def search(
        self,
        terms: Sequence[str],
        count: int,
        allowed: NDArray[np.bool_] | None = None,
        *,
        idf_power: float = 0.0,
        weights: Weights = _EQUAL,
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the `count` best texts, best first, and their scores.

        The earlier text wins ties. In a large index, terms above `max_doc_freq` do not retrieve
        texts by themselves, unless the query has no other terms: scoring them would take longer
        than scoring all other terms together.

        Args:
            terms: The query's terms; each repetition of a term counts.
            count: Maximum number of texts.
            allowed: Mask over texts; None allows all.
            idf_power: Exponent of the additional idf factor.
            weights: Factors of terms; 1 for a term that is missing.
        """
        known = [term for term in terms if self.doc_freq(term)]
        if self.n_texts > self.max_doc_freq:
            by_rarity = sorted(known, key=self.doc_freq)
            return self._search_pruned(by_rarity, count, allowed, idf_power, weights)
        scores = self._score_all(known, idf_power, weights)
        best = top_rows(scores, count, allowed)
        return best, scores[best]

    def score_rows(
        self,
        terms: Iterable[str],
        rows: IntArray,
        *,
        idf_power: float = 0.0,
        weights: Weights = _EQUAL,
    ) -> NDArray[np.float32]:
        """Return the scores of the given texts, shape (rows,). See `search`."""
        terms = list(terms)
        saturations = self.saturations(terms, rows)
        return self.scores_of(terms, saturations, idf_power=idf_power, weights=weights)

    def scores_of(
        self,
        terms: Sequence[str],
        saturations: NDArray[np.float32],
        *,
        idf_power: float = 0.0,
        weights: Weights = _EQUAL,
    ) -> NDArray[np.float32]:
        """Return the scores of texts with the given `saturations`, shape (rows,). See `search`."""
        scores = saturations.copy()
        factors = [self._idf_factor(term, idf_power, weights) for term in terms]
        for column in ([self.idf(term) for term in terms], factors):
            scores *= np.asarray(column, dtype=np.float32)[:, None]
        return np.asarray(scores.sum(axis=0))

    def reference_score(
        self, terms: Iterable[str], *, idf_power: float = 0.0, weights: Weights = _EQUAL
    ) -> float:
        """Return the score of a text of mean length that contains each term once."""
        scores = (
            self._idf_or_highest(term) ** (1 + idf_power) * weights.get(term, 1.0) for term in terms
        )
        return float(sum(scores)) / (1 + _K1)

    def saturations(self, terms: Sequence[str], rows: IntArray) -> NDArray[np.float32]:
        """Return BM25's saturated frequency of each known term in the given texts, in [0, 1).

        Args:
            terms: The terms.
            rows: Texts, shape (rows,).

        Returns:
            Values of shape (terms, rows); 0 where a text lacks the term.
        """
        counts = np.zeros((len(terms), len(rows)), dtype=np.float32)
        for part in self.parts:
            own = part.texts_at(rows)
            for place, term in enumerate(terms):
                found = part.counts_in(term, own)
                if found is not None:
                    counts[place] += found
        counts /= counts + self._saturation[rows]
        return counts

    def contain(self, terms: Sequence[str], rows: IntArray) -> NDArray[np.bool_]:
        """Return which of the given texts contain which terms, shape (terms, rows)."""
        mask = np.zeros((len(terms), len(rows)), dtype=np.bool_)
        for part in self.parts:
            own = part.texts_at(rows)
            for place, term in enumerate(terms):
                found = part.are_in(term, own)
                if found is not None:
                    mask[place] |= found
        return mask

    @property
    def idf_of_unique(self) -> float:
        """The IDF of a term that occurs in one text; 0 without texts."""
        n_texts = self._n_texts_of_corpus
        return log1p((n_texts - 0.5) / 1.5) if n_texts else 0.0

    @cached_method(_CACHED_TERMS)
    def idf(self, term: str) -> float:
        """Return the IDF of a term in Lucene's form; 0 if no text contains the term."""
        doc_freq = self.doc_freq(term)
        if not doc_freq:
            return 0.0
        if self.corpus is not None:
            doc_freq = max(doc_freq, self.corpus.doc_freq.get(term, 0))
        return log1p((self._n_texts_of_corpus - doc_freq + 0.5) / (doc_freq + 0.5))

    @cached_method(_CACHED_SETS)
    def has_frequent(self, terms: frozenset[str], least: float) -> bool:
        """Return whether one of the terms is in at least this fraction of the texts, in [0, 1]."""
        frequent = max(1, least * self.n_texts)
        return any(self.doc_freq(term) >= frequent for term in terms)

    @property
    def _n_texts_of_corpus(self) -> int:
        return self.n_texts if self.corpus is None else self.corpus.n_texts

    def _score_all(
        self, terms: Iterable[str], idf_power: float, factors: Weights
    ) -> NDArray[np.float32]:
        scores = np.zeros(self.n_texts, dtype=np.float32)
        for term in terms:
            texts, weights = self._postings(term)
            scores[texts] += weights * self._idf_factor(term, idf_power, factors)
        return scores

    def _search_pruned(
        self,
        terms: Sequence[str],
        count: int,
        allowed: NDArray[np.bool_] | None,
        idf_power: float,
        weights: Weights,
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Retrieve texts by the rarer terms, then add the weights of the frequent terms.

        Drops texts that the remaining terms cannot lift into the best `count` (MaxScore, Turtle and
        Flood, 1995). The terms are known, rarest first; the rest is as for `search`.
        """
        n_rare = sum(self.doc_freq(term) <= self.max_doc_freq for term in terms) or len(terms)
        rare, frequent = terms[:n_rare], terms[n_rare:]
        scores = self._score_all(rare, idf_power, weights)
        bounds = [self._max_weight(t) * self._idf_factor(t, idf_power, weights) for t in frequent]
        # The maximum that each frequent term and all later ones can add.
        remaining = np.append(np.cumsum(bounds[::-1])[::-1], 0.0) * _ROUNDING
        sample = scores[self._sample(rare, count, allowed)]
        enough = len(sample) >= count > 0
        threshold = _nth_best(sample, count) - remaining[0] if enough else 0.0
        mask = scores >= threshold if threshold > 0 else scores > 0
        found = np.flatnonzero(mask if allowed is None else mask & allowed)
        totals = scores[found]
        for term, bound in zip(frequent, remaining, strict=False):
            if len(found) > count > 0:
                reachable = totals + bound >= _nth_best(totals, count)
                found, totals = found[reachable], totals[reachable]
            totals = totals + self.score_rows([term], found, idf_power=idf_power, weights=weights)
        best = top_rows(totals, count)
        return found[best], totals[best]

    def _sample(
        self, rare: Sequence[str], count: int, allowed: NDArray[np.bool_] | None
    ) -> IntArray:
        """Return a sample of the texts that contain the rarest terms, ascending.

        The `count`-th best score in the sample is a lower bound for that of all texts.
        """
        wanted = max(_MIN_SAMPLE, 2 * count)
        sample: list[IntArray] = [np.empty(0, dtype=np.int64)]
        for term in rare:
            texts = self._rows_with(term)[0][:wanted]
            sample.append(texts if allowed is None else texts[allowed[texts]])
            if sum(map(len, sample)) >= wanted:
                break
        return sorted_union(*sample)

    def _rows_with(self, term: str) -> tuple[IntArray, IntArray]:
        """Return the texts that contain a term, part by part, and how often they do."""
        found = [part.find(term) for part in self.parts]
        nonempty = [one for one in found if len(one[0])]
        if len(nonempty) <= 1:
            return nonempty[0] if nonempty else found[0]
        rows, counts = zip(*nonempty, strict=True)
        return np.concatenate(rows), np.concatenate(counts)

    def _postings(self, term: str) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the texts that contain a term, part by part, and its weight in each."""
        rows, counts = self._rows_with(term)
        weights = counts.astype(np.float32)
        weights /= weights + self._saturation[rows]
        weights *= np.float32(self.idf(term))
        return rows, weights

    def _max_weight(self, term: str) -> np.float32:
        """Return an upper bound for the weight of a known term."""
        counts, lengths = (
            np.concatenate(column)
            for column in zip(*(part.shortest(term) for part in self.parts), strict=True)
        )
        weights = counts.astype(np.float32)
        weights /= weights + self._saturation_of(lengths)
        highest: np.float32 = weights.max() * np.float32(self.idf(term))
        return highest

    @cached_method(_CACHED_TERMS)
    def texts_with(self, term: str) -> IntArray:
        """Return the rows of the texts that contain a term, ascending."""
        rows = np.concatenate([_NO_ROWS, *(part.find(term)[0] for part in self.parts)])
        return np.sort(rows, kind="stable")  # fast, because the rows of each part ascend

    def doc_freq(self, term: str) -> int:
        """Return the number of texts that contain a term."""
        return sum(part.doc_freq(term) for part in self.parts)

    @lazy
    def _saturation(self) -> NDArray[np.float32]:
        """The frequency at which the weight of a term in each text is half of its maximum."""
        return self._saturation_of(self.lengths)

    def _saturation_of(self, lengths: IntArray) -> NDArray[np.float32]:
        mean = self.mean_length
        relative = lengths / mean if mean else np.zeros(len(lengths))
        return (_K1 * (1 - _B + _B * relative)).astype(np.float32)

    def _idf_or_highest(self, term: str) -> float:
        """Return the IDF of a term; that of an unknown term is the highest."""
        return self.idf(term) or log1p(2 * self._n_texts_of_corpus + 1)

    def _idf_factor(self, term: str, idf_power: float, weights: Weights) -> np.float32:
        factor: np.float32 = np.float32(
            self._idf_or_highest(term) ** idf_power * weights.get(term, 1.0)
        )
        return factor


def build_bm25(texts: Iterable[str]) -> BM25Index:
    """Build the index of texts, reading each text once and one at a time."""
    return BM25Index.of(read_postings(texts))


def merge_bm25(parts: Sequence[tuple[BM25Index, IntArray]], n_texts: int) -> BM25Index:
    """Return the index that `build_bm25` would build from the texts of several indexes.

    Args:
        parts: Each index with the new rows of its texts, ascending; -1 drops a text.
        n_texts: Number of texts in the merged index.
    """
    moved = [(part.postings, rows) for part, rows in _moved(parts)]
    return BM25Index.of(merge_postings(moved, n_texts))


def append_bm25(parts: Sequence[tuple[BM25Index, IntArray]], n_texts: int) -> BM25Index:
    """Return an index that scores like that of `merge_bm25`, without copying the largest part.

    Args:
        parts: As for `merge_bm25`. The first part of the first index is not copied.
        n_texts: As for `merge_bm25`.
    """
    (base, base_rows), *others = _moved(parts)
    recent = np.sort(np.concatenate([rows[rows >= 0] for _, rows in others]))
    local = [
        (part.postings, np.where(rows >= 0, np.searchsorted(recent, rows), -1))
        for part, rows in others
    ]
    merged = BM25Part(merge_postings(local, len(recent)), recent.astype(np.int32))
    unchanged = BM25Part(base.postings, base_rows.astype(np.int32))
    unchanged.prepare()
    return BM25Index((unchanged, merged), n_texts)


def _moved(parts: Sequence[tuple[BM25Index, IntArray]]) -> list[tuple[BM25Part, IntArray]]:
    """Return the parts of all indexes, each with the new rows of its texts."""
    moved = []
    for index, rows in parts:
        new_rows = np.append(rows, -1)  # a text that is not in the index has the row -1
        moved += [(part, new_rows[part.own_rows]) for part in index.parts]
    return moved


def _nth_best(scores: NDArray[np.float32], n: int) -> float:
    """Return the `n`-th best of at least `n` scores."""
    return float(np.partition(scores, len(scores) - n)[len(scores) - n])
