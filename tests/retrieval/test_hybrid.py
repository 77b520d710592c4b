"""`HybridStrategy`: its lists, its gate and its fusion, worked out by hand and by properties."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, PaperStrategy, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError
from fakes import STORY

HYBRID = HybridStrategy()
QUESTIONS = ("What did Anna give Cleo?", "Emil?", "what was sold at night", "Zoe and Yann?")


@pytest.fixture
def rag(open_index, story) -> E2GraphRAG:
    rag = open_index(group_size=2, strategy=HYBRID)
    rag.add([story, SourceDocument("second", STORY.replace("Anna", "Zita"))])
    return rag


def ranks(trace, name):
    return {one.node_id: one.rank for one in trace.lists.get(name, ())}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_list_fuses_cosine_and_words_by_ranks(rag, question):
    trace = rag.retrieve(question, k=3).trace
    dense, words = ranks(trace, "dense"), ranks(trace, "words")
    scores = {
        id_: sum(1 / (1 + ranked[id_]) for ranked in (dense, words) if id_ in ranked)
        for id_ in dense | words
    }
    fused = [one.node_id for one in trace.lists["words and vectors"]]
    assert sorted(fused, key=lambda id_: -scores[id_]) == fused
    assert set(fused) == set(scores)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_score_is_the_sum_over_both_lists_the_second_weighed_by_the_gate(rag, question):
    result = rag.retrieve(question, k=20)
    first, second = (ranks(result.trace, n) for n in ("words and vectors", "entities"))
    gate = gate_of(rag, result.trace)
    for node in result.nodes:
        expected = sum(
            weight / (1 + ranked[node.node_id])
            for weight, ranked in ((1, first), (gate, second))
            if node.node_id in ranked
        )
        assert node.score == pytest.approx(expected)
    assert result.route == ("local" if gate >= 0.5 else "global")
    scores = [node.score for node in result.nodes]
    assert scores == sorted(scores, reverse=True)


def gate_of(rag, trace):
    """Return the gate as the design defines it, from the index's own texts."""
    chunks = [n for n in rag.retrieve("x", k=99, mode="global").nodes if n.level == 0]
    total = len(chunks)
    linked = [link.entity for link in trace.links]
    if not linked:
        return 0.0

    def held(word):
        return sum(word in words(n.text, n.title) for n in chunks)

    def words(text, title=None):
        parts = f"{title}. {text}" if title else text
        return {w.strip(".,?!") for w in parts.lower().split()}

    spec = max(
        math.log((total + 1) / (sum(e in words(n.text) for n in chunks) + 1)) for e in linked
    )
    mass = {w: math.log((total + 1) / (held(w) + 1)) for w in words(trace.question)}
    cov = sum(m for w, m in mass.items() if w in linked) / max(1e-9, sum(mass.values()))
    return min(1.0, 2 * spec / math.log(total + 1) * cov)


def test_without_a_name_of_the_index_the_entity_list_is_not_there(rag):
    trace = rag.retrieve("Zoe and Yann?").trace
    assert "entities" not in trace.lists
    assert trace.reason == "no name of the question is in the index"


def test_modes_force_a_side(rag):
    local = rag.retrieve(QUESTIONS[0], mode="local")
    assert set(local.trace.lists) == {"entities"}
    assert all(node.level == 0 and node.route == "local" for node in local.nodes)
    everything = rag.retrieve(QUESTIONS[0], mode="global")
    assert "entities" not in everything.trace.lists
    assert rag.retrieve("Zoe?", mode="local").nodes == ()


def test_a_filter_holds_in_every_list(rag):
    result = rag.retrieve(QUESTIONS[0], k=50, where={"kind": "tale"})
    assert {node.document_id for node in result.nodes} == {"story"}
    ids = {node.node_id for node in rag.retrieve("x", k=99, mode="global").nodes}
    second = ids - {n.node_id for n in rag.retrieve("x", k=99, where={"kind": "tale"}).nodes}
    for ranked in result.trace.lists.values():
        assert not second & {one.node_id for one in ranked}


def test_a_strategy_of_one_call_stands_in_for_the_indexes_own(rag):
    assert rag.retrieve("Emil?").trace.strategy == "hybrid"
    assert rag.retrieve("Emil?", strategy=PaperStrategy()).trace.strategy == "paper"


def test_answers_are_the_same_from_a_file_opened_again(open_index, story, tmp_path):
    options = {"group_size": 2, "strategy": HYBRID}
    with open_index(tmp_path / "a.e2g", **options) as rag:
        rag.add(story)
        expected = [rag.retrieve(question).nodes for question in QUESTIONS]
    for _ in range(2):  # once built anew, once from the snapshot
        with open_index(tmp_path / "a.e2g", strategy=HYBRID) as rag:
            assert [rag.retrieve(question).nodes for question in QUESTIONS] == expected


@pytest.mark.parametrize(
    "settings", [{"constant": -1}, {"gate": "2"}, {"damping": 1.5}, {"steps": 0}, {"gate": True}]
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        HybridStrategy(**settings)


def test_an_empty_index_has_no_answer(open_index):
    assert open_index(strategy=HYBRID).retrieve("Anna?").nodes == ()
    assert replace(HYBRID, gate=0).gate == 0
