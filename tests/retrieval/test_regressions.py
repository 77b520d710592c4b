"""Regressions: each test reproduces a bug that a review found."""

from __future__ import annotations

import warnings

import pytest

from e2graphrag_integrations import (
    ApproximateTokenCounter,
    HashingEmbedder,
    HybridStrategy,
    Mention,
    PaperStrategy,
    RetrievedNode,
    SourceDocument,
    Span,
)
from e2graphrag_integrations.retrieval.results.token_budget import pack_windows
from fakes import STORY, CountingLLM, LineCounter, NameExtractor
from strategies import FakeEmbedder, WordCounter

HYBRID = HybridStrategy()


def docs(*pairs):
    return [SourceDocument(f"d{n:03}", text, title) for n, (title, text) in enumerate(pairs)]


def found(result):
    return [n.document_id for n in result.nodes]


def test_adjacent_windows_of_overlapping_chunks_read_in_document_order(open_index):
    text = " ".join(f"Point {i} says word{i} twice." for i in range(8))
    rag = open_index(chunk_size=21, chunk_overlap=7, strategy=HYBRID)
    rag.add(SourceDocument("a", text))
    question = "what does word5 and word4 say?"
    assert rag.retrieve(question, token_budget=200).context() == text


def test_a_packed_summary_does_not_cover_its_chunks():
    def node(id_, level, text, start, end):
        return RetrievedNode(
            id_, text, level, "d", start, end, (Span(start, end),), 1.0, "global", ()
        )

    windows = node("s", 1, "All fish.", 0, 50), node("c", 0, "Red fish.", 20, 29)
    nodes, _ = pack_windows(windows, 100, WordCounter(), {"c": "Red fish."})
    assert [n.node_id for n in nodes] == ["s", "c"]


def test_filled_chunks_are_packed_next_to_their_summary(open_index):
    rag = open_index(
        summarizer=CountingLLM(),
        chunk_size=6,
        chunk_overlap=0,
        strategy=HybridStrategy(neighbor_decay=0),
    )
    text = "The digest of it sat. Old nets tore. Wet gray stones."
    rag.add(SourceDocument("a", text))
    nodes = rag.retrieve("digest of it", fill=True, token_budget=10_000).nodes
    letters = {n for node in nodes if node.level == 0 for span in node.spans for n in range(*span)}
    assert any(n.level for n in nodes)
    assert {n for n in range(len(text)) if text[n] != " "} <= letters


def test_mode_local_fills_its_budget_with_complete_chunks(open_index):
    rag = open_index(embedder=HashingEmbedder(max_tokens=8), chunk_size=100, strategy=HYBRID)
    rag.add(SourceDocument("a", STORY))
    rag.add(SourceDocument("b", "Zed sat."))
    assert rag.retrieve("Emil?", mode="local", token_budget=10_000).nodes[0].text == STORY


@pytest.fixture
def far(open_index):
    """An index where dense search does not reach the three documents that mention a name."""
    near = {f"filler {n}": [0.9 - n / 1000, 0.3] for n in range(205)}
    named = {
        t: [-1, 0] for t in ("Zedekiah.", "Zedekiah sat by Rome.", "Zedekiah met Anna and Bert.")
    }
    rag = open_index(chunk_size=100, embedder=FakeEmbedder(vectors=near | named), strategy=HYBRID)
    rag.add(docs(*[(None, text) for text in near | named]))
    return rag


def test_windows_found_only_by_entities_keep_the_order_of_that_list(far):
    result = far.retrieve("Zedekia?", token_budget=10_000)
    order = [one.node_id for one in result.trace.lists["entities"]]
    assert [n.node_id for n in result.nodes if "Zed" in n.text] == order


def test_a_name_that_occurs_only_in_titles_is_found(open_index):
    rag = open_index(strategy=HYBRID)
    rag.add(docs(("Cleo", "nothing here at all."), ("Dora", "other things here.")))
    result = rag.retrieve("Cleo?", mode="local")
    assert found(result)[:1] == ["d000"]


def test_a_shared_title_does_not_change_the_best_document(open_index):
    rag = open_index(chunk_size=100, strategy=HYBRID)
    texts = "red fish swam home and slept", "red fish swam home", "cold day", "old net", "more"
    rag.add(docs(*[("Notes", text) for text in texts]))
    question = "red fish swam home"
    assert found(rag.retrieve(question, strategy=HybridStrategy(title_link_weight=0)))[0] == "d001"
    assert found(rag.retrieve(question))[0] == "d001"


def test_a_title_link_from_an_irrelevant_chunk_does_not_win(open_index):
    rag = open_index(chunk_size=100, strategy=HYBRID)
    rag.add(
        docs(
            (None, "Whales weigh more than a hundred tonnes."),
            (None, "Irene had a photograph that Holmes wanted."),
            (None, "Water freezes at zero degrees."),
            ("Irene", "She had a house in the east."),
        )
    )
    result = rag.retrieve("whales weigh a hundred tonnes")
    assert found(result)[0] == "d000"


def test_the_default_k_cuts_no_window_under_a_budget(open_index, story):
    rag = open_index(strategy=HYBRID)
    rag.add(story)
    assert rag.retrieve("Emil?", token_budget=3).trace.cuts["k"] == 0


def test_a_window_that_does_not_fit_is_counted_as_cut(open_index):
    rag = open_index(strategy=HYBRID)
    rag.add(SourceDocument("a", "anna sat."))
    result = rag.retrieve("who sat?", token_budget=1)
    assert result.nodes == ()
    assert result.trace.cuts["token_budget"] == 1


def test_a_budget_is_filled_if_tokens_are_long(open_index):
    lines = [f"Line {n} {'x' * 200}" for n in range(30)]
    rag = open_index(token_counter=LineCounter(), chunk_size=1, chunk_overlap=0, strategy=HYBRID)
    rag.add(SourceDocument("a", "\n".join(lines)))
    assert (
        len(
            rag.retrieve(
                "line", token_budget=60, strategy=HybridStrategy(include_summaries=False)
            ).nodes
        )
        == 20
    )


@pytest.mark.slow
def test_a_budget_is_filled_if_chunks_overlap_a_lot(open_index):
    rag = open_index(chunk_size=50, chunk_overlap=48, strategy=HYBRID)
    rag.add(SourceDocument("a", " ".join(f"word{n}" for n in range(400))))
    count = ApproximateTokenCounter().count
    assert count(rag.retrieve("word7", token_budget=200).context()) > 150


def test_mode_local_reports_the_local_route_without_names(open_index, story):
    rag = open_index(strategy=HYBRID)
    rag.add(story)
    assert rag.retrieve("Zoe?", mode="local", strategy=PaperStrategy()).route == "local"
    assert rag.retrieve("Zoe?", mode="local").route == "local"


def test_text_finds_the_nodes_if_entities_have_no_weight(open_index):
    rag = open_index(strategy=HybridStrategy(entity_weight=0, title_link_weight=0))
    rag.add(docs((None, "Anna sat."), *[(None, "x")] * 20))
    result = rag.retrieve("Anna?")
    assert {n.found_by for n in result.nodes} == {"relevance"}
    assert result.route == "local"


def test_a_very_long_mention_is_handled_without_warnings(open_index):
    class Words:
        fingerprint = "fake:words"

        def extract(self, texts):
            return [
                [[Mention(t, 0, len(t), "PERSON")]] if len(t) > 1000 else one
                for t, one in zip(texts, NameExtractor().extract(texts), strict=True)
            ]

    rag = open_index(extractor=Words(), strategy=HYBRID)
    rag.add(docs((None, "Xa met Bert."), (None, "Cleo sat.")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rag.retrieve("Xa " + "z" * 30_000, mode="local").nodes


def test_cosines_that_differ_only_by_rounding_are_equal(open_index):
    rag = open_index(
        strategy=HybridStrategy(
            bm25_weight=0, neighbor_decay=0, title_link_weight=0, entity_weight=0
        )
    )
    rag.add(docs((None, "map of. map of. map of."), (None, "map of."), (None, "map of. map of.")))
    result = rag.retrieve("of harbour")  # cosines 0.320256..., one of them 3e-8 lower
    assert len({one.figures["relevance"] for one in result.trace.lists["relevance"]}) == 1


def test_a_window_that_exactly_fills_the_budget_is_not_counted_as_cut():
    window = RetrievedNode("c", "Red fish.", 0, "d", 0, 9, (Span(0, 9),), 1.0, "global", ())
    nodes, packed = pack_windows([window], 4, WordCounter(), {"c": "Red fish."})
    assert ([n.text for n in nodes], packed) == (["Red fish."], 1)
