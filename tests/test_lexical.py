"""BM25 over nodes, against its formula worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.lexical import build_lexical, words_of

TEXTS = ["Anna met Bert.", "Bert saw Bert.", "Cleo"]
CHUNKS = np.asarray([True, True, False])


def bm25(texts, word, row):
    corpus = [words_of(text) for text in texts]
    mean = sum(map(len, corpus)) / len(corpus)
    held = sum(word in words for words in corpus)
    idf = math.log(1 + (len(corpus) - held + 0.5) / (held + 0.5))
    count = corpus[row].count(word)
    return idf * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(corpus[row]) / mean))


def test_words_are_casefolded_and_scripts_without_spaces_give_pairs():
    assert words_of("Anna's STRASSE, straße 42!") == ["anna", "s", "strasse", "strasse", "42"]
    assert words_of("林黛玉 met 王") == ["林黛", "黛玉", "met", "王"]
    assert words_of(" ...") == []


def test_scores_are_those_of_the_formula():
    index = build_lexical(TEXTS, CHUNKS)
    found = dict(index.search(["bert", "met", "unknown"], 10))
    assert found == {
        0: pytest.approx(bm25(TEXTS, "bert", 0) + bm25(TEXTS, "met", 0), rel=1e-5),
        1: pytest.approx(bm25(TEXTS, "bert", 1), rel=1e-5),
    }


def test_idf_is_of_chunks_alone():
    index = build_lexical(TEXTS, CHUNKS)
    assert index.idf("bert") == pytest.approx(math.log(3 / 3))
    assert index.idf("anna") == pytest.approx(math.log(3 / 2))
    assert index.idf("cleo") == index.idf("unknown") == pytest.approx(math.log(3 / 1))


def test_nothing_is_found_in_nothing():
    for texts in ([], ["", " "]):
        index = build_lexical(texts, np.ones(len(texts), dtype=np.bool_))
        assert index.search(["anna"], 5) == []
        assert index.idf("anna") >= 0


texts = st.lists(st.text("ab c", max_size=12), max_size=8)


@given(texts, st.lists(st.sampled_from("abc"), max_size=4), st.integers(1, 9), st.data())
def test_search_is_the_sum_over_words_cut_and_masked(some, words, count, data):
    index = build_lexical(some, np.ones(len(some), dtype=np.bool_))
    allowed = np.asarray(data.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some))))
    allowed = allowed.astype(np.bool_)
    whole = index.search(words, len(some) + 1)
    expected = {
        row: sum(bm25(some, word, row) for word in words)
        for row in range(len(some))
        if any(word in words_of(some[row]) for word in words)
    }
    assert dict(whole) == {row: pytest.approx(s, rel=1e-4) for row, s in expected.items()}
    assert [s for _, s in whole] == sorted((s for _, s in whole), reverse=True)
    kept = [(row, score) for row, score in whole if allowed[row]]
    assert index.search(words, count, allowed) == kept[:count]
