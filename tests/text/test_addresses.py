"""An address and a telephone number are found in every notation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.addresses import find_addresses, find_phones
from e2graphrag_integrations.text.codes import code_terms, question_codes


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who lives at 5 Elm Street?", "Ann lives at 5 Elm St."),
        ("Who lives at 14 Old Oak Ave?", "Bob: 14 Old Oak Avenue, Tarn"),
        ("12 St. Mary's Road", "12 St Mary's Rd"),
        ("who rents 7b mill lane", "The flat is at 7B Mill Lane."),
        ("Wer wohnt in der Lindenstraße 7?", "Lindenstr. 7, Bonn"),
        ("Lindenstrasse 7", "in der Lindenstraße 7"),
    ],
)
def test_an_address_is_found_in_another_notation(question, text):
    terms = set(code_terms(text))
    assert any(set(code.terms) & terms for code in question_codes(question))


@pytest.mark.parametrize(
    "text",
    ["in 2024 the street was closed", "elm street", "5 elm trees", "5.1 elm street 7", "street 7"],
)
def test_other_streets_and_numbers_are_no_address(text):
    assert "elmstreet" not in "".join(one.forms[0] for one in find_addresses(text))


@given(st.text(st.sampled_from("1 2a street st elm str. lindenstraße")))
def test_any_text_is_read(text):
    for one in find_addresses(text):
        assert 0 <= one.start < one.end <= len(text)


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
