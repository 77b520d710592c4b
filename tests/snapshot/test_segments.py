"""Snapshots in segments, compared with snapshots that are built from all rows."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, SourceDocument
from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.retrieval import generations
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.segmented import SegmentedIndex
from e2graphrag_integrations.snapshot import files as snapshot_files
from e2graphrag_integrations.snapshot import incremental
from e2graphrag_integrations.snapshot.build import bm25_from_store, build_snapshot
from e2graphrag_integrations.snapshot.conversion import snapshot_arrays, snapshot_meta
from e2graphrag_integrations.snapshot.files import _SnapshotFiles
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from fakes import NameExtractor
from strategies import examples

WORDS = ("Anna", "Bert", "Cleo", "Dora", "met", "saw", "the", "harbour", "night", "Emil.")


@pytest.fixture(autouse=True, scope="module")
def small_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "_MIN_SEGMENTED", 1)
        patch.setattr(incremental, "_MIN_KEPT", 0.0)
        patch.setattr(snapshot_files, "_MIN_UNCHANGED", 0.0)
        patch.setattr(snapshot_files, "_MAX_SEGMENTS", 3)
        yield


def open_at(path: Path | str) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=8, chunk_overlap=2),
    )


def add_base(rag: E2GraphRAG) -> None:
    """Add the documents of the large segment, and compute what a question uses."""
    rag.add([SourceDocument("a", "Anna met Bert."), SourceDocument("b", "Cleo saw Dora.")])
    rag.retrieve("Anna")


def assert_equals_a_build(snapshot: Snapshot, rag: E2GraphRAG) -> None:
    built = build_snapshot(rag.store)
    actual, expected = snapshot_arrays(snapshot), snapshot_arrays(built)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)
        assert actual[name].dtype == array.dtype, name
    assert snapshot_meta(snapshot) == snapshot_meta(built)
    bm25, built_bm25 = snapshot.bm25, bm25_from_store(rag.store, built)
    terms = [*(word.lower().strip(".") for word in WORDS), "unknown"]
    rows = np.arange(bm25.n_texts)
    for term in terms:
        assert bm25.idf(term) == built_bm25.idf(term)
    for one, other in zip(
        bm25.search(terms, 7, idf_power=1), built_bm25.search(terms, 7, idf_power=1), strict=True
    ):
        assert one.tolist() == other.tolist()
    scores = [index.score_rows(terms, rows).tolist() for index in (bm25, built_bm25)]
    assert scores[0] == scores[1]
    saturations = [index.saturations(["anna", "the"], rows) for index in (bm25, built_bm25)]
    assert saturations[0].tolist() == saturations[1].tolist()
    vector = rag._index.components.embedder.embed_query("Anna met Bert")
    masks = [None, np.arange(len(built.nodes.ids)) % 2 == 0]
    for mask in masks:
        found = (one.dense.search_windows(vector, len(rows), mask) for one in (snapshot, built))
        one, other = (in_order(*pair) for pair in found)
        np.testing.assert_allclose(one, other, rtol=1e-5)


def in_order(windows, cosines):
    """Return windows and cosines, by window where texts with the same words have the same cosine.

    Sums of the same numbers in another order differ in their last digits.
    """
    order = np.lexsort((windows, -np.round(cosines, 5)))
    return windows[order], cosines[order]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), texts),
        st.tuples(st.just("delete"), st.sampled_from("abcdef"), st.just("")),
        st.tuples(st.just("reopen"), st.just(""), st.just("")),
        st.tuples(st.just("stop"), st.sampled_from(["Anna", "Bert"]), st.just("")),
    ),
    max_size=8,
)


@examples(30)
@given(st.lists(texts, min_size=2, max_size=4), changes)
@example(
    ["Anna", "Anna Anna Anna Anna Anna Bert Cleo"],
    [("put", "a", "Anna"), ("put", "a", "Anna Anna Anna Anna Bert Anna Cleo")],
)
def test_any_history_gives_the_snapshot_of_a_build(first, history):
    with tempfile.TemporaryDirectory() as folder:
        rag = open_at(Path(folder) / "i.e2g")
        rag.add([SourceDocument(f"first {n}", text) for n, text in enumerate(first)])
        rag.retrieve("Anna")
        for kind, name, text in history:
            is_known = name in rag.document_ids
            if kind == "put":
                (rag.update if is_known else rag.add)(SourceDocument(name, text))
            elif kind == "delete":
                rag.delete([name] if is_known else [])
            elif kind == "stop":
                rag.edit_entities(stop=name)
            else:
                rag.close()
                rag = open_at(Path(folder) / "i.e2g")
            assert_equals_a_build(rag._session.snapshot(), rag)
        assert rag.verify().problems == ()
        rag.close()


def test_a_small_change_is_saved_as_a_segment_of_its_own(tmp_path):
    path = tmp_path / "i.e2g"
    with open_at(path) as rag:
        add_base(rag)
        base = rag._session.snapshot()
        rag.add(SourceDocument("c", "Emil met Anna."))
        snapshot = rag._session.snapshot()
        assert isinstance(snapshot.dense, SegmentedIndex)
        assert snapshot.dense.base is base.dense
        assert snapshot.segments is not None
        assert snapshot.segments.generations == (base.generation, snapshot.generation)
    folder = Path(f"{path}.snapshot")
    assert {one.name for one in folder.iterdir()} == {*snapshot.segments.generations}
    assert np.load(folder / snapshot.generation / "chunk_nodes.npy").tolist() == [0]


def test_merged_segments_equal_a_build_and_replace_the_folders(tmp_path):
    path = tmp_path / "i.e2g"
    with open_at(path) as rag:
        add_base(rag)
        rag.add(SourceDocument("c", "Emil met Anna."))
        snapshot = rag._session.snapshot()
        merged = snapshot_files.merge_segments(rag.store, snapshot)()
        assert isinstance(merged.dense, DenseIndex)
        assert [one.name for one in Path(f"{path}.snapshot").iterdir()] == [snapshot.generation]
        assert_equals_a_build(merged, rag)
        rag.update(SourceDocument("a", "Anna saw the harbour."))
        updated = snapshot_files.load_or_build_snapshot(rag.store, merged)
        assert updated.dense.base is merged.dense
        assert_equals_a_build(updated, rag)


def test_segments_stay_as_they_are_if_the_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "i.e2g"
    with open_at(path) as rag:
        add_base(rag)
        rag.add(SourceDocument("c", "Emil met Anna."))
        snapshot = rag._session.snapshot()
        before = sorted(one.name for one in Path(f"{path}.snapshot").iterdir())
        with monkeypatch.context() as patch:
            patch.setattr(np, "save", full_disk)
            assert snapshot_files.merge_segments(rag.store, snapshot)() is None
            rag.add(SourceDocument("d", "Dora saw the night."))
            unsaved = rag._session.snapshot()
            assert_equals_a_build(unsaved, rag)
            assert unsaved.segments is None
        assert sorted(one.name for one in Path(f"{path}.snapshot").iterdir()) == before
    with open_at(path) as rag:  # derived from the last segments on disk
        assert_equals_a_build(rag._session.snapshot(), rag)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("file", ["meta.json", "vectors.npy", "words/data.npy", "pair_keys.npy"])
def test_a_damaged_segment_is_noticed_and_the_snapshot_built_again(tmp_path, file):
    path = tmp_path / "i.e2g"
    with open_at(path) as rag:
        add_base(rag)
        rag.add(SourceDocument("c", "Emil met Anna."))
        generation = rag._session.snapshot().generation
    damaged = Path(f"{path}.snapshot") / generation / file
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with open_at(path) as rag:
        assert_equals_a_build(rag._session.snapshot(), rag)
        assert rag.verify().problems == ()


@pytest.mark.slow
def test_many_changes_are_merged_in_the_background(tmp_path, monkeypatch):
    monkeypatch.setattr(incremental, "_MAX_RECENT", 6)
    with open_at(tmp_path / "i.e2g") as rag:
        rag.add(SourceDocument("a", "Anna met Bert. " * 20))
        rag.retrieve("Anna")
        bases = {}  # by id, and referenced, so that no other object gets the id
        for number in range(12):
            rag.add(SourceDocument(f"new {number}", f"Cleo saw Dora {number}."))
            snapshot = rag._session.snapshot()
            assert_equals_a_build(snapshot, rag)
            base = getattr(snapshot.dense, "base", snapshot.dense)
            bases[id(base)] = base
            keeper = rag._session._generations
            if (thread := keeper._merge_task._thread) is not None:
                thread.join(30)
        assert len(bases) > 2


def test_a_merge_waits_for_the_generation_that_refers_to_the_old_segments(tmp_path, monkeypatch):
    write_in_one, save_segment = _SnapshotFiles.write_in_one, _SnapshotFiles.save_segment
    written, threads = threading.Event(), []

    def write(self, snapshot):
        replace_others = write_in_one(self, snapshot)
        written.set()
        return replace_others

    def save_beside_a_merge(self, *snapshots):
        threads.append(threading.Thread(target=keeper._merge))
        threads[0].start()
        assert written.wait(30)
        time.sleep(0.2)  # a merge that did not wait would now delete the old segments
        monkeypatch.setattr(_SnapshotFiles, "save_segment", save_segment)
        return save_segment(self, *snapshots)

    with open_at(tmp_path / "i.e2g") as rag:
        add_base(rag)
        rag.add(SourceDocument("c", "Emil met Anna."))
        merged_generation = rag._session.snapshot().generation
        keeper = rag._session._generations
        monkeypatch.setattr(_SnapshotFiles, "write_in_one", write)
        monkeypatch.setattr(_SnapshotFiles, "save_segment", save_beside_a_merge)
        rag.add(SourceDocument("d", "Dora saw the night."))
        assert rag._session.snapshot().segments is not None
        threads[0].join(30)
        rag.add(SourceDocument("e", "Bert saw Cleo."))
        snapshot = rag._session.snapshot()
        assert snapshot.segments is not None
        assert snapshot.segments.generations == (merged_generation, snapshot.generation)
        assert_equals_a_build(snapshot, rag)


def test_segments_that_are_being_merged_are_not_merged_again(tmp_path, monkeypatch):
    merge_segments, merged, go_on = snapshot_files.merge_segments, [], threading.Event()

    def merge_slowly(store, snapshot):
        merged.append(snapshot.generation)
        assert go_on.wait(30)
        return merge_segments(store, snapshot)

    with open_at(tmp_path / "i.e2g") as rag:
        add_base(rag)
        keeper = rag._session._generations
        monkeypatch.setattr(keeper, "_needs_merge", lambda _: True)
        monkeypatch.setattr(generations, "merge_segments", merge_slowly)
        for number in range(3):
            rag.add(SourceDocument(f"new {number}", f"Cleo saw Dora {number}."))
            assert rag._session.snapshot().segments is not None
        merging = keeper._merge_task._thread
        go_on.set()
        merging.join(30)
        assert len(merged) == 1
        assert_equals_a_build(rag._session.snapshot(), rag)


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")
