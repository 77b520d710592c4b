"""Personalized PageRank, compared with hand-computed scores and dense matrices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.graph import pagerank as pagerank_module
from e2graphrag_integrations.graph.builder import build_graph
from e2graphrag_integrations.graph.pagerank import PersonalizedPageRank
from e2graphrag_integrations.graph.subjects import Subject, SubjectChoice, Subjects
from e2graphrag_integrations.search.fusion import top_rows


def chunks_of(*lines):
    return [[[(word, "other") for word in line.split()]] for line in lines]


def titled(graph, titles):
    """Return the entities of documents with the given titles."""
    choice = SubjectChoice([Subject((t,)) if t else Subject() for t in titles])
    return Subjects.from_choice(graph, choice)


def pagerank_of(graph, titles=(None,), documents=None):
    """Return the ranker and its entities; by default all chunks belong to one document."""
    if documents is None:
        documents = [0] * graph.postings.shape[1]
    entities = titled(graph, titles)
    chunk_documents = np.asarray(documents, dtype=np.int64)
    return PersonalizedPageRank.from_graph(graph, entities, chunk_documents), entities


def in_subgraph(pagerank):
    """Return a ranker that always uses a subgraph."""
    return replace(pagerank, exact_limit=0)


def all_scores(pagerank, seeds, **options):
    """Return the score of every chunk."""
    chunks, scores = pagerank.rank(seeds, **options)
    assert chunks.tolist() == sorted(set(chunks.tolist()))
    dense = np.zeros(pagerank.chunk_entities.shape[0])
    dense[chunks] = scores
    return dense


def mention_counts(graph, titles, documents):
    """Return the mentions of each entity in each chunk; a title counts as three more."""
    names = titled(graph, titles).names
    counts = np.zeros((graph.postings.shape[1], len(names)))
    counts[:, : len(graph.names)] = graph.postings.toarray().T
    for chunk, document in enumerate(documents):
        if titles[document]:
            counts[chunk, list(names).index(titles[document])] += 3
    return counts


def dense_pagerank(counts, seeds, damping, n_iter):
    size = counts.shape[0]
    idf = np.log((size + 1) / ((counts > 0).sum(axis=0) + 1)) + 1e-6
    weights = np.log1p(counts) * idf
    rows = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    columns = weights / np.maximum(weights.sum(axis=0, keepdims=True), 1e-300)
    restart = np.zeros(counts.shape[1])
    for entity, weight in seeds.items():
        restart[entity] = weight
    restart /= restart.sum()
    entities = restart
    for _ in range(n_iter):
        chunks = columns @ entities
        entities = (1 - damping) * restart + damping * rows.T @ chunks
    return chunks


def test_one_iteration_from_one_entity_matches_hand_computed_scores():
    graph = build_graph(chunks_of("anna bert", "anna anna", "cleo"))
    pagerank, _ = pagerank_of(graph)
    scores = all_scores(pagerank, {graph.index["anna"]: 3.0}, n_iter=1)
    once, twice = math.log(2), math.log(3)
    assert scores.tolist() == pytest.approx([once / (once + twice), twice / (once + twice), 0])


def test_title_counts_as_three_mentions_in_each_chunk_of_its_document():
    graph = build_graph(chunks_of("anna bert", "cleo", "anna", "dora"))
    pagerank, entities = pagerank_of(graph, [None, "Anna", None], [0, 1, 1, 2])
    scores = all_scores(pagerank, {entities.index["anna"]: 1.0}, n_iter=1)
    # Mentioned once, under the title, both: ln(1 + 1), ln(1 + 3), ln(1 + 1 + 3).
    weights = [math.log(2), math.log(4), math.log(5), 0]
    assert scores.tolist() == pytest.approx([weight / sum(weights) for weight in weights])


def test_entity_that_occurs_only_as_a_title_can_be_a_seed():
    graph = build_graph(chunks_of("anna", "bert", "bert"))
    pagerank, entities = pagerank_of(graph, ["Dune (novel)", None], [0, 1, 0])
    dune = entities.index["dune"]
    assert pagerank.chunks_of(dune).tolist() == [0, 2]
    # The title's chunks mention "anna" and "bert"; the second iteration reaches chunk 1 by "bert".
    first, second = (all_scores(pagerank, {dune: 1.0}, n_iter=n_iter) for n_iter in (1, 2))
    assert first.tolist() == pytest.approx([0.5, 0, 0.5])
    assert second[1] > 0


def test_chunks_and_entities_include_titles():
    graph = build_graph(chunks_of("anna bert anna", "cleo", "bert"))
    pagerank, entities = pagerank_of(graph, ["Cleo", "Oslo"], [0, 0, 1])
    assert list(entities.names) == ["anna", "bert", "cleo", "oslo"]
    chunks = [pagerank.chunks_of(entity).tolist() for entity in range(4)]
    assert chunks == [[0], [0, 2], [0, 1], [2]]
    assert [sorted(pagerank.entities_of(chunk)) for chunk in range(3)] == [[0, 1, 2], [2], [1, 3]]
    assert pagerank.doc_freq.tolist() == [1, 2, 2, 1]


def test_title_without_chunks_reaches_no_chunk():
    graph = build_graph(chunks_of("anna"))
    pagerank, entities = pagerank_of(graph, [None, "Oslo"], [0])
    assert pagerank.doc_freq.tolist() == [1, 0]
    for ranker in (pagerank, in_subgraph(pagerank)):
        assert all_scores(ranker, {entities.index["oslo"]: 1.0}).tolist() == [0]


def test_empty_index_is_accepted():
    pagerank, _ = pagerank_of(build_graph([]), [])
    assert (pagerank.doc_freq.tolist(), pagerank.entity_chunks.shape) == ([], (0, 0))


lines = st.lists(
    st.lists(st.sampled_from("abcdef"), max_size=5).map(" ".join),
    min_size=1,
    max_size=7,
)


@st.composite
def indexes(draw):
    """Draw a graph, titles in normal form, and the document of each chunk."""
    chunk_texts = draw(lines)
    titles = draw(st.lists(st.none() | st.sampled_from("abxy"), min_size=1, max_size=4))
    size = len(chunk_texts)
    documents = st.lists(st.integers(0, len(titles) - 1), min_size=size, max_size=size).map(sorted)
    return build_graph(chunks_of(*chunk_texts)), titles, draw(documents)


def draw_seeds(data, counts, max_size=3):
    """Draw weighted seeds among the entities that occur in a chunk."""
    present = np.flatnonzero(counts.any(axis=0)).tolist()
    assume(present)
    return data.draw(
        st.dictionaries(st.sampled_from(present), st.floats(0.1, 5), min_size=1, max_size=max_size)
    )


@given(indexes(), st.floats(0, 1), st.integers(1, 12), st.data())
def test_scores_match_dense_matrices_and_sum_to_one(drawn, damping, n_iter, data):
    counts = mention_counts(*drawn)
    seeds = draw_seeds(data, counts)
    pagerank, _ = pagerank_of(*drawn)
    scores = all_scores(pagerank, seeds, damping=damping, n_iter=n_iter)
    np.testing.assert_allclose(scores, dense_pagerank(counts, seeds, damping, n_iter), atol=1e-9)
    assert scores.sum() == pytest.approx(1)


# The subgraph grows three times, so it contains all that three iterations reach.
@given(indexes(), st.floats(0, 1), st.integers(1, 3), st.data())
def test_subgraph_of_a_small_graph_gives_exact_scores(drawn, damping, n_iter, data):
    seeds = draw_seeds(data, mention_counts(*drawn))
    pagerank, _ = pagerank_of(*drawn)
    options = {"damping": damping, "n_iter": n_iter}
    np.testing.assert_allclose(
        all_scores(in_subgraph(pagerank), seeds, **options),
        all_scores(pagerank, seeds, **options),
        rtol=1e-9,
        atol=1e-12,
    )


@given(indexes())
def test_chunks_and_entities_match_the_mention_counts(drawn):
    counts = mention_counts(*drawn)
    pagerank, _ = pagerank_of(*drawn)
    assert pagerank.doc_freq.tolist() == (counts > 0).sum(axis=0).tolist()
    for entity, column in enumerate(counts.T):
        assert pagerank.chunks_of(entity).tolist() == np.flatnonzero(column).tolist()
    for chunk, row in enumerate(counts):
        assert sorted(pagerank.entities_of(chunk)) == np.flatnonzero(row).tolist()


@given(indexes())
def test_the_mention_counts_are_recovered_from_the_weights(drawn):
    counts = mention_counts(*drawn)
    pagerank, _ = pagerank_of(*drawn)
    matrix = pagerank.entity_chunks
    entities = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    found = pagerank.mentions_at(np.arange(matrix.nnz), entities)
    np.testing.assert_allclose(found, counts[matrix.indices, entities])


def test_subgraph_of_a_large_graph_finds_the_best_chunks():
    random = np.random.default_rng(0)
    zipf = 1 / (np.arange(1500) + 5.0)
    drawn = random.choice(1500, size=(3000, 5), p=zipf / zipf.sum())
    graph = build_graph([[[(f"e{n:04d}", "other") for n in chunk]] for chunk in drawn.tolist()])
    pagerank, _ = pagerank_of(graph)
    recalls = []
    for _ in range(20):
        entities = random.integers(0, len(graph.names), 3)
        seeds = {int(entity): 1 / int(pagerank.doc_freq[entity]) for entity in entities}
        expected = top_rows(all_scores(pagerank, seeds), 50)
        found = top_rows(all_scores(in_subgraph(pagerank), seeds), 50)
        recalls.append(len(np.intersect1d(expected, found)) / 50)
    assert np.mean(recalls) >= 0.97


def test_frequent_entity_keeps_the_chunks_with_most_mentions(monkeypatch):
    twice = {7, 30, 31, 200, 299}
    anna = [("anna", "other")]
    graph = build_graph([[anna, anna] if n in twice else [anna] for n in range(300)])
    pagerank, _ = pagerank_of(graph)
    monkeypatch.setattr(pagerank_module, "_CHUNK_BUDGET", len(twice))
    chunks, scores = in_subgraph(pagerank).rank({graph.index["anna"]: 1.0})
    assert set(chunks.tolist()) == twice
    assert len(set(scores.tolist())) == 1


def test_chunk_budget_is_shared_by_two_frequent_entities(monkeypatch):
    random = np.random.default_rng(1)
    others = [[(f"e{n}", "other") for n in row] for row in random.zipf(1.2, (9000, 3))]
    graph = build_graph(
        [
            [[*names, (("anna", "bert")[n % 8], "other")] if n % 8 < 2 else names]
            for n, names in enumerate(others)
        ]
    )
    pagerank, _ = pagerank_of(graph)
    seeds = {graph.index[name]: 1 / 1125 for name in ("anna", "bert")}
    # Each of the 2,250 chunks mentions one of the two once; the other entities decide the order.
    monkeypatch.setattr(pagerank_module, "_CHUNK_BUDGET", 200)
    best = top_rows(all_scores(in_subgraph(pagerank), seeds), 100)
    assert 25 <= np.count_nonzero(best % 8 == 1) <= 75
    expected = top_rows(all_scores(pagerank, seeds), 100)
    assert len(np.intersect1d(best, expected)) >= 80


@given(st.integers(0, 2**32 - 1))
def test_return_probability_is_the_diagonal_of_the_transition_matrix(seed):
    random = np.random.default_rng(seed)
    rows = [random.integers(0, 12, random.integers(0, 5)) for _ in range(9)]
    pagerank, _ = pagerank_of(build_graph([[[(f"e{n}", "other") for n in row]] for row in rows]))
    np.testing.assert_allclose(
        pagerank.return_probability, np.diag(pagerank._transitions), atol=1e-12
    )


@pytest.mark.parametrize("damping", [0.5, 1])
def test_filter_keeps_matching_chunks_of_a_frequent_entity(monkeypatch, damping):
    # The filtered chunks mention the entity three times: they alone would fill the budget.
    anna = [("anna", "other")]
    graph = build_graph([[anna, anna, anna] if n < 40 else [anna] for n in range(300)])
    pagerank, _ = pagerank_of(graph)
    allowed = np.arange(300) >= 40
    monkeypatch.setattr(pagerank_module, "_CHUNK_BUDGET", 15)  # 30 under a filter
    seeds = {graph.index["anna"]: 1.0}
    chunks, scores = in_subgraph(pagerank).rank(seeds, damping=damping, allowed=allowed)
    assert len(chunks) == 30
    assert allowed[chunks].all()
    assert (scores > 0).all()


def test_selective_filter_scores_every_matching_chunk_exactly():
    # A thousand chunks mention the seed; the subgraph includes only some of them.
    graph = build_graph(
        [[[("anna", "other"), (f"e{n % 40}", "other")]] for n in range(1000)]
        + [[[(f"e{n % 40}", "other")]] for n in range(50)]
    )
    pagerank, _ = pagerank_of(graph)
    allowed = np.zeros(1050, dtype=np.bool_)
    allowed[[3, 500, 999, 1001, 1040]] = True
    seeds = {graph.index["anna"]: 1.0}
    chunks, scores = replace(pagerank, exact_limit=20).rank(seeds, n_iter=4, allowed=allowed)
    assert chunks.tolist() == [3, 500, 999, 1001, 1040]
    np.testing.assert_allclose(scores, all_scores(pagerank, seeds, n_iter=4)[chunks], rtol=1e-9)


@given(indexes(), st.data())
def test_filter_does_not_change_the_scores_of_matching_chunks(drawn, data):
    seeds = draw_seeds(data, mention_counts(*drawn), max_size=1)
    size = len(drawn[2])
    mask = st.lists(st.booleans(), min_size=size, max_size=size)
    allowed = np.asarray(data.draw(mask), dtype=np.bool_)
    pagerank, _ = pagerank_of(*drawn)
    for ranker in (pagerank, in_subgraph(pagerank)):
        unfiltered = all_scores(ranker, seeds, n_iter=3)
        filtered = all_scores(ranker, seeds, n_iter=3, allowed=allowed)
        np.testing.assert_allclose(filtered, unfiltered * allowed, rtol=1e-9)
