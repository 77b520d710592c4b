"""`HybridStrategy(budget_summaries=)`: a mixture of summaries and windows in a token budget."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    IndexSettings,
    Models,
    Segment,
    SourceDocument,
    Span,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.results.tree_budget import is_flat, mix_summaries
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from fakes import NameExtractor
from strategies import WordCounter, examples

OVERVIEW = "Summarize the whole document."
MIXED = HybridStrategy(budget_summaries="overview")
TOPICS = "ship map gold storm harbor mill bread night winter bridge island letter".split()
PARTS = [f"Somebody described the {topic} and explained the {topic} at length." for topic in TOPICS]
TEXT = " ".join(PARTS)


def summarize(prompt):
    return f"A short account with {len(prompt)} letters."


def indexed(segments=()):
    """Index one document with twelve chunks, four summaries and two roots above them."""
    rag = E2GraphRAG.open(
        ":memory:",
        summarizer=summarize,
        models=Models(llm_id="short", extractor=NameExtractor(), token_counter=WordCounter()),
        settings=IndexSettings(chunk_size=10, chunk_overlap=0, group_size=3),
        embedder=HashingEmbedder(max_tokens=6),
    )
    rag.add(SourceDocument("a", TEXT, segments=segments))
    return rag


@pytest.fixture(scope="module")
def rag():
    with indexed() as rag:
        yield rag


def windows_of(snapshot, scores):
    """Return a candidate for each window of a chunk, best first."""
    owners = snapshot.dense.window_nodes
    chunks = np.flatnonzero(snapshot.nodes.level[owners] == 0)
    found = [
        Candidate(
            int(owners[window]),
            score,
            "global",
            ("relevance",),
            Span(*snapshot.window_spans[window].tolist()),
            is_window=True,
        )
        for window, score in zip(chunks, scores, strict=False)
    ]
    return sorted(found, key=lambda one: -one.score)


def mix(rag, scores, budget=1000, allowed=None):
    snapshot = rag._session.snapshot()
    query = Query(OVERVIEW, token_budget=budget, allowed=allowed)
    candidates = windows_of(snapshot, scores)
    mixed = mix_summaries(candidates, query, SimpleNamespace(snapshot=snapshot))
    assert [one.score for one in mixed] == sorted((one.score for one in mixed), reverse=True)
    return candidates, mixed, snapshot.nodes


def test_a_summary_beats_many_equal_windows_and_loses_to_one_good_window(rag):
    _, mixed, nodes = mix(rag, [1.0] * 100)
    assert nodes.level[mixed[0].row] > 0
    assert "summary over" in mixed[0].reasons[0]
    candidates, mixed, nodes = mix(rag, [100.0] + [0.01] * 99)
    assert mixed[0].row == candidates[0].row


@examples(30)
@given(
    scores=st.lists(st.floats(0, 10), min_size=1, max_size=60),
    hidden=st.sets(st.integers(0, 20)),
    budget=st.integers(1, 60),
)
def test_no_node_is_selected_in_full_together_with_one_above_it(rag, scores, hidden, budget):
    snapshot = rag._session.snapshot()
    nodes = snapshot.nodes
    allowed = np.asarray([row not in hidden for row in range(len(nodes.ids))])
    candidates, mixed, nodes = mix(rag, scores, budget, allowed)
    keys = [(one.row, one.best_span) for one in mixed]
    assert len(set(keys)) == len(keys)
    assert {(one.row, one.best_span) for one in candidates} <= set(keys)
    summaries = [one.row for one in mixed if nodes.level[one.row]]
    assert all(allowed[row] for row in summaries)
    last = max((keys.index((row, None)) for row in summaries), default=-1)
    complete = Counter(snapshot.dense.window_nodes.tolist())
    before = Counter(one.row for one in mixed[: last + 1] if not nodes.level[one.row])
    full = [row for row, count in before.items() if count == complete[row]] + summaries
    for one in full:
        for other in summaries:
            apart = (
                nodes.first_leaf[one] >= nodes.end_leaf[other]
                or nodes.first_leaf[other] >= nodes.end_leaf[one]
            )
            assert one == other or apart


def test_an_overview_is_answered_with_summaries_and_windows(rag):
    result = rag.retrieve(OVERVIEW, token_budget=60, strategy=MIXED)
    assert result.mixture.reason == "overview"
    assert result.mixture.summaries == sum(node.level > 0 for node in result.nodes) > 0
    assert result.mixture.chunks == sum(node.level == 0 for node in result.nodes) > 0
    assert "mixture (overview): " in result.trace.explain()
    assert len(result.context().split()) <= 60
    for node in result.nodes[:-1]:
        assert node.level == 0 or node.text.startswith("A short account")


def test_windows_alone_fill_the_budget_by_default_and_for_other_questions(rag):
    plain = rag.retrieve(OVERVIEW, token_budget=60)
    assert plain.mixture is None
    assert {node.level for node in plain.nodes} == {0}
    for options in ({"token_budget": 60, "expand": "children"}, {"k": 3}, {"mode": "local"}):
        assert rag.retrieve(OVERVIEW, strategy=MIXED, **options).mixture is None
    specific = rag.retrieve("ship harbor", token_budget=60, strategy=MIXED)
    assert specific.nodes == rag.retrieve("ship harbor", token_budget=60).nodes
    assert specific.mixture is None


def test_questions_without_names_are_mixed_if_no_window_stands_out(rag):
    flat = HybridStrategy(budget_summaries="flat", neighbor_decay=0, dense_weight=0)
    result = rag.retrieve("somebody described", token_budget=60, strategy=flat)
    assert result.mixture.reason == "flat"
    assert rag.retrieve("the gold", token_budget=60, strategy=flat).mixture is None


def test_a_ranking_is_flat_if_its_scores_are_similar():
    assert is_flat(np.ones(50))
    assert is_flat(np.linspace(2, 1, 80))
    assert not is_flat(np.asarray([100.0] + [1.0] * 49))
    assert not is_flat(np.ones(1))
    assert not is_flat(np.empty(0))


def test_a_summary_above_excluded_chunks_is_not_used():
    starts = np.cumsum([0, *(len(part) + 1 for part in PARTS)]).tolist()
    segments = [
        Segment(start, min(end, len(TEXT)), {"author": "xy"[number % 2]})
        for number, (start, end) in enumerate(pairwise(starts))
    ]
    options = {"token_budget": 60, "strategy": MIXED}
    with indexed(segments) as rag:
        result = rag.retrieve(OVERVIEW, where={"author": "x"}, **options)
        everything = rag.retrieve(OVERVIEW, **options)
    assert {node.metadata["author"] for node in result.nodes} == {"x"}
    assert result.mixture.summaries == 0
    assert everything.mixture.summaries > 0


async def test_the_asynchronous_result_is_the_same(rag):
    sync = rag.retrieve(OVERVIEW, token_budget=60, strategy=MIXED)
    later = await rag.aretrieve(OVERVIEW, token_budget=60, strategy=MIXED)
    assert later.nodes == sync.nodes


def test_an_unknown_choice_is_rejected():
    with pytest.raises(InvalidInputError, match="budget_summaries='always': choose one of never"):
        HybridStrategy(budget_summaries="always")
