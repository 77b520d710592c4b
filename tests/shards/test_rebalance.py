"""Copying an index to another number of shards."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, SourceDocument
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    StoreLockedError,
)
from e2graphrag_integrations.shards.index import open_shards
from e2graphrag_integrations.shards.merging import shard_of
from e2graphrag_integrations.shards.rebalance import rebalance
from e2graphrag_integrations.shards.shards_file import create_shards
from fakes import CountingLLM, NameExtractor

MODELS = Models(extractor=NameExtractor())
TEXT = "Anna met Bert in Oslo on day {}. Bert gave Anna a map. Cleo watched from the bridge. "


def create(folder, count=3):
    settings = IndexSettings(chunk_size=10, chunk_overlap=0)
    create_shards(folder / "x.shards.json", count, embedder="hashing", settings=settings)
    model = CountingLLM()
    with open_shards(folder / "x.shards.json", models=MODELS, summarizer=model) as shards:
        shards.add([SourceDocument(f"d{n}", TEXT.format(n) * 3) for n in range(12)])
        shards.set_tags(["maps", "bridges"])
        shards.add(SourceDocument("waits", "Emil waits."), wait=False)
    return model


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_copy_has_the_same_answers_without_a_model(tmp_path, count):
    create(tmp_path)
    model = CountingLLM()
    created = rebalance(tmp_path / "x.shards.json", tmp_path / "y.shards.json", count)
    assert len(created.shards) == count
    with (
        open_shards(tmp_path / "x.shards.json", models=MODELS, summarizer=model) as old,
        open_shards(tmp_path / "y.shards.json", models=MODELS, summarizer=model) as new,
    ):
        for question in ("Where did Anna meet Bert?", "Who watched on day 7?"):
            assert new.retrieve(question).nodes == old.retrieve(question).nodes
        assert new.tag_counts() == old.tag_counts()
        assert new.queued_ids() == {"waits"}
        assert model.calls == 0
        new.resume()
        assert "waits" in new.document_ids
    for number, location in enumerate(created.locations(tmp_path / "y.shards.json")):
        with E2GraphRAG.open(location) as shard:
            assert {shard_of(id_, count) for id_ in shard.document_ids} <= {number}
            assert shard.verify().problems == ()


def test_shards_that_are_written_are_not_copied(tmp_path):
    create(tmp_path)
    with (
        E2GraphRAG.open(tmp_path / "x.1.e2g") as shard,
        shard.store.index_lock.acquire(),
        pytest.raises(StoreLockedError),
    ):
        rebalance(tmp_path / "x.shards.json", tmp_path / "y.shards.json", 2, lock_timeout=0.1)
    assert not list(tmp_path.glob("y.*"))


def test_a_damaged_row_is_not_copied_and_leaves_nothing(tmp_path):
    create(tmp_path)
    with E2GraphRAG.open(tmp_path / "x.1.e2g") as shard, shard.store.transaction() as db:
        db.execute("UPDATE nodes SET text = 'other' WHERE level = 0")
    before = {one.name for one in tmp_path.iterdir()}
    with pytest.raises(CorruptStoreError, match="checksum"):
        rebalance(tmp_path / "x.shards.json", tmp_path / "y.shards.json", 2)
    assert {one.name for one in tmp_path.iterdir() if not one.name.endswith(".lock")} <= before


def test_existing_shards_are_not_replaced(tmp_path):
    create(tmp_path, 2)
    (tmp_path / "y.1.e2g").write_bytes(b"other")
    with pytest.raises(InvalidInputError, match=r"y\.1\.e2g already exists"):
        rebalance(tmp_path / "x.shards.json", tmp_path / "y.shards.json", 2)
    with pytest.raises(InvalidInputError, match="already exists"):
        rebalance(tmp_path / "x.shards.json", tmp_path / "x.shards.json", 2)
