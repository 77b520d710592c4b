"""Personalised PageRank, against networkx-free arithmetic by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph import build_graph
from e2graphrag_integrations.walking import EntityWalk


def chunks_of(*lines):
    return [[[(word, True) for word in line.split()]] for line in lines]


def dense_walk(graph, seeds, damping, steps):
    counts = graph.postings.toarray().T.astype(float)
    size = counts.shape[0]
    idf = np.log((size + 1) / ((counts > 0).sum(axis=0) + 1)) + 1e-6
    weights = np.log1p(counts) * idf
    rows = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    columns = weights / np.maximum(weights.sum(axis=0, keepdims=True), 1e-300)
    start = np.zeros(counts.shape[1])
    for entity, weight in seeds.items():
        start[entity] = weight
    start /= start.sum()
    entities = start
    for _ in range(steps):
        chunks = columns @ entities
        entities = (1 - damping) * start + damping * rows.T @ chunks
    return chunks


def test_one_step_from_one_entity_by_hand():
    graph = build_graph(chunks_of("anna bert", "anna anna", "cleo"))
    walk = EntityWalk.of(graph)
    share = walk.rank({graph.index["anna"]: 3.0}, steps=1)
    one, two = math.log(2), math.log(3)
    assert share.tolist() == pytest.approx([one / (one + two), two / (one + two), 0])


lines = st.lists(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5).map(" ".join),
    min_size=1,
    max_size=7,
)


@given(lines, st.floats(0, 1), st.integers(1, 12), st.data())
def test_the_walk_is_that_of_dense_matrices_and_loses_nothing(some, damping, steps, data):
    graph = build_graph(chunks_of(*some))
    entities = st.integers(0, len(graph.names) - 1)
    seeds = data.draw(st.dictionaries(entities, st.floats(0.1, 5), min_size=1, max_size=3))
    share = EntityWalk.of(graph).rank(seeds, damping=damping, steps=steps)
    np.testing.assert_allclose(share, dense_walk(graph, seeds, damping, steps), atol=1e-9)
    assert share.sum() == pytest.approx(1)
