"""Result nodes: their texts, tree positions and metadata."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, PaperStrategy, SourceDocument
from fakes import STORY, CountingLLM, NameExtractor


@pytest.fixture(params=[PaperStrategy(), HybridStrategy()], ids=["paper", "hybrid"])
def rag(request, open_index, story) -> E2GraphRAG:
    rag = open_index(group_size=2, strategy=request.param)
    rag.add([story, SourceDocument("second", STORY.replace("Anna", "Zita"))])
    return rag


def test_a_node_has_its_source_title_and_metadata(open_index, story):
    rag = open_index()
    rag.add(story)
    node = rag.retrieve("Emil", k=1).nodes[0]
    assert node.document_id == "story"
    assert node.title == "A Map"
    assert node.metadata == {"kind": "tale"}
    assert story.text[node.start : node.end] == node.text
    assert node.spans == ((node.start, node.end),)
    assert node.entities == ("emil",)
    assert node.reasons


def test_metadata_has_only_values_that_all_segments_share(open_index):
    text = "Anna sat here. Bert sat there. Cleo ran off now."
    pages = [(0, 14, {"page": 1, "ink": "red"}), (15, len(text), {"page": 2, "ink": "red"})]
    rag = open_index(chunk_size=4, chunk_overlap=0, summarizer=CountingLLM())
    rag.add(SourceDocument("d", text, metadata={"lang": "en"}, segments=pages))
    by_place = {
        (n.level, n.position): n.metadata for n in rag.retrieve("x", k=9, mode="global").nodes
    }
    assert by_place[0, 0] == {"lang": "en", "ink": "red", "page": 1}
    assert by_place[0, 1] == {"lang": "en", "ink": "red", "page": 2}
    assert by_place[1, 0] == {"lang": "en", "ink": "red"}  # pages 1 and 2 do not agree


def test_differing_keys_are_the_keys_on_which_segments_disagree(open_index):
    half = STORY.index(" Later")
    segments = [(0, half, {"page": 1, "book": "b"}), (half, len(STORY), {"page": 2, "book": "b"})]
    rag = open_index(group_size=2, extractor=NameExtractor(), strategy=PaperStrategy())
    rag.add(SourceDocument("story", STORY, segments=segments))
    for node in rag.retrieve("x", k=100, mode="global").nodes:
        pages = {1} if node.end <= half else {2} if node.start >= half else {1, 2}
        assert node.metadata["book"] == "b"
        assert node.differing_keys == (("page",) if len(pages) > 1 else ())
        assert ("page" in node.metadata) == (len(pages) == 1)


def test_parent_and_child_ids_agree_with_each_other(rag):
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
