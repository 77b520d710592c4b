"""Candidates: fusing ranked lists into one ranking of nodes or windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray, sum_by_key, values_at
from e2graphrag_integrations._utils.lazy import LazySequence, lazy
from e2graphrag_integrations.retrieval.ranking.breadth import spread_over_documents
from e2graphrag_integrations.retrieval.ranking.relevance import Relevance
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Route
from e2graphrag_integrations.search.fusion import Floats, reciprocal_rank
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.contents import CONTENTS
from e2graphrag_integrations.types import Span

_NODE_SHARE = 0.7
"""Share of the score of its node in that of a window that is the only one of its node."""


_TINY = 1e-12
"""Lower bound for a divisor, so that it is never zero."""


@dataclass(frozen=True, eq=False)
class WeightedList:
    """Nodes ranked by one score, with the weight of that ranking in the fusion.

    Attributes:
        name: Name of the list in the trace and in reasons.
        score_name: Name of its score in the trace.
        weight: Weight in the fusion.
        route: Route that the list belongs to: `local` or `global`.
        rows: Node rows, best first, shape (n,).
        scores: Scores, shape (n,).
        windows: The windows that make the nodes relevant; None if all of their windows are.
        gains: What the list adds to each score, shape (n,), instead of a share by rank; None to use
            ranks.
        factors: Factors of the shares by rank, shape (n,); None for 1.
    """

    name: str
    score_name: str
    weight: float
    route: Route
    rows: IntArray
    scores: Floats
    windows: IntArray | None = None
    gains: Floats | None = None
    factors: Floats | None = None

    def contributions(self, rrf_k: float) -> Floats:
        """Return `weight / (rrf_k + rank)` or the gain of each node, shape (n,)."""
        if self.gains is not None:
            return self.gains
        shares = self.weight * reciprocal_rank(np.arange(1, len(self.rows) + 1), rrf_k)
        return np.asarray(shares if self.factors is None else shares * self.factors)

    def contribution(self, rank: int, rrf_k: float) -> float:
        """Return the contribution of the node at a rank, from 1."""
        if self.gains is not None:
            return float(self.gains[rank - 1])
        factor = 1.0 if self.factors is None else float(self.factors[rank - 1])
        return float(self.weight * reciprocal_rank(rank, rrf_k)) * factor

    @lazy
    def ranks(self) -> Mapping[int, int]:
        """The rank of each node row, from 1."""
        return {row: rank for rank, row in enumerate(self.rows.tolist(), 1)}


def fuse(lists: Sequence[WeightedList], rrf_k: float, node_count: int) -> tuple[IntArray, Floats]:
    """Fuse lists by weighted reciprocal rank fusion (Cormack et al. 2009).

    A node scores the sum of `weight / (rrf_k + rank)` over the lists that contain it.

    Returns:
        The rows of all listed nodes, best first with ties broken by lower row, and their scores.
    """
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(one.rows for one in lists)])
    contributions = [np.empty(0), *(one.contributions(rrf_k) for one in lists)]
    nodes, scores = sum_by_key(rows, np.concatenate(contributions), node_count)
    order = np.lexsort((nodes, -scores))
    return nodes[order], scores[order]


def window_candidates(
    lists: Sequence[WeightedList],
    relevance: Relevance,
    rrf_k: float,
    snapshot: Snapshot,
    diversity: float,
) -> Sequence[Candidate]:
    """Rank windows by their relevance and by the fused score of their node, spread over documents.

    Each list of the graph multiplies the relevance of its chunks' windows by
    `1 + weight * (1 + rrf_k) / (rrf_k + rank)`, which is `1 + weight` for its best chunk. A window
    then scores::

        (1 - share) * relevance + share * fused * own

    * relevance: its multiplied relevance, relative to the best window;
    * fused: the score of its node in `fuse`, relative to the best node;
    * own: its relevance, relative to the best window of its node;
    * share: 0.7 / windows of the node. The rank of a short passage is that of its window, and
      the rank of a long chunk says less about each of its windows.

    A node that is only in lists of the graph has no relevant window, so its first window stands for
    it. A list with windows of its own adds `weight / (rrf_k + rank)` times the highest score to
    these windows instead, so that they come first if its weight is high.

    Returns:
        A lazy sequence, best first: a token budget usually needs only its beginning.
    """
    window_nodes = snapshot.dense.window_nodes
    ranked_lists = [one for one in lists if one.windows is None]
    exact = [one for one in lists if one.windows is not None]
    windows, values = _with_exact(relevance, exact)
    rows, fused = fuse(ranked_lists, rrf_k, len(snapshot.nodes.ids))
    windows, values = _with_first_windows(windows, values, rows, snapshot)
    if not len(windows):
        return ()
    owners, starts, places = np.unique(
        window_nodes[windows], return_index=True, return_inverse=True
    )
    own = values / np.maximum(np.maximum.reduceat(values, starts), _TINY)[places]
    factors = np.ones(len(owners))
    for one in ranked_lists:
        if one.route == "local":
            factors *= 1 + (1 + rrf_k) * values_at(owners, one.rows, one.contributions(rrf_k))
    boosted = values * factors[places]
    of_nodes = values_at(owners, rows, fused) / max(float(fused.max(initial=0.0)), _TINY)
    share = _NODE_SHARE / snapshot.dense.window_counts(owners)[places]
    scores = (1 - share) * boosted / max(float(boosted.max()), _TINY)
    scores += share * own * of_nodes[places]
    scores += scores.max() * sum(
        (_of_windows(one, windows, window_nodes, rrf_k) for one in exact), np.zeros(len(windows))
    )
    if snapshot.bm25.doc_freq(CONTENTS):
        from e2graphrag_integrations.retrieval.ranking.tables_of_contents import contents_factors

        scores *= contents_factors(relevance.query.question, snapshot.bm25, windows)
    order = np.lexsort((windows, -scores))
    documents = snapshot.nodes.document[window_nodes[windows[order]]]
    scores[order] = spread_over_documents(scores[order], documents, diversity)
    order = np.lexsort((windows, -scores))
    ranked, ranked_scores = windows[order], scores[order]

    def candidate(place: int) -> Candidate:
        window, score = ranked[place], float(ranked_scores[place])
        row, span = int(window_nodes[window]), Span(*snapshot.window_spans[window].tolist())
        found = found_by_and_reasons(row, lists, rrf_k)
        return Candidate(row, score, *found, span, is_window=True, relevance=relevance.of_node(row))

    return LazySequence(len(ranked), candidate)


def _with_first_windows(
    windows: IntArray, values: Floats, rows: IntArray, snapshot: Snapshot
) -> tuple[IntArray, Floats]:
    """Add the first window of each node that has none, with the lowest relevance; ascending."""
    window_nodes = snapshot.dense.window_nodes
    missing = np.setdiff1d(rows, window_nodes[windows])
    missing = missing[np.isin(missing, window_nodes)]
    if not len(missing):
        return windows, values
    first = np.searchsorted(window_nodes, missing)
    joined = np.concatenate([windows, first])
    lowest = values.min() if len(values) else 1.0
    order = np.argsort(joined)
    return joined[order], np.append(values, np.full(len(first), lowest))[order]


def _with_exact(relevance: Relevance, lists: Sequence[WeightedList]) -> tuple[IntArray, Floats]:
    """Return the relevant windows and those of some lists, ascending, and their relevance."""
    windows, scores = relevance.windows
    own = [one.windows for one in lists if one.windows is not None]
    missing = np.setdiff1d(np.concatenate([np.empty(0, dtype=np.int64), *own]), windows)
    if not len(missing):
        return windows, scores
    joined = np.concatenate([windows, missing])
    values = np.concatenate([scores, relevance.unsmoothed(missing)])
    order = np.argsort(joined)
    return joined[order], values[order]


def _of_windows(
    one: WeightedList, windows: IntArray, window_nodes: IntArray, rrf_k: float
) -> Floats:
    """Return what a list with windows of its own contributes to each window, shape (windows,)."""
    assert one.windows is not None  # noqa: S101 - the caller selects such lists
    by_row = dict(zip(one.rows.tolist(), one.contributions(rrf_k).tolist(), strict=True))
    own = np.isin(windows, one.windows)
    values = np.zeros(len(windows))
    values[own] = [by_row.get(row, 0.0) for row in window_nodes[windows[own]].tolist()]
    return values


def found_by_and_reasons(
    row: int, lists: Sequence[WeightedList], rrf_k: float
) -> tuple[str, tuple[str, ...]]:
    """Return the name of the list that contributes most to a node, and its rank in each list."""
    found_by = lists[0].name if lists else "relevance"
    most = 0.0
    reasons: list[Reason] = []
    for one in lists:
        rank = one.ranks.get(row)
        if rank is not None:
            contribution = one.contribution(rank, rrf_k)
            if contribution > most or not reasons:
                found_by, most = one.name, contribution
            reasons.append(Reason("rank", list=one.name, rank=int(rank)))
    return found_by, tuple(reasons) or (Reason("below_all_lists"),)


def with_deeper(pool: Sequence[Candidate], deeper: Sequence[Candidate]) -> list[Candidate]:
    """Append the candidates that only a deeper ranking contains; scores never increase."""
    merged = list(pool)
    known = {_key(one) for one in merged}
    lowest = min((one.score for one in merged), default=math.inf)
    for one in deeper:
        if _key(one) not in known:
            lowest = min(lowest, one.score)
            merged.append(replace(one, score=lowest))
    return merged


def _key(candidate: Candidate) -> tuple[int, Span | None]:
    return candidate.row, candidate.best_span if candidate.is_window else None
