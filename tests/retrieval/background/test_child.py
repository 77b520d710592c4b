"""What the process that prepares snapshots answers, without its process."""

from __future__ import annotations

import json
import queue

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError, IndexGoneError
from e2graphrag_integrations.retrieval.background.child import serve
from e2graphrag_integrations.retrieval.generations import GenerationKeeper
from e2graphrag_integrations.snapshot import files, incremental
from e2graphrag_integrations.store.rows import GENERATION
from fakes import NameExtractor


@pytest.fixture
def index_file(tmp_path):
    path = tmp_path / "index.e2g"
    with open_at(path) as rag:
        rag.add(SourceDocument("a", "Anna met Bert."))
    return path


def open_at(path) -> E2GraphRAG:
    return E2GraphRAG.open(
        path, embedder=HashingEmbedder(), models=Models(extractor=NameExtractor())
    )


def answers(path, lines) -> list[dict]:
    given, found = iter(lines), []
    serve(str(path), "", lambda: next(given), found.append)
    return found


def test_the_generation_of_a_small_index_is_on_disk(index_file):
    [answer] = answers(index_file, [b'"unused"', b""])
    assert not answer["handed"]
    assert answer["large"] == answer["generation"]
    folder = index_file.with_name("index.e2g.snapshot") / answer["generation"]
    assert folder.is_dir()


def test_a_damaged_index_ends_the_process(index_file):
    with (
        E2GraphRAG.open(index_file, embedder=HashingEmbedder()) as rag,
        rag.store.transaction() as db,
    ):
        db.execute("UPDATE manifest SET value = '../x' WHERE key = ?", (GENERATION,))
    with pytest.raises(CorruptStoreError):
        answers(index_file, [b'"unused"', b""])


def test_no_index_is_created(tmp_path):
    with pytest.raises(IndexGoneError, match="deleted or moved"):
        answers(tmp_path / "missing.e2g", [b""])
    assert not list(tmp_path.iterdir())


def test_it_ends_when_nobody_asks(index_file):
    def next_line() -> bytes:
        raise queue.Empty

    found = []
    serve(str(index_file), "", next_line, found.append)
    assert found == []


def test_a_merge_is_finished_before_it_ends(index_file, monkeypatch):
    merging, waited = iter([True, True, False]), []
    monkeypatch.setattr(GenerationKeeper, "is_merging", property(lambda _: next(merging)))

    def next_line() -> bytes:
        waited.append(1)
        raise queue.Empty

    serve(str(index_file), "", next_line, pytest.fail)
    assert len(waited) == 3


def test_segments_that_another_process_has_merged_are_read_again(index_file, tmp_path, monkeypatch):
    monkeypatch.setattr(incremental, "_MIN_SEGMENTED", 1)
    monkeypatch.setattr(incremental, "_MIN_KEPT", 0.0)
    monkeypatch.setattr(files, "_MIN_UNCHANGED", 0.0)
    merged = []

    def requests(rag):
        yield json.dumps(str(tmp_path / "first")).encode()
        rag.add(SourceDocument("b", "Cleo saw Dora."))
        yield json.dumps(str(tmp_path / "second")).encode()
        snapshot = files.load_or_build_snapshot(rag.store)
        merged.append(files.merge_segments(rag.store, snapshot)().generation)
        rag.add(SourceDocument("c", "Emil met Anna."))
        yield json.dumps(str(tmp_path / "third")).encode()
        yield b""

    with open_at(index_file) as rag:
        rag.retrieve("Anna")  # stores the words, without which all is written anew
    with open_at(index_file) as rag:
        first, second, third = answers(index_file, requests(rag))
    assert second["large"] == first["generation"]
    assert third["handed"]
    assert [third["large"]] == merged
