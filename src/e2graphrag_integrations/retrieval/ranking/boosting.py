"""Boosting: candidates are reordered by the user's preferences, after all other ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.ranking.boosts import BoostFactors, Boosts
from e2graphrag_integrations.retrieval.ranking.candidates import with_deeper
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.results.selection import fill_to_k
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import AppliedBoosts, Ranked, Trace
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MAX_CANDIDATES = 1_000
"""Maximum number of nodes that a boost can lift into the result."""


def boost_candidates(
    query: Query,
    boosts: Boosts,
    candidates: Sequence[Candidate],
    trace: Trace,
    snapshot: Snapshot,
    *,
    rank_deeper: Callable[[Query], Sequence[Candidate]],
    distinct: Callable[[Sequence[Candidate]], Sequence[Candidate]],
) -> tuple[Sequence[Candidate], Trace]:
    """Multiply the scores of candidates by the factors of the boosts, and sort them again.

    A node may be lifted from below the `k` candidates of the strategy: the strategy ranks again
    with a larger `k`, and the nodes that only this ranking contains follow the others. A score of
    about 1 / rank times f reaches rank k from rank k * f, so `k` is multiplied by the spread of the
    factors, up to 1,000. Neutral boosts change nothing.

    Args:
        query: The question, with its vector if the strategy needs one.
        boosts: The boosts.
        candidates: Candidates, best first.
        trace: The trace to extend.
        snapshot: The index.
        rank_deeper: Ranks a query with a larger `k`.
        distinct: Returns nodes in their order, the first `k` of them without duplicates.

    Raises:
        InvalidInputError: If the boosts do not fit the index; see `BoostFactors`.
    """
    boosts = boosts.at(datetime.now(UTC))
    factors = BoostFactors(boosts, snapshot, query.allowed)
    reach = min(_MAX_CANDIDATES, min(query.k, _MAX_CANDIDATES) * factors.spread)
    depth = max(query.k, math.ceil(reach - 1e-9))
    pool = list(candidates)
    if depth > query.k:
        pool = with_deeper(pool, rank_deeper(replace(query, k=depth)))
    if query.fill and query.vector is not None and len(pool) < depth:
        pool = list(fill_to_k(pool, replace(query, k=depth, expand="none"), snapshot))
    if not pool:
        return pool, trace
    values, parts = factors.of(np.asarray([one.row for one in pool], dtype=np.int64))
    scores = np.asarray([one.score for one in pool], dtype=np.float64)
    scores = (scores - min(0.0, float(scores.min()))) * values
    order = np.argsort(-scores, kind="stable")
    if not any(one.is_window for one in pool):
        places = {one.row: place for place, one in enumerate(pool)}
        best = distinct([pool[place] for place in order.tolist()])[: query.k]
        order = np.asarray([places[one.row] for one in best], dtype=np.int64)
    boosted = [
        replace(
            pool[place],
            score=float(scores[place]),
            reasons=(*pool[place].reasons, *_reasons(float(values[place]), parts[place], place)),
        )
        for place in order.tolist()
    ]
    applied = AppliedBoosts(boosts.to_dict(), len(pool), int((values != 1).sum()))
    ids = [snapshot.nodes.ids[one.row] for one in boosted]
    lists = {**trace.lists, "boosted": _ranked(ids, order, values[order], scores[order])}
    return boosted, replace(trace, boosts=applied, lists=lists)


def _ranked(
    ids: Sequence[str], order: IntArray, factors: Floats, scores: Floats
) -> tuple[Ranked, ...]:
    """Return the nodes with their factors; a node with several windows has those of the best."""
    ranked: dict[str, Ranked] = {}
    columns = (order.tolist(), factors.tolist(), scores.tolist())
    for id_, place, factor, score in zip(ids, *columns, strict=True):
        figures = {"score": round(score, 6), "factor": round(factor, 6), "rank_before": place + 1}
        ranked.setdefault(id_, Ranked(id_, len(ranked) + 1, figures))
    return tuple(ranked.values())


def _reasons(factor: float, parts: dict[str, float], place: int) -> tuple[Reason, ...]:
    if not parts:
        return ()
    described = ", ".join(f"{name} {value:.3g}" for name, value in parts.items())
    return (Reason("boosted", factor=factor, parts=described, rank=place + 1),)
