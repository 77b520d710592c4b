"""BM25 over nodes, against its formula worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.bm25 import build_bm25, merge_bm25, tokenize

TEXTS = ["Anna met Bert.", "Bert saw Bert.", "Cleo"]


def idf(texts, word):
    held = sum(word in tokenize(text) for text in texts)
    return math.log(1 + (len(texts) - held + 0.5) / (held + 0.5))


def bm25(texts, word, row):
    corpus = [tokenize(text) for text in texts]
    mean = sum(map(len, corpus)) / len(corpus)
    count = corpus[row].count(word)
    return idf(texts, word) * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(corpus[row]) / mean))


def test_words_are_casefolded_and_scripts_without_spaces_give_pairs():
    assert tokenize("Anna's STRASSE, straße 42!") == ["anna", "s", "strasse", "strasse", "42"]
    assert tokenize("林黛玉 met 王") == ["林黛", "黛玉", "met", "王"]
    assert tokenize(" ...") == []


def found(index, words, count, allowed=None, **options):
    rows, scores = index.best(words, count, allowed, **options)
    return list(zip(rows.tolist(), scores.tolist(), strict=True))


def scores_of(index, words, **options):
    return index.at(words, np.arange(index.weights.shape[0]), **options)


def test_scores_are_those_of_the_formula():
    index = build_bm25(TEXTS)
    assert dict(found(index, ["bert", "met", "unknown"], 10)) == {
        0: pytest.approx(bm25(TEXTS, "bert", 0) + bm25(TEXTS, "met", 0), rel=1e-5),
        1: pytest.approx(bm25(TEXTS, "bert", 1), rel=1e-5),
    }


def test_the_vocabulary_is_sorted():
    assert list(build_bm25(TEXTS).words) == ["anna", "bert", "cleo", "met", "saw"]


def test_every_text_has_a_score():
    scores = scores_of(build_bm25(TEXTS), ["met", "cleo"])
    expected = [bm25(TEXTS, "met", 0), 0, bm25(TEXTS, "cleo", 2)]
    assert scores.tolist() == pytest.approx(expected, rel=1e-5)
    assert scores_of(build_bm25(TEXTS), ["unknown"]).tolist() == [0, 0, 0]


def test_a_word_given_twice_counts_twice():
    index = build_bm25(TEXTS)
    twice, once = scores_of(index, ["bert", "bert"]), scores_of(index, ["bert"])
    assert once[0] > 0
    assert twice.tolist() == (2 * once).tolist()


def test_rarity_multiplies_a_word_by_a_power_of_its_idf():
    index = build_bm25(TEXTS)
    # "bert" is in two texts of three, "met" in one: ln(1 + 1.5 / 2.5) and ln(1 + 2.5 / 1.5).
    bert, met = math.log(1.6), math.log(8 / 3)
    for rarity in (0, 0.5, 1, 3):
        expected = bm25(TEXTS, "bert", 0) * bert**rarity + bm25(TEXTS, "met", 0) * met**rarity
        scores = scores_of(index, ["bert", "met"], rarity=rarity)
        assert scores[0] == pytest.approx(expected, rel=1e-5)
        rows = found(index, ["bert", "met"], 1, rarity=rarity)
        assert rows == [(int(scores.argmax()), pytest.approx(scores.max()))]


def test_with_rarity_one_rare_word_outweighs_many_common_ones():
    index = build_bm25([*["the of and"] * 7, f"a zebra {'was here ' * 9}"])
    question = [*["the", "of", "and"] * 3, "zebra"]
    assert found(index, question, 1)[0][0] == 0
    assert found(index, question, 1, rarity=1)[0][0] == 7


def test_ties_go_to_the_earlier_text():
    index = build_bm25(["b", "a x", "a y", "a z"])
    assert [row for row, _ in found(index, ["a"], 2)] == [1, 2]


@pytest.mark.parametrize("some", [[], ["", " "]])
def test_nothing_is_found_in_nothing(some):
    index = build_bm25(some)
    assert found(index, ["anna"], 5) == []
    assert scores_of(index, ["anna"]).tolist() == [0] * len(some)


texts = st.lists(st.text("ab c", max_size=12), max_size=8)


@given(
    texts,
    st.lists(st.sampled_from("abc"), max_size=4),
    st.integers(1, 9),
    st.sampled_from([0, 0.5, 1, 2]),
    st.data(),
)
def test_search_is_the_sum_over_words_cut_and_masked(some, words, count, rarity, data):
    index = build_bm25(some)
    allowed = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some))))
    allowed = allowed.astype(np.bool_)
    whole = found(index, words, len(some) + 1, rarity=rarity)
    expected = {
        row: sum(bm25(some, word, row) * idf(some, word) ** rarity for word in words)
        for row in range(len(some))
        if any(word in tokenize(some[row]) for word in words)
    }
    assert dict(whole) == {row: pytest.approx(s, rel=1e-4) for row, s in expected.items()}
    assert whole == sorted(whole, key=lambda one: (-one[1], one[0]))
    kept = [(row, score) for row, score in whole if allowed[row]]
    assert found(index, words, count, allowed, rarity=rarity) == kept[:count]


@given(
    texts,
    st.lists(st.sampled_from("abc"), max_size=4),
    st.integers(1, 9),
    st.sampled_from([0, 0.5, 1, 2]),
    st.integers(0, 4),
    st.data(),
)
def test_common_words_only_add_to_what_rarer_ones_find(some, words, count, rarity, common, data):
    whole = build_bm25(some)
    index = replace(whole, common=common)
    allowed = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some))))
    allowed = allowed.astype(np.bool_)
    holders = {word: [word in tokenize(text) for text in some] for word in set(words)}
    rare = [word for word in words if 0 < sum(holders[word]) <= common]
    finding = rare or words
    kept = [
        (row, score)
        for row, score in found(whole, words, len(some) + 1, allowed, rarity=rarity)
        if any(holders[word][row] for word in finding)
    ]
    best = found(index, words, count, allowed, rarity=rarity)
    assert [score for _, score in best] == pytest.approx([s for _, s in kept][:count], rel=1e-5)
    assert {row for row, _ in best} <= {row for row, _ in kept}


@given(texts, st.lists(st.sampled_from("abc"), max_size=4), st.sampled_from([0, 1]))
def test_scores_of_some_texts_are_those_of_the_search(some, words, rarity):
    index = build_bm25(some)
    rows, scores = index.best(words, len(some) + 1, rarity=rarity)
    np.testing.assert_allclose(index.at(words, rows, rarity=rarity), scores, rtol=1e-6)


def arrays(index):
    weights = index.weights
    parts = weights.data, weights.indices, weights.indptr, index.counts, index.lengths
    return list(index.words), [(part.dtype, part.tolist()) for part in parts]


@given(st.lists(st.tuples(st.text("ab c", max_size=12), st.sampled_from("gon")), max_size=9))
def test_an_index_put_together_is_the_one_made_of_all_texts(drawn):
    # Of each text: whether it is in the older index alone, in both, or in the new one alone.
    older = [(text, kind) for text, kind in drawn if kind != "n"]
    now = [(text, kind) for text, kind in drawn if kind != "g"]
    old_rows = [row for row, (_, kind) in enumerate(now) if kind == "o"]
    new_rows = [row for row, (_, kind) in enumerate(now) if kind == "n"]
    of_older = iter(old_rows)
    parts = [
        (
            build_bm25(text for text, _ in older),
            np.asarray([-1 if kind == "g" else next(of_older) for _, kind in older], dtype=int),
        ),
        (build_bm25(now[row][0] for row in new_rows), np.asarray(new_rows, dtype=int)),
    ]
    assert arrays(merge_bm25(parts, len(now))) == arrays(build_bm25(text for text, _ in now))


def test_counts_take_as_few_bytes_as_they_can():
    few, many = build_bm25(["a b"]), build_bm25(["a " * 300, "b"])
    assert (few.counts.dtype, many.counts.dtype) == (np.uint8, np.uint16)
    rows = np.asarray([-1, 0])
    assert merge_bm25([(many, rows)], 1).counts.dtype == np.uint8
    together = merge_bm25([(few, np.asarray([0])), (many, np.asarray([1, 2]))], 3)
    assert arrays(together) == arrays(build_bm25(["a b", "a " * 300, "b"]))


@given(st.lists(st.integers(0, 30), min_size=40, max_size=60), st.integers(1, 8), st.data())
def test_the_best_of_many_are_found_by_what_a_sample_has_at_least(drawn, count, data):
    some = [" ".join(["a"] * (n % 4) + ["b"] * (n % 3) + ["c"] * (n % 11)) for n in drawn]
    whole = build_bm25(some)
    allowed = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some))))
    index = replace(whole, common=len(some) - 1)
    for mask in (None, allowed.astype(np.bool_)):
        every = dict(found(whole, ["a", "b", "c"], len(some), mask))
        best = found(index, ["a", "b", "c"], count, mask)
        assert [score for _, score in best] == pytest.approx(sorted(every.values())[::-1][:count])
        assert dict(best) == pytest.approx({row: every[row] for row, _ in best})
