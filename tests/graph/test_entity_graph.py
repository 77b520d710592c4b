"""Weights of pairs as integers, which can be updated exactly."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.builder import build_graph
from e2graphrag_integrations.graph.entity_graph import UNIT, PairWeights
from strategies import quick

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


def nouns(*sentences):
    """Return a chunk of sentences of space-separated words; capitalized words are names."""
    return [
        [(w.lower(), "other" if w[0].isupper() else "") for w in sentence.split()]
        for sentence in sentences
    ]


def test_chunks_of_an_entity_and_its_mentions_in_each():
    graph = build_graph([nouns("b a", "a"), nouns("b"), nouns("a a a b")])
    assert graph.names == ["a", "b"]
    chunks, counts = graph.chunks(graph.index["a"])
    assert (chunks.tolist(), counts.tolist()) == ([0, 2], [2, 3])
    chunks, counts = graph.chunks(graph.index["b"])
    assert (chunks.tolist(), counts.tolist()) == ([0, 1, 2], [1, 1, 1])
    assert graph.entities_per_chunk.tolist() == [2, 1, 2]


def test_hops_count_edges():
    # a - b - c - d in a line; e is isolated.
    graph = build_graph([nouns("a b", "b c", "c d", "e")])
    a, b, c, d, e = range(5)
    assert graph.hops([a, d], 3) == {(a, d): 3}
    assert graph.hops([a, d], 2) == {}
    assert graph.hops([a, b, c], 4) == {(a, b): 1, (a, c): 2, (b, c): 1}
    assert graph.hops([a, e], 6) == {}
    assert graph.hops([a, a], 4) == {}
    assert graph.hops([], 4) == {}


@quick
@given(
    st.integers(2, 18),
    st.sets(st.tuples(st.integers(0, 17), st.integers(0, 17)), max_size=30),
    st.integers(1, 6),
)
def test_hops_match_networkx(size, pairs, max_hops):
    names = [f"e{i:02}" for i in range(size)]
    chunk = [[(name, "")] for name in names]
    chunk += [[(names[a], ""), (names[b], "")] for a, b in pairs if a != b and max(a, b) < size]
    graph = build_graph([chunk])
    lengths = dict(nx.all_pairs_shortest_path_length(graph.to_networkx(), cutoff=max_hops))
    expected = {
        (graph.index[a], graph.index[b]): lengths[a][b]
        for a, b in combinations(names, 2)
        if b in lengths[a]
    }
    assert graph.hops(range(size), max_hops) == expected


def test_distances_stop_at_the_depth():
    graph = build_graph([nouns("a b", "b c", "c d", "e")])
    assert graph.distances(0, 2).tolist() == [0, 1, 2, -1, -1]
    assert graph.distances(0, 0).tolist() == [0, -1, -1, -1, -1]


def test_networkx_graph_has_names_weights_and_chunk_counts():
    graph = build_graph([nouns("Rose lily"), nouns("lily")]).to_networkx()
    assert graph.nodes["lily"] == {"named": False, "chunks": 2}
    assert graph.nodes["rose"] == {"named": True, "chunks": 1}
    assert list(graph.edges(data="weight")) == [("lily", "rose", 0.5)]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([], id="no_chunks"),
        pytest.param([[]], id="no_sentences"),
        pytest.param([[[]], [[], []]], id="no_mentions"),
    ],
)
def test_graph_without_entities_is_empty(chunks):
    graph = build_graph(chunks)
    assert (list(graph.names), graph.edges.shape, graph.edges.nnz) == ([], (0, 0), 0)
    assert graph.postings.shape == (0, len(chunks))
    assert graph.entities_per_chunk.tolist() == [0] * len(chunks)
    assert graph.to_networkx().number_of_nodes() == 0
