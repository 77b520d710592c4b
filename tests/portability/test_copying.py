"""Copies between files and Postgres have the same rows, in both directions."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument, copy_index
from e2graphrag_integrations._utils.postgres_urls import parse_postgres_url
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    StoreLockedError,
)
from e2graphrag_integrations.store.location import index_exists
from e2graphrag_integrations.store.postgres.lock import lock_key
from e2graphrag_integrations.store.queue import enqueue
from e2graphrag_integrations.store.store import Store
from fakes import numbered


def rows_of(path):
    """Return all rows of all tables, sorted."""
    tables = "manifest content documents queue entity_edits nodes windows pending".split()
    with closing(Store(path)) as store:
        return {
            table: sorted(map(repr, store.read(f"SELECT * FROM {table}")))  # noqa: S608 - constants
            for table in tables
        }


@pytest.fixture
def source(tmp_path, open_index, story):
    """An index file with documents and a queue."""
    path = str(tmp_path / "source.e2g")
    rag = open_index(path)
    rag.add([story, numbered(30), SourceDocument("nul", "Anna \0 met \1 Bert.")])
    enqueue(rag.store, [numbered(3, "waiting")], {"dimension": "32"})
    rag.close()
    return path


def test_a_copy_has_the_same_rows_in_both_directions(source, tmp_path, postgres_url, open_index):
    target = str(tmp_path / "target.e2g")
    copy_index(source, postgres_url)
    copy_index(postgres_url, target)
    expected = rows_of(source)
    assert rows_of(postgres_url) == expected
    assert rows_of(target) == expected
    with open_index(source) as one, open_index(postgres_url) as two:
        assert list(one.export()) == list(two.export())
        answers = [rag.retrieve("Who gave Anna a map?").nodes for rag in (one, two)]
        assert answers[0] == answers[1]
        assert two.verify().ok


def test_folders_exported_from_both_are_byte_equal_and_can_be_imported(
    source, tmp_path, postgres_url, open_index
):
    copy_index(source, postgres_url)
    for name, path in (("file", source), ("postgres", postgres_url)):
        with open_index(path) as rag:
            rag.export_to(tmp_path / name)
    for file in ("index.jsonl", "vectors.npz"):
        exports = [(tmp_path / name / file).read_bytes() for name in ("file", "postgres")]
        assert exports[0] == exports[1]
    E2GraphRAG.import_from(tmp_path / "file", f"{postgres_url}2")
    with open_index(f"{postgres_url}2") as rag:
        rag.export_to(tmp_path / "imported")
    imported = (tmp_path / "imported" / "index.jsonl").read_bytes()
    assert imported == (tmp_path / "file" / "index.jsonl").read_bytes()


def test_an_import_waits_for_a_writer(source, tmp_path, postgres_url, open_index):
    with open_index(source) as rag:
        rag.export_to(tmp_path / "export")
    url = parse_postgres_url(postgres_url)
    with psycopg.connect(url.conninfo, autocommit=True) as db:
        db.execute("SELECT pg_advisory_lock(%s)", (lock_key("write", url.schema),))
        with pytest.raises(StoreLockedError, match="increase lock_timeout"):
            E2GraphRAG.import_from(tmp_path / "export", postgres_url, lock_timeout=0.05)
    E2GraphRAG.import_from(tmp_path / "export", postgres_url, lock_timeout=30)
    with open_index(postgres_url) as rag:
        assert "story" in rag.document_ids


def test_an_open_index_in_postgres_is_copied_to_a_file(tmp_path, postgres_url, open_index, story):
    rag = open_index(postgres_url)
    rag.add(story)
    for _ in range(2):  # the second replaces the first
        rag.copy_to(tmp_path / "copy.e2g")
    with open_index(tmp_path / "copy.e2g") as copied:
        assert list(copied.export()) == list(rag.export())
    with pytest.raises(InvalidInputError, match="already contains an index"):
        rag.copy_to(postgres_url)


def test_an_existing_target_is_kept(source, tmp_path, postgres_url, open_index, story):
    with open_index(tmp_path / "other.e2g") as other:
        other.add(story)
    open_index(postgres_url).add(story)
    for target in (tmp_path / "other.e2g", postgres_url):
        with pytest.raises(InvalidInputError, match="already"):
            copy_index(source, target)
        with open_index(target) as rag:
            assert rag.document_ids == ["story"]


@pytest.mark.parametrize("path", ["missing.e2g", ":memory:"])
def test_a_source_that_does_not_exist_creates_no_target(path, postgres_url):
    with pytest.raises(InvalidInputError):
        copy_index(path, postgres_url)
    assert not index_exists(postgres_url)


def test_a_damaged_source_creates_no_target(source, tmp_path, postgres_url):
    with closing(sqlite3.connect(source)) as db:
        db.execute("UPDATE nodes SET text = 'changed'")
        db.commit()
    for target in (str(tmp_path / "target.e2g"), postgres_url):
        with pytest.raises(CorruptStoreError, match="checksum"):
            copy_index(source, target)
        assert not index_exists(target)
    assert sorted(one.name for one in tmp_path.iterdir() if ".new-" in one.name) == []
