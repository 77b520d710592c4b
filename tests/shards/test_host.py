"""One shard, which others change while a coordinator reads it."""

from __future__ import annotations

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.shards.host import ShardHost, ShardSpec
from fakes import STORY, NameExtractor


def test_the_words_are_those_of_the_snapshot_whatever_changes_next(tmp_path, monkeypatch):
    path = str(tmp_path / "shard.e2g")
    arguments = {"embedder": HashingEmbedder(), "models": Models(extractor=NameExtractor())}
    with E2GraphRAG.open(path, **arguments) as writer:
        writer.add(SourceDocument("story", STORY))
        host = ShardHost(ShardSpec(path, arguments))
        read = host._rag.read_snapshot

        def read_before_a_change(work):
            found = read(work)
            writer.update(SourceDocument("story", f"Xerxes slept. {STORY}"))
            return found

        monkeypatch.setattr(host._rag, "read_snapshot", read_before_a_change)
        try:
            directory = host.directory()
        finally:
            host.close()
    assert directory.words.n_texts == len(directory.snapshot.dense.window_nodes)
    assert "xerxes" not in directory.words.doc_freq
