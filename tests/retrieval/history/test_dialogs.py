"""Invented conversations of several domains: the first hit answers the last question."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dialogs import CHANGES, COMPLETE, COST, DIED, DOCUMENTS, FOLLOW_UPS, MISSED, Dialog
from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.options import grouped

MISSED_YET = [pytest.param(one, marks=pytest.mark.xfail(strict=True)) for one in MISSED]


@pytest.fixture(scope="module")
def rag(real_embedder, real_extractor) -> Iterator[E2GraphRAG]:
    options = grouped({"embedder": real_embedder, "extractor": real_extractor})
    with E2GraphRAG.open(":memory:", **options) as opened:
        opened.add([SourceDocument(id_, text) for id_, text in DOCUMENTS.items()])
        yield opened


def asked(rag: E2GraphRAG, dialog: Dialog):
    roles = ("user", "assistant")
    history = [(roles[number % 2], text) for number, text in enumerate(dialog.turns)]
    return rag.retrieve(dialog.question, k=5, history=history)


@pytest.mark.fast_cases(15)
@pytest.mark.parametrize(
    "dialog", [*FOLLOW_UPS, *CHANGES, *COMPLETE, *MISSED_YET], ids=lambda one: one.question
)
def test_the_first_hit_answers_the_question(rag, dialog):
    assert asked(rag, dialog).nodes[0].document_id == dialog.document


def test_a_thing_that_no_turn_names_is_another_topic(rag):
    question = "What color is the tail of this comet?"
    assert not asked(rag, Dialog(question, "comet", (*DIED, *COST))).trace.carried.turns


def test_a_doubtful_reference_to_an_unrelated_turn_weighs_half(rag):
    carried = asked(rag, Dialog("Are those covered with ice?", "moon", COST)).trace.carried
    assert [(turn.weight, turn.relatedness) for turn in carried.turns] == [(0.5, 0), (0.5, 0)]


def test_a_question_without_specific_words_takes_all_of_an_unrelated_turn(rag):
    carried = asked(rag, Dialog("How long?", "soup", COST)).trace.carried
    assert [turn.weight for turn in carried.turns] == [1, 1]
