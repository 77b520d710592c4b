"""The retrieval pipeline: arguments, stages and timings."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from e2graphrag_integrations import HybridStrategy, Mention, PaperStrategy, SourceDocument
from e2graphrag_integrations.errors import ExtractionError, InvalidInputError
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Trace, measure
from fakes import NameExtractor

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes


@pytest.fixture
def rag(open_index, story):
    rag = open_index()
    rag.add(story)
    return rag


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"k": 0}, "k=0"),
        ({"k": -3}, "k=-3"),
        ({"k": 2.5}, "k=2.5"),
        ({"k": True}, "k=True"),
        ({"token_budget": 0}, "token_budget=0"),
        ({"token_budget": "9"}, "token_budget='9'"),
        ({"mode": "both"}, "mode='both'"),
        ({"expand": "up"}, "expand='up'"),
        ({"k": 10**5000 * -1}, "k=(int, too large to print)"),
        ({"mode": []}, "mode=[]"),
        ({"mode": np.zeros(2)}, "mode="),
        ({"fill": "no"}, "fill='no' must be True or False"),
        ({"paths": np.zeros(2)}, "paths="),
        ({"strategy": object()}, "has no method rank"),
        ({"strategy": 0}, "has no method rank"),
        ({"strategy": PaperStrategy}, "has no method rank"),
    ],
)
def test_an_invalid_argument_is_rejected(rag, options, word):
    with pytest.raises(InvalidInputError) as caught:
        rag.retrieve("Anna", **options)
    assert word in str(caught.value)


@pytest.mark.parametrize("question", ["", "  \n\t "])
def test_a_blank_question_is_rejected(rag, question):
    with pytest.raises(InvalidInputError, match="question is empty"):
        rag.retrieve(question)


def test_a_question_above_the_length_limit_is_refused(rag):
    assert rag.retrieve("Anna " * 6_400).nodes
    with pytest.raises(InvalidInputError, match=r"question has 32,001 characters.* 32,000"):
        rag.retrieve("Anna " * 6_400 + "?")
    with pytest.raises(InvalidInputError, match=r"embed_texts has 32,002 characters"):
        Query("Anna?", embed_texts=("a" * 16_001,) * 2)


@pytest.mark.parametrize("question", [None, 7, b"Anna", ["Anna"]])
def test_a_question_that_is_not_a_string_is_rejected(rag, question):
    kind = type(question).__name__
    with pytest.raises(InvalidInputError, match=f"question must be a string, not {kind}"):
        rag.retrieve(question)


def test_numpy_integers_are_accepted(rag):
    expected = rag.retrieve("Anna and Bert", k=3, token_budget=30)
    given = rag.retrieve("Anna and Bert", k=np.int64(3), token_budget=np.int32(30))
    assert given.nodes == expected.nodes


@pytest.mark.parametrize("answer", [None, [], ([],), ([], None), ("ab", None), 7])
def test_a_strategy_that_returns_something_else_is_named(rag, answer):
    class Wrong:
        name = "wrong"

        def rank(self, query, snapshot):
            return answer

    with pytest.raises(InvalidInputError, match=r"Wrong\.rank\(\) must return a list of candid"):
        rag.retrieve("Anna", strategy=Wrong())


@pytest.mark.parametrize(
    "where", [{"kind": {"$like": 1}}, {"$or": 1}, ["kind"], {"kind": {"$in": 1}}]
)
def test_an_invalid_filter_is_rejected_even_on_an_empty_index(open_index, where):
    with pytest.raises(InvalidInputError):
        open_index().retrieve("Anna", where=where)


def test_a_function_filters_like_a_mapping(rag):
    by_mapping = rag.retrieve("Anna?", k=20, where={"kind": "tale"}).nodes
    by_function = rag.retrieve("Anna?", k=20, where=lambda m: m.get("kind") == "tale").nodes
    assert by_mapping == by_function != ()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        [[], []],
        [[[Mention("Anna", 0, 4000)]]],
        [["Anna"]],
    ],
)
def test_an_invalid_extraction_of_a_question_is_an_extraction_error(open_index, story, answer):
    class Turning(NameExtractor):
        broken = False

        def extract(self, texts):
            return answer if self.broken else super().extract(texts)

    extractor = Turning()
    rag = open_index(extractor=extractor)
    rag.add(story)
    extractor.broken = True
    with pytest.raises(ExtractionError, match="Turning"):
        rag.retrieve("Anna and Bert")
    assert rag.verify().ok


def test_k_larger_than_the_index_returns_every_node(rag):
    stats = rag.stats()
    result = rag.retrieve("nothing in particular", k=10_000)
    assert len(result.nodes) == stats.chunks + stats.summaries


async def test_aretrieve_returns_the_same_nodes_as_retrieve(rag):
    one = rag.retrieve("Anna and Bert", k=3, token_budget=30)
    other = await rag.aretrieve("Anna and Bert", k=3, token_budget=30)
    assert other.nodes == one.nodes


def test_a_strategy_passed_to_retrieve_ranks(rag):
    class FirstNode:
        name = "first"

        def rank(self, query, snapshot):
            return [Candidate(0, 1.0, "local", ("first",))], Trace(
                query.question, self.name, query.mode, route="local", reason="because"
            )

    result = rag.retrieve("Anna", strategy=FirstNode())
    assert result.trace.strategy == "first"
    assert [node.reasons for node in result.nodes] == [("first",)]


def test_the_pipeline_reranks_the_candidates_of_any_strategy_with_a_reranker(rag):
    class Longest:
        def rerank(self, question, texts):
            return [len(text) for text in texts]

    class Reranked:
        name = "reranked"
        reranker = Longest()
        rerank_top_n = 2

        def rank(self, query, snapshot):
            rows = range(len(snapshot.nodes.ids))
            candidates = [Candidate(row, 1 / (row + 1), "global", ()) for row in rows]
            return candidates, Trace(query.question, self.name, query.mode)

    plain = rag.retrieve("Anna", k=2, strategy=type("Plain", (Reranked,), {"reranker": None})())
    result = rag.retrieve("Anna", k=2, strategy=Reranked())
    assert {node.node_id for node in result.nodes} == {node.node_id for node in plain.nodes}
    assert len(result.nodes[0].text) >= len(result.nodes[1].text)
    assert [node.score for node in result.nodes] == [1.0, 0.5]
    assert result.trace.cuts["k"] == rag.stats().chunks + rag.stats().summaries - 2
    assert "rerank" in result.trace.timings


@pytest.mark.parametrize("strategy", [PaperStrategy(), HybridStrategy()], ids=["paper", "hybrid"])
def test_mode_local_does_not_embed_the_question(rag, strategy):
    timings = rag.retrieve("Anna and Bert", mode="local", strategy=strategy).trace.timings
    assert "embed" not in timings
    timings = rag.retrieve("Anna and Bert", mode="global", strategy=strategy).trace.timings
    assert "embed" in timings


def test_strategy_that_declares_no_vector_cannot_read_one(rag):
    class Undecided(HybridStrategy):
        def needs_vector(self, query, snapshot):
            return False

    with pytest.raises(InvalidInputError, match=r"needs_vector\(\) of the strategy"):
        rag.retrieve("Anna and Bert", strategy=Undecided())


def test_strategy_without_needs_vector_always_gets_the_vector(rag):
    class Plain:
        name = "plain"

        def rank(self, query, snapshot):
            assert query.unit_vector.shape == (snapshot.dense.vectors.shape[1],)
            return [], Trace(query.question, self.name, query.mode)

    assert rag.retrieve("Anna?", mode="local", strategy=Plain()).nodes == ()


class Fixed:
    """A strategy that returns what it was given."""

    name = "fixed"

    def __init__(self, *candidates):
        self.candidates = candidates

    def rank(self, query, snapshot):
        return self.candidates, Trace(query.question, self.name, query.mode)


@pytest.mark.parametrize(
    "candidate",
    [
        Candidate(-1, 1.0, "x", ()),
        Candidate(9999, 1.0, "x", ()),
        Candidate(0.0, 1.0, "x", ()),
        (0, 1.0),
    ]
    + [Candidate(0, score, "x", ()) for score in (None, math.nan, math.inf)],
)
def test_an_invalid_candidate_of_a_strategy_is_refused(rag, candidate):
    with pytest.raises(InvalidInputError, match=r"Fixed.rank\(\) returned"):
        rag.retrieve("Anna?", strategy=Fixed(candidate))


@pytest.mark.parametrize("budget", [None, 200])
def test_candidates_outside_the_filter_are_dropped(rag, budget):
    rag.add(SourceDocument("other", "Zoe met Yann.", metadata={"kind": "note"}))
    strategy = Fixed(
        *(Candidate(row, 1.0, "x", ()) for row in range(2)), Candidate(0, 0.5, "x", ())
    )
    where = {"kind": "note"}
    found = rag.retrieve("Anna?", strategy=strategy, where=where, token_budget=budget).nodes
    assert {node.document_id for node in found} == {"other"}


def test_the_time_of_an_inner_step_does_not_count_toward_the_outer_step():
    timings: dict[str, float] = {}
    began = time.perf_counter()
    with measure("outer", timings):
        with measure("inner", timings):
            time.sleep(0.02)
        with measure("inner", timings):
            time.sleep(0.02)
    total = time.perf_counter() - began
    assert list(timings) == ["outer", "inner"]
    assert timings["inner"] >= 0.04
    assert sum(timings.values()) <= total
    assert timings["outer"] <= total - 0.04
