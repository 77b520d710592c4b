"""Pending documents, and copies of a file."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from e2graphrag_integrations import E2GraphRAG, Models
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, NotAnIndexError
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.pending_documents import (
    drop_pending,
    put_pending,
    read_pending,
)
from fakes import NameExtractor


def test_pending_documents_survive_closing_the_file(tmp_path):
    store = Store(tmp_path / "a.e2g")
    assert read_pending(store) == {}
    put_pending(store, {"b": ["x", {"page": 1}], "a": []})
    put_pending(store, {"b": ["y"]})
    store.close()
    again = Store(tmp_path / "a.e2g")
    assert read_pending(again) == {"a": [], "b": ["y"]}
    drop_pending(again, {"a": [], "b": ["x", {"page": 1}], "unknown": []})
    assert read_pending(again) == {"b": ["y"]}
    again.close()


def test_deleting_the_last_document_keeps_pending_documents(open_index, story, tmp_path):
    rag = open_index(tmp_path / "a.e2g")
    rag.add(story)
    put_pending(rag.store, {"b": ["x"]})
    rag.delete("story")
    assert read_pending(rag.store) == {"b": ["x"]}


def test_a_damaged_row_is_detected(tmp_path):
    store = Store(tmp_path / "a.e2g")
    put_pending(store, {"b": ["x"]})
    store.close()
    with sqlite3.connect(tmp_path / "a.e2g") as db:
        db.execute("UPDATE pending SET value = '[\"y\"]'")
    db.close()
    again = Store(tmp_path / "a.e2g")
    with pytest.raises(CorruptStoreError, match="pending document 'b'"):
        read_pending(again)
    again.close()


def test_a_copy_is_an_independent_index(open_index, story, tmp_path):
    rag = open_index()
    rag.add(story)
    target = tmp_path / "copy.e2g"
    rag.copy_to(target)
    rag.copy_to(target)  # replaces the first copy
    rag.delete("story")
    with E2GraphRAG.open(target, models=Models(extractor=NameExtractor())) as copy:
        assert copy.document_ids == ["story"]
        assert copy.verify().ok
    assert [path.name for path in tmp_path.iterdir() if "new" in path.name] == []


def test_a_copy_replaces_no_other_file(open_index, story, tmp_path):
    rag = open_index()
    rag.add(story)
    text, database, empty = (tmp_path / name for name in ("a.txt", "a.db", "empty"))
    text.write_text("mine, " * 50)
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.execute("CREATE TABLE mine (x)")
    empty.touch()
    for other in (text, database):
        before = other.read_bytes()
        with pytest.raises(NotAnIndexError, match="not an e2graphrag index"):
            rag.copy_to(other)
        assert other.read_bytes() == before
    rag.copy_to(empty)
    assert empty.stat().st_size


def test_a_failed_copy_raises_an_error_with_its_path(open_index, story, tmp_path):
    rag = open_index()
    rag.add(story)
    with pytest.raises(InvalidInputError, match="nowhere"):
        rag.copy_to(tmp_path / "nowhere" / "copy.e2g")
