"""BM25 search, compared with its formula."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.strings import StringArray, StringIndex
from e2graphrag_integrations.search.bm25 import (
    BM25Index,
    BM25Part,
    CorpusStatistics,
    append_bm25,
    build_bm25,
    merge_bm25,
)
from e2graphrag_integrations.search.term_postings import TermPostings, read_postings
from e2graphrag_integrations.text.words import terms_of

TEXTS = ["Anna met Bert.", "Bert saw Bert.", "Cleo"]


def idf(texts, term):
    doc_freq = sum(term in terms_of(text) for text in texts)
    return math.log(1 + (len(texts) - doc_freq + 0.5) / (doc_freq + 0.5))


def bm25(texts, term, row):
    corpus = [terms_of(text) for text in texts]
    mean = sum(map(len, corpus)) / len(corpus)
    tf = corpus[row].count(term)
    return idf(texts, term) * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * len(corpus[row]) / mean))


def search(index, terms, count, allowed=None, **options):
    """Return (row, score) pairs."""
    rows, scores = index.search(terms, count, allowed, **options)
    return list(zip(rows.tolist(), scores.tolist(), strict=True))


def all_scores(index, terms, **options):
    return index.score_rows(terms, np.arange(index.n_texts), **options)


def test_tokenize_casefolds_words_and_splits_unspaced_scripts_into_bigrams():
    assert terms_of("Anna's STRASSE, straße 42!") == ["anna", "s", "strasse", "strasse", "42"]
    assert terms_of("林黛 met 王") == ["林", "黛", "林黛", "met", "王"]
    assert terms_of(" ...") == []


def test_scores_match_the_formula():
    index = build_bm25(TEXTS)
    assert dict(search(index, ["bert", "met", "unknown"], 10)) == {
        0: pytest.approx(bm25(TEXTS, "bert", 0) + bm25(TEXTS, "met", 0), rel=1e-5),
        1: pytest.approx(bm25(TEXTS, "bert", 1), rel=1e-5),
    }


def test_weights_multiply_the_scores_of_terms():
    index, weights = build_bm25(TEXTS), {"bert": 0.5, "unknown": 9.0}
    assert dict(search(index, ["bert", "met", "unknown"], 10, weights=weights)) == {
        0: pytest.approx(bm25(TEXTS, "bert", 0) / 2 + bm25(TEXTS, "met", 0), rel=1e-5),
        1: pytest.approx(bm25(TEXTS, "bert", 1) / 2, rel=1e-5),
    }
    single = index.reference_score(["bert"], weights=weights)
    assert single == pytest.approx(index.reference_score(["bert"]) / 2)


def test_vocabulary_is_sorted():
    assert list(build_bm25(TEXTS).postings.vocabulary) == ["anna", "bert", "cleo", "met", "saw"]


def test_score_rows_scores_every_text():
    scores = all_scores(build_bm25(TEXTS), ["met", "cleo"])
    expected = [bm25(TEXTS, "met", 0), 0, bm25(TEXTS, "cleo", 2)]
    assert scores.tolist() == pytest.approx(expected, rel=1e-5)
    assert all_scores(build_bm25(TEXTS), ["unknown"]).tolist() == [0, 0, 0]


def test_repeated_term_counts_twice():
    index = build_bm25(TEXTS)
    twice, once = all_scores(index, ["bert", "bert"]), all_scores(index, ["bert"])
    assert once[0] > 0
    assert twice.tolist() == (2 * once).tolist()


def test_rarity_multiplies_each_term_by_a_power_of_its_idf():
    index = build_bm25(TEXTS)
    # "bert" is in two texts of three, "met" in one: ln(1 + 1.5 / 2.5) and ln(1 + 2.5 / 1.5).
    bert, met = math.log(1.6), math.log(8 / 3)
    for idf_power in (0, 0.5, 1, 3):
        expected = bm25(TEXTS, "bert", 0) * bert**idf_power + bm25(TEXTS, "met", 0) * met**idf_power
        scores = all_scores(index, ["bert", "met"], idf_power=idf_power)
        assert scores[0] == pytest.approx(expected, rel=1e-5)
        best = search(index, ["bert", "met"], 1, idf_power=idf_power)
        assert best == [(int(scores.argmax()), pytest.approx(scores.max()))]


def test_with_rarity_one_rare_term_outweighs_many_common_terms():
    index = build_bm25([*["the of and"] * 7, f"a zebra {'was here ' * 9}"])
    query = [*["the", "of", "and"] * 3, "zebra"]
    assert search(index, query, 1)[0][0] == 0
    assert search(index, query, 1, idf_power=1)[0][0] == 7


def test_reference_score_is_that_of_a_text_of_mean_length():
    texts = ["anna met bert", "bert saw cleo", "dora met dora"]  # all of mean length
    index = build_bm25(texts)
    expected = all_scores(index, ["anna", "met"])[0]
    assert index.reference_score(["anna", "met"]) == pytest.approx(expected, rel=1e-5)


def test_earlier_text_wins_ties():
    index = build_bm25(["b", "a x", "a y", "a z"])
    assert [row for row, _ in search(index, ["a"], 2)] == [1, 2]


@pytest.mark.parametrize("texts", [[], ["", " "]], ids=["no_texts", "blank_texts"])
def test_empty_texts_match_nothing(texts):
    index = build_bm25(texts)
    assert search(index, ["anna"], 5) == []
    assert all_scores(index, ["anna"]).tolist() == [0] * len(texts)


text_lists = st.lists(st.text("ab c", max_size=12), max_size=8)
term_lists = st.lists(st.sampled_from("abc"), max_size=4)


def draw_mask(data, size):
    bits = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.asarray(bits, dtype=np.bool_)


@given(text_lists, term_lists, st.integers(1, 9), st.sampled_from([0, 0.5, 1, 2]), st.data())
def test_search_returns_the_best_allowed_sums_over_terms(texts, terms, count, idf_power, data):
    index = build_bm25(texts)
    allowed = draw_mask(data, len(texts))
    ranking = search(index, terms, len(texts) + 1, idf_power=idf_power)
    expected = {
        row: sum(bm25(texts, term, row) * idf(texts, term) ** idf_power for term in terms)
        for row in range(len(texts))
        if any(term in terms_of(texts[row]) for term in terms)
    }
    assert dict(ranking) == {row: pytest.approx(s, rel=1e-4) for row, s in expected.items()}
    assert ranking == sorted(ranking, key=lambda hit: (-hit[1], hit[0]))
    filtered = [(row, score) for row, score in ranking if allowed[row]]
    assert search(index, terms, count, allowed, idf_power=idf_power) == filtered[:count]


@given(
    text_lists,
    term_lists,
    st.integers(1, 9),
    st.sampled_from([0, 0.5, 1, 2]),
    st.integers(0, 4),
    st.data(),
)
def test_frequent_terms_only_add_to_texts_found_by_rarer_terms(
    texts, terms, count, idf_power, max_doc_freq, data
):
    unlimited = build_bm25(texts)
    index = replace(unlimited, max_doc_freq=max_doc_freq)
    allowed = draw_mask(data, len(texts))
    contains = {term: [term in terms_of(text) for text in texts] for term in set(terms)}
    rare = [term for term in terms if 0 < sum(contains[term]) <= max_doc_freq]
    expected = [
        (row, score)
        for row, score in search(unlimited, terms, len(texts) + 1, allowed, idf_power=idf_power)
        if any(contains[term][row] for term in rare or terms)
    ]
    found = search(index, terms, count, allowed, idf_power=idf_power)
    scores = [score for _, score in found]
    assert scores == pytest.approx([score for _, score in expected][:count], rel=1e-5)
    assert {row for row, _ in found} <= {row for row, _ in expected}


@given(text_lists, term_lists, st.sampled_from([0, 1]))
def test_score_rows_matches_the_scores_of_search(texts, terms, idf_power):
    index = build_bm25(texts)
    rows, scores = index.search(terms, len(texts) + 1, idf_power=idf_power)
    np.testing.assert_allclose(
        index.score_rows(terms, rows, idf_power=idf_power), scores, rtol=1e-6
    )


@given(st.lists(st.integers(0, 30), min_size=40, max_size=60), st.integers(1, 8), st.data())
def test_pruned_search_finds_the_same_best_texts(drawn, count, data):
    texts = [" ".join(["a"] * (n % 4) + ["b"] * (n % 3) + ["c"] * (n % 11)) for n in drawn]
    unpruned = build_bm25(texts)
    index = replace(unpruned, max_doc_freq=len(texts) - 1)
    weights = data.draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.1, 5.0])))
    for mask in (None, draw_mask(data, len(texts))):
        expected = dict(search(unpruned, ["a", "b", "c"], len(texts), mask, weights=weights))
        found = search(index, ["a", "b", "c"], count, mask, weights=weights)
        best_scores = sorted(expected.values(), reverse=True)[:count]
        assert [score for _, score in found] == pytest.approx(best_scores)
        assert dict(found) == pytest.approx({row: expected[row] for row, _ in found})


def arrays(index):
    postings = index.postings
    counts = postings.counts
    parts = counts.data, counts.indices, counts.indptr, postings.lengths
    return list(postings.vocabulary), [(part.dtype, part.tolist()) for part in parts]


@given(
    st.lists(
        st.tuples(st.text("ab c", max_size=12), st.sampled_from(["deleted", "kept", "new"])),
        max_size=9,
    )
)
def test_merged_index_equals_one_built_from_all_texts(drawn):
    older = [(text, state) for text, state in drawn if state != "new"]
    current = [(text, state) for text, state in drawn if state != "deleted"]
    kept_rows = [row for row, (_, state) in enumerate(current) if state == "kept"]
    new_rows = [row for row, (_, state) in enumerate(current) if state == "new"]
    next_kept = iter(kept_rows)
    older_rows = [-1 if state == "deleted" else next(next_kept) for _, state in older]
    parts = [
        (build_bm25(text for text, _ in older), np.asarray(older_rows, dtype=int)),
        (build_bm25(current[row][0] for row in new_rows), np.asarray(new_rows, dtype=int)),
    ]
    merged = merge_bm25(parts, len(current))
    assert arrays(merged) == arrays(build_bm25(text for text, _ in current))


def test_counts_use_the_smallest_integer_type():
    few, many = build_bm25(["a b"]), build_bm25(["a " * 300, "b"])
    assert (few.postings.counts.dtype, many.postings.counts.dtype) == (np.uint8, np.uint16)
    rows = np.asarray([-1, 0])
    assert merge_bm25([(many, rows)], 1).postings.counts.dtype == np.uint8
    merged = merge_bm25([(few, np.asarray([0])), (many, np.asarray([1, 2]))], 3)
    assert arrays(merged) == arrays(build_bm25(["a b", "a " * 300, "b"]))


@given(st.lists(st.tuples(text_lists, st.lists(st.booleans(), min_size=8, max_size=8)), max_size=3))
def test_appended_texts_score_as_in_one_index(steps):
    texts = ["a b", "b c c", "a"]
    index = build_bm25(texts)
    for added, is_kept in steps:
        kept = [row for row in range(len(texts)) if row >= len(is_kept) or is_kept[row]]
        texts = [texts[row] for row in kept] + added
        rows = np.full(index.n_texts, -1)
        rows[kept] = np.arange(len(kept))
        newer_rows = np.arange(len(kept), len(texts))
        index = append_bm25([(index, rows), (build_bm25(added), newer_rows)], len(texts))
        expected = build_bm25(texts)
        assert arrays(index) == arrays(expected)
        for limit in (100, 1):
            one, other = (replace(i, max_doc_freq=limit) for i in (index, expected))
            assert search(one, ["a", "b", "c"], 3) == search(other, ["a", "b", "c"], 3)
        assert all_scores(index, ["a", "c"]).tolist() == all_scores(expected, ["a", "c"]).tolist()


def test_statistics_of_a_corpus_make_scores_of_its_parts_comparable():
    whole = build_bm25(TEXTS)
    terms = whole.postings.vocabulary
    corpus = CorpusStatistics(
        len(TEXTS), whole.mean_length, {term: whole.doc_freq(term) for term in terms}
    )
    part = replace(build_bm25(TEXTS[:2]), corpus=corpus)
    assert (
        all_scores(part, ["bert", "met"]).tolist()
        == all_scores(whole, ["bert", "met"])[:2].tolist()
    )


def test_an_index_of_several_parts_knows_which_texts_contain_which_terms():
    parts = [(["anna met ben", "ben"], [2, 0]), (["the anna"], [1])]
    index = BM25Index(
        [BM25Part(read_postings(texts), np.array(rows)) for texts, rows in parts], n_texts=3
    )
    rows = np.array([0, 1, 2, 1])
    expected = [[False, True, True, True], [True, False, True, False], [False] * 4]
    assert index.contain(["anna", "ben", "carl"], rows).tolist() == expected
    assert (index.saturations(["anna", "ben", "carl"], rows) > 0).tolist() == expected
    assert index.score_rows([], rows).tolist() == [0, 0, 0, 0]


@pytest.mark.slow
def test_terms_of_many_are_found_without_a_dictionary():
    postings = build_bm25([" ".join(f"term{n}" for n in range(25_000))]).postings
    stored = TermPostings(StringArray.of(postings.vocabulary), postings.counts, postings.lengths)
    assert isinstance(stored.columns, StringIndex)
    for term in ("term0", "term24999", "absent"):
        assert stored.column_of(term) == postings.columns.get(term)
