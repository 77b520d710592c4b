"""Readers learn whether new vectors are being computed, from the lock and not from a clock."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.reports import Progress
from e2graphrag_integrations.store.database import Writer
from e2graphrag_integrations.store.rows import REEMBEDDING, put_manifest
from e2graphrag_integrations.store.tables.reembedding import (
    NewEmbedderName,
    note_reembedding,
    read_reembedding,
)

NAME = NewEmbedderName("new", "new")
PROGRESS = Progress("embed", 6, 10, 8.0, reused=4)


@pytest.fixture
def rag(open_index, tmp_path):
    rag = open_index(tmp_path / "a.e2g")
    rag.add(SourceDocument("a", "Anna met Bert."))
    return rag


def test_the_speed_is_that_of_this_run_and_not_of_reused_vectors(rag):
    with rag.write_lock():
        note_reembedding(rag.store, NAME, PROGRESS, rag.store.index_lock.own())
        found = rag.state().reembedding
    assert (found.done, found.total, found.is_running, found.seconds_left) == (6, 10, True, 16.0)


def test_a_run_goes_on_as_long_as_its_own_writer_holds_the_lock(rag):
    with E2GraphRAG.open(rag.path) as other:
        with other.write_lock():
            note_reembedding(other.store, NAME, PROGRESS, other.store.index_lock.own())
            assert rag.state().reembedding.is_running
            assert other.state().reembedding.is_running
        assert not rag.state().reembedding.is_running  # it was killed
        with other.write_lock():  # the same process, or one with its number, writes later
            assert not rag.state().reembedding.is_running
            assert not other.state().reembedding.is_running
            assert rag.state().reembedding.seconds_left is None


def test_a_run_that_ended_is_not_running_although_its_writer_still_writes(rag):
    with rag.write_lock():
        note_reembedding(rag.store, NAME, PROGRESS, None)
        assert not rag.state().reembedding.is_running


@pytest.mark.parametrize("value", ["", "[]", "{}", '{"embedder": "a", "model": "", "writer": "x"}'])
def test_a_damaged_row_is_reported(rag, value):
    note_reembedding(rag.store, NAME, PROGRESS, Writer.here())
    with rag.store.transaction() as db:
        put_manifest(db, REEMBEDDING, value)
    with pytest.raises(CorruptStoreError):
        read_reembedding(rag.store, None)
