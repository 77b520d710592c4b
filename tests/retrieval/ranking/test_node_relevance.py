"""The relevance of result nodes: in [0, 1] for every strategy, and comparable across questions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2graphrag_integrations import (
    HashingEmbedder,
    HybridStrategy,
    PaperStrategy,
    RelevanceCalibration,
    SourceDocument,
)
from e2graphrag_integrations.embedders.calibration import clipped_cosine
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Trace
from fakes import STORY

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

QUESTION = "What did Anna give Bert on the road to Oslo?"


class Windows(HashingEmbedder):
    """Splits chunks into several windows."""

    def __init__(self):
        super().__init__(64, max_tokens=16)


class Negative(HashingEmbedder):
    """Points away from every question."""

    def embed_query(self, text):
        return -super().embed_query(text)


class EveryNode:
    """Returns all nodes in an arbitrary order, as a user's strategy may."""

    name = "every"

    def rank(self, query, snapshot):
        rows = range(len(snapshot.nodes.ids))
        candidates = [Candidate(row, 1 / (row + 1), "global", ()) for row in rows]
        return candidates, Trace(query.question, self.name, query.mode)


class Calibrated(EveryNode):
    def __init__(self, relevance_calibration=None):
        self.relevance_calibration = relevance_calibration


@pytest.fixture
def mills(open_index):
    mills = open_index(embedder=Windows(), chunk_size=30, chunk_overlap=4)
    mills.add(SourceDocument("story", STORY * 3))
    mills.add(SourceDocument("other", "Emil sold his mill to Fay. Hal saw the harbour burn. " * 5))
    return mills


def cosines(mills):
    """Return the cosine of every node's best window."""
    snapshot = mills._session.snapshot()
    vector = mills._index.components.embedder.embed_query(QUESTION)
    best = {}
    for node, cosine in zip(
        snapshot.dense.window_nodes, snapshot.dense.vectors @ vector, strict=True
    ):
        id_ = snapshot.nodes.ids[int(node)]
        best[id_] = max(best.get(id_, 0.0), float(cosine))
    assert len(snapshot.dense.window_nodes) > len(best) > 10
    return best


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "global", "k": 30},
        {"mode": "global", "expand": "leaves"},
        {"mode": "global", "expand": "children"},
        {"mode": "local", "fill": True, "k": 30},
        {"token_budget": 60},
        {"token_budget": 5000},
        {"strategy": PaperStrategy(), "mode": "global"},
        {"strategy": PaperStrategy(), "mode": "local", "fill": True, "k": 30},
        {"strategy": HybridStrategy(title_link_weight=5, entity_weight=5)},
        {"strategy": EveryNode(), "k": 40},
        {"strategy": EveryNode(), "token_budget": 100},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_relevance_is_the_cosine_of_the_best_window(mills, options):
    nodes = mills.retrieve(QUESTION, **options).nodes
    expected = cosines(mills)
    assert nodes
    for node in nodes:
        assert type(node.relevance) is float
        assert node.relevance == pytest.approx(expected[node.node_id], abs=1e-6)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (HybridStrategy, {}),
        (HybridStrategy, {"token_budget": 60}),
        (HybridStrategy, {"mode": "local", "fill": True, "k": 30}),
        (HybridStrategy, {"mode": "global", "expand": "leaves"}),
        (PaperStrategy, {"mode": "global"}),
        (PaperStrategy, {"mode": "local", "fill": True, "k": 30}),
        (Calibrated, {"k": 40}),
    ],
)
def test_a_strategy_maps_cosines_to_relevance_without_changing_the_order(mills, strategy, options):
    calibration = RelevanceCalibration(slope=8.0, intercept=-3.0)
    calibrated = strategy(relevance_calibration=calibration)
    nodes = mills.retrieve(QUESTION, strategy=calibrated, **options).nodes
    plain = mills.retrieve(QUESTION, strategy=strategy(), **options).nodes
    assert [(node.node_id, node.score) for node in nodes] == [
        (node.node_id, node.score) for node in plain
    ]
    expected = cosines(mills)
    assert [node.relevance for node in nodes] == pytest.approx(
        [calibration(expected[node.node_id]) for node in nodes], abs=1e-6
    )


def test_a_calibration_is_only_for_cosines(mills):
    strategy = HybridStrategy(relevance_calibration=lambda _: 0.123)
    local = mills.retrieve(QUESTION, mode="local", strategy=strategy).nodes
    without = replace(strategy, dense_weight=0)
    by_words = mills.retrieve(QUESTION, mode="global", strategy=without).nodes
    assert 0.123 not in {node.relevance for node in (*local, *by_words)}


def test_negative_cosines_give_relevance_0(open_index, story):
    mills = open_index(embedder=Negative())
    mills.add(story)
    nodes = mills.retrieve(QUESTION, mode="global", strategy=PaperStrategy()).nodes
    assert nodes[-1].score < 0
    assert {node.relevance for node in nodes} == {0.0}


def test_a_strategy_may_give_its_own_relevance_which_is_clipped(mills):
    class Own(EveryNode):
        def rank(self, query, snapshot):
            values = (0.25, 7.0, -1.0)
            candidates = [
                Candidate(row, 1.0, "global", (), relevance=value)
                for row, value in enumerate(values)
            ]
            return candidates, Trace(query.question, self.name, query.mode)

    nodes = mills.retrieve(QUESTION, strategy=Own()).nodes
    assert [node.relevance for node in nodes] == [0.25, 1.0, 0.0]


def test_the_trace_tells_a_calibrated_relevance_from_a_cosine(mills):
    calibrated = Calibrated(RelevanceCalibration(slope=8.0, intercept=-4.0))
    assert mills.retrieve(QUESTION, strategy=calibrated).trace.relevance_kind == "calibrated"
    assert mills.retrieve(QUESTION, strategy=Calibrated()).trace.relevance_kind == "cosine"


@pytest.mark.parametrize("strategy", [PaperStrategy(), HybridStrategy()], ids=["paper", "hybrid"])
def test_local_retrieval_embeds_nothing_and_counts_the_names(mills, strategy):
    result = mills.retrieve(
        "did Anna and Bert ever see Atlantis?", mode="local", strategy=strategy, k=30
    )
    assert "embed" not in result.trace.timings
    assert result.nodes[0].relevance == 2 / 3  # Atlantis is not in the index
    assert result.trace.relevance_kind == "names"
    assert "names found 0.67" in result._repr_html_()
    for node in result.nodes:
        assert node.relevance == pytest.approx(len(node.entities) / 3)


@pytest.mark.parametrize("budget", [None, 80])
def test_without_dense_search_relevance_is_a_fraction_of_the_bm25_score(mills, budget):
    strategy = HybridStrategy(dense_weight=0, neighbor_decay=0, entity_weight=0)
    exact = "Hal saw the harbour burn"
    result = mills.retrieve(exact, strategy=strategy, token_budget=budget)
    assert "embed" not in result.trace.timings
    best = result.nodes[0].relevance
    assert 0.5 < best <= 1
    assert result.trace.relevance_kind == "words"
    vague = f"{exact} during zyzzyva xylophone quagmire parliament festivities"
    assert 0 < mills.retrieve(vague, strategy=strategy, token_budget=budget).nodes[0].relevance < best


def test_relevance_does_not_change_the_order(mills):
    nodes = mills.retrieve(QUESTION, strategy=HybridStrategy(entity_weight=100)).nodes
    scores = [node.score for node in nodes]
    relevance = [node.relevance for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert relevance != sorted(relevance, reverse=True)
    assert np.isfinite(relevance).all()


SCALE = RelevanceCalibration(slope=8.0, intercept=-3.0)


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (HybridStrategy, {"k": 6}),
        (HybridStrategy, {"k": 6, "fill": True}),
        (HybridStrategy, {"token_budget": 400}),
        (HybridStrategy, {"mode": "local", "k": 30}),
        (HybridStrategy, {"mode": "local", "fill": True, "k": 30}),
        (HybridStrategy, {"mode": "global", "expand": "leaves", "k": 5}),
        (HybridStrategy, {"k": 6, "boost": {"documents": {"other": 3.0}}}),
        (PaperStrategy, {"mode": "local", "k": 30}),
        (PaperStrategy, {"token_budget": 400}),
        (Calibrated, {"k": 6}),
    ],
)
def test_nodes_below_min_relevance_are_left_out_before_the_cut(mills, strategy, options):
    strategy, expected = strategy(relevance_calibration=SCALE), cosines(mills)
    options = {**options, "strategy": strategy}
    plain = mills.retrieve(QUESTION, **options).nodes
    values = sorted({SCALE(expected[node.node_id]) for node in plain})
    assert len(values) > 1
    floor = values[-(len(values) // 2)] - 1e-6  # leaves out the less relevant part of this result
    relevant = {id_ for id_, cosine in expected.items() if SCALE(cosine) >= floor}
    complete = mills.retrieve(QUESTION, **options | {"k": 1_000})
    result = mills.retrieve(QUESTION, **options, min_relevance=floor)
    found = [node.node_id for node in result.nodes]
    assert found
    assert set(found) <= relevant
    # Whatever is relevant and could be found takes the place of what was left out.
    possible = {node.node_id for node in complete.nodes} & relevant
    assert len(found) >= min(options.get("k", 1), len(possible))
    assert result.trace.relevance_kind == "calibrated"
    assert result.trace.cuts["min_relevance"] > 0
    assert "cut by min_relevance: " in result.trace.explain()


def test_a_question_without_a_relevant_node_gets_an_empty_result_that_says_why(mills):
    strategy = HybridStrategy(relevance_calibration=SCALE)
    for options in ({}, {"fill": True}, {"token_budget": 100}):
        result = mills.retrieve(QUESTION, strategy=strategy, min_relevance=1, **options)
        assert result.nodes == ()
        assert result.trace.reason.startswith("no node has a relevance of at least 1; ")
    assert len(mills.retrieve(QUESTION, strategy=strategy, min_relevance=0, k=500).nodes) > 10


def test_min_relevance_needs_a_known_scale(mills, open_index):
    with pytest.raises(InvalidInputError, match="needs a calibrated relevance"):
        mills.retrieve(QUESTION, min_relevance=0.2)
    # The user may ask for plain cosines.
    cosine = HybridStrategy(relevance_calibration=clipped_cosine)
    nodes = mills.retrieve(QUESTION, min_relevance=0.2, strategy=cosine).nodes
    assert nodes
    assert min(node.relevance for node in nodes) >= 0.2
    assert open_index("empty.e2g").retrieve(QUESTION, min_relevance=0.2).nodes == ()
    for wrong in (-0.1, 1.1, float("nan"), "0.5", True):
        with pytest.raises(InvalidInputError, match=r"min_relevance=.* must be a number from 0 to"):
            mills.retrieve(QUESTION, min_relevance=wrong)


async def test_a_scope_and_async_take_min_relevance(mills):
    strategy = HybridStrategy(relevance_calibration=SCALE)
    scope = mills.scoped({"document_id": "story"})
    complete = await scope.aretrieve(QUESTION, strategy=strategy, k=100)
    floor = sorted(node.relevance for node in complete.nodes)[-3]
    result = await scope.aretrieve(QUESTION, strategy=strategy, k=100, min_relevance=floor)
    assert {node.node_id for node in result.nodes} == {
        node.node_id for node in complete.nodes if node.relevance >= floor
    }
