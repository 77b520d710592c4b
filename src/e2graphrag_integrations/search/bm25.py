"""Lexical search: BM25 over the windows of all nodes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log1p

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations._utils.arrays import (
    IntArray,
    exclusive_sums,
    smallest_int_type,
    sorted_union,
)
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.normalize import UNSPACED
from e2graphrag_integrations.search.fusion import top_rows

_K1, _B = 1.5, 0.75
"""BM25's usual constants (Robertson and Zaragoza 2009): saturation and length."""

_COMMON = 100_000
"""Texts that hold a word from which on it is left to rarer ones to find texts."""

_ROUNDING = 1.0001
"""Sums in another order differ by less."""

_SAMPLED = 1000
"""Texts of the rarest words, at least, that tell what the best of all have at the least."""

_WORD = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


def tokenize(text: str) -> list[str]:
    """Return the words of a text, casefolded; of scripts without spaces the pairs of characters."""
    words: list[str] = []
    for run in _WORD.findall(text.casefold()):
        if len(run) > 1 and _UNSPACED.match(run):
            words.extend(a + b for a, b in pairwise(run))
        else:
            words.append(run)
    return words


@dataclass(frozen=True, eq=False)
class BM25Index:
    """BM25 (Lucene's form) with the weight of each word in each text worked out beforehand.

    Attributes:
        words: The vocabulary, sorted.
        weights: BM25 weights, shape (texts, words).
        counts: How often each text holds each word, in the order of the weights.
        lengths: Words of each text.
        common: Texts that hold a word from which on it finds nothing by itself.
    """

    words: Sequence[str]
    weights: csc_array
    counts: IntArray
    lengths: IntArray
    common: int = _COMMON

    @classmethod
    def of(cls, words: Sequence[str], counts: csc_array, lengths: IntArray) -> BM25Index:
        """Return the index of texts that hold words so often.

        The weight of a word in a text is idf * tf / (tf + k1 (1 - b + b length / mean length)),
        with idf = ln(1 + (N - df + 0.5) / (df + 0.5)), as in Lucene.
        """
        sizes = np.diff(counts.indptr)
        idf = np.log1p((counts.shape[0] - sizes + 0.5) / (sizes + 0.5)).astype(np.float32)
        mean = lengths.mean() if len(lengths) else 0.0
        relative = lengths / mean if mean else np.zeros(len(lengths))
        stretched = (_K1 * (1 - _B + _B * relative)).astype(np.float32)
        weights = counts.data.astype(np.float32)
        weights /= weights + stretched[counts.indices]
        weights *= np.repeat(idf, sizes)
        matrix = csc_array((weights, counts.indices, counts.indptr), shape=counts.shape)
        return cls(words, matrix, counts.data, lengths)

    @lazy
    def _columns(self) -> dict[str, int]:
        return {word: column for column, word in enumerate(self.words)}

    def best(
        self,
        words: Sequence[str],
        count: int,
        allowed: NDArray[np.bool_] | None = None,
        *,
        rarity: float = 0.0,
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the `count` best texts, best first, ties to the earlier one, and their scores.

        Words that very many texts hold add to what others found, but find nothing themselves,
        unless there is no other: in a large index they would cost more than all the rest.

        Args:
            words: Of the question; one given twice counts twice.
            count: Texts wanted.
            allowed: Mask over texts; None allows all.
            rarity: Power of each word's inverse document frequency that its weight is multiplied
                by, beyond the one that BM25 has: stop words of any language fade.
        """
        known = [word for word in words if word in self._columns]
        if self.weights.shape[0] > self.common:
            return self._best_of_many(sorted(known, key=self._held), count, allowed, rarity)
        scores = self._found(known, rarity)
        best = top_rows(scores, count, allowed)
        return best, scores[best]

    def _found(self, words: Iterable[str], rarity: float) -> NDArray[np.float32]:
        scores = np.zeros(self.weights.shape[0], dtype=np.float32)
        for word in words:
            texts, weights = self._texts(word)
            scores[texts] += weights * self._rare(word, rarity)
        return scores

    def _best_of_many(
        self,
        words: Sequence[str],
        count: int,
        allowed: NDArray[np.bool_] | None,
        rarity: float,
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Find texts by the words that not very many hold; look the others up in what was found.

        What all that is left could not lift among the best is left out (MaxScore, Turtle and Flood
        1995).

        Args:
            words: That texts hold, the rarest first.
            count: As in `best`.
            allowed: As there.
            rarity: As there.
        """
        finding = sum(self._held(word) <= self.common for word in words) or len(words)
        scores = self._found(words[:finding], rarity)
        most = [self._texts(w)[1].max() * self._rare(w, rarity) for w in words[finding:]]
        left = np.append(np.cumsum(most[::-1])[::-1], 0.0) * _ROUNDING
        sample = scores[self._sample(words[:finding], count, allowed)]
        bar = _last_of_best(sample, count) - left[0] if len(sample) >= count > 0 else 0.0
        enough = scores >= bar if bar > 0 else scores > 0
        found = np.flatnonzero(enough if allowed is None else enough & allowed)
        total = scores[found]
        for word, more in zip(words[finding:], left, strict=False):
            if len(found) > count > 0:
                near = total + more >= _last_of_best(total, count)
                found, total = found[near], total[near]
            total = total + self.at([word], found, rarity=rarity)
        best = top_rows(total, count)
        return found[best], total[best]

    def _sample(
        self, words: Sequence[str], count: int, allowed: NDArray[np.bool_] | None
    ) -> IntArray:
        """Return some texts of the rarest words: what they score at least, the best of all do."""
        wanted = max(_SAMPLED, 2 * count)
        sample: list[IntArray] = [np.empty(0, dtype=np.int64)]
        for word in words:
            texts = self._texts(word)[0][:wanted]
            sample.append(texts if allowed is None else texts[allowed[texts]])
            if sum(map(len, sample)) >= wanted:
                break
        return sorted_union(*sample)

    def at(
        self, words: Iterable[str], rows: IntArray, *, rarity: float = 0.0
    ) -> NDArray[np.float32]:
        """Return the scores of some texts, as `best` has them."""
        scores = np.zeros(len(rows), dtype=np.float32)
        for word in words:
            if word in self._columns:
                texts, weights = self._texts(word)
                # Of another type, all texts would be copied to it.
                at = np.searchsorted(texts, rows.astype(texts.dtype))
                at = np.minimum(at, len(texts) - 1)
                held = np.where(texts[at] == rows, weights[at], np.float32(0))
                scores += held * self._rare(word, rarity)
        return scores

    def _rare(self, word: str, rarity: float) -> np.float32:
        rare: np.float32 = np.float32(self._idf(word) ** rarity)
        return rare

    def _texts(self, word: str) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the texts that hold a word, ascending, and its weight in each."""
        column = self._columns[word]
        span = slice(self.weights.indptr[column], self.weights.indptr[column + 1])
        return self.weights.indices[span], self.weights.data[span]

    def _held(self, word: str) -> int:
        """Return how many texts hold a word."""
        column = self._columns.get(word)
        if column is None:
            return 0
        return int(self.weights.indptr[column + 1] - self.weights.indptr[column])

    def full(self, words: Iterable[str], *, rarity: float = 0.0) -> float:
        """Return the score of a text of mean length that holds each of the words once."""
        rare = [self._idf(word) ** (1 + rarity) for word in words]
        return float(sum(rare)) / (1 + _K1)

    def _idf(self, word: str) -> float:
        count, held = self.weights.shape[0], self._held(word)
        return log1p((count - held + 0.5) / (held + 0.5))


def build_bm25(texts: Iterable[str]) -> BM25Index:
    """Index texts by their words; they are read once, one after the other."""
    ids: dict[str, int] = {}
    tokens, sizes = array("i"), array("q")
    for text in texts:
        words = tokenize(text)
        tokens.extend([ids.setdefault(word, len(ids)) for word in words])
        sizes.append(len(words))
    vocabulary = sorted(ids)
    rank = np.empty(len(ids), dtype=np.int32)  # arrival order -> sorted order
    rank[[ids[word] for word in vocabulary]] = np.arange(len(ids))
    kind = smallest_int_type(len(tokens))
    counts = csr_array(
        (
            np.ones(len(tokens), dtype=np.int32),
            rank[np.asarray(tokens)].astype(kind, copy=False),
            exclusive_sums(sizes).astype(kind),
        ),
        shape=(len(sizes), len(vocabulary)),
    )
    counts.sum_duplicates()
    counts.data = _smallest(counts.data)
    return BM25Index.of(vocabulary, counts.tocsc(), np.asarray(sizes, dtype=np.int64))


def merge_bm25(parts: Sequence[tuple[BM25Index, IntArray]], count: int) -> BM25Index:
    """Return the index that `build_bm25` would make of texts that others have already.

    Args:
        parts: Each with the new row of each of its texts, ascending; -1 for one that is gone.
        count: Texts altogether.
    """
    held = [_kept(index, rows) for index, rows in parts]
    vocabulary = sorted({word for words, *_ in held for word in words})
    columns = {word: column for column, word in enumerate(vocabulary)}
    counts = csc_array((count, len(vocabulary)), dtype=np.uint8)
    lengths = np.zeros(count, dtype=np.int64)
    for (words, sizes, data, texts), (index, rows) in zip(held, parts, strict=True):
        each = np.zeros(len(vocabulary), dtype=np.int64)
        each[[columns[word] for word in words]] = sizes
        kind = smallest_int_type(max(count, len(data)))
        places = texts.astype(kind, copy=False), exclusive_sums(each).astype(kind)
        counts = counts + csc_array((data, *places), shape=counts.shape)
        lengths[rows[rows >= 0]] = index.lengths[rows >= 0]
    counts.data = _smallest(counts.data)
    return BM25Index.of(vocabulary, counts, lengths)


def _kept(index: BM25Index, rows: IntArray) -> tuple[list[str], IntArray, IntArray, IntArray]:
    """Return what is left of an index: its words, the texts of each, the counts, the new rows."""
    texts = rows.astype(index.weights.indices.dtype)[index.weights.indices]
    there = texts >= 0
    kept = np.zeros(len(there) + 1, dtype=smallest_int_type(len(there)))
    np.cumsum(there, out=kept[1:])
    sizes = np.diff(kept[index.weights.indptr])
    words = [word for word, size in zip(index.words, sizes.tolist(), strict=True) if size]
    return words, sizes[sizes > 0], index.counts[there], texts[there]


def _last_of_best(scores: NDArray[np.float32], count: int) -> float:
    """Return the least of the `count` best scores, of which there are as many."""
    return float(np.partition(scores, len(scores) - count)[len(scores) - count])


def _smallest(counts: IntArray) -> IntArray:
    """Return counts in the smallest type that holds them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
