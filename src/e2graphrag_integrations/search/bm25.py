"""BM25 over the windows of all nodes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log1p
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations._utils.arrays import (
    IntArray,
    exclusive_sums,
    smallest_int_type,
    sorted_union,
)
from e2graphrag_integrations._utils.bounded_cache import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.search.fusion import top_rows
from e2graphrag_integrations.text.words import terms_of

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

_CACHED_SETS = 4
"""Number of sets of terms for which an index remembers whether one of them is frequent."""

_MIN_SAMPLE = 1000
"""Minimum number of texts in the sample whose scores set the pruning threshold."""


@dataclass(frozen=True, eq=False)
class BM25Index:
    """BM25 in Lucene's form, with precomputed weights of each term in each text.

    Queries accept an `idf_power`: each term's weight is multiplied by `idf ** idf_power`, in
    addition to BM25's own idf. This reduces the influence of stop words in any language; 0 gives
    plain BM25.

    Attributes:
        vocabulary: The terms, sorted.
        weights: BM25 weights, shape (texts, terms).
        counts: Term frequencies, in the order of `weights.data`.
        lengths: Number of terms per text, including repetitions, shape (texts,).
        max_doc_freq: In an index with more texts than this, terms that occur in more texts than
            this do not retrieve texts by themselves.
    """

    vocabulary: Sequence[str]
    weights: csc_array
    counts: IntArray
    lengths: IntArray
    max_doc_freq: int = _MAX_DOC_FREQ

    @classmethod
    def from_counts(cls, vocabulary: Sequence[str], counts: csc_array, lengths: IntArray) -> Self:
        """Build the index from term frequencies.

        The weight of a term is idf * tf / (tf + k1 (1 - b + b length / mean length)), with
        idf = ln(1 + (N - df + 0.5) / (df + 0.5)), as in Lucene.

        Args:
            vocabulary: The terms, sorted.
            counts: Term frequencies, shape (texts, terms).
            lengths: Number of terms per text, shape (texts,).
        """
        doc_freq = np.diff(counts.indptr)
        n_texts = counts.shape[0]
        idf = np.log1p((n_texts - doc_freq + 0.5) / (doc_freq + 0.5)).astype(np.float32)
        mean = lengths.mean() if len(lengths) else 0.0
        relative = lengths / mean if mean else np.zeros(len(lengths))
        saturation = (_K1 * (1 - _B + _B * relative)).astype(np.float32)
        weights = counts.data.astype(np.float32)
        weights /= weights + saturation[counts.indices]
        weights *= np.repeat(idf, doc_freq)
        matrix = csc_array((weights, counts.indices, counts.indptr), shape=counts.shape)
        return cls(vocabulary, matrix, counts.data, lengths)

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
        known = [term for term in terms if term in self._columns]
        if self.weights.shape[0] > self.max_doc_freq:
            by_rarity = sorted(known, key=self._doc_freq)
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
        scores = np.zeros(len(rows), dtype=np.float32)
        # searchsorted would copy all texts to convert them to another type.
        rows = rows.astype(self.weights.indices.dtype)
        for term in terms:
            if term in self._columns:
                factor = self._idf_factor(term, idf_power, weights)
                scores += self._weights_in(term, rows) * factor
        return scores

    def reference_score(
        self, terms: Iterable[str], *, idf_power: float = 0.0, weights: Weights = _EQUAL
    ) -> float:
        """Return the score of a text of mean length that contains each term once."""
        scores = (self._idf(term) ** (1 + idf_power) * weights.get(term, 1.0) for term in terms)
        return float(sum(scores)) / (1 + _K1)

    def saturations(self, terms: Sequence[str], rows: IntArray) -> NDArray[np.float32]:
        """Return BM25's saturated frequency of each known term in the given texts, in [0, 1).

        Args:
            terms: Terms in the vocabulary.
            rows: Texts, shape (rows,).

        Returns:
            Values of shape (terms, rows); 0 where a text lacks the term.
        """
        rows = rows.astype(self.weights.indices.dtype)
        values = np.empty((len(terms), len(rows)), dtype=np.float32)
        for place, term in enumerate(terms):
            np.divide(self._weights_in(term, rows), self._idf(term), out=values[place])
        return values

    @property
    def idf_of_unique(self) -> float:
        """The IDF of a term that occurs in one text; 0 without texts."""
        n_texts = self.weights.shape[0]
        return log1p((n_texts - 0.5) / 1.5) if n_texts else 0.0

    def idf(self, term: str) -> float:
        """Return the IDF of a term in Lucene's form; 0 if no text contains the term."""
        return self._idf(term) if term in self._columns else 0.0

    @cached_method(_CACHED_SETS)
    def has_frequent(self, terms: frozenset[str], least: float) -> bool:
        """Return whether one of the terms is in at least this fraction of the texts, in [0, 1]."""
        frequent = least * self.weights.shape[0]
        return any(t in self._columns and self._doc_freq(t) >= frequent for t in terms)

    def _score_all(
        self, terms: Iterable[str], idf_power: float, factors: Weights
    ) -> NDArray[np.float32]:
        scores = np.zeros(self.weights.shape[0], dtype=np.float32)
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
        Flood, 1995).

        Args:
            terms: Terms in the vocabulary, rarest first.
            count: As for `search`.
            allowed: As for `search`.
            idf_power: As for `search`.
            weights: As for `search`.
        """
        n_rare = sum(self._doc_freq(term) <= self.max_doc_freq for term in terms) or len(terms)
        rare, frequent = terms[:n_rare], terms[n_rare:]
        scores = self._score_all(rare, idf_power, weights)
        bounds = [
            self._postings(t)[1].max() * self._idf_factor(t, idf_power, weights) for t in frequent
        ]
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
            texts = self._postings(term)[0][:wanted]
            sample.append(texts if allowed is None else texts[allowed[texts]])
            if sum(map(len, sample)) >= wanted:
                break
        return sorted_union(*sample)

    @lazy
    def _columns(self) -> dict[str, int]:
        return {term: column for column, term in enumerate(self.vocabulary)}

    def _postings(self, term: str) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the texts that contain a term, ascending, and its weight in each."""
        column = self._columns[term]
        span = slice(self.weights.indptr[column], self.weights.indptr[column + 1])
        return self.weights.indices[span], self.weights.data[span]

    def _weights_in(self, term: str, rows: IntArray) -> NDArray[np.float32]:
        """Return the weight of a known term in each of the texts; 0 where it does not occur."""
        texts, weights = self._postings(term)
        positions = texts.searchsorted(rows)
        found: NDArray[np.float32] = weights.take(positions, mode="clip")
        found *= texts.take(positions, mode="clip") == rows
        return found

    def _doc_freq(self, term: str) -> int:
        """Return the number of texts that contain a known term."""
        column = self._columns[term]
        return int(self.weights.indptr[column + 1] - self.weights.indptr[column])

    @lazy
    def _idfs(self) -> NDArray[np.float64]:
        n_texts, doc_freq = self.weights.shape[0], np.diff(self.weights.indptr)
        idfs: NDArray[np.float64] = np.log1p((n_texts - doc_freq + 0.5) / (doc_freq + 0.5))
        return idfs

    def _idf(self, term: str) -> float:
        """Return the IDF of a term; that of an unknown term is the highest."""
        column = self._columns.get(term)
        return log1p(2 * self.weights.shape[0] + 1) if column is None else float(self._idfs[column])

    def _idf_factor(self, term: str, idf_power: float, weights: Weights) -> np.float32:
        factor: np.float32 = np.float32(self._idf(term) ** idf_power * weights.get(term, 1.0))
        return factor


def build_bm25(texts: Iterable[str]) -> BM25Index:
    """Build the index of texts, reading each text once and one at a time."""
    ids: dict[str, int] = {}
    tokens, lengths = array("i"), array("q")
    for text in texts:
        terms = terms_of(text)
        tokens.extend([ids.setdefault(term, len(ids)) for term in terms])
        lengths.append(len(terms))
    vocabulary = sorted(ids)
    sorted_id = np.empty(len(ids), dtype=np.int32)
    sorted_id[[ids[term] for term in vocabulary]] = np.arange(len(ids))
    index_type = smallest_int_type(len(tokens))
    counts = csr_array(
        (
            np.ones(len(tokens), dtype=np.int32),
            sorted_id[np.asarray(tokens)].astype(index_type, copy=False),
            exclusive_sums(lengths).astype(index_type),
        ),
        shape=(len(lengths), len(vocabulary)),
    )
    counts.sum_duplicates()
    counts.data = _shrink(counts.data)
    return BM25Index.from_counts(vocabulary, counts.tocsc(), np.asarray(lengths, dtype=np.int64))


def merge_bm25(parts: Sequence[tuple[BM25Index, IntArray]], n_texts: int) -> BM25Index:
    """Return the index that `build_bm25` would build from the texts of several indexes.

    Args:
        parts: Each index with the new rows of its texts, ascending; -1 drops a text.
        n_texts: Number of texts in the merged index.
    """
    remaining = [_renumber(index, rows) for index, rows in parts]
    vocabulary = sorted({term for terms, *_ in remaining for term in terms})
    columns = {term: column for column, term in enumerate(vocabulary)}
    counts = csc_array((n_texts, len(vocabulary)), dtype=np.uint8)
    lengths = np.zeros(n_texts, dtype=np.int64)
    for (terms, sizes, data, texts), (index, rows) in zip(remaining, parts, strict=True):
        doc_freq = np.zeros(len(vocabulary), dtype=np.int64)
        doc_freq[[columns[term] for term in terms]] = sizes
        index_type = smallest_int_type(max(n_texts, len(data)))
        structure = (
            texts.astype(index_type, copy=False),
            exclusive_sums(doc_freq).astype(index_type),
        )
        counts = counts + csc_array((data, *structure), shape=counts.shape)
        lengths[rows[rows >= 0]] = index.lengths[rows >= 0]
    counts.data = _shrink(counts.data)
    return BM25Index.from_counts(vocabulary, counts, lengths)


def _renumber(index: BM25Index, rows: IntArray) -> tuple[list[str], IntArray, IntArray, IntArray]:
    """Return an index's terms, document frequencies, counts and texts after dropping texts.

    Args:
        index: The index.
        rows: The new row of each text; -1 drops it.
    """
    texts = rows.astype(index.weights.indices.dtype)[index.weights.indices]
    kept = texts >= 0
    ends = np.zeros(len(kept) + 1, dtype=smallest_int_type(len(kept)))
    np.cumsum(kept, out=ends[1:])
    sizes = np.diff(ends[index.weights.indptr])
    terms = [term for term, size in zip(index.vocabulary, sizes.tolist(), strict=True) if size]
    return terms, sizes[sizes > 0], index.counts[kept], texts[kept]


def _nth_best(scores: NDArray[np.float32], n: int) -> float:
    """Return the `n`-th best of at least `n` scores."""
    return float(np.partition(scores, len(scores) - n)[len(scores) - n])


def _shrink(counts: IntArray) -> IntArray:
    """Return counts in the smallest integer type that can represent them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
