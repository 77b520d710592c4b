"""Result nodes: their texts, tree positions and metadata."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    Models,
    PaperStrategy,
    RelevanceCalibration,
    SourceDocument,
)
from e2graphrag_integrations.embedders.calibration import clipped_cosine
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Trace
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


def test_changing_the_metadata_of_a_result_does_not_change_the_index(open_index):
    rag = open_index()
    rag.add(SourceDocument("d", "Anna sat here.", metadata={"tags": ["sea"], "by": {"x": [1]}}))
    node = rag.retrieve("Anna").nodes[0]
    node.metadata["tags"].append("map")
    node.segments[0].metadata["by"]["x"].append(2)
    rag.retrieve("Anna", where=lambda metadata: metadata["tags"].pop())
    assert rag.retrieve("Anna").nodes[0].metadata == {"tags": ["sea"], "by": {"x": [1]}}
    assert rag.retrieve("Anna", where={"tags": "sea"}).nodes


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


QUESTION = "What did Anna give Bert on the road to Oslo?"


class Windows(HashingEmbedder):
    """Splits chunks into several windows."""

    def __init__(self):
        super().__init__(64, max_tokens=16)


class Negative(HashingEmbedder):
    """Points away from every question."""

    def embed_query(self, text):
        return -super().embed_query(text)


class EveryNode:
    """Returns all nodes in an arbitrary order, as a user's strategy may."""

    name = "every"

    def rank(self, query, snapshot):
        rows = range(len(snapshot.nodes.ids))
        candidates = [Candidate(row, 1 / (row + 1), "global", ()) for row in rows]
        return candidates, Trace(query.question, self.name, query.mode)


class Calibrated(EveryNode):
    def __init__(self, relevance_calibration=None):
        self.relevance_calibration = relevance_calibration


@pytest.fixture
def mills(open_index):
    mills = open_index(embedder=Windows(), chunk_size=30, chunk_overlap=4)
    mills.add(SourceDocument("story", STORY * 3))
    mills.add(SourceDocument("other", "Emil sold his mill to Fay. Hal saw the harbour burn. " * 5))
    return mills


def cosines(mills):
    """Return the cosine of every node's best window."""
    snapshot = mills._session.snapshot()
    vector = mills._index.components.embedder.embed_query(QUESTION)
    best = {}
    for node, cosine in zip(
        snapshot.dense.window_nodes, snapshot.dense.vectors @ vector, strict=True
    ):
        id_ = snapshot.nodes.ids[int(node)]
        best[id_] = max(best.get(id_, 0.0), float(cosine))
    assert len(snapshot.dense.window_nodes) > len(best) > 10
    return best


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "global", "k": 30},
        {"mode": "global", "expand": "leaves"},
        {"mode": "global", "expand": "children"},
        {"mode": "local", "fill": True, "k": 30},
        {"token_budget": 60},
        {"token_budget": 5000},
        {"strategy": PaperStrategy(), "mode": "global"},
        {"strategy": PaperStrategy(), "mode": "local", "fill": True, "k": 30},
        {"strategy": HybridStrategy(title_link_weight=5, entity_weight=5)},
        {"strategy": EveryNode(), "k": 40},
        {"strategy": EveryNode(), "token_budget": 100},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_relevance_is_the_cosine_of_the_best_window(mills, options):
    nodes = mills.retrieve(QUESTION, **options).nodes
    expected = cosines(mills)
    assert nodes
    for node in nodes:
        assert type(node.relevance) is float
        assert node.relevance == pytest.approx(expected[node.node_id], abs=1e-6)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (HybridStrategy, {}),
        (HybridStrategy, {"token_budget": 60}),
        (HybridStrategy, {"mode": "local", "fill": True, "k": 30}),
        (HybridStrategy, {"mode": "global", "expand": "leaves"}),
        (PaperStrategy, {"mode": "global"}),
        (PaperStrategy, {"mode": "local", "fill": True, "k": 30}),
        (Calibrated, {"k": 40}),
    ],
)
def test_a_strategy_maps_cosines_to_relevance_without_changing_the_order(mills, strategy, options):
    calibration = RelevanceCalibration(slope=8.0, intercept=-3.0)
    calibrated = strategy(relevance_calibration=calibration)
    nodes = mills.retrieve(QUESTION, strategy=calibrated, **options).nodes
    plain = mills.retrieve(QUESTION, strategy=strategy(), **options).nodes
    assert [(node.node_id, node.score) for node in nodes] == [
        (node.node_id, node.score) for node in plain
    ]
    expected = cosines(mills)
    assert [node.relevance for node in nodes] == pytest.approx(
        [calibration(expected[node.node_id]) for node in nodes], abs=1e-6
    )


def test_a_calibration_is_only_for_cosines(mills):
    strategy = HybridStrategy(relevance_calibration=lambda _: 0.123)
    local = mills.retrieve(QUESTION, mode="local", strategy=strategy).nodes
    without = replace(strategy, dense_weight=0)
    by_words = mills.retrieve(QUESTION, mode="global", strategy=without).nodes
    assert 0.123 not in {node.relevance for node in (*local, *by_words)}


def test_negative_cosines_give_relevance_0(open_index, story):
    mills = open_index(embedder=Negative())
    mills.add(story)
    nodes = mills.retrieve(QUESTION, mode="global", strategy=PaperStrategy()).nodes
    assert nodes[-1].score < 0
    assert {node.relevance for node in nodes} == {0.0}


def test_a_strategy_may_give_its_own_relevance_which_is_clipped(mills):
    class Own(EveryNode):
        def rank(self, query, snapshot):
            values = (0.25, 7.0, -1.0)
            candidates = [
                Candidate(row, 1.0, "global", (), relevance=value)
                for row, value in enumerate(values)
            ]
            return candidates, Trace(query.question, self.name, query.mode)

    nodes = mills.retrieve(QUESTION, strategy=Own()).nodes
    assert [node.relevance for node in nodes] == [0.25, 1.0, 0.0]


def test_the_trace_tells_a_calibrated_relevance_from_a_cosine(mills):
    calibrated = Calibrated(RelevanceCalibration(slope=8.0, intercept=-4.0))
    assert mills.retrieve(QUESTION, strategy=calibrated).trace.relevance_kind == "calibrated"
    assert mills.retrieve(QUESTION, strategy=Calibrated()).trace.relevance_kind == "cosine"


@pytest.mark.parametrize("strategy", [PaperStrategy(), HybridStrategy()], ids=["paper", "hybrid"])
def test_local_retrieval_embeds_nothing_and_counts_the_names(mills, strategy):
    result = mills.retrieve(
        "did Anna and Bert ever see Atlantis?", mode="local", strategy=strategy, k=30
    )
    assert "embed" not in result.trace.timings
    assert result.nodes[0].relevance == 2 / 3  # Atlantis is not in the index
    assert result.trace.relevance_kind == "names"
    assert "names found 0.67" in result._repr_html_()
    for node in result.nodes:
        assert node.relevance == pytest.approx(len(node.entities) / 3)


@pytest.mark.parametrize("budget", [None, 80])
def test_without_dense_search_relevance_is_a_fraction_of_the_bm25_score(mills, budget):
    strategy = HybridStrategy(dense_weight=0, neighbor_decay=0, entity_weight=0)
    exact = "Hal saw the harbour burn"
    result = mills.retrieve(exact, strategy=strategy, token_budget=budget)
    assert "embed" not in result.trace.timings
    best = result.nodes[0].relevance
    assert 0.5 < best <= 1
    assert result.trace.relevance_kind == "words"
    vague = f"{exact} during zyzzyva xylophone quagmire parliament festivities"
    assert (
        0 < mills.retrieve(vague, strategy=strategy, token_budget=budget).nodes[0].relevance < best
    )


def test_relevance_does_not_change_the_order(mills):
    nodes = mills.retrieve(QUESTION, strategy=HybridStrategy(entity_weight=100)).nodes
    scores = [node.score for node in nodes]
    relevance = [node.relevance for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert relevance != sorted(relevance, reverse=True)
    assert np.isfinite(relevance).all()


SCALE = RelevanceCalibration(slope=8.0, intercept=-3.0)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        (HybridStrategy, {"k": 6}),
        (HybridStrategy, {"k": 6, "fill": True}),
        (HybridStrategy, {"token_budget": 400}),
        (HybridStrategy, {"mode": "local", "k": 30}),
        (HybridStrategy, {"mode": "local", "fill": True, "k": 30}),
        (HybridStrategy, {"mode": "global", "expand": "leaves", "k": 5}),
        (HybridStrategy, {"k": 6, "boost": {"documents": {"other": 3.0}}}),
        (PaperStrategy, {"mode": "local", "k": 30}),
        (PaperStrategy, {"token_budget": 400}),
        (Calibrated, {"k": 6}),
    ],
)
def test_nodes_below_min_relevance_are_left_out_before_the_cut(mills, strategy, options):
    strategy, expected = strategy(relevance_calibration=SCALE), cosines(mills)
    options = {**options, "strategy": strategy}
    plain = mills.retrieve(QUESTION, **options).nodes
    values = sorted({SCALE(expected[node.node_id]) for node in plain})
    assert len(values) > 1
    floor = values[-(len(values) // 2)] - 1e-6  # leaves out the less relevant part of this result
    relevant = {id_ for id_, cosine in expected.items() if SCALE(cosine) >= floor}
    complete = mills.retrieve(QUESTION, **options | {"k": 1_000})
    result = mills.retrieve(QUESTION, **options, min_relevance=floor)
    found = [node.node_id for node in result.nodes]
    assert found
    assert set(found) <= relevant
    # Whatever is relevant and could be found takes the place of what was left out.
    possible = {node.node_id for node in complete.nodes} & relevant
    assert len(found) >= min(options.get("k", 1), len(possible))
    assert result.trace.relevance_kind == "calibrated"
    assert result.trace.cuts["min_relevance"] > 0
    assert "cut by min_relevance: " in result.trace.explain()


def test_a_question_without_a_relevant_node_gets_an_empty_result_that_says_why(mills):
    strategy = HybridStrategy(relevance_calibration=SCALE)
    for options in ({}, {"fill": True}, {"token_budget": 100}):
        result = mills.retrieve(QUESTION, strategy=strategy, min_relevance=1, **options)
        assert result.nodes == ()
        assert result.trace.reason.startswith("no node has a relevance of at least 1; ")
    assert len(mills.retrieve(QUESTION, strategy=strategy, min_relevance=0, k=500).nodes) > 10


def test_min_relevance_needs_a_known_scale(mills, open_index):
    with pytest.raises(InvalidInputError, match="needs a calibrated relevance"):
        mills.retrieve(QUESTION, min_relevance=0.2)
    # The user may ask for plain cosines.
    cosine = HybridStrategy(relevance_calibration=clipped_cosine)
    nodes = mills.retrieve(QUESTION, min_relevance=0.2, strategy=cosine).nodes
    assert nodes
    assert min(node.relevance for node in nodes) >= 0.2
    assert open_index().retrieve(QUESTION, min_relevance=0.2).nodes == ()
    for wrong in (-0.1, 1.1, float("nan"), "0.5", True):
        with pytest.raises(InvalidInputError, match=r"min_relevance=.* must be a number from 0 to"):
            mills.retrieve(QUESTION, min_relevance=wrong)


async def test_a_scope_and_async_take_min_relevance(mills):
    strategy = HybridStrategy(relevance_calibration=SCALE)
    scope = mills.scoped({"document_id": "story"})
    complete = await scope.aretrieve(QUESTION, strategy=strategy, k=100)
    floor = sorted(node.relevance for node in complete.nodes)[-3]
    result = await scope.aretrieve(QUESTION, strategy=strategy, k=100, min_relevance=floor)
    assert {node.node_id for node in result.nodes} == {
        node.node_id for node in complete.nodes if node.relevance >= floor
    }
