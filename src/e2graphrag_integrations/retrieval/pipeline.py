"""The retrieval pipeline: from a query to a result, over one snapshot.

`retrieve` calls the stages in order: analyze, carry over (with a history), embed, rank, rerank,
boost, and select, which hydrates the nodes and packs them into the token budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.embedders.calibration import Calibration
from e2graphrag_integrations.embedders.windowed import mean_unit_vector
from e2graphrag_integrations.entities.alias_mentions import translated, with_alias_mentions
from e2graphrag_integrations.entities.known_names import (
    as_written,
    known_names,
    with_capitals,
    with_known_names,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.boosting import boost_candidates
from e2graphrag_integrations.retrieval.boosts import Boosts
from e2graphrag_integrations.retrieval.breadth import cover_topics
from e2graphrag_integrations.retrieval.bridges import with_sentences
from e2graphrag_integrations.retrieval.candidates import with_deeper
from e2graphrag_integrations.retrieval.duplicates import Duplicates
from e2graphrag_integrations.retrieval.endings import (
    asks_for_ending,
    endings_first,
    starts_with_ending,
)
from e2graphrag_integrations.retrieval.entity_paths import EntityPath
from e2graphrag_integrations.retrieval.expansion import expand, fill_to_k
from e2graphrag_integrations.retrieval.follow_ups import carry_over, has_names
from e2graphrag_integrations.retrieval.foreign_words import without_function_words
from e2graphrag_integrations.retrieval.hydrate import (
    NodeReader,
    NodeSource,
    hydrate,
    hydrate_in_batches,
)
from e2graphrag_integrations.retrieval.node_relevance import add_relevance
from e2graphrag_integrations.retrieval.packing import pack_nodes, pack_windows
from e2graphrag_integrations.retrieval.path_evidence import find_paths
from e2graphrag_integrations.retrieval.relevance_floor import (
    above_floor,
    check_floor,
)
from e2graphrag_integrations.retrieval.reranking import rerank
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.strategy import (
    Candidate,
    DiverseStrategy,
    Query,
    RerankingStrategy,
    Strategy,
    VectorOptionalStrategy,
    check_strategy,
)
from e2graphrag_integrations.retrieval.table_headers import TableHeaders
from e2graphrag_integrations.retrieval.trace import Trace, measure
from e2graphrag_integrations.retrieval.tree_budget import mix_summaries
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_BUDGET_CANDIDATES = 50
"""Minimum number of candidates under a token budget, so that the budget, not `k`, limits
the result."""

_FLOOR_CANDIDATES = 1_000
"""Number of nodes that a strategy ranks if too few of its best ones reach `min_relevance`."""

_EXTRA_PER_DUPLICATE = 4
"""Number of further nodes that are ranked for each duplicate among the best ones."""

_CHARS_PER_TOKEN = 8
"""Number of characters per budgeted token to read in the first batch of windows. Few texts have
longer tokens on average, so one batch is usually enough."""


def retrieve(
    asked: Query, strategy: Strategy, snapshot: Snapshot, source: NodeSource, components: Components
) -> RetrievalResult:
    """Answer a query from one snapshot.

    Args:
        asked: The question and its options, as set by the caller.
        strategy: Ranks the nodes.
        snapshot: The index in memory.
        source: The stored texts.
        components: The models that the index uses.

    Raises:
        InvalidInputError: If the strategy cannot rank.
        StaleSnapshotError: If the stored nodes are newer than the snapshot, or one is missing.
        SettingsMismatchError: If a model differs from the one that built the index.
    """
    check_strategy(strategy)
    components.revalidate(snapshot.made_with)
    timings: dict[str, float] = {}
    reader = NodeReader(snapshot, source, timings)
    own: Calibration | None = getattr(strategy, "relevance_calibration", None)
    calibration = components.calibration if own is None else own
    asked_with = replace(asked, calibration=calibration, texts=reader.texts_of)
    query = analyze(asked_with, snapshot, components, timings)
    check_floor(query, own, snapshot)
    if query.history:
        with measure("history", timings):
            query = carry_over(query, snapshot, components)
    with measure("rank", timings):
        needs_vector = (
            (query.min_relevance is not None and bool(len(snapshot.dense.window_nodes)))
            or not isinstance(strategy, VectorOptionalStrategy)
            or strategy.needs_vector(query, snapshot)
        )
    if needs_vector:
        query = embed(query, components, timings)
    if query.fill and _boosts_of(query) is not None:
        query = embed(query, components, timings)
    duplicates = Duplicates(reader)
    candidates, spare, ranked = find_candidates(query, strategy, duplicates)
    found = [*candidates, *spare] if spare else candidates
    if ranked.mixture is not None and query.packs_windows:
        with measure("mix", timings):
            candidates = mix_summaries(candidates, query, reader)
    with measure("pack", timings):
        nodes, trace = select(query, candidates, ranked, duplicates, components)
    while duplicates.add_repeats(nodes):
        # An expansion reaches other nodes through the summaries that it leaves out.
        if query.expand == "none" and not any(one.is_window for one in found[:1]):
            found, candidates = refilled(query, strategy, found, duplicates)
        with measure("pack", timings):
            nodes, trace = select(query, candidates, ranked, duplicates, components)
    nodes = with_sentences(nodes, trace.bridges, reader.texts)
    paths = paths_of(query, nodes, trace, reader)
    trace = _explain_nothing(query, nodes, trace)
    if trace.mixture is not None:
        summaries = sum(node.level > 0 for node in nodes)
        mixture = replace(trace.mixture, summaries=summaries, chunks=len(nodes) - summaries)
        trace = replace(trace, mixture=mixture)
    trace = replace(
        trace,
        question=asked.question,
        timings=timings,
        question_languages=query.languages,
        languages=dict(Counter(node.language for node in nodes).most_common()),
    )
    if query.history:
        trace = replace(trace, carried=query.carried)
    return RetrievalResult(asked.question, tuple(nodes), trace, paths)


def find_candidates(
    query: Query, strategy: Strategy, duplicates: Duplicates
) -> tuple[Sequence[Candidate], Sequence[Candidate], Trace]:
    """Return the candidates of the strategy, without duplicates, reranked and boosted.

    Args:
        query: The question, with all that the strategy and the boosts need.
        strategy: Ranks the nodes.
        duplicates: Those that were found so far.

    Returns:
        The candidates, those that the reranker has read in vain, and the trace.
    """
    reader = duplicates.reader
    snapshot, timings = reader.snapshot, reader.timings
    with measure("rank", timings):
        candidates, trace = rank_relevant(query, strategy, snapshot)
    if not any(one.is_window for one in candidates[:1]):
        candidates = distinct(query, strategy, candidates, duplicates)
    spare: Sequence[Candidate] = ()
    if isinstance(strategy, RerankingStrategy) and strategy.reranker is not None:
        with measure("rerank", timings):
            candidates, spare, trace = rerank(
                query, candidates, trace, reader, strategy.reranker, top_n=strategy.rerank_top_n
            )
    if isinstance(strategy, DiverseStrategy):
        candidates, trace = of_whole_text(query, strategy, candidates, trace, reader)
    if (boosts := _boosts_of(query)) is not None:
        spare = ()  # they have no boosts
        with measure("boost", timings):
            candidates, trace = boost_candidates(
                query,
                boosts,
                candidates,
                trace,
                snapshot,
                rank_deeper=lambda deeper: rank_relevant(deeper, strategy, snapshot)[0],
            )
    return candidates, spare, trace


def refilled(
    query: Query, strategy: Strategy, found: Sequence[Candidate], duplicates: Duplicates
) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
    """Return all complete nodes found so far, and the best `k` of them that are no repeats.

    Nodes of a deeper ranking take the places of the repeats, unless a token budget is the limit.
    """
    kept = [one for one in found if one.row not in duplicates.repeats]
    if len(kept) < query.k <= len(found) and query.token_budget is None:
        depth = query.k + _EXTRA_PER_DUPLICATE * len(duplicates.repeats)
        deeper, spare, _ = find_candidates(replace(query, k=depth), strategy, duplicates)
        found = with_deeper(found, [*deeper, *spare])
        kept = [one for one in found if one.row not in duplicates.repeats]
    return found, kept[: query.k]


def _boosts_of(query: Query) -> Boosts | None:
    """Return the boosts of a query that change something."""
    return None if query.boosts is None or query.boosts.is_neutral else query.boosts


def _explain_nothing(query: Query, nodes: Sequence[RetrievedNode], trace: Trace) -> Trace:
    """Return the trace with the reason if a filter or the floor leaves no node."""
    reason = ""
    if query.allowed is not None and not query.allowed.any():
        reason = "no node passes the filter; "
    elif not nodes and trace.cuts.get("min_relevance"):
        reason = f"no node has a relevance of at least {query.min_relevance:g}; "
    return replace(trace, reason=reason + trace.reason) if reason else trace


def analyze(
    query: Query, snapshot: Snapshot, components: Components, timings: dict[str, float]
) -> Query:
    """Return the query with its filter applied, its aliases translated and its mentions found."""
    with measure("filter", timings):
        allowed = None if query.where is None else query.where(snapshot)
    query = replace(
        query,
        # Language models may produce lone surrogates, which tokenizers reject.
        question=query.question.encode("utf-8", "replace").decode(),
        k=query.k if query.token_budget is None else max(query.k, _BUDGET_CANDIDATES),
        allowed=allowed,
    )
    translation = translated(query.question, snapshot.edits)
    query = replace(query, translation="" if translation == query.question else translation)
    with measure("entities", timings):
        if query.mode == "global" or not has_names(snapshot):
            return query
        with measure("load", timings):
            among = snapshot.question_languages
            extractors = components.load_extractors(query.question, among)
        known = known_names(query.question, snapshot.aliases, lambda: snapshot.name_evidence)
        read = with_capitals(query.question, known)
        if query.history:  # the question will be an earlier turn of the next one
            mentions = components.mentions_of(read, among)
        else:
            mentions = components.find_mentions(read, "the question", extractors)
        mentions = as_written(query.question, mentions)
        mentions = without_function_words(mentions, lambda: snapshot.bm25)
        mentions = with_alias_mentions(query.question, mentions, snapshot.edits)
        mentions = with_known_names(query.question, mentions, known)
        return replace(query, mentions=mentions, languages=tuple(code for code, _ in extractors))


def embed(query: Query, components: Components, timings: dict[str, float]) -> Query:
    """Return the query with its vector: the normalized mean of the embeddings of its texts.

    The texts are `embed_texts`, or the question if there are none.
    """
    if query.vector is not None:
        return query
    with measure("load", timings):
        embedder = components.embedder
    with measure("embed", timings):
        texts = query.embed_texts or (query.search_text,)
        vector_of = components.vector_of if query.history else embedder.embed_query
        return replace(query, vector=mean_unit_vector([vector_of(text) for text in texts]))


def rank(query: Query, strategy: Strategy, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
    """Return the strategy's candidates, best first, and its trace.

    Raises:
        InvalidInputError: If the strategy returns a different type.
    """
    ranked: Any = strategy.rank(query, snapshot)
    is_pair = isinstance(ranked, tuple) and len(ranked) == 2  # noqa: PLR2004 - a pair has two items
    if not (is_pair and isinstance(ranked[0], Sequence) and isinstance(ranked[1], Trace)):
        raise InvalidInputError(
            f"{type(strategy).__name__}.rank() must return a list of candidates and a Trace, not "
            f"{short_repr(ranked)}"
        )
    return ranked[0], ranked[1]


def rank_relevant(
    query: Query, strategy: Strategy, snapshot: Snapshot
) -> tuple[Sequence[Candidate], Trace]:
    """Return the strategy's candidates above `query.min_relevance`, best first, and its trace.

    If fewer than wanted remain of a ranking that may have been cut, the strategy ranks once more
    with `k=1000`, and the nodes that only this ranking contains follow the others.
    """
    ranked, trace = rank(query, strategy, snapshot)
    if query.min_relevance is None:
        return ranked, trace
    kept, below = above_floor(ranked, query, snapshot)
    count = query.k
    if isinstance(strategy, RerankingStrategy) and strategy.reranker is not None:
        count = max(count, strategy.rerank_top_n)
    may_be_cut = len(ranked) >= query.k and not any(one.is_window for one in ranked)
    if may_be_cut and len(kept) < count and query.k < _FLOOR_CANDIDATES:
        deeper, _ = rank(replace(query, k=_FLOOR_CANDIDATES), strategy, snapshot)
        kept, below = above_floor(with_deeper(ranked, deeper), query, snapshot)
        kept = kept[:count]
    return kept, trace.with_cut("min_relevance", below)


def distinct(
    query: Query, strategy: Strategy, candidates: Sequence[Candidate], duplicates: Duplicates
) -> list[Candidate]:
    """Return complete nodes without duplicates; nodes of a deeper ranking take their places."""
    summaries = query.expand == "none"
    kept = duplicates.collapse(candidates, summaries=summaries)
    count, snapshot = len(candidates), duplicates.reader.snapshot
    if len(kept) == count or count < query.k:
        return kept
    depth = min(_FLOOR_CANDIDATES, query.k + _EXTRA_PER_DUPLICATE * (count - len(kept)))
    deeper, _ = rank_relevant(replace(query, k=depth), strategy, snapshot)
    added = with_deeper(candidates, deeper)[count:]
    return duplicates.collapse([*kept, *added], summaries=summaries)[:count]


def filled(
    candidates: Sequence[Candidate], query: Query, duplicates: Duplicates
) -> Sequence[Candidate]:
    """Return the candidates filled up to `k` by the nearest nodes, without duplicates."""
    count = query.k
    while True:
        found = fill_to_k(candidates, replace(query, k=count), duplicates.reader.snapshot)
        kept = duplicates.collapse([one for one in found if one.row not in duplicates.repeats])
        kept = kept[: query.k]
        if len(kept) == query.k or len(found) < count:
            return kept
        count *= 2


def of_whole_text(
    query: Query,
    strategy: DiverseStrategy,
    candidates: Sequence[Candidate],
    trace: Trace,
    reader: NodeReader,
) -> tuple[Sequence[Candidate], Trace]:
    """Return the candidates in the order for a question about a text as a whole, and the trace.

    The last part of the text comes first if the question asks how it ends, and many topics do if it
    asks for an overview. Otherwise nothing changes.
    """
    snapshot = reader.snapshot
    if asks_for_ending(query, snapshot):
        with measure("ending", reader.timings):
            candidates = endings_first(candidates, query, snapshot)
        return candidates, replace(trace, ending=starts_with_ending(candidates))
    if trace.overview and query.packs_windows:
        with measure("cover", reader.timings):
            candidates = cover_topics(candidates, reader, snapshot.bm25, strategy.diversity)
    return candidates, trace


def paths_of(
    query: Query, nodes: Sequence[RetrievedNode], trace: Trace, reader: NodeReader
) -> tuple[EntityPath, ...] | None:
    """Return the paths between the entities of the question, or None if they are not asked for."""
    if not query.paths:
        return None
    with measure("paths", reader.timings):
        hits = [node.node_id for node in nodes]
        return find_paths(trace.links, query.allowed, hits, reader)


def select(
    query: Query,
    candidates: Sequence[Candidate],
    trace: Trace,
    duplicates: Duplicates,
    components: Components,
) -> tuple[list[RetrievedNode], Trace]:
    """Return the best `k` nodes, cut to the token budget, or the best windows that fit it."""
    reader = duplicates.reader
    has_windows = any(one.is_window for one in candidates)
    if not has_windows:
        candidates = expand(candidates, reader.snapshot, query.expand)
    if duplicates.repeats:
        candidates = [one for one in candidates if one.row not in duplicates.repeats]
    # Summaries in a mixture, and nodes below a summary, have not been compared with the floor.
    candidates, below = above_floor(candidates, query, reader.snapshot)
    trace = trace.with_cut("min_relevance", below) if below else trace
    if query.expand != "none":
        candidates = _first_distinct(candidates, query.k, duplicates)
    if not has_windows:
        expanded, candidates = candidates, candidates[: query.k]
        trace = trace.with_cut("k", len(expanded) - len(candidates))
    if query.fill and len(candidates) < query.k and len(reader.snapshot.dense.window_nodes):
        query = embed(query, components, reader.timings)
        candidates = filled(candidates, query, duplicates)
    if query.token_budget is not None and query.max_nodes is not None:
        candidates, beyond = _of_best_nodes(candidates, query.max_nodes)
        trace = trace.with_cut("k", beyond)
    budget, counter = query.token_budget or 0, components.counter
    headers = TableHeaders(reader)
    if has_windows:
        windows = hydrate_in_batches(candidates, trace.links, reader, budget * _CHARS_PER_TOKEN)
        windows = duplicates.without_repeats(windows)
        nodes, n_packed = pack_windows(windows, budget, counter, reader.texts, headers.of)
        n_packed += duplicates.dropped
        trace = trace.with_cut("token_budget", len(candidates) - n_packed)
        trace = duplicates.counted_in(trace)
        return add_relevance(duplicates.named(nodes), query, trace, reader)
    nodes = duplicates.named(hydrate(candidates, trace.links, reader))
    trace = duplicates.counted_in(trace)
    if query.token_budget is None:
        nodes = [headers.added_to(node) for node in nodes]
    else:
        packed = pack_nodes(nodes, budget, counter)
        nodes, trace = packed, trace.with_cut("token_budget", len(nodes) - len(packed))
    return add_relevance(nodes, query, trace, reader)


def _first_distinct(
    candidates: Sequence[Candidate], count: int, duplicates: Duplicates
) -> list[Candidate]:
    """Return candidates of which the first `count` are no duplicates, reading few more texts."""
    size = count
    while True:
        kept = duplicates.collapse(candidates[:size])
        if len(kept) >= count or size >= len(candidates):
            return [*kept, *candidates[size:]]
        size *= 2


def _of_best_nodes(candidates: Sequence[Candidate], count: int) -> tuple[Sequence[Candidate], int]:
    """Return the candidates of the best `count` nodes, and the number of the other nodes."""
    best = set(list(dict.fromkeys(one.row for one in candidates))[:count])
    kept = [one for one in candidates if one.row in best]
    return kept, len({one.row for one in candidates} - best)
