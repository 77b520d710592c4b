from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from e2graphrag_integrations.graph import entity_graph as graph_module
from e2graphrag_integrations.graph.entity_graph import (
    EntityGraph,
    GraphBuilder,
    build_graph,
    cap_degrees,
)
from strategies import quick


def nouns(*sentences):
    """A chunk whose sentences are words separated by spaces; a capital marks a name."""
    return [[(w.lower(), w[0].isupper()) for w in sentence.split()] for sentence in sentences]


def weight(graph, a, b):
    return graph.edges[graph.index[a], graph.index[b]]


def test_an_edge_sums_one_over_the_distinct_entities_of_each_shared_sentence():
    graph = build_graph([nouns("a b c", "a b"), nouns("b a a", "c")])
    # ab: 1/3 + 1/2 in chunk 0, 1/2 in chunk 1 ("a" twice is one entity); ac and bc: 1/3.
    assert weight(graph, "a", "b") == pytest.approx(4 / 3)
    assert weight(graph, "a", "c") == pytest.approx(1 / 3)
    assert weight(graph, "b", "c") == pytest.approx(1 / 3)


def test_edges_are_symmetric_without_self_pairs():
    graph = build_graph([nouns("a a", "b a", "c")])
    assert (graph.edges != graph.edges.T).nnz == 0
    assert graph.edges.diagonal().tolist() == [0, 0, 0]
    assert graph.edges.nnz == 2


def test_chunks_of_an_entity_and_how_often_each_mentions_it():
    graph = build_graph([nouns("b a", "a"), nouns("b"), nouns("a a a b")])
    assert graph.names == ["a", "b"]
    chunks, counts = graph.chunks(graph.index["a"])
    assert (chunks.tolist(), counts.tolist()) == ([0, 2], [2, 3])
    chunks, counts = graph.chunks(graph.index["b"])
    assert (chunks.tolist(), counts.tolist()) == ([0, 1, 2], [1, 1, 1])
    assert graph.entities_per_chunk.tolist() == [2, 1, 2]


def test_an_entity_is_named_if_one_mention_is_a_name():
    graph = build_graph([nouns("rose lily"), nouns("Rose lily")])
    assert dict(zip(graph.names, graph.named.tolist(), strict=True)) == {
        "lily": False,
        "rose": True,
    }


def test_hops_count_edges_not_entities():
    # a - b - c - d in a line, e alone.
    graph = build_graph([nouns("a b", "b c", "c d", "e")])
    a, b, c, d, e = range(5)
    assert graph.hops([a, d], 3) == {(a, d): 3}
    assert graph.hops([a, d], 2) == {}
    assert graph.hops([a, b, c], 4) == {(a, b): 1, (a, c): 2, (b, c): 1}
    assert graph.hops([a, e], 6) == {}
    assert graph.hops([a, a], 4) == {}
    assert graph.hops([], 4) == {}


def test_distances_stop_at_the_depth():
    graph = build_graph([nouns("a b", "b c", "c d", "e")])
    assert graph.distances(0, 2).tolist() == [0, 1, 2, -1, -1]
    assert graph.distances(0, 0).tolist() == [0, -1, -1, -1, -1]


def test_networkx_gets_names_weights_and_chunk_counts():
    graph = build_graph([nouns("Rose lily"), nouns("lily")]).to_networkx()
    assert graph.nodes["lily"] == {"named": False, "chunks": 2}
    assert graph.nodes["rose"] == {"named": True, "chunks": 1}
    assert list(graph.edges(data="weight")) == [("lily", "rose", 0.5)]


@pytest.mark.parametrize("chunks", [[], [[]], [[[]], [[], []]]])
def test_without_entities_the_graph_is_empty_and_answers(chunks):
    graph = build_graph(chunks)
    assert (list(graph.names), graph.edges.shape, graph.edges.nnz) == ([], (0, 0), 0)
    assert graph.postings.shape == (0, len(chunks))
    assert graph.entities_per_chunk.tolist() == [0] * len(chunks)
    assert graph.to_networkx().number_of_nodes() == 0


sentences = st.lists(
    st.tuples(st.integers(0, 14).map(lambda i: f"e{i}"), st.booleans()), max_size=4
)
chunk_lists = st.lists(st.lists(sentences, max_size=4), max_size=8)


def reference(chunks):
    """The definition, word for word."""
    graph = nx.Graph()
    for sentence in (s for chunk in chunks for s in chunk):
        names = {name for name, _ in sentence}
        graph.add_nodes_from(names)
        for a, b in combinations(sorted(names), 2):
            before = graph.edges[a, b]["weight"] if graph.has_edge(a, b) else 0.0
            graph.add_edge(a, b, weight=before + 1 / len(names))
    return graph


@quick
@given(chunk_lists)
def test_the_graph_is_that_of_the_definition(chunks):
    made, expected = build_graph(chunks).to_networkx(), reference(chunks)
    assert set(made.nodes) == set(expected.nodes)
    assert {frozenset(e) for e in made.edges} == {frozenset(e) for e in expected.edges}
    for a, b, value in expected.edges(data="weight"):
        assert made.edges[a, b]["weight"] == pytest.approx(value)


def dense(graph: EntityGraph):
    return graph.edges.toarray(), graph.postings.toarray()


@quick
@given(chunk_lists, st.integers(0, 6))
def test_summing_early_and_often_changes_nothing(chunks, limit):
    whole = build_graph(chunks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "_PENDING_LIMIT", limit)
        flushed = build_graph(chunks)
    assert flushed.names == whole.names
    assert flushed.named.tolist() == whole.named.tolist()
    for one, other in zip(dense(flushed), dense(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_pending_contributions_are_bounded(monkeypatch):
    monkeypatch.setattr(graph_module, "_PENDING_LIMIT", 10)
    builder = GraphBuilder()
    for _ in range(50):
        builder.add(nouns("a b c"))
        assert sum(len(ids) for _, ids in builder._pending) <= 10
        assert len(builder._pairs[0]) <= 3
    assert weight(builder.finish(), "a", "b") == pytest.approx(50 / 3)


@quick
@given(chunk_lists, st.integers(0, 4))
def test_columns_say_the_same_as_sentences(chunks, cut):
    builder = GraphBuilder()
    for part in (chunks[:cut], chunks[cut:]):
        sentences = [sentence for chunk in part for sentence in chunk]
        mentions = [mention for sentence in sentences for mention in sentence]
        names = sorted({name for name, _ in mentions})
        builder.add_columns(
            names,
            [any(named for n, named in mentions if n == name) for name in names],
            np.asarray([names.index(name) for name, _ in mentions], dtype=np.int64),
            np.asarray([len(sentence) for sentence in sentences], dtype=np.int64),
            np.asarray([len(chunk) for chunk in part], dtype=np.int64),
        )
    columns, whole = builder.finish(), build_graph(chunks)
    assert columns.names == whole.names
    assert columns.named.tolist() == whole.named.tolist()
    for one, other in zip(dense(columns), dense(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@quick
@given(
    st.integers(2, 18),
    st.sets(st.tuples(st.integers(0, 17), st.integers(0, 17)), max_size=30),
    st.integers(1, 6),
)
def test_hops_equal_networkx(size, pairs, max_hops):
    names = [f"e{i:02}" for i in range(size)]
    chunk = [[(name, False)] for name in names]
    chunk += [
        [(names[a], False), (names[b], False)] for a, b in pairs if a != b and max(a, b) < size
    ]
    graph = build_graph([chunk])
    lengths = dict(nx.all_pairs_shortest_path_length(graph.to_networkx(), cutoff=max_hops))
    expected = {
        (graph.index[a], graph.index[b]): lengths[a][b]
        for a, b in combinations(names, 2)
        if b in lengths[a]
    }
    assert graph.hops(range(size), max_hops) == expected


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 4)), max_size=25),
    st.integers(1, 8),
)
def test_a_cap_leaves_the_edges_that_are_among_the_heaviest_at_both_ends(drawn, most):
    dense = np.zeros((8, 8))
    for a, b, weight in drawn:
        if a != b:
            dense[a, b] = dense[b, a] = weight
    left = cap_degrees(csr_array(dense), most).toarray()
    heaviest = [
        set(sorted(np.flatnonzero(row), key=lambda b, row=row: (-row[b], b))[:most])
        for row in dense
    ]
    expected = [
        [dense[a, b] if b in heaviest[a] and a in heaviest[b] else 0 for b in range(8)]
        for a in range(8)
    ]
    assert left.tolist() == expected


def test_a_word_beside_all_others_keeps_its_heaviest_edges(monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.graph.entity_graph.MOST_NEIGHBOURS", 3)
    chunks = [[[("hub", False), (f"e{n}", True)]] * (9 - n) for n in range(8)]
    graph = build_graph(chunks)
    near = [graph.names[row] for row in graph.neighbors(graph.index["hub"])]
    assert near == ["e0", "e1", "e2"]
    assert graph.neighbors(graph.index["e5"]).tolist() == []
    assert len(graph.chunks(graph.index["e5"])[0]) == 1  # it is still found
