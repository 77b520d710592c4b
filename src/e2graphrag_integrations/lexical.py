"""Lexical search: BM25 (bm25s) over all nodes, and how telling a word is."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from e2graphrag_integrations.graph import IntArray
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
    """BM25 (Lucene's form) with the weight of each word in each node worked out beforehand.

    Attributes:
        words: The vocabulary, sorted.
        weights: BM25 weights, shape (nodes, words).
        chunks: How many chunks hold each word.
        total: How many chunks there are.
    """

    words: Sequence[str]
    weights: csc_array
    chunks: IntArray
    total: int

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def search(
        self, words: Iterable[str], count: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[int, float]]:
        """Return up to `count` nodes that hold any of the words, best first, with their scores.

        Ties go to the earlier node.
        """
        columns = [self._rows[word] for word in words if word in self._rows]
        scores = np.zeros(self.weights.shape[0], dtype=np.float32)
        for column in columns:
            span = slice(self.weights.indptr[column], self.weights.indptr[column + 1])
            scores[self.weights.indices[span]] += self.weights.data[span]
        if allowed is not None:
            scores[~allowed] = 0
        found = np.flatnonzero(scores)
        best = found[np.lexsort((found, -scores[found]))][:count]
        return [(int(row), float(scores[row])) for row in best]

    def idf(self, word: str) -> float:
        """Return ln((N + 1) / (df + 1)) over chunks: 0 for a word in all of them."""
        row = self._rows.get(word)
        held = 0 if row is None else int(self.chunks[row])
        return float(np.log((self.total + 1) / (held + 1)))


def build_lexical(texts: Sequence[str], is_chunk: NDArray[np.bool_]) -> LexicalIndex:
    """Index the texts of all nodes.

    Args:
        texts: Of the nodes, with what is put before them.
        is_chunk: Which of them are chunks.
    """
    corpus = [words_of(text) for text in texts]
    if not any(corpus):
        none = csc_array((len(texts), 0), dtype=np.float32)
        return LexicalIndex([], none, np.empty(0, dtype=np.int64), int(is_chunk.sum()))
    bm25: Any = importlib.import_module("bm25s").BM25(k1=_K1, b=_B, method="lucene")
    bm25.index(corpus, show_progress=False, create_empty_token=False)
    words = sorted(bm25.vocab_dict)
    columns = [bm25.vocab_dict[word] for word in words]
    parts = (bm25.scores["data"], bm25.scores["indices"], bm25.scores["indptr"])
    weights = csc_array(parts, shape=(len(texts), len(parts[2]) - 1))[:, columns]
    held = np.repeat(np.arange(len(words)), np.diff(weights.indptr))
    chunks = np.bincount(held[is_chunk[weights.indices]], minlength=len(words))
    return LexicalIndex(words, weights, chunks, int(is_chunk.sum()))
