"""Windows found through a vector store that holds more than the index, and knows less of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.external import UnavailableSearch, VectorStoreSearch
from strategies import quick

ANY = np.ones(1, dtype=np.float32)


class Store:
    """Gives ids by score, of the documents asked for where it knows these names.

    Equal scores come last row first: the worst order for a search that wants the first.
    """

    def __init__(self, scores, documents=None):
        self.scores = scores
        self.documents = documents
        self.asked = []

    def __call__(self, vector, count, documents):
        self.asked.append((count, documents))
        assert len(self.asked) < 30, "the search does not end"
        hits = list(enumerate(self.scores.items()))
        if documents is not None and self.documents is not None:
            hits = [hit for hit in hits if self.documents.get(hit[1][0]) in documents]
        hits.sort(key=lambda hit: (-hit[1][1], -hit[0]))
        return [(id_, score) for _, (id_, score) in hits[:count]]


def search_of(store, owners, documents=None):
    """Return a search for windows `0`, `1`, ... of these nodes, by default a document each."""
    ids = [str(row) for row in range(len(owners))]
    documents = documents or [f"document {node}" for node in range(max(owners, default=0) + 1)]
    return VectorStoreSearch(store, "Fake", ids, np.asarray(owners), documents)


def windows(search, count, allowed=None, vector=ANY):
    mask = None if allowed is None else np.asarray([bit == "1" for bit in allowed])
    rows, cosines = search.windows(vector, count, mask)
    assert (rows.dtype, cosines.dtype) == (np.int64, np.float64)
    return list(zip(rows.tolist(), cosines.tolist(), strict=True))


def test_windows_come_best_first_and_a_search_takes_the_best_of_each_node():
    search = search_of(Store({"0": 0.1, "1": 0.9, "2": 0.5}), [0, 1, 1])
    assert windows(search, 3) == [(1, 0.9), (2, 0.5), (0, 0.1)]
    assert search.search(ANY, 3) == [(1, 0.9), (0, 0.1)]
    assert search.nodes.tolist() == [0, 1, 1]


def test_vectors_that_are_not_the_indexs_are_passed_over():
    store = Store({"x": 0.9, "0": 0.8, "y": 0.7, "1": 0.6})
    assert windows(search_of(store, [0, 1]), 2) == [(0, 0.8), (1, 0.6)]


def test_the_store_is_asked_for_more_until_enough_windows_count():
    foreign = {f"x{n}": 0.9 for n in range(30)}
    store = Store({**foreign, "0": 0.5, "1": 0.4, "2": 0.3})
    assert windows(search_of(store, [0, 1, 2]), 2) == [(0, 0.5), (1, 0.4)]
    assert store.asked == [(3, None), (12, None), (48, None)]


def test_the_store_is_asked_once_where_the_first_answer_is_enough():
    store = Store({"0": 0.5, "1": 0.4, "2": 0.3})
    assert windows(search_of(store, [0, 1, 2]), 2) == [(0, 0.5), (1, 0.4)]
    assert store.asked == [(3, None)]


def test_ties_go_to_the_earlier_window_though_the_store_gives_the_later_first():
    store = Store({str(row): 0.5 for row in range(40)})
    assert [row for row, _ in windows(search_of(store, [0] * 40), 2)] == [0, 1]


def test_what_differs_in_its_last_digits_ties():
    store = Store({"0": 0.49999999, "1": 0.50000001, "2": 0.4999})
    assert windows(search_of(store, [0, 1, 2]), 3) == [(0, 0.5), (1, 0.5), (2, 0.4999)]


def test_windows_of_nodes_that_may_not_be_seen_are_passed_over():
    store = Store({str(row): 0.9 - row / 100 for row in range(20)})
    search = search_of(store, [0] * 18 + [1, 2])
    assert windows(search, 1, "011") == [(18, 0.72)]
    assert windows(search, 5, "011") == [(18, 0.72), (19, 0.71)]


def test_a_store_that_knows_the_documents_is_asked_for_theirs_alone():
    places = {"0": "a", "1": "a", "2": "b", "3": "c"}
    store = Store({"0": 0.9, "1": 0.8, "2": 0.7, "3": 0.6}, places)
    search = search_of(store, [0, 1, 2, 3], ["a", "a", "b", "c"])
    assert windows(search, 1, "1011") == [(0, 0.9)]
    assert store.asked == [(2, ["a", "b", "c"])]
    assert windows(search, 1, "0010") == [(2, 0.7)]
    assert store.asked[1:] == [(2, ["b"])]


def test_a_store_that_lost_windows_of_a_document_it_knows_is_asked_once():
    store = Store({"0": 0.9, "2": 0.7}, {"0": "a", "2": "b"})
    assert windows(search_of(store, [0, 0, 1], ["a", "b"]), 2, "10") == [(0, 0.9)]
    assert store.asked == [(3, ["a"])]


def test_a_store_that_knows_documents_by_other_names_is_asked_again_without_them():
    store = Store({"0": 0.9, "1": 0.8}, {"0": "other name", "1": "other name"})
    assert windows(search_of(store, [0, 1]), 1, "01") == [(1, 0.8)]
    assert store.asked == [(2, ["document 1"]), (2, None)]


def test_a_store_that_lost_some_windows_gives_the_others():
    assert windows(search_of(Store({"1": 0.8, "x": 0.9}), [0, 1, 2]), 3) == [(1, 0.8)]


@pytest.mark.parametrize("scores", [{}, {"x": 0.9, "y": 0.8}])
@pytest.mark.parametrize(("allowed", "count"), [(None, 3), ("01", 2)])
def test_a_store_that_holds_none_of_the_vectors_is_corrupt(scores, allowed, count):
    search = search_of(Store(scores), [0, 1, 1])
    with pytest.raises(CorruptStoreError, match=f"none of the index's {count} vectors that may"):
        windows(search, 2, allowed)
    with pytest.raises(CorruptStoreError, match="Fake holds none of the index's 3 vectors"):
        search.search(ANY, 2)


def test_a_store_is_not_asked_for_nothing():
    store = Store({"0": 0.9})
    search = search_of(store, [0])
    assert windows(search, 0) == windows(search, 3, "0") == windows(search_of(store, []), 3) == []
    assert store.asked == []


def test_a_lost_search_fails_with_what_is_lost():
    lost = UnavailableSearch(CorruptStoreError("gone"), np.asarray([0, 1]))
    assert lost.nodes.tolist() == [0, 1]
    for ask in (lost.search, lost.windows):
        with pytest.raises(CorruptStoreError, match="gone"):
            ask(ANY, 1)


@st.composite
def stores(draw):
    """Vectors of halves, so that ties are ties: the index's own, then those of others."""
    nodes = draw(st.integers(1, 6))
    owners = sorted(draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=15)))
    vector = st.lists(st.integers(-2, 2), min_size=2, max_size=2)
    foreign = draw(st.integers(0, 20))
    vectors = [draw(vector) for _ in range(len(owners) + foreign)]
    documents = [draw(st.sampled_from("ab")) for _ in range(nodes)]
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=nodes, max_size=nodes))
    takes = draw(st.sampled_from(["heeds", "ignores", "other names"]))
    return owners, np.asarray(vectors) / 2, documents, allowed, takes, np.asarray(draw(vector)) / 2


@quick
@given(stores(), st.integers(0, 20), st.randoms(use_true_random=False))
def test_a_store_finds_the_windows_that_faiss_finds(drawn, count, random):
    owners, vectors, documents, allowed, takes, question = drawn
    scores = {str(row): float(score) for row, score in enumerate(vectors @ question)}
    order = list(scores.items())
    random.shuffle(order)
    places = {str(row): documents[node] for row, node in enumerate(owners)}
    known = {"heeds": places, "ignores": None, "other names": dict.fromkeys(places, "c")}[takes]
    search = search_of(Store(dict(order), known), owners, documents)
    mine = np.asarray(vectors[: len(owners)], dtype=np.float32)
    exact = DenseIndex(mine, np.asarray(owners, dtype=np.int64))
    mask = None if allowed is None else np.asarray(allowed)
    vector = question.astype(np.float32)
    for one, other in zip(
        search.windows(vector, count, mask), exact.windows(vector, count, mask), strict=True
    ):
        assert one.tolist() == other.tolist()
    assert search.search(vector, count, mask) == exact.search(vector, count, mask)
