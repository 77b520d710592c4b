"""IVF search: training, approximate search with exact ranking, and persistence."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.search import dense as dense_module
from e2graphrag_integrations.search import ivf as ivf_module
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists, assign_lists, least_nprobe
from e2graphrag_integrations.snapshot import array_files
from e2graphrag_integrations.snapshot.conversion import is_consistent_codes
from fakes import damage_file, numbered
from strategies import quick

COUNT = 9_000
"""Number of vectors: enough for more lists than one query searches."""

CHUNKING = {"chunk_size": 4, "chunk_overlap": 0, "group_size": 100}


@pytest.fixture(autouse=True, scope="module")
def one_faiss_thread():
    """Use one FAISS thread: several wait for each other while other processes use all cores."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


def unit(values):
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


@lru_cache(maxsize=1)
def clustered():
    """Return vectors in sixty clusters, the node of each (three per node), and 25 queries."""
    random = np.random.default_rng(5)
    centers = random.normal(size=(60, 24))
    vectors = unit(centers[random.integers(0, 60, COUNT)] + random.normal(size=(COUNT, 24)) * 0.5)
    queries = unit(vectors[random.integers(0, COUNT, 25)] + random.normal(size=(25, 24)) * 0.1)
    return vectors, np.arange(COUNT) // 3, queries


@lru_cache(maxsize=1)
def trained():
    return InvertedLists.train(clustered()[0])


def ivf_index(exact_limit=0):
    vectors, nodes, _ = clustered()
    return DenseIndex(vectors, nodes, trained(), exact_limit=exact_limit)


def flat_index():
    vectors, nodes, _ = clustered()
    return DenseIndex(vectors, nodes, exact_limit=COUNT)


def mean_recall(index, count, allowed=None):
    recalls = []
    for query in clustered()[2]:
        found, _ = index.search_windows(query, count, allowed)
        expected, _ = flat_index().search_windows(query, count, allowed)
        assert len(set(found.tolist())) == len(expected)
        recalls.append(len(np.intersect1d(found, expected)) / len(expected))
    return np.mean(recalls)


def forbid_training(monkeypatch):
    def train(*_):
        raise AssertionError("lists must not be trained")

    monkeypatch.setattr(InvertedLists, "train", train)


def random_mask(seed, count):
    """Return a mask over nodes that allows `count` random ones."""
    allowed = np.zeros(COUNT // 3, dtype=np.bool_)
    allowed[np.random.default_rng(seed).permutation(COUNT // 3)[:count]] = True
    return allowed


# Search


@pytest.mark.parametrize("divisor", [1, 2])
def test_recall_of_the_best_200_is_at_least_98_percent(monkeypatch, divisor):
    assert trained().nlist > dense_module.NPROBE
    monkeypatch.setattr(dense_module, "NPROBE", dense_module.NPROBE // divisor)
    assert mean_recall(ivf_index(), 200) >= 0.98


def test_windows_have_exact_cosines_sorted_best_first():
    vectors, _, queries = clustered()
    for query in queries:
        rows, cosines = ivf_index().search_windows(query, 50)
        assert (rows.dtype, cosines.dtype, len(rows)) == (np.int64, np.float64, 50)
        np.testing.assert_allclose(cosines, vectors[rows] @ query, atol=1e-6)
        assert cosines.tolist() == sorted(cosines.tolist(), reverse=True)


def test_nodes_match_exact_search():
    index, exact = ivf_index(), flat_index()
    for query in clustered()[2]:
        found, expected = (one.search(query, 5) for one in (index, exact))
        assert [node for node, _ in found] == [node for node, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("count", [1, 5, 40, 200, 400, 2_000])
def test_earlier_window_wins_ties_at_any_count(count):
    vectors, nodes, queries = clustered()
    [best], _ = flat_index().search_windows(queries[0], 1)
    vectors, copies = vectors.copy(), np.sort(np.random.default_rng(1).permutation(COUNT)[:300])
    vectors[copies] = vectors[best]
    lists = InvertedLists(trained().centroids, assign_lists(trained().centroids, vectors))
    index = DenseIndex(vectors, nodes, lists, exact_limit=0)
    rows, cosines = index.search_windows(queries[0], count)
    tied = np.union1d(copies, [best])
    assert rows[:301].tolist() == tied[:count].tolist()
    assert len(set(cosines[:301].tolist())) == 1


@pytest.mark.parametrize("copies", [5, 7, 9, 33])
def test_equal_vectors_have_bitwise_equal_cosines(copies):
    # A matrix product would not ensure this: BLAS sums rows in more than one order.
    random = np.random.default_rng(copies)
    for dimension in (16, 64, 384):
        vectors = np.repeat(unit(random.normal(size=(2, dimension))), [copies, 40], axis=0)
        query = unit(random.normal(size=dimension))
        allowed = np.arange(copies + 40) < copies
        assignments = np.repeat([0, 1], [copies, 40]).astype(np.int32)
        lists = InvertedLists(vectors[[0, -1]], assignments)
        for exact_limit in (0, copies):  # IVF search, then exact search
            nodes = np.arange(copies + 40)
            index = DenseIndex(vectors, nodes, lists, exact_limit=exact_limit)
            rows, cosines = index.search_windows(query, copies, allowed)
            assert rows.tolist() == list(range(copies))
            assert len(set(cosines.tolist())) == 1


@pytest.mark.parametrize("count", [6, 10, 20])
def test_better_window_in_a_later_list_does_not_drop_an_earlier_tie(count):
    # Among the worst that tie, FAISS drops the earliest first.
    axes = np.eye(4, dtype=np.float32)
    tied, better = unit(axes[0] * 4 + axes[2] * 3), unit(axes[1] * 4 + axes[3] * 3)
    query = unit(axes[0] * 0.5 + axes[1] * 0.45 + axes[3] * 0.5)
    vectors = np.stack([tied] * 30 + [better] * 5)
    assignments = np.repeat([0, 1], [30, 5]).astype(np.int32)
    lists = InvertedLists(axes[:2], assignments)
    index = DenseIndex(vectors, np.arange(35), lists, exact_limit=0)
    rows, _ = index.search_windows(query, count)
    assert rows.tolist() == [*range(30, 35), *range(count - 5)]


def test_selective_filter_is_searched_exactly_without_training(monkeypatch):
    vectors, nodes, queries = clustered()
    forbid_training(monkeypatch)
    index = DenseIndex(vectors, nodes, exact_limit=300)
    allowed = random_mask(2, 100)
    for query in queries:
        rows, cosines = index.search_windows(query, 40, allowed)
        expected = flat_index().search_windows(query, 40, allowed)
        assert rows.tolist() == expected[0].tolist()
        np.testing.assert_allclose(cosines, expected[1], atol=1e-6)


def test_broad_filter_returns_only_allowed_windows():
    allowed = np.random.default_rng(3).random(COUNT // 3) < 0.5
    index = ivf_index(exact_limit=1_000)
    for query in clustered()[2]:
        rows, _ = index.search_windows(query, 300, allowed)
        assert len(rows) == 300
        assert allowed[rows // 3].all()
    assert mean_recall(index, 200, allowed) >= 0.98


@pytest.mark.parametrize("count", [100, 1_000, COUNT - 1, COUNT, COUNT * 2])
def test_more_lists_are_searched_until_enough_windows_are_found(monkeypatch, count):
    monkeypatch.setattr(dense_module, "NPROBE", 1)
    searched = []

    def search_parameters(nprobe, selector):
        searched.append(nprobe)
        return ivf_module.search_parameters(nprobe, selector)

    monkeypatch.setattr(dense_module, "search_parameters", search_parameters)
    query = clustered()[2][0]
    rows, _ = ivf_index().search_windows(query, count)
    assert len(set(rows.tolist())) == min(count, COUNT)
    assert searched == [4**i for i in range(len(searched))]
    assert len(searched) > 1
    if count >= COUNT:
        assert searched[-1] > trained().nlist
        assert rows.tolist() == flat_index().search_windows(query, COUNT)[0].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_few_allowed_windows_in_distant_lists_are_all_found(monkeypatch, seed):
    monkeypatch.setattr(dense_module, "NPROBE", 1)
    allowed = random_mask(seed, 9)
    query = clustered()[2][seed]
    rows, _ = ivf_index().search_windows(query, 99, allowed)
    assert rows.tolist() == flat_index().search_windows(query, 99, allowed)[0].tolist()
    assert len(rows) == 27


@st.composite
def searches(draw):
    """Draw vectors, lists and a query, all with few distinct values."""
    size = draw(st.integers(1, 40))
    halves = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
    vectors = np.asarray([draw(halves) for _ in range(size)], dtype=np.float32) / 2
    centroids = np.asarray(draw(st.lists(halves, min_size=1, max_size=6)), dtype=np.float32)
    query = np.asarray(draw(halves), dtype=np.float32) / 2
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    lists = InvertedLists(centroids, assign_lists(centroids, vectors))
    return vectors, lists, query, None if allowed is None else np.asarray(allowed)


@quick
@given(searches(), st.integers(1, 50), st.integers(1, 3))
def test_any_lists_return_the_requested_number_of_windows_in_order(case, count, nprobe):
    vectors, lists, query, allowed = case
    index = DenseIndex(vectors, np.arange(len(vectors)), lists, exact_limit=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_module, "NPROBE", nprobe)
        rows, cosines = (part.tolist() for part in index.search_windows(query, count, allowed))
    usable = np.arange(len(vectors)) if allowed is None else np.flatnonzero(allowed)
    scores = (vectors @ query).tolist()
    assert set(rows) <= set(usable.tolist())
    assert rows == sorted(set(rows), key=lambda row: (-scores[row], row))
    assert cosines == [scores[row] for row in rows]
    assert len(rows) == min(count, len(usable))
    if count >= len(usable):
        assert set(rows) == set(usable.tolist())
    for row in rows:  # among equal vectors, the earlier comes first
        earlier = [n for n in usable.tolist() if n < row and (vectors[n] == vectors[row]).all()]
        assert set(earlier) <= set(rows)


# Training


def test_training_is_deterministic():
    repeated = InvertedLists.train(clustered()[0].copy())
    assert np.array_equal(repeated.centroids, trained().centroids)
    assert np.array_equal(repeated.assignments, trained().assignments)


def test_each_vector_is_in_the_list_of_its_nearest_centroid(monkeypatch):
    vectors, lists = clustered()[0], trained()
    products = vectors @ lists.centroids.T
    assigned = products[np.arange(COUNT), lists.assignments]
    np.testing.assert_allclose(assigned, products.max(axis=1), atol=1e-6)
    assert lists.nlist == int(4 * COUNT**0.5)
    np.testing.assert_allclose(np.linalg.norm(lists.centroids, axis=1), 1, atol=1e-5)
    monkeypatch.setattr(ivf_module, "_BATCH", 1_000)
    assert np.array_equal(assign_lists(lists.centroids, vectors), lists.assignments)
    assert assign_lists(lists.centroids, np.empty((0, 0), dtype=np.float32)).tolist() == []


def test_many_lists_are_trained_and_assigned_through_groups(monkeypatch):
    vectors, nodes, _ = clustered()
    nlist = trained().nlist  # before the limit changes, because other tests use the same lists
    monkeypatch.setattr(ivf_module, "_MAX_COMPARED", 100)
    lists = InvertedLists.train(vectors)
    assert 0.9 < lists.nlist / nlist <= 1
    np.testing.assert_allclose(np.linalg.norm(lists.centroids, axis=1), 1, atol=1e-5)
    products = vectors @ lists.centroids.T
    assigned = products[np.arange(COUNT), lists.assignments]
    assert (products.max(axis=1) - assigned < 1e-6).mean() > 0.95
    assert mean_recall(DenseIndex(vectors, nodes, lists, exact_limit=0), 200) >= 0.95
    assert np.array_equal(InvertedLists.train(vectors).assignments, lists.assignments)
    assert least_nprobe(1600) == 100
    assert least_nprobe(100) == 0


def test_faiss_index_built_in_batches_contains_all_vectors(monkeypatch):
    monkeypatch.setattr(ivf_module, "_BATCH", 700)
    index = ivf_index()
    rows, _ = index.search_windows(clustered()[2][0], COUNT)
    assert sorted(rows.tolist()) == list(range(COUNT))
    assert mean_recall(index, 200) >= 0.98


def test_identical_vectors_can_be_indexed():
    vectors = np.repeat(unit(np.ones((1, 8))), 500, axis=0)
    index = DenseIndex(vectors, np.arange(500), exact_limit=0)
    rows, cosines = index.search_windows(vectors[0], 20)
    assert rows.tolist() == list(range(20))
    assert cosines.tolist() == pytest.approx([1] * 20)


@pytest.mark.slow
def test_training_prints_nothing(capfd):
    vectors = unit(np.random.default_rng(0).normal(size=(dense_module._EXACT_LIMIT + 1, 3)))
    assert len(InvertedLists.train(vectors).assignments) == len(vectors)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("n_vectors", "expected"),
    [(0, False), (2_500, False), (2_501, True), (10_000, True), (39_999, True), (40_000, False)],
)
def test_lists_suit_a_quarter_to_four_times_as_many_vectors(n_vectors, expected):
    lists = InvertedLists(np.zeros((400, 2), dtype=np.float32), np.empty(0, dtype=np.int32))
    assert lists.suits(n_vectors) == expected


# Persistence


def test_lists_are_trained_on_the_first_large_search_and_persisted(monkeypatch):
    vectors, nodes, queries = clustered()
    persisted = []
    index = DenseIndex(vectors, nodes, on_build=persisted.append, exact_limit=1_000)
    index.search_windows(queries[0], 5, np.arange(COUNT // 3) < 10)  # few allowed windows
    assert (persisted, index.ivf) == ([], None)
    found = [index.search_windows(query, 50)[0].tolist() for query in queries]
    lists, quantized = persisted
    assert index.ivf is lists
    assert quantized.codes.data.shape == (COUNT, 24 + 8)
    forbid_training(monkeypatch)
    reloaded = DenseIndex(vectors, nodes, lists, persisted.append, exact_limit=1_000)
    assert [reloaded.search_windows(query, 50)[0].tolist() for query in queries] == found
    assert len(persisted) == 3  # the quantized vectors again


def forbid_building(monkeypatch):
    def build(*_):
        raise AssertionError("vectors were quantized")

    monkeypatch.setattr(InvertedLists, "faiss_index", build)


def stored_codes(folder, lists=None):
    """Return trained lists with quantized vectors in a file."""
    vectors, nodes, _ = clustered()
    persisted = []
    lists = trained() if lists is None else lists
    DenseIndex(
        vectors[: len(lists.assignments)], nodes, lists, persisted.append, exact_limit=0
    ).prepare()
    codes = persisted[0].codes
    array_files.save_arrays(folder / "codes", {"data": codes.data}, {})
    file = array_files.array_file(folder / "codes", "data")
    return replace(lists, codes=replace(codes, data=np.load(file), path=file))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("rows", [1, 7, 1 << 14])
def test_mapped_lists_answer_like_those_in_memory(tmp_path, monkeypatch, rows):
    vectors, nodes, queries = clustered()
    built = ivf_index()
    built.prepare()
    monkeypatch.setattr(array_files, "_BLOCK_ROWS", rows)
    lists = stored_codes(tmp_path)
    forbid_building(monkeypatch)
    mapped = DenseIndex(vectors, nodes, lists, exact_limit=0)
    masks = None, np.arange(COUNT // 3) % 2 == 0
    for query in queries:
        for allowed in masks:
            expected = built.search_windows(query, 50, allowed)
            found = mapped.search_windows(query, 50, allowed)
            assert found[0].tolist() == expected[0].tolist()
            assert found[1].tolist() == expected[1].tolist()


def test_lists_without_vectors_can_be_mapped(tmp_path, monkeypatch):
    vectors, nodes, queries = clustered()
    centroids = np.concatenate([trained().centroids, unit(np.ones((2, 24)))])
    lists = stored_codes(tmp_path, InvertedLists(centroids, trained().assignments))
    forbid_building(monkeypatch)
    mapped = DenseIndex(vectors, nodes, lists, exact_limit=0)
    rows, _ = mapped.search_windows(queries[0], COUNT)
    assert sorted(rows.tolist()) == list(range(COUNT))


def test_codes_whose_file_cannot_be_mapped_are_computed_again(tmp_path, caplog):
    vectors, nodes, queries = clustered()
    lists = stored_codes(tmp_path)
    lists.codes.path.unlink()
    missing = DenseIndex(vectors, nodes, lists, exact_limit=0)
    expected = ivf_index().search_windows(queries[0], 50)[0]
    assert missing.search_windows(queries[0], 50)[0].tolist() == expected.tolist()
    assert str(lists.codes.path) in caplog.text


def test_faiss_without_mapped_lists_builds_them_in_memory(tmp_path, monkeypatch):
    vectors, nodes, queries = clustered()
    lists = stored_codes(tmp_path)
    expected = ivf_index().search_windows(queries[0], 50)[0]
    monkeypatch.delattr(faiss, "OnDiskInvertedLists")
    persisted = []
    index = DenseIndex(vectors, nodes, lists, persisted.append, exact_limit=0)
    assert index.search_windows(queries[0], 50)[0].tolist() == expected.tolist()
    assert persisted == []
    DenseIndex(vectors, nodes, trained(), persisted.append, exact_limit=0).prepare()
    assert persisted == []


@pytest.mark.parametrize(
    "change",
    [
        lambda codes: replace(codes, data=codes.data[1:]),
        lambda codes: replace(codes, data=codes.data.astype(np.int8)),
        lambda codes: replace(codes, data=codes.data.reshape(-1, 16)),
        lambda codes: replace(codes, data=np.full_like(codes.data, 255)),
        lambda codes: replace(codes, data=np.zeros_like(codes.data)),
        lambda codes: replace(codes, quantizer=codes.quantizer[:1]),
        lambda codes: replace(codes, quantizer=codes.quantizer.astype(np.float64)),
    ],
)
def test_codes_that_do_not_fit_the_lists_are_recognized(tmp_path, change):
    lists = stored_codes(tmp_path)
    assert is_consistent_codes(lists)
    assert not is_consistent_codes(replace(lists, codes=change(lists.codes)))


@pytest.fixture
def trainings(monkeypatch):
    """Use IVF from eleven windows on, and record the number of vectors of each training."""
    monkeypatch.setitem(DenseIndex.__init__.__kwdefaults__, "exact_limit", 10)
    train, sizes = InvertedLists.train, []

    def recording(vectors):
        sizes.append(len(vectors))
        return train(vectors)

    monkeypatch.setattr(InvertedLists, "train", recording)
    return sizes


@pytest.fixture
def path(tmp_path, open_index, trainings):
    """A closed index whose snapshot is on disk with its IVF lists."""
    with open_index(tmp_path / "i.e2g", **CHUNKING) as rag:
        rag.add([numbered(60, "a"), numbered(40, "b")])
        assert rag.retrieve("Item 7").nodes
    assert trainings == [102]
    return tmp_path / "i.e2g"


def lists_folder(path):
    [folder] = Path(f"{path}.snapshot").iterdir()
    return folder / "cells"


def results(rag):
    return [rag.retrieve(f"Item {i} ends", k=6).nodes for i in (3, 21, 44)]


def snapshot_of(rag):
    return rag._session.snapshot()


def windows_of(snapshot, document):
    """Return a mask over windows: True for those of a document."""
    documents = snapshot.nodes.document[snapshot.dense.window_nodes]
    return documents == list(snapshot.documents).index(document)


@pytest.mark.slow
def test_persisted_lists_are_reused_by_other_processes(path, open_index, trainings):
    expected = results(open_index(path, **CHUNKING))
    assert trainings == [102]
    shutil.rmtree(lists_folder(path))
    assert results(open_index(path, **CHUNKING)) == expected
    assert results(open_index(path, **CHUNKING)) == expected
    assert trainings == [102, 102]
    names = sorted(file.name for file in lists_folder(path).iterdir())
    assert names == ["centroids.npy", "meta.json", "of_vector.npy"]
    codes = sorted(file.name for file in (lists_folder(path).parent / "codes").iterdir())
    assert codes == ["data.npy", "meta.json", "quantizer.npy"]


def test_other_processes_map_the_codes_instead_of_computing_them(path, open_index, monkeypatch):
    forbid_building(monkeypatch)
    assert results(open_index(path, **CHUNKING))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["data.npy", "quantizer.npy", "meta.json"])
@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_damaged_codes_are_computed_again_without_training(
    path, open_index, trainings, monkeypatch, name, damage
):
    expected = results(open_index(path, **CHUNKING))
    damage_file(lists_folder(path).parent / "codes" / name, damage)
    assert results(open_index(path, **CHUNKING)) == expected
    forbid_building(monkeypatch)
    assert results(open_index(path, **CHUNKING)) == expected
    assert trainings == [102]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["centroids.npy", "of_vector.npy", "meta.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "short", "flipped"])
def test_damaged_list_files_are_rebuilt(path, open_index, trainings, name, damage):
    expected = results(open_index(path, **CHUNKING))
    file = lists_folder(path) / name
    damage_file(file, damage)
    with open_index(path, **CHUNKING) as rag:
        assert results(rag) == expected
        assert rag.verify().problems == ()
    assert results(open_index(path, **CHUNKING)) == expected
    assert trainings == [102, 102]


def test_lists_stay_in_memory_if_they_cannot_be_written(path, open_index, trainings, monkeypatch):
    expected = results(open_index(path, **CHUNKING))
    shutil.rmtree(lists_folder(path))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    rag = open_index(path, **CHUNKING)
    assert (results(rag), results(rag)) == (expected, expected)
    assert trainings == [102, 102]
    assert not lists_folder(path).exists()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("where", ["file", ":memory:"])
def test_incremental_snapshot_reuses_the_older_lists(tmp_path, open_index, trainings, where):
    path = tmp_path / "i.e2g" if where == "file" else where
    rag = open_index(path, **CHUNKING)
    rag.add([numbered(60, "a"), numbered(40, "b")])
    rag.retrieve("Item 7")
    older = snapshot_of(rag)
    rag.delete("a")
    rag.add([numbered(80, "aa"), SourceDocument("c", "Greta met Hans. Ida left for Rome.")])
    newer = snapshot_of(rag)
    assert results(rag)
    assert trainings == [102]
    assert newer is not older
    lists, older_lists = newer.dense.ivf, older.dense.ivf
    assert np.array_equal(lists.centroids, older_lists.centroids)
    assert lists.assignments.dtype == older_lists.assignments.dtype
    reused = lists.assignments[windows_of(newer, "b")]
    assert reused.tolist() == older_lists.assignments[windows_of(older, "b")].tolist()
    expected = assign_lists(lists.centroids, newer.dense.vectors)
    assert lists.assignments.tolist() == expected.tolist()
    assert len(lists.assignments) == len(newer.dense.window_nodes)
    assert windows_of(newer, "aa").sum() > 80
    if where == "file":
        loaded = snapshot_of(open_index(path, **CHUNKING)).dense.ivf
        assert loaded.assignments.tolist() == lists.assignments.tolist()
        assert np.array_equal(loaded.centroids, lists.centroids)


@pytest.mark.usefixtures("all_summaries")
def test_reused_lists_find_new_windows_and_no_deleted_ones(path, open_index):
    with open_index(path, **CHUNKING) as rag:
        rag.add([numbered(90, "aa"), SourceDocument("c", "Greta met Hans. Ida left for Rome.")])
        assert rag.retrieve("Greta met Hans", k=1, mode="global").nodes[0].document_id == "c"
        rag.delete(["a", "c"])
        dense = snapshot_of(rag).dense
        rows, _ = dense.search_windows(dense.vectors[0], 1_000)
        assert sorted(rows.tolist()) == list(range(len(dense.window_nodes)))
        found = rag.retrieve("Greta met Hans", k=99, mode="global").nodes
        assert {node.document_id for node in found} == {"aa", "b"}
        assert rag.verify().problems == ()


@pytest.mark.slow
def test_lists_are_retrained_for_far_fewer_or_far_more_vectors(path, open_index, trainings):
    with open_index(path, **CHUNKING) as rag:
        rag.add(numbered(400, "c"))
        for deleted in ([], ["b", "c"]):
            rag.delete(deleted)
            assert results(rag)
            dense = snapshot_of(rag).dense
            assert trainings[-1] == len(dense.window_nodes)
            assert dense.ivf.nlist == int(4 * trainings[-1] ** 0.5)
    assert len(trainings) == 3


def test_verify_notices_codes_of_other_vectors(path, open_index):
    assert open_index(path, **CHUNKING).verify().problems == ()
    folder = lists_folder(path).parent / "codes"
    arrays, meta = array_files.load_arrays(folder)
    changed = np.array(arrays["data"])
    changed[0, 0] ^= 1  # the first component in the first list
    array_files.save_arrays(folder, {**arrays, "data": changed}, meta)
    [problem] = open_index(path, **CHUNKING).verify().problems
    assert "codes" in str(problem)
