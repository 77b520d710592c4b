"""Relevance of windows: the formula by hand, neighbors, and what may be seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.retrieval.relevance import Relevance, Weights
from e2graphrag_integrations.retrieval.strategy import Query
from fakes import CountingLLM, LineCounter, NameExtractor
from strategies import FakeEmbedder, WordCounter, quick

DENSE = Weights(dense=1, words=0, rarity=1, sharpness=2, share=0.5, length=200)
WORDS = replace(DENSE, dense=0, words=1)
BOTH = replace(DENSE, words=1)
LINES = {"token_counter": LineCounter(), "chunk_size": 1, "chunk_overlap": 0}


def query(rag, question, allowed=None):
    return Query(
        question=question,
        mode="auto",
        k=10,
        mentions=(),
        embed=lambda: rag._components.embedder.embed_question(question),
        allowed=allowed,
        read=list,
    )


def relevance(rag, question, weights, allowed=None, **options):
    return Relevance(query(rag, question, allowed), rag._reader.snapshot(), weights, **options)


def by_window(found):
    return {int(window): float(value) for window, value in zip(*found, strict=True)}


def about(expected):
    """Return what to compare with where the last of a list has next to nothing."""
    return pytest.approx(expected, abs=1e-4)


@pytest.fixture
def at(open_index):
    """Index texts by the cosine that each has with any question: one document, its lines chunks."""

    def make(*documents, **options):
        vectors = {t: [c, math.sqrt(1 - c * c)] for lines in documents for t, c in lines.items()}
        options = {"embedder": FakeEmbedder(vectors=vectors), **LINES, **options}
        rag = open_index(**options)
        rag.add([SourceDocument(str(n), "\n".join(lines)) for n, lines in enumerate(documents)])
        return rag

    return make


def test_cosines_are_scaled_between_the_lists_last_and_best_and_sharpened(at):
    rag = at({"best": 0.9}, {"middle": 0.6}, {"worst": 0.3})
    assert by_window(relevance(rag, "?", DENSE).windows) == about({0: 1, 1: 0.25, 2: 0})
    cubed = relevance(rag, "?", replace(DENSE, sharpness=3)).windows
    assert by_window(cubed) == about({0: 1, 1: 0.125, 2: 0})


def test_the_last_of_a_list_is_found_too(at):
    rag = at({"best": 0.9}, {"worst": 0.3})
    windows, values = relevance(rag, "?", DENSE).windows
    assert windows.tolist() == [0, 1]
    assert 0 < values[1] < 1e-3


def test_what_is_beyond_the_list_has_no_relevance(at):
    rag = at({"a": 0.9}, {"b": 0.6}, {"c": 0.3}, {"d": 0.3})
    found = relevance(rag, "?", replace(DENSE, length=3)).windows
    assert by_window(found) == about({0: 1, 1: 0.25, 2: 0})


def test_windows_that_are_all_alike_are_all_the_best(at):
    rag = at({"a": 0.4}, {"b": 0.4})
    assert by_window(relevance(rag, "?", DENSE).windows) == {0: 1, 1: 1}


def test_bm25_is_scaled_from_nothing_where_the_list_has_every_window_with_a_word(at):
    # One, four and one words, two on average: 1 / (1 + 1.5 (0.25 + 0.75 l / 2)) for each l.
    rag = at({"map": 0}, {"map of it all": 0}, {"else": 0})
    ratio = (1 + 1.5 * (0.25 + 0.75 / 2)) / (1 + 1.5 * (0.25 + 0.75 * 4 / 2))
    found = relevance(rag, "map", WORDS).windows
    assert by_window(found) == pytest.approx({0: 1, 1: ratio**2}, rel=1e-5)
    cut = relevance(rag, "map", replace(WORDS, length=2)).windows
    assert by_window(cut) == about({0: 1, 1: 0})


@pytest.mark.parametrize("rarity", [0, 1, 2.5])
def test_a_rare_word_counts_more_than_a_common_one_by_its_inverse_document_frequency(at, rarity):
    rag = at({"rare bird": 0}, {"common bird": 0}, {"common fish": 0}, {"other fish": 0})
    weights = replace(WORDS, rarity=rarity, sharpness=1)
    found = by_window(relevance(rag, "rare common", weights).windows)
    idf = math.log(1 + 2.5 / 2.5) / math.log(1 + 3.5 / 1.5)
    assert found == pytest.approx({0: 1, 1: idf ** (1 + rarity), 2: idf ** (1 + rarity)}, rel=1e-5)


def test_both_lists_are_added_by_their_weights(at):
    rag = at({"red map": 0.9}, {"blue map": 0.6}, {"red sea": 0.3})
    words = by_window(relevance(rag, "blue map?", replace(WORDS, sharpness=1)).windows)
    assert words == {0: words[0], 1: 1}
    assert 0 < words[0] < 0.5
    mixed = relevance(rag, "blue map?", replace(BOTH, dense=3)).windows
    assert by_window(mixed) == about(
        {0: ((3 + words[0]) / 4) ** 2, 1: ((3 * 0.5 + 1) / 4) ** 2, 2: 0}
    )


@pytest.mark.parametrize(("more", "unknown"), [("", 0), (" zed", 1), (" zed yak wug", 3)])
def test_words_count_as_far_as_they_match_what_is_rare_in_the_question(at, more, unknown):
    rag = at({"common bird": 0}, {"common fish": 0}, {"other fish": 0}, {"old sea": 0})
    common, rare = math.log(1 + 2.5 / 2.5) ** 2, math.log(1 + 4.5 / 0.5) ** 2
    found = relevance(rag, f"common{more}", replace(WORDS, sharpness=1))
    trust = min(1, 4 * common / (common + unknown * rare))
    assert found.trust == pytest.approx(trust)
    assert by_window(found.windows) == pytest.approx({0: trust, 1: trust})
    assert found.plain(np.array([0, 3])) == pytest.approx([trust, 0])


def test_without_a_word_in_common_words_are_not_relied_on(at):
    assert relevance(at({"map": 0}), "sea", WORDS).trust == 0
    assert relevance(at({"map": 0}), "?!", WORDS).trust == 0


def test_without_either_list_nothing_is_relevant(at):
    rag = at({"map": 1})
    neither = relevance(rag, "map", replace(DENSE, dense=0))
    assert len(neither.dense[0]) == len(neither.words[0]) == len(neither.windows[0]) == 0
    assert neither.plain(np.array([0])).tolist() == [0]


def test_an_empty_index_has_no_windows(open_index):
    found = relevance(open_index(), "map", BOTH)
    assert [len(part) for part in (*found.windows, *found.dense, *found.words)] == [0] * 6


def test_a_window_hands_its_share_to_the_next_and_that_one_on(at):
    rag = at({"a": 0, "b": 0, "c": 1, "d": 0})
    assert by_window(relevance(rag, "?", DENSE, leaves_only=True).windows) == about(
        {0: 0.25, 1: 0.5, 2: 1, 3: 0.5}
    )


def test_shares_from_both_sides_add_up_after_sharpening(at):
    rag = at({"a": 1, "b": 0, "c": 0.5})
    weights = replace(DENSE, share=0.1)
    assert by_window(relevance(rag, "?", weights, leaves_only=True).windows) == about(
        {0: 1 + 0.01 * 0.25, 1: 0.1 + 0.1 * 0.25, 2: 0.25 + 0.01}
    )


def test_relevance_reaches_eight_windows_on_either_side(at):
    rag = at({f"line {n}": float(n == 10) for n in range(21)})
    found = by_window(relevance(rag, "?", replace(DENSE, share=1), leaves_only=True).windows)
    assert found == about({n: float(abs(n - 10) <= 8) for n in range(21)})


def test_no_share_goes_to_another_document(at):
    rag = at({"a": 0, "b": 1}, {"c": 0, "d": 0})
    found = by_window(relevance(rag, "?", replace(DENSE, share=0.9), leaves_only=True).windows)
    assert found == about({0: 0.9, 1: 1, 3: 0, 4: 0})  # 2 is a summary


def test_no_share_goes_from_chunks_to_summaries_or_back(at):
    lines = {f"line {n}": float(n == 5) for n in range(6)}
    rag = at(lines, summarizer=CountingLLM(), group_size=3)
    snapshot = rag._reader.snapshot()
    levels = snapshot.nodes.level[snapshot.dense.nodes].tolist()
    assert levels == [0] * 6 + [1] * 2
    # The fake's vector for any other text is that of the question: both summaries are as near.
    found = by_window(relevance(rag, "?", DENSE).windows)
    assert [found[w] for w in (4, 5, 6, 7)] == about([0.5, 1, 1.5, 1.5])


def test_windows_of_one_chunk_are_neighbors(open_index):
    near = [1, 0]
    far = [0, 1]
    windows = {"Red fish swims.": far, "Blue fish sinks.": near, "Old fish sleeps.": far}
    embedder = FakeEmbedder(max_tokens=3, tokens=WordCounter(), vectors=windows)
    rag = open_index(embedder=embedder, chunk_size=100)
    rag.add(SourceDocument("d", " ".join(windows)))
    assert rag.stats().chunks == 1
    assert by_window(relevance(rag, "?", DENSE).windows) == about({0: 0.5, 1: 1, 2: 0.5})


def test_without_summaries_their_windows_are_in_no_list(at):
    rag = at({"line a": 1, "line b": 0.5}, summarizer=CountingLLM(), group_size=2)
    both = relevance(rag, "digest line", BOTH)
    assert 2 in both.dense[0]
    assert 2 in both.words[0]
    leaves = relevance(rag, "digest line", BOTH, leaves_only=True)
    for windows, _ in (leaves.dense, leaves.words, leaves.windows):
        assert sorted(windows.tolist()) == [0, 1]
    allowed = np.array([False, True, True])
    one = relevance(rag, "digest line", BOTH, allowed, leaves_only=True)
    assert one.windows[0].tolist() == one.dense[0].tolist() == one.words[0].tolist() == [1]


def test_what_may_not_be_seen_neither_has_relevance_nor_hands_it_on(at):
    rag = at({"a": 0.2, "b": 1, "c": 0.1})
    allowed = rag._reader.snapshot().nodes.level == 0
    allowed[1] = False
    found = relevance(rag, "b", BOTH, allowed)
    assert len(found.words[0]) == 0
    # The list begins anew with what may be seen; a third of the way is two windows.
    assert by_window(found.windows) == about({0: 0.25, 2: 0.25 * 0.25})


def test_where_nothing_may_be_seen_nothing_is_relevant(at):
    rag = at({"a": 0.2, "b": 1})
    found = relevance(rag, "a b", BOTH, np.zeros(3, dtype=bool))
    assert [len(part) for part in (*found.windows, *found.dense, *found.words)] == [0] * 6


def test_plain_relevance_leaves_neighbors_out_and_goes_by_each_lists_best(at):
    rag = at({"red map": 0.8, "map": -0.4, "sea": 0.2})
    windows = np.array([2, 0, 1])

    def plain(weights):
        return relevance(rag, "red map?", weights, leaves_only=True).plain(windows)

    assert plain(DENSE) == pytest.approx([0.25, 1, 0])
    scores = by_window(relevance(rag, "red map?", WORDS, leaves_only=True).words)
    part = scores[1] / scores[0]
    assert plain(WORDS) == pytest.approx([0, 1, part])
    assert plain(replace(BOTH, words=2)) == pytest.approx([0.25, 1 + 2, 2 * part])


def test_beyond_the_list_the_cosine_of_its_last_window_stands_in_plain_relevance(at):
    rag = at({"a": 0.8}, {"b": 0.4}, {"c": 0.2})
    found = relevance(rag, "?", replace(DENSE, length=2)).plain(np.array([2, 1, 0]))
    assert found == pytest.approx([0.5, 0.5, 1])


def test_where_nothing_is_near_plain_relevance_is_nothing(at):
    rag = at({"a": -0.2}, {"b": -0.4})
    assert relevance(rag, "?", DENSE).plain(np.array([0, 1])).tolist() == [0, 0]


WORD = st.sampled_from(["map", "sea", "Anna", "Bert", "harbour", "ran", "量子", "!"])
SENTENCE = st.lists(WORD, min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")
TEXT = st.lists(SENTENCE, min_size=1, max_size=12).map(" ".join)


def worked_out(rag, question, weights):
    """Return the relevance of every window, each asking every other."""
    snapshot = rag._reader.snapshot()
    nodes, owners = snapshot.nodes, snapshot.dense.nodes
    found = relevance(rag, question, weights)
    cosines, bm25 = by_window(found.dense), by_window(found.words)
    vectors = snapshot.dense.vectors @ rag._components.embedder.embed_question(question)
    assert cosines == pytest.approx(dict(enumerate(vectors.tolist())), abs=1e-6)

    def sharp(window):
        least, most = min(cosines.values()), max(cosines.values())
        alike = most - least < 1e-6  # vector stores round their last digits
        dense = 1.0 if alike else (cosines[window] - least) / (most - least)
        words = bm25.get(window, 0) / max(bm25.values(), default=1)
        both = weights.dense * dense + weights.words * found.trust * words
        return (both / (weights.dense + weights.words)) ** weights.sharpness

    def place(window):
        row = owners[window]
        return int(nodes.document[row]), int(nodes.level[row])

    return {
        window: sum(
            weights.share ** abs(window - other) * sharp(other)
            for other in range(len(owners))
            if place(other) == place(window) and abs(window - other) <= 8
        )
        for window in range(len(owners))
    }


@quick
@given(
    documents=st.lists(TEXT, min_size=1, max_size=3),
    question=SENTENCE,
    share=st.sampled_from([0, 0.3, 0.6, 1]),
    sharpness=st.sampled_from([2, 3]),
    words=st.sampled_from([0.5, 1, 3]),
)
def test_relevance_is_what_the_formula_gives_worked_out_for_each_window_alone(
    documents, question, share, sharpness, words
):
    weights = Weights(1, words, 1, sharpness, share, 200)
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(64, max_tokens=8),
        extractor=NameExtractor(),
        chunk_size=14,
        chunk_overlap=4,
        group_size=2,
    ) as rag:
        rag.add([SourceDocument(str(n), text) for n, text in enumerate(documents)])
        expected = worked_out(rag, question, weights)
        found = by_window(relevance(rag, question, weights).windows)
        assert found == about(expected)
