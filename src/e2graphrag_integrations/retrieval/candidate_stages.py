"""The stages that find and order the candidates for a result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.lazy import LazySequence
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.draft import Draft
from e2graphrag_integrations.retrieval.ranking.breadth import cover_topics
from e2graphrag_integrations.retrieval.ranking.candidates import with_deeper
from e2graphrag_integrations.retrieval.results.selection import above_floor
from e2graphrag_integrations.retrieval.routing import (
    asks_for_ending,
    endings_first,
    starts_with_ending,
)
from e2graphrag_integrations.retrieval.strategy import (
    Candidate,
    DiverseStrategy,
    Query,
    RerankingStrategy,
    Strategy,
)
from e2graphrag_integrations.retrieval.trace import Trace, measure
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_FLOOR_CANDIDATES = 1_000
"""Number of nodes that a strategy ranks if too few of its best ones reach `min_relevance`."""

EXTRA_PER_DUPLICATE = 4
"""Number of further nodes that are ranked for each duplicate among the best ones."""


def rank_nodes(draft: Draft) -> Draft:
    """Rank nodes or windows by the strategy."""
    with measure("rank", draft.timings):
        candidates, trace = rank_relevant(draft.query, draft.strategy, draft.snapshot)
    return replace(draft, candidates=candidates, trace=trace, spare=())


def drop_duplicates(draft: Draft) -> Draft:
    """Leave out complete nodes whose text is that of a better one; others take their places."""
    if draft.has_windows:  # they are compared while they are packed
        return draft
    query, duplicates, candidates = draft.query, draft.duplicates, draft.candidates
    summaries = query.expand == "none"
    duplicates.find_copies(candidates, draft.trace, query.allowed)
    kept = duplicates.collapse(candidates, summaries=summaries)
    count = len(candidates)
    while len(kept) < count and query.k <= len(candidates) < _FLOOR_CANDIDATES:
        depth = query.k + EXTRA_PER_DUPLICATE * (len(candidates) - len(kept))
        asked = replace(query, k=min(_FLOOR_CANDIDATES, depth))
        deeper, _ = rank_relevant(asked, draft.strategy, draft.snapshot)
        ranked = with_deeper(candidates, deeper)
        added = ranked[len(candidates) :]
        if not added:
            break
        kept = duplicates.collapse([*kept, *added], summaries=summaries)
        candidates = ranked
    if len(candidates) > count:
        duplicates.find_copies(kept[:count], draft.trace, query.allowed)
    return replace(draft, candidates=kept[:count])


def rerank_best(draft: Draft) -> Draft:
    """Let the reranker of the strategy reorder the best candidates."""
    strategy = draft.strategy
    if not isinstance(strategy, RerankingStrategy) or strategy.reranker is None:
        return draft
    from e2graphrag_integrations.retrieval.ranking.reranking import rerank

    with measure("rerank", draft.timings):
        candidates, spare, trace = rerank(
            draft.query,
            draft.candidates,
            draft.trace,
            draft.reader,
            strategy.reranker,
            top_n=strategy.rerank_top_n,
        )
    return replace(draft, candidates=candidates, spare=spare, trace=trace)


def order_for_whole_text(draft: Draft) -> Draft:
    """Reorder the candidates for a question about a text as a whole.

    The last part of the text comes first if the question asks how it ends, and many topics do if it
    asks for an overview. Otherwise nothing changes.
    """
    strategy, query, snapshot = draft.strategy, draft.query, draft.snapshot
    if not isinstance(strategy, DiverseStrategy):
        return draft
    if asks_for_ending(query, snapshot):
        with measure("ending", draft.timings):
            ordered = endings_first(draft.candidates, query, snapshot)
        trace = replace(draft.trace, ending=starts_with_ending(ordered))
        return replace(draft, candidates=ordered, trace=trace)
    if not draft.trace.overview or not query.packs_windows:
        return draft
    with measure("cover", draft.timings):
        covering = cover_topics(draft.candidates, draft.reader, snapshot.bm25, strategy.diversity)
    return replace(draft, candidates=covering)


def boost(draft: Draft) -> Draft:
    """Reorder the candidates by the user's preferences."""
    if (boosts := draft.query.active_boosts) is None:
        return draft
    from e2graphrag_integrations.retrieval.ranking.boosting import boost_candidates
    from e2graphrag_integrations.retrieval.results.duplicates import Duplicates

    query = draft.query
    duplicates = Duplicates(draft.reader)  # of a text in several documents, the best one now stays

    def distinct(found: Sequence[Candidate]) -> Sequence[Candidate]:
        return duplicates.first_distinct(found, query.k, summaries=query.expand == "none")

    with measure("boost", draft.timings):
        candidates, trace = boost_candidates(
            query,
            boosts,
            draft.candidates,
            draft.trace,
            draft.snapshot,
            rank_deeper=lambda deeper: rank_relevant(deeper, draft.strategy, draft.snapshot)[0],
            distinct=distinct,
        )
    if not draft.has_windows:
        duplicates.find_copies(candidates, draft.trace, query.allowed)
        draft = replace(draft, duplicates=duplicates)
    return replace(draft, candidates=candidates, trace=trace, spare=())  # those have no boosts


def rank_relevant(
    query: Query, strategy: Strategy, snapshot: Snapshot
) -> tuple[Sequence[Candidate], Trace]:
    """Return the strategy's candidates above `query.min_relevance`, best first, and its trace.

    If fewer than wanted remain of a ranking that may have been cut, the strategy ranks once more
    with `k=1000`, and the nodes that only this ranking contains follow the others.
    """
    ranked, trace = _rank(query, strategy, snapshot)
    if query.min_relevance is None:
        return ranked, trace
    kept, below = above_floor(ranked, query, snapshot)
    count = query.k
    if isinstance(strategy, RerankingStrategy) and strategy.reranker is not None:
        count = max(count, strategy.rerank_top_n)
    may_be_cut = len(ranked) >= query.k and not any(one.is_window for one in ranked)
    if may_be_cut and len(kept) < count and query.k < _FLOOR_CANDIDATES:
        deeper, _ = _rank(replace(query, k=_FLOOR_CANDIDATES), strategy, snapshot)
        kept, below = above_floor(with_deeper(ranked, deeper), query, snapshot)
        kept = kept[:count]
    return kept, trace.with_cut("min_relevance", below)


def _rank(
    query: Query, strategy: Strategy, snapshot: Snapshot
) -> tuple[Sequence[Candidate], Trace]:
    """Return the strategy's candidates, best first, and its trace.

    Raises:
        InvalidInputError: If the strategy returns something else.
    """
    ranked: Any = strategy.rank(query, snapshot)
    is_pair = isinstance(ranked, tuple) and len(ranked) == 2  # noqa: PLR2004 - a pair has two items
    if not (is_pair and isinstance(ranked[0], Sequence) and isinstance(ranked[1], Trace)):
        raise InvalidInputError(
            f"{type(strategy).__name__}.rank() must return a list of candidates and a Trace, not "
            f"{short_repr(ranked)}"
        )
    candidates, trace = ranked
    if isinstance(candidates, LazySequence):  # one of this package, with all windows
        return candidates, trace
    size, allowed = len(snapshot.nodes.ids), query.allowed
    for one in candidates:
        if not (isinstance(one, Candidate) and _is_row(one.row, size) and _is_score(one.score)):
            raise InvalidInputError(
                f"{type(strategy).__name__}.rank() returned {short_repr(one)}: a Candidate needs "
                f"the row of a node, from 0 to {size - 1}, and a finite score"
            )
    kept = candidates if allowed is None else [one for one in candidates if allowed[one.row]]
    return kept, trace


def _is_row(row: object, size: int) -> bool:
    return isinstance(row, int | np.integer) and 0 <= int(row) < size


def _is_score(score: object) -> bool:
    return isinstance(score, int | float | np.integer | np.floating) and math.isfinite(score)


def prefer_newest(draft: Draft) -> Draft:
    """Let the newest version of a document come before older ones; see `validity`."""
    if not draft.query.options:
        return draft
    from e2graphrag_integrations.retrieval.validity import stages

    return stages.prefer_newest(
        draft, rank=lambda query: rank_relevant(query, draft.strategy, draft.snapshot)[0]
    )
