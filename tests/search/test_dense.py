import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from strategies import quick


def index(vectors, nodes):
    return DenseIndex(np.asarray(vectors, dtype=np.float32), np.asarray(nodes, dtype=np.int64))


def query(*values):
    return np.asarray(values, dtype=np.float32)


def mask(bits):
    return np.asarray([bit == "1" for bit in bits], dtype=np.bool_)


def test_a_node_scores_as_its_best_window():
    # Node 0: 0.6 and 1.0; node 1: 0.8.
    found = index([[0.6, 0.8], [0.8, 0.6], [1, 0]], [0, 1, 0]).search(query(1, 0), 2)
    assert found == [(0, 1.0), (1, pytest.approx(0.8))]


def test_windows_are_fetched_until_there_are_enough_nodes():
    vectors = [[1, 0]] * 50 + [[0, 1], [-1, 0]]
    found = index(vectors, [7] * 50 + [3, 5]).search(query(1, 0), 3)
    assert found == [(7, 1.0), (3, 0.0), (5, -1.0)]


@pytest.mark.parametrize("count", [1, 4, 8, 9, 20])
def test_ties_go_to_the_earlier_node_wherever_its_window_is_stored(count):
    nodes = [8, 3, 0, 7, 1, 6, 2, 5, 4]
    found = index([[1, 0]] * 9, nodes).search(query(1, 0), count)
    assert [node for node, _ in found] == list(range(min(count, 9)))


def test_nodes_outside_the_mask_are_never_returned():
    made = index([[1, 0], [0.8, 0.6], [0, 1]], [0, 1, 2])
    assert made.search(query(1, 0), 3, mask("011")) == [
        (1, pytest.approx(0.8)),
        (2, 0.0),
    ]
    assert made.search(query(1, 0), 1, mask("001")) == [(2, 0.0)]
    assert made.search(query(1, 0), 3, mask("000")) == []


def test_an_empty_index_and_a_count_of_zero_find_nothing():
    empty = DenseIndex(np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.int64))
    assert empty.dimension == 0
    assert empty.search(query(1, 0), 5) == []
    made = index([[1, 0]], [0])
    assert made.dimension == 2
    assert made.search(query(1, 0), 0) == []


def hits(made, question, count, allowed=None):
    rows, cosines = made.windows(question, count, allowed)
    return list(zip(rows.tolist(), cosines.tolist(), strict=True))


def test_windows_come_best_first_whichever_node_they_are_of():
    made = index([[0, 1], [1, 0], [-1, 0], [0.5, 0]], [0, 1, 1, 2])
    assert hits(made, query(1, 0), 3) == [(1, 1.0), (3, 0.5), (0, 0.0)]
    assert made.nodes.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("count", [1, 4, 8, 30])
def test_ties_of_windows_go_to_the_earlier_one_however_many_there_are(count):
    made = index([[0, 1]] * 20 + [[1, 0]] * 20, [0] * 40)
    expected = [*range(20, 40), *range(20)][:count]
    assert [row for row, _ in hits(made, query(1, 0), count)] == expected


def test_a_mask_over_nodes_leaves_all_their_windows_out():
    made = index([[1, 0], [0.5, 0], [1, 0], [0, 1]], [0, 1, 0, 2])
    assert hits(made, query(1, 0), 4, mask("011")) == [(1, 0.5), (3, 0.0)]
    assert hits(made, query(1, 0), 1, mask("001")) == [(3, 0.0)]


def test_more_windows_than_may_be_seen_are_all_that_may():
    made = index([[0, 1], [1, 0], [1, 0]], [0, 0, 1])
    assert hits(made, query(1, 0), 99) == [(1, 1.0), (2, 1.0), (0, 0.0)]
    assert hits(made, query(1, 0), 99, mask("01")) == [(2, 1.0)]


def test_no_windows_are_found_where_none_may_be_or_none_are_wanted():
    made = index([[1, 0]], [0])
    empty = DenseIndex(np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.int64))
    for rows, cosines in (
        made.windows(query(1, 0), 0),
        made.windows(query(1, 0), 5, mask("0")),
        empty.windows(query(1, 0), 5),
    ):
        assert (rows.tolist(), cosines.tolist()) == ([], [])
        assert (rows.dtype, cosines.dtype) == (np.int64, np.float64)


def test_rows_and_cosines_are_of_64_bits():
    rows, cosines = index([[0.6, 0.8]], [0]).windows(query(1, 0), 1)
    assert (rows.dtype, cosines.dtype) == (np.int64, np.float64)


class Recorded(NodeSearch):
    """Windows that score 9, 8, 7, ... in their order, and how many were asked for."""

    def __init__(self, nodes):
        self._nodes = np.asarray(nodes)
        self.asked = []

    @property
    def nodes(self):
        return self._nodes

    def windows(self, query, count, allowed=None):
        self.asked.append(count)
        found = np.arange(min(count, len(self._nodes)))
        return found, 9.0 - found


def test_a_search_needs_nothing_but_windows():
    assert Recorded([4, 4, 2]).search(query(1), 5) == [(4, 9.0), (2, 7.0)]
    with pytest.raises(TypeError, match="abstract"):
        NodeSearch()


def test_a_search_asks_for_more_windows_only_until_it_has_its_nodes():
    enough, more = Recorded([1, 2, 3, 4]), Recorded([1, 1, 1, 1, 2, 3])
    assert enough.search(query(1), 2) == [(1, 9.0), (2, 8.0)]
    assert enough.asked == [3]
    assert more.search(query(1), 2) == [(1, 9.0), (2, 5.0)]
    assert more.asked == [3, 12]


@st.composite
def searches(draw):
    """Vectors of halves: products and sums are exact, so that ties are ties."""
    windows = draw(st.integers(1, 40))
    halves = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
    vectors = [draw(halves) for _ in range(windows)]
    nodes = draw(st.lists(st.integers(0, 15), min_size=windows, max_size=windows))
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=16, max_size=16))
    return vectors, nodes, draw(halves), draw(st.integers(1, 20)), allowed


@quick
@given(searches())
def test_search_equals_brute_force(case):
    vectors, nodes, question, count, allowed = case
    made = index(np.asarray(vectors) / 2, nodes)
    scores = np.asarray(vectors) / 2 @ (np.asarray(question) / 2)
    best = {}
    for node, score in zip(nodes, scores.tolist(), strict=True):
        if allowed is None or allowed[node]:
            best[node] = max(score, best.get(node, -np.inf))
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
    given_mask = None if allowed is None else np.asarray(allowed)
    assert made.search(query(*question) / 2, count, given_mask) == expected


@quick
@given(searches())
def test_windows_equal_brute_force(case):
    vectors, nodes, question, count, allowed = case
    made = index(np.asarray(vectors) / 2, nodes)
    scores = np.asarray(vectors) / 2 @ (np.asarray(question) / 2)
    seen = [row for row, node in enumerate(nodes) if allowed is None or allowed[node]]
    expected = [(row, float(scores[row])) for row in sorted(seen, key=lambda r: (-scores[r], r))]
    given_mask = None if allowed is None else np.asarray(allowed)
    assert hits(made, query(*question) / 2, count, given_mask) == expected[:count]


def test_search_equals_brute_force_on_many_random_vectors():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(2000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nodes = random.integers(0, 300, size=2000)
    allowed = random.random(300) < 0.3
    found = index(vectors, nodes).search(vectors[0], 50, allowed)
    scores = vectors @ vectors[0]
    best = {n: scores[nodes == n].max() for n in set(nodes.tolist()) if allowed[n]}
    expected = sorted(best, key=lambda n: -best[n])[:50]
    assert [node for node, _ in found] == expected
    assert [score for _, score in found] == pytest.approx([best[n] for n in expected], abs=1e-5)
