"""Path chunks: where a shortest path between two entities runs, by hand and against networkx."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.entity_graph import build_graph
from e2graphrag_integrations.retrieval.paths import path_chunks
from strategies import quick


def graph_of(*chunks):
    """Return the graph of chunks whose sentences stand between bars, entities between spaces."""
    return build_graph(
        [[(word, True) for word in sentence.split()] for sentence in chunk.split("|")]
        for chunk in chunks
    )


def values(graph, *names):
    return path_chunks(graph, [graph.index[name] for name in names]).tolist()


def test_neighbors_meet_in_every_chunk_that_holds_both():
    graph = graph_of("anna bert", "anna", "anna | bert", "bert cleo")
    assert values(graph, "anna", "bert") == [1, 0, 1, 0]


def test_a_longer_path_is_worth_one_over_its_edges():
    graph = graph_of("anna bert", "bert cleo", "cleo dora", "dora")
    assert values(graph, "anna", "cleo") == [1 / 2, 1 / 2, 0, 0]
    assert values(graph, "anna", "dora") == values(graph, "dora", "anna") == [1 / 3] * 3 + [0]


def test_a_path_has_at_most_four_edges():
    graph = graph_of("a b", "b c", "c d", "d e", "e f")
    assert values(graph, "a", "e") == [1 / 4] * 4 + [0]
    assert values(graph, "a", "f") == [0] * 5


def test_entities_that_are_not_joined_have_no_path():
    assert values(graph_of("anna bert", "cleo dora"), "anna", "cleo") == [0, 0]


@pytest.mark.parametrize("names", [(), ("anna",)])
def test_a_path_needs_two_entities(names):
    assert values(graph_of("anna bert", "bert cleo"), *names) == [0, 0]


def test_of_several_shortest_paths_that_of_the_heaviest_edges_is_taken():
    lines = "anna bert", "bert dora", "anna cleo", "cleo dora", "cleo dora"
    assert values(graph_of(*lines), "anna", "dora") == [0, 0, 1 / 2, 1 / 2, 1 / 2]
    assert values(graph_of(*lines, "bert dora", "bert dora"), "anna", "dora") == [
        *(1 / 2, 1 / 2, 0, 0, 0),
        *(1 / 2, 1 / 2),
    ]


def test_of_three_entities_every_two_are_joined_and_a_chunk_counts_by_its_shortest_path():
    graph = graph_of("anna bert", "bert cleo", "cleo dora")
    assert values(graph, "anna", "cleo", "dora") == [1 / 2, 1 / 2, 1]


def test_an_entity_that_only_titles_name_is_on_no_path():
    graph = graph_of("anna bert", "bert cleo")
    title = len(graph.names)
    anna, cleo = graph.index["anna"], graph.index["cleo"]
    assert path_chunks(graph, [title, anna, cleo]).tolist() == values(graph, "anna", "cleo")
    assert path_chunks(graph, [title, anna]).tolist() == [0, 0]


def test_an_empty_graph_has_no_path():
    assert path_chunks(build_graph([]), []).tolist() == []


chunks = st.lists(
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=3).map(" ".join),
    min_size=1,
    max_size=9,
)


@quick
@given(chunks, st.data())
def test_the_value_is_one_over_the_distance_on_chunks_that_hold_an_edge_of_the_path(lines, data):
    graph = graph_of(*lines)
    one, other = (data.draw(st.sampled_from(list(graph.names))) for _ in range(2))
    found = values(graph, one, other)
    joined = graph.to_networkx()
    distance = None
    if nx.has_path(joined, one, other):
        distance = nx.shortest_path_length(joined, one, other)
    if one == other or distance is None or distance > 4:
        assert not any(found)
        return
    assert max(found) == pytest.approx(1 / distance)
    held = [set(line.split()) for line, value in zip(lines, found, strict=True) if value]
    on_paths = [set(pairwise(path)) for path in nx.all_shortest_paths(joined, one, other)]
    edges = set().union(*on_paths)
    assert all(any({a, b} <= names for a, b in edges) for names in held)
    assert any(all(any({a, b} <= names for names in held) for a, b in path) for path in on_paths)
