"""Relevance of windows: the formula by hand, neighbors, and filters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.ranking.relevance import Relevance
from e2graphrag_integrations.retrieval.strategy import ChunkField, Query
from fakes import CountingLLM, LineCounter, NameExtractor
from strategies import FakeEmbedder, WordCounter, quick

DENSE = {
    "dense_weight": 1,
    "bm25_weight": 0,
    "relevance_power": 2,
    "neighbor_decay": 0.5,
    "list_length": 200,
}
BM25 = dict(DENSE, dense_weight=0, bm25_weight=1)
BOTH = dict(DENSE, bm25_weight=1)
ONE_LINE_CHUNKS = {"token_counter": LineCounter(), "chunk_size": 1, "chunk_overlap": 0}


def relevance_of(rag, question, settings, allowed=None, *, idf_power=1, **options):
    vector = rag._index.components.embedder.embed_query(question)
    query, snapshot = Query(question, vector=vector, allowed=allowed), rag._session.snapshot()
    terms = QuestionTerms(query, snapshot.bm25, idf_power)
    return Relevance(query, snapshot, terms, **settings, **options)


def by_window(ranking):
    return {int(window): float(value) for window, value in zip(*ranking, strict=True)}


def log_odds(cosine):
    """Return the log-odds of the relevance without a calibration, of which 0.01 is the lowest."""
    relevance = min(0.99, max(0.01, cosine))
    return math.log(relevance / (1 - relevance))


def about(expected):
    """Compare with a tolerance above the minimum relevance of the last hit."""
    return pytest.approx(expected, abs=1e-4)


@pytest.fixture
def with_cosines(open_index):
    """Index documents given as {line: cosine with any query}; every line is a chunk."""

    def make(*documents, **options):
        vectors = {t: [c, math.sqrt(1 - c * c)] for lines in documents for t, c in lines.items()}
        options = {"embedder": FakeEmbedder(vectors=vectors), **ONE_LINE_CHUNKS, **options}
        rag = open_index(**options)
        rag.add([SourceDocument(str(n), "\n".join(lines)) for n, lines in enumerate(documents)])
        return rag

    return make


def test_cosines_scale_from_lowest_to_highest_and_are_raised_to_the_power(with_cosines):
    rag = with_cosines({"best": 0.9}, {"middle": 0.6}, {"worst": 0.3})
    assert by_window(relevance_of(rag, "?", DENSE).windows) == about({0: 1, 1: 0.25, 2: 0})
    cubed = relevance_of(rag, "?", dict(DENSE, relevance_power=3)).windows
    assert by_window(cubed) == about({0: 1, 1: 0.125, 2: 0})


def test_the_last_hit_of_a_ranking_scores_above_zero(with_cosines):
    rag = with_cosines({"best": 0.9}, {"worst": 0.3})
    windows, relevance = relevance_of(rag, "?", DENSE).windows
    assert windows.tolist() == [0, 1]
    assert 0 < relevance[1] < 1e-3


def test_a_window_beyond_the_ranking_has_no_relevance(with_cosines):
    rag = with_cosines({"a": 0.9}, {"b": 0.6}, {"c": 0.3}, {"d": 0.3})
    ranking = relevance_of(rag, "?", dict(DENSE, list_length=3)).windows
    assert by_window(ranking) == about({0: 1, 1: 0.25, 2: 0})


@pytest.mark.parametrize(("cosine", "confidence"), [(0.5, 0), (0.6, 0.2703), (0.82, 1)])
def test_nearly_equal_cosines_of_all_windows_say_little(with_cosines, cosine, confidence):
    rag = with_cosines({"a": 0.5}, {"b": cosine})
    relevance = relevance_of(rag, "?", DENSE)
    assert relevance.dense_confidence == pytest.approx(confidence, abs=1e-4)
    assert by_window(relevance.windows) == about({0: 0, 1: confidence**2})
    assert relevance_of(rag, "?", dict(DENSE, list_length=2)).dense_confidence == 1


def test_bm25_scales_from_zero_if_the_ranking_contains_every_match(with_cosines):
    # Texts of 1, 4 and 1 words, 2 on average: 1 / (1 + 1.5 (0.25 + 0.75 l / 2)) for length l.
    rag = with_cosines({"map": 0}, {"map of it all": 0}, {"else": 0})
    ratio = (1 + 1.5 * (0.25 + 0.75 / 2)) / (1 + 1.5 * (0.25 + 0.75 * 4 / 2))
    ranking = relevance_of(rag, "map", BM25).windows
    assert by_window(ranking) == pytest.approx({0: 1, 1: ratio**2}, rel=1e-5)
    cut = relevance_of(rag, "map", dict(BM25, list_length=2)).windows
    assert by_window(cut) == about({0: 1, 1: 0})


@pytest.mark.parametrize("idf_power", [0, 1, 2.5])
def test_idf_power_multiplies_each_term_by_a_power_of_its_idf(with_cosines, idf_power):
    rag = with_cosines({"rare bird": 0}, {"common bird": 0}, {"common fish": 0}, {"other fish": 0})
    settings = dict(BM25, relevance_power=1)
    relevance = by_window(relevance_of(rag, "rare common", settings, idf_power=idf_power).windows)
    common = (math.log(1 + 2.5 / 2.5) / math.log(1 + 3.5 / 1.5)) ** (1 + idf_power)
    assert relevance == pytest.approx({0: 1, 1: common, 2: common}, rel=1e-5)


def test_dense_and_bm25_scores_add_up_by_their_weights(with_cosines):
    rag = with_cosines({"red map": 0.9}, {"blue map": 0.6}, {"red sea": 0.3})
    bm25 = by_window(relevance_of(rag, "blue map?", dict(BM25, relevance_power=1)).windows)
    # The window with both words counts twice.
    assert bm25 == {0: bm25[0], 1: 2}
    assert 0 < bm25[0] < 0.5
    mixed = relevance_of(rag, "blue map?", dict(BOTH, dense_weight=3)).windows
    assert by_window(mixed) == about(
        {0: ((3 + bm25[0]) / 4) ** 2, 1: ((3 * 0.5 + 2) / 4) ** 2, 2: 0}
    )


@pytest.mark.parametrize(("more", "unknown"), [("", 0), (" zed", 1), (" zed yak wug", 3)])
def test_bm25_confidence_falls_if_rare_query_terms_do_not_match(with_cosines, more, unknown):
    rag = with_cosines({"common bird": 0}, {"common fish": 0}, {"other fish": 0}, {"old sea": 0})
    common, rare = math.log(1 + 2.5 / 2.5) ** 2, math.log(1 + 4.5 / 0.5) ** 2
    relevance = relevance_of(rag, f"common{more}", dict(BM25, relevance_power=1))
    trusted = {0: 0.5, 1: 0.5, 3: 1.5 / 4}[unknown]
    confidence = min(1, common / (common + unknown * rare) / trusted)
    assert relevance.bm25_confidence == pytest.approx(confidence)
    assert by_window(relevance.windows) == pytest.approx({0: confidence, 1: confidence})
    assert relevance.unsmoothed(np.array([0, 3])) == pytest.approx([confidence, 0])


def test_bm25_confidence_is_zero_without_a_matching_term(with_cosines):
    assert relevance_of(with_cosines({"map": 0}), "sea", BM25).bm25_confidence == 0
    assert relevance_of(with_cosines({"map": 0}), "?!", BM25).bm25_confidence == 0


def test_no_window_is_relevant_if_both_weights_are_zero(with_cosines):
    rag = with_cosines({"map": 1})
    relevance = relevance_of(rag, "map", dict(DENSE, dense_weight=0))
    assert len(relevance.dense[0]) == len(relevance.bm25[0]) == len(relevance.windows[0]) == 0
    assert relevance.unsmoothed(np.array([0])).tolist() == [0]


def test_an_empty_index_has_no_relevant_windows(open_index):
    relevance = relevance_of(open_index(), "map", BOTH)
    rankings = relevance.windows, relevance.dense, relevance.bm25
    assert [len(array) for ranking in rankings for array in ranking] == [0] * 6


def test_a_window_adds_decayed_relevance_to_its_neighbors(with_cosines):
    rag = with_cosines({"a": 0, "b": 0, "c": 1, "d": 0})
    assert by_window(relevance_of(rag, "?", DENSE, leaves_only=True).windows) == about(
        {0: 0.25, 1: 0.5, 2: 1, 3: 0.5}
    )


def test_smoothing_adds_both_sides_after_the_power(with_cosines):
    rag = with_cosines({"a": 1, "b": 0, "c": 0.5})
    settings = dict(DENSE, neighbor_decay=0.1)
    assert by_window(relevance_of(rag, "?", settings, leaves_only=True).windows) == about(
        {0: 1 + 0.01 * 0.25, 1: 0.1 + 0.1 * 0.25, 2: 0.25 + 0.01}
    )


def test_smoothing_reaches_eight_windows_on_either_side(with_cosines):
    rag = with_cosines({f"line {n}": float(n == 10) for n in range(21)})
    settings = dict(DENSE, neighbor_decay=1)
    relevance = by_window(relevance_of(rag, "?", settings, leaves_only=True).windows)
    assert relevance == about({n: float(abs(n - 10) <= 8) for n in range(21)})


def test_smoothing_stays_within_a_document(with_cosines):
    rag = with_cosines({"a": 0, "b": 1}, {"c": 0, "d": 0})
    settings = dict(DENSE, neighbor_decay=0.9)
    relevance = by_window(relevance_of(rag, "?", settings, leaves_only=True).windows)
    assert relevance == about({0: 0.9, 1: 1, 3: 0, 4: 0})  # Window 2 belongs to a summary.


def test_smoothing_stays_within_a_tree_level(with_cosines):
    lines = {f"line {n}": float(n == 5) for n in range(6)}
    rag = with_cosines(lines, summarizer=CountingLLM(), group_size=3)
    snapshot = rag._session.snapshot()
    levels = snapshot.nodes.level[snapshot.dense.window_nodes].tolist()
    assert levels == [0] * 6 + [1] * 2
    # The fake embedder gives both summaries the query's vector, so they neighbor each other.
    relevance = by_window(relevance_of(rag, "?", DENSE).windows)
    assert [relevance[w] for w in (4, 5, 6, 7)] == about([0.5, 1, 1.5, 1.5])


def test_the_windows_of_one_chunk_are_neighbors(open_index):
    near = [1, 0]
    far = [0, 1]
    windows = {"Red fish swims.": far, "Blue fish sinks.": near, "Old fish sleeps.": far}
    embedder = FakeEmbedder(max_tokens=3, tokens=WordCounter(), vectors=windows)
    rag = open_index(embedder=embedder, chunk_size=100)
    rag.add(SourceDocument("d", " ".join(windows)))
    assert rag.stats().chunks == 1
    assert by_window(relevance_of(rag, "?", DENSE).windows) == about({0: 0.5, 1: 1, 2: 0.5})


def test_leaves_only_leaves_out_the_windows_of_summaries(with_cosines):
    rag = with_cosines({"line a": 1, "line b": 0.5}, summarizer=CountingLLM(), group_size=2)
    both = relevance_of(rag, "digest line", BOTH)
    assert 2 in both.dense[0]
    assert 2 in both.bm25[0]
    leaves = relevance_of(rag, "digest line", BOTH, leaves_only=True)
    for windows, _ in (leaves.dense, leaves.bm25, leaves.windows):
        assert sorted(windows.tolist()) == [0, 1]
    allowed = np.array([False, True, True])
    one = relevance_of(rag, "digest line", BOTH, allowed, leaves_only=True)
    assert one.windows[0].tolist() == one.dense[0].tolist() == one.bm25[0].tolist() == [1]


def test_a_filtered_window_has_no_relevance_and_adds_none_to_neighbors(with_cosines):
    rag = with_cosines({"a": 0.2, "b": 1, "c": 0.1})
    allowed = rag._session.snapshot().nodes.level == 0
    allowed[1] = False
    relevance = relevance_of(rag, "b", BOTH, allowed)
    assert len(relevance.bm25[0]) == 0
    # Cosines scale among allowed windows; windows 0 and 2 are two positions apart.
    best = (relevance.dense_confidence / 2) ** 2
    assert by_window(relevance.windows) == about({0: best, 2: best * 0.25})


def test_no_window_is_relevant_if_the_filter_allows_none(with_cosines):
    rag = with_cosines({"a": 0.2, "b": 1})
    relevance = relevance_of(rag, "a b", BOTH, np.zeros(3, dtype=bool))
    rankings = relevance.windows, relevance.dense, relevance.bm25
    assert [len(array) for ranking in rankings for array in ranking] == [0] * 6


def test_unsmoothed_relevance_is_relative_to_the_best_score_of_each_ranking(with_cosines):
    rag = with_cosines({"red map": 0.8, "map": -0.4, "sea": 0.2})
    windows = np.array([2, 0, 1])

    def unsmoothed(settings):
        return relevance_of(rag, "red map?", settings, leaves_only=True).unsmoothed(windows)

    assert unsmoothed(DENSE) == pytest.approx([0.25, 1, 0])
    scores = by_window(relevance_of(rag, "red map?", BM25, leaves_only=True).bm25)
    ratio = scores[1] / scores[0]
    assert unsmoothed(BM25) == pytest.approx([0, 1, ratio])
    doubled = dict(BOTH, bm25_weight=2)
    assert unsmoothed(doubled) == pytest.approx([0.25, 1 + 2, 2 * ratio])


def test_a_window_beyond_the_ranking_has_its_lowest_cosine_as_unsmoothed_relevance(with_cosines):
    rag = with_cosines({"a": 0.8}, {"b": 0.4}, {"c": 0.2})
    relevance = relevance_of(rag, "?", dict(DENSE, list_length=2))
    assert relevance.unsmoothed(np.array([2, 1, 0])) == pytest.approx([0.5, 0.5, 1])


def test_unsmoothed_relevance_is_zero_if_no_cosine_is_positive(with_cosines):
    rag = with_cosines({"a": -0.2}, {"b": -0.4})
    assert relevance_of(rag, "?", DENSE).unsmoothed(np.array([0, 1])).tolist() == [0, 0]


WORD = st.sampled_from(["map", "sea", "Anna", "Bert", "harbour", "ran", "量子", "!"])
SENTENCE = st.lists(WORD, min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")
TEXT = st.lists(SENTENCE, min_size=1, max_size=12).map(" ".join)


def factor_of_complete(terms, window):
    """Return the factor of the BM25 score of one of the best windows, from its share of words."""
    bm25, words = terms.bm25, set(terms.words).difference(terms.weights)
    idf = {word: bm25.idf(word) or bm25.idf_of_unique for word in words}
    found = sum(idf[word] for word in words if terms.contain([word], np.array([window])).any())
    share = found / sum(idf.values()) if len(words) > 1 else 0
    return 1 + max(0, (share - 0.8) / 0.2)


def relevance_by_formula(rag, question, settings):
    """Return the relevance of every window, summed over all pairs of windows."""
    snapshot = rag._session.snapshot()
    nodes, window_nodes = snapshot.nodes, snapshot.dense.window_nodes
    relevance = relevance_of(rag, question, settings)
    cosines, bm25 = by_window(relevance.dense), by_window(relevance.bm25)
    exact = snapshot.dense.vectors @ rag._index.components.embedder.embed_query(question)
    assert cosines == pytest.approx(dict(enumerate(exact.tolist())), abs=1e-6)

    def unsmoothed(window):
        lowest, highest = min(cosines.values()), max(cosines.values())
        equal = highest - lowest < 1e-6  # Vector stores round the last digits.
        d = 1.0 if equal else (cosines[window] - lowest) / (highest - lowest)
        b = relevance.bm25_confidence * bm25.get(window, 0) / max(bm25.values(), default=1)
        b *= factor_of_complete(relevance.terms, window)
        d *= min(1, (log_odds(highest) - log_odds(lowest)) / 1.5)
        combined = settings["dense_weight"] * d + settings["bm25_weight"] * b
        total = settings["dense_weight"] + settings["bm25_weight"]
        return (combined / total) ** settings["relevance_power"]

    def group(window):
        row = window_nodes[window]
        return int(nodes.document[row]), int(nodes.level[row])

    return {
        window: sum(
            settings["neighbor_decay"] ** abs(window - other) * unsmoothed(other)
            for other in range(len(window_nodes))
            if group(other) == group(window) and abs(window - other) <= 8
        )
        for window in range(len(window_nodes))
    }


@quick
@given(
    documents=st.lists(TEXT, min_size=1, max_size=3),
    question=SENTENCE,
    neighbor_decay=st.sampled_from([0, 0.3, 0.6, 1]),
    relevance_power=st.sampled_from([2, 3]),
    bm25_weight=st.sampled_from([0.5, 1, 3]),
)
def test_relevance_equals_the_formula(
    documents, question, neighbor_decay, relevance_power, bm25_weight
):
    settings = dict(
        BOTH,
        bm25_weight=bm25_weight,
        relevance_power=relevance_power,
        neighbor_decay=neighbor_decay,
    )
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(64, max_tokens=8),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=14, chunk_overlap=4, group_size=2),
    ) as rag:
        rag.add([SourceDocument(str(n), text) for n, text in enumerate(documents)])
        expected = relevance_by_formula(rag, question, settings)
        relevance = by_window(relevance_of(rag, question, settings).windows)
        assert relevance == about(expected)


def english(open_index, *lines):
    """Index lines as chunks, in an index that is English by its function words."""
    rag = open_index(**ONE_LINE_CHUNKS)
    rag.add([SourceDocument(str(n), f"It is the {line} of the") for n, line in enumerate(lines)])
    return rag


def test_bm25_finds_inflected_forms_below_the_word_itself(open_index):
    rag = english(open_index, "king died", "king dies", "queen slept", "king die", "prince spoke")
    found = relevance_of(rag, "die", BM25).bm25
    nodes = rag._session.snapshot().dense.window_nodes
    ids = [rag._session.snapshot().nodes.document[nodes[window]] for window in found[0].tolist()]
    assert ids[0] == 3
    assert sorted(ids[1:]) == [0, 1]
    assert found[1][1] / found[1][0] == pytest.approx(0.8, abs=0.05)


def test_a_rare_form_is_worth_no_more_than_the_word_of_the_question(open_index):
    lines = [*["meeting"] * 8, "meetings", *[f"word{n}" for n in range(20)]]
    rag = english(open_index, *lines)
    [*_, last], scores = relevance_of(rag, "meeting", BM25).bm25
    snapshot = rag._session.snapshot()
    assert snapshot.documents[snapshot.nodes.document[snapshot.dense.window_nodes[last]]] == "8"
    assert scores[-1] < scores[0]


def test_absent_function_words_do_not_lower_the_confidence_in_bm25(open_index):
    rag = english(open_index, "Anna needs oil by day 13", "Bert needs paint by day 14")
    short = relevance_of(rag, "anna day 13", BM25).bm25_confidence
    assert relevance_of(rag, "what should anna have by day 13", BM25).bm25_confidence >= 0.6 * short


class OneField(ChunkField):
    """A field in which one node has a cosine and a BM25 score."""

    def __init__(self, row, cosine=0.0, score=0.0):
        self.row, self.cosine, self.score = np.asarray([row]), cosine, score

    def nearest(self, vector, count, allowed):
        kept = allowed is None or allowed[self.row].all()
        return self.row[: int(kept)], np.asarray([self.cosine][: int(kept)])

    def matching(self, terms, weights, idf_power, count, allowed):
        return self.row, np.asarray([self.score])

    def reasons(self, query, rows):
        return {}


def with_field(rag, field, settings, **query):
    asked = Query("plum pie", options=(field,), vector=np.asarray([1.0, 0.0]), **query)
    snapshot = rag._session.snapshot()
    return Relevance(asked, snapshot, QuestionTerms(asked, snapshot.bm25, 1), **settings)


def test_a_chunk_counts_as_its_nearer_field_at_its_nearest_window(with_cosines):
    rag = with_cosines({"best": 0.9}, {"middle": 0.6}, {"worst": 0.3})
    found = with_field(rag, OneField(2, cosine=0.75), DENSE)
    # The cosines are now .9, .75 and .6, and the lowest of them counts as 0.
    assert by_window(found.windows) == about({0: 1, 2: 0.25, 1: 0})
    assert by_window(found.dense) == about({0: 0.9, 1: 0.6, 2: 0.3})
    assert found.of_node(2) == pytest.approx(0.3, abs=1e-6)
    farther = with_field(rag, OneField(2, cosine=0.1), DENSE)
    assert by_window(farther.windows) == about({0: 1, 1: 0.25, 2: 0})


def test_a_filter_applies_to_the_field(with_cosines):
    rag = with_cosines({"best": 0.9}, {"middle": 0.6}, {"worst": 0.3})
    allowed = np.asarray([True, True, False])
    found = with_field(rag, OneField(2, cosine=0.95), DENSE, allowed=allowed)
    assert by_window(found.windows) == about({0: 1, 1: 0})


def test_half_of_the_bm25_score_of_a_field_is_added_to_that_of_the_text(with_cosines):
    rag = with_cosines({"plum tart": 0.9}, {"plum": 0.6}, {"pear": 0.3})
    plain = relevance_of(rag, "plum pie", BM25)
    own = by_window(plain.bm25)
    found = with_field(rag, OneField(2, score=2 * own[1] + 2), BM25)
    assert by_window(found._matching) == pytest.approx({2: own[1] + 1, **own})
    both = with_field(rag, OneField(0, score=2.0), BM25)
    assert by_window(both._matching) == pytest.approx({0: own[0] + 1, 1: own[1]})


def test_words_that_only_a_field_contains_are_trusted(with_cosines):
    rag = with_cosines({"tart": 0.9}, {"pear": 0.6})
    assert relevance_of(rag, "plum pie", BM25).bm25_confidence == 0
    found = with_field(rag, OneField(1, score=9.0), BM25)
    assert found.bm25_confidence == 1
    assert by_window(found.windows) == about({1: 1})
