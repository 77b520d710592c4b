import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from strategies import quick


def dense_index(vectors, nodes):
    return DenseIndex(np.asarray(vectors, dtype=np.float32), np.asarray(nodes, dtype=np.int64))


EMPTY = DenseIndex(np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.int64))


def query(*values):
    return np.asarray(values, dtype=np.float32)


def mask(bits):
    return np.asarray([bit == "1" for bit in bits], dtype=np.bool_)


def search_windows(index, vector, count, allowed=None):
    """Return (window, cosine) pairs."""
    rows, cosines = index.search_windows(vector, count, allowed)
    return list(zip(rows.tolist(), cosines.tolist(), strict=True))


def test_node_scores_as_its_best_window():
    # Node 0: 0.6 and 1.0; node 1: 0.8.
    found = dense_index([[0.6, 0.8], [0.8, 0.6], [1, 0]], [0, 1, 0]).search(query(1, 0), 2)
    assert found == [(0, 1.0), (1, pytest.approx(0.8))]


def test_search_fetches_windows_until_it_has_enough_nodes():
    vectors = [[1, 0]] * 50 + [[0, 1], [-1, 0]]
    found = dense_index(vectors, [7] * 50 + [3, 5]).search(query(1, 0), 3)
    assert found == [(7, 1.0), (3, 0.0), (5, -1.0)]


@pytest.mark.parametrize("count", [1, 4, 8, 9, 20])
def test_earlier_node_wins_ties_wherever_its_window_is_stored(count):
    nodes = [8, 3, 0, 7, 1, 6, 2, 5, 4]
    found = dense_index([[1, 0]] * 9, nodes).search(query(1, 0), count)
    assert [node for node, _ in found] == list(range(min(count, 9)))


def test_filtered_nodes_are_never_returned():
    index = dense_index([[1, 0], [0.8, 0.6], [0, 1]], [0, 1, 2])
    assert index.search(query(1, 0), 3, mask("011")) == [(1, pytest.approx(0.8)), (2, 0.0)]
    assert index.search(query(1, 0), 1, mask("001")) == [(2, 0.0)]
    assert index.search(query(1, 0), 3, mask("000")) == []


def test_empty_index_and_count_zero_find_nothing():
    assert EMPTY.search(query(1, 0), 5) == []
    index = dense_index([[1, 0]], [0])
    assert index.search(query(1, 0), 0) == []


def test_windows_are_sorted_best_first_across_nodes():
    index = dense_index([[0, 1], [1, 0], [-1, 0], [0.5, 0]], [0, 1, 1, 2])
    assert search_windows(index, query(1, 0), 3) == [(1, 1.0), (3, 0.5), (0, 0.0)]
    assert index.window_nodes.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("count", [1, 4, 8, 30])
def test_earlier_window_wins_ties_at_any_count(count):
    index = dense_index([[0, 1]] * 20 + [[1, 0]] * 20, [0] * 40)
    expected = [*range(20, 40), *range(20)][:count]
    assert [row for row, _ in search_windows(index, query(1, 0), count)] == expected


def test_filter_excludes_all_windows_of_a_node():
    index = dense_index([[1, 0], [0.5, 0], [1, 0], [0, 1]], [0, 1, 0, 2])
    assert search_windows(index, query(1, 0), 4, mask("011")) == [(1, 0.5), (3, 0.0)]
    assert search_windows(index, query(1, 0), 1, mask("001")) == [(3, 0.0)]


def test_count_above_the_number_of_windows_returns_all_allowed():
    index = dense_index([[0, 1], [1, 0], [1, 0]], [0, 0, 1])
    assert search_windows(index, query(1, 0), 99) == [(1, 1.0), (2, 1.0), (0, 0.0)]
    assert search_windows(index, query(1, 0), 99, mask("01")) == [(2, 1.0)]


def test_no_windows_for_count_zero_or_nothing_allowed():
    index = dense_index([[1, 0]], [0])
    for rows, cosines in (
        index.search_windows(query(1, 0), 0),
        index.search_windows(query(1, 0), 5, mask("0")),
        EMPTY.search_windows(query(1, 0), 5),
    ):
        assert (rows.tolist(), cosines.tolist()) == ([], [])
        assert (rows.dtype, cosines.dtype) == (np.int64, np.float64)


def test_rows_and_cosines_have_64_bits():
    rows, cosines = dense_index([[0.6, 0.8]], [0]).search_windows(query(1, 0), 1)
    assert (rows.dtype, cosines.dtype) == (np.int64, np.float64)


class RecordingSearch(NodeSearch):
    """Windows that score 9, 8, 7, ... in order; records the requested counts."""

    def __init__(self, nodes):
        self.window_nodes = np.asarray(nodes)
        self.counts = []

    def search_windows(self, query, count, allowed=None):
        self.counts.append(count)
        rows = np.arange(min(count, len(self.window_nodes)))
        return rows, 9.0 - rows


def test_node_search_subclass_needs_only_window_search():
    assert RecordingSearch([4, 4, 2]).search(query(1), 5) == [(4, 9.0), (2, 7.0)]
    with pytest.raises(TypeError, match="abstract"):
        NodeSearch()


def test_node_search_subclass_may_miss_windows():
    class Lossy(RecordingSearch):
        def search_windows(self, query, count, allowed=None):
            rows, scores = super().search_windows(query, count, allowed)
            return rows[:2], scores[:2]

    assert RecordingSearch([0, 1, 1]).cosines(query(1), np.asarray([2, 0])).tolist() == [7.0, 9.0]
    assert Lossy([0, 1, 1]).cosines(query(1), np.asarray([2, 0])).tolist() == [8.0, 9.0]


def test_search_stops_fetching_once_it_has_enough_nodes():
    distinct, repeated = RecordingSearch([1, 2, 3, 4]), RecordingSearch([1, 1, 1, 1, 2, 3])
    assert distinct.search(query(1), 2) == [(1, 9.0), (2, 8.0)]
    assert distinct.counts == [3]
    assert repeated.search(query(1), 2) == [(1, 9.0), (2, 5.0)]
    assert repeated.counts == [3, 12]


@st.composite
def searches(draw):
    """Draw vectors of halves, whose products and sums are exact, to produce ties."""
    windows = draw(st.integers(1, 40))
    halves = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
    vectors = [draw(halves) for _ in range(windows)]
    nodes = draw(st.lists(st.integers(0, 15), min_size=windows, max_size=windows))
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=16, max_size=16))
    allowed_mask = None if allowed is None else np.asarray(allowed)
    vector = np.asarray(draw(halves)) / 2
    return np.asarray(vectors) / 2, nodes, vector, draw(st.integers(1, 20)), allowed_mask


@quick
@given(searches())
def test_search_matches_brute_force(case):
    vectors, nodes, vector, count, allowed = case
    best = {}
    for node, score in zip(nodes, (vectors @ vector).tolist(), strict=True):
        if allowed is None or allowed[node]:
            best[node] = max(score, best.get(node, -np.inf))
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
    assert dense_index(vectors, nodes).search(query(*vector), count, allowed) == expected


@quick
@given(searches())
def test_search_windows_matches_brute_force(case):
    vectors, nodes, vector, count, allowed = case
    scores = vectors @ vector
    usable = [row for row, node in enumerate(nodes) if allowed is None or allowed[node]]
    expected = [(row, float(scores[row])) for row in sorted(usable, key=lambda r: (-scores[r], r))]
    index = dense_index(vectors, nodes)
    assert search_windows(index, query(*vector), count, allowed) == expected[:count]


def test_search_matches_brute_force_on_many_random_vectors():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(2000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nodes = random.integers(0, 300, size=2000)
    allowed = random.random(300) < 0.3
    found = dense_index(vectors, nodes).search(vectors[0], 50, allowed)
    scores = vectors @ vectors[0]
    best = {n: scores[nodes == n].max() for n in set(nodes.tolist()) if allowed[n]}
    expected = sorted(best, key=lambda n: -best[n])[:50]
    assert [node for node, _ in found] == expected
    assert [score for _, score in found] == pytest.approx([best[n] for n in expected], abs=1e-5)
