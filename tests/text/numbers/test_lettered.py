"""A word and the letter that follows it are a code."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.text.codes import code_terms, question_codes


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Exhibit B. The seller pays.", "exhibit B"),
        ("Appendix C", "appendix c"),
        ("Schedule A lists them", "Schedule A"),
        ("Rev. B", "revision B"),
        ("Vitamin D", "vitamin d"),
        ("Hepatitis B", "hepatitis B"),
        ("size S", "size s"),
    ],
)
def test_a_word_and_a_letter_are_a_code(text, asked):
    terms = {*code_terms(f"See {text}")}
    assert any({*code.terms} & terms for code in question_codes(f"What is in {asked}?"))


@pytest.mark.parametrize(
    "text", ["John F. Kennedy", "what I said", "a boy A walked", "in a B", "Ann's S", "x-ray B-29"]
)
def test_an_initial_and_an_article_belong_to_no_word(text):
    assert not any(term[-2:-1] == "-" and term[-1].isalpha() for term in code_terms(text))
