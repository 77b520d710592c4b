import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.vectors import DenseIndex
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
