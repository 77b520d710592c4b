"""Breadth: results that together cover a question, several documents, or an entire text."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    IndexSettings,
    Models,
    SourceDocument,
    Span,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.ranking.breadth import (
    cover_question,
    cover_topics,
    is_overview,
    spread_over_documents,
)
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.search.bm25 import build_bm25
from strategies import examples

WORDS = ("anna", "bert", "map", "sea", "ship", "gold")
NARROW = HybridStrategy(diversity=0)

texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
nodes = st.lists(st.lists(texts, max_size=3), min_size=1, max_size=12)
falling = st.lists(st.floats(0.001, 10), min_size=1, max_size=40).map(
    lambda scores: np.asarray(sorted(scores, reverse=True))
)
unit = st.floats(0, 1)


def select(windows_of_nodes, scores, terms, diversity, count):
    """Return the selection of `cover_question`, given the texts of each node's windows."""
    windows = [text for texts in windows_of_nodes for text in texts]
    owners = np.repeat(np.arange(len(windows_of_nodes)), [len(one) for one in windows_of_nodes])
    return cover_question(
        QuestionTerms(Query(" ".join(terms) or "?"), build_bm25(windows), 1.0),
        np.asarray(scores, dtype=float),
        np.arange(len(windows)),
        owners,
        diversity=diversity,
        count=count,
    )


# Words of the question


def test_a_node_that_adds_a_word_of_the_question_passes_one_that_repeats():
    windows = [["anna sang"], ["anna slept"], ["the old map"]]
    scores = [1.0, 0.6, 0.5]
    assert select(windows, scores, ["anna", "map"], 0, 3)[0] == [0, 1, 2]
    assert select(windows, scores, ["anna", "map"], 0.3, 3)[0] == [0, 2, 1]
    assert select(windows, scores, ["anna", "map"], 0.3, 2)[0] == [0, 2]


def test_an_incidental_word_of_a_paraphrase_moves_no_text_to_the_front():
    windows = [["the keeper feeds apes"], ["a big ship"], ["the old map"]]
    question = ["who", "nurses", "big", "zoo", "animals"]
    assert select(windows, [1.0, 0.7, 0.5], question, 0.3, 3)[0] == [0, 1, 2]
    assert select(windows, [1.0, 0.7, 0.5], ["big", "ship"], 0.3, 3)[0] == [1, 0, 2]


def test_a_rare_word_counts_more_than_a_frequent_one():
    windows = [["sea"], ["gold"], *[["sea ship"]] * 8]
    places, _ = select(windows, [1.0] * 10, ["sea", "gold"], 1, 2)
    assert places == [1, 0]


def test_any_window_of_a_node_covers_a_word():
    windows = [["anna"], ["bert", "sea", "map"], ["bert", "sea", "ship"]]
    places, _ = select(windows, [1.0, 0.5, 0.5], ["anna", "map"], 0.5, 3)
    assert places == [0, 1, 2]
    swapped, _ = select([windows[0], windows[2], windows[1]], [1.0, 0.5, 0.5], ["map"], 0.9, 1)
    assert swapped == [2]


@examples(60)
@given(nodes, st.data(), st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=6), unit)
def test_the_selection_is_the_start_of_a_permutation_with_falling_values(
    windows, data, terms, diversity
):
    size = len(windows)
    scores = sorted(data.draw(st.lists(st.floats(0, 5), min_size=size, max_size=size)))[::-1]
    count = data.draw(st.integers(1, size + 2))
    places, values = select(windows, scores, terms, diversity, count)
    assert len(places) == len(values) == min(count, size)
    assert len(set(places)) == len(places)
    assert set(places) <= set(range(size))
    assert all(later <= value + 1e-9 for value, later in pairwise(values))
    assert all(-1e-9 <= value <= scores[0] + 1e-9 for value in values)
    assert (places, values) == select(windows, scores, terms, diversity, count)
    everything, _ = select(windows, scores, terms, diversity, size)
    assert everything[: len(places)] == places
    assert sorted(everything) == list(range(size))
    kept, same = select(windows, scores, terms, 0, size)
    assert kept == list(range(size))
    assert same == pytest.approx(scores, abs=1e-9)


# Documents


@examples(60)
@given(falling, st.data(), unit)
def test_windows_are_discounted_within_their_document_only(scores, data, diversity):
    size = len(scores)
    drawn = data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    documents = np.asarray(drawn)
    spread = spread_over_documents(scores, documents, diversity)
    assert (spread <= scores).all()
    assert (spread > 0).all()
    for document in set(drawn):
        own = spread[documents == document]
        assert (np.diff(own) <= 0).all()
        assert own[0] == scores[documents == document][0]
    assert (spread_over_documents(scores, documents, 0) == scores).all()
    assert (spread_over_documents(scores, np.zeros(size, dtype=int), diversity) == scores).all()


def test_a_document_that_dominates_the_ranking_keeps_its_scores():
    dominant = np.asarray([4.0, 4, 1, 1])
    documents = np.asarray([0, 0, 1, 1])
    assert spread_over_documents(dominant, documents, 1).tolist() == [4, 4, 1, 1]
    even = np.asarray([4.0, 4, 4, 4])
    # Each document has half of the scores, and 0.5 / 0.8 is 0.625.
    assert spread_over_documents(even, documents, 1).tolist() == [4, 2.5, 4, 2.5]
    assert spread_over_documents(np.empty(0), np.empty(0, dtype=int), 1).tolist() == []


# Overviews

CORPUS = build_bm25(
    [
        "we moved on to the project and its finance",
        "people want to say something on hiring in the meeting",
        "people said that the book was long",
        *[f"people met on day {day} and talked" for day in range(20)],
        "weena slept",
    ]
)


@pytest.mark.parametrize(
    "question",
    [
        "Summarize the whole meeting.",
        "summarize the discussion",
        "What is the book about?",
        "What are the main points of the document?",
        "What do people say?",  # nearly every text contains "people"
    ],
)
def test_a_question_without_specific_words_asks_for_an_overview(question):
    assert is_overview(question, CORPUS)


@pytest.mark.parametrize(
    "question",
    [
        "What was said about hiring?",
        "Who is Weena?",
        "Summarize the discussion about project finance.",
        "What is the book about volcanoes?",  # no text contains "volcanoes"
    ],
)
def test_a_question_with_a_specific_word_asks_for_no_overview(question):
    assert not is_overview(question, CORPUS)


def test_nothing_is_an_overview_of_an_empty_index():
    assert not is_overview("summarize", build_bm25([]))


CHINESE = build_bm25(
    [
        "大家在会上讨论了预算和招聘",
        "大家在会上谈到了进度",
        *[f"第{day}天大家见面谈话" for day in range(20)],
        "黛玉睡了",
    ]
)


@pytest.mark.parametrize(
    "question",
    [
        "总结一下会议的主要内容",
        "这本书讲了什么？",
        "請列出要點",
        "大家谈了什么？",
    ],
)
def test_a_chinese_question_without_specific_words_asks_for_an_overview(question):
    assert is_overview(question, CHINESE)


@pytest.mark.parametrize("question", ["黛玉怎么了？", "总结一下关于招聘的讨论", "火山在哪里？"])
def test_a_chinese_question_with_a_specific_word_asks_for_no_overview(question):
    assert not is_overview(question, CHINESE)


def test_words_carried_over_make_a_question_specific():
    assert is_overview("What is it about?", CORPUS)
    assert not is_overview("What is it about?", CORPUS, carried=["hiring"])


def topics(windows, diversity, scores=None):
    """Return the candidates of `cover_topics`, whose rows are places in `windows`."""
    scores = [1 / (1 + place) for place in range(len(windows))] if scores is None else scores
    candidates = [
        Candidate(row, score, "global", (), Span(2, 2 + len(windows[row])), is_window=True)
        for row, score in enumerate(scores)
    ]
    reader = SimpleNamespace(
        read=lambda rows: [SimpleNamespace(text=f"__{windows[row]}__") for row in rows]
    )
    covered = cover_topics(candidates, reader, build_bm25(windows), diversity)
    return [one.row for one in covered], [one.score for one in covered]


def test_an_overview_has_each_topic_before_it_repeats_one():
    windows = ["red budget", "red budget", "red budget", "blue hiring", "blue hiring", "odd"]
    rows, scores = topics(windows, 0.3)
    assert rows[:2] == [0, 3]
    assert rows[-1] == 5  # its word is in no other window
    assert scores == sorted(scores, reverse=True)
    assert max(scores) <= 1


def test_an_overview_without_shared_words_keeps_the_order():
    assert topics(["red", "blue", "odd"], 1) == ([0, 1, 2], [1, 1 / 2, 1 / 3])
    assert topics([], 1) == ([], [])


def test_only_the_best_windows_compete_for_an_overview():
    windows = [*["red budget"] * 200, *["blue hiring"] * 10]
    rows, scores = topics(windows, 1)
    assert sorted(rows[:200]) == list(range(200))
    assert rows[200:] == list(range(200, 210))
    assert scores == sorted(scores, reverse=True)


# Real vectors

AGENDA = {
    "budget": [
        "The chair opened the meeting and the meeting began with the budget.",
        "The meeting spent an hour on the budget, and the budget was cut.",
        "Everyone in the meeting asked whether the budget covers travel.",
        "The meeting agreed that the budget is reviewed at every meeting.",
    ],
    "hiring": [
        "Two engineers leave in June, so hiring starts now.",
        "The hiring panel wants portfolios, not exams.",
        "Salaries for hiring follow the regional scale.",
        "Candidates hear back within ten days of hiring interviews.",
    ],
    "office": [
        "The lease of the office ends next winter.",
        "A smaller office near the station costs less.",
        "Noise in the office disturbs the call center.",
        "The office plants need a volunteer.",
    ],
    "remote": [
        "The remote control loses its pairing after a reset.",
        "Buttons on the remote should glow in the dark.",
        "The remote ships with rechargeable batteries.",
        "A rubber case protects the remote from falls.",
    ],
    "training": [
        "New staff get safety training in spring.",
        "The training videos lack subtitles.",
        "First aid training expired for six people.",
        "Online training saves two days of travel.",
    ],
    "website": [
        "The website crashed during the sale.",
        "Visitors leave the website on the payment page.",
        "The website needs an accessible menu.",
        "Search on the website ignores plurals.",
    ],
}
ANIMALS = {
    "whale": [
        "The blue whale is the largest animal, and the blue whale weighs 150 tonnes.",
        "A blue whale that weighs 150 tonnes eats four tonnes of krill a day.",
        "The tongue of a blue whale weighs as much as a car.",
        "The heart of the blue whale weighs 180 kilograms.",
    ],
    "elephant": [
        "Herds cross the forest in the dry season.",
        "An elephant in Asia reaches five tonnes at most.",
    ],
    "cake": ["Bake the cake for forty minutes and weigh the flour."],
    "ice": ["Water freezes at zero degrees. Ice floats."],
}
COMPARISON = "What weighs more, a blue whale or an elephant?"


@pytest.fixture(scope="module")
def open_real(real_embedder, real_extractor):
    def opened(chunk_size):
        return E2GraphRAG.open(
            ":memory:",
            embedder=real_embedder,
            models=Models(extractor=real_extractor),
            settings=IndexSettings(chunk_size=chunk_size, chunk_overlap=0),
        )

    return opened


@pytest.fixture(scope="module")
def real(open_real):
    with open_real(20) as rag:
        agenda = "\n\n".join(sentence for topic in AGENDA.values() for sentence in topic)
        rag.add(SourceDocument("meeting", agenda, metadata={"kind": "meeting"}))
        yield rag


@pytest.fixture(scope="module")
def animals(open_real):
    with open_real(24) as rag:
        rag.add([SourceDocument(id_, "\n\n".join(parts)) for id_, parts in ANIMALS.items()])
        yield rag


def found_topics(result):
    context = result.context()
    return {topic for topic in AGENDA if topic in context}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "question", ["Summarize the whole meeting.", "What are the main points of the document?"]
)
def test_an_overview_question_covers_more_topics_with_diversity(real, question):
    narrow = real.retrieve(question, token_budget=100, strategy=NARROW)
    wide = real.retrieve(question, token_budget=100)
    assert len(found_topics(wide)) >= 2 + len(found_topics(narrow))
    assert wide.trace.overview
    assert not narrow.trace.overview
    assert "breadth: an overview" in wide.trace.explain()
    assert wide.nodes == asyncio.run(real.aretrieve(question, token_budget=100)).nodes


def test_an_overview_of_everything_leaves_nothing_out(real):
    assert found_topics(real.retrieve("Summarize the meeting.", token_budget=1000)) == set(AGENDA)


def test_a_specific_question_asks_for_no_overview(real):
    result = real.retrieve("What was said about hiring?", token_budget=100)
    assert not result.trace.overview
    assert "breadth" not in result.trace.explain()
    assert "hiring" in found_topics(result)


def test_a_question_about_two_documents_finds_both(animals):
    def documents(strategy):
        result = animals.retrieve(COMPARISON, k=2, strategy=strategy)
        return [node.document_id for node in result.nodes]

    assert documents(NARROW) == ["whale", "whale"]
    assert documents(HybridStrategy()) == ["whale", "elephant"]


def test_the_pool_limits_the_selection(animals):
    strategy = HybridStrategy(diversity_pool=1)
    result = animals.retrieve(COMPARISON, k=2, strategy=strategy)
    assert [node.document_id for node in result.nodes] == ["whale", "whale"]
    assert [node.node_id for node in animals.retrieve(COMPARISON, k=9).nodes[:2]] == [
        node.node_id for node in animals.retrieve(COMPARISON, k=2).nodes
    ]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("diversity", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("budget", [None, 200])
def test_diversity_keeps_to_the_filter(animals, diversity, budget):
    options = {
        "strategy": HybridStrategy(diversity=diversity),
        "where": {"document_id": {"$in": ["elephant", "ice"]}},
        "token_budget": budget,
    }
    result = animals.retrieve(COMPARISON, **options)
    assert {node.document_id for node in result.nodes} == {"elephant", "ice"}
    scores = [node.score for node in result.nodes]
    assert scores == sorted(scores, reverse=True)
    assert asyncio.run(animals.aretrieve(COMPARISON, **options)).nodes == result.nodes


def test_a_filter_also_limits_an_overview(real):
    options = {"token_budget": 100, "where": {"kind": "letter"}}
    assert real.retrieve("Summarize the meeting.", **options).nodes == ()


# Settings and the route


@pytest.mark.parametrize("value", [-0.1, 2, float("nan"), "x", None, True])
def test_a_diversity_out_of_range_is_rejected(value):
    with pytest.raises(InvalidInputError, match=r"diversity=.* must be a number from 0 to 1"):
        HybridStrategy(diversity=value)


@pytest.mark.parametrize("value", [0, 1001, 2.5, "x", None])
def test_a_pool_out_of_range_is_rejected(value):
    with pytest.raises(InvalidInputError, match=r"diversity_pool=.* from 1 to 1,000"):
        HybridStrategy(diversity_pool=value)
