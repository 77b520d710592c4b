"""Expansion, the meaning of k, and the token budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2graphrag_integrations import (
    ApproximateTokenCounter,
    E2GraphRAG,
    HashingEmbedder,
    SourceDocument,
)
from fakes import CountingLLM, LineCounter, numbered

NAMES = ["Anna", "Bert", "Cleo", "Dora", "Emil", "Fritz"]
WORDS = [*NAMES, "met", "ran", "unaffable", "Zürich", "😀", "量子", "e\u0301", "—", "3.14"]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(
    lambda words: " ".join(words) + "."
)
texts = st.lists(sentences, min_size=1, max_size=14).map(" ".join)
questions = st.lists(st.sampled_from([*NAMES, "who", "ran"]), min_size=1, max_size=4).map(" ".join)


@pytest.fixture
def twelve(open_index):
    """Index twelve one-line chunks: three summaries over 5, 5 and 2 of them, no second level."""
    rag = open_index(
        token_counter=LineCounter(), summarizer=CountingLLM(), chunk_size=1, chunk_overlap=0
    )
    rag.add(SourceDocument("d", "\n".join(f"Row {number} is here." for number in range(12))))
    return rag


@pytest.fixture
def tall(open_index):
    """Index 30 chunks: 6 summaries of chunks, and 2 of those."""
    rag = open_index(summarizer=CountingLLM(), chunk_size=4, chunk_overlap=0)
    rag.add(numbered(30))
    return rag


def levels(result):
    return [node.level for node in result.nodes]


def test_expand_none_leaves_summaries_in_place(tall):
    result = tall.retrieve("digest of it", k=38, mode="global")
    assert sorted(levels(result)) == [0] * 30 + [1] * 6 + [2] * 2


def test_expand_leaves_gives_chunks_only_each_once(tall):
    result = tall.retrieve("digest of it", k=38, mode="global", expand="leaves")
    assert levels(result) == [0] * 30
    assert len({node.node_id for node in result.nodes}) == 30


def test_expand_children_puts_the_level_below_in_a_summarys_place(tall):
    alone = tall.retrieve("digest of it", k=1, mode="global").nodes[0]
    assert alone.level > 0
    expanded = tall.retrieve("digest of it", k=5, mode="global", expand="children").nodes
    first = [n for n in expanded if n.reasons[0] == f"under summary {alone.node_id}"]
    assert [node.level for node in first] == [alone.level - 1] * len(first)
    assert expanded[: len(first)] == tuple(first)
    assert all(alone.start <= node.start and node.end <= alone.end for node in first)
    assert {node.score for node in first} == {alone.score}


def test_expanding_children_twice_removed_keeps_no_duplicate(tall):
    result = tall.retrieve("digest of it", k=38, mode="global", expand="children")
    ids = [node.node_id for node in result.nodes]
    assert len(ids) == len(set(ids)) == 36  # 30 chunks and 6 summaries; the 2 on top are replaced


def test_k_counts_nodes_after_expansion(twelve):
    found = twelve.retrieve("digest", k=3, mode="global", expand="leaves")
    assert len(found.nodes) == 3
    # The best summary alone has more leaves than that; what fell out is told.
    assert found.trace.cuts["k"] >= 2


def test_with_a_budget_the_budget_alone_cuts(twelve):
    assert len(twelve.retrieve("row", k=2).nodes) == 2
    # 15 nodes compete, one line each, and every node pays two tokens for line breaks.
    assert len(twelve.retrieve("row", k=2, token_budget=1000).nodes) == 15
    few = twelve.retrieve("row", k=2, token_budget=9)
    assert len(few.nodes) == 3
    assert few.trace.cuts["token_budget"] == 12


def test_a_cut_chunk_says_which_span_it_packed(open_index):
    text = "Anna sat down. Bert stood up. Cleo lay on the floor."
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", text))
    [node] = rag.retrieve("nobody", token_budget=10).nodes
    assert node.text == "Anna sat down. Bert stood up."
    assert node.spans == ((0, 29),)
    assert (node.start, node.end) == (0, len(text))


def test_a_budget_below_a_sentence_cuts_between_tokens(open_index):
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", "Anna sat down by the fire."))
    [node] = rag.retrieve("nobody", token_budget=5).nodes
    assert node.text == "Anna sat down"  # 5 less 2 for line breaks


def test_headers_count_against_the_budget(open_index):
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", "Anna met Bert. They sat."))
    result = rag.retrieve("Anna Bert", token_budget=10)
    # "anna - bert: " costs 4 tokens, line breaks 2: 4 are left, and the first sentence has 4.
    assert result.context() == "anna - bert: Anna met Bert."


def test_a_budget_too_small_for_anything_gives_an_empty_context(open_index, story):
    rag = open_index()
    rag.add(story)
    assert rag.retrieve("Anna Bert", token_budget=1).context() == ""


def test_characters_of_several_tokens_are_cut_to_the_budget(open_index, bytes_counter):
    """A character of four byte tokens shares one span: the packer must still come to an end."""
    rag = open_index(token_counter=bytes_counter, chunk_size=50)
    rag.add(SourceDocument("d", "😀😁😂🤣😃😄"))
    for budget in range(1, 30):
        context = rag.retrieve("x", token_budget=budget).context()
        assert bytes_counter.count(context) <= budget
    assert rag.retrieve("x", token_budget=29).context() != ""


@pytest.mark.parametrize("counter", ["approximate", "wordpiece", "bytes"])
def test_a_context_never_exceeds_its_budget_and_spans_slice_back(counter, request):
    counter = (
        ApproximateTokenCounter()
        if counter == "approximate"
        else request.getfixturevalue(f"{counter}_counter")
    )
    extractor = request.getfixturevalue("names")

    @settings(max_examples=40, deadline=None)
    @given(
        documents=st.lists(texts, min_size=1, max_size=2),
        question=questions,
        budget=st.integers(1, 120),
        expand=st.sampled_from(["none", "children", "leaves"]),
        mode=st.sampled_from(["auto", "local", "global"]),
    )
    def check(documents, question, budget, expand, mode):
        with E2GraphRAG.open(
            ":memory:",
            embedder=HashingEmbedder(32),
            extractor=extractor,
            token_counter=counter,
            chunk_size=14,
            chunk_overlap=3,
        ) as rag:
            rag.add([SourceDocument(str(n), text) for n, text in enumerate(documents)])
            result = rag.retrieve(question, token_budget=budget, expand=expand, mode=mode, k=3)
            assert counter.count(result.context()) <= budget
            for node in result.nodes:
                if node.level == 0:
                    [(start, end)] = node.spans
                    assert documents[int(node.document_id)][start:end] == node.text
                    assert node.start <= start <= end <= node.end

    check()


@settings(max_examples=30, deadline=None)
@given(text=texts, question=questions, k=st.integers(1, 9))
def test_a_merged_context_holds_every_word_of_its_chunks_in_order(text, question, k):
    from fakes import NameExtractor

    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(32),
        extractor=NameExtractor(),
        chunk_size=12,
        chunk_overlap=5,
    ) as rag:
        rag.add(SourceDocument("d", text))
        result = rag.retrieve(question, k=k, expand="leaves")
        context = " ".join(result.context().split())
        for node in result.nodes:
            assert " ".join(node.text.split()) in context
