"""One shard, which others change while a coordinator reads it."""

from __future__ import annotations

import pickle

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.errors import ClosedError, SettingsMismatchError
from e2graphrag_integrations.shards.host import ShardHost, ShardSpec
from e2graphrag_integrations.snapshot import files
from fakes import STORY, NameExtractor


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
