"""The context: grouped by entities, merged by offsets, without duplicates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2graphrag_integrations import RetrievalResult, RetrievedNode, Segment, Span, Trace
from e2graphrag_integrations.retrieval.result import GAP

TEXT = "One fish. Two fish. Red fish. Blue fish."


def chunk(position, start, end, *entities, document_id="d"):
    return RetrievedNode(
        node_id=f"{document_id}{position}",
        text=TEXT[start:end],
        level=0,
        document_id=document_id,
        start=start,
        end=end,
        spans=(Span(start, end),),
        score=1.0,
        found_by="entities",
        reasons=(),
        entities=entities,
        position=position,
    )


def cut(position, start, end, *spans, entities=(), text=TEXT):
    """Return a chunk that a token budget has shortened to these spans."""
    spans = tuple(Span(*span) for span in spans)
    return replace(
        chunk(position, start, end, *entities),
        text=GAP.join(text[slice(*span)] for span in spans),
        spans=spans,
    )


def summary(text, *entities):
    return RetrievedNode("s", text, 1, "d", 0, 40, (Span(0, 40),), 1.0, "global", (), entities)


def context(*nodes):
    return RetrievalResult("q", nodes, Trace("q", "paper", "auto")).context()


def test_passages_follow_the_names_of_their_entities():
    assert context(chunk(0, 0, 9, "anna", "bert"), chunk(3, 30, 40, "cleo")) == (
        "anna - bert: One fish.\n\ncleo: Blue fish."
    )


def test_a_passage_without_entities_has_no_header():
    assert context(chunk(0, 0, 9)) == "One fish."


def test_groups_are_ordered_by_their_best_node():
    nodes = chunk(3, 30, 40, "cleo"), chunk(0, 0, 9, "anna"), chunk(1, 10, 19, "cleo")
    assert context(*nodes) == "cleo: Blue fish.\nTwo fish.\n\nanna: One fish."


def test_a_duplicate_summary_appears_once():
    assert context(summary("All fish."), summary("All fish.")) == "All fish."


def test_a_duplicate_chunk_appears_once():
    assert context(chunk(0, 0, 9), chunk(0, 0, 9)) == "One fish."


def test_overlapping_chunks_merge_without_repeating_text():
    assert context(chunk(0, 0, 19), chunk(1, 10, 29)) == "One fish. Two fish. Red fish."


def test_adjacent_chunks_merge_in_document_order():
    nodes = chunk(2, 20, 29), chunk(1, 10, 19), chunk(0, 0, 9)
    assert context(*nodes) == "One fish. Two fish. Red fish."


def test_a_chunk_inside_another_adds_no_text():
    assert context(chunk(0, 0, 29), chunk(1, 10, 19)) == TEXT[:29]


def test_chunks_that_are_not_adjacent_stay_separate():
    assert context(chunk(0, 0, 9), chunk(2, 20, 29)) == "One fish.\nRed fish."


def test_chunks_of_different_documents_never_merge():
    nodes = chunk(0, 0, 9), chunk(1, 10, 19, document_id="e")
    assert context(*nodes) == "One fish.\nTwo fish."


def test_a_merged_passage_has_the_rank_of_its_best_chunk():
    nodes = chunk(1, 10, 19), summary("All fish."), chunk(0, 0, 9)
    assert context(*nodes) == "One fish. Two fish.\nAll fish."


def test_summaries_are_never_merged_with_the_chunks_they_cover():
    assert context(summary("All fish."), chunk(0, 0, 9)) == "All fish.\nOne fish."


def test_the_route_comes_from_the_trace():
    trace = Trace("q", "paper", "auto", route="local")
    assert RetrievalResult("q", (), trace).route == "local"


def test_pieces_of_a_chunk_are_its_spans_with_their_texts():
    node = cut(0, 0, 40, (0, 9), (20, 29), (30, 34))
    assert node.text == "One fish. … Red fish. … Blue"
    assert node.pieces == (((0, 9), "One fish."), ((20, 29), "Red fish."), ((30, 34), "Blue"))


def test_a_gap_in_the_document_itself_does_not_split_a_piece():
    text = "One … fish. Two … fish."
    node = cut(0, 0, 23, (0, 5), (12, 23), text=text)
    assert node.text == "One … … Two … fish."
    assert node.pieces == (((0, 5), "One …"), ((12, 23), "Two … fish."))


@pytest.mark.parametrize("node", [chunk(0, 0, 19), cut(0, 0, 40, (10, 19))])
def test_a_chunk_with_one_span_is_one_piece(node):
    assert node.pieces == ((node.spans[0], node.text),)


def test_a_summary_is_one_piece_over_its_document_range():
    assert summary("All fish.").pieces == (((0, 40), "All fish."),)


def test_separate_spans_of_a_chunk_are_separate_passages():
    node = cut(0, 0, 40, (0, 9), (20, 29))
    assert context(node) == "One fish.\nRed fish."
    assert GAP not in context(node)


def test_spans_of_a_chunk_share_one_header():
    nodes = (
        cut(0, 0, 40, (0, 9), (20, 29), entities=("anna",)),
        chunk(1, 0, 9, document_id="e"),
    )
    assert context(*nodes) == "anna: One fish.\nRed fish.\n\nOne fish."


def test_a_span_at_a_chunks_end_merges_with_the_start_of_the_next_chunk():
    nodes = cut(1, 20, 40, (20, 29)), cut(0, 0, 19, (0, 3), (10, 19))
    assert context(*nodes) == "Two fish. Red fish.\nOne"


def test_spans_inside_adjacent_chunks_stay_separate():
    assert context(cut(0, 0, 19, (0, 9)), cut(1, 20, 40, (20, 29))) == "One fish.\nRed fish."
    assert context(cut(0, 0, 19, (10, 19)), cut(1, 20, 40, (30, 40))) == "Two fish.\nBlue fish."


def test_overlapping_spans_of_overlapping_chunks_repeat_no_text():
    nodes = cut(0, 0, 29, (0, 3), (10, 24)), cut(1, 10, 40, (20, 29), (35, 40))
    assert context(*nodes) == "One\nTwo fish. Red fish.\nfish."


def test_a_node_with_different_spans_is_a_different_passage():
    nodes = cut(0, 0, 40, (0, 9)), cut(0, 0, 40, (20, 29)), cut(0, 0, 40, (0, 9))
    assert context(*nodes) == "One fish.\nRed fish."


def test_cited_passages_have_numbers_and_exact_sources():
    pages = (Segment(0, 9, {"page": 1}), Segment(10, 19, {"page": 2}), Segment(20, 29, {"page": 3}))
    paged = replace(
        cut(0, 0, 29, (0, 10), (10, 19), (20, 29)),
        title="Fish",
        segments=pages,
        also_in=("copy", "mail"),
    )
    far = chunk(3, 30, 40)
    other = chunk(0, 0, 9, document_id="e")
    nodes = (paged, summary("All fish."), other, far, paged)
    result = RetrievalResult("q", nodes, Trace("q", "paper", "auto"))
    assert result.cited_context() == (
        "[1] Fish (d), pages 1, 2, characters 0-19 (also in copy, mail)\nOne fish. Two fish.\n\n"
        "[2] Fish (d), page 3, characters 20-29 (also in copy, mail)\nRed fish.\n\n"
        "[3] summary (level 1) of d, characters 0-40\nAll fish.\n\n"
        "[4] e, characters 0-9\nOne fish.\n\n"
        "[5] d, characters 30-40\nBlue fish."
    )
    assert RetrievalResult("q", (), Trace("q", "paper", "auto")).cited_context() == ""


def test_a_header_between_two_chunks_repeats_no_text():
    header = cut(1, 10, 40, (0, 3), (20, 40))  # the header of its table is in the chunk before
    assert context(chunk(0, 0, 29), header) == "One fish. Two fish. Red fish. Blue fish."
