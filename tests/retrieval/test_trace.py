"""The trace as data and as text."""

from __future__ import annotations

import json

import numpy as np
import pytest

from e2graphrag_integrations import HybridStrategy, PaperStrategy
from e2graphrag_integrations.reports import Freshness
from e2graphrag_integrations.retrieval.trace import Listing, Trace

QUESTIONS = ["Did Anna give Bert the map?", "What of Emil?", "no names at all", "Anna or Waldo?"]


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mode", ["auto", "local", "global"])
def test_a_trace_round_trips_through_json(open_index, story, question, mode):
    rag = open_index()
    rag.add(story)
    trace = rag.retrieve(question, k=2, mode=mode, token_budget=40).trace
    plain = trace.to_dict()
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert again["question"] == question
    assert again["route"] == trace.route
    assert again == json.loads(json.dumps(again))
    assert {"filter", "entities", "rank", "read", "pack"} <= set(again["timings"])
    assert all(seconds >= 0 for seconds in again["timings"].values())
    assert {"k", "token_budget"} <= set(again["cuts"])


def test_a_list_of_windows_ranks_each_node_by_its_best_window():
    owners = np.array([0, 0, 1, 1, 1, 2])
    windows, cosines = np.array([3, 0, 4, 1, 5]), np.array([0.9, 0.7, 0.6, 0.5, 0.1])
    listing = Listing(["a", "b", "c"], "cosine", windows, cosines, owners)
    assert [(one.node_id, one.rank, one.figures) for one in listing.ranked()] == [
        ("b", 1, {"cosine": 0.9}),
        ("a", 2, {"cosine": 0.7}),
        ("c", 3, {"cosine": 0.1}),
    ]


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        (PaperStrategy(), "occurrence"),
        (HybridStrategy(entity_weight=0, title_link_weight=0), "relevance"),
    ],
)
def test_lists_contain_the_nodes_that_k_cuts(open_index, story, strategy, name):
    rag = open_index(strategy=strategy)
    rag.add(story)
    trace = rag.retrieve("Emil", k=1).trace
    ranks = [ranked.rank for ranked in trace.lists[name]]
    assert len(ranks) > 1
    assert ranks == list(range(1, len(ranks) + 1))
    assert trace.cuts["k"] == len(ranks) - 1


def test_explain_of_the_paper_strategy_lists_every_decision(open_index, story):
    rag = open_index(strategy=PaperStrategy())
    rag.add(story)
    text = rag.retrieve("Did Anna meet Mrs. Bert or Waldo?", k=1).trace.explain()
    assert "route: local" in text
    assert "anna" in text
    assert "bert" in text
    assert "no entity: " in text
    assert "pair: anna - bert: 1 hop(s)" in text
    assert "<- chosen" in text
    assert "time: " in text


def test_explain_of_the_hybrid_strategy_lists_the_reason_and_every_list(open_index, story):
    rag = open_index(strategy=HybridStrategy())
    rag.add(story)
    trace = rag.retrieve("Did Anna meet Mrs. Bert or Waldo?", k=1).trace
    text = trace.explain()
    assert f"route: {trace.route}\nwhy: {trace.reason}" in text
    assert "entities: anna, bert" in text
    assert "no entity: " in text
    for name in ("dense", "bm25", "relevance", "entities"):
        assert f"list {name}: {len(trace.lists[name])} node(s)" in text
    assert f"cut by k: {trace.cuts['k']} node(s)" in text


def test_steps_contain_missing_shards_and_the_age_of_the_answer():
    behind = Freshness("2", is_newest=False, max_age=3.0)
    trace = Trace("?", "hybrid", "auto", freshness=behind, missing_shards=("a", "b"))
    steps = {one.code: one for one in trace.steps()}
    assert steps["incomplete"] == "incomplete: without a, b"
    assert steps["freshness"] == f"freshness: {behind.describe()}"
    assert f"{steps['incomplete']}\n{steps['freshness']}\n" in trace.explain()
    assert not {"incomplete", "freshness"} & {one.code for one in Trace("?", "", "auto").steps()}


def test_explain_says_that_no_entity_was_linked(open_index, story):
    rag = open_index()
    rag.add(story)
    assert "entities: none linked" in rag.retrieve("and then").trace.explain()


def test_repeated_retrievals_differ_only_in_timings(open_index, story):
    rag = open_index()
    rag.add(story)
    for question in QUESTIONS:
        one, other = rag.retrieve(question, k=3), rag.retrieve(question, k=3)
        assert one.nodes == other.nodes
        first, second = one.trace.to_dict(), other.trace.to_dict()
        del first["timings"], second["timings"]
        assert first == second


def test_explain_says_that_mode_global_looks_up_no_entities(open_index, story):
    rag = open_index()
    rag.add(story)
    trace = rag.retrieve("Where did Anna meet Bert?", mode="global").trace
    assert "entities: not looked up" in trace.explain()


def test_loading_the_models_is_a_separate_step(open_index, story):
    rag = open_index()
    rag.add(story)
    timings = rag.retrieve("Where did Anna meet Bert?").trace.timings
    assert set(timings) >= {"load", "entities", "rank", "read"}
    assert all(seconds >= 0 for seconds in timings.values())
