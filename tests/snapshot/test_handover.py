"""A snapshot in segments that another process has prepared, compared with the original."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, SourceDocument, Tag
from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.snapshot import files as snapshot_files
from e2graphrag_integrations.snapshot import handover, incremental
from e2graphrag_integrations.snapshot.array_files import unused_name
from e2graphrag_integrations.snapshot.conversion import snapshot_arrays, snapshot_meta
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot, vector_kind
from e2graphrag_integrations.snapshot.handover import (
    LargeSegment,
    hand_over,
    take_over,
)
from e2graphrag_integrations.snapshot.kept_preparation import computed_parts
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from fakes import NameExtractor


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(incremental, "_MIN_SEGMENTED", 1)
    monkeypatch.setattr(incremental, "_MIN_KEPT", 0.0)
    monkeypatch.setattr(snapshot_files, "_MIN_UNCHANGED", 0.0)


@pytest.fixture
def rag(tmp_path):
    with E2GraphRAG.open(
        tmp_path / "index.e2g",
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=8, chunk_overlap=2),
    ) as opened:
        opened.add([SourceDocument(f"d{n}", f"Anna met Bert in room {n}.") for n in range(8)])
        yield opened


def change(rag: E2GraphRAG) -> None:
    rag.update(SourceDocument("d3", "Cleo saw Dora at night."))
    rag.delete("d5")
    rag.add(SourceDocument("new", "Emil wrote to Anna.", title="A letter", metadata={"year": 1901}))


def snapshots(rag: E2GraphRAG, kind: str = "") -> tuple[Snapshot, Snapshot]:
    """Return a snapshot before and after changes."""
    before = load_or_build_snapshot(rag.store, kind=vector_kind(kind))
    _ = before.bm25
    change(rag)
    after = load_or_build_snapshot(rag.store, before, kind=vector_kind(kind))
    assert after.has_segments
    return before, after


def handed(rag: E2GraphRAG, after: Snapshot, large: LargeSegment | None) -> Snapshot | None:
    folder = unused_name(rag.store.snapshot_folder / after.kind.name)
    assert hand_over(after, folder)
    assert large is not None
    return take_over(folder, large)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", ["", "int8"])
def test_a_snapshot_that_is_taken_over_equals_the_original(rag, kind):
    before, after = snapshots(rag, kind)
    taken = handed(rag, after, LargeSegment.of(before))
    assert taken is not None
    actual, expected = snapshot_arrays(taken), snapshot_arrays(after)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name][:], array[:], err_msg=name)
    assert snapshot_meta(taken) == snapshot_meta(after)
    assert taken.segments == after.segments
    for part, (arrays, meta) in computed_parts(after).items():
        own, own_meta = computed_parts(taken)[part]
        assert own_meta == meta
        for name, array in arrays.items():
            np.testing.assert_array_equal(own[name], array, err_msg=f"{part} {name}")


def test_words_and_vectors_are_found_as_in_the_original(rag):
    before, after = snapshots(rag)
    taken = handed(rag, after, LargeSegment.of(before))
    assert taken is not None
    for term in ("anna", "room", "3", "night", "emil", "unknown"):
        assert taken.bm25.idf(term) == after.bm25.idf(term)
        for one, other in zip(
            taken.bm25.search([term, "met"], 20), after.bm25.search([term, "met"], 20), strict=True
        ):
            assert one.tolist() == other.tolist()
    vector = HashingEmbedder().embed_query("Emil wrote")
    for one, other in zip(
        taken.dense.search_windows(vector, 9), after.dense.search_windows(vector, 9), strict=True
    ):
        assert one.tolist() == other.tolist()


def test_the_large_segment_is_not_copied(rag):
    before, after = snapshots(rag)
    taken = handed(rag, after, LargeSegment.of(before))
    assert taken.dense.base is before.dense
    assert taken.bm25.parts[0].postings is before.bm25.postings


def test_tags_are_handed_over(rag):
    rag.set_tags([Tag("rooms", "A room in a house"), "letters"])
    before, after = snapshots(rag)
    taken = handed(rag, after, LargeSegment.of(before))
    assert taken.tag_set.to_json() == after.tag_set.to_json()
    assert taken.chunk_tags.tolist() == after.chunk_tags.tolist()


def test_a_taken_snapshot_is_the_base_of_the_next_one(rag):
    before, after = snapshots(rag)
    taken = handed(rag, after, LargeSegment.of(before))
    rag.add(SourceDocument("last", "Dora met Emil."))
    following = load_or_build_snapshot(rag.store, taken)
    built = load_or_build_snapshot(rag.store, after)
    assert following.documents[-2:] == ["last", "new"]
    actual, expected = snapshot_arrays(following), snapshot_arrays(built)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name][:], array[:], err_msg=name)


def test_another_large_segment_is_refused(rag):
    before, after = snapshots(rag)
    large = LargeSegment.of(before)
    assert large is not None
    assert handed(rag, after, replace(large, generation="0" * 32)) is None


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["meta.json", "node_level.npy", "words/meta.json"])
def test_an_incomplete_folder_is_refused(rag, name):
    before, after = snapshots(rag)
    folder = unused_name(rag.store.snapshot_folder)
    assert hand_over(after, folder)
    (folder / "content" / name).unlink()
    assert take_over(folder, LargeSegment.of(before)) is None


def test_a_snapshot_in_one_segment_is_not_handed_over(rag):
    snapshot = load_or_build_snapshot(rag.store)
    assert not hand_over(snapshot, unused_name(rag.store.snapshot_folder))
    assert LargeSegment.of(snapshot) is None, "its words are not loaded"


def test_a_state_that_another_process_has_saved_keeps_its_segments(rag):
    before, after = snapshots(rag)
    again = load_or_build_snapshot(rag.store, before)
    assert again is not after
    assert again.segments == after.segments
    assert handed(rag, again, LargeSegment.of(before)) is not None


def test_nothing_remains_of_a_folder_that_cannot_be_written(rag, monkeypatch):
    _, after = snapshots(rag)
    folder = unused_name(rag.store.snapshot_folder)

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(handover, "save_arrays", fail)
    with pytest.raises(OSError, match="disk full"):
        hand_over(after, folder)
    assert not folder.exists()
