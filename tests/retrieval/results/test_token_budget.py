"""A passage that begins inside a table shows its header, and its spans remain exact."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    ApproximateTokenCounter,
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    IndexSettings,
    Models,
    PaperStrategy,
    RetrievalResult,
    RetrievedNode,
    SourceDocument,
    Span,
    Trace,
)
from e2graphrag_integrations.retrieval.result import GAP
from e2graphrag_integrations.retrieval.results.token_budget import pack_windows
from fakes import STORY, NameExtractor
from strategies import WordCounter, counters, examples
from strategies import texts as odd_texts

HEADER = "sku,product,material,price"
ROWS = [f"SKU-{n:05},stool,oak,{n * 7 % 900}" for n in range(400)]
PROSE = "The shop sells furniture. Prices are in crowns.\n\n"
TABLE = "\n".join([HEADER, *ROWS])


@pytest.fixture(scope="module", params=["", PROSE], ids=["table only", "prose before it"])
def shop(request):
    text = request.param + TABLE + "\n\nThe shop is closed on Sundays.\n"
    settings, models = IndexSettings(chunk_size=400), Models(extractor=NameExtractor())
    with E2GraphRAG.open(":memory:", embedder="hashing", settings=settings, models=models) as rag:
        rag.add(SourceDocument("prices", text))
        yield rag, text


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize("number", [0, 7, 150, 399])
@pytest.mark.parametrize("options", [{"token_budget": 300}, {"k": 2}], ids=str)
def test_a_row_comes_with_its_header_once(shop, number, options):
    rag, text = shop
    result = rag.retrieve(f"What is the price of SKU-{number:05}?", **options)
    node = next(one for one in result.nodes if not one.level and ROWS[number] in one.text)
    assert node.text.count(HEADER) == 1
    assert GAP.join(text[start:end] for start, end in node.spans) == node.text
    assert set(node.text.replace(GAP, "\n").splitlines()) <= set(text.splitlines())
    assert list(node.spans) == sorted(node.spans)


def test_the_header_counts_in_the_budget(shop):
    rag, _ = shop
    for budget in (40, 60, 100, 200):
        result = rag.retrieve("What is the price of SKU-00250?", token_budget=budget)
        assert rag._index.components.counter.count(result.context()) <= budget


def test_text_outside_the_table_has_no_header(shop):
    rag, _ = shop
    result = rag.retrieve("Is the shop closed on Sundays?", token_budget=900)
    closed = next(one for one in result.nodes if "Sundays" in one.text)
    assert HEADER not in closed.text or closed.text.startswith(HEADER)


NAMES = ["Anna", "Bert", "Cleo", "Dora", "Emil", "Fritz"]
WORDS = [*NAMES, "met", "ran", "unaffable", "Zürich", "😀", "量子", "e\u0301", "—", "3.14"]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(
    lambda words: " ".join(words) + "."
)
texts = st.lists(sentences, min_size=1, max_size=14).map(" ".join)
spoken = texts.filter(lambda text: all(re.search(r"\w", piece) for piece in text.split(". ")))
questions = st.lists(st.sampled_from([*NAMES, "who", "ran"]), min_size=1, max_size=4).map(" ".join)


def test_a_budget_is_filled_with_as_many_nodes_as_fit_but_at_most_k(twelve):
    assert len(twelve.retrieve("row").nodes) == 10
    # There are 15 nodes of one line, each with two tokens for line breaks.
    assert len(twelve.retrieve("row", token_budget=1000).nodes) == 15
    few = twelve.retrieve("row", token_budget=9)
    assert len(few.nodes) == 3
    assert few.trace.cuts["token_budget"] == 12
    two = twelve.retrieve("row", k=2, token_budget=1000)
    assert [node.node_id for node in two.nodes] == [node.node_id for node in few.nodes[:2]]
    assert two.trace.cuts["k"] == 13
    assert len(twelve.retrieve("row", k=5, token_budget=9).nodes) == 3


def test_the_windows_in_a_budget_belong_to_at_most_k_nodes(open_index):
    rag = open_index(embedder=HashingEmbedder(64, max_tokens=16), chunk_size=30, chunk_overlap=0)
    rag.add(SourceDocument("story", STORY * 3))
    complete = rag.retrieve("Anna and the map", token_budget=1000)
    assert len(complete.nodes) > 3
    few = rag.retrieve("Anna and the map", token_budget=1000, k=3)
    assert [node.node_id for node in few.nodes] == [node.node_id for node in complete.nodes[:3]]
    assert few.trace.cuts["k"] > 0


def test_spans_of_a_shortened_chunk_match_its_text(open_index):
    text = "Anna sat down. Bert stood up. Cleo lay on the floor."
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", text))
    [node] = rag.retrieve("nobody", token_budget=10).nodes
    assert node.text == "Anna sat down. Bert stood up."
    assert node.spans == ((0, 29),)
    assert (node.start, node.end) == (0, len(text))


TOPICS = "travel meals phones parking childcare clothing bicycles tools laptops uniforms".split()


def test_a_budget_below_the_best_window_is_filled_with_its_best_part(open_index):
    rag = open_index(chunk_size=1000)
    rules = [
        f"For {one}, staff receive {7 * n} dollars. Ask room {n}."
        for n, one in enumerate(TOPICS, 3)
    ]
    rag.add(SourceDocument("rules", " ".join(rules)))
    for topic, rule in zip(TOPICS, rules, strict=True):
        [node] = rag.retrieve(f"How much do staff receive for {topic}?", token_budget=22).nodes
        assert node.text.startswith(rule)
        [span] = node.spans
        assert " ".join(rules)[span.start : span.end] == node.text


def test_the_best_part_continues_after_the_end_of_its_window(open_index):
    rag = open_index(chunk_size=1000, embedder=HashingEmbedder(max_tokens=34))
    text = (
        "Rain fell on all of the hills that day. Cows stood near the old gates of the upper farm. "
        "Zed arrived late. He kept nine goats. They ate the hay and leaves of the old trees nearby."
    )
    rag.add(SourceDocument("d", text))
    ends = [text[:end] for _, end in rag._session.snapshot().window_spans.tolist()]
    assert any(one.endswith("Zed arrived late.") for one in ends)
    [node] = rag.retrieve("When did Zed arrive?", token_budget=15).nodes
    assert node.text == "Zed arrived late. He kept nine goats."
    start = text.index("Zed")
    assert node.spans == ((start, start + len(node.text)),)


def test_a_budget_below_one_sentence_cuts_between_tokens(open_index):
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", "Anna sat down by the fire."))
    [node] = rag.retrieve("nobody", token_budget=5).nodes
    assert node.text == "Anna sat down"  # 5 tokens minus 2 for line breaks


def test_headers_count_toward_the_budget(open_index):
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", "Anna met Bert. They sat."))
    result = rag.retrieve("Anna Bert", token_budget=10)
    # The header has 4 tokens and line breaks 2; the first sentence has the remaining 4.
    assert result.context() == "anna - bert: Anna met Bert."


def test_a_budget_below_one_token_gives_an_empty_context(open_index, story):
    rag = open_index()
    rag.add(story)
    assert rag.retrieve("Anna Bert", token_budget=1).context() == ""


def test_characters_with_several_tokens_fit_the_budget(open_index, bytes_counter):
    """Packing terminates although the four byte tokens of a character share one span."""
    rag = open_index(token_counter=bytes_counter, chunk_size=50)
    rag.add(SourceDocument("d", "😀😁😂🤣😃😄"))
    for budget in range(1, 30):
        context = rag.retrieve("x", token_budget=budget).context()
        assert bytes_counter.count(context) <= budget
    assert rag.retrieve("x", token_budget=29).context() != ""


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("counter", ["approximate", "wordpiece", "bytes"])
@pytest.mark.hypothesis
def test_a_context_never_exceeds_its_budget(counter, request):
    counter = (
        ApproximateTokenCounter()
        if counter == "approximate"
        else request.getfixturevalue(f"{counter}_counter")
    )
    extractor = request.getfixturevalue("names")

    @examples(40)
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
            models=Models(extractor=extractor, token_counter=counter),
            strategy=PaperStrategy(),
            settings=IndexSettings(chunk_size=14, chunk_overlap=3),
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


@examples(30)
@given(text=texts, question=questions, k=st.integers(1, 9))
def test_a_merged_context_contains_the_text_of_every_node(text, question, k):
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(32),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=12, chunk_overlap=5),
    ) as rag:
        rag.add(SourceDocument("d", text))
        result = rag.retrieve(question, k=k, expand="leaves")
        context = " ".join(result.context().split())
        for node in result.nodes:
            assert " ".join(node.text.split()) in context


# Windows by hand.

TEXT = "One fish. Two fish. Red fish. Blue fish. Old fish."
WORDS_ALONE = WordCounter()


class Windows:
    """Chunks of `TEXT`, and windows of them."""

    def __init__(self, *chunks):
        self.chunks = chunks
        self.texts = {str(n): TEXT[start:end] for n, (start, end) in enumerate(chunks)}

    def window(self, chunk, words, *entities):
        """Return the window of a chunk with these words of `TEXT`."""
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
            found_by="relevance",
            reasons=(),
            entities=entities,
            position=chunk,
        )

    def packed(self, *windows, budget=100, counter=WORDS_ALONE):
        nodes, packed = pack_windows(windows, budget, counter, self.texts)
        for node in nodes:
            if node.level == 0:
                assert node.text == GAP.join(TEXT[start:end] for start, end in node.spans)
        return [node.text for node in nodes], len(windows) - packed


@pytest.fixture
def one():
    return Windows((0, len(TEXT)))


@pytest.fixture
def overlapping():
    """Two chunks of three sentences that overlap in one sentence."""
    return Windows((0, 29), (20, 50))


def test_windows_of_a_chunk_are_in_document_order_with_gaps(one):
    windows = one.window(0, "Blue fish."), one.window(0, "One fish.")
    assert one.packed(*windows) == (["One fish. … Blue fish."], 0)


def test_adjacent_windows_are_joined_with_their_white_space(one):
    windows = one.window(0, "Red fish."), one.window(0, "Two fish."), one.window(0, "Old fish.")
    assert one.packed(*windows) == (["Two fish. Red fish. … Old fish."], 0)


def test_a_duplicate_window_is_packed_once(one):
    assert one.packed(*[one.window(0, "Red fish.")] * 3) == (["Red fish."], 0)


def test_the_overlap_of_two_chunks_goes_to_the_better_window(overlapping):
    first, second = (
        overlapping.window(0, "Two fish. Red fish."),
        overlapping.window(1, "Red fish. Blue fish."),
    )
    assert overlapping.packed(first, second) == (["Two fish. Red fish.", " Blue fish."], 0)
    assert overlapping.packed(second, first) == (["Red fish. Blue fish.", "Two fish. "], 0)


def test_a_window_inside_a_packed_window_is_left_out(overlapping):
    windows = overlapping.window(1, "Red fish. Blue fish."), overlapping.window(0, "Red fish.")
    assert overlapping.packed(*windows) == (["Red fish. Blue fish."], 0)


def test_a_window_around_a_packed_window_adds_both_sides(overlapping):
    windows = overlapping.window(0, "Two fish."), overlapping.window(0, TEXT[:29])
    assert overlapping.packed(*windows) == ([TEXT[:29]], 0)
    other = Windows((10, 19), (0, 50))
    windows = other.window(0, "Two fish."), other.window(1, TEXT)
    assert other.packed(*windows) == (
        ["Two fish.", "One fish.  …  Red fish. Blue fish. Old fish."],
        0,
    )


def test_a_node_has_the_rank_of_its_best_window(overlapping):
    windows = (
        overlapping.window(1, "Blue fish."),
        overlapping.window(0, "One fish."),
        overlapping.window(1, "Old fish."),
    )
    assert overlapping.packed(*windows) == (["Blue fish. Old fish.", "One fish."], 0)


def test_the_first_window_that_does_not_fit_is_cut_after_a_sentence(one):
    # The first window takes 2 tokens and 2 for line breaks; 6 of 10 remain.
    windows = [one.window(0, "One fish."), one.window(0, "Red fish. Blue fish. Old fish.")]
    assert one.packed(*windows, one.window(0, "Two fish."), budget=10) == (
        ["One fish. … Red fish. Blue fish."],
        2,
    )


def test_only_the_best_window_is_cut_within_a_sentence(one):
    assert one.packed(one.window(0, "Red fish."), budget=3) == (["Red"], 1)
    windows = one.window(0, "Red fish."), one.window(0, "Old fish.")
    assert one.packed(*windows, budget=7)[0] == ["Red fish."]


def test_a_shared_header_counts_once(one):
    windows = [one.window(0, f"{word} fish.", "anna", "bert") for word in ("One", "Red", "Old")]
    # The header has 3 tokens: 3 + 3 * (2 + 2) = 15.
    assert one.packed(*windows, budget=15)[0] == ["One fish. … Red fish. … Old fish."]
    assert one.packed(*windows, budget=14) == (["One fish. … Red fish."], 1)


def test_equal_spans_of_different_documents_are_both_packed():
    windows = [
        RetrievedNode(d, "One fish.", 0, d, 0, 9, (Span(0, 9),), 1.0, "global", (), ())
        for d in "ab"
    ]
    nodes, _ = pack_windows(windows, 100, WORDS_ALONE, {"a": "One fish.", "b": "One fish."})
    assert [node.document_id for node in nodes] == ["a", "b"]


def test_packing_no_windows_returns_no_nodes(one):
    assert one.packed() == ([], 0)


def test_a_tokenizer_that_is_not_additive_stays_within_the_budget(one):
    class Joint(WordCounter):
        """Counts three tokens for each white space character."""

        def count(self, text):
            return super().count(text) + sum(3 for character in text if character.isspace())

    windows = [one.window(0, f"{word} fish.") for word in ("One", "Red", "Old")]
    for budget in range(1, 40):
        nodes, _ = pack_windows(windows, budget, Joint(), one.texts)
        assert Joint().count(context_of(nodes)) <= budget


def context_of(nodes):
    return RetrievalResult("q", tuple(nodes), Trace("q", "hybrid", "auto")).context()


# Windows as properties.


def assert_windows(nodes, text_of):
    """Assert that spans match texts, are in order, and repeat no character."""
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
            assert text[end:start].strip()  # otherwise they would be joined
        letters = {n for span in node.spans for n in range(*span) if not text[n].isspace()}
        packed += [(node.document_id, n) for n in letters]
    assert len(packed) == len(set(packed))


chunks_of_text = st.tuples(st.integers(0, 49), st.integers(1, 50)).filter(lambda s: s[0] < s[1])
picked = st.tuples(st.integers(0, 3), st.integers(0, 49), st.integers(1, 50))


@examples(100)
@given(
    chunks=st.lists(chunks_of_text, min_size=1, max_size=4, unique=True),
    picks=st.lists(picked, max_size=9),
    budget=st.integers(1, 60),
    counter=counters(),
)
def test_random_windows_fit_the_budget_in_order_without_repeats(chunks, picks, budget, counter):
    chunked, windows = Windows(*chunks), []
    for pick, offset, size in picks:
        chunk = pick % len(chunks)
        start, end = chunks[chunk]
        first = start + offset % (end - start)
        windows.append(chunked.between(chunk, first, min(end, first + size)))
    nodes, packed = pack_windows(windows, budget, counter, chunked.texts)
    assert counter.count(context_of(nodes)) <= budget
    assert 0 <= packed <= len(windows)
    assert_windows(nodes, lambda _: TEXT)
    wanted = {n for part in windows for n in range(*part.spans[0]) if not TEXT[n].isspace()}
    found = {n for node in nodes for span in node.spans for n in range(*span)}
    assert {n for n in found if not TEXT[n].isspace()} <= wanted
    everything, _ = pack_windows(windows, 10_000, counter, chunked.texts)
    assert wanted <= {n for node in everything for span in node.spans for n in range(*span)}


def hybrid_over(documents, counter, size, overlap, **options):
    rag = E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(32, max_tokens=6),
        models=Models(extractor=NameExtractor(), token_counter=counter),
        strategy=HybridStrategy(**options),
        settings=IndexSettings(chunk_size=size, chunk_overlap=min(overlap, size - 1), group_size=2),
    )
    rag.add([SourceDocument(str(n), text, "Anna") for n, text in enumerate(documents)])
    return rag


@pytest.mark.slow
@examples(60)
@given(
    documents=st.lists(st.one_of(texts, odd_texts(8)), min_size=1, max_size=3),
    question=questions,
    counter=counters(),
    size=st.integers(1, 40),
    overlap=st.integers(0, 20),
    budget=st.one_of(st.just(1), st.integers(2, 200)),
    mode=st.sampled_from(["auto", "global"]),
)
def test_a_hybrid_context_fits_the_budget_and_repeats_no_character(
    documents, question, counter, size, overlap, budget, mode
):
    with hybrid_over(documents, counter, size, overlap) as rag:
        result = rag.retrieve(question, token_budget=budget, mode=mode, k=1)
        assert counter.count(result.context()) <= budget
        assert all(node.level == 0 for node in result.nodes)
        assert_windows(result.nodes, lambda id_: documents[int(id_)])
        scores = [node.score for node in result.nodes]
        assert scores == sorted(scores, reverse=True)


@examples(40)
@given(documents=st.lists(texts, max_size=3), question=questions, budget=st.integers(1, 120))
def test_mode_local_packs_complete_chunks_and_cuts_only_the_last(documents, question, budget):
    counter = ApproximateTokenCounter()
    with hybrid_over(documents, counter, 14, 4) as rag:
        result = rag.retrieve(question, token_budget=budget, mode="local")
        assert counter.count(result.context()) <= budget
        for place, node in enumerate(result.nodes, 1):
            [(start, end)] = node.spans
            assert node.text == documents[int(node.document_id)][start:end]
            assert (start, end) == (node.start, node.end) or place == len(result.nodes)


@pytest.mark.slow
@examples(40)
@given(
    documents=st.lists(spoken, min_size=1, max_size=3),
    size=st.integers(6, 40),
    overlap=st.integers(0, 20),
)
def test_a_large_budget_returns_every_character(documents, size, overlap):
    documents = documents[:1]  # equal texts of several documents are shown once
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


@pytest.mark.slow
@examples(40)
@given(
    documents=st.lists(texts, min_size=1, max_size=3),
    question=questions,
    budget=st.integers(1, 120),
    mode=st.sampled_from(["auto", "local", "global"]),
)
def test_a_larger_budget_only_appends_nodes(documents, question, budget, mode):
    with hybrid_over(documents, ApproximateTokenCounter(), 14, 4) as rag:
        small = rag.retrieve(question, token_budget=budget, mode=mode).nodes
        large = rag.retrieve(question, token_budget=budget + 50, mode=mode).nodes
        assert [node.node_id for node in large[: len(small)]] == [node.node_id for node in small]


def test_a_window_score_mixes_its_boosted_relevance_with_the_fused_score_of_its_node(open_index):
    rag = open_index(embedder=HashingEmbedder(max_tokens=6), group_size=2)
    titled = SourceDocument("t", "It lies in the north. Ships call there.", title="Oslo")
    rag.add([SourceDocument("s", STORY), titled])
    strategy = HybridStrategy(
        include_summaries=False,
        rrf_k=2,
        gate=0,
        coverage_factor=0,
        entity_weight=0.5,
        bridge_weight=0,
        diversity=0,
    )
    question = "What did Anna give Cleo in Oslo?"
    nodes = rag.retrieve(question, token_budget=10_000, strategy=strategy).nodes
    lists = rag.retrieve(question, token_budget=10_000, strategy=strategy).trace.lists
    assert set(lists) >= {"entities", "title_links"}
    best = min(1, lists["title_links"][0].figures["score"])
    weights = {"relevance": 1, "entities": 0.5, "title_links": best}
    relevance = {one.node_id: one.figures["relevance"] for one in lists["relevance"]}
    boosted, fused = dict(relevance), dict.fromkeys(relevance, 0.0)
    for name, weight in weights.items():
        for one in lists[name]:
            fused[one.node_id] += weight / (2 + one.rank)
            boosted[one.node_id] *= 1 if name == "relevance" else 1 + weight * 3 / (2 + one.rank)
    snapshot = rag._session.snapshot()
    for node in nodes:
        row = np.asarray([snapshot.nodes.row_of[node.node_id]])
        share = 0.7 / snapshot.dense.window_counts(row)[0]
        expected = (1 - share) * boosted[node.node_id] / max(boosted.values())
        expected += share * fused[node.node_id] / max(fused.values())
        assert node.score == pytest.approx(expected, rel=1e-3)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("budget", [30, 60, 120, 240])
def test_a_budget_is_mostly_used_if_there_is_enough_text(open_index, budget):
    rag = open_index(embedder=HashingEmbedder(max_tokens=16), strategy=HybridStrategy())
    rag.add(SourceDocument("d", " ".join(f"Point {n} says word{n} twice." for n in range(60))))
    used = ApproximateTokenCounter().count(rag.retrieve("word7", token_budget=budget).context())
    assert 0.6 * budget < used <= budget


@pytest.mark.parametrize("expand", ["children", "leaves"])
def test_expansion_packs_complete_nodes(open_index, expand):
    rag = open_index(embedder=HashingEmbedder(max_tokens=6), strategy=HybridStrategy())
    rag.add(SourceDocument("d", STORY))
    result = rag.retrieve("who sailed", token_budget=1000, expand=expand, mode="global")
    assert {node.spans for node in result.nodes} == {
        (Span(node.start, node.end),) for node in result.nodes
    }
    assert len(result.nodes) == rag.stats().chunks


def test_filled_nodes_fit_the_budget_without_duplicates(open_index):
    rag = open_index(embedder=HashingEmbedder(max_tokens=6), strategy=HybridStrategy())
    rag.add(SourceDocument("d", STORY))
    for budget in (1, 10, 30, 80, 1000):
        result = rag.retrieve("Emil?", mode="local", token_budget=budget, fill=True)
        assert ApproximateTokenCounter().count(result.context()) <= budget
        assert_windows([node for node in result.nodes if node.level == 0], lambda _: STORY)


ORDERS = [
    f"{2000 + n};{('Ann', 'Bob', 'Cid')[n % 3]} Dahl;{n * 7 % 90},{n % 10}0;open"
    for n in range(120)
]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("number", [2003, 2031, 2032, 2058, 2119])
def test_real_vectors_find_the_row_of_a_plain_number(number, orders):
    context = orders.retrieve(f"What is the amount of order {number}?", token_budget=400).context()
    assert ORDERS[number - 2000] in context
    assert "order;customer;amount;state" in context


@pytest.fixture(scope="module")
def orders(real_embedder):
    with E2GraphRAG.open(":memory:", embedder=real_embedder) as rag:
        rag.add(SourceDocument("orders", "\n".join(["order;customer;amount;state", *ORDERS])))
        yield rag
