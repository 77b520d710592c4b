"""`HybridStrategy`: lists, gate, fusion and reranking, computed by hand."""

from __future__ import annotations

import math
import re
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
from e2graphrag_integrations.types import NOUN
from fakes import STORY, CountingLLM, numbered
from strategies import FakeEmbedder

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

HYBRID = HybridStrategy()
ONLY_ENTITIES = HybridStrategy(dense_weight=0, bm25_weight=0, title_link_weight=0, diversity=0)
QUESTIONS = ("What did Anna give Cleo?", "Emil?", "what was sold at night", "Zoe and Yann?")
RELEVANCE_LISTS = {"dense", "bm25", "relevance"}
SEA = "Red fish swam. Old nets tore. Ships went by. The moon rose. Gulls cried on. It was calm."
SENTENCE_WINDOWS = {
    # A model without its own tokenizer gets windows of half its limit: four tokens.
    "embedder": HashingEmbedder(max_tokens=8),
    "chunk_size": 12,
    "chunk_overlap": 0,
    "strategy": HYBRID,
}


@pytest.fixture
def rag(open_index, story) -> E2GraphRAG:
    rag = open_index(group_size=2, strategy=HYBRID)
    titled = SourceDocument("third", "It lies in the north. Ships call there.", title="Oslo")
    rag.add(
        [
            story,
            SourceDocument("second", STORY.replace("Anna", "Zita").replace(".", " then.")),
            titled,
        ]
    )
    return rag


@pytest.fixture
def index_of(open_index):
    """Index (title, text) pairs as documents d00, d01, ... with one chunk each."""

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


def all_nodes(rag, **options):
    """Return all nodes: the paper's strategy ranks every node in mode global."""
    return rag.retrieve("x", k=999, mode="global", strategy=PaperStrategy(), **options).nodes


def graph_weight(rag, question, strategy):
    """Return the weight of the entity list: its best node scores weight / (1 + 1)."""
    factor = strategy.coverage_factor
    only_entities = replace(ONLY_ENTITIES, gate=strategy.gate, coverage_factor=factor)
    nodes = rag.retrieve(question, k=1, strategy=only_entities).nodes
    return nodes[0].score * 2 if nodes else 0.0


# Scores and the gate.


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rrf_k": 0},
        {"rrf_k": 60, "entity_weight": 0.5, "title_link_weight": 2},
        {"gate": 0.5, "use_path_chunks": True},
        {"gate": 0, "dense_weight": 0},
    ],
)
def test_the_score_is_the_weighted_sum_of_reciprocal_ranks(rag, question, settings):
    strategy = HybridStrategy(diversity=0, bridge_weight=0, **settings)
    result = rag.retrieve(question, k=999, strategy=strategy)
    entity_weight = graph_weight(rag, question, strategy) * strategy.entity_weight
    links = result.trace.lists.get("title_links")
    best_link = min(1, links[0].figures["score"]) if links else 0
    weights = {
        "relevance": 1,
        "entities": entity_weight,
        "paths": entity_weight,
        "title_links": strategy.title_link_weight * best_link,
    }
    rank_in = {name: ranks(result.trace, name) for name in weights}
    assert {n.node_id for n in result.nodes} == set().union(*rank_in.values())
    for node in result.nodes:
        assert node.score == pytest.approx(
            sum(
                weight / (strategy.rrf_k + rank_in[name][node.node_id])
                for name, weight in weights.items()
                if node.node_id in rank_in[name]
            ),
            rel=1e-5,  # The trace rounds its scores.
        )
    scores = [node.score for node in result.nodes]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("doc_freq", "chunks", "specificity"),
    [  # ln((N + 1) / (df + 1)) / ln((N + 1) / 2); N + 1 and df + 1 are powers of two
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
@pytest.mark.parametrize("gate", [0.5, 1, 2])
def test_the_graph_weight_is_the_specificity_to_the_power_of_the_gate(
    index_of, doc_freq, chunks, specificity, gate
):
    texts = [f"{'Anna' if n < doc_freq else 'Bert'} said {n}." for n in range(chunks)]
    rag = index_of(*[(None, text) for text in texts])
    result = rag.retrieve("Anna?", k=99, strategy=replace(ONLY_ENTITIES, gate=gate))
    expected_ranks = range(1, doc_freq + 1) if specificity else ()
    assert [node.score for node in result.nodes] == pytest.approx(
        [specificity**gate / (1 + rank) for rank in expected_ranks]
    )
    assert result.route == "local"


def test_gate_0_gives_full_weight_to_any_linked_name(index_of):
    rag = index_of(*[(None, f"Anna said {n}.") for n in range(7)])
    assert graph_weight(rag, "Anna?", HYBRID) == 0
    assert graph_weight(rag, "Anna?", HybridStrategy(gate=0)) == 1
    assert graph_weight(rag, "Zoe?", HybridStrategy(gate=0)) == 0


def test_the_rarest_name_sets_the_graph_weight(index_of):
    texts = *["Anna sat."] * 3, *["Bert sat."] * 7, *["x"] * 5
    rag = index_of(*[(None, text) for text in texts])
    assert graph_weight(rag, "Anna?", HYBRID) == pytest.approx(4 / 9)
    assert graph_weight(rag, "Bert?", HYBRID) == pytest.approx(1 / 9)
    ignoring_coverage = HybridStrategy(coverage_factor=0)
    assert graph_weight(rag, "Bert and Anna?", ignoring_coverage) == pytest.approx(4 / 9)
    trace = rag.retrieve("Bert and Anna?", strategy=ignoring_coverage).trace
    assert "graph: weight 0.44, specificity 0.67" in trace.explain()


def test_the_share_of_the_question_that_names_cover_limits_the_graph_weight(index_of):
    texts = *["Anna sat."] * 3, *["Bert sat."] * 7, *["x"] * 5
    rag = index_of(*[(None, text) for text in texts])
    full = HybridStrategy(coverage_factor=0)
    asked = "Anna sat?", "Did Anna buy red fish in the old market on the second day?"
    weights = [graph_weight(rag, question, full) for question in asked]
    assert weights == [pytest.approx(4 / 9)] * 2
    covered = [graph_weight(rag, question, HYBRID) for question in asked]
    assert covered[0] == pytest.approx(4 / 9)
    assert 0 < covered[1] < covered[0] / 2


def test_two_names_have_the_specificity_of_their_shared_chunks(index_of):
    texts = "Anna met Bert.", *["Anna sat.", "Bert sat."] * 6, "x", "x"
    rag = index_of(*[(None, text) for text in texts])
    assert graph_weight(rag, "Anna?", HYBRID) == graph_weight(rag, "Bert?", HYBRID)
    assert graph_weight(rag, "Anna?", HYBRID) == pytest.approx(1 / 9)
    assert graph_weight(rag, "Anna and Bert?", HybridStrategy(coverage_factor=0)) == pytest.approx(
        1
    )


def test_chunks_of_a_document_with_the_name_as_title_count_for_its_specificity(index_of):
    texts = [("Anna", "She sat."), ("Anna (singer)", "She ran."), (None, "Anna rose.")]
    rag = index_of(*texts, *[(None, "x")] * 4)
    assert graph_weight(rag, "Anna?", HybridStrategy(gate=1)) == pytest.approx(1 / 2)


def test_only_allowed_chunks_count_for_the_specificity(index_of):
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


def test_the_link_score_scales_the_specificity(index_of):
    class TextAsName:
        fingerprint = "fake:text-as-name"

        def extract(self, texts):
            return [[[Mention(t[:-1], 0, len(t) - 1, "PERSON")]] for t in texts]

    rag = index_of(*[(None, f"{name}.") for name in ("Anna", *"bcdefg")], extractor=TextAsName())
    [link] = rag.retrieve("Anna Zed?").trace.links
    assert (link.entity, link.how, link.score) == ("anna", "part", 0.5)
    assert graph_weight(rag, "Anna?", HybridStrategy(gate=1)) == pytest.approx(1)
    assert graph_weight(rag, "Anna Zed?", HybridStrategy(gate=1)) == pytest.approx(0.5)


def test_a_noun_is_linked_only_if_it_is_a_title(index_of):
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


def test_a_noun_is_not_linked_to_a_name_of_the_same_spelling(index_of):
    class Words:
        fingerprint = "fake:words"

        def extract(self, texts):
            found = [re.search("[Pp]erson", text) for text in texts]
            return [[[Mention(m[0], *m.span(), _label(m[0]))] if m else []] for m in found]

    def _label(word):
        return "NAME" if word[0].isupper() else NOUN

    documents = [(None, "They heard Person at night."), (None, "The sea."), (None, "The sky.")]
    rag = index_of(*documents, extractor=Words())
    assert rag.retrieve("which person saw the sea?").trace.links == ()
    assert [one.entity for one in rag.retrieve("Who saw Person?").trace.links] == ["person"]
    titled = index_of(*documents, ("Person", "It plays."), extractor=Words())
    assert [one.entity for one in titled.retrieve("which person?").trace.links] == ["person"]


def test_without_a_linked_name_there_is_no_entity_list(rag):
    trace = rag.retrieve("Zoe and Yann?").trace
    assert "entities" not in trace.lists
    assert trace.reason == "the index knows no name or noun of the question"
    assert trace.unlinked == ("Zoe", "Yann")


# Contents of the lists.


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"dense_weight": 0}, {"dense"}),
        ({"bm25_weight": 0}, {"bm25"}),
        # Without relevance, every title link scores 0.
        ({"dense_weight": 0, "bm25_weight": 0}, RELEVANCE_LISTS | {"title_links"}),
        ({"entity_weight": 0}, {"entities"}),
        ({"title_link_weight": 0}, {"title_links"}),
        ({"title_link_sources": 0}, {"title_links"}),
        ({"bridge_weight": 0}, {"bridges"}),
    ],
)
def test_weight_0_leaves_out_a_list(rag, settings, missing):
    question = "Where is Oslo and what did Anna give Cleo?"
    lists = rag.retrieve(question).trace.lists
    assert set(lists) == RELEVANCE_LISTS | {"entities", "title_links", "bridges"}
    fewer = rag.retrieve(question, strategy=HybridStrategy(**settings)).trace.lists
    assert set(fewer) == set(lists) - missing


def test_without_any_list_the_result_is_empty(rag):
    strategy = replace(ONLY_ENTITIES, entity_weight=0)
    assert rag.retrieve(QUESTIONS[0], strategy=strategy).nodes == ()


def test_summaries_are_in_the_relevance_lists_unless_excluded(rag):
    level = {node.node_id: node.level for node in all_nodes(rag)}
    lists = rag.retrieve("Anna and the map", k=99).trace.lists
    assert all(any(level[one.node_id] for one in lists[name]) for name in RELEVANCE_LISTS)
    for name in ("entities", "title_links"):
        assert not any(level[one.node_id] for one in lists[name])
    leaves = rag.retrieve(
        "Anna and the map", k=99, strategy=HybridStrategy(include_summaries=False)
    )
    assert not any(level[one.node_id] for ranked in leaves.trace.lists.values() for one in ranked)
    assert not any(node.level for node in leaves.nodes)


def test_a_node_reports_the_span_of_its_most_relevant_window(open_index):
    rag = open_index(**SENTENCE_WINDOWS)
    rag.add(SourceDocument("d", SEA))
    result = rag.retrieve("when the moon rose", k=9)
    best = {n.position: n.best_span for n in result.nodes if n.level == 0}
    assert SEA[slice(*best[1])] == "The moon rose."
    assert SEA[slice(*best[0])] == "Ships went by."  # The window next to the best one.
    assert all(node.best_span is None for node in result.nodes if node.level)


def test_a_document_is_found_by_a_name_that_only_its_title_contains(rag):
    [first, *_] = rag.retrieve("Oslo?", mode="local").trace.lists["entities"]
    assert first.node_id in {n.node_id for n in all_nodes(rag) if n.document_id == "third"}


def test_a_name_that_no_text_contains_links_to_a_title(index_of):
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
    plain = rag.retrieve(f"Who is {name}?", strategy=HybridStrategy(use_aliases=False)).trace
    assert plain.links == ()
    assert name in plain.unlinked


def test_use_path_chunks_adds_a_list_of_chunks_along_the_path(index_of):
    texts = "Anna met Bert.", "Bert met Cleo.", "Cleo met Dora.", "Anna sat.", "Dora sat."
    rag = index_of(*[(None, text) for text in texts])
    assert "paths" not in rag.retrieve("Anna and Cleo?").trace.lists
    strategy = HybridStrategy(use_path_chunks=True)
    result = rag.retrieve("Anna and Cleo?", strategy=strategy)
    ids = {n.node_id: n.document_id for n in all_nodes(rag)}
    listed = result.trace.lists["paths"]
    assert [ids[one.node_id] for one in listed] == ["d00", "d01"]
    assert [one.figures for one in listed] == [{"closeness": 0.5}] * 2
    assert "paths: rank 1" in next(n for n in result.nodes if n.document_id == "d00").reasons
    assert "paths" not in rag.retrieve("Anna?", strategy=strategy).trace.lists


TWO_HOPS = [
    (None, "The mayor of the town in the novel was Anna Bloom, whom Bert admired."),
    ("Bert", "He was born in a village by the sea."),
    (None, "The people of the town like the novel."),
]


def score_of(result, document):
    return next(node.score for node in result.nodes if node.document_id == document)


def test_a_title_in_the_best_chunk_links_to_its_document(index_of):
    rag = index_of(*TWO_HOPS)
    question = "the mayor of the town in the novel"
    strategy = HybridStrategy(title_link_sources=1, bridge_weight=0)
    result = rag.retrieve(question, strategy=strategy)
    ids = {n.node_id: n.document_id for n in result.nodes}
    assert [ids[one.node_id] for one in result.trace.lists["title_links"]] == ["d01"]
    without = rag.retrieve(question, strategy=replace(strategy, title_link_weight=0))
    assert found(without) == ["d00", "d02", "d01"]
    assert score_of(result, "d01") > score_of(without, "d01")


def test_the_title_of_the_best_chunk_links_to_chunks_that_mention_it(index_of):
    rag = index_of(
        ("Bert", "The mayor of the town in the novel was admired."),
        (None, "Anna is a sister of Bert and the like."),
        (None, "Other people like other towns and other novels."),
    )
    question, strategy = "the mayor of the town in the novel", HybridStrategy(title_link_sources=1)
    result = rag.retrieve(question, strategy=strategy)
    ids = {n.node_id: n.document_id for n in result.nodes}
    assert [ids[one.node_id] for one in result.trace.lists["title_links"]] == ["d01"]


def test_title_link_sources_limits_the_chunks_whose_links_are_followed(index_of):
    rag = index_of(
        (None, "The town in the novel."), (None, "The town of Bert."), ("Bert", "The sea.")
    )
    question = "the town in the novel"
    for sources in (1, 2):
        strategy = HybridStrategy(title_link_sources=sources)
        lists = rag.retrieve(question, strategy=strategy).trace.lists
        assert ("title_links" in lists) == (sources == 2)


def test_every_list_respects_the_filter(rag):
    result = rag.retrieve(QUESTIONS[0], k=50, where={"kind": "tale"})
    assert set(found(result)) == {"story"}
    of_story = {node.node_id for node in all_nodes(rag, where={"kind": "tale"})}
    assert set(result.trace.lists) >= RELEVANCE_LISTS | {"entities"}
    for ranked in result.trace.lists.values():
        assert {one.node_id for one in ranked} <= of_story


def test_title_links_respect_the_filter(index_of):
    rag = index_of(*TWO_HOPS)
    question = "the mayor of the town in the novel"
    result = rag.retrieve(question, where={"document_id": {"$in": ["d00", "d02"]}})
    assert "title_links" not in result.trace.lists
    assert set(found(result)) <= {"d00", "d02"}


def test_a_filter_that_allows_no_node_leaves_no_list(rag):
    for mode in ("auto", "local", "global"):
        result = rag.retrieve(QUESTIONS[0], mode=mode, where={"kind": "none"})
        assert result.nodes == ()
        assert result.trace.lists == {}


# Modes, k and order.


def test_mode_local_ranks_by_entities_only_with_full_weight(rag):
    result = rag.retrieve(QUESTIONS[0], k=99, mode="local")
    assert set(result.trace.lists) == {"entities"}
    rank_of = ranks(result.trace, "entities")
    assert [n.node_id for n in result.nodes] == sorted(rank_of, key=rank_of.get)
    for rank, node in enumerate(result.nodes, 1):
        assert (node.level, node.found_by, node.best_span) == (0, "entities", None)
        assert node.score == pytest.approx(1 / (1 + rank))
    assert (result.route, result.trace.reason) == ("local", "the mode is local")
    paths = rag.retrieve(QUESTIONS[0], mode="local", strategy=HybridStrategy(use_path_chunks=True))
    assert set(paths.trace.lists) == {"entities", "paths"}


@pytest.mark.parametrize("budget", [None, 30])
def test_mode_local_does_not_embed_the_query(open_index, story, budget):
    class UnusedEmbedder(HashingEmbedder):
        def embed_query(self, text):
            raise AssertionError("embedded the query")

    rag = open_index(embedder=UnusedEmbedder(), strategy=HYBRID)
    rag.add(story)
    assert rag.retrieve(QUESTIONS[0], mode="local", token_budget=budget).nodes
    with pytest.raises(EmbeddingError, match="embedded the query"):
        rag.retrieve(QUESTIONS[0], token_budget=budget)


@pytest.mark.parametrize("question", ["Zoe?", "what was sold at night"])
def test_mode_local_returns_nothing_without_a_linked_name(rag, question):
    result = rag.retrieve(question, mode="local")
    assert result.nodes == ()
    assert result.trace.lists == {}
    assert result.route == "local"


def test_mode_global_uses_neither_entities_nor_title_links(rag):
    result = rag.retrieve(QUESTIONS[0], k=99, mode="global")
    assert set(result.trace.lists) == RELEVANCE_LISTS
    assert (result.trace.links, result.trace.mentions) == ((), ())
    assert {node.found_by for node in result.nodes} == {"relevance"}
    assert result.route == "global"


@pytest.mark.parametrize("mode", ["auto", "local", "global"])
def test_k_limits_the_nodes_and_the_trace_counts_the_others(rag, mode):
    full = rag.retrieve(QUESTIONS[0], k=999, mode=mode)
    assert full.trace.cuts["k"] == 0
    for k in (1, 2, len(full.nodes) - 1):
        limited = rag.retrieve(QUESTIONS[0], k=k, mode=mode)
        assert limited.nodes == full.nodes[:k]
        assert limited.trace.cuts["k"] == len(full.nodes) - k
        assert limited.trace.lists == full.trace.lists


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("question", ["Anna?", "the map", "Anna and the map"])
def test_ties_are_ordered_by_document_id_and_not_by_time_of_indexing(open_index, question):
    documents = [SourceDocument(name, "Anna had the map.") for name in "abc"]
    for order in permutations(documents):
        rag = open_index(strategy=HYBRID)
        rag.add(list(order))
        [node] = rag.retrieve(question).nodes
        assert (node.document_id, node.also_in) == ("a", ("b", "c"))


@pytest.mark.slow
def test_a_reopened_file_gives_the_same_results(open_index, story, tmp_path):
    options = {"group_size": 2, "strategy": HYBRID}
    cases = [(question, budget) for question in QUESTIONS for budget in (None, 60)]

    def results(rag):
        return [rag.retrieve(question, token_budget=budget).nodes for question, budget in cases]

    with open_index(tmp_path / "a.e2g", **options) as rag:
        rag.add([story, SourceDocument("titled", "It is old.", title="Emil")])
        expected = results(rag)
    for _ in range(2):  # The first opening may build the snapshot, the second one loads it.
        with open_index(tmp_path / "a.e2g", strategy=HYBRID) as rag:
            assert results(rag) == expected


def test_a_strategy_passed_to_retrieve_replaces_that_of_the_index(rag):
    assert rag.retrieve("Emil?").trace.strategy == "hybrid"
    assert rag.retrieve("Emil?", strategy=PaperStrategy()).trace.strategy == "paper"


# The reranker.


class Shortest:
    """Prefers short texts and records its calls."""

    def __init__(self):
        self.calls = []

    def rerank(self, question, texts):
        self.calls.append((question, list(texts)))
        return [-len(text) for text in texts]


def test_a_reranker_reorders_the_top_n_and_leaves_the_others_after_them(index_of):
    rag = index_of(*[(None, f"The map {'x ' * (9 - n)}{n}.") for n in range(9)])
    plain = rag.retrieve("the map", k=99)
    reranker = Shortest()
    strategy = HybridStrategy(reranker=reranker, rerank_top_n=5)
    result = rag.retrieve("the map", k=99, strategy=strategy)
    [(question, texts)] = reranker.calls
    assert question == "the map"
    assert texts == [node.text for node in plain.nodes[:5]]
    head = sorted(plain.nodes[:5], key=lambda node: len(node.text))
    assert found(result) == [n.document_id for n in (*head, *plain.nodes[5:])]
    assert [node.score for node in result.nodes] == [node.score for node in plain.nodes]
    ids = [one.node_id for one in result.trace.lists["reranked"]]
    assert ids == [node.node_id for node in head]
    place = plain.nodes.index(head[0]) + 1
    assert result.nodes[0].reasons[-1] == f"reranked: {-len(head[0].text):.4f}, rank {place} before"


def test_a_reranker_reads_30_texts_and_may_promote_one_below_k(index_of):
    rag = index_of(*[(None, f"map {'the ' * (n % 31)}{n}") for n in range(40)])
    plain = rag.retrieve("the map", k=99)
    assert len(plain.nodes) > 30
    reranker = Shortest()
    result = rag.retrieve("the map", k=1, strategy=HybridStrategy(reranker=reranker))
    assert len(reranker.calls[0][1]) == 30
    assert result.nodes[0].text == min((n.text for n in plain.nodes[:30]), key=len)
    assert result.trace.cuts["k"] == len(plain.nodes) - 1


def test_a_reranker_reads_the_title_before_the_text(index_of):
    rag = index_of(("A Map", "It is old."), (None, "The map is new."))
    reranker = Shortest()
    rag.retrieve("old map", strategy=HybridStrategy(reranker=reranker))
    assert sorted(reranker.calls[0][1]) == ["A Map. It is old.", "The map is new."]


def test_a_reranker_reads_windows_under_a_token_budget(open_index):
    rag = open_index(**SENTENCE_WINDOWS | {"embedder": HashingEmbedder(max_tokens=12)})
    rag.add(SourceDocument("d", SEA, title="Sea"))
    reranker = Shortest()
    strategy = HybridStrategy(reranker=reranker)
    result = rag.retrieve("the moon", token_budget=8, strategy=strategy)
    [(_, texts)] = reranker.calls
    assert sorted(texts) == sorted(f"Sea. {part}." for part in SEA[:-1].split(". "))
    assert result.nodes[0].text == "It was calm."


def test_equal_reranker_scores_keep_the_fused_order(rag):
    class Constant:
        def rerank(self, question, texts):
            return [1.0] * len(texts)

    plain = rag.retrieve(QUESTIONS[0], k=99)
    same = rag.retrieve(QUESTIONS[0], k=99, strategy=HybridStrategy(reranker=Constant()))
    assert [(n.node_id, n.score) for n in same.nodes] == [(n.node_id, n.score) for n in plain.nodes]


@pytest.mark.parametrize(
    "scores", [[], [1.0], None, "no", [float("nan")] * 3, [[1.0, 2.0]] * 3, ["a", "b", "c"]]
)
def test_an_error_names_a_reranker_that_returns_invalid_scores(index_of, scores):
    class Invalid:
        def rerank(self, question, texts):
            return scores

    rag = index_of(*[(None, f"map {n}") for n in range(3)])
    with pytest.raises(RerankError, match=r"Invalid\.rerank\(\)"):
        rag.retrieve("map", strategy=HybridStrategy(reranker=Invalid()))


def test_an_exception_of_a_reranker_becomes_a_rerank_error(rag):
    class Broken:
        def rerank(self, question, texts):
            raise OSError("out of order")

    strategy = HybridStrategy(reranker=Broken())
    with pytest.raises(RerankError, match=r"Broken\.rerank\(\) failed.*out of order"):
        rag.retrieve("Anna", strategy=strategy)
    assert (
        rag.retrieve("Zoe?", mode="local", strategy=strategy).nodes == ()
    )  # No candidates to rerank.


# Settings and edges.


@pytest.mark.parametrize(
    "settings",
    [
        {"rrf_k": -1},
        {"rrf_k": float("nan")},
        {"gate": "2"},
        {"gate": True},
        {"gate": -0.1},
        {"dense_weight": 1001},
        {"bm25_weight": -1},
        {"entity_weight": None},
        {"title_link_weight": float("inf")},
        {"idf_power": 11},
        {"relevance_power": 0},
        {"neighbor_decay": 1.01},
        {"title_link_sources": 2.5},
        {"damping": 1.5},
        {"n_iter": 0},
        {"n_iter": 1.0},
        {"rerank_top_n": 0},
        {"rerank_top_n": 1.5},
        {"reranker": object()},
        {"reranker": Shortest},
    ],
)
def test_invalid_settings_raise_an_error_that_names_them(settings):
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        HybridStrategy(**settings)


@pytest.mark.fast_cases(3)
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
def test_an_unusual_index_gives_finite_scores(index_of, documents, mode):
    rag = index_of(*documents)
    nodes = {node.node_id for node in all_nodes(rag)}
    for question in ("Anna?", "?", "文"):
        for budget in (None, 1, 50):
            result = rag.retrieve(question, mode=mode, k=99, token_budget=budget)
            assert {node.node_id for node in result.nodes} <= nodes
            assert all(math.isfinite(node.score) for node in result.nodes)


def test_a_chunk_beyond_the_relevance_lists_is_found_by_its_name(index_of):
    near = {f"filler {n}": [0.9 - n / 1000, 0.3] for n in range(205)}
    vectors = near | {"Zedekiah sat.": [-1, 0]}
    rag = index_of(*[(None, text) for text in vectors], embedder=FakeEmbedder(vectors=vectors))
    result = rag.retrieve("Zedekia?", k=3)
    assert len(result.trace.lists["dense"]) == 200
    [named] = [node for node in result.nodes if node.text == "Zedekiah sat."]
    assert named.best_span is None
    assert named.reasons == ("entities: rank 1",)


def test_leaves_that_replace_a_summary_have_no_best_span(open_index):
    rag = open_index(summarizer=CountingLLM(), strategy=HYBRID, chunk_size=4, chunk_overlap=0)
    rag.add(SourceDocument("d", " ".join(f"Item {n} ends." for n in range(12))))
    result = rag.retrieve("digest of it", k=12, mode="global", expand="leaves")
    assert [node.level for node in result.nodes] == [0] * 12
    assert result.nodes[0].reasons[0].startswith("under summary ")
    assert result.nodes[0].best_span is None


@pytest.mark.slow
def test_k_above_the_list_length_extends_the_lists(open_index):
    rag = open_index(chunk_size=4, chunk_overlap=0)
    rag.add(numbered(400))
    assert len(rag.retrieve("Which item ends?", k=450).nodes) == 450
    assert len(rag.retrieve("Which item ends?", k=10_000).nodes) == 400 + 80 + 16 + 4


def test_relevance_orders_the_chunks_with_the_same_name(index_of):
    rag = index_of(
        *((None, f"Greta Haddad went to the market on day {n}.") for n in range(4)),
        (None, "Greta Haddad bought a telescope on day nine."),
        *((None, f"Nothing happened on day {n}.") for n in range(20, 40)),
    )
    trace = rag.retrieve("Which telescope did Greta Haddad buy?", k=3).trace
    assert trace.lists["entities"][0].node_id == rag.retrieve("telescope", k=1).nodes[0].node_id
