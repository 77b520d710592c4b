"""Personalized PageRank, against networkx-free arithmetic by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.graph.entity_graph import build_graph
from e2graphrag_integrations.graph.pagerank import PersonalizedPageRank
from e2graphrag_integrations.graph.titles import TitledEntities
from e2graphrag_integrations.search.fusion import top_rows


def chunks_of(*lines):
    return [[[(word, True) for word in line.split()]] for line in lines]


def walk_of(graph, titles=(None,), documents=None):
    """Return the walk over chunks of these documents, all of the first one unless told."""
    if documents is None:
        documents = [0] * graph.postings.shape[1]
    subjects = TitledEntities.of(graph, titles)
    return PersonalizedPageRank.of(graph, subjects, np.asarray(documents, dtype=np.int64)), subjects


def shares(walk, seeds, **options):
    """Return the share of every chunk."""
    chunks, found = walk.rank(seeds, **options)
    assert chunks.tolist() == sorted(set(chunks.tolist()))
    dense = np.zeros(walk.by_chunk.shape[0])
    dense[chunks] = found
    return dense


def counted(graph, titles, documents):
    """Return how often each chunk mentions each entity, a title three times more."""
    names = TitledEntities.of(graph, titles).names
    counts = np.zeros((graph.postings.shape[1], len(names)))
    counts[:, : len(graph.names)] = graph.postings.toarray().T
    for chunk, document in enumerate(documents):
        if titles[document]:
            counts[chunk, list(names).index(titles[document])] += 3
    return counts


def dense_walk(counts, seeds, damping, steps):
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
    walk, _ = walk_of(graph)
    share = shares(walk, {graph.index["anna"]: 3.0}, steps=1)
    one, two = math.log(2), math.log(3)
    assert share.tolist() == pytest.approx([one / (one + two), two / (one + two), 0])


def test_a_title_counts_as_three_mentions_in_each_chunk_under_it():
    graph = build_graph(chunks_of("anna bert", "cleo", "anna", "dora"))
    walk, subjects = walk_of(graph, [None, "Anna", None], [0, 1, 1, 2])
    share = shares(walk, {subjects.index["anna"]: 1.0}, steps=1)
    # Mentioned once, under the title, both: ln(1 + 1), ln(1 + 3), ln(1 + 1 + 3).
    weights = [math.log(2), math.log(4), math.log(5), 0]
    assert share.tolist() == pytest.approx([weight / sum(weights) for weight in weights])


def test_a_walk_begins_at_an_entity_that_only_a_title_names():
    graph = build_graph(chunks_of("anna", "bert", "bert"))
    walk, subjects = walk_of(graph, ["Dune (novel)", None], [0, 1, 0])
    dune = subjects.index["dune"]
    assert walk.chunks_of(dune).tolist() == [0, 2]
    # Two steps: the title's chunks hold "anna" and "bert", and bert leads on to chunk 1.
    first, second = (shares(walk, {dune: 1.0}, steps=steps) for steps in (1, 2))
    assert first.tolist() == pytest.approx([0.5, 0, 0.5])
    assert second[1] > 0


def test_who_holds_whom_by_hand():
    graph = build_graph(chunks_of("anna bert anna", "cleo", "bert"))
    walk, subjects = walk_of(graph, ["Cleo", "Oslo"], [0, 0, 1])
    assert list(subjects.names) == ["anna", "bert", "cleo", "oslo"]
    assert [walk.chunks_of(entity).tolist() for entity in range(4)] == [[0], [0, 2], [0, 1], [2]]
    assert [sorted(walk.entities_of(chunk)) for chunk in range(3)] == [[0, 1, 2], [2], [1, 3]]
    assert walk.held.tolist() == [1, 2, 2, 1]


def test_a_title_without_chunks_is_held_by_none_and_leads_nowhere():
    graph = build_graph(chunks_of("anna"))
    walk, subjects = walk_of(graph, [None, "Oslo"], [0])
    assert walk.held.tolist() == [1, 0]
    for one in (walk, replace(walk, exact=0)):
        assert shares(one, {subjects.index["oslo"]: 1.0}).tolist() == [0]


def test_an_index_of_nothing_has_a_walk():
    walk, _ = walk_of(build_graph([]), [])
    assert (walk.held.tolist(), walk.by_entity.shape) == ([], (0, 0))


lines = st.lists(
    st.lists(st.sampled_from("abcdef"), max_size=5).map(" ".join),
    min_size=1,
    max_size=7,
)


@st.composite
def indexes(draw):
    """Draw a graph, titles in their normal form, and the document of each chunk."""
    some = draw(lines)
    titles = draw(st.lists(st.none() | st.sampled_from("abxy"), min_size=1, max_size=4))
    of_chunk = st.lists(
        st.integers(0, len(titles) - 1), min_size=len(some), max_size=len(some)
    ).map(sorted)
    return build_graph(chunks_of(*some)), titles, draw(of_chunk)


@given(indexes(), st.floats(0, 1), st.integers(1, 12), st.data())
def test_the_walk_is_that_of_dense_matrices_and_loses_nothing(drawn, damping, steps, data):
    graph, titles, documents = drawn
    counts = counted(*drawn)
    held = np.flatnonzero(counts.any(axis=0)).tolist()
    assume(held)
    seeds = data.draw(
        st.dictionaries(st.sampled_from(held), st.floats(0.1, 5), min_size=1, max_size=3)
    )
    walk, _ = walk_of(graph, titles, documents)
    share = shares(walk, seeds, damping=damping, steps=steps)
    np.testing.assert_allclose(share, dense_walk(counts, seeds, damping, steps), atol=1e-9)
    assert share.sum() == pytest.approx(1)


@given(indexes(), st.floats(0, 1), st.integers(1, 4), st.data())
def test_a_walk_over_part_of_a_small_graph_is_over_all_of_it(drawn, damping, steps, data):
    graph, titles, documents = drawn
    held = np.flatnonzero(counted(*drawn).any(axis=0)).tolist()
    assume(held)
    seeds = data.draw(
        st.dictionaries(st.sampled_from(held), st.floats(0.1, 5), min_size=1, max_size=3)
    )
    walk, _ = walk_of(graph, titles, documents)
    part = shares(replace(walk, exact=0), seeds, damping=damping, steps=steps)
    np.testing.assert_allclose(
        part, shares(walk, seeds, damping=damping, steps=steps), rtol=1e-9, atol=1e-12
    )


@given(indexes())
def test_who_holds_whom_is_what_the_counts_say(drawn):
    counts = counted(*drawn)
    walk, _ = walk_of(*drawn)
    assert walk.held.tolist() == (counts > 0).sum(axis=0).tolist()
    for entity, column in enumerate(counts.T):
        assert walk.chunks_of(entity).tolist() == np.flatnonzero(column).tolist()
    for chunk, row in enumerate(counts):
        assert sorted(walk.entities_of(chunk)) == np.flatnonzero(row).tolist()


def test_in_a_large_graph_the_best_chunks_of_the_exact_walk_are_found():
    random = np.random.default_rng(0)
    common = 1 / (np.arange(1500) + 5.0)
    drawn = random.choice(1500, size=(3000, 5), p=common / common.sum())
    graph = build_graph([[[(f"e{one:04d}", True) for one in chunk]] for chunk in drawn.tolist()])
    walk, _ = walk_of(graph)
    large = replace(walk, exact=0)
    recalls = []
    for _ in range(20):
        seeds = {int(e): 1 / int(walk.held[e]) for e in random.integers(0, len(graph.names), 3)}
        expected = top_rows(shares(walk, seeds), 50)
        found = top_rows(shares(large, seeds), 50)
        recalls.append(len(np.intersect1d(expected, found)) / 50)
    assert np.mean(recalls) >= 0.97


def test_of_a_name_that_very_many_chunks_hold_those_with_most_of_it_are_found(monkeypatch):
    twice = {7, 30, 31, 200, 299}
    anna = [("anna", True)]
    graph = build_graph([[anna, anna] if n in twice else [anna] for n in range(300)])
    walk, _ = walk_of(graph)
    monkeypatch.setattr("e2graphrag_integrations.graph.pagerank._KEPT", len(twice))
    chunks, found = replace(walk, exact=0).rank({graph.index["anna"]: 1.0})
    assert set(chunks.tolist()) == twice
    assert len(set(found.tolist())) == 1


def test_of_two_names_that_many_chunks_hold_neither_is_left_out(monkeypatch):
    random = np.random.default_rng(1)
    others = [[(f"e{n}", True) for n in row] for row in random.zipf(1.2, (9000, 3))]
    graph = build_graph(
        [
            [[*names, (("anna", "bert")[at % 8], True)] if at % 8 < 2 else names]
            for at, names in enumerate(others)
        ]
    )
    walk, _ = walk_of(graph)
    seeds = {graph.index[name]: 1 / 1125 for name in ("anna", "bert")}
    # Each of their 2,250 chunks holds one of them once: which are best, other names tell.
    monkeypatch.setattr("e2graphrag_integrations.graph.pagerank._KEPT", 200)
    best = top_rows(shares(replace(walk, exact=0), seeds), 100)
    assert 25 <= np.count_nonzero(best % 8 == 1) <= 75
    expected = top_rows(shares(walk, seeds), 100)
    assert len(np.intersect1d(best, expected)) >= 80


@given(st.integers(0, 2**32 - 1))
def test_what_returns_to_a_chunk_is_the_diagonal_of_what_goes_between_them(seed):
    random = np.random.default_rng(seed)
    rows = [random.integers(0, 12, random.integers(0, 5)) for _ in range(9)]
    walk, _ = walk_of(build_graph([[[(f"e{n}", True) for n in row]] for row in rows]))
    np.testing.assert_allclose(walk._returned, np.diag(walk._between), atol=1e-12)


@pytest.mark.parametrize("damping", [0.5, 1])
def test_of_a_common_names_chunks_those_that_may_be_seen_are_kept_beside_the_best(
    monkeypatch, damping
):
    # The hidden ones have the name three times: all that are kept if nobody asks what is seen.
    anna = [("anna", True)]
    graph = build_graph([[anna, anna, anna] if n < 40 else [anna] for n in range(300)])
    walk, _ = walk_of(graph)
    seen = np.arange(300) >= 40
    monkeypatch.setattr(
        "e2graphrag_integrations.graph.pagerank._KEPT", 15
    )  # twice as many where a filter is
    seeds = {graph.index["anna"]: 1.0}
    chunks, found = replace(walk, exact=0).rank(seeds, damping=damping, seen=seen)
    assert len(chunks) == 30
    assert seen[chunks].all()
    assert (found > 0).all()


def test_of_few_chunks_that_may_be_seen_every_one_is_weighed():
    # All of the first thousand hold the name; the walk follows but some of them.
    graph = build_graph(
        [[[("anna", True), (f"e{n % 40}", True)]] for n in range(1000)]
        + [[[(f"e{n % 40}", True)]] for n in range(50)]
    )
    walk, _ = walk_of(graph)
    seen = np.zeros(1050, dtype=np.bool_)
    seen[[3, 500, 999, 1001, 1040]] = True
    seeds = {graph.index["anna"]: 1.0}
    chunks, found = replace(walk, exact=20).rank(seeds, steps=4, seen=seen)
    assert chunks.tolist() == [3, 500, 999, 1001, 1040]
    np.testing.assert_allclose(found, shares(walk, seeds, steps=4)[chunks], rtol=1e-9)


@given(indexes(), st.data())
def test_what_may_not_be_seen_is_left_out_of_the_walks_end_alone(drawn, data):
    graph, titles, documents = drawn
    held = np.flatnonzero(counted(*drawn).any(axis=0)).tolist()
    assume(held)
    seeds = {data.draw(st.sampled_from(held)): 1.0}
    mask = st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))
    seen = np.asarray(data.draw(mask), dtype=np.bool_)
    walk, _ = walk_of(graph, titles, documents)
    for one in (walk, replace(walk, exact=0)):
        whole = shares(one, seeds, steps=3)
        np.testing.assert_allclose(shares(one, seeds, steps=3, seen=seen), whole * seen, rtol=1e-9)
