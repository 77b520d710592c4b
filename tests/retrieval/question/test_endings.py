"""Questions about how a text ends: its last part comes first."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, PaperStrategy, SourceDocument
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.question.endings import ENDING

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
