"""The stages that turn candidates into the nodes of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from e2graphrag_integrations.languages.detection import foreign_language
from e2graphrag_integrations.retrieval.draft import Draft
from e2graphrag_integrations.retrieval.hydrate import add_relevance, hydrate, hydrate_in_batches
from e2graphrag_integrations.retrieval.names.bridges import with_sentences
from e2graphrag_integrations.retrieval.question_stages import with_vector
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.results.duplicates import Duplicates
from e2graphrag_integrations.retrieval.results.selection import above_floor, expand, fill_to_k
from e2graphrag_integrations.retrieval.results.token_budget import (
    TableHeaders,
    pack_nodes,
    pack_windows,
)
from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import measure

_CHARS_PER_TOKEN = 8
"""Number of characters per budgeted token to read in the first batch of windows. Few texts have
longer tokens on average, so one batch is usually enough."""


def mix_summaries(draft: Draft) -> Draft:
    """Mix summaries into the windows that will fill a token budget, if the strategy says so."""
    if draft.trace.mixture is None or not draft.query.packs_windows:
        return draft
    from e2graphrag_integrations.retrieval.results.tree_budget import mix_summaries as mixed

    with measure("mix", draft.timings):
        return replace(draft, candidates=mixed(draft.candidates, draft.query, draft.reader))


def pack(draft: Draft) -> Draft:
    """Take the best `k` nodes, cut to the token budget, or the best windows that fit it."""
    with measure("pack", draft.timings):
        selected = _selected(draft)
        return _packed_windows(selected) if draft.has_windows else _packed_nodes(selected)


def add_table_headers(draft: Draft) -> Draft:
    """Put the header of the table in which a chunk begins before its text.

    A token budget counts headers, so packing adds them.
    """
    if draft.query.token_budget is not None:
        return draft
    with measure("pack", draft.timings):
        return replace(draft, nodes=TableHeaders(draft.reader).added_to(draft.nodes))


def quote_bridges(draft: Draft) -> Draft:
    """Add the sentences to the reasons of nodes that a name in another node led to."""
    nodes = with_sentences(draft.nodes, draft.trace.bridges, draft.reader.texts)
    return replace(draft, nodes=nodes)


def find_paths(draft: Draft) -> Draft:
    """Find the paths between the entities of the question, if they are asked for."""
    if not draft.query.paths:
        return draft
    from e2graphrag_integrations.retrieval.entities.path_evidence import find_paths as paths_between

    with measure("paths", draft.timings):
        hits = [node.node_id for node in draft.nodes]
        paths = paths_between(draft.trace.links, draft.query.allowed, hits, draft.reader)
    return replace(draft, paths=paths)


def explain(draft: Draft) -> Draft:
    """Complete the trace: why nothing was found, and what was mixed and carried over."""
    query, nodes, trace = draft.query, draft.nodes, draft.trace
    if query.allowed is not None and not query.allowed.any():
        trace = replace(trace, reason=Reason("nothing_passes", rest=trace.reason))
    elif not nodes and trace.cuts.get("min_relevance"):
        reason = Reason("nothing_relevant", least=query.min_relevance, rest=trace.reason)
        trace = replace(trace, reason=reason)
    foreign = foreign_language(query.question, draft.snapshot.known_languages)
    trace = replace(trace, foreign_language=foreign)
    if trace.mixture is not None:
        summaries = sum(node.level > 0 for node in nodes)
        mixture = replace(trace.mixture, summaries=summaries, chunks=len(nodes) - summaries)
        trace = replace(trace, mixture=mixture)
    if query.history:
        trace = replace(trace, carried=query.carried)
    return replace(draft, nodes=_with_field_reasons(draft), trace=trace)


def _with_field_reasons(draft: Draft) -> Sequence[RetrievedNode]:
    """Return the nodes with the reasons of the field in which they were found, if there is one."""
    field, nodes = draft.query.chunk_field, draft.nodes
    if field is None or not isinstance(draft.strategy, HybridStrategy):
        return nodes
    rows = [draft.snapshot.nodes.row_of[node.node_id] for node in nodes]
    found = field.reasons(draft.query, rows)
    return [
        replace(node, reasons=(*node.reasons, *found[row])) if row in found else node
        for node, row in zip(nodes, rows, strict=True)
    ]


def _selected(draft: Draft) -> Draft:
    """Return the draft with the candidates of the result."""
    query, duplicates, snapshot = draft.query, draft.duplicates, draft.snapshot
    candidates, trace = draft.candidates, draft.trace
    if not draft.has_windows:
        candidates = expand(candidates, query, snapshot)
    if duplicates.repeats:
        candidates = [one for one in candidates if one.row not in duplicates.repeats]
    # Summaries in a mixture, and nodes below a summary, have not been compared with the floor.
    candidates, below = above_floor(candidates, query, snapshot)
    trace = trace.with_cut("min_relevance", below) if below else trace
    if query.expand != "none":
        candidates = duplicates.first_distinct(candidates, query.k)
    if not draft.has_windows:
        expanded, candidates = candidates, candidates[: query.k]
        trace = trace.with_cut("k", len(expanded) - len(candidates))
    if query.fill and len(candidates) < query.k and len(snapshot.dense.window_nodes):
        query = with_vector(query, draft)
        candidates = _filled(candidates, query, duplicates)
    if query.token_budget is not None and query.max_nodes is not None:
        candidates, beyond = _of_best_nodes(candidates, query.max_nodes, duplicates)
        trace = trace.with_cut("k", beyond)
    return replace(draft, query=query, candidates=candidates, trace=trace)


def _packed_windows(draft: Draft) -> Draft:
    reader, duplicates, trace = draft.reader, draft.duplicates, draft.trace
    budget = draft.query.token_budget or 0
    windows = duplicates.without_repeats(
        hydrate_in_batches(draft.candidates, trace.links, reader, budget * _CHARS_PER_TOKEN)
    )
    counter = draft.components.counter

    def start_of_part(text: str, tokens: int) -> int:
        from e2graphrag_integrations.retrieval.ranking.question_parts import (
            QuestionParts,
            best_start,
        )

        terms = QuestionTerms(draft.query, draft.snapshot.bm25, idf_power=0.0)
        return best_start(text, tokens, QuestionParts(terms, trace.links), counter)

    headers, dropped = TableHeaders(reader), duplicates.dropped
    nodes, n_packed = pack_windows(
        windows, budget, counter, reader.texts, headers.of, best_start=start_of_part
    )
    n_packed += duplicates.dropped - dropped
    trace = trace.with_cut("token_budget", len(draft.candidates) - n_packed)
    trace = duplicates.counted_in(trace)
    found, trace = add_relevance(duplicates.named(nodes), draft.query, trace, reader)
    return replace(draft, nodes=found, trace=trace)


def _packed_nodes(draft: Draft) -> Draft:
    reader, duplicates = draft.reader, draft.duplicates
    nodes = duplicates.named(hydrate(draft.candidates, draft.trace.links, reader))
    trace = duplicates.counted_in(draft.trace)
    if draft.query.token_budget is not None:
        packed = pack_nodes(nodes, draft.query.token_budget, draft.components.counter)
        nodes, trace = packed, trace.with_cut("token_budget", len(nodes) - len(packed))
    found, trace = add_relevance(nodes, draft.query, trace, reader)
    return replace(draft, nodes=found, trace=trace)


def _filled(
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


def _of_best_nodes(
    candidates: Sequence[Candidate], count: int, duplicates: Duplicates
) -> tuple[Sequence[Candidate], int]:
    """Return the candidates of the best `count` distinct nodes, and the number of other nodes."""
    firsts: dict[int, Candidate] = {}
    for one in candidates:
        firsts.setdefault(one.row, one)
    dropped = duplicates.dropped
    distinct = duplicates.first_distinct(list(firsts.values()), count)
    best = {one.row for one in distinct[:count]}
    kept = [one for one in candidates if one.row in best]
    return kept, len(firsts) - len(best) - (duplicates.dropped - dropped)


def mark_versions(draft: Draft) -> Draft:
    """Mark the nodes of older versions; see `validity`."""
    if not draft.query.options:
        return draft
    from e2graphrag_integrations.retrieval.validity import stages

    return stages.mark_versions(draft)
