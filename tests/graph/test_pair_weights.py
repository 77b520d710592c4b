"""Weights of pairs as integers, which can be updated exactly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.pair_weights import PairWeights

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
