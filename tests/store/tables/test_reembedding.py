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
    Reembedding,
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


def test_shards_add_up_and_the_slowest_one_decides_the_time_left():
    running = Reembedding(NAME, 6, 10, is_running=True, seconds_left=16.0)
    slower = Reembedding(NAME, 1, 10, is_running=True, seconds_left=90.0)
    unknown = Reembedding(NAME, 0, 10, is_running=True, seconds_left=None)
    stopped = Reembedding(NewEmbedderName("other", "other"), 2, 3, False, None)  # noqa: FBT003
    assert running + slower == Reembedding(NAME, 7, 20, is_running=True, seconds_left=90.0)
    assert (running + unknown).seconds_left is None
    mixed = running + stopped
    assert mixed.embedder == NewEmbedderName("new, other", "")
    assert (mixed.done, mixed.total, mixed.is_running, mixed.seconds_left) == (8, 13, True, 16.0)
    assert (stopped + stopped).embedder.model == "other"
    assert not (stopped + stopped).is_running
