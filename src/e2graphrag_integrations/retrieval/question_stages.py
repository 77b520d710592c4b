"""The stages that complete a question before the index is searched."""

from __future__ import annotations

from dataclasses import replace

from e2graphrag_integrations.embedders.windowed import mean_unit_vector
from e2graphrag_integrations.entities.matching.known_names import (
    as_written,
    known_names,
    with_capitals,
    with_known_names,
)
from e2graphrag_integrations.retrieval.draft import Draft
from e2graphrag_integrations.retrieval.question_words import without_function_words
from e2graphrag_integrations.retrieval.results.selection import check_floor
from e2graphrag_integrations.retrieval.strategy import Query, VectorOptionalStrategy
from e2graphrag_integrations.retrieval.trace import measure

_BUDGET_CANDIDATES = 50
"""Minimum number of candidates under a token budget, so that the budget, not `k`, limits
the result."""


def apply_filter(draft: Draft) -> Draft:
    """Find the nodes that pass the filter, and the number of nodes to rank."""
    query = draft.query
    with measure("filter", draft.timings):
        allowed = None if query.where is None else query.where(draft.snapshot)
    query = replace(
        query,
        # Language models may produce lone surrogates, which tokenizers reject.
        question=query.question.encode("utf-8", "replace").decode(),
        k=query.k if query.token_budget is None else max(query.k, _BUDGET_CANDIDATES),
        allowed=allowed,
    )
    return replace(draft, query=query)


def translate_aliases(draft: Draft) -> Draft:
    """Replace the user's aliases in other scripts by the names that they mean."""
    if not draft.snapshot.edits:
        return draft
    from e2graphrag_integrations.entities.matching.alias_mentions import translated

    question = draft.query.question
    translation = translated(question, draft.snapshot.edits)
    if translation == question:
        return draft
    return replace(draft, query=replace(draft.query, translation=translation))


def find_names(draft: Draft) -> Draft:
    """Find the names and nouns of the question."""
    query, snapshot, components = draft.query, draft.snapshot, draft.components
    with measure("entities", draft.timings):
        if query.mode == "global" or not snapshot.has_names:
            return draft
        with measure("load", draft.timings):
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
        if snapshot.edits:
            from e2graphrag_integrations.entities.matching.alias_mentions import with_alias_mentions

            mentions = with_alias_mentions(query.question, mentions, snapshot.edits)
        mentions = with_known_names(query.question, mentions, known)
        languages = tuple(code for code, _ in extractors)
        return replace(draft, query=replace(query, mentions=mentions, languages=languages))


def check_relevance_floor(draft: Draft) -> Draft:
    """Check that `min_relevance` has a meaning in this index."""
    own = getattr(draft.strategy, "relevance_calibration", None)
    check_floor(draft.query, own, draft.snapshot)
    return draft


def carry_history(draft: Draft) -> Draft:
    """Complete the question from the earlier turns of the conversation."""
    if not draft.query.history:
        return draft
    from e2graphrag_integrations.retrieval.history.follow_ups import carry_over

    with measure("history", draft.timings):
        query = carry_over(draft.query, draft.snapshot, draft.components)
    return replace(draft, query=query)


def embed_question(draft: Draft) -> Draft:
    """Embed the question, if the strategy or an option needs its vector."""
    query, snapshot, strategy = draft.query, draft.snapshot, draft.strategy
    with measure("rank", draft.timings):
        is_needed = (
            (query.min_relevance is not None and bool(len(snapshot.dense.window_nodes)))
            or (query.fill and query.active_boosts is not None)
            or not isinstance(strategy, VectorOptionalStrategy)
            or strategy.needs_vector(query, snapshot)
        )
    if not is_needed:
        return draft
    return replace(draft, query=with_vector(query, draft))


def with_vector(query: Query, draft: Draft) -> Query:
    """Return the query with its vector: the normalized mean of the embeddings of its texts.

    The texts are `embed_texts`, or the question if there are none.
    """
    if query.vector is not None:
        return query
    components = draft.components
    with measure("load", draft.timings):
        embedder = components.embedder_for(draft.snapshot.made_with)
    with measure("embed", draft.timings):
        texts = query.embed_texts or (query.search_text,)
        vector_of = components.vector_of if query.history else embedder.embed_query
        return replace(query, vector=mean_unit_vector([vector_of(text) for text in texts]))


def apply_dates(draft: Draft) -> Draft:
    """Admit only nodes that hold at the date of the question; see `validity`."""
    if not draft.query.options and not draft.snapshot.records.has_versions:
        return draft
    from e2graphrag_integrations.retrieval.validity import stages

    return stages.apply_dates(draft)
