"""Communities of a graph: partitions that nest, are connected, and depend only on the edges."""

from __future__ import annotations

import gc
import weakref

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from e2graphrag_integrations.graph import communities as module
from e2graphrag_integrations.graph.builder import SentenceTable, graph_from_mentions, mention_table
from e2graphrag_integrations.graph.communities import Communities, find_communities
from strategies import quick

NAMES = "abcdefghij"
CORPORA = st.lists(
    st.lists(st.lists(st.sampled_from(NAMES), max_size=4), min_size=1, max_size=3),
    min_size=1,
    max_size=8,
)


def built(chunks, seed=0):
    """Return the names, the graph and the communities of chunks of sentences."""
    names, mentions = mention_table([[(n, "other") for n in s] for s in chunk] for chunk in chunks)
    graph = graph_from_mentions(names, mentions)
    labels = find_communities(graph.edges, seed)
    table = SentenceTable(mentions, len(names))
    return names, graph, Communities(labels, table, graph.postings.shape[1])


@pytest.fixture
def _small_communities(monkeypatch):
    monkeypatch.setattr(module, "MAX_SIZE", 3)


@pytest.mark.usefixtures("_small_communities")
@given(CORPORA, st.integers(0, 3))
@quick
def test_each_level_is_a_partition_into_connected_parts_of_the_level_above(chunks, seed):
    _, graph, found = built(chunks, seed)
    whole = nx.from_scipy_sparse_array(graph.edges)
    has_edges = np.diff(graph.edges.indptr) > 0
    for level, labels in enumerate(found.labels):
        assert ((labels >= 0) == has_edges).all()
        for label, members in enumerate(found.members(level)):
            assert (labels[members] == label).all()
            assert nx.is_connected(whole.subgraph(members.tolist()))
            if level:
                assert len(np.unique(found.labels[level - 1][members])) == 1
    sizes = [[len(members) for members in found.members(n)] for n in range(len(found.labels))]
    assert all(one == sorted(one, reverse=True) for one in sizes)


@pytest.mark.usefixtures("_small_communities")
@given(CORPORA, st.integers(0, 3), st.randoms())
@quick
def test_communities_depend_only_on_the_edges_and_the_seed(chunks, seed, random):
    _, _, found = built(chunks, seed)
    shuffled = list(chunks)
    random.shuffle(shuffled)
    _, _, again = built(shuffled, seed)
    assert len(found.labels) == len(again.labels)
    assert all(map(np.array_equal, found.labels, again.labels))


@given(CORPORA)
@quick
def test_the_evidence_of_a_community_is_every_sentence_with_two_members(chunks):
    names, _, found = built(chunks)
    evidence = found.evidence(0)
    expected = np.zeros(evidence.chunks.shape)
    strengths = np.zeros(len(names))
    for label, members in enumerate(found.members(0)):
        inside = {names[row] for row in members}
        for number, chunk in enumerate(chunks):
            for sentence in map(set, chunk):
                own = sentence & inside
                expected[label, number] += len(own) * (len(own) - 1) / 2 / max(1, len(sentence))
                for name in own:
                    strengths[names.index(name)] += (len(own) - 1) / len(sentence)
    assert np.allclose(evidence.chunks.toarray(), expected)
    assert np.allclose(evidence.strengths, strengths)


def test_two_cliques_are_two_communities_and_weights_decide():
    cliques = [["abcd"], ["efgh"], ["de"]]
    names, _, found = built([[list(s) for s in chunk] for chunk in cliques])
    members = [[names[row] for row in one] for one in found.members(0)]
    assert members == [["a", "b", "c", "d"], ["e", "f", "g", "h"]]
    heavy = [["ab"]] * 9 + [["bc"], ["cd"]] + [["de"]] * 9
    names, _, found = built([[list(s) for s in chunk] for chunk in heavy])
    parts = [{names[row] for row in one} for one in found.members(len(found.labels) - 1)]
    assert {"a", "b"} in [part & {"a", "b"} for part in parts]
    assert not any({"a", "e"} <= part for part in parts)


def test_batches_of_sentences_do_not_change_the_evidence(monkeypatch):
    chunks = [[list("abc")], [list("cd"), list("ab")], [list("ef")], [list("fa")]]
    _, _, found = built(chunks)
    whole = found.evidence(0)
    monkeypatch.setattr(module, "_BATCH", 1)
    _, _, found = built(chunks)
    assert np.allclose(whole.chunks.toarray(), found.evidence(0).chunks.toarray())
    assert np.allclose(whole.strengths, found.evidence(0).strengths)


@pytest.mark.parametrize("chunks", [[], [[]], [[[]]], [[["a"]], [["b"]]]])
def test_a_graph_without_edges_has_no_communities(chunks):
    _, _, found = built(chunks)
    assert len(found.labels) == 1
    assert (found.labels[0] == -1).all()
    assert found.members(0) == []
    assert found.evidence(0).chunks.shape[0] == 0


def test_large_communities_are_divided_level_by_level():
    random = np.random.default_rng(0)
    size, group = 400, 20
    chunks = []
    for first in range(0, size, group):
        for _ in range(60):
            pair = first + random.choice(group, 2, replace=False)
            chunks.append([[f"{n:03}" for n in pair]])
    bridges = random.integers(0, size, (40, 2))
    chunks += [[[f"{a:03}", f"{b:03}"]] for a, b in bridges.tolist()]
    _, graph, found = built(chunks)
    assert isinstance(graph.edges, csr_array)
    assert len(found.labels) >= 1
    finest = found.members(len(found.labels) - 1)
    assert max(map(len, finest)) <= module.MAX_SIZE


def test_graphs_and_communities_are_freed_without_the_garbage_collector():
    """A reference cycle would keep the arrays of old snapshots in memory."""
    _, graph, found = built([[list(pair)] for pair in ("ab", "bc", "cd", "de")])
    assert graph.hops([0, 4], max_hops=4) == {(0, 4): 4}
    found.evidence(0)
    found.members(0)
    alive = weakref.ref(found), weakref.ref(graph)
    gc.disable()
    try:
        del found, graph
        assert [one() for one in alive] == [None, None]
    finally:
        gc.enable()
