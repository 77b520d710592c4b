"""Filling up to k, and what a node tells of its place in the tree."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    PaperStrategy,
    SourceDocument,
)
from fakes import STORY, NameExtractor

QUESTIONS = ("Anna and Bert?", "Emil?", "what happened there?", "Zoe and Yann?")


@pytest.fixture(params=[PaperStrategy(), HybridStrategy()], ids=["paper", "hybrid"])
def rag(request, open_index, story) -> E2GraphRAG:
    rag = open_index(group_size=2, strategy=request.param)
    rag.add([story, SourceDocument("second", STORY.replace("Anna", "Zita"))])
    return rag


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mode", ["auto", "local", "global"])
@pytest.mark.parametrize("expand", ["none", "children", "leaves"])
def test_filled_up_there_are_exactly_k_nodes_if_there_are_as_many(rag, question, mode, expand):
    nodes = rag.stats().chunks + (rag.stats().summaries if expand == "none" else 0)
    for k in (1, 3, nodes, nodes + 5):
        found = rag.retrieve(question, k=k, mode=mode, expand=expand, fill=True).nodes
        if expand == "children":  # which of them stay depends on which summaries were found
            assert len(found) <= k
        else:
            assert len(found) == min(k, nodes)
        assert len({node.node_id for node in found}) == len(found)
        scores = [node.score for node in found]
        assert scores == sorted(scores, reverse=True)


def test_what_is_found_comes_first_and_what_is_filled_up_says_so(rag):
    plain = rag.retrieve("Anna and Bert?", k=11, mode="local").nodes
    filled = rag.retrieve("Anna and Bert?", k=11, mode="local", fill=True).nodes
    assert 0 < len(plain) < 11 == len(filled)
    assert filled[: len(plain)] == plain
    for node in filled[len(plain) :]:
        assert node.route == "global"
        assert node.reasons[0].startswith("filled up to k")


def test_nothing_is_said_to_be_cut_that_was_filled_up(rag):
    cuts = rag.retrieve("Anna and Bert?", k=8, fill=True).trace.cuts
    assert all(count >= 0 for count in cuts.values())


def test_filling_obeys_the_filter(rag):
    found = rag.retrieve("Anna and Bert?", k=30, where={"kind": "tale"}, fill=True).nodes
    assert {node.document_id for node in found} == {"story"}


def test_an_empty_index_has_nothing_to_fill_up_with(open_index):
    assert open_index().retrieve("Anna?", fill=True).nodes == ()


def test_a_function_of_the_metadata_filters_like_a_mapping(rag):
    by_mapping = rag.retrieve("Anna?", k=20, where={"kind": "tale"}).nodes
    by_function = rag.retrieve("Anna?", k=20, where=lambda m: m.get("kind") == "tale").nodes
    assert by_mapping == by_function != ()


def test_nodes_name_the_summary_above_and_the_nodes_below(rag):
    everything = rag.retrieve("x", k=100, mode="global", strategy=PaperStrategy()).nodes
    found = {node.node_id: node for node in everything}
    summaries = [node for node in found.values() if node.level]
    assert summaries
    for node in found.values():
        if node.parent_id is not None:
            assert node.node_id in found[node.parent_id].child_ids
    for node in summaries:
        children = [found[child] for child in node.child_ids]
        assert [child.level for child in children] == [node.level - 1] * len(children)
        assert children[0].start == node.start
        assert children[-1].end == node.end


def test_keys_on_which_the_leaves_differ_are_named(open_index):
    half = STORY.index(" Later")
    segments = [(0, half, {"page": 1, "book": "b"}), (half, len(STORY), {"page": 2, "book": "b"})]
    rag = open_index(group_size=2, extractor=NameExtractor(), strategy=PaperStrategy())
    rag.add(SourceDocument("story", STORY, segments=segments))
    for node in rag.retrieve("x", k=100, mode="global").nodes:
        pages = {1} if node.end <= half else {2} if node.start >= half else {1, 2}
        assert node.metadata["book"] == "b"
        assert node.differing == (("page",) if len(pages) > 1 else ())
        assert ("page" in node.metadata) == (len(pages) == 1)
