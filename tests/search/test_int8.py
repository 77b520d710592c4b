"""Vectors of one byte per component, and their exact scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.dense import FLOAT32, DenseIndex
from e2graphrag_integrations.search.int8 import INT8, Int8Vectors, RescoredSearch
from e2graphrag_integrations.search.segmented import segmented, taken_vectors
from strategies import examples


def unit_vectors(count, dimension=48, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(20, dimension))
    vectors = centers[rng.integers(0, 20, count)] + 0.7 * rng.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@examples(50)
@given(
    st.lists(st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=5)
)
def test_each_component_is_within_half_a_step(rows):
    vectors = np.asarray(rows, dtype=np.float32)
    rounded = INT8.encoded(vectors)
    steps = np.abs(vectors).max(axis=1, keepdims=True) / 127
    assert (np.abs(rounded[:] - vectors) <= 0.5001 * steps + 1e-37).all()
    assert rounded.is_valid
    assert (rounded.codes.nbytes, rounded.shape) == (vectors.size, vectors.shape)


def test_a_vector_does_not_depend_on_the_others():
    vectors = unit_vectors(40)
    whole, part = INT8.encoded(vectors), INT8.encoded(vectors[10:20])
    assert taken_vectors(whole, slice(10, 20)).codes.tolist() == part.codes.tolist()
    one = Int8Vectors.zeros(1, 48)
    one[0] = vectors[10]
    assert (one.codes[0].tolist(), one.scales[0]) == (part.codes[0].tolist(), part.scales[0])
    joined = INT8.mapped(lambda *arrays: np.concatenate(arrays), part, one)
    assert np.array_equal(np.asarray(joined), np.concatenate([part[:], one[:]]))
    assert np.array_equal(whole[7], whole[:][7])
    with pytest.raises(ValueError, match="without a copy"):
        np.array(whole, copy=False) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else (
            whole.__array__(copy=False)
        )


@pytest.mark.parametrize("exact_limit", [10_000, 100])
@pytest.mark.parametrize("masked", [False, True])
def test_the_best_windows_and_their_cosines_are_those_of_the_exact_search(exact_limit, masked):
    vectors, questions = unit_vectors(3000), unit_vectors(3020)[3000:]
    nodes = np.arange(3000) // 3
    exact = DenseIndex(vectors, nodes)
    own = DenseIndex(INT8.encoded(vectors), nodes, exact_limit=exact_limit)
    assert (own.kind, exact.kind) == (INT8, FLOAT32)
    search = RescoredSearch(own, lambda windows: vectors[windows])
    mask = np.arange(1000) % 2 == 0 if masked else None
    found = 0
    for question in questions:
        rows, cosines = search.search_windows(question, 10, mask)
        expected, _ = exact.search_windows(question, 10, mask)
        found += len(np.intersect1d(rows, expected))
        np.testing.assert_allclose(cosines, vectors[rows] @ question, atol=1e-6)
        assert (np.diff(cosines) <= 0).all()
    assert found >= 0.98 * 10 * len(questions)


def test_only_many_cosines_are_rounded():
    vectors = unit_vectors(500)
    own = DenseIndex(INT8.encoded(vectors), np.arange(500))
    read = []

    def exact(windows):
        read.append(len(windows))
        return vectors[windows]

    search = RescoredSearch(own, exact)
    few, many = np.arange(7, 30), np.arange(500)
    np.testing.assert_allclose(
        search.cosines(vectors[0], few), vectors[few] @ vectors[0], atol=1e-6
    )
    assert read == [23]
    np.testing.assert_allclose(search.cosines(vectors[0], many), vectors @ vectors[0], atol=0.01)
    assert read == [23]
    assert len(search.exact_cosines(vectors[0], many)) == 500
    assert search.cosines_of(vectors[:2], few).shape == (23, 2)
    assert len(search.search_windows(vectors[0], 300)[0]) == 300
    assert read == [23, 500, 64]
    assert len(search.search_windows(vectors[0], 0)[0]) == 0
    assert search.best_cosines(vectors[0], np.asarray([3, 4])).shape == (2,)


def test_segments_keep_one_byte_per_component():
    vectors = unit_vectors(60)
    base = DenseIndex(INT8.encoded(vectors[:40]), np.arange(40))
    newer = DenseIndex(INT8.encoded(vectors[40:50]), np.arange(10))
    once = segmented(base, newer, (np.arange(40), np.arange(40, 50)), np.arange(50))
    last = DenseIndex(INT8.encoded(vectors[50:]), np.arange(10))
    moved = np.arange(50) - 1  # the first window is removed
    twice = segmented(once, last, (moved, np.arange(49, 59)), np.arange(59))
    whole = DenseIndex(INT8.encoded(vectors[1:]), np.arange(59))
    assert twice.kind is INT8
    assert np.array_equal(np.asarray(twice.vectors), np.asarray(whole.vectors))
    rows, cosines = twice.search_windows(vectors[5], 8)
    expected, cosines_of_whole = whole.search_windows(vectors[5], 8)
    assert rows.tolist() == expected.tolist()
    np.testing.assert_allclose(cosines, cosines_of_whole)
