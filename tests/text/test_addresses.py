"""An address has one form in every notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.addresses import find_addresses
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
    assert "elmstreet" not in "".join(one.form for one in find_addresses(text))


@given(st.text(st.sampled_from("1 2a street st elm str. lindenstraße")))
def test_any_text_is_read(text):
    for one in find_addresses(text):
        assert 0 <= one.start < one.end <= len(text)
