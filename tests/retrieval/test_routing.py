"""The route of a question: something particular, or a text as a whole."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.routing import ENDING

PARTS = [
    "Weena gave flowers to the Time Traveller near the river.",
    "The Morlocks live in wells and fear the light of a match.",
    "The Time Traveller lost his machine under the Sphinx.",
    "Prince Natásha danced at the ball in Otrádnoe.",
    "Rain fell on the hills, and people went home.",
    "People watched the river and the hills for a whole day of the year.",
    "Other people slept, and no people came.",
]


@pytest.fixture(scope="module")
def book():
    """Return an index of one text of several chunks, with a title."""
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        settings=IndexSettings(chunk_size=20, chunk_overlap=0),
    ) as rag:
        rag.add(SourceDocument("book", "\n\n".join(PARTS), title="The Time Machine"))
        yield rag


@pytest.mark.parametrize(
    "question",
    [
        "Who is Weena?",
        "What are the Morlocks afraid of?",
        "What did Weena give to the Time Traveller?",
        "How does the author portray Weena?",  # a name leads elsewhere than to the whole
        "Whom did Natasha meet?",  # without the mark
        "What about the match?",  # a noun of one chunk
        "List the main findings about the Morlocks",
    ],
)
def test_a_question_about_something_particular_is_local(book, question):
    result = book.retrieve(question)
    assert result.route == "local", result.trace.reason


@pytest.mark.parametrize(
    "question",
    [
        "What are the main themes?",
        "What are the themes of The Time Machine?",
        "What is The Time Machine about?",
        "Summarize the whole book.",
        "What topics are covered?",
        "tl;dr",
        "List the main findings",
        "How did everything turn out?",
        "列出主要发现",
        "How does the novel portray society?",
        "Where is Zanzibar?",  # unknown
        "What do people do?",  # a frequent noun
    ],
)
def test_a_question_about_the_whole_or_about_nothing_known_is_global(book, question):
    result = book.retrieve(question)
    assert result.route == "global", result.trace.reason


def test_the_reason_names_what_the_index_knows(book):
    reason = book.retrieve("What did Weena give to the Time Traveller?").trace.reason
    assert reason == (
        f"the index knows 'weena', 'time traveller'; 'weena' leads to 1 of {len(PARTS)} chunks"
    )


def test_the_route_does_not_depend_on_the_ranking(book):
    for question in ("Who is Weena?", "What are the main themes?"):
        routes = {book.retrieve(question, k=k).route for k in (1, 3)}
        routes |= {book.retrieve(question, token_budget=50).route}
        assert len(routes) == 1


def test_the_title_of_a_passage_is_something_particular():
    with E2GraphRAG.open(":memory:", embedder=HashingEmbedder()) as rag:
        rag.add(SourceDocument("film", "A film by Anna Holm.", title="Harbor Lights"))
        assert rag.retrieve("What are the themes of Harbor Lights?").route == "local"
        assert rag.retrieve("Who made Harbor Lights?").route == "local"


STORY = [
    "Anna found a letter in the wall of the old mill and showed it to Bo.",
    "The letter told of a ship that had carried silver and had never arrived.",
    "Everything in the village turned on the mill, and everyone knew how it had burned.",
    "Bo hired a boat, and they looked for the ship along the coast all summer.",
    "A storm broke the mast, and the end of the rope caught on a rock below.",
    "There lay the chest. They gave the silver to the harbor, and sailed home as friends.",
]


@pytest.fixture(scope="module")
def story():
    """Return an index of a story of several chunks, and of a short note."""
    options = {"embedder": HashingEmbedder(), "chunk_size": 22, "chunk_overlap": 0}
    with E2GraphRAG.open(":memory:", **grouped(options)) as rag:
        rag.add(SourceDocument("story", "\n\n".join(STORY), title="The Silver Chest"))
        rag.add(SourceDocument("note", "The meeting about the ending of the lease is on Monday."))
        yield rag


@pytest.mark.parametrize(
    "question",
    [
        "How did everything turn out?",
        "How does it end?",
        "What happens in the end?",
        "How does The Silver Chest end?",
        "How did everything turn out, and what became of him?",
        "最后怎么样了？",
    ],
)
@pytest.mark.parametrize("options", [{"k": 1}, {"token_budget": 30}])
def test_the_last_part_of_the_text_comes_first(story, question, options):
    result = story.retrieve(question, **options)
    assert "sailed home as friends" in result.nodes[0].text
    assert result.nodes[0].found_by == ENDING
    assert result.route == "global"
    assert result.trace.ending
    assert "ending: the last part of the text comes first" in result.trace.explain()


@pytest.mark.parametrize("question", ["What caught the end of the rope?", "Where was the letter?"])
def test_other_questions_are_ranked_as_before(story, question):
    result = story.retrieve(question, k=3)
    assert all(node.found_by != ENDING for node in result.nodes)
    assert not result.trace.ending


def test_no_chunk_is_returned_twice(story):
    ids = [node.node_id for node in story.retrieve("How does it end?", k=20).nodes]
    assert len(ids) == len(set(ids))


def test_a_filter_holds_for_the_last_part(story):
    nodes = story.retrieve("How does it end?", where={"document_id": "note"}).nodes
    assert {node.document_id for node in nodes} == {"note"}


def test_the_strategy_of_the_paper_does_not_prefer_the_end(story):
    assert not story.retrieve("How does it end?", strategy=PaperStrategy()).trace.ending


def test_a_question_that_repeats_a_title_is_answered(book):
    title = book.document(book.document_ids[0]).title
    assert title
    assert book.retrieve(f"{title} " * 1_200).nodes


def test_a_question_for_a_clause_is_no_overview(open_index):
    clauses = [f"§ {n} The member pays {n * 10} euros for part {n}." for n in range(1, 40)]
    rag = open_index(chunk_size=60, chunk_overlap=0)
    rag.add(SourceDocument("rules", "\n\n".join(clauses), "Rules of the Club"))
    assert not rag.retrieve("What does § 7 say?", token_budget=100).trace.overview
    assert rag.retrieve("Summarize the rules.", token_budget=100).trace.overview
