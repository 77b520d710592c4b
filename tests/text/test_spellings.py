"""Spellings without the marks of letters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.text.spellings import PLAIN, other_spellings, plain_spellings
from e2graphrag_integrations.text.words import terms_of


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
