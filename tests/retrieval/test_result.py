"""The context text: grouped by entities, merged by offsets, nothing twice."""

from __future__ import annotations

from e2graphrag_integrations import RetrievalResult, RetrievedNode, Span, Trace

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


def test_neighbouring_chunks_merge_in_document_order_whatever_their_rank():
    nodes = chunk(2, 20, 29), chunk(1, 10, 19), chunk(0, 0, 9)
    assert context(*nodes) == "One fish. Two fish. Red fish."


def test_a_chunk_within_another_adds_nothing():
    assert context(chunk(0, 0, 29), chunk(1, 10, 19)) == TEXT[:29]


def test_chunks_that_are_no_neighbours_stay_apart():
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
