"""Words that some write as one and others apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.text.joined_words import (
    joined_words,
    with_joined_words,
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
        ("Mr. O'Brien and Ms. D’Arcy's cat", ["obrien", "darcy"], "Mr. obrien and Ms. darcy's cat"),
        ("Mr. Mc Leod, Mac Arthur", ["mcleod", "macarthur"], "Mr. mcleod, macarthur"),
    ],
)
def test_periods_are_left_out(text, joined, read):
    assert joined_words(text) == joined
    assert with_joined_words(text) == read


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
        "Don't, it's Anna's and the 'Old' Mac is on",
        "",
    ],
)
def test_other_texts_are_left_as_they_are(text):
    assert joined_words(text) == []
    assert with_joined_words(text) == text


def test_a_text_has_one_further_term_and_the_same_length():
    postings = read_postings(["The U.A.E. sells sand."])
    assert "~uae" in postings.vocabulary
    assert postings.lengths.tolist() == [6]


@given(st.text("ABUS. ph(O'’c", max_size=30))
def test_any_text_is_read(text):
    joined = joined_words(text)
    assert all(one.islower() and len(one) > 1 and one not in FUNCTION_WORDS for one in joined)
    letters = str.maketrans("", "", ".'’ ")
    read = with_joined_words(text)
    assert read.translate(letters).casefold() == text.translate(letters).casefold()
