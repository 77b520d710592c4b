"""BM25 of one shard, with the statistics of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.search.bm25 import BM25Index, Weights
from e2graphrag_integrations.search.fusion import top_rows

_EQUAL: Weights = {}


@dataclass(frozen=True, eq=False)
class ShardBM25(BM25Index):
    """Scores the texts of a shard as one index of all texts would.

    `corpus` must be given, with the frequencies of all terms that are asked for. Whether a term is
    too frequent to retrieve texts by itself also depends on the corpus, not on the shard.
    """

    def search(
        self,
        terms: Sequence[str],
        count: int,
        allowed: NDArray[np.bool_] | None = None,
        *,
        idf_power: float = 0.0,
        weights: Weights = _EQUAL,
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the best texts of the shard; see `BM25Index.search`."""
        known = [term for term in terms if self.doc_freq(term)]
        if self._n_texts_of_corpus > self.max_doc_freq:
            by_rarity = sorted(known, key=self.doc_freq)
            return self._search_pruned(by_rarity, count, allowed, idf_power, weights)
        scores = self._score_all(known, idf_power, weights)
        best = top_rows(scores, count, allowed)
        return best, scores[best]

    def doc_freq(self, term: str) -> int:
        """Return the number of texts of all shards that contain a term."""
        return 0 if self.corpus is None else self.corpus.doc_freq.get(term, 0)

    def _max_weight(self, term: str) -> np.float32:
        is_here = any(term in part.postings.columns for part in self.parts)
        return super()._max_weight(term) if is_here else np.float32(0)
