"""Phrases and patterns of tokens in texts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.entity_rules import EntityRules
from strategies import examples


def found(text, *patterns):
    rules = EntityRules([{"label": "x", "pattern": pattern} for pattern in patterns])
    return [text[one.start : one.end] for one in rules.matches(text)]


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("Take aspirin, not Aspirin.", "aspirin", ["aspirin"]),
        ("aspirins and aspirin-like", "aspirin", ["aspirin"]),
        ("vitamin\nD or vitamin  D", "vitamin D", ["vitamin\nD", "vitamin  D"]),
        ("vitamin\n\nD", "vitamin D", []),
        ("C++ and C", "C++", ["C++"]),
        ("他服用阿司匹林。", "阿司匹林", ["阿司匹林"]),
        ("Model 3 and model 12", [{"LOWER": "model"}, {"IS_DIGIT": True}], ["Model 3", "model 12"]),
        ("AB-1234, ab-1234", [{"SHAPE": "XX"}, {"ORTH": "-"}, {"SHAPE": "dddd"}], ["AB-1234"]),
        ("flight to Rome or Oslo", [{"TEXT": {"IN": ["Rome", "Oslo"]}}], ["Rome", "Oslo"]),
        ("a b", [{"TEXT": {"NOT_IN": ["a"]}}], ["b"]),
        ("New New York City", [{"TEXT": "New", "OP": "+"}, {"TEXT": "York"}], ["New New York"]),
        ("very very big, big", [{"TEXT": "very", "OP": "*"}, {"TEXT": "big"}], None),
        (
            "St. Moritz, St Moritz",
            [{"TEXT": "St"}, {"IS_PUNCT": True, "OP": "?"}, {"TEXT": "Moritz"}],
            None,
        ),
        ("no match", [{"IS_UPPER": True}], []),
    ],
)
def test_patterns_match_whole_tokens(text, pattern, expected):
    assert found(text, pattern) == (text.split(", ") if expected is None else expected)


def test_the_longest_then_the_earliest_match_wins():
    assert found("New York Times", "York Times", "New York", "New York Times") == ["New York Times"]
    assert found("New York Times", "York Times", "New York") == ["New York"]
    assert found("New York City Times", "York City Times", "New York") == ["York City Times"]


@pytest.mark.parametrize("before", [0, 20, 45])
def test_a_match_has_at_most_30_tokens(before):
    word = {"IS_ALPHA": True}
    assert found("1 " * before + "a " * 30, [word] * 30) == [("a " * 30).strip()]
    found_words = found("1 " * before + "a " * 70, [word, {**word, "OP": "*"}])
    assert [len(one.split()) for one in found_words] == [30, 30, 10]


def test_the_first_of_equal_rules_wins():
    rules = EntityRules([{"label": one, "pattern": "Ada"} for one in ("a", "b")])
    assert [one.label for one in rules.matches("Ada")] == ["a"]


@pytest.mark.slow
def test_a_long_text_takes_linear_time():
    word = {"IS_ALPHA": True}
    start = time.perf_counter()
    pattern = [{**word, "OP": "?"}, {**word, "OP": "?"}, *[{**word, "OP": "*"}] * 2, {"TEXT": "?"}]
    assert found("a " * 1500 + "!", pattern) == []
    assert time.perf_counter() - start < 10


@examples(50)
@given(st.text(max_size=60), st.text(min_size=1, max_size=4))
def test_matches_are_disjoint_and_in_order(text, phrase):
    if not phrase.strip():
        return
    rules = EntityRules(
        [
            {"label": "x", "pattern": phrase},
            {"label": "y", "pattern": [{"IS_ALPHA": True, "OP": "+"}]},
        ]
    )
    ends = 0
    for one in rules.matches(text):
        assert ends <= one.start < one.end <= len(text)
        ends = one.end


def test_many_line_ends_take_linear_time():
    """With quadratic time this would take minutes, so no time is asserted."""
    assert found("Anna" + "\n" * 300_000 + "Anna", "Anna") == ["Anna", "Anna"]
