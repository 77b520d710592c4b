"""Weights of pairs as integers, which can be updated exactly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.pair_weights import UNIT, PairWeights

sentence_lists = st.lists(st.lists(st.integers(0, 5), max_size=5), max_size=8)


def weights_of(sentences):
    return PairWeights.from_mentions(
        np.asarray([entity for one in sentences for entity in one], dtype=np.int64),
        np.asarray([len(one) for one in sentences], dtype=np.int64),
    )


def as_lists(weights):
    return weights.keys.tolist(), weights.units.tolist()


@given(sentence_lists, sentence_lists, sentence_lists)
def test_an_update_equals_a_new_sum(kept, removed, added):
    before = weights_of([*kept, *removed])
    after = before.changed(weights_of(removed), weights_of(added))
    assert as_lists(after) == as_lists(weights_of([*added, *kept]))


def test_weights_of_small_sentences_are_exact():
    weights = weights_of([[0, 1, 2]] * 3 + [[0, 1]] * 2)
    assert weights.matrix(3).toarray().tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]


def test_weights_of_long_sentences_are_rounded_to_twelve_digits():
    weights = weights_of([list(range(29))])
    assert abs(weights.matrix(29)[0, 1] - 1 / 29) < 1e-12


def test_moved_rows_keep_their_weights():
    weights = weights_of([[0, 2], [2, 3]]).renumbered(np.asarray([1, -1, 4, 5]))
    assert as_lists(weights) == as_lists(weights_of([[1, 4], [4, 5]]))


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 4)), max_size=25),
    st.integers(1, 8),
)
def test_the_heaviest_weights_of_both_entities_are_kept(drawn, max_degree):
    dense = np.zeros((8, 8))
    for a, b, value in drawn:
        if a != b:
            dense[a, b] = dense[b, a] = value
    rows, columns = np.nonzero(np.triu(dense))
    units = dense[rows, columns].astype(np.int64) * UNIT
    kept = PairWeights((rows << 32) | columns, units).heaviest(8, max_degree)
    heaviest = [
        set(sorted(np.flatnonzero(row), key=lambda b, row=row: (-row[b], b))[:max_degree])
        for row in dense
    ]
    expected = [
        [dense[a, b] if b in heaviest[a] and a in heaviest[b] else 0 for b in range(8)]
        for a in range(8)
    ]
    assert kept.matrix(8).toarray().tolist() == expected
