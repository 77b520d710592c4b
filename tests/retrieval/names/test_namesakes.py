"""Namesakes: a word of a full name counts little in the names of others."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.retrieval.names.namesakes import find_namesakes

ATTENDED = "Ben Hamre came to meeting {n}. The harbor was discussed."
OTHERS = (
    "Ben Nordli came to meeting {n}. The harbor was discussed.",
    "Ada Hamre came to meeting {n}. The harbor was discussed.",
    "Ben Nordli and Ada Hamre came to meeting {n}. The harbor was discussed.",
)


@pytest.fixture
def index_of_names(open_index, real_extractor):
    """Open an index that finds full names."""
    return lambda: open_index(chunk_size=100, extractor=real_extractor)


@pytest.fixture
def meetings(index_of_names) -> E2GraphRAG:
    rag = index_of_names()
    texts = [text for text in (*OTHERS, ATTENDED) for _ in range(5)]
    rag.add([SourceDocument(f"m{n:02}", text.format(n=n)) for n, text in enumerate(texts)])
    return rag


def snapshot_and_links(rag, question):
    trace = rag.retrieve(question, k=3).trace
    return rag._session.snapshot(), trace.links


def test_passages_about_namesakes_follow_those_with_the_name(meetings):
    nodes = meetings.retrieve("Which meetings about the harbor did Ben Hamre attend?", k=5).nodes
    assert all("Ben Hamre" in node.text for node in nodes)


def test_only_words_in_names_of_others_count_less(index_of_names):
    rag = index_of_names()
    texts = {
        "has": "Ben Hamre came. Ada Hamre left.",
        "other": "Ada Hamre came. It rained.",
        "both": "Ben Nordli came with Ada Hamre. It rained.",
        "third": "Ben Nordli came. It rained.",
        "word": "Mr. Hamre came. It rained.",
        "first": "Ben came with Ada Hamre. It rained.",
        "nothing": "Rosa Ruiz came. It rained.",
    }
    rag.add([SourceDocument(id_, text) for id_, text in texts.items()])
    snapshot, links = snapshot_and_links(rag, "Where was Ben Hamre?")
    namesakes = find_namesakes(links, snapshot)
    terms = ["ben", "hamre"]
    windows, scores = snapshot.bm25.search(terms, 10)
    before = dict(zip(windows.tolist(), scores.tolist(), strict=True))
    lowered = namesakes.lowered(windows, scores, idf_power=0.0, weights={})
    after = dict(zip(*(column.tolist() for column in lowered), strict=True))
    owners = snapshot.nodes.document[snapshot.dense.window_nodes]
    changed = {snapshot.documents[owners[w]] for w in before if after[w] < before[w] - 1e-6}
    assert changed == {"other", "both", "third"}
    assert list(after.values()) == sorted(after.values(), reverse=True)


@pytest.mark.parametrize("question", ["Where was Rosa Ruiz?", "Where was Hamre?", "Who came?"])
def test_a_question_without_namesakes_has_none(index_of_names, question):
    rag = index_of_names()
    rag.add(
        [SourceDocument("a", "Ben Hamre met Ada Hamre."), SourceDocument("b", "Rosa Ruiz came.")]
    )
    snapshot, links = snapshot_and_links(rag, question)
    assert find_namesakes(links, snapshot) is None


def test_names_that_contain_the_whole_name_are_no_namesakes(index_of_names):
    rag = index_of_names()
    rag.add(
        [
            SourceDocument("a", "Ben Hamre came."),
            SourceDocument("b", "The Ben Hamre Foundation gave money."),
        ]
    )
    snapshot, links = snapshot_and_links(rag, "Where was Ben Hamre?")
    assert [link.entity for link in links] == ["ben hamre"]
    assert find_namesakes(links, snapshot) is None
