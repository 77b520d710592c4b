"""Lexical search: BM25 over the windows of all nodes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations.arrays import IntArray, before
from e2graphrag_integrations.lazy import lazy
from e2graphrag_integrations.normalize import UNSPACED
from e2graphrag_integrations.ranking import best_rows

_K1, _B = 1.5, 0.75
"""BM25's usual constants (Robertson and Zaragoza 2009): saturation and length."""

_COMMON = 50_000
"""Texts that hold a word from which on it is left to rarer ones to find texts."""

_ROUNDING = 1.0001
"""Sums in another order differ by less."""

_WORD = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


def words_of(text: str) -> list[str]:
    """Return the words of a text, casefolded; of scripts without spaces the pairs of characters."""
    words: list[str] = []
    for run in _WORD.findall(text.casefold()):
        if len(run) > 1 and _UNSPACED.match(run):
            words.extend(a + b for a, b in pairwise(run))
        else:
            words.append(run)
    return words


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """BM25 (Lucene's form) with the weight of each word in each text worked out beforehand.

    Attributes:
        words: The vocabulary, sorted.
        weights: BM25 weights, shape (texts, words).
        common: Texts that hold a word from which on it finds nothing by itself.
    """

    words: Sequence[str]
    weights: csc_array
    common: int = _COMMON

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
        common = sorted((w for w in known if self._held(w) > self.common), key=self._held)
        finding = [word for word in known if word not in common] or known
        scores = np.zeros(self.weights.shape[0], dtype=np.float32)
        for word in finding:
            texts, weights = self._texts(word)
            scores[texts] += weights * self._rare(word, rarity)
        if len(finding) == len(known):
            best = best_rows(scores, count, allowed)
            return best, scores[best]
        found = np.flatnonzero(scores > 0 if allowed is None else (scores > 0) & allowed)
        total = scores[found]
        most = [self._texts(w)[1].max() * self._rare(w, rarity) for w in common]
        for number, word in enumerate(common):
            if len(found) > count > 0:  # what all that is left cannot bring in is left out
                least = np.partition(total, len(total) - count)[len(total) - count]
                near = total + sum(most[number:]) * _ROUNDING >= least
                found, total = found[near], total[near]
            total = total + self.at([word], found, rarity=rarity)
        best = best_rows(total, count)
        return found[best], total[best]

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
        return float(np.log1p((count - held + 0.5) / (held + 0.5)))


def build_lexical(texts: Iterable[str]) -> LexicalIndex:
    """Index texts by their words; they are read once, one after the other.

    The weight of a word in a text is idf * tf / (tf + k1 (1 - b + b length / mean length)), with
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)), as in Lucene.
    """
    ids: dict[str, int] = {}
    tokens, sizes = array("i"), array("q")
    for text in texts:
        words = words_of(text)
        tokens.extend([ids.setdefault(word, len(ids)) for word in words])
        sizes.append(len(words))
    count = len(sizes)
    vocabulary = sorted(ids)
    if not vocabulary:
        return LexicalIndex([], csc_array((count, 0), dtype=np.float32))
    rank = np.empty(len(ids), dtype=np.int32)  # arrival order -> sorted order
    rank[[ids[word] for word in vocabulary]] = np.arange(len(ids))
    lengths = np.asarray(sizes, dtype=np.float32)
    weights = csr_array(
        (np.ones(len(tokens), dtype=np.float32), rank[np.asarray(tokens)], before(sizes)),
        shape=(count, len(vocabulary)),
    )
    weights.sum_duplicates()
    held = np.bincount(weights.indices, minlength=len(vocabulary))
    idf = np.log1p((count - held + 0.5) / (held + 0.5)).astype(np.float32)
    stretched = _K1 * (1 - _B + _B * lengths / lengths.mean())
    weights.data /= weights.data + np.repeat(stretched, np.diff(weights.indptr))
    weights.data *= idf[weights.indices]
    return LexicalIndex(vocabulary, weights.tocsc())
