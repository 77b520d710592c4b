"""Cells: many vectors searched where the question is near, and nearly all of the best found."""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.search import dense as vectors
from e2graphrag_integrations.search import ivf as cells
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.ivf import InvertedLists, assign_lists
from fakes import damaged, numbered
from strategies import quick

COUNT = 9_000
"""Of which the cells are more than are searched."""

CUT = {"chunk_size": 4, "chunk_overlap": 0, "group_size": 100}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads of FAISS that wait for each other take very long where all cores are busy."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


def unit(values):
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


@lru_cache(maxsize=1)
def clustered():
    """Return vectors around sixty places, three for each node, and questions near some of them."""
    random = np.random.default_rng(5)
    places = random.normal(size=(60, 24))
    made = unit(places[random.integers(0, 60, COUNT)] + random.normal(size=(COUNT, 24)) * 0.5)
    questions = unit(made[random.integers(0, COUNT, 25)] + random.normal(size=(25, 24)) * 0.1)
    return made, np.arange(COUNT) // 3, questions


@lru_cache(maxsize=1)
def trained():
    return InvertedLists.trained(clustered()[0])


def divided(**options):
    made, nodes, _ = clustered()
    return DenseIndex(made, nodes, trained(), **({"exact": 0} | options))


def flat():
    made, nodes, _ = clustered()
    return DenseIndex(made, nodes, exact=COUNT)


def recall(index, count, allowed=None):
    shares = []
    for question in clustered()[2]:
        found, _ = index.windows(question, count, allowed)
        expected, _ = flat().windows(question, count, allowed)
        assert len(set(found.tolist())) == len(expected)
        shares.append(len(np.intersect1d(found, expected)) / len(expected))
    return np.mean(shares)


def forbid_training(monkeypatch):
    def train(*_):
        raise AssertionError("cells are known")

    monkeypatch.setattr(InvertedLists, "trained", train)


# The search


@pytest.mark.parametrize("share", [1, 2])
def test_of_the_best_200_all_but_a_few_are_found(monkeypatch, share):
    assert len(trained().centroids) > vectors.SEARCHED
    monkeypatch.setattr(vectors, "SEARCHED", vectors.SEARCHED // share)
    assert recall(divided(), 200) >= 0.98


def test_what_is_found_has_its_exact_cosine_best_first():
    made, _, questions = clustered()
    for question in questions:
        rows, cosines = divided().windows(question, 50)
        assert (rows.dtype, cosines.dtype, len(rows)) == (np.int64, np.float64, 50)
        np.testing.assert_allclose(cosines, made[rows] @ question, atol=1e-6)
        assert cosines.tolist() == sorted(cosines.tolist(), reverse=True)


def test_nodes_are_found_by_their_best_windows():
    index, exact = divided(), flat()
    for question in clustered()[2]:
        found, expected = (one.search(question, 5) for one in (index, exact))
        assert [node for node, _ in found] == [node for node, _ in expected]
        assert [score for _, score in found] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("count", [1, 5, 40, 200, 400, 2_000])
def test_ties_go_to_the_earlier_window_however_many_there_are(count):
    made, nodes, questions = clustered()
    [best], _ = flat().windows(questions[0], 1)
    made, copies = made.copy(), np.sort(np.random.default_rng(1).permutation(COUNT)[:300])
    made[copies] = made[best]
    rows, cosines = DenseIndex(made, nodes, trained_of(made), exact=0).windows(questions[0], count)
    tied = np.union1d(copies, [best])
    assert rows[:301].tolist() == tied[:count].tolist()
    assert len(set(cosines[:301].tolist())) == 1


@lru_cache(maxsize=1)
def centroids():
    return trained().centroids


def trained_of(made):
    return InvertedLists(centroids(), assign_lists(centroids(), made))


@pytest.mark.parametrize("copies", [5, 7, 9, 33])
def test_equal_vectors_have_equal_cosines_to_the_last_bit(copies):
    """A product of a matrix does not give them: rows are summed in more than one way."""
    random = np.random.default_rng(copies)
    for width in (16, 64, 384):
        made = np.repeat(unit(random.normal(size=(2, width))), [copies, 40], axis=0)
        question = unit(random.normal(size=width))
        allowed = np.arange(copies + 40) < copies
        known = InvertedLists(made[[0, -1]], np.repeat([0, 1], [copies, 40]).astype(np.int32))
        for exact in (0, copies):  # by cells, and one by one
            index = DenseIndex(made, np.arange(copies + 40), known, exact=exact)
            rows, cosines = index.windows(question, copies, allowed)
            assert rows.tolist() == list(range(copies))
            assert len(set(cosines.tolist())) == 1


@pytest.mark.parametrize("count", [6, 10, 20])
def test_what_is_better_in_a_later_cell_drops_no_earlier_tie(count):
    """FAISS drops of the worst that tie the earliest first."""
    axes = np.eye(4, dtype=np.float32)
    tied, better = unit(axes[0] * 4 + axes[2] * 3), unit(axes[1] * 4 + axes[3] * 3)
    question = unit(axes[0] * 0.5 + axes[1] * 0.45 + axes[3] * 0.5)
    made = np.stack([tied] * 30 + [better] * 5)
    of_vector = np.repeat([0, 1], [30, 5]).astype(np.int32)
    index = DenseIndex(made, np.arange(35), InvertedLists(axes[:2], of_vector), exact=0)
    rows, _ = index.windows(question, count)
    assert rows.tolist() == [*range(30, 35), *range(count - 5)]


def test_a_mask_that_allows_few_is_searched_exactly_without_cells(monkeypatch):
    made, nodes, questions = clustered()
    forbid_training(monkeypatch)
    index = DenseIndex(made, nodes, exact=300)
    allowed = np.zeros(COUNT // 3, dtype=np.bool_)
    allowed[np.random.default_rng(2).permutation(COUNT // 3)[:100]] = True
    for question in questions:
        rows, cosines = index.windows(question, 40, allowed)
        expected = flat().windows(question, 40, allowed)
        assert rows.tolist() == expected[0].tolist()
        np.testing.assert_allclose(cosines, expected[1], atol=1e-6)


def test_a_mask_that_allows_many_lets_only_those_be_found():
    allowed = np.random.default_rng(3).random(COUNT // 3) < 0.5
    index = divided(exact=1_000)
    for question in clustered()[2]:
        rows, _ = index.windows(question, 300, allowed)
        assert len(rows) == 300
        assert allowed[rows // 3].all()
    assert recall(index, 200, allowed) >= 0.98


@pytest.mark.parametrize("count", [100, 1_000, COUNT - 1, COUNT, COUNT * 2])
def test_more_cells_are_searched_until_there_are_enough(monkeypatch, count):
    monkeypatch.setattr(vectors, "SEARCHED", 1)
    searched = []

    def recorded(number, selector):
        searched.append(number)
        return cells.search_parameters(number, selector)

    monkeypatch.setattr(vectors, "search_parameters", recorded)
    question = clustered()[2][0]
    rows, _ = divided().windows(question, count)
    assert len(set(rows.tolist())) == min(count, COUNT)
    assert searched == [4**i for i in range(len(searched))]
    assert len(searched) > 1
    if count >= COUNT:
        assert searched[-1] > len(centroids())
        assert rows.tolist() == divided(exact=COUNT).windows(question, COUNT)[0].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_of_few_that_may_be_found_far_away_all_are(monkeypatch, seed):
    monkeypatch.setattr(vectors, "SEARCHED", 1)
    allowed = np.zeros(COUNT // 3, dtype=np.bool_)
    allowed[np.random.default_rng(seed).permutation(COUNT // 3)[:9]] = True
    question = clustered()[2][seed]
    rows, _ = divided().windows(question, 99, allowed)
    assert rows.tolist() == flat().windows(question, 99, allowed)[0].tolist()
    assert len(rows) == 27


@st.composite
def searches(draw):
    """Return vectors, cells and a question, all with few distinct values."""
    size = draw(st.integers(1, 40))
    halves = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
    made = np.asarray([draw(halves) for _ in range(size)], dtype=np.float32) / 2
    means = np.asarray(draw(st.lists(halves, min_size=1, max_size=6)), dtype=np.float32)
    question = np.asarray(draw(halves), dtype=np.float32) / 2
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size))
    known = InvertedLists(means, assign_lists(means, made))
    return made, known, question, None if allowed is None else np.asarray(allowed)


@quick
@given(searches(), st.integers(1, 50), st.integers(1, 3))
def test_whatever_the_cells_are_as_many_as_there_are_come_in_order(case, count, searched):
    made, known, question, allowed = case
    index = DenseIndex(made, np.arange(len(made)), known, exact=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "SEARCHED", searched)
        rows, cosines = (part.tolist() for part in index.windows(question, count, allowed))
    usable = np.arange(len(made)) if allowed is None else np.flatnonzero(allowed)
    scores = (made @ question).tolist()
    assert set(rows) <= set(usable.tolist())
    assert rows == sorted(set(rows), key=lambda row: (-scores[row], row))
    assert cosines == [scores[row] for row in rows]
    assert len(rows) == min(count, len(usable))
    if count >= len(usable):
        assert set(rows) == set(usable.tolist())
    for row in rows:  # of equal vectors the earlier is found first
        same = [one for one in usable.tolist() if one < row and (made[one] == made[row]).all()]
        assert set(same) <= set(rows)


# What they are made of


def test_equal_vectors_give_equal_cells():
    again = InvertedLists.trained(clustered()[0].copy())
    assert np.array_equal(again.centroids, trained().centroids)
    assert np.array_equal(again.of_vector, trained().of_vector)


def test_each_vector_is_in_the_cell_whose_centroid_is_nearest(monkeypatch):
    made, known = clustered()[0], trained()
    products = made @ known.centroids.T
    in_cell = products[np.arange(COUNT), known.of_vector]
    np.testing.assert_allclose(in_cell, products.max(axis=1), atol=1e-6)
    assert len(known.centroids) == int(4 * COUNT**0.5)
    np.testing.assert_allclose(np.linalg.norm(known.centroids, axis=1), 1, atol=1e-5)
    monkeypatch.setattr(cells, "_BATCH", 1_000)
    assert np.array_equal(assign_lists(known.centroids, made), known.of_vector)
    assert assign_lists(known.centroids, np.empty((0, 0), dtype=np.float32)).tolist() == []


def test_an_index_made_a_part_at_a_time_is_of_all(monkeypatch):
    monkeypatch.setattr(cells, "_BATCH", 700)
    index = divided()
    rows, _ = index.windows(clustered()[2][0], COUNT)
    assert sorted(rows.tolist()) == list(range(COUNT))
    assert recall(index, 200) >= 0.98


def test_vectors_that_are_all_one_have_cells():
    made = np.repeat(unit(np.ones((1, 8))), 500, axis=0)
    index = DenseIndex(made, np.arange(500), exact=0)
    rows, cosines = index.windows(made[0], 20)
    assert rows.tolist() == list(range(20))
    assert cosines.tolist() == pytest.approx([1] * 20)


def test_training_says_nothing(capfd):
    made = unit(np.random.default_rng(0).normal(size=(vectors._EXACT + 1, 3)))
    assert len(InvertedLists.trained(made).of_vector) == len(made)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("count", "fits"),
    [(0, False), (2_500, False), (2_501, True), (10_000, True), (39_999, True), (40_000, False)],
)
def test_cells_fit_from_a_quarter_to_four_times_as_many_vectors(count, fits):
    made = InvertedLists(np.zeros((400, 2), dtype=np.float32), np.empty(0, dtype=np.int32))
    assert made.fit(count) == fits


# Kept


def test_cells_are_found_at_the_first_search_of_many_and_kept(monkeypatch):
    made, nodes, questions = clustered()
    kept = []
    index = DenseIndex(made, nodes, keep=kept.append, exact=1_000)
    index.windows(questions[0], 5, np.arange(COUNT // 3) < 10)  # few
    assert (kept, index.known_cells) == ([], None)
    found = [index.windows(question, 50)[0].tolist() for question in questions]
    [known] = kept
    assert index.known_cells is known
    forbid_training(monkeypatch)
    again = DenseIndex(made, nodes, known, kept.append, exact=1_000)
    assert [again.windows(question, 50)[0].tolist() for question in questions] == found
    assert len(kept) == 1


@pytest.fixture
def few(monkeypatch):
    """Let cells be used from eleven windows on, and count how often they are found."""
    monkeypatch.setitem(DenseIndex.__init__.__kwdefaults__, "exact", 10)
    real, made = InvertedLists.trained, []

    def counting(given_vectors):
        made.append(len(given_vectors))
        return real(given_vectors)

    monkeypatch.setattr(InvertedLists, "trained", counting)
    return made


@pytest.fixture
def path(tmp_path, open_index, few):
    """Make a closed index whose snapshot is on disk with its cells."""
    with open_index(tmp_path / "i.e2g", **CUT) as rag:
        rag.add([numbered(60, "a"), numbered(40, "b")])
        assert rag.retrieve("Item 7").nodes
    assert few == [102]
    return tmp_path / "i.e2g"


def cells_of(path):
    [folder] = Path(f"{path}.snapshot").iterdir()
    return folder / "cells"


def answers(rag):
    return [rag.retrieve(f"Item {i} ends", k=6).nodes for i in (3, 21, 44)]


def dense(rag):
    return rag._reader.snapshot().dense


def windows_of(snapshot, document):
    """Return a mask over windows: which are a document's."""
    owners = snapshot.nodes.document[snapshot.dense.nodes]
    return owners == list(snapshot.documents).index(document)


def test_they_are_found_once_for_all_processes(path, open_index, few):
    expected = answers(open_index(path, **CUT))
    assert few == [102]
    shutil.rmtree(cells_of(path))
    assert answers(open_index(path, **CUT)) == expected
    assert answers(open_index(path, **CUT)) == expected
    assert few == [102, 102]
    names = sorted(file.name for file in cells_of(path).iterdir())
    assert names == ["centroids.npy", "meta.json", "of_vector.npy"]


@pytest.mark.parametrize("name", ["centroids.npy", "of_vector.npy", "meta.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "short", "flipped"])
def test_damaged_ones_are_found_again(path, open_index, few, name, damage):
    expected = answers(open_index(path, **CUT))
    file = cells_of(path) / name
    damaged(file, damage)
    with open_index(path, **CUT) as rag:
        assert answers(rag) == expected
        assert rag.verify().problems == ()
    assert answers(open_index(path, **CUT)) == expected
    assert few == [102, 102]


def test_cells_that_cannot_be_written_are_held_in_memory(path, open_index, few, monkeypatch):
    expected = answers(open_index(path, **CUT))
    shutil.rmtree(cells_of(path))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    rag = open_index(path, **CUT)
    assert (answers(rag), answers(rag)) == (expected, expected)
    assert few == [102, 102]
    assert not cells_of(path).exists()


@pytest.mark.parametrize("where", ["file", ":memory:"])
def test_a_snapshot_made_of_an_older_one_has_its_cells(tmp_path, open_index, few, where):
    path = tmp_path / "i.e2g" if where == "file" else where
    rag = open_index(path, **CUT)
    rag.add([numbered(60, "a"), numbered(40, "b")])
    rag.retrieve("Item 7")
    older = rag._reader.snapshot()
    rag.delete("a")
    rag.add([numbered(80, "aa"), SourceDocument("c", "Greta met Hans. Ida left for Rome.")])
    newer = rag._reader.snapshot()
    assert answers(rag)
    assert few == [102]
    assert newer is not older
    known, before = newer.dense.known_cells, older.dense.known_cells
    assert np.array_equal(known.centroids, before.centroids)
    assert known.of_vector.dtype == before.of_vector.dtype
    taken, kept = known.of_vector[windows_of(newer, "b")], before.of_vector[windows_of(older, "b")]
    assert taken.tolist() == kept.tolist()
    assert known.of_vector.tolist() == assign_lists(known.centroids, newer.dense.vectors).tolist()
    assert len(known.of_vector) == len(newer.dense.nodes)
    assert windows_of(newer, "aa").sum() > 80
    if where == "file":
        loaded = dense(open_index(path, **CUT)).known_cells
        assert loaded.of_vector.tolist() == known.of_vector.tolist()
        assert np.array_equal(loaded.centroids, known.centroids)


def test_what_is_found_by_cells_of_an_older_snapshot_is_there(path, open_index):
    with open_index(path, **CUT) as rag:
        rag.add([numbered(90, "aa"), SourceDocument("c", "Greta met Hans. Ida left for Rome.")])
        assert rag.retrieve("Greta met Hans", k=1, mode="global").nodes[0].document_id == "c"
        rag.delete(["a", "c"])
        rows, _ = dense(rag).windows(dense(rag).vectors[0], 1_000)
        assert sorted(rows.tolist()) == list(range(len(dense(rag).nodes)))
        found = rag.retrieve("Greta met Hans", k=99, mode="global").nodes
        assert {node.document_id for node in found} == {"aa", "b"}
        assert rag.verify().problems == ()


def test_cells_for_far_fewer_or_far_more_vectors_are_found_anew(path, open_index, few):
    with open_index(path, **CUT) as rag:
        rag.add(numbered(400, "c"))
        for gone in ([], ["b", "c"]):
            rag.delete(gone)
            assert dense(rag).known_cells is None
            assert answers(rag)
            assert few[-1] == len(dense(rag).nodes)
            assert len(dense(rag).known_cells.centroids) == int(4 * few[-1] ** 0.5)
    assert len(few) == 3
