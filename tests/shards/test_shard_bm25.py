"""BM25 of a shard, with terms that are too frequent to retrieve texts by themselves."""

from __future__ import annotations

import random

import numpy as np
import pytest

from e2graphrag_integrations.search.bm25 import BM25Index, CorpusStatistics
from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.shards.shard_bm25 import ShardBM25

WORDS = ["door", "roof", "red", "blue", "garden", "house"]


@pytest.mark.parametrize("limit", [3, 100_000])
def test_shards_score_as_one_index(limit):
    chosen = random.Random(3)  # noqa: S311 - test data
    texts = [" ".join(chosen.choices(WORDS, [9, 5, 4, 3, 1, 1], k=6)) for _ in range(40)]
    whole = BM25Index.of(read_postings(texts))
    whole = BM25Index(whole.parts, whole.n_texts, limit)
    corpus = CorpusStatistics(
        whole.n_texts, whole.mean_length, {word: whole.doc_freq(word) for word in WORDS}
    )
    merged = []
    for number in range(4):
        rows = np.arange(number, len(texts), 4)
        own = BM25Index.of(read_postings(texts[number::4]))
        shard = ShardBM25(own.parts, own.n_texts, limit, corpus)
        found, scores = shard.search(["garden", "door", "house", "red"], 8, idf_power=1.0)
        merged += zip((-scores).tolist(), rows[found].tolist(), strict=True)
    expected, scores = whole.search(["garden", "door", "house", "red"], 8, idf_power=1.0)
    assert sorted(merged)[:8] == list(zip((-scores).tolist(), expected.tolist(), strict=True))


def test_a_word_of_other_shards_is_in_no_text_of_a_shard():
    own = BM25Index.of(read_postings(["a red door"]))
    corpus = CorpusStatistics(9, 3.0, {"red": 1, "roof": 8})
    shard = ShardBM25(own.parts, own.n_texts, 3, corpus)
    assert shard.search(["roof", "red"], 5)[0].tolist() == [0]
    assert shard.search(["roof"], 5)[0].tolist() == []
    assert ShardBM25(own.parts, own.n_texts).doc_freq("red") == 0
