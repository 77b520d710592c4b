"""Chunks of long texts that join names of the question."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, HybridStrategy, SourceDocument
from e2graphrag_integrations.options import grouped

FILLER = [f"Nobody was there on day{n}, and the rain fell on stone{n}." for n in range(20)]
ANNA = [f"Anna gave coin{n} to the baker of the town." for n in range(6)]
BERT = [f"Bert carried wood{n} up the hill for the smith." for n in range(6)]
BOTH = "In the garden, Anna handed a ring over, and Bert kept it."
QUESTION = "What did Anna give to Bert?"


def reasons(rag, **options):
    """Return the nodes with a reason of the list of joined names."""
    nodes = rag.retrieve(QUESTION, **options).nodes
    return [node for node in nodes if any("joined_names" in one for one in node.reasons)]


@pytest.fixture
def novel():
    """Return an index of a long text in which one chunk has both names."""
    options = {"embedder": HashingEmbedder(), "chunk_size": 22, "chunk_overlap": 0}
    with E2GraphRAG.open(":memory:", **grouped(options)) as rag:
        text = "\n\n".join([*ANNA, *FILLER[:10], BOTH, *FILLER[10:], *BERT])
        rag.add(SourceDocument("novel", text))
        yield rag


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("options", [{"k": 5}, {"token_budget": 60}])
def test_the_chunk_with_both_names_comes_first(novel, options):
    first = novel.retrieve(QUESTION, **options).nodes[0]
    assert "handed a ring" in first.text
    assert reasons(novel, **options)


@pytest.mark.slow
def test_without_its_weight_the_list_is_empty(novel):
    assert not reasons(novel, k=5, strategy=HybridStrategy(joined_weight=0))


def test_without_relevance_entities_alone_rank(novel):
    assert not reasons(novel, k=5, mode="local")


def test_one_name_joins_nothing(novel):
    result = novel.retrieve("What did Anna give to the baker?", k=5)
    assert "joined_names" not in result.trace.lists


def test_a_title_counts_only_where_the_text_mentions_it():
    """The title is a name of every chunk, and would join each chunk of the other name."""
    options = {"embedder": HashingEmbedder(), "chunk_size": 22, "chunk_overlap": 0}
    with E2GraphRAG.open(":memory:", **grouped(options)) as rag:
        text = "\n\n".join([*ANNA, *FILLER, "Anna saw the Silver Chest at last."])
        rag.add(SourceDocument("novel", text, title="The Silver Chest"))
        nodes = rag.retrieve("When did Anna see the Silver Chest?", k=20).nodes
    joined = [n for n in nodes if any("joined_names" in one for one in n.reasons)]
    assert ["at last" in node.text for node in joined] == [True]


@pytest.mark.slow
def test_short_texts_are_left_out(open_index):
    rag = open_index(chunk_size=100)
    rag.add([SourceDocument(f"d{n}", text) for n, text in enumerate([*ANNA, *BERT, BOTH])])
    assert not reasons(rag, k=5)


def test_the_filter_holds(novel):
    novel.add(SourceDocument("other", "\n\n".join([*FILLER, *ANNA])))
    assert not reasons(novel, k=5, where={"document_id": "other"})
