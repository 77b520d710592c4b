"""Pairs of words in rows of tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.text.lines import ROWS, can_be_paired, pairs_of, row_pairs


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("color,item,price\nred,hat,3\nblue,scarf,4\n", {"hat&red", "blue&scarf"}),
        ("| red | hat |\n|---|---|\n| blue | scarf |", {"blue&scarf"}),
        ("Anna Holm\t555-1\nBert Voss\t555-2", {"anna&holm", "bert&voss"}),
        ('{"user": "ann", "did": "upload"}\n{"user": "bo", "did": "login"}', {"ann&upload"}),
    ],
)
def test_words_of_a_row_form_pairs(text, pairs):
    found = row_pairs(text)
    assert found[0] == ROWS
    assert pairs <= set(found)
    assert set(found) <= set(read_postings([text]).vocabulary)


def test_words_of_different_rows_keys_and_numbers_form_none():
    found = row_pairs("red,hat,3\nblue,scarf,4\nblue,hat,5")
    assert set(found) == {ROWS, "hat&red", "blue&scarf", "blue&hat"}
    keys = row_pairs('{"user": "ann", "did": "upload"}\n{"user": "bo", "did": "login"}')
    assert not any("user" in one for one in keys)


@pytest.mark.parametrize(
    "text",
    ["", "One line, of prose, with commas.", "We met Anna, Bert and Cleo.\nThey slept.\nWe left."],
)
def test_prose_has_no_rows(text):
    assert row_pairs(text) == []


def test_a_long_row_forms_a_bounded_number_of_pairs():
    words = [f"{a}{b}{c}" for a in "abcde" for b in "xyz" for c in "klmn"]
    assert len(list(pairs_of(words))) == 45


@given(st.lists(st.sampled_from("anna bert cleo dora".split())))
def test_the_order_of_words_does_not_matter(words):
    assert sorted(pairs_of(words)) == sorted(pairs_of(reversed(words)))


@pytest.mark.parametrize("word", ["a", "2024", "a1", "the", ""])
def test_numbers_codes_and_function_words_form_no_pairs(word):
    assert not can_be_paired(word)


@given(st.text('ab,|\t\n;{}" 1', max_size=60))
def test_any_text_is_read(text):
    found = row_pairs(text)
    assert found == [] or (found[0] == ROWS and all(one.count("&") == 1 for one in found[1:]))
