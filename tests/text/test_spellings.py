"""Spellings without the marks of letters, and of words that some write as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.text.spellings import (
    PLAIN,
    joined_words,
    other_spellings,
    plain_spellings,
    with_joined_words,
)
from e2graphrag_integrations.text.words import FUNCTION_WORDS, terms_of


@pytest.mark.parametrize(
    ("word", "spellings"),
    [
        ("jürgen", ("jurgen", "juergen")),
        ("ångström", ("angstrom", "aangstroem")),
        ("bæk", ("baek",)),
        ("þóra", ("thora",)),
        ("łódź", ("lodz",)),
        ("đorđe", ("dorde",)),
        ("niño", ("nino",)),
        ("việt", ("viet",)),
        ("αθήνα", ("αθηνα",)),
        ("елка", ()),
        ("ёлка", ("елка",)),
        ("йога", ()),
        ("한국", ()),
        ("曹操", ()),
        ("ガス", ()),
        ("naive", ()),
        ("för", ("foer",)),
        ("à", ()),
    ],
)
def test_a_word_with_marks_has_plain_spellings(word, spellings):
    assert plain_spellings(word) == spellings


@given(st.text(max_size=20))
def test_a_plain_spelling_has_no_other_plain_spelling(text):
    for term in terms_of(text):
        for spelling in plain_spellings(term):
            assert spelling != term
            assert plain_spellings(spelling) == ()


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Müller", "mueller"),
        ("Mueller", "müller"),
        ("crème", "creme"),
        ("Bodo", "bodø"),
        ("élève", "éleve"),
    ],
)
def test_an_index_has_a_word_in_either_spelling(written, asked):
    bm25 = BM25Index.of(read_postings([f"The house of {written}.", "Another house."]))
    found = [term for term in other_spellings(asked, is_known=False) if bm25.doc_freq(term)]
    assert found
    assert bm25.search(found, 2)[0].tolist()[0] == 0


def test_plain_spellings_do_not_lengthen_a_text():
    marked, plain = read_postings(["crème brûlée"]), read_postings(["creme brulee"])
    assert marked.lengths.tolist() == plain.lengths.tolist() == [2]
    assert set(marked.vocabulary) == {"crème", "brûlée", PLAIN + "brulee", PLAIN + "creme"}


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
def test_any_text_with_words_apart_is_read(text):
    joined = joined_words(text)
    assert all(one.islower() and len(one) > 1 and one not in FUNCTION_WORDS for one in joined)
    letters = str.maketrans("", "", ".'’ ")
    read = with_joined_words(text)
    assert read.translate(letters).casefold() == text.translate(letters).casefold()
