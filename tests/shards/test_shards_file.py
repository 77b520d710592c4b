"""The file that lists the shards."""

from __future__ import annotations

import json
import os

import pytest

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.errors import (
    InvalidInputError,
    NotAnIndexError,
    SchemaVersionError,
)
from e2graphrag_integrations.shards.merging import shard_of
from e2graphrag_integrations.shards.shards_file import ShardsFile, create_shards, planned_shards
from e2graphrag_integrations.store.location import index_exists


def test_a_document_stays_in_its_shard():
    assert [shard_of(id_, 8) for id_ in ("a", "b", "Ω", "novel/1")] == [7, 5, 7, 0]


def test_the_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "novels.shards.json"
    created = create_shards(path, 2, embedder="hashing", settings=IndexSettings(chunk_size=200))
    assert ShardsFile.read(path) == created
    assert created.settings == {"chunk_size": 200}
    assert created.locations(path) == [
        str(tmp_path / "novels.0.e2g"),
        str(tmp_path / "novels.1.e2g"),
    ]
    with pytest.raises(InvalidInputError, match="already exists"):
        create_shards(path, 3)
    files = {one.name for one in tmp_path.iterdir()}
    assert files == {"novels.shards.json", "novels.0.e2g", "novels.1.e2g"}
    path.unlink()
    with pytest.raises(InvalidInputError, match=r"novels\.0\.e2g already exists"):
        create_shards(path, 1)
    with pytest.raises(InvalidInputError, match=r"x\.json must end in \.shards\.json"):
        create_shards(tmp_path / "x.json", 1)


def test_locations_may_be_urls(tmp_path):
    urls = ["postgresql://host/db?schema=a", "postgresql://host/db?schema=b"]
    created = planned_shards(tmp_path / "x.shards.json", urls, "", IndexSettings())
    assert created.locations(tmp_path / "x.shards.json") == urls


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_its_owner_reads_a_file_that_may_contain_passwords(tmp_path):
    path = tmp_path / "novels.shards.json"
    create_shards(path, 1, embedder="hashing")
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("shards", [0, 1001, [], ["a.e2g", "a.e2g"], ["a.e2g", "./a.e2g"]])
def test_wrong_shards_are_refused(tmp_path, shards):
    with pytest.raises(InvalidInputError):
        create_shards(tmp_path / "x.shards.json", shards)
    with pytest.raises(InvalidInputError):
        create_shards(tmp_path / "x.shards.json", 2, settings=IndexSettings(chunk_size=-1))
    assert list(tmp_path.iterdir()) == []


def test_after_a_failure_no_new_schema_is_left(tmp_path, postgres_url):
    taken = [postgres_url, postgres_url.replace("127.0.0.1", "localhost")]
    with pytest.raises(InvalidInputError, match="same place as an earlier shard"):
        create_shards(tmp_path / "x.shards.json", taken)
    assert not index_exists(postgres_url)
    assert not (tmp_path / "x.shards.json").exists()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", NotAnIndexError),
        ("[]", NotAnIndexError),
        ("{}", NotAnIndexError),
        (json.dumps({"format": 2}), SchemaVersionError),
        (json.dumps({"format": 1}), NotAnIndexError),
        (json.dumps({"format": 1, "shards": [], "embedder": "", "settings": {}}), NotAnIndexError),
        (json.dumps({"format": 1, "shards": [1], "embedder": "", "settings": {}}), NotAnIndexError),
    ],
)
def test_other_files_are_refused(tmp_path, content, error):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(error):
        ShardsFile.read(path)
    with pytest.raises(InvalidInputError, match="create_shards"):
        ShardsFile.read(tmp_path / "none.json")
