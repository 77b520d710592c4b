"""Relevance of windows to a query: cosine similarity and BM25, smoothed over neighbors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, sum_by_key
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.embedders.calibration import log_odds
from e2graphrag_integrations.retrieval.names.namesakes import Namesakes
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.fusion import (
    Floats,
    first_occurrences,
    scale_scores,
    smooth_over_neighbors,
)
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Span

_MAX_NEIGHBOR_DISTANCE = 8
"""Maximum distance, in windows, over which a window adds relevance to its neighbors. At the default
decay of 0.5, a window 9 positions away would get only 0.2 %."""

_TRUSTED_LOG_ODDS = 1.5
"""Difference between the log-odds of the best and the last window from which cosines have full
weight, if the ranking contains all windows. For all-MiniLM-L6-v2, it is a cosine of 0.28."""

_TRUSTED_FRACTION, _TRUSTED_MOST = 0.25, 0.5
"""BM25 has full weight if the best window reaches this fraction of the query's full BM25 score, or
up to the second one in a short question. docs/constants.md compares other values."""

_TRUSTED_WORDS = 1.5
"""Number of words with content that a short question must have in the best window."""

_MIN_WORDS = 2
"""Minimum number of words with content that make a question specific."""

_MIN_SHARE = 0.8
"""Share of these words, by IDF, from which a BM25 score counts more."""

_FIELD_WEIGHT = 0.5
"""Weight of the BM25 score of a chunk's field, which repeats words of its text."""

_MIN_RELEVANCE = 1e-3
"""Minimum combined score, before the exponent, so the last hit still scores above zero."""


@dataclass(frozen=True, eq=False)
class Relevance:
    """The relevance of windows to one query.

    `d` and `b` are the dense and BM25 scores, each scaled to [0, 1] from the lowest to the highest
    score of its ranking. `t` and `c` are the confidences in them (`dense_confidence`,
    `bm25_confidence`)::

        combined = (dense_weight * t * d + bm25_weight * c * b) / (dense_weight + bm25_weight)
        relevance(window) = sum over neighbors of neighbor_decay ** distance
                            * combined(neighbor) ** relevance_power

    Neighbors are the windows of the same document and tree level up to 8 positions away, including
    the window itself at distance 0. Scaling each ranking before a weighted sum is known as
    convex combination with min-max normalization (Bruch et al. 2023).

    Attributes:
        query: The query.
        snapshot: The search index.
        terms: The words of the question.
        dense_weight: Weight of cosine similarity.
        bm25_weight: Weight of BM25.
        relevance_power: Exponent of the combined score, before smoothing.
        neighbor_decay: Fraction of its relevance that a window adds to each adjacent window.
        list_length: Number of windows to take from each of the two rankings.
        leaves_only: Whether to exclude windows of summaries.
        namesakes: Lowers the BM25 scores of windows about others that share a name; None if there
            are none.
    """

    query: Query
    snapshot: Snapshot
    terms: QuestionTerms
    dense_weight: float
    bm25_weight: float
    relevance_power: float
    neighbor_decay: float
    list_length: int
    leaves_only: bool = False
    namesakes: Namesakes | None = None

    @lazy
    def _allowed(self) -> NDArray[np.bool_] | None:
        allowed = self.query.allowed
        if not self.leaves_only:
            return allowed
        return self.snapshot.is_chunk if allowed is None else allowed & self.snapshot.is_chunk

    @lazy
    def dense(self) -> tuple[IntArray, Floats]:
        """The windows with the highest cosine similarity, best first, and their cosines."""
        if not len(self.snapshot.dense.window_nodes) or not self.dense_weight:
            return np.empty(0, dtype=np.int64), np.empty(0)
        return self.snapshot.dense.search_windows(
            self.query.unit_vector, self.list_length, self._allowed
        )

    @lazy
    def bm25(self) -> tuple[IntArray, Floats]:
        """The windows with the highest BM25 score, best first, and their scores."""
        if not self.bm25_weight:
            return np.empty(0, dtype=np.int64), np.empty(0)
        allowed = None if self._allowed is None else self._allowed[self.snapshot.dense.window_nodes]
        terms, weights = self.terms.searched
        found = self.snapshot.bm25.search(
            terms, self.list_length, allowed, idf_power=self.terms.idf_power, weights=weights
        )
        if self.namesakes is None:
            return found
        return self.namesakes.lowered(*found, idf_power=self.terms.idf_power, weights=weights)

    @lazy
    def _near(self) -> tuple[IntArray, Floats]:
        """`dense`, in which a chunk that is nearer in its field counts as its nearest window."""
        field = self.query.chunk_field
        if field is None or not self.dense_weight or not len(self.snapshot.dense.window_nodes):
            return self.dense
        rows, cosines = field.nearest(self.query.unit_vector, self.list_length, self._allowed)
        return self._raised(self.dense, self._nearest_windows(rows), cosines)

    @lazy
    def _matching(self) -> tuple[IntArray, Floats]:
        """`bm25`, to which the field of a chunk adds its score, at the nearest window."""
        field = self.query.chunk_field
        if field is None or not self.bm25_weight:
            return self.bm25
        terms, weights = self.terms.searched
        rows, scores = field.matching(
            terms, weights, self.terms.idf_power, self.list_length, self._allowed
        )
        windows = self._nearest_windows(rows)
        own = self.snapshot.bm25.score_rows(
            terms, windows, idf_power=self.terms.idf_power, weights=weights
        )
        return self._raised(self.bm25, windows, own + _FIELD_WEIGHT * scores)

    def _nearest_windows(self, rows: IntArray) -> IntArray:
        """Return the window of each node that is nearest to the question, or else its first one."""
        windows, owners = self.snapshot.dense.windows_of(rows)
        values: Floats = np.zeros(len(windows))
        if self.query.vector is not None and len(windows):
            values = self.snapshot.dense.cosines(self.query.vector, windows)
        order = np.lexsort((windows, -values, owners))
        nearest: IntArray = windows[order[first_occurrences(owners[order])]]
        return nearest

    def _raised(
        self, ranking: tuple[IntArray, Floats], windows: IntArray, scores: Floats
    ) -> tuple[IntArray, Floats]:
        """Return a ranking in which some windows have at least the given scores."""
        rows = np.concatenate([ranking[0], windows])
        values = np.concatenate([ranking[1], scores])
        order = np.lexsort((rows, -values))
        best = order[first_occurrences(rows[order])][: self.list_length]
        return rows[best], values[best]

    @lazy
    def dense_confidence(self) -> float:
        """The confidence in the dense ranking, in [0, 1]; close to 0 if it has nothing to choose.

        A ranking of all windows of a small index, or of those that pass a filter, may consist of
        cosines that are nearly equal, of which scaling would make 0 and 1. The confidence is the
        difference between the log-odds of the calibrated relevance of the best and the last one,
        divided by 1.5, but at most 1. So it depends on the embedder how near cosines are.
        """
        _, cosines = self._near
        if not 0 < len(cosines) < self.list_length:
            return 1.0
        best, last = (log_odds(self.query.calibration(float(cosines[place]))) for place in (0, -1))
        return min(1.0, (best - last) / _TRUSTED_LOG_ODDS)

    @lazy
    def bm25_confidence(self) -> float:
        """The confidence in the BM25 ranking, in [0, 1]; close to 0 if only common words match.

        This is the best score divided by a quarter of the query's full score, but at most 1. In a
        short question, it is more than a quarter: one of three words may be found by chance. The
        full score is that of a window of average length that contains every query term once. For
        a question in English about texts in another language, it is divided by the full score
        itself: such texts contain English words by chance.
        """
        _, scores = self._matching
        full = self.terms.full_score
        if not len(scores) or not full:
            return 0.0
        of_words = _TRUSTED_WORDS / max(1, len(self.terms.telling))
        trusted = min(_TRUSTED_MOST, max(_TRUSTED_FRACTION, of_words))
        if self.terms.are_foreign:
            trusted = 1.0
        return min(1.0, float(scores[0]) / (full * trusted))

    @lazy
    def windows(self) -> tuple[IntArray, Floats]:
        """All windows with a positive relevance, ascending, and their relevance."""
        (near, cosines), (matching, scores) = self._near, self._matching
        # A BM25 ranking shorter than its limit contains every match, so its scores are scaled
        # from 0.
        floor = float(scores[-1]) if len(scores) == self.list_length else 0.0
        lowest = float(cosines[-1]) if len(cosines) else 0.0
        values = [
            self.dense_weight * self.dense_confidence * scale_scores(cosines, lowest),
            self.bm25_weight
            * self.bm25_confidence
            * scale_scores(scores, floor)
            * self._factors_of_complete(matching),
        ]
        windows, sums = sum_by_key(
            np.concatenate([near, matching]),
            np.concatenate(values),
            len(self.snapshot.dense.window_nodes),
        )
        combined = sums / max(self.dense_weight + self.bm25_weight, 1e-9)
        windows, relevance = smooth_over_neighbors(
            windows,
            np.maximum(combined, _MIN_RELEVANCE) ** self.relevance_power,
            self.snapshot.level_window_starts,
            self.neighbor_decay,
            _MAX_NEIGHBOR_DISTANCE,
        )
        if self._allowed is None:
            return windows, relevance
        found = self._allowed[self.snapshot.dense.window_nodes[windows]]
        return windows[found], relevance[found]

    def _factors_of_complete(self, windows: IntArray) -> Floats:
        """Return the factors of the BM25 scores of windows, shape (n,).

        They are up to 2 for windows with nearly all words of the question. A short fact in a long
        text has a vector of its surroundings, so only its words find it.
        """
        terms, words = self.terms, self.terms.telling
        if len(words) < _MIN_WORDS or not len(windows):
            return np.ones(len(windows))
        weights = terms.rarity(words)
        shares = weights @ terms.contain(words, windows) / weights.sum()
        return np.asarray(1 + np.maximum(0.0, (shares - _MIN_SHARE) / (1 - _MIN_SHARE)))

    @lazy
    def nodes(self) -> tuple[IntArray, IntArray, Floats]:
        """Nodes ranked by the relevance of their best window: rows, windows, relevance."""
        windows, relevance = self.windows
        order = np.argsort(-relevance, kind="stable")  # windows ascend
        owners = self.snapshot.dense.window_nodes[windows[order]]
        best = first_occurrences(owners)
        return owners[best], windows[order[best]], relevance[order[best]]

    def best_spans(self, rows: IntArray) -> list[Span | None]:
        """Return the span of each node's most relevant window; None if no window is relevant."""
        windows, found = self.best_windows(rows)
        spans = self.snapshot.window_spans[windows].tolist()
        return [
            Span(*span) if has else None for span, has in zip(spans, found.tolist(), strict=True)
        ]

    def best_windows(self, rows: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return the most relevant window of each node, shape (n,), and which nodes have one.

        The other nodes have the window 0.
        """
        nodes, windows = self._best_window_by_node
        best, found = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
        if len(nodes):
            places = np.minimum(np.searchsorted(nodes, rows), len(nodes) - 1)
            found = nodes[places] == rows
            best[found] = windows[places[found]]
        return best, found

    @lazy
    def _best_window_by_node(self) -> tuple[IntArray, IntArray]:
        """The nodes of `nodes`, ascending, and their windows."""
        rows, windows, _ = self.nodes
        order = np.argsort(rows)
        return rows[order], windows[order]

    def of_chunks(self, chunks: IntArray) -> NDArray[np.float64]:
        """Return the highest unsmoothed relevance of any window of each chunk, shape (n,)."""
        windows, owners = self.snapshot.dense.windows_of(self.snapshot.chunk_nodes[chunks])
        best = np.zeros(len(chunks))
        np.maximum.at(best, owners, self.unsmoothed(windows))
        return best

    def of_node(self, row: int) -> float | None:
        """Return a node's relevance for the result, or None if no list contains the node.

        This is the calibrated cosine of its best window. Without dense search, it is the BM25 score
        of its best window, as a fraction of the query's full score.
        """
        if self.query.vector is None:
            return self._scores_of_nodes.get(row, 0.0)
        cosine = self._scores_of_nodes.get(row)
        return None if cosine is None else self.query.calibration(cosine)

    @lazy
    def _scores_of_nodes(self) -> Mapping[int, float]:
        if self.query.vector is None:
            windows, scores = self.bm25
            full = self.terms.full_score
            scores = scores / full if full else scores
        else:
            # The result gets the exact cosines of the other nodes later.
            exact = slice(self.snapshot.dense.exact_count)
            windows, scores = self.dense[0][exact], self.dense[1][exact]
        best = first_occurrences(self.snapshot.dense.window_nodes[windows])
        nodes = self.snapshot.dense.window_nodes[windows[best]]
        return dict(zip(nodes.tolist(), scores[best].tolist(), strict=True))

    def unsmoothed(self, windows: IntArray) -> NDArray[np.float64]:
        """Return `WindowTerms.unsmoothed` of any windows."""
        return self.terms_in(windows).unsmoothed

    def terms_in(self, windows: IntArray) -> WindowTerms:
        """Look up the terms of the question in windows, given by their numbers, shape (n,)."""
        terms, _ = self.terms.searched
        return WindowTerms(self, windows, self.snapshot.bm25.saturations(terms, windows))


@dataclass(frozen=True, eq=False)
class WindowTerms:
    """The terms of the question in some windows, looked up once.

    Attributes:
        relevance: The relevance to the question.
        windows: Window numbers, shape (n,).
        saturations: BM25's saturated frequency of each term of the question and each inflected
            form in each window.
    """

    relevance: Relevance
    windows: IntArray
    saturations: NDArray[np.float32]

    def contain(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """Return which windows contain which words of the question; see `QuestionTerms.contain`."""
        terms, _ = self.relevance.terms.searched
        place_of = {term: place for place, term in enumerate(terms)}
        mask = np.zeros((len(words), len(self.windows)), dtype=np.bool_)
        for row, word in enumerate(words):
            for form in self.relevance.terms.spelled(word):
                mask[row] |= self.saturations[place_of[form]] > 0
        return mask

    @lazy
    def unsmoothed(self) -> NDArray[np.float64]:
        """`dense_weight * d + bm25_weight * c * b` of each window, without neighbors, shape (n,).

        Here, `d` and `b` are scores relative to the best score of their ranking. A window outside
        the dense ranking gets the lowest cosine of the ranking, because a vector store may be
        unable to return the cosine of a given window. Values are at least 0.
        """
        own, windows = self.relevance, self.windows
        values = np.zeros(len(windows))
        ranked, cosines = own.dense
        if len(ranked) and cosines[0] > 0:
            order = np.argsort(ranked)
            places = np.minimum(np.searchsorted(ranked[order], windows), len(ranked) - 1)
            is_ranked = ranked[order][places] == windows
            cosine = np.where(is_ranked, cosines[order][places], cosines[-1])
            values += own.dense_weight * np.maximum(0, cosine) / cosines[0]
        _, best = own.bm25
        if len(best):
            terms, weights = own.terms.searched
            scores = own.snapshot.bm25.scores_of(
                terms, self.saturations, idf_power=own.terms.idf_power, weights=weights
            )
            values += own.bm25_weight * own.bm25_confidence * scores / best[0]
        return values
