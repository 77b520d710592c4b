"""What a question asks of a text as a whole, on questions that the classifier has not learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2graphrag_integrations.retrieval.request_kinds import (
    KINDS,
    features_of,
    request_kind,
    request_model,
)

HELD_OUT = Path(__file__).parents[1] / "data" / "requests.jsonl"


@pytest.mark.parametrize("kind", KINDS[:2])
def test_requests_are_found_with_high_precision(kind):
    rows = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    said = [row for row in rows if request_kind(row["question"]) == kind]
    right = [row for row in said if row["kind"] == kind]
    assert len(right) / len(said) > 0.97
    assert len(right) / sum(row["kind"] == kind for row in rows) > 0.9


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What topics are covered?", "overview"),
        ("tl;dr", "overview"),
        ("List the main findings", "overview"),
        ("SUMMARIZE ALL MESSAGES", "overview"),
        ("列出主要发现", "overview"),
        ("總結所有訊息", "overview"),
        ("How did everything turn out?", "ending"),
        ("How did everything turn out, and what became of him?", "ending"),
        ("Who is Anna? How does the story end?", "ending"),
        ("故事的結局是什麼？", "ending"),
        ("故事的结局是什么，他后来怎么样了？", "ending"),
        ("How did the war end, and who signed the treaty?", "other"),
        ("What topics did Anna cover?", "other"),
        ("List the main findings of Kepler", "other"),
        ("Summarize the messages from Bo", "other"),
        ("How did the war turn out?", "other"),
        ("总结曹操的生平", "other"),
        ("", "other"),
        ("summarize " * 100, "other"),  # a text rather than a question
    ],
)
def test_a_word_for_something_particular_makes_a_question_particular(question, kind):
    assert request_kind(question) == kind


def test_probabilities_of_any_text_sum_to_one():
    for question in ("", "?", "x" * 10_000, "总" * 100, "What is the main 主题 of it?"):
        assert sum(request_model().probabilities(question)) == pytest.approx(1)
        assert all(value > 0 for value in features_of(question).values())
