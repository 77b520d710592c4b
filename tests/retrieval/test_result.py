"""The context text: grouped by entities, merged by offsets, nothing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2graphrag_integrations import RetrievalResult, RetrievedNode, Span, Trace
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
        route="local",
        reasons=(),
        entities=entities,
        position=position,
    )


def parts(position, start, end, *spans, entities=(), text=TEXT):
    """Return a chunk of which a token budget left these spans."""
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


def test_passages_stand_under_their_entities():
    assert context(chunk(0, 0, 9, "anna", "bert"), chunk(3, 30, 40, "cleo")) == (
        "anna - bert: One fish.\n\ncleo: Blue fish."
    )


def test_a_passage_without_entity_has_no_header():
    assert context(chunk(0, 0, 9)) == "One fish."


def test_groups_keep_the_order_of_their_best_node():
    nodes = chunk(3, 30, 40, "cleo"), chunk(0, 0, 9, "anna"), chunk(1, 10, 19, "cleo")
    assert context(*nodes) == "cleo: Blue fish.\nTwo fish.\n\nanna: One fish."


def test_a_summary_given_twice_appears_once():
    assert context(summary("All fish."), summary("All fish.")) == "All fish."


def test_a_node_given_twice_appears_once():
    assert context(chunk(0, 0, 9), chunk(0, 0, 9)) == "One fish."


def test_overlapping_chunks_merge_without_repeating_text():
    assert context(chunk(0, 0, 19), chunk(1, 10, 29)) == "One fish. Two fish. Red fish."


def test_neighboring_chunks_merge_in_document_order_whatever_their_rank():
    nodes = chunk(2, 20, 29), chunk(1, 10, 19), chunk(0, 0, 9)
    assert context(*nodes) == "One fish. Two fish. Red fish."


def test_a_chunk_within_another_adds_nothing():
    assert context(chunk(0, 0, 29), chunk(1, 10, 19)) == TEXT[:29]


def test_chunks_that_are_no_neighbors_stay_apart():
    assert context(chunk(0, 0, 9), chunk(2, 20, 29)) == "One fish.\nRed fish."


def test_chunks_of_different_documents_never_merge():
    nodes = chunk(0, 0, 9), chunk(1, 10, 19, document_id="e")
    assert context(*nodes) == "One fish.\nTwo fish."


def test_a_merged_run_stands_where_its_best_chunk_stood():
    nodes = chunk(1, 10, 19), summary("All fish."), chunk(0, 0, 9)
    assert context(*nodes) == "One fish. Two fish.\nAll fish."


def test_summaries_are_never_merged_with_the_chunks_they_cover():
    assert context(summary("All fish."), chunk(0, 0, 9)) == "All fish.\nOne fish."


def test_the_route_is_the_traces():
    trace = Trace("q", "paper", "auto", route="local")
    assert RetrievalResult("q", (), trace).route == "local"


def test_a_chunks_pieces_are_its_spans_with_their_texts():
    node = parts(0, 0, 40, (0, 9), (20, 29), (30, 34))
    assert node.text == "One fish. … Red fish. … Blue"
    assert node.pieces == (((0, 9), "One fish."), ((20, 29), "Red fish."), ((30, 34), "Blue"))


def test_a_gap_that_is_the_documents_own_parts_no_piece():
    text = "One … fish. Two … fish."
    node = parts(0, 0, 23, (0, 5), (12, 23), text=text)
    assert node.text == "One … … Two … fish."
    assert node.pieces == (((0, 5), "One …"), ((12, 23), "Two … fish."))


@pytest.mark.parametrize("node", [chunk(0, 0, 19), parts(0, 0, 40, (10, 19))])
def test_a_whole_chunk_and_one_part_are_one_piece(node):
    assert node.pieces == ((node.spans[0], node.text),)


def test_a_summary_is_one_piece_over_all_that_it_covers():
    assert summary("All fish.").pieces == (((0, 40), "All fish."),)


def test_parts_of_a_chunk_are_passages_of_their_own():
    node = parts(0, 0, 40, (0, 9), (20, 29))
    assert context(node) == "One fish.\nRed fish."
    assert GAP not in context(node)


def test_parts_of_a_chunk_stand_together_under_its_entities():
    nodes = parts(0, 0, 40, (0, 9), (20, 29), entities=("anna",)), chunk(1, 0, 9, document_id="e")
    assert context(*nodes) == "anna: One fish.\nRed fish.\n\nOne fish."


def test_a_part_at_a_chunks_end_merges_with_one_at_the_beginning_of_the_next():
    nodes = parts(1, 20, 40, (20, 29)), parts(0, 0, 19, (0, 3), (10, 19))
    assert context(*nodes) == "Two fish. Red fish.\nOne"


def test_parts_within_neighboring_chunks_stay_apart():
    assert context(parts(0, 0, 19, (0, 9)), parts(1, 20, 40, (20, 29))) == "One fish.\nRed fish."
    assert context(parts(0, 0, 19, (10, 19)), parts(1, 20, 40, (30, 40))) == "Two fish.\nBlue fish."


def test_overlapping_parts_of_overlapping_chunks_repeat_no_text():
    nodes = parts(0, 0, 29, (0, 3), (10, 24)), parts(1, 10, 40, (20, 29), (35, 40))
    assert context(*nodes) == "One\nTwo fish. Red fish.\nfish."


def test_one_node_with_other_spans_is_another_passage():
    nodes = parts(0, 0, 40, (0, 9)), parts(0, 0, 40, (20, 29)), parts(0, 0, 40, (0, 9))
    assert context(*nodes) == "One fish.\nRed fish."
