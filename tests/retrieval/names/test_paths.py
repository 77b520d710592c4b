"""Path chunks: the chunks along shortest paths, by hand and compared with networkx."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.builder import build_graph
from e2graphrag_integrations.retrieval.names.paths import path_closeness
from strategies import quick


def graph_of(*chunks):
    """Return the graph of chunks: bars separate sentences, spaces separate entities."""
    return build_graph(
        [[(word, "other") for word in sentence.split()] for sentence in chunk.split("|")]
        for chunk in chunks
    )


def closeness(graph, *names):
    return path_closeness(graph, [graph.index[name] for name in names]).tolist()


def test_adjacent_entities_have_closeness_1_in_every_chunk_with_both():
    graph = graph_of("anna bert", "anna", "anna | bert", "bert cleo")
    assert closeness(graph, "anna", "bert") == [1, 0, 1, 0]


def test_closeness_is_one_over_the_number_of_edges():
    graph = graph_of("anna bert", "bert cleo", "cleo dora", "dora")
    assert closeness(graph, "anna", "cleo") == [1 / 2, 1 / 2, 0, 0]
    expected = [1 / 3] * 3 + [0]
    assert closeness(graph, "anna", "dora") == closeness(graph, "dora", "anna") == expected


def test_a_path_has_at_most_four_edges():
    graph = graph_of("a b", "b c", "c d", "d e", "e f")
    assert closeness(graph, "a", "e") == [1 / 4] * 4 + [0]
    assert closeness(graph, "a", "f") == [0] * 5


def test_unconnected_entities_have_no_path():
    assert closeness(graph_of("anna bert", "cleo dora"), "anna", "cleo") == [0, 0]


@pytest.mark.parametrize("names", [(), ("anna",)])
def test_a_path_needs_two_entities(names):
    assert closeness(graph_of("anna bert", "bert cleo"), *names) == [0, 0]


def test_the_path_with_the_heaviest_edges_counts_among_shortest_paths():
    lines = "anna bert", "bert dora", "anna cleo", "cleo dora", "cleo dora"
    assert closeness(graph_of(*lines), "anna", "dora") == [0, 0, 1 / 2, 1 / 2, 1 / 2]
    assert closeness(graph_of(*lines, "bert dora", "bert dora"), "anna", "dora") == [
        *(1 / 2, 1 / 2, 0, 0, 0),
        *(1 / 2, 1 / 2),
    ]


def test_every_pair_of_entities_counts_and_the_shortest_path_sets_the_closeness():
    graph = graph_of("anna bert", "bert cleo", "cleo dora")
    assert closeness(graph, "anna", "cleo", "dora") == [1 / 2, 1 / 2, 1]


def test_an_entity_that_only_titles_name_is_on_no_path():
    graph = graph_of("anna bert", "bert cleo")
    title = len(graph.names)
    anna, cleo = graph.index["anna"], graph.index["cleo"]
    expected = closeness(graph, "anna", "cleo")
    assert path_closeness(graph, [title, anna, cleo]).tolist() == expected
    assert path_closeness(graph, [title, anna]).tolist() == [0, 0]


def test_an_empty_graph_has_no_path():
    assert path_closeness(build_graph([]), []).tolist() == []


chunks = st.lists(
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=3).map(" ".join),
    min_size=1,
    max_size=9,
)


@quick
@given(chunks, st.data())
def test_closeness_agrees_with_the_shortest_paths_of_networkx(lines, data):
    graph = graph_of(*lines)
    start, end = (data.draw(st.sampled_from(list(graph.names))) for _ in range(2))
    found = closeness(graph, start, end)
    expected = graph.to_networkx()
    distance = None
    if nx.has_path(expected, start, end):
        distance = nx.shortest_path_length(expected, start, end)
    if start == end or distance is None or distance > 4:
        assert not any(found)
        return
    assert max(found) == pytest.approx(1 / distance)
    on_path = [set(line.split()) for line, value in zip(lines, found, strict=True) if value]
    paths = [set(pairwise(path)) for path in nx.all_shortest_paths(expected, start, end)]
    edges = set().union(*paths)
    assert all(any({a, b} <= names for a, b in edges) for names in on_path)
    assert any(all(any({a, b} <= names for names in on_path) for a, b in path) for path in paths)
