"""Lexical search: BM25 over the windows of all nodes."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from e2graphrag_integrations.lazy import lazy
from e2graphrag_integrations.normalize import UNSPACED

_K1, _B = 1.5, 0.75
"""BM25's usual constants (Robertson and Zaragoza 2009): saturation and length."""

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

    bm25s makes the weights; the sum over a question's words is ours, for bm25s knows no rarity.

    Attributes:
        words: The vocabulary, sorted.
        weights: BM25 weights, shape (texts, words).
    """

    words: Sequence[str]
    weights: csc_array

    @lazy
    def _columns(self) -> dict[str, int]:
        return {word: column for column, word in enumerate(self.words)}

    def scores(self, words: Iterable[str], *, rarity: float = 0.0) -> NDArray[np.float32]:
        """Return the score of every text.

        Args:
            words: Of the question; one given twice counts twice.
            rarity: Power of each word's inverse document frequency that its weight is multiplied
                by, beyond the one that BM25 has: stop words of any language fade.
        """
        count = self.weights.shape[0]
        scores = np.zeros(count, dtype=np.float32)
        for word in words:
            column = self._columns.get(word)
            if column is None:
                continue
            span = slice(self.weights.indptr[column], self.weights.indptr[column + 1])
            rare = np.float32(self._idf(word, count) ** rarity)
            scores[self.weights.indices[span]] += self.weights.data[span] * rare
        return scores

    def full(self, words: Iterable[str], *, rarity: float = 0.0) -> float:
        """Return the score of a text of mean length that holds each of the words once."""
        count = self.weights.shape[0]
        rare = [self._idf(word, count) ** (1 + rarity) for word in words]
        return float(sum(rare)) / (1 + _K1)

    def _idf(self, word: str, count: int) -> float:
        column = self._columns.get(word)
        held = 0
        if column is not None:
            held = int(self.weights.indptr[column + 1] - self.weights.indptr[column])
        return float(np.log1p((count - held + 0.5) / (held + 0.5)))


def build_lexical(texts: Sequence[str]) -> LexicalIndex:
    """Index texts by their words."""
    corpus = [words_of(text) for text in texts]
    if not any(corpus):
        return LexicalIndex([], csc_array((len(texts), 0), dtype=np.float32))
    # Its logger writes of every index at DEBUG, into programs that set no level.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    bm25: Any = importlib.import_module("bm25s").BM25(k1=_K1, b=_B, method="lucene")
    bm25.index(corpus, show_progress=False, create_empty_token=False)
    words = sorted(bm25.vocab_dict)
    columns = [bm25.vocab_dict[word] for word in words]
    parts = (bm25.scores["data"], bm25.scores["indices"], bm25.scores["indptr"])
    weights = csc_array(parts, shape=(len(texts), len(parts[2]) - 1))[:, columns]
    return LexicalIndex(words, weights)
