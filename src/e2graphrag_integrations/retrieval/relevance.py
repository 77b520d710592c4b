"""Relevance: how well windows fit a question by meaning and by words, neighbors counted in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, sum_by_key
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import tokenize
from e2graphrag_integrations.search.fusion import (
    Floats,
    first_occurrences,
    scale_scores,
    smooth_over_neighbors,
)
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_REACH = 8
"""Windows on either side that a window's relevance reaches: 0.5^8 of it is under 1 %."""

_ENOUGH = 0.25
"""Words are trusted in full where the best window holds this share of what is rare in the question;
docs/constants.md tells of others."""

_LEAST = 1e-3
"""Of the best window's relevance: what the last of a list has, for it is found, too."""


@dataclass(frozen=True)
class Weights:
    """How the relevance of a window is made.

    Attributes:
        dense, words: Weight of cosine and of BM25.
        rarity: Power of inverse document frequency beyond BM25's own.
        sharpness: Power of the sum, above 1 for few good windows over many fair ones.
        share: What a window hands to the next.
        length: Windows of each list that count.
    """

    dense: float
    words: float
    rarity: float
    sharpness: float
    share: float
    length: int


class Relevance:
    """The windows that fit one question.

    Both lists are scaled from the score of their last (0) to the best (1), words weighed by how far
    they can be relied on, added, sharpened, `((d + w) / 2) ** sharpness`, and spread in the
    document: `share ** distance` of it to each neighbor (retrieval note D.7 measures such votes).

    Args:
        query: The question.
        snapshot: Of the index.
        weights: How they count.
        leaves_only: Whether windows of summaries are left out.
    """

    def __init__(
        self, query: Query, snapshot: Snapshot, weights: Weights, *, leaves_only: bool = False
    ) -> None:
        self._query = query
        self._snapshot = snapshot
        self._weights = weights
        allowed = query.allowed
        if leaves_only:
            allowed = snapshot.leaves if allowed is None else allowed & snapshot.leaves
        self._allowed = allowed
        self._owners = snapshot.dense.nodes
        self._words = tokenize(query.question)

    @lazy
    def dense(self) -> tuple[IntArray, Floats]:
        """Return windows by cosine, best first, with their cosines."""
        if not len(self._owners) or not self._weights.dense:
            return np.empty(0, dtype=np.int64), np.empty(0)
        return self._snapshot.dense.windows(self._query.vector, self._weights.length, self._allowed)

    @lazy
    def words(self) -> tuple[IntArray, Floats]:
        """Return windows by BM25, best first, with their scores."""
        if not self._weights.words:
            return np.empty(0, dtype=np.int64), np.empty(0)
        allowed = None if self._allowed is None else self._allowed[self._owners]
        return self._snapshot.lexical.best(
            self._words, self._weights.length, allowed, rarity=self._weights.rarity
        )

    @lazy
    def trust(self) -> float:
        """Return how far words can be relied on, in [0, 1].

        It is next to nothing where no more than common words match.
        """
        _, scores = self.words
        full = self._snapshot.lexical.full(self._words, rarity=self._weights.rarity)
        return min(1.0, float(scores[0]) / (full * _ENOUGH)) if len(scores) and full else 0.0

    @lazy
    def windows(self) -> tuple[IntArray, Floats]:
        """Return all windows that fit, ascending, with their relevance."""
        (near, cosines), (worded, scores) = self.dense, self.words
        # Beyond a list nothing counts; words that the list has to the last begin at nothing.
        lowest = float(scores[-1]) if len(scores) == self._weights.length else 0.0
        rows = [near, worded]
        values = [
            self._weights.dense
            * scale_scores(cosines, float(cosines[-1]) if len(cosines) else 0.0),
            self._weights.words * self.trust * scale_scores(scores, lowest),
        ]
        together, sums = sum_by_key(np.concatenate(rows), np.concatenate(values), len(self._owners))
        most = self._weights.dense + self._weights.words
        sharp = np.maximum(sums / max(most, 1e-9), _LEAST) ** self._weights.sharpness
        reached, spreaded = smooth_over_neighbors(
            together, sharp, self._snapshot.neighborhoods, self._weights.share, _REACH
        )
        seen = spreaded > 0
        if self._allowed is not None:
            seen &= self._allowed[self._owners[reached]]
        return reached[seen], spreaded[seen]

    @lazy
    def nodes(self) -> tuple[IntArray, IntArray, Floats]:
        """Return nodes by their best window, best first: their rows, those windows, relevance."""
        windows, values = self.windows
        order = np.lexsort((windows, -values))
        order = order[first_occurrences(self._owners[windows[order]])]
        return self._owners[windows[order]], windows[order], values[order]

    def plain(self, windows: IntArray) -> NDArray[np.float64]:
        """Return the relevance of any windows, each list by its best score, neighbors left out.

        Where a vector store tells no cosine of a window, that of the list's last stands for it.
        """
        values = np.zeros(len(windows))
        found, cosines = self.dense
        if len(found) and cosines[0] > 0:
            order = np.argsort(found)
            at = np.searchsorted(found[order], windows)
            at = np.minimum(at, len(found) - 1)
            known = found[order][at] == windows
            cosine = np.where(known, cosines[order][at], cosines[-1])
            values += self._weights.dense * np.maximum(0, cosine) / cosines[0]
        _, best = self.words
        if len(best):
            scores = self._snapshot.lexical.at(self._words, windows, rarity=self._weights.rarity)
            values += self._weights.words * self.trust * scores / best[0]
        return values
