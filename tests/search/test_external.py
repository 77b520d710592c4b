"""Search through a vector store that contains other vectors or lacks some of the index's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.external import VectorStoreSearch
from strategies import quick

VECTOR = np.ones(1, dtype=np.float32)


class FakeStore:
    """Returns ids by descending score; filters by document if it has document ids.

    Equal scores are returned last row first, the opposite of the required order.
    """

    def __init__(self, scores, documents=None):
        self.scores = scores
        self.documents = documents
        self.queries = []

    def __call__(self, vector, count, documents):
        self.queries.append((count, documents))
        assert len(self.queries) < 30, "the search does not end"
        hits = list(enumerate(self.scores.items()))
        if documents is not None and self.documents is not None:
            hits = [hit for hit in hits if self.documents.get(hit[1][0]) in documents]
        hits.sort(key=lambda hit: (-hit[1][1], -hit[0]))
        return [(id_, score) for _, (id_, score) in hits[:count]]


def search_of(store, nodes, documents=None):
    """Return a search for windows `0`, `1`, ... of these nodes, by default one document each."""
    ids = [str(row) for row in range(len(nodes))]
    documents = documents or [f"document {node}" for node in range(max(nodes, default=0) + 1)]
    return VectorStoreSearch(store, "Fake", ids, np.asarray(nodes), documents)


def search_windows(search, count, allowed=None, vector=VECTOR):
    """Return (window, cosine) pairs."""
    mask = None if allowed is None else np.asarray([bit == "1" for bit in allowed])
    rows, cosines = search.search_windows(vector, count, mask)
    assert (rows.dtype, cosines.dtype) == (np.int64, np.float64)
    return list(zip(rows.tolist(), cosines.tolist(), strict=True))


def test_windows_are_sorted_and_nodes_score_as_their_best_window():
    search = search_of(FakeStore({"0": 0.1, "1": 0.9, "2": 0.5}), [0, 1, 1])
    assert search_windows(search, 3) == [(1, 0.9), (2, 0.5), (0, 0.1)]
    assert search.search(VECTOR, 3) == [(1, 0.9), (0, 0.1)]
    assert search.window_nodes.tolist() == [0, 1, 1]


def test_foreign_vectors_are_skipped():
    store = FakeStore({"x": 0.9, "0": 0.8, "y": 0.7, "1": 0.6})
    assert search_windows(search_of(store, [0, 1]), 2) == [(0, 0.8), (1, 0.6)]


def test_store_is_queried_for_more_until_enough_windows_are_usable():
    foreign = {f"x{n}": 0.9 for n in range(30)}
    store = FakeStore({**foreign, "0": 0.5, "1": 0.4, "2": 0.3})
    assert search_windows(search_of(store, [0, 1, 2]), 2) == [(0, 0.5), (1, 0.4)]
    assert store.queries == [(3, None), (12, None), (48, None)]


def test_store_is_queried_once_if_the_first_result_suffices():
    store = FakeStore({"0": 0.5, "1": 0.4, "2": 0.3})
    assert search_windows(search_of(store, [0, 1, 2]), 2) == [(0, 0.5), (1, 0.4)]
    assert store.queries == [(3, None)]


def test_cosines_of_given_windows_are_computed_from_stored_vectors():
    vectors = np.asarray([[1.0], [0.5], [-0.25]], dtype=np.float32)
    store = FakeStore({})
    search = VectorStoreSearch(
        store,
        "Fake",
        ["0", "1", "2"],
        np.asarray([0, 0, 2]),
        ["a", "a", "b"],
        read=lambda ids: vectors[[int(id_) for id_ in ids]],
    )
    assert search.cosines(VECTOR, np.asarray([2, 1])).tolist() == [-0.25, 0.5]
    assert search.best_cosines(VECTOR, np.asarray([2, 0, 1])).tolist() == [0.0, 1.0, 0.0]
    assert store.queries == []


def test_a_store_that_cannot_return_vectors_is_searched_once_for_cosines():
    scores = {str(row): 1 - row / 1000 for row in range(500)}
    store = FakeStore(scores, {id_: f"document {id_}" for id_ in scores})
    search = search_of(store, list(range(500)))
    assert search.cosines(VECTOR, np.asarray([400, 3])).tolist() == [0.6, 0.997]
    ignoring = FakeStore(scores)  # ignores document ids
    lowest = scores["199"]
    assert search_of(ignoring, list(range(500))).cosines(VECTOR, np.asarray([400, 3])).tolist() == [
        lowest,
        0.997,
    ]
    assert len(store.queries) == len(ignoring.queries) == 1


def test_earlier_window_wins_ties_whatever_the_stores_order():
    store = FakeStore({str(row): 0.5 for row in range(40)})
    assert [row for row, _ in search_windows(search_of(store, [0] * 40), 2)] == [0, 1]


def test_cosines_that_differ_in_their_last_digits_tie():
    store = FakeStore({"0": 0.49999999, "1": 0.50000001, "2": 0.4999})
    expected = [(0, 0.5), (1, 0.5), (2, 0.4999)]
    assert search_windows(search_of(store, [0, 1, 2]), 3) == expected


def test_windows_of_filtered_nodes_are_skipped():
    store = FakeStore({str(row): 0.9 - row / 100 for row in range(20)})
    search = search_of(store, [0] * 18 + [1, 2])
    assert search_windows(search, 1, "011") == [(18, 0.72)]
    assert search_windows(search, 5, "011") == [(18, 0.72), (19, 0.71)]


def test_filter_queries_only_the_allowed_documents():
    document_of = {"0": "a", "1": "a", "2": "b", "3": "c"}
    store = FakeStore({"0": 0.9, "1": 0.8, "2": 0.7, "3": 0.6}, document_of)
    search = search_of(store, [0, 1, 2, 3], ["a", "a", "b", "c"])
    assert search_windows(search, 1, "1011") == [(0, 0.9)]
    assert store.queries == [(2, ["a", "b", "c"])]
    assert search_windows(search, 1, "0010") == [(2, 0.7)]
    assert store.queries[1:] == [(2, ["b"])]


def test_store_with_lost_windows_of_a_known_document_is_queried_once():
    store = FakeStore({"0": 0.9, "2": 0.7}, {"0": "a", "2": "b"})
    assert search_windows(search_of(store, [0, 0, 1], ["a", "b"]), 2, "10") == [(0, 0.9)]
    assert store.queries == [(3, ["a"])]


def test_store_with_other_document_ids_is_queried_again_without_them():
    store = FakeStore({"0": 0.9, "1": 0.8}, {"0": "other name", "1": "other name"})
    assert search_windows(search_of(store, [0, 1]), 1, "01") == [(1, 0.8)]
    assert store.queries == [(2, ["document 1"]), (2, None)]


def test_store_with_lost_windows_returns_the_others():
    assert search_windows(search_of(FakeStore({"1": 0.8, "x": 0.9}), [0, 1, 2]), 3) == [(1, 0.8)]


@pytest.mark.parametrize("scores", [{}, {"x": 0.9, "y": 0.8}], ids=["empty", "foreign"])
@pytest.mark.parametrize(("allowed", "count"), [(None, 3), ("01", 2)])
def test_store_without_any_of_the_vectors_is_corrupt(scores, allowed, count):
    search = search_of(FakeStore(scores), [0, 1, 1])
    with pytest.raises(CorruptStoreError, match=f"Fake contains none of the {count} vectors to"):
        search_windows(search, 2, allowed)
    with pytest.raises(CorruptStoreError, match="Fake contains none of the 3 vectors to search"):
        search.search(VECTOR, 2)


def test_store_is_not_queried_if_nothing_can_match():
    store = FakeStore({"0": 0.9})
    search = search_of(store, [0])
    assert search_windows(search, 0) == search_windows(search, 3, "0") == []
    assert search_windows(search_of(store, []), 3) == []
    assert store.queries == []


@st.composite
def stores(draw):
    """Draw vectors of halves, to produce ties: the index's first, then foreign ones."""
    nodes = draw(st.integers(1, 6))
    owners = sorted(draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=15)))
    vector = st.lists(st.integers(-2, 2), min_size=2, max_size=2)
    foreign = draw(st.integers(0, 20))
    vectors = [draw(vector) for _ in range(len(owners) + foreign)]
    documents = [draw(st.sampled_from("ab")) for _ in range(nodes)]
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=nodes, max_size=nodes))
    filtering = draw(st.sampled_from(["supported", "ignored", "other ids"]))
    query = np.asarray(draw(vector)) / 2
    return owners, np.asarray(vectors) / 2, documents, allowed, filtering, query


@quick
@given(stores(), st.integers(0, 20), st.randoms(use_true_random=False))
def test_store_search_matches_the_dense_index(drawn, count, random):
    owners, vectors, documents, allowed, filtering, query = drawn
    scores = {str(row): float(score) for row, score in enumerate(vectors @ query)}
    order = list(scores.items())
    random.shuffle(order)
    document_of = {str(row): documents[node] for row, node in enumerate(owners)}
    known = {
        "supported": document_of,
        "ignored": None,
        "other ids": dict.fromkeys(document_of, "c"),
    }[filtering]
    search = search_of(FakeStore(dict(order), known), owners, documents)
    own_vectors = np.asarray(vectors[: len(owners)], dtype=np.float32)
    exact = DenseIndex(own_vectors, np.asarray(owners, dtype=np.int64))
    mask = None if allowed is None else np.asarray(allowed)
    vector = query.astype(np.float32)
    found, expected = (one.search_windows(vector, count, mask) for one in (search, exact))
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    assert search.search(vector, count, mask) == exact.search(vector, count, mask)
