"""Quarters and halves of years have one name in every notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.numbers.periods import find_periods

THIRD = (
    "Q3 2024; Q3/2024; 2024 Q3; 2024-Q3; 3Q24; 3Q 2024; Q3 '24; Q3 FY24; 3rd quarter 2024; "
    "the third quarter of 2024; third quarter of fiscal year 2024; 3. Quartal 2024; "
    "2024年第三季度; 2024年3季度; 2024年第3四半期; 2024년 3분기"
).split("; ")


@pytest.mark.parametrize("spelling", THIRD)
def test_a_quarter_is_found_in_each_notation(spelling):
    text = f"Sales in {spelling}: less."
    [found] = find_periods(text.lower())
    assert (found.name, found.year) == ("q3", "2024")
    [code] = question_codes("What fell in Q3 2024?")
    assert code.terms[0] in code_terms(text)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H1 2024", "h1"),
        ("second half of 2024", "h2"),
        ("2024年上半年", "h1"),
        ("2. Halbjahr 2024", "h2"),
    ],
)
def test_a_half_of_a_year_is_found(spelling, name):
    [found] = find_periods(f"in {spelling}, it".lower())
    assert (found.name, found.year) == (name, "2024")


def terms_found(question, text):
    [code] = question_codes(question)
    terms = set(code_terms(text))
    return [one for one in code.terms if one in terms]


def test_a_quarter_without_a_year_is_one_of_any_year():
    assert terms_found("What fell in Q2?", "in the second quarter of 2023")
    assert terms_found("What fell in Q2 2024?", "in the second quarter")
    assert not terms_found("What fell in Q2 2024?", "in the second quarter of 2023")
    assert not terms_found("What fell in Q2?", "in Q3")


def test_the_half_of_something_else_is_no_code_of_a_question():
    assert question_codes("What happens in the first half of the book?") == []
    assert terms_found("What fell in H1?", "in the first half of 2023")


@pytest.mark.parametrize(
    "text", ["h3 heading", "q5", "a quarter of them", "half of it", "seq1", "h2o", "b1h2", "四季"]
)
def test_other_words_are_no_periods(text):
    assert list(find_periods(text)) == []


@given(st.text(st.sampled_from("q1h2 of quarterhalf '年季度第三2024/-")))
def test_any_text_is_read(text):
    for one in find_periods(text):
        assert 0 <= one.start < one.end <= len(text)
