"""The retrieval pipeline: three lists of stages, which a question goes through.

A new step of retrieval is a function from a `Draft` to a `Draft` in one of the lists.
CONTRIBUTING.md shows an example.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from e2graphrag_integrations._utils.tracing import Tracer, current_tracer, with_prefix
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.embedders.calibration import Calibration, checked
from e2graphrag_integrations.retrieval.candidate_stages import (
    EXTRA_PER_DUPLICATE,
    boost,
    drop_duplicates,
    order_for_whole_text,
    prefer_newest,
    rank_nodes,
    rerank_best,
)
from e2graphrag_integrations.retrieval.draft import Draft, Stage
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.retrieval.question_stages import (
    apply_dates,
    apply_filter,
    carry_history,
    check_relevance_floor,
    embed_question,
    find_names,
    translate_aliases,
)
from e2graphrag_integrations.retrieval.ranking.candidates import with_deeper
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.result_stages import (
    add_table_headers,
    explain,
    find_paths,
    mark_versions,
    mix_summaries,
    pack,
    quote_bridges,
)
from e2graphrag_integrations.retrieval.results.duplicates import Duplicates
from e2graphrag_integrations.retrieval.strategy import Candidate, Query, Strategy, check_strategy
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot

QUESTION: tuple[Stage, ...] = (
    apply_filter,
    apply_dates,
    translate_aliases,
    find_names,
    check_relevance_floor,
    carry_history,
    embed_question,
)
"""The stages that complete the question."""

SEARCH: tuple[Stage, ...] = (
    rank_nodes,
    prefer_newest,
    drop_duplicates,
    rerank_best,
    order_for_whole_text,
    boost,
    prefer_newest,
)
"""The stages that find and order the candidates. They run again if a result would repeat itself."""

RESULT: tuple[Stage, ...] = (add_table_headers, quote_bridges, find_paths, explain, mark_versions)
"""The stages that complete the nodes of the result."""


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
    reader = NodeReader(snapshot, source)
    own: Calibration | None = getattr(strategy, "relevance_calibration", None)
    calibration = components.calibration if own is None else checked(own)
    query = replace(asked, calibration=calibration, texts=reader.texts_of)
    nothing = Trace(asked.question, "", asked.mode)
    draft = Draft(query, strategy, components, reader, Duplicates(reader), nothing)
    tracer = current_tracer()
    with tracer.span("retrieve", **_described(query, strategy)) as span:
        draft = _run(QUESTION, draft, tracer)
        draft = _without_repeats(_run(SEARCH, draft, tracer), tracer)
        result = _run(RESULT, draft, tracer).result(asked.question)
        span.set(with_prefix({"route": result.route, "nodes": len(result.nodes)}))
    return result


def _described(query: Query, strategy: Strategy) -> dict[str, str | int | None]:
    """Return the attributes of the span of a question, which have no text of it."""
    return {
        "strategy": str(getattr(strategy, "name", type(strategy).__name__)),
        "mode": query.mode,
        "k": query.k,
        "token_budget": query.token_budget,
    }


def _run(stages: Sequence[Stage], draft: Draft, tracer: Tracer) -> Draft:
    if not tracer.recorders:
        for stage in stages:
            draft = stage(draft)
        return draft
    for stage in stages:
        with tracer.span(f"retrieve.{stage.__name__}"):
            draft = stage(draft)
    return draft


def _without_repeats(searched: Draft, tracer: Tracer) -> Draft:
    """Return the packed nodes of a search; those that repeat others are replaced, if possible."""
    duplicates = searched.duplicates
    found: Sequence[Candidate] | None = None  # windows are many, and made one by one
    mixed = _run((mix_summaries,), searched, tracer)
    draft = _run((pack,), mixed, tracer)
    while duplicates.add_repeats(draft.nodes):
        # An expansion reaches other nodes through the summaries that it leaves out.
        if searched.query.expand == "none" and not searched.has_windows:
            found = found or [*searched.candidates, *searched.spare]
            found = _refilled(searched, found, tracer)
            kept = [one for one in found if one.row not in duplicates.repeats]
            mixed = replace(mixed, candidates=kept[: searched.query.k])
        draft = _run((pack,), mixed, tracer)
    return draft


def _refilled(searched: Draft, found: Sequence[Candidate], tracer: Tracer) -> Sequence[Candidate]:
    """Return all complete nodes found so far.

    Nodes of a deeper ranking take the places of the repeats, unless a token budget is the limit.
    """
    query, repeats = searched.query, searched.duplicates.repeats
    kept = [one for one in found if one.row not in repeats]
    if len(kept) < query.k <= len(found) and query.token_budget is None:
        depth = query.k + EXTRA_PER_DUPLICATE * len(repeats)
        deeper = _run(SEARCH, replace(searched, query=replace(query, k=depth)), tracer)
        return with_deeper(found, [*deeper.candidates, *deeper.spare])
    return found
