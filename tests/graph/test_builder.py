from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.edit_arguments import new_edits
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.graph import builder as builder_module
from e2graphrag_integrations.graph import entity_graph
from e2graphrag_integrations.graph.builder import (
    GraphCounter,
    apply_edits,
    build_graph,
    graph_from_mentions,
    mention_table,
)
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from strategies import quick


def nouns(*sentences):
    """Return a chunk of sentences of space-separated words; capitalized words are names."""
    return [
        [(w.lower(), "other" if w[0].isupper() else "") for w in sentence.split()]
        for sentence in sentences
    ]


def weight(graph, a, b):
    return graph.edges[graph.index[a], graph.index[b]]


def test_edge_weight_sums_one_over_the_distinct_entities_of_each_shared_sentence():
    graph = build_graph([nouns("a b c", "a b"), nouns("b a a", "c")])
    # ab: 1/3 + 1/2 in chunk 0, 1/2 in chunk 1 ("a" twice is one entity); ac and bc: 1/3.
    assert weight(graph, "a", "b") == pytest.approx(4 / 3)
    assert weight(graph, "a", "c") == pytest.approx(1 / 3)
    assert weight(graph, "b", "c") == pytest.approx(1 / 3)


def test_edges_are_symmetric_without_self_loops():
    graph = build_graph([nouns("a a", "b a", "c")])
    assert (graph.edges != graph.edges.T).nnz == 0
    assert graph.edges.diagonal().tolist() == [0, 0, 0]
    assert graph.edges.nnz == 2


def test_entity_is_named_if_any_mention_is_a_name():
    graph = build_graph([nouns("rose lily"), nouns("Rose lily")])
    assert dict(zip(graph.names, graph.named.tolist(), strict=True)) == {
        "lily": False,
        "rose": True,
    }


sentences = st.lists(
    st.tuples(st.integers(0, 14).map(lambda i: f"e{i}"), st.sampled_from(["", "other", "person"])),
    max_size=4,
)
chunk_lists = st.lists(st.lists(sentences, max_size=4), max_size=8)


def reference_graph(chunks):
    """Build the graph directly from the definition of an edge."""
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
def test_graph_matches_its_definition(chunks):
    graph, expected = build_graph(chunks).to_networkx(), reference_graph(chunks)
    assert set(graph.nodes) == set(expected.nodes)
    assert {frozenset(e) for e in graph.edges} == {frozenset(e) for e in expected.edges}
    for a, b, value in expected.edges(data="weight"):
        assert graph.edges[a, b]["weight"] == pytest.approx(value)


def assert_equal_graphs(one: EntityGraph, other: EntityGraph):
    assert one.names == other.names
    assert one.named.tolist() == other.named.tolist()
    np.testing.assert_allclose(one.edges.toarray(), other.edges.toarray(), rtol=1e-12)
    np.testing.assert_array_equal(one.postings.toarray(), other.postings.toarray())


@quick
@given(chunk_lists, st.integers(1, 6))
def test_batches_do_not_change_the_graph(chunks, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entity_graph, "_MAX_MENTIONS", limit)
        in_batches = build_graph(chunks)
    expected = build_graph(chunks)
    assert_equal_graphs(in_batches, expected)
    assert in_batches.edges.data.tolist() == expected.edges.data.tolist()


@quick
@given(chunk_lists)
def test_the_counts_are_those_of_the_graph(chunks):
    counter = GraphCounter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder_module, "MAX_NEIGHBORS", 3)
        for chunk in chunks:
            counter.add(chunk)
        graph = build_graph(chunks)
        assert counter.counts() == (len(graph.names), graph.edges.nnz // 2)


def test_hub_entity_keeps_its_heaviest_edges(monkeypatch):
    monkeypatch.setattr(builder_module, "MAX_NEIGHBORS", 3)
    chunks = [[[("hub", ""), (f"e{n}", "other")]] * (9 - n) for n in range(8)]
    graph = build_graph(chunks)
    neighbors = [graph.names[row] for row in graph.neighbors(graph.index["hub"])]
    assert neighbors == ["e0", "e1", "e2"]
    assert graph.neighbors(graph.index["e5"]).tolist() == []
    assert len(graph.chunks(graph.index["e5"])[0]) == 1  # still in the index


EDITS = EntityEdits(tuple(new_edits({"a": "b", "e": "f"}, [("c", "d")], ["c"])))
MENTIONS = st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "other", "place"]))
CHUNKS = st.lists(st.lists(st.lists(MENTIONS, max_size=4), max_size=3), max_size=4)


@quick
@given(CHUNKS)
def test_edits_of_mentions_equal_mentions_of_edited_names(chunks):
    renamed = [
        [[(form, named) for n, named in s if (form := EDITS.resolve(n))] for s in chunk]
        for chunk in chunks
    ]
    edited = graph_from_mentions(*apply_edits(*mention_table(chunks), EDITS))
    expected = graph_from_mentions(*mention_table(renamed))
    assert list(edited.names) == list(expected.names)
    assert edited.named.tolist() == expected.named.tolist()
    assert (edited.edges != expected.edges).nnz == 0
    assert (edited.postings != expected.postings).nnz == 0


def test_without_edits_the_mentions_are_not_copied():
    names, mentions = mention_table([[[("a", "other")]]])
    assert apply_edits(names, mentions, EntityEdits())[1] is mentions
