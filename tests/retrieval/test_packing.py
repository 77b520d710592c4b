"""Expansion, the meaning of k, and the token budget: whole nodes, and parts of them."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2graphrag_integrations import (
    ApproximateTokenCounter,
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    PaperStrategy,
    RetrievalResult,
    RetrievedNode,
    SourceDocument,
    Span,
    Trace,
)
from e2graphrag_integrations.retrieval.packing import pack_parts
from e2graphrag_integrations.retrieval.result import GAP
from fakes import STORY, CountingLLM, LineCounter, NameExtractor, numbered
from strategies import WordCounter, counters
from strategies import texts as odd_texts

NAMES = ["Anna", "Bert", "Cleo", "Dora", "Emil", "Fritz"]
WORDS = [*NAMES, "met", "ran", "unaffable", "Zürich", "😀", "量子", "e\u0301", "—", "3.14"]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(
    lambda words: " ".join(words) + "."
)
texts = st.lists(sentences, min_size=1, max_size=14).map(" ".join)
spoken = texts.filter(lambda text: all(re.search(r"\w", part) for part in text.split(". ")))
questions = st.lists(st.sampled_from([*NAMES, "who", "ran"]), min_size=1, max_size=4).map(" ".join)


@pytest.fixture
def twelve(open_index):
    """Index twelve one-line chunks: three summaries over 5, 5 and 2 of them, no second level."""
    rag = open_index(
        token_counter=LineCounter(),
        summarizer=CountingLLM(),
        strategy=PaperStrategy(),
        chunk_size=1,
        chunk_overlap=0,
    )
    rag.add(SourceDocument("d", "\n".join(f"Row {number} is here." for number in range(12))))
    return rag


@pytest.fixture
def tall(open_index):
    """Index 30 chunks: 6 summaries of chunks, and 2 of those."""
    rag = open_index(
        summarizer=CountingLLM(), strategy=PaperStrategy(), chunk_size=4, chunk_overlap=0
    )
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
            strategy=PaperStrategy(),
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


# Parts of nodes, by hand.

TEXT = "One fish. Two fish. Red fish. Blue fish. Old fish."
WORDS_ALONE = WordCounter()


class Parts:
    """Chunks of `TEXT` by their spans, and parts of them."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.texts = {str(n): TEXT[start:end] for n, (start, end) in enumerate(chunks)}

    def part(self, chunk, words, *entities):
        """Return the part of a chunk that holds these words of `TEXT`."""
        start = TEXT.index(words)
        return self.between(chunk, start, start + len(words), *entities)

    def between(self, chunk, start, end, *entities):
        first, last = self.chunks[chunk]
        assert first <= start < end <= last
        return RetrievedNode(
            node_id=str(chunk),
            text=TEXT[start:end],
            level=0,
            document_id="d",
            start=first,
            end=last,
            spans=(Span(start, end),),
            score=1.0,
            route="global",
            reasons=(),
            entities=entities,
            position=chunk,
        )

    def packed(self, *parts, budget=100, counter=WORDS_ALONE):
        nodes, dropped = pack_parts(parts, budget, counter, self.texts)
        for node in nodes:
            if node.level == 0:
                assert node.text == GAP.join(TEXT[start:end] for start, end in node.spans)
        return [node.text for node in nodes], dropped


@pytest.fixture
def one():
    return Parts((0, len(TEXT)))


@pytest.fixture
def lapped():
    """Chunks of three sentences of which the middle one is in both."""
    return Parts((0, 29), (20, 50))


def test_parts_of_a_chunk_stand_in_order_with_a_gap_between_them(one):
    parts = one.part(0, "Blue fish."), one.part(0, "One fish.")
    assert one.packed(*parts) == (["One fish. … Blue fish."], 0)


def test_parts_that_touch_are_joined_with_the_white_space_between_them(one):
    parts = one.part(0, "Red fish."), one.part(0, "Two fish."), one.part(0, "Old fish.")
    assert one.packed(*parts) == (["Two fish. Red fish. … Old fish."], 0)


def test_a_part_given_twice_is_packed_once(one):
    assert one.packed(*[one.part(0, "Red fish.")] * 3) == (["Red fish."], 0)


def test_what_two_chunks_share_is_packed_with_the_better_one(lapped):
    first, second = lapped.part(0, "Two fish. Red fish."), lapped.part(1, "Red fish. Blue fish.")
    assert lapped.packed(first, second) == (["Two fish. Red fish.", " Blue fish."], 0)
    assert lapped.packed(second, first) == (["Red fish. Blue fish.", "Two fish. "], 0)


def test_a_part_that_lies_in_another_chunks_is_left_out(lapped):
    parts = lapped.part(1, "Red fish. Blue fish."), lapped.part(0, "Red fish.")
    assert lapped.packed(*parts) == (["Red fish. Blue fish."], 0)


def test_a_part_around_what_is_packed_gives_both_its_sides(lapped):
    parts = lapped.part(0, "Two fish."), lapped.part(0, TEXT[:29])
    assert lapped.packed(*parts) == ([TEXT[:29]], 0)
    other = Parts((10, 19), (0, 50))
    parts = other.part(0, "Two fish."), other.part(1, TEXT)
    assert other.packed(*parts) == (
        ["Two fish.", "One fish.  …  Red fish. Blue fish. Old fish."],
        0,
    )


def test_a_node_stands_where_its_best_part_did(lapped):
    parts = lapped.part(1, "Blue fish."), lapped.part(0, "One fish."), lapped.part(1, "Old fish.")
    assert lapped.packed(*parts) == (["Blue fish. Old fish.", "One fish."], 0)


def test_the_best_part_that_does_not_fit_is_cut_after_a_sentence_and_ends_the_packing(one):
    # Two tokens each and two for line breaks; six are left of the ten for five words.
    parts = [one.part(0, "One fish."), one.part(0, "Red fish. Blue fish. Old fish.")]
    assert one.packed(*parts, one.part(0, "Two fish."), budget=10) == (
        ["One fish. … Red fish. Blue fish."],
        2,
    )


def test_only_the_best_part_is_cut_within_a_sentence(one):
    assert one.packed(one.part(0, "Red fish."), budget=3) == (["Red"], 1)
    parts = one.part(0, "Red fish."), one.part(0, "Old fish.")
    assert one.packed(*parts, budget=7)[0] == ["Red fish."]


def test_what_the_names_above_a_part_cost_counts_once(one):
    parts = [one.part(0, f"{word} fish.", "anna", "bert") for word in ("One", "Red", "Old")]
    # "anna - bert:" is three tokens: 3 + 3 (2 + 2) = 15.
    assert one.packed(*parts, budget=15)[0] == ["One fish. … Red fish. … Old fish."]
    assert one.packed(*parts, budget=14) == (["One fish. … Red fish."], 1)


def test_documents_do_not_cover_one_another():
    parts = [
        RetrievedNode(d, "One fish.", 0, d, 0, 9, (Span(0, 9),), 1.0, "global", (), ())
        for d in "ab"
    ]
    nodes, _ = pack_parts(parts, 100, WORDS_ALONE, {"a": "One fish.", "b": "One fish."})
    assert [node.document_id for node in nodes] == ["a", "b"]


def test_nothing_to_pack_is_nothing(one):
    assert one.packed() == ([], 0)


def test_a_tokenizer_that_counts_a_whole_above_its_parts_does_not_break_the_budget(one):
    class Joint(WordCounter):
        """Every line break and every space costs a token more than the words."""

        def count(self, text):
            return super().count(text) + sum(3 for character in text if character.isspace())

    parts = [one.part(0, f"{word} fish.") for word in ("One", "Red", "Old")]
    for budget in range(1, 40):
        nodes, _ = pack_parts(parts, budget, Joint(), one.texts)
        assert Joint().count(context_of(nodes)) <= budget


def context_of(nodes):
    return RetrievalResult("q", tuple(nodes), Trace("q", "hybrid", "auto")).context()


# Parts of nodes, as properties.


def assert_parts(nodes, text_of):
    """Assert what holds of nodes of which parts were packed."""
    assert len({node.node_id for node in nodes}) == len(nodes)
    packed = []
    for node in nodes:
        text = text_of(node.document_id)
        assert node.text == GAP.join(text[start:end] for start, end in node.spans)
        assert node.pieces == tuple((span, text[slice(*span)]) for span in node.spans)
        edges = [node.start, *(edge for span in node.spans for edge in span), node.end]
        assert edges == sorted(edges)
        assert all(start < end for start, end in node.spans)
        for (_, end), (start, _) in pairwise(node.spans):
            assert text[end:start].strip()  # else they would be one
        letters = {n for span in node.spans for n in range(*span) if not text[n].isspace()}
        packed += [(node.document_id, n) for n in letters]
    assert len(packed) == len(set(packed))


chunks_of_text = st.tuples(st.integers(0, 49), st.integers(1, 50)).filter(lambda s: s[0] < s[1])
picked = st.tuples(st.integers(0, 3), st.integers(0, 49), st.integers(1, 50))


@settings(max_examples=200, deadline=None)
@given(
    chunks=st.lists(chunks_of_text, min_size=1, max_size=4, unique=True),
    picks=st.lists(picked, max_size=9),
    budget=st.integers(1, 60),
    counter=counters(),
)
def test_parts_are_packed_within_the_budget_in_order_and_no_letter_twice(
    chunks, picks, budget, counter
):
    laid, parts = Parts(*chunks), []
    for pick, offset, size in picks:
        chunk = pick % len(chunks)
        start, end = chunks[chunk]
        first = start + offset % (end - start)
        parts.append(laid.between(chunk, first, min(end, first + size)))
    nodes, dropped = pack_parts(parts, budget, counter, laid.texts)
    assert counter.count(context_of(nodes)) <= budget
    assert 0 <= dropped <= len(parts)
    assert_parts(nodes, lambda _: TEXT)
    wanted = {n for part in parts for n in range(*part.spans[0]) if not TEXT[n].isspace()}
    found = {n for node in nodes for span in node.spans for n in range(*span)}
    assert {n for n in found if not TEXT[n].isspace()} <= wanted
    everything, _ = pack_parts(parts, 10_000, counter, laid.texts)
    assert wanted <= {n for node in everything for span in node.spans for n in range(*span)}


def hybrid_over(documents, counter, size, overlap, **options):
    rag = E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(32, max_tokens=6),
        extractor=NameExtractor(),
        token_counter=counter,
        strategy=HybridStrategy(**options),
        chunk_size=size,
        chunk_overlap=min(overlap, size - 1),
        group_size=2,
    )
    rag.add([SourceDocument(str(n), text, "Anna") for n, text in enumerate(documents)])
    return rag


@settings(max_examples=150, deadline=None)
@given(
    documents=st.lists(st.one_of(texts, odd_texts(8)), min_size=1, max_size=3),
    question=questions,
    counter=counters(),
    size=st.integers(1, 40),
    overlap=st.integers(0, 20),
    budget=st.one_of(st.just(1), st.integers(2, 200)),
    mode=st.sampled_from(["auto", "global"]),
)
def test_a_budget_is_filled_with_parts_of_chunks_of_which_no_letter_is_there_twice(
    documents, question, counter, size, overlap, budget, mode
):
    with hybrid_over(documents, counter, size, overlap) as rag:
        result = rag.retrieve(question, token_budget=budget, mode=mode, k=1)
        assert counter.count(result.context()) <= budget
        assert all(node.level == 0 for node in result.nodes)
        assert_parts(result.nodes, lambda id_: documents[int(id_)])
        scores = [node.score for node in result.nodes]
        assert scores == sorted(scores, reverse=True)


@settings(max_examples=40, deadline=None)
@given(documents=st.lists(texts, max_size=3), question=questions, budget=st.integers(1, 120))
def test_mode_local_packs_whole_chunks_and_cuts_the_last(documents, question, budget):
    counter = ApproximateTokenCounter()
    with hybrid_over(documents, counter, 14, 4) as rag:
        result = rag.retrieve(question, token_budget=budget, mode="local")
        assert counter.count(result.context()) <= budget
        for place, node in enumerate(result.nodes, 1):
            [(start, end)] = node.spans
            assert node.text == documents[int(node.document_id)][start:end]
            assert (start, end) == (node.start, node.end) or place == len(result.nodes)


@settings(max_examples=40, deadline=None)
@given(
    documents=st.lists(spoken, min_size=1, max_size=3),
    size=st.integers(6, 40),
    overlap=st.integers(0, 20),
)
def test_a_budget_above_everything_holds_every_letter_of_what_is_found(documents, size, overlap):
    with hybrid_over(documents, ApproximateTokenCounter(), size, overlap) as rag:
        result = rag.retrieve(" ".join(WORDS), token_budget=100_000, mode="global")
        found = {
            (node.document_id, n) for node in result.nodes for s in node.spans for n in range(*s)
        }
        assert found >= {
            (str(number), n)
            for number, text in enumerate(documents)
            for n, letter in enumerate(text)
            if not letter.isspace()
        }
        assert result.trace.cuts == {"k": 0, "token_budget": 0}


@settings(max_examples=40, deadline=None)
@given(
    documents=st.lists(texts, min_size=1, max_size=3),
    question=questions,
    budget=st.integers(1, 120),
    mode=st.sampled_from(["auto", "local", "global"]),
)
def test_a_greater_budget_adds_nodes_after_those_of_a_smaller_one(
    documents, question, budget, mode
):
    with hybrid_over(documents, ApproximateTokenCounter(), 14, 4) as rag:
        small = rag.retrieve(question, token_budget=budget, mode=mode).nodes
        large = rag.retrieve(question, token_budget=budget + 50, mode=mode).nodes
        assert [node.node_id for node in large[: len(small)]] == [node.node_id for node in small]


def test_parts_score_by_their_relevance_times_what_every_other_list_gives(open_index):
    rag = open_index(embedder=HashingEmbedder(max_tokens=6), group_size=2)
    titled = SourceDocument("t", "It lies in the north. Ships call there.", title="Oslo")
    rag.add([SourceDocument("s", STORY), titled])
    question = "What did Anna give Cleo in Oslo?"

    def asked(**options):
        strategy = HybridStrategy(summaries=False, constant=2, **options)
        return rag.retrieve(question, token_budget=10_000, strategy=strategy)

    plain = {node.node_id: node.score for node in asked(entities=0, bridges=0).nodes}
    lists = asked(gate=0, entities=0.5).trace.lists
    assert set(lists) >= {"entities", "bridges"}
    factor = dict.fromkeys(plain, 1.0)
    best = min(1, lists["bridges"][0].figures["value"])
    for name, weight in (("entities", 0.5), ("bridges", best)):
        for one in lists[name]:
            factor[one.node_id] *= 1 + weight * 3 / (2 + one.rank)
    for node in asked(gate=0, entities=0.5).nodes:
        expected = plain[node.node_id] * factor[node.node_id]
        assert node.score == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("budget", [30, 60, 120, 240])
def test_a_budget_is_filled_as_far_as_there_is_anything(open_index, budget):
    rag = open_index(embedder=HashingEmbedder(max_tokens=16), strategy=HybridStrategy())
    rag.add(SourceDocument("d", " ".join(f"Point {n} says word{n} twice." for n in range(60))))
    used = ApproximateTokenCounter().count(rag.retrieve("word7", token_budget=budget).context())
    assert 0.6 * budget < used <= budget


@pytest.mark.parametrize("expand", ["children", "leaves"])
def test_with_expansion_whole_nodes_are_packed(open_index, expand):
    rag = open_index(embedder=HashingEmbedder(max_tokens=6), strategy=HybridStrategy())
    rag.add(SourceDocument("d", STORY))
    result = rag.retrieve("who sailed", token_budget=1000, expand=expand, mode="global")
    assert {node.spans for node in result.nodes} == {
        (Span(node.start, node.end),) for node in result.nodes
    }
    assert len(result.nodes) == rag.stats().chunks


def test_filled_up_with_a_budget_nodes_are_there_once_and_fit(open_index):
    rag = open_index(embedder=HashingEmbedder(max_tokens=6), strategy=HybridStrategy())
    rag.add(SourceDocument("d", STORY))
    for budget in (1, 10, 30, 80, 1000):
        result = rag.retrieve("Emil?", mode="local", token_budget=budget, fill=True)
        assert ApproximateTokenCounter().count(result.context()) <= budget
        assert_parts([node for node in result.nodes if node.level == 0], lambda _: STORY)
