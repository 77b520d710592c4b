"""`Boosts`: the formula, what boosts may not do, and errors about values that they cannot use."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from datetime import UTC, date, datetime, timedelta

import pytest

from e2graphrag_integrations import (
    Boosts,
    HybridStrategy,
    PaperStrategy,
    Segment,
    SourceDocument,
    TreeTraversalStrategy,
    tagged,
)
from e2graphrag_integrations.errors import (
    InvalidInputError,
    UnknownDocumentError,
)
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Trace

NOW = "2026-11-23"
QUESTION = "Who sold the red map in Oslo?"
DOCUMENTS = [
    SourceDocument("low", "Anna sold the red map in Oslo.", metadata={"priority": 0.5}),
    SourceDocument("high", "Bert sold the red map in Oslo.", metadata={"priority": 4, "date": NOW}),
    SourceDocument("old", "Cleo sold the red map.", metadata={"date": "2026-10-24T00:00:00Z"}),
    SourceDocument("zinc", "Emil sold the engine of a ship in Oslo."),
]


class ByOrder:
    """Ranks chunks in the order of the index, from 1 downward by `step`."""

    name = "order"

    def __init__(self, first=1.0, step=0.1):
        self.first, self.step = first, step

    def rank(self, query, snapshot):
        rows = [r for r in snapshot.chunk_nodes if query.allowed is None or query.allowed[r]]
        ranked = [
            Candidate(int(row), self.first - self.step * place, "global", ())
            for place, row in enumerate(rows[: query.k])
        ]
        return ranked, Trace(query.question, self.name, query.mode)


@pytest.fixture
def rag(open_index):
    rag = open_index(chunk_size=200, chunk_overlap=0)
    rag.add(DOCUMENTS)
    rag.set_tags(["map", "engine"])
    return rag


def ranked(result):
    return [node.document_id for node in result.nodes]


def factors(rag, boost, **options):
    """Return the score of each document with a boost, relative to that without."""
    scores = [
        {
            node.document_id: node.score
            for node in rag.retrieve(QUESTION, boost=one, strategy=ByOrder(), **options).nodes
        }
        for one in (None, boost)
    ]
    return {id_: scores[1][id_] / score for id_, score in scores[0].items()}


@pytest.mark.parametrize(
    ("boost", "expected"),
    [
        ({"boost_field": "priority"}, {"low": 0.5, "high": 4, "old": 1, "zinc": 1}),
        (
            {"boost_field": "priority", "boost_scale": "log"},
            {"low": 1 + math.log(1.5), "high": 1 + math.log(5), "old": 1, "zinc": 1},
        ),
        (
            {"half_life_days": 30, "now": NOW},
            {"low": 1, "high": 2, "old": 1.5, "zinc": 1},
        ),
        (
            {"half_life_days": 15, "now": date(2026, 11, 23), "recency_weight": 3},
            {"low": 1, "high": 4, "old": 1.75, "zinc": 1},
        ),
        ({"documents": {"old": 3, "zinc": 0}}, {"low": 1, "high": 1, "old": 3, "zinc": 0}),
        ({"tag": {"map": 2}}, {"low": 2, "high": 2, "old": 2, "zinc": 1}),
        (
            {"tag": {"map": 2}, "documents": {"high": 1.5}, "boost_field": "priority"},
            {"low": 1, "high": 12, "old": 2, "zinc": 1},
        ),
    ],
)
def test_a_score_is_multiplied_by_the_product_of_the_factors(rag, boost, expected):
    assert factors(rag, boost) == pytest.approx(expected)
    assert factors(rag, Boosts(**boost)) == pytest.approx(expected)


def test_ages_are_counted_from_today_and_future_dates_have_age_zero(open_index):
    rag = open_index(chunk_size=200, chunk_overlap=0)
    days = {"past": -10, "future": 10}
    today = datetime.now(UTC)
    rag.add(
        [
            SourceDocument(id_, f"{id_} map", metadata={"at": (today + timedelta(d)).isoformat()})
            for id_, d in days.items()
        ]
    )
    found = factors(rag, {"half_life_days": 10, "date_field": "at"})
    assert found == pytest.approx({"past": 1.5, "future": 2}, rel=1e-3)


def test_a_node_has_the_mean_factor_of_its_segments(open_index):
    rag = open_index(chunk_size=200, chunk_overlap=0)
    segments = [Segment(0, 9, {"priority": 1}), Segment(10, 19, {"priority": 4})]
    rag.add(SourceDocument("two", "Anna met. Bert met.", segments=segments))
    assert factors(rag, {"boost_field": "priority"}) == {"two": pytest.approx(2.5)}


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize(
    "options",
    [{}, {"k": 2}, {"token_budget": 12}, {"fill": True}, {"mode": "local"}, {"expand": "leaves"}],
    ids=str,
)
@pytest.mark.parametrize(
    "strategy", [HybridStrategy(), PaperStrategy(), TreeTraversalStrategy(), ByOrder()]
)
@pytest.mark.parametrize("boost", [{}, {"tag": {"map": 1.0}, "documents": {"old": 1}}], ids=str)
def test_neutral_boosts_change_nothing(rag, strategy, options, boost):
    plain = rag.retrieve(QUESTION, strategy=strategy, **options)
    boosted = rag.retrieve(QUESTION, strategy=strategy, boost=boost, **options)
    assert boosted.nodes == plain.nodes


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("strategy", [HybridStrategy(), ByOrder(), HybridStrategy(diversity=0)])
@pytest.mark.parametrize("options", [{"k": 1}, {"k": 1, "fill": True}, {"token_budget": 12}])
def test_a_boost_lifts_a_node_from_below_the_result(rag, strategy, options):
    assert ranked(rag.retrieve(QUESTION, strategy=strategy, **options))[0] != "zinc"
    boosted = rag.retrieve(
        QUESTION, strategy=strategy, boost={"documents": {"zinc": 900}}, **options
    )
    assert ranked(boosted)[0] == "zinc"
    assert len(boosted.nodes) <= 2


def test_a_boost_lifts_a_node_that_only_the_filling_finds(rag):
    boost = {"documents": {"zinc": 50}}
    options = {"k": 2, "mode": "local", "fill": True, "strategy": PaperStrategy()}
    assert ranked(rag.retrieve("Did Anna see Oslo?", boost=boost, **options))[0] == "zinc"


def test_a_boost_of_zero_moves_a_node_to_the_end(rag):
    assert ranked(rag.retrieve(QUESTION, boost={"documents": {"low": 0}}))[-1] == "low"


def test_negative_scores_are_shifted_so_that_boosts_never_lower_them(rag):
    strategy = ByOrder(first=-1.0)
    result = rag.retrieve(QUESTION, strategy=strategy, boost={"documents": {"low": 5}})
    plain = ranked(rag.retrieve(QUESTION, strategy=strategy))
    assert plain == ["high", "low", "old", "zinc"]
    assert ranked(result) == ["low", "high", "old", "zinc"]
    assert result.nodes[-1].score == 0


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("strategy", [HybridStrategy(), PaperStrategy(), ByOrder()])
@pytest.mark.parametrize(
    "options", [{}, {"token_budget": 30}, {"fill": True}, {"expand": "leaves"}]
)
def test_boosts_cannot_break_a_filter(rag, strategy, options):
    boost = {"documents": {"low": 900}, "tag": {"map": 900}, "half_life_days": 1}
    where = {"document_id": {"$ne": "low"}}
    for one in (where, tagged("engine")):
        result = rag.retrieve(QUESTION, strategy=strategy, boost=boost, where=one, **options)
        assert "low" not in ranked(result)


def test_values_that_a_filter_hides_are_neither_read_nor_shown(rag):
    rag.add(SourceDocument("other-tenant", "A secret.", metadata={"date": "soon", "tenant": 2}))
    boost = {"half_life_days": 30}
    with pytest.raises(InvalidInputError, match=r"'other-tenant' has date='soon'"):
        rag.retrieve(QUESTION, boost=boost)
    assert rag.retrieve(QUESTION, boost=boost, where={"tenant": {"$ne": 2}}).nodes


def test_boosts_apply_after_the_reranker(rag):
    class Longest:
        def rerank(self, question, texts):
            return [len(text) for text in texts]

    strategy = HybridStrategy(reranker=Longest())
    plain = ranked(rag.retrieve(QUESTION, strategy=strategy))
    assert plain[0] == "zinc"
    boosted = rag.retrieve(QUESTION, strategy=strategy, boost={"documents": {"old": 100}})
    assert ranked(boosted)[0] == "old"


def test_the_trace_and_the_reasons_name_the_boosts(rag):
    boost = {"tag": {"engine": 3.0}, "half_life_days": 30, "now": NOW}
    result = rag.retrieve(QUESTION, k=2, boost=boost, strategy=ByOrder())
    reasons = {node.document_id: node.reasons[-1] for node in result.nodes}
    assert reasons["high"] == "boost 2 (recency of date 2): rank 1 before"
    trace = result.trace
    assert trace.boosts.settings == {
        "tag": {"engine": 3.0},
        "half_life_days": 30.0,
        "date_field": "date",
        "recency_weight": 1.0,
        "now": NOW,
    }
    assert (trace.boosts.candidates, trace.boosts.changed) == (4, 3)
    first = trace.lists["boosted"][0]
    assert first.node_id == result.nodes[0].node_id
    assert first.figures == {
        "score": pytest.approx(result.nodes[0].score),
        "factor": 3,
        "rank_before": 4,
    }
    assert "boosts: tag={'engine': 3.0}" in trace.explain()
    json.dumps(trace.to_dict())
    assert rag.retrieve(QUESTION).trace.boosts is None


def test_a_budget_holds_with_boosts(rag):
    boosted = rag.retrieve(QUESTION, token_budget=12, boost={"tag": {"engine": 900}})
    assert ranked(boosted)[0] == "zinc"
    assert len(boosted.context().split()) <= 12


def test_aretrieve_boosts_too(rag):
    boost = {"documents": {"zinc": 900}}
    result = asyncio.run(rag.aretrieve(QUESTION, boost=boost))
    assert result.nodes == rag.retrieve(QUESTION, boost=boost).nodes


@pytest.mark.parametrize(
    ("boost", "message"),
    [
        (2.0, "must be Boosts"),
        ({"tags": {"map": 2}}, "did you mean 'tag'"),
        ({"tag": ["map"]}, "must map names to weights"),
        ({"tag": {3: 2}}, "not a string"),
        ({"tag": {"map": math.nan}}, r"tag\['map'\]=nan must be a number"),
        ({"tag": {"map": math.inf}}, "inf"),
        ({"tag": {"map": True}}, "True"),
        ({"documents": {"low": -1}}, r"documents\['low'\]=-1"),
        ({"boost_field": ""}, "boost_field=''"),
        ({"boost_scale": "log"}, "without boost_field"),
        ({"boost_field": "a", "boost_scale": "cubic"}, "linear or log"),
        ({"half_life_days": 0}, "half_life_days=0"),
        ({"half_life_days": math.nan}, "half_life_days=nan"),
        ({"half_life_days": 3, "recency_weight": -1}, "recency_weight=-1"),
        ({"half_life_days": 3, "date_field": None}, "date_field=None"),
        ({"half_life_days": 3, "now": "yesterday"}, "now='yesterday'"),
        ({"half_life_days": 3, "now": 20_000}, "now=20000"),
        ({"date_field": "at"}, "without half_life_days"),
    ],
)
def test_invalid_boosts_raise_before_anything_is_searched(rag, boost, message):
    with pytest.raises(InvalidInputError, match=message):
        rag.retrieve(QUESTION, boost=boost)


@pytest.mark.parametrize(
    ("boost", "error", "message"),
    [
        ({"tag": {"maps": 2}}, InvalidInputError, r"unknown tag 'maps'.*'map', 'engine'"),
        ({"documents": {"nobody": 2}}, UnknownDocumentError, "'nobody'"),
    ],
)
def test_unknown_tags_and_documents_raise(rag, boost, error, message):
    with pytest.raises(error, match=message):
        rag.retrieve(QUESTION, boost=boost)


@pytest.mark.parametrize(
    ("value", "boost"),
    [
        (value, {"half_life_days": 30, "date_field": "key"})
        for value in ("31.12.2025", "2025-02-30", "2025-W01", True, ["2025-01-01"])
    ]
    + [(value, {"boost_field": "key"}) for value in ("3", -1, True, [1], 1e300)],
    ids=str,
)
def test_values_that_do_not_parse_raise_with_document_and_value(open_index, value, boost):
    rag = open_index()
    rag.add(
        [SourceDocument("good", "A map."), SourceDocument("bad", "B.", metadata={"key": value})]
    )
    with pytest.raises(InvalidInputError) as caught:
        rag.retrieve(QUESTION, boost=boost)
    assert f"document 'bad' has key={value!r}" in str(caught.value)


@pytest.mark.parametrize("value", [2025, "2025", "2025-01", "2025-01-01", "20250101"])
def test_a_year_and_a_month_have_the_age_of_their_first_day(open_index, value):
    rag = open_index()
    rag.add(SourceDocument("dated", "A map.", metadata={"date": value}))
    assert factors(rag, {"half_life_days": 10, "now": "2025-01-11"}) == {"dated": 1.5}


@pytest.mark.parametrize("value", [None, "", " "])
def test_blank_dates_are_neutral(open_index, value):
    rag = open_index()
    rag.add(SourceDocument("blank", "A map.", metadata={"date": value}))
    assert factors(rag, {"half_life_days": 3}) == {"blank": 1}


def test_boosts_are_immutable_copies_with_one_class_of_errors():
    weights = {"map": 2.0}
    boosts = Boosts(tag=weights)
    weights["map"] = 3.0
    assert boosts.tag == {"map": 2.0}
    with pytest.raises(dataclasses.FrozenInstanceError):
        boosts.boost_field = "x"
    assert issubclass(InvalidInputError, InvalidInputError)
    assert issubclass(InvalidInputError, InvalidInputError)
