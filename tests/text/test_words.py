"""The tokenizers of BM25 and of extractive summaries, and word counts."""

from __future__ import annotations

from hypothesis import given

from e2graphrag_integrations.text.words import (
    bm25_terms,
    count_words,
    has_unspaced,
    sentence_terms,
)
from strategies import quick, texts


def test_words_are_runs_of_letters_and_digits():
    assert count_words("Mr. Darcy's 10,000 a year") == 7  # Mr Darcy s 10 000 a year
    assert count_words("... !") == 0


def test_bm25_terms_are_casefolded_words_and_bigrams_of_unspaced_scripts():
    assert bm25_terms("Anna's STRASSE, straße 42!") == ["anna", "s", "strasse", "strasse", "42"]
    assert bm25_terms("林黛玉 met 王") == ["林黛", "黛玉", "met", "王"]
    assert bm25_terms(" ...") == []


def test_tokenizers_agree_unless_a_word_mixes_scripts():
    for text in ("Anna's STRASSE, straße 42!", "林黛玉 met 王", " ..."):
        assert sentence_terms(text) == bm25_terms(text)
    assert bm25_terms("X光片") == ["x", "光片"]
    assert sentence_terms("X光片") == ["x光", "光片"]


@quick
@given(texts())
def test_bm25_terms_never_mix_scripts(text):
    for term in bm25_terms(text):
        assert not has_unspaced(term) or len(term) <= 2
