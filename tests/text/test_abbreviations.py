"""Abbreviations with periods and without them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.text.abbreviations import (
    joined_abbreviations,
    with_joined_abbreviations,
)
from e2graphrag_integrations.text.words import FUNCTION_WORDS


@pytest.mark.parametrize(
    ("text", "joined", "read"),
    [
        ("He left the U.A.E. in May.", ["uae"], "He left the uae in May."),
        ("Her Ph.D. and his B.Sc", ["phd", "bsc"], "Her phd and his bsc"),
        ("J.K. Rowling, T. S. Eliot", ["jk", "ts"], "jk Rowling, ts Eliot"),
        ("George H. W. Bush", ["hw"], "George hw Bush"),
        ("(B.B.C.)", ["bbc"], "(bbc)"),
    ],
)
def test_periods_are_left_out(text, joined, read):
    assert joined_abbreviations(text) == joined
    assert with_joined_abbreviations(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "They sold it to the U.S. in 1867.",
        "Ask I.T. for help.",
        "Vitamin A. Both are sold.",
        "He said No. Then he left.",
        "www.A.B.com, os.Path.join and Node.JS",
        "St.Petersburg, e.g. in May",
        "Dr. A. Voss",
        "",
    ],
)
def test_other_texts_are_left_as_they_are(text):
    assert joined_abbreviations(text) == []
    assert with_joined_abbreviations(text) == text


def test_a_text_has_one_further_term_and_the_same_length():
    postings = read_postings(["The U.A.E. sells sand."])
    assert "~uae" in postings.vocabulary
    assert postings.lengths.tolist() == [6]


@given(st.text("ABUS. ph(", max_size=30))
def test_any_text_is_read(text):
    joined = joined_abbreviations(text)
    assert all(one.islower() and len(one) > 1 and one not in FUNCTION_WORDS for one in joined)
    read = with_joined_abbreviations(text)
    assert read.replace(".", "").replace(" ", "").casefold() == (
        text.replace(".", "").replace(" ", "").casefold()
    )
