"""Result nodes: their texts, tree positions and metadata."""

from __future__ import annotations

from itertools import pairwise

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    Models,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from fakes import STORY, CountingLLM, NameExtractor

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes


@pytest.fixture(params=[PaperStrategy(), HybridStrategy()], ids=["paper", "hybrid"])
def rag(request, open_index, story) -> E2GraphRAG:
    rag = open_index(group_size=2, strategy=request.param)
    rag.add([story, SourceDocument("second", STORY.replace("Anna", "Zita").replace(".", " then."))])
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
    assert by_place[1, 0] == {"lang": "en", "ink": "red", "page": 1, "pages": [1, 2]}


def test_differing_keys_are_the_keys_on_which_segments_disagree(open_index):
    half = STORY.index(" Later")
    segments = [(0, half, {"part": 1, "book": "b"}), (half, len(STORY), {"part": 2, "book": "b"})]
    rag = open_index(group_size=2, extractor=NameExtractor(), strategy=PaperStrategy())
    rag.add(SourceDocument("story", STORY, segments=segments))
    for node in rag.retrieve("x", k=100, mode="global").nodes:
        parts = {1} if node.end <= half else {2} if node.start >= half else {1, 2}
        assert node.metadata["book"] == "b"
        assert node.differing_keys == (("part",) if len(parts) > 1 else ())
        assert ("part" in node.metadata) == (len(parts) == 1)


def test_segments_say_which_part_of_a_node_lies_on_which_page(open_index):
    texts = ["Anna met Bert.", "Bert met Cleo. Dora came.", " ", "Emil left."]
    text = "Title. " + "\n\n".join(texts) + " The end."
    starts = [text.index(page) if page.strip() else text.index("Emil") - 3 for page in texts]
    pages = [
        (start, start + len(page), {"page": number})
        for number, (start, page) in enumerate(zip(starts, texts, strict=True), 1)
    ]
    rag = open_index(chunk_size=8, chunk_overlap=2, group_size=2, summarizer=CountingLLM())
    rag.add([SourceDocument("a", "Anna met Bert."), SourceDocument("d", text, segments=pages)])
    nodes = rag.retrieve("Who met Bert?", k=99, mode="global").nodes
    assert any(node.metadata.get("pages") for node in nodes)
    for node in nodes:
        spans = [(start, end) for start, end, _ in node.segments]
        assert spans[0][0] == node.start
        assert spans[-1][1] == node.end
        assert all(end == start for (_, end), (start, _) in pairwise(spans))
        if node.document_id == "a":
            assert node.segments == ((node.start, node.end, {}),)
            continue
        for start, end, metadata in node.segments:
            expected = [own for s, e, own in pages if s < end and start < e and own["page"] != 3]
            assert [metadata] == (expected or [{}])
    rag.close()


def test_segments_survive_reopening_and_updates(tmp_path):
    def document(name, page):
        text = f"{name} met Bert. Bert met Cleo."
        return SourceDocument(name, text, segments=[(0, 14, {"page": page})])

    def segments(rag):
        nodes = rag.retrieve("Who?", k=99, mode="global").nodes
        return {node.document_id: node.segments for node in nodes}

    path = tmp_path / "i.e2g"
    with E2GraphRAG.open(
        path, embedder=HashingEmbedder(), models=Models(extractor=NameExtractor())
    ) as rag:
        rag.add([document("Anna", 1), document("Dora", 2), document("Zita", 3)])
        before = segments(rag)
        rag.update([document("Dora", 4), document("Zita", 3)])
        rag.delete("Anna")
        after = segments(rag)
        assert rag.verify().ok
    assert before["Dora"] == ((0, 14, {"page": 2}), (14, 29, {}))
    assert after == {"Dora": ((0, 14, {"page": 4}), (14, 29, {})), "Zita": before["Zita"]}
    with E2GraphRAG.open(
        path, embedder=HashingEmbedder(), models=Models(extractor=NameExtractor())
    ) as rag:
        assert segments(rag) == after


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


def test_a_node_knows_its_neighbors_on_its_level(rag):
    nodes = {node.node_id: node for node in rag.retrieve("x", k=99, mode="global").nodes}
    levels = {}
    for node in nodes.values():
        levels.setdefault((node.document_id, node.level), []).append(node)
    assert len(levels) > 4
    for level in levels.values():
        level.sort(key=lambda node: node.position)
        ids = [None, *(node.node_id for node in level), None]
        assert [node.previous_id for node in level] == ids[:-2]
        assert [node.next_id for node in level] == ids[2:]


def test_a_scope_hides_the_neighbors_outside_of_it(open_index):
    text = "Anna met Bert. Bert met Cleo. Cleo met Dora. Dora met Emil."
    pages = [(15 * n, 15 * n + 14, {"page": n, "kind": "b" if n == 1 else "a"}) for n in range(4)]
    rag = open_index(chunk_size=4, chunk_overlap=0)
    rag.add(SourceDocument("d", text, segments=pages))
    chunks = rag.scoped({"kind": "a"}).retrieve("x", k=9, mode="global").nodes
    links = {n.position: (n.previous_id, n.next_id) for n in chunks if not n.level}
    ids = {n.position: n.node_id for n in chunks if not n.level}
    assert links == {0: (None, None), 2: (None, ids[3]), 3: (ids[2], None)}


def test_segment_start_is_the_start_of_the_page(open_index):
    """The blank page at the start has no chunk, and no offset refers to it."""
    text = " \n\nAnna met Bert. Bert met Cleo.\n\nCleo met Dora. Dora met Emil."
    first, second = text.index("Anna"), text.index("Cleo met Dora")
    pages = [
        (0, 1, {"page": 0}),
        (first, second - 2, {"page": 1}),
        (second, len(text), {"page": 2}),
    ]
    rag = open_index(chunk_size=4, chunk_overlap=0)
    rag.add(SourceDocument("d", text, segments=pages))
    rag.add(SourceDocument("plain", f"  {STORY}", metadata={"page": 9}))
    nodes = rag.retrieve("x", k=99, mode="global").nodes
    starts = {(n.metadata["page"], n.segment_start) for n in nodes}
    assert starts == {(1, first), (2, second), (9, 0)}
