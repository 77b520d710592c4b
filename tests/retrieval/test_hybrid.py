"""`HybridStrategy`: its lists, its gate, its fusion and its reranker, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    Mention,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.errors import EmbeddingError, InvalidInputError, RerankError
from fakes import STORY, CountingLLM, numbered
from strategies import FakeEmbedder

HYBRID = HybridStrategy()
ONLY_ENTITIES = HybridStrategy(dense=0, words=0, bridges=0)
QUESTIONS = ("What did Anna give Cleo?", "Emil?", "what was sold at night", "Zoe and Yann?")
FIRST = {"dense", "words", "relevance"}
SEA = "Red fish swam. Old nets tore. Ships went by. The moon rose. Gulls cried on. It was calm."
SENTENCE_WINDOWS = {
    # Without a tokenizer of the model's own, half of what it reads is filled: four tokens.
    "embedder": HashingEmbedder(max_tokens=8),
    "chunk_size": 12,
    "chunk_overlap": 0,
    "strategy": HYBRID,
}


@pytest.fixture
def rag(open_index, story) -> E2GraphRAG:
    rag = open_index(group_size=2, strategy=HYBRID)
    titled = SourceDocument("third", "It lies in the north. Ships call there.", title="Oslo")
    rag.add([story, SourceDocument("second", STORY.replace("Anna", "Zita")), titled])
    return rag


@pytest.fixture
def index_of(open_index):
    """Index (title, text) as documents d00, d01, ... of one chunk each."""

    def make(*documents, **options) -> E2GraphRAG:
        rag = open_index(**({"strategy": HYBRID, "chunk_size": 100} | options))
        rag.add(
            [SourceDocument(f"d{n:02}", text, title) for n, (title, text) in enumerate(documents)]
        )
        return rag

    return make


def ranks(trace, name):
    return {one.node_id: one.rank for one in trace.lists.get(name, ())}


def found(result):
    return [node.document_id for node in result.nodes]


def everything(rag, **options):
    """Return all nodes, by the paper's strategy, which leaves none out."""
    return rag.retrieve("x", k=999, mode="global", strategy=PaperStrategy(), **options).nodes


def gate_of(rag, question, strategy):
    """Return the gate of a question, told by the score of the best of the list that it weighs."""
    alone = replace(ONLY_ENTITIES, gate=strategy.gate)
    nodes = rag.retrieve(question, k=1, strategy=alone).nodes
    return nodes[0].score * 2 if nodes else 0.0


# The score and the gate.


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"constant": 0},
        {"constant": 60, "entities": 0.5, "bridges": 2},
        {"gate": 0.5, "path_chunks": True},
        {"gate": 0, "dense": 0},
    ],
)
def test_the_score_is_the_sum_of_reciprocal_ranks_names_weighed_by_the_gate(
    rag, question, settings
):
    strategy = HybridStrategy(**settings)
    result = rag.retrieve(question, k=999, strategy=strategy)
    gate = gate_of(rag, question, strategy)
    led = result.trace.lists.get("bridges")
    weights = {
        "relevance": 1,
        "entities": gate * strategy.entities,
        "paths": gate * strategy.entities,
        "bridges": strategy.bridges * (min(1, led[0].figures["value"]) if led else 0),
    }
    in_lists = {name: ranks(result.trace, name) for name in weights}
    assert {n.node_id for n in result.nodes} == set().union(*in_lists.values())
    for node in result.nodes:
        assert node.score == pytest.approx(
            sum(
                weight / (strategy.constant + in_lists[name][node.node_id])
                for name, weight in weights.items()
                if node.node_id in in_lists[name]
            ),
            rel=1e-5,  # figures of the trace are rounded
        )
    scores = [node.score for node in result.nodes]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("held", "chunks", "specific"),
    [  # ln((N + 1) / (df + 1)) / ln((N + 1) / 2), in powers of two
        (1, 7, 2 / 2),
        (3, 7, 1 / 2),
        (7, 7, 0),
        (3, 15, 2 / 3),
        (7, 15, 1 / 3),
        (3, 31, 3 / 4),
        (7, 31, 2 / 4),
        (1, 1, 0),
    ],
)
@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_the_gate_is_the_power_of_how_specific_the_name_is(index_of, held, chunks, specific, power):
    texts = [f"{'Anna' if n < held else 'Bert'} said {n}." for n in range(chunks)]
    rag = index_of(*[(None, text) for text in texts])
    result = rag.retrieve("Anna?", k=99, strategy=replace(ONLY_ENTITIES, gate=power))
    ranked = range(1, held + 1) if specific else ()
    assert [node.score for node in result.nodes] == pytest.approx(
        [specific**power / (1 + rank) for rank in ranked]
    )
    assert result.route == ("local" if specific >= 0.5 else "global")


def test_a_gate_of_power_0_is_open_to_any_name(index_of):
    rag = index_of(*[(None, f"Anna said {n}.") for n in range(7)])
    assert gate_of(rag, "Anna?", HYBRID) == 0
    assert gate_of(rag, "Anna?", HybridStrategy(gate=0)) == 1
    assert gate_of(rag, "Zoe?", HybridStrategy(gate=0)) == 0


def test_the_rarest_of_several_names_opens_the_gate(index_of):
    texts = *["Anna sat."] * 3, *["Bert sat."] * 7, *["x"] * 5
    rag = index_of(*[(None, text) for text in texts])
    assert gate_of(rag, "Anna?", HYBRID) == pytest.approx(4 / 9)
    assert gate_of(rag, "Bert?", HYBRID) == pytest.approx(1 / 9)
    assert gate_of(rag, "Bert and Anna?", HYBRID) == pytest.approx(4 / 9)
    reason = rag.retrieve("Bert and Anna?").trace.reason
    assert reason == "its names are 0.67 specific: entities count 0.44"


def test_two_names_that_share_chunks_are_as_specific_as_those(index_of):
    texts = "Anna met Bert.", *["Anna sat.", "Bert sat."] * 6, "x", "x"
    rag = index_of(*[(None, text) for text in texts])
    assert gate_of(rag, "Anna?", HYBRID) == gate_of(rag, "Bert?", HYBRID)
    assert gate_of(rag, "Anna?", HYBRID) == pytest.approx(1 / 9)
    assert gate_of(rag, "Anna and Bert?", HYBRID) == pytest.approx(1)


def test_chunks_under_a_title_that_is_the_name_hold_it_too(index_of):
    texts = [("Anna", "She sat."), ("Anna (singer)", "She ran."), (None, "Anna rose.")]
    rag = index_of(*texts, *[(None, "x")] * 4)
    assert gate_of(rag, "Anna?", HybridStrategy(gate=1)) == pytest.approx(1 / 2)


def test_under_a_filter_only_chunks_that_pass_count_for_the_gate(index_of):
    names = ["Anna" if n in {0, 9, 10} else "Bert" for n in range(15)]
    rag = index_of(*[(None, f"{name} {n}.") for n, name in enumerate(names)])

    def among(*numbers):
        where = {"document_id": {"$in": [f"d{n:02}" for n in numbers]}}
        return rag.retrieve("Anna?", where=where, strategy=replace(ONLY_ENTITIES, gate=1))

    assert among(*range(15)).nodes[0].score == pytest.approx(2 / 3 / 2)
    assert among(*range(7)).nodes[0].score == pytest.approx(2 / 2 / 2)
    assert among(0, 9, 10, 11, 12, 13, 14).nodes[0].score == pytest.approx(1 / 2 / 2)
    assert among(1, 2, 3).nodes == ()
    assert among(1, 2, 3).route == "global"


def test_a_name_linked_by_a_part_opens_the_gate_as_far_as_it_is_sure(index_of):
    class Whole:
        fingerprint = "fake:whole"

        def extract(self, texts):
            return [[[Mention(t[:-1], 0, len(t) - 1, "PERSON")]] for t in texts]

    rag = index_of(*[(None, f"{name}.") for name in ("Anna", *"bcdefg")], extractor=Whole())
    [link] = rag.retrieve("Anna Zed?").trace.links
    assert (link.entity, link.how, link.score) == ("anna", "part", 0.5)
    assert gate_of(rag, "Anna?", HybridStrategy(gate=1)) == pytest.approx(1)
    assert gate_of(rag, "Anna Zed?", HybridStrategy(gate=1)) == pytest.approx(0.5)


def test_a_noun_is_left_to_the_words_unless_a_title_makes_it_a_subject(index_of):
    class Nouns:
        fingerprint = "fake:nouns"

        def extract(self, texts):
            at = [text.find("tomato") for text in texts]
            return [[[Mention("tomato", a, a + 6)] if a >= 0 else []] for a in at]

    documents = [(None, "A tomato is red."), (None, "The sea."), (None, "The sky.")]
    for title, linked in ((None, []), ("Tomato (plant)", ["tomato"])):
        rag = index_of(*documents, (title, "It grows."), extractor=Nouns())
        trace = rag.retrieve("who grew a tomato?").trace
        assert [link.entity for link in trace.links] == linked
        assert trace.unlinked == ()
        assert ("entities" in trace.lists) == bool(linked)


def test_without_a_name_of_the_index_the_entity_list_is_not_there(rag):
    trace = rag.retrieve("Zoe and Yann?").trace
    assert "entities" not in trace.lists
    assert trace.reason == "no name of the question is in the index"
    assert trace.unlinked == ("Zoe", "Yann")


# What is in each list.


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        ({"dense": 0}, {"dense"}),
        ({"words": 0}, {"words"}),
        ({"dense": 0, "words": 0}, FIRST | {"bridges"}),  # what they lead to fits nothing
        ({"entities": 0}, {"entities"}),
        ({"bridges": 0}, {"bridges"}),
        ({"sources": 0}, {"bridges"}),
    ],
)
def test_a_weight_of_nothing_leaves_its_list_out(rag, settings, gone):
    question = "Where is Oslo and what did Anna give Cleo?"
    lists = rag.retrieve(question).trace.lists
    assert set(lists) == FIRST | {"entities", "bridges"}
    less = rag.retrieve(question, strategy=HybridStrategy(**settings)).trace.lists
    assert set(less) == set(lists) - gone


def test_with_no_list_at_all_there_is_no_answer(rag):
    nothing = HybridStrategy(dense=0, words=0, entities=0, bridges=0)
    assert rag.retrieve(QUESTIONS[0], strategy=nothing).nodes == ()


def test_a_summary_is_in_the_first_lists_unless_it_is_left_out(rag):
    level = {node.node_id: node.level for node in everything(rag)}
    lists = rag.retrieve("Anna and the map", k=99).trace.lists
    assert all(any(level[one.node_id] for one in lists[name]) for name in FIRST)
    for name in ("entities", "bridges"):
        assert not any(level[one.node_id] for one in lists[name])
    leaves = rag.retrieve("Anna and the map", k=99, strategy=HybridStrategy(summaries=False))
    assert not any(level[one.node_id] for ranked in leaves.trace.lists.values() for one in ranked)
    assert not any(node.level for node in leaves.nodes)


def test_a_node_is_as_relevant_as_its_best_window_and_says_where_that_is(open_index):
    rag = open_index(**SENTENCE_WINDOWS)
    rag.add(SourceDocument("d", SEA))
    result = rag.retrieve("when the moon rose", k=9)
    best = {n.position: n.best for n in result.nodes if n.level == 0}
    assert SEA[slice(*best[1])] == "The moon rose."
    assert SEA[slice(*best[0])] == "Ships went by."  # next to it
    assert all(node.best is None for node in result.nodes if node.level)


def test_a_document_whose_title_alone_is_the_name_is_found_by_it(rag):
    [first, *_] = rag.retrieve("Oslo?", mode="local").trace.lists["entities"]
    assert first.node_id in {n.node_id for n in everything(rag) if n.document_id == "third"}


def test_a_name_that_no_text_has_is_found_by_its_title(index_of):
    rag = index_of(("Thule (island)", "It lies in the north."), (None, "Anna sat."))
    result = rag.retrieve("Where is Thule?", mode="local")
    assert [link.entity for link in result.trace.links] == ["thule"]
    assert found(result) == ["d00"]
    assert result.nodes[0].reasons == ("entities: rank 1",)


@pytest.mark.parametrize(
    ("name", "how"), [("Bennet", "alias"), ("Eb", "alias"), ("Elisabethbennet", "similar")]
)
def test_aliases_link_surnames_initials_and_misspellings(index_of, name, how):
    documents = ("Elizabeth Bennet", "She walked."), ("Elizabethbennet", "x"), (None, "Anna sat.")
    rag = index_of(*(documents if how == "similar" else documents[::2]))
    trace = rag.retrieve(f"Who is {name}?").trace
    assert [link.how for link in trace.links] == [how]
    assert "entities" in trace.lists
    plain = rag.retrieve(f"Who is {name}?", strategy=HybridStrategy(aliases=False)).trace
    assert plain.links == ()
    assert name in plain.unlinked


def test_path_chunks_are_a_list_of_their_own_where_they_are_asked_for(index_of):
    texts = "Anna met Bert.", "Bert met Cleo.", "Cleo met Dora.", "Anna sat.", "Dora sat."
    rag = index_of(*[(None, text) for text in texts])
    assert "paths" not in rag.retrieve("Anna and Cleo?").trace.lists
    strategy = HybridStrategy(path_chunks=True)
    result = rag.retrieve("Anna and Cleo?", strategy=strategy)
    ids = {n.node_id: n.document_id for n in everything(rag)}
    listed = result.trace.lists["paths"]
    assert [ids[one.node_id] for one in listed] == ["d00", "d01"]
    assert [one.figures for one in listed] == [{"closeness": 0.5}] * 2
    assert "paths: rank 1" in next(n for n in result.nodes if n.document_id == "d00").reasons
    assert "paths" not in rag.retrieve("Anna?", strategy=strategy).trace.lists


BRIDGED = [
    (None, "The mayor of the town in the novel was Anna Bloom, whom Bert admired."),
    ("Bert", "He was born in a village by the sea."),
    (None, "The people of the town like the novel."),
]


def test_a_title_named_in_the_best_passage_leads_to_its_document(index_of):
    rag = index_of(*BRIDGED)
    question, strategy = "the mayor of the town in the novel", HybridStrategy(sources=1)
    result = rag.retrieve(question, strategy=strategy)
    ids = {n.node_id: n.document_id for n in result.nodes}
    assert [ids[one.node_id] for one in result.trace.lists["bridges"]] == ["d01"]
    assert set(found(result)[:2]) == {"d00", "d01"}
    without = rag.retrieve(question, strategy=HybridStrategy(bridges=0))
    assert found(without)[:2] == ["d00", "d02"]


def test_the_title_of_the_best_passage_leads_to_those_that_name_it(index_of):
    rag = index_of(
        ("Bert", "The mayor of the town in the novel was admired."),
        (None, "Anna is a sister of Bert and the like."),
        (None, "Other people like other towns and other novels."),
    )
    question, strategy = "the mayor of the town in the novel", HybridStrategy(sources=1)
    result = rag.retrieve(question, strategy=strategy)
    ids = {n.node_id: n.document_id for n in result.nodes}
    assert [ids[one.node_id] for one in result.trace.lists["bridges"]] == ["d01"]


def test_bridges_lead_from_as_many_of_the_best_chunks_as_are_asked_for(index_of):
    rag = index_of(
        (None, "The town in the novel."), (None, "The town of Bert."), ("Bert", "The sea.")
    )
    question = "the town in the novel"
    assert "bridges" in rag.retrieve(question, strategy=HybridStrategy(sources=2)).trace.lists
    assert "bridges" not in rag.retrieve(question, strategy=HybridStrategy(sources=1)).trace.lists


def test_a_filter_holds_in_every_list(rag):
    result = rag.retrieve(QUESTIONS[0], k=50, where={"kind": "tale"})
    assert set(found(result)) == {"story"}
    of_story = {node.node_id for node in everything(rag, where={"kind": "tale"})}
    assert set(result.trace.lists) >= FIRST | {"entities"}
    for ranked in result.trace.lists.values():
        assert {one.node_id for one in ranked} <= of_story


def test_no_bridge_leads_across_a_filter(index_of):
    rag = index_of(*BRIDGED)
    question = "the mayor of the town in the novel"
    result = rag.retrieve(question, where={"document_id": {"$in": ["d00", "d02"]}})
    assert "bridges" not in result.trace.lists
    assert set(found(result)) <= {"d00", "d02"}


def test_a_filter_that_lets_nothing_through_leaves_no_list(rag):
    for mode in ("auto", "local", "global"):
        result = rag.retrieve(QUESTIONS[0], mode=mode, where={"kind": "none"})
        assert result.nodes == ()
        assert result.trace.lists == {}


# Modes, k and order.


def test_mode_local_asks_entities_alone_with_an_open_gate(rag):
    result = rag.retrieve(QUESTIONS[0], k=99, mode="local")
    assert set(result.trace.lists) == {"entities"}
    in_list = ranks(result.trace, "entities")
    assert [n.node_id for n in result.nodes] == sorted(in_list, key=in_list.get)
    for rank, node in enumerate(result.nodes, 1):
        assert (node.level, node.route, node.best) == (0, "local", None)
        assert node.score == pytest.approx(1 / (1 + rank))
    assert (result.route, result.trace.reason) == ("local", "asked for")
    paths = rag.retrieve(QUESTIONS[0], mode="local", strategy=HybridStrategy(path_chunks=True))
    assert set(paths.trace.lists) == {"entities", "paths"}


@pytest.mark.parametrize("budget", [None, 30])
def test_mode_local_asks_for_no_vector(open_index, story, budget):
    class Mute(HashingEmbedder):
        def embed_query(self, text):
            raise AssertionError("asked for a vector")

    rag = open_index(embedder=Mute(), strategy=HYBRID)
    rag.add(story)
    assert rag.retrieve(QUESTIONS[0], mode="local", token_budget=budget).nodes
    with pytest.raises(EmbeddingError, match="asked for a vector"):
        rag.retrieve(QUESTIONS[0], token_budget=budget)


@pytest.mark.parametrize("question", ["Zoe?", "what was sold at night"])
def test_mode_local_has_no_answer_without_a_name(rag, question):
    result = rag.retrieve(question, mode="local")
    assert result.nodes == ()
    assert result.trace.lists == {}
    assert result.route == "local"


def test_mode_global_asks_no_entity_and_follows_no_bridge(rag):
    result = rag.retrieve(QUESTIONS[0], k=99, mode="global")
    assert set(result.trace.lists) == FIRST
    assert (result.trace.links, result.trace.mentions) == ((), ())
    assert {node.route for node in result.nodes} == {result.route} == {"global"}


@pytest.mark.parametrize("mode", ["auto", "local", "global"])
def test_k_cuts_the_answer_and_the_trace_says_what_fell_out(rag, mode):
    whole = rag.retrieve(QUESTIONS[0], k=999, mode=mode)
    assert whole.trace.cuts["k"] == 0
    for k in (1, 2, len(whole.nodes) - 1):
        part = rag.retrieve(QUESTIONS[0], k=k, mode=mode)
        assert part.nodes == whole.nodes[:k]
        assert part.trace.cuts["k"] == len(whole.nodes) - k
        assert part.trace.lists == whole.trace.lists


@pytest.mark.parametrize("question", ["Anna?", "the map", "Anna and the map"])
def test_ties_go_to_the_earlier_document_whatever_came_first(open_index, question):
    documents = [SourceDocument(name, "Anna had the map.") for name in "abc"]
    for order in permutations(documents):
        rag = open_index(strategy=HYBRID)
        rag.add(list(order))
        assert found(rag.retrieve(question)) == ["a", "b", "c"]


def test_answers_are_the_same_from_a_file_opened_again(open_index, story, tmp_path):
    options = {"group_size": 2, "strategy": HYBRID}
    asked = [(q, budget) for q in QUESTIONS for budget in (None, 60)]

    def answers(rag):
        return [rag.retrieve(question, token_budget=budget).nodes for question, budget in asked]

    with open_index(tmp_path / "a.e2g", **options) as rag:
        rag.add([story, SourceDocument("titled", "It is old.", title="Emil")])
        expected = answers(rag)
    for _ in range(2):  # once built anew, once from the snapshot
        with open_index(tmp_path / "a.e2g", strategy=HYBRID) as rag:
            assert answers(rag) == expected


def test_a_strategy_of_one_call_stands_in_for_the_indexes_own(rag):
    assert rag.retrieve("Emil?").trace.strategy == "hybrid"
    assert rag.retrieve("Emil?", strategy=PaperStrategy()).trace.strategy == "paper"


# The reranker.


class Shortest:
    """Prefers short texts, and keeps what it was given."""

    def __init__(self):
        self.given = []

    def rerank(self, question, texts):
        self.given.append((question, list(texts)))
        return [-len(text) for text in texts]


def test_a_reranker_orders_the_best_and_leaves_the_others_after_them(index_of):
    rag = index_of(*[(None, f"The map {'x ' * (9 - n)}{n}.") for n in range(9)])
    plain = rag.retrieve("the map", k=99)
    reranker = Shortest()
    strategy = HybridStrategy(reranker=reranker, reranked=5)
    result = rag.retrieve("the map", k=99, strategy=strategy)
    [(question, texts)] = reranker.given
    assert question == "the map"
    assert texts == [node.text for node in plain.nodes[:5]]
    head = sorted(plain.nodes[:5], key=lambda node: len(node.text))
    assert found(result) == [n.document_id for n in (*head, *plain.nodes[5:])]
    assert [node.score for node in result.nodes] == [node.score for node in plain.nodes]
    ids = [one.node_id for one in result.trace.lists["reranked"]]
    assert ids == [node.node_id for node in head]
    place = plain.nodes.index(head[0]) + 1
    assert result.nodes[0].reasons[-1] == f"reranked: {-len(head[0].text):.4f}, rank {place} before"


def test_a_reranker_reads_thirty_and_lifts_what_k_would_have_cut(index_of):
    rag = index_of(*[(None, f"map {'the ' * (n % 31)}{n}") for n in range(40)])
    plain = rag.retrieve("the map", k=99)
    assert len(plain.nodes) > 30
    reranker = Shortest()
    result = rag.retrieve("the map", k=1, strategy=HybridStrategy(reranker=reranker))
    assert len(reranker.given[0][1]) == 30
    assert result.nodes[0].text == min((n.text for n in plain.nodes[:30]), key=len)
    assert result.trace.cuts["k"] == len(plain.nodes) - 1


def test_a_reranker_reads_the_title_before_the_text(index_of):
    rag = index_of(("A Map", "It is old."), (None, "The map is new."))
    reranker = Shortest()
    rag.retrieve("old map", strategy=HybridStrategy(reranker=reranker))
    assert sorted(reranker.given[0][1]) == ["A Map. It is old.", "The map is new."]


def test_with_a_budget_the_reranker_reads_the_parts_that_are_packed(open_index):
    rag = open_index(**SENTENCE_WINDOWS | {"embedder": HashingEmbedder(max_tokens=12)})
    rag.add(SourceDocument("d", SEA, title="Sea"))
    reranker = Shortest()
    strategy = HybridStrategy(reranker=reranker)
    result = rag.retrieve("the moon", token_budget=8, strategy=strategy)
    [(_, given)] = reranker.given
    assert sorted(given) == sorted(f"Sea. {part}." for part in SEA[:-1].split(". "))
    assert result.nodes[0].text == "It was calm."


def test_ties_of_a_reranker_keep_the_order_before(rag):
    class Alike:
        def rerank(self, question, texts):
            return [1.0] * len(texts)

    plain = rag.retrieve(QUESTIONS[0], k=99)
    same = rag.retrieve(QUESTIONS[0], k=99, strategy=HybridStrategy(reranker=Alike()))
    assert [(n.node_id, n.score) for n in same.nodes] == [(n.node_id, n.score) for n in plain.nodes]


@pytest.mark.parametrize(
    "scores", [[], [1.0], None, "no", [float("nan")] * 3, [[1.0, 2.0]] * 3, ["a", "b", "c"]]
)
def test_a_reranker_that_returns_no_number_for_each_text_is_named(index_of, scores):
    class Wrong:
        def rerank(self, question, texts):
            return scores

    rag = index_of(*[(None, f"map {n}") for n in range(3)])
    with pytest.raises(RerankError, match=r"Wrong\.rerank\(\)"):
        rag.retrieve("map", strategy=HybridStrategy(reranker=Wrong()))


def test_what_a_reranker_raises_surfaces_as_an_error_of_this_package(rag):
    class Broken:
        def rerank(self, question, texts):
            raise OSError("out of order")

    strategy = HybridStrategy(reranker=Broken())
    with pytest.raises(RerankError, match=r"Broken\.rerank\(\) failed.*out of order"):
        rag.retrieve("Anna", strategy=strategy)
    assert rag.retrieve("Zoe?", mode="local", strategy=strategy).nodes == ()  # never asked


# Settings and edges.


@pytest.mark.parametrize(
    "settings",
    [
        {"constant": -1},
        {"constant": float("nan")},
        {"gate": "2"},
        {"gate": True},
        {"gate": -0.1},
        {"dense": 1001},
        {"words": -1},
        {"entities": None},
        {"bridges": float("inf")},
        {"rarity": 11},
        {"sharpness": 0},
        {"share": 1.01},
        {"sources": 2.5},
        {"damping": 1.5},
        {"steps": 0},
        {"steps": 1.0},
        {"reranked": 0},
        {"reranked": 1.5},
        {"reranker": object()},
        {"reranker": Shortest},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        HybridStrategy(**settings)


@pytest.mark.parametrize(
    "documents",
    [
        [],
        [(None, " ")],
        [(None, "Anna.")],
        [("Anna", "Anna.")],
        [(None, "?! ..."), ("—", "— — —")],
        [("Anna", f"Anna sat {n}.") for n in range(4)],
        [(None, "同じ文。"), ("アンナ", "😀 😁")],
    ],
    ids=["empty", "blank", "one", "its own title", "no words", "same titles", "no spaces"],
)
@pytest.mark.parametrize("mode", ["auto", "local", "global"])
def test_an_odd_index_is_answered(index_of, documents, mode):
    rag = index_of(*documents)
    nodes = {node.node_id for node in everything(rag)}
    for question in ("Anna?", "?", "文"):
        for budget in (None, 1, 50):
            result = rag.retrieve(question, mode=mode, k=99, token_budget=budget)
            assert {node.node_id for node in result.nodes} <= nodes
            assert all(math.isfinite(node.score) for node in result.nodes)


def test_a_chunk_that_the_first_lists_do_not_reach_is_found_by_its_name(index_of):
    near = {f"filler {n}": [0.9 - n / 1000, 0.3] for n in range(205)}
    vectors = near | {"Zedekiah sat.": [-1, 0]}
    rag = index_of(*[(None, text) for text in vectors], embedder=FakeEmbedder(vectors=vectors))
    result = rag.retrieve("Zedekia?", k=3)
    assert len(result.trace.lists["dense"]) == 200
    [named] = [node for node in result.nodes if node.text == "Zedekiah sat."]
    assert named.best is None
    assert named.reasons == ("entities: rank 1",)


def test_leaves_take_a_summarys_place_and_keep_no_window_of_it(open_index):
    rag = open_index(summarizer=CountingLLM(), strategy=HYBRID, chunk_size=4, chunk_overlap=0)
    rag.add(SourceDocument("d", " ".join(f"Item {n} ends." for n in range(12))))
    result = rag.retrieve("digest of it", k=12, mode="global", expand="leaves")
    assert [node.level for node in result.nodes] == [0] * 12
    assert result.nodes[0].reasons[0].startswith("under summary ")
    assert result.nodes[0].best is None


def test_more_nodes_than_a_list_holds_are_returned_where_asked_for(open_index):
    rag = open_index(chunk_size=4, chunk_overlap=0)
    rag.add(numbered(400))
    assert len(rag.retrieve("Which item ends?", k=450).nodes) == 450
    assert len(rag.retrieve("Which item ends?", k=10_000).nodes) == 400 + 80 + 16 + 4
