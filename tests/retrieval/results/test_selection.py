"""Expansion of summaries, and results filled up to k."""

from __future__ import annotations

import itertools

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    PaperStrategy,
    SourceDocument,
    TreeTraversalStrategy,
)
from fakes import STORY, CountingLLM, numbered

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

QUESTIONS = ("Anna and Bert?", "Emil?", "what happened there?", "Zoe and Yann?")


@pytest.fixture
def tall(open_index):
    """An index of 30 chunks with 6 summaries of chunks and 2 summaries of summaries."""
    rag = open_index(
        summarizer=CountingLLM(), strategy=PaperStrategy(), chunk_size=4, chunk_overlap=0
    )
    rag.add(numbered(30))
    return rag


@pytest.fixture(params=[PaperStrategy(), HybridStrategy()], ids=["paper", "hybrid"])
def rag(request, open_index, story) -> E2GraphRAG:
    rag = open_index(group_size=2, strategy=request.param)
    rag.add([story, SourceDocument("second", STORY.replace("Anna", "Zita").replace(".", " then."))])
    return rag


def levels(result):
    return [node.level for node in result.nodes]


def test_expand_none_keeps_summaries(tall):
    result = tall.retrieve("digest of it", k=38, mode="global")
    assert sorted(levels(result)) == [0] * 30 + [1] * 6 + [2] * 2


def test_expand_leaves_returns_each_chunk_once(tall):
    result = tall.retrieve("digest of it", k=38, mode="global", expand="leaves")
    assert levels(result) == [0] * 30
    assert len({node.node_id for node in result.nodes}) == 30


def test_expand_children_replaces_a_summary_with_the_level_below(tall):
    alone = tall.retrieve("digest of it", k=1, mode="global").nodes[0]
    assert alone.level > 0
    expanded = tall.retrieve("digest of it", k=5, mode="global", expand="children").nodes
    first = [n for n in expanded if n.reasons[0] == f"under summary {alone.node_id}"]
    assert [node.level for node in first] == [alone.level - 1] * len(first)
    assert expanded[: len(first)] == tuple(first)
    assert all(alone.start <= node.start and node.end <= alone.end for node in first)
    assert {node.score for node in first} == {alone.score}


def test_expand_children_of_two_levels_returns_no_duplicates(tall):
    result = tall.retrieve("digest of it", k=38, mode="global", expand="children")
    ids = [node.node_id for node in result.nodes]
    assert (
        len(ids) == len(set(ids)) == 36
    )  # 30 chunks and 6 summaries; the 2 at the top are replaced


PAGE = {"page": 2}


@pytest.mark.parametrize("expand", ["children", "leaves"])
@pytest.mark.parametrize("strategy", [HybridStrategy(), PaperStrategy(), TreeTraversalStrategy()])
def test_nodes_below_a_summary_pass_the_filter_too(open_index, expand, strategy):
    pages = [f"Anna saw Bert in port number {page}. " * 6 for page in (1, 2, 3)]
    ends = [0, *itertools.accumulate(map(len, pages))]
    spans = [(a, b, {"page": n}) for n, (a, b) in enumerate(itertools.pairwise(ends), 1)]
    rag = open_index(strategy=strategy, chunk_size=10, chunk_overlap=0, group_size=3)
    rag.add(SourceDocument("a", "".join(pages), segments=spans))
    for fill in (False, True):
        found = rag.retrieve("Anna in port?", k=30, where=PAGE, expand=expand, fill=fill).nodes
        assert found
        for node in found:
            assert PAGE in [segment.metadata for segment in node.segments]
    summaries = rag.retrieve("Anna in port?", where={"e2_kind": "summary"}, expand=expand).nodes
    assert {node.level for node in summaries} == {0} if expand == "leaves" else {0, 1}


def test_k_counts_nodes_after_expansion(twelve):
    found = twelve.retrieve("digest", k=3, mode="global", expand="leaves")
    assert len(found.nodes) == 3
    # The best summary alone has 5 leaves.
    assert found.trace.cuts["k"] >= 2


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mode", ["auto", "local", "global"])
@pytest.mark.parametrize("expand", ["none", "children", "leaves"])
def test_fill_returns_k_nodes_if_the_index_has_them(rag, question, mode, expand):
    nodes = rag.stats().chunks + (rag.stats().summaries if expand == "none" else 0)
    for k in (1, 3, nodes, nodes + 5):
        found = rag.retrieve(question, k=k, mode=mode, expand=expand, fill=True).nodes
        if expand == "children":  # the number depends on the summaries found
            assert len(found) <= k
        else:
            assert len(found) == min(k, nodes)
        assert len({node.node_id for node in found}) == len(found)
        scores = [node.score for node in found]
        assert scores == sorted(scores, reverse=True)


def test_filled_nodes_follow_the_ranked_ones_and_say_so(rag):
    plain = rag.retrieve("Anna and Bert?", k=11, mode="local").nodes
    filled = rag.retrieve("Anna and Bert?", k=11, mode="local", fill=True).nodes
    assert 0 < len(plain) < 11 == len(filled)
    assert [node.node_id for node in filled[: len(plain)]] == [node.node_id for node in plain]
    assert [node.score for node in filled[: len(plain)]] == [node.score for node in plain]
    for node in filled[len(plain) :]:
        assert node.found_by == "dense"
        assert node.reasons[0].startswith("filled up to k")


def test_fill_never_makes_the_number_of_cut_nodes_negative(rag):
    cuts = rag.retrieve("Anna and Bert?", k=8, fill=True).trace.cuts
    assert all(count >= 0 for count in cuts.values())


def test_fill_applies_the_filter(rag):
    found = rag.retrieve("Anna and Bert?", k=30, where={"kind": "tale"}, fill=True).nodes
    assert {node.document_id for node in found} == {"story"}


def test_fill_on_an_empty_index_returns_nothing(open_index):
    assert open_index().retrieve("Anna?", fill=True).nodes == ()


def test_fill_does_not_embed_the_question_if_k_nodes_are_found(open_index, story):
    class Recorder(HashingEmbedder):
        def __init__(self):
            super().__init__()
            self.questions = []

        def embed_query(self, text):
            self.questions.append(text)
            return super().embed_query(text)

    embedder = Recorder()
    rag = open_index(embedder=embedder, strategy=PaperStrategy(), chunk_size=8, chunk_overlap=0)
    rag.add(story)
    assert rag.retrieve("Anna?", k=1, mode="local", fill=True).nodes
    assert embedder.questions == []
    rag.retrieve("Anna?", k=50, mode="local", fill=True)
    assert embedder.questions == ["Anna?"]
