"""Measures, the normal form of answers, and bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import Span
from e2graphrag_integrations.evaluation.intervals import estimate
from e2graphrag_integrations.evaluation.measures import (
    answer_words,
    contains_answer,
    ndcg,
    recall,
    span_recall,
)
from strategies import examples

SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda pair: Span(pair[0], sum(pair))),
    max_size=5,
)


def test_recall_and_ndcg_of_a_worked_example():
    ranked, gold = ["x", "a", "y", "b"], {"a", "b", "c"}
    assert recall(ranked, gold) == pytest.approx(2 / 3)
    ideal = 1 + 1 / np.log2(3) + 1 / np.log2(4)
    assert ndcg(ranked, gold, 10) == pytest.approx((1 / np.log2(3) + 1 / np.log2(5)) / ideal)
    assert ndcg(["a", "b"], gold, 2) == 1  # no better ranking of two ids exists
    assert recall([], gold) == ndcg([], gold, 5) == 0


@examples(1.0)
@given(gold=SPANS.filter(bool), found=SPANS)
def test_span_recall_counts_each_gold_character_once(gold, found):
    wanted = {one for span in gold for one in range(*span)}
    covered = {one for span in found for one in range(*span)}
    expected = len(wanted & covered) / len(wanted)
    assert span_recall({"d": found, "other": gold}, {"d": gold}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("He met the  Red\nHouse, later.", "red house"),
        ("Das Caf\u00e9 schlie\u00dft.", "CAFE\u0301 SCHLIESST"),
        ("刘备字玄德，是蜀汉的开国皇帝。", "劉備"),
        ("東京は日本の首都です", "日本"),
        ("กรุงเทพมหานครเป็นเมืองหลวง", "กรุงเทพ"),
        ("In 1895 it sold 6,000 copies.", "1895"),
    ],
)
def test_an_answer_is_found_however_it_is_written(context, answer):
    assert contains_answer(context, ["nothing", answer_words(answer)]) == 1


@pytest.mark.parametrize(
    ("context", "answer"),
    [("Anna went.", "Ann"), ("the house was red", "red house"), ("北京", "东京"), ("", "x")],
)
def test_parts_of_words_and_other_orders_are_no_answers(context, answer):
    assert contains_answer(context, [answer_words(answer)]) == 0


def test_the_interval_is_that_of_a_plain_bootstrap():
    values = np.random.default_rng(1).random(3001)
    random = np.random.default_rng(0)
    means = [values[random.integers(0, 3001, (100, 3001))].mean(axis=1) for _ in range(100)]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    found = estimate(values.tolist())
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high))
    assert found.questions == 3001
