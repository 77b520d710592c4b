"""Telephone numbers are found with other groups, and without the country."""

from __future__ import annotations

import itertools

import pytest

from e2graphrag_integrations.text.addresses import find_phones
from e2graphrag_integrations.text.codes import code_terms, question_codes

ONE_NUMBER = (
    ["+49 170 1234567", "+491701234567", "0170 1234567", "0170/1234567", "(0170) 123-4567"],
    ["+1 212 555 0134", "(212) 555-0134", "212-555-0134", "(212)555-0134"],
    ["+44 20 7946 0958", "020 7946 0958", "(020) 7946-0958"],
    ["+49 (0)170 123 45 67", "0170 123 45 67"],
    ["555-0134", "555 0134"],
)


@pytest.mark.parametrize(
    ("written", "asked"),
    [pair for same in ONE_NUMBER for pair in itertools.permutations(same, 2)],
)
def test_a_telephone_number_is_found_in_another_spelling(written, asked):
    terms = {*code_terms(f"Call Ann: {written}, or write.")}
    assert any({*code.terms} & terms for code in question_codes(f"Who has {asked}?"))


@pytest.mark.parametrize(
    "text",
    [
        *("2024-03-05", "100 000 000", "192.168.10.12", "12-34-567", "AB-0170-1234567", "1984"),
        *("1,234,567", "12.345.678", "10 20 30", "+1", "(1)", "0.1234567", "2014-2018"),
    ],
)
def test_another_number_is_no_telephone_number(text):
    assert not any(term.startswith("#tel") for term in code_terms(f"It is {text}."))


def test_the_code_of_a_part_is_not_found_by_its_digits():
    terms = {*code_terms("Part 12-34-567.")}
    assert not any({*code.terms} & terms for code in question_codes("What is 123-45-67?"))


def test_a_long_row_of_digits_is_none():
    assert [*find_phones("0" * 40)] == []
    assert [*find_phones("0 " * 40)] == []
