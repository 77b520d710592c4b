"""One shard, which others change while a coordinator reads it."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.errors import ClosedError, SettingsMismatchError
from e2graphrag_integrations.search.bm25 import BM25Index, CorpusStatistics
from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.shards.host import ShardBM25, ShardHost, ShardSpec
from e2graphrag_integrations.snapshot import files
from fakes import STORY, NameExtractor

WORDS = ["door", "roof", "red", "blue", "garden", "house"]


def test_the_words_are_those_of_the_snapshot_whatever_changes_next(tmp_path, monkeypatch):
    path = str(tmp_path / "shard.e2g")
    arguments = {"embedder": HashingEmbedder(), "models": Models(extractor=NameExtractor())}
    with E2GraphRAG.open(path, **arguments) as writer:
        writer.add(SourceDocument("story", STORY))
        host = ShardHost(ShardSpec(path, arguments))
        read = host._index.read_snapshot

        def read_before_a_change(work):
            found = read(work)
            writer.update(SourceDocument("story", f"Xerxes slept. {STORY}"))
            return found

        monkeypatch.setattr(host._index, "read_snapshot", read_before_a_change)
        try:
            directory = host.directory()
        finally:
            host.close()
    assert directory.words.n_texts == len(directory.snapshot.dense.window_nodes)
    assert "xerxes" not in directory.words.doc_freq


def test_what_the_coordinator_keeps_of_a_large_shard_can_be_sent(tmp_path, monkeypatch):
    """What is computed of a large snapshot is stored by functions that read its index."""
    monkeypatch.setattr(files, "_MIN_KEPT", 1)
    path = str(tmp_path / "shard.e2g")
    arguments = {"embedder": HashingEmbedder(), "models": Models(extractor=NameExtractor())}
    with E2GraphRAG.open(path, **arguments) as writer:
        writer.add(SourceDocument("story", STORY))
        writer.retrieve("Who met Anna?")
    host = ShardHost(ShardSpec(path, arguments))
    try:
        assert type(host._newest().preparation).__name__ == "KeptPreparation"
        sent = pickle.loads(pickle.dumps(host.directory()))  # noqa: S301 - made by this test
    finally:
        host.close()
    assert sent.snapshot.documents == ["story"]
    assert sent.snapshot.aliases.index is not None


def test_an_index_that_cannot_be_opened_is_the_error_of_a_request(tmp_path):
    path = str(tmp_path / "shard.e2g")
    with E2GraphRAG.open(path, embedder="hashing") as writer:
        writer.add(SourceDocument("story", STORY))
    host = ShardHost(ShardSpec(path, {"embedder": HashingEmbedder(dimension=8)}))
    with pytest.raises(SettingsMismatchError):
        host.directory()
    host.close()
    with pytest.raises(ClosedError, match="is closed"):
        host.generation()


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
