"""BM25 scores, compared with the independent implementation of bm25s."""

from __future__ import annotations

import bm25s
import numpy as np
import pytest

from e2graphrag_integrations.search.bm25 import build_bm25
from e2graphrag_integrations.text.words import terms_of

VOCABULARY = [f"word{n}" for n in range(300)] + ["林黛", "straße", "İstanbul", "O'Brien"]


@pytest.fixture(scope="module")
def corpus():
    """500 texts of 1 to 80 words, with a Zipf-like distribution of words."""
    random = np.random.default_rng(17)
    probability = 1 / (np.arange(len(VOCABULARY)) + 2.0)
    probability /= probability.sum()
    return [
        " ".join(random.choice(VOCABULARY, size=length, p=probability))
        for length in random.integers(1, 81, size=500)
    ]


@pytest.fixture(scope="module")
def queries():
    """500 queries of 1 to 12 words, rare and frequent, with repetitions and unknown words."""
    random = np.random.default_rng(18)
    words = [*VOCABULARY, "unknown"]
    lengths = random.integers(1, 13, size=500)
    return [terms_of(" ".join(random.choice(words, size=length))) for length in lengths]


@pytest.fixture(scope="module")
def oracle(corpus):
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index([terms_of(text) for text in corpus], show_progress=False)
    return index


def test_scores_equal_bm25s(corpus, queries, oracle):
    index = build_bm25(corpus)
    rows = np.arange(len(corpus))
    for query in queries:
        expected = oracle.get_scores(query)
        np.testing.assert_allclose(index.score_rows(query, rows), expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_search_ranks_as_bm25s(corpus, queries, oracle):
    index = build_bm25(corpus)
    for query in queries:
        expected = oracle.get_scores(query)
        found, scores = index.search(query, 20)
        best = np.sort(expected)[::-1][:20]
        np.testing.assert_allclose(scores, best[best > 0], rtol=0, atol=1e-5)
        np.testing.assert_allclose(expected[found], scores, rtol=0, atol=1e-5)
