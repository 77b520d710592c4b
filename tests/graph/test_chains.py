"""Chains between entities: compared with every simple path, with and without hidden chunks."""

from __future__ import annotations

import math
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.builder import SentenceTable, graph_from_mentions, mention_table
from e2graphrag_integrations.graph.chains import MAX_CHAINS, MAX_HOPS, find_chains
from e2graphrag_integrations.graph.visible_graph import VisibleGraph
from strategies import quick

NAMES = "abcdefg"
CORPORA = st.lists(
    st.lists(st.lists(st.sampled_from(NAMES), max_size=4), min_size=1, max_size=3),
    min_size=1,
    max_size=6,
)


def visible_graph(chunks, allowed=None):
    """Return the graph of chunks, given as sentences of names."""
    names, mentions = mention_table([[(n, "other") for n in s] for s in chunk] for chunk in chunks)
    graph = graph_from_mentions(names, mentions)
    mask = None if allowed is None else np.asarray(allowed, dtype=np.bool_)
    return VisibleGraph(graph, lambda: SentenceTable(mentions, len(names)), mask)


def named_chains(graph, ends):
    rows = [graph.graph.index[name] for name in ends if name in graph.graph.index]
    names = graph.graph.names
    return [
        (
            tuple(names[entity] for entity in chain.entities),
            tuple(round(weight, 9) for weight in chain.weights),
            round(chain.cost, 9),
        )
        for chain in find_chains(graph, rows)
    ]


def cost(graph, chunks, path):
    frequent = [sum(any(name in s for s in chunk) for chunk in chunks) for name in path]
    weights = [graph[one][other]["weight"] for one, other in pairwise(path)]
    costs = (
        math.log1p(math.sqrt(a * b) / weight)
        for (a, b), weight in zip(pairwise(frequent), weights, strict=True)
    )
    return sum(costs)


@given(CORPORA, st.sampled_from(["ab", "ag", "cd"]))
@quick
def test_the_best_chains_are_the_cheapest_simple_paths(chunks, ends):
    graph = visible_graph(chunks)
    found = named_chains(graph, ends)
    whole = graph.graph.to_networkx()
    if not all(end in whole for end in ends):
        assert found == []
        return
    paths = list(nx.all_simple_paths(whole, *ends, cutoff=MAX_HOPS))
    if whole.has_edge(*ends):
        paths = [list(ends)]
    best = sorted((round(cost(whole, chunks, p), 9), len(p), tuple(p)) for p in paths)[:2]
    assert [(price, len(path), path) for path, _, price in found] == best


@given(CORPORA, st.data())
@quick
def test_hidden_chunks_do_not_count(chunks, data):
    allowed = data.draw(st.lists(st.booleans(), min_size=len(chunks), max_size=len(chunks)))
    visible = [chunk for chunk, kept in zip(chunks, allowed, strict=True) if kept]
    hidden = visible_graph(chunks, allowed)
    assert named_chains(hidden, NAMES) == named_chains(visible_graph(visible), NAMES)


def test_a_filter_that_allows_everything_changes_nothing():
    chunks = [["ab", "bc"], ["cd"], ["de", "ea"]]
    assert named_chains(visible_graph(chunks, [True] * 3), "ad") == named_chains(
        visible_graph(chunks), "ad"
    )


def test_specific_entities_join_better_than_frequent_ones():
    chunks = [["ax", "xb"], ["ay", "yb"], *([["xz"]] * 9)]
    [best, second] = named_chains(visible_graph(chunks), "ab")
    assert best[0] == ("a", "y", "b")
    assert second[0] == ("a", "x", "b")


def test_the_number_of_chains_is_bounded():
    ends = [f"end{number}" for number in range(12)]
    chunks = [[[end, f"middle{number}"]] for end in ends for number in range(3)]
    found = named_chains(visible_graph(chunks), ends)
    assert len(found) == MAX_CHAINS
    assert len({frozenset((path[0], path[-1])) for path, *_ in found}) == MAX_CHAINS


@pytest.mark.parametrize("ends", ["", "a", "aa", "az"])
def test_fewer_than_two_known_names_have_no_chain(ends):
    assert named_chains(visible_graph([["ab"]]), ends) == []


def test_frequent_entities_use_the_edges_of_the_graph(monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.graph.visible_graph._MAX_READ", 0)
    chunks = [["ab", "bc"], ["cd"]]
    from_edges = named_chains(visible_graph(chunks), "ad")
    monkeypatch.undo()
    assert from_edges == named_chains(visible_graph(chunks), "ad") != []
