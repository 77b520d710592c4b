"""Words with one typing error are corrected to known words, and names are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.typos import corrections
from strategies import examples

KNOWN = frozenset({"librarian", "receipt", "address", "hotel", "louise", "hamre", "kierkegaard"})


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("libarian", "librarian"),  # a letter is missing
        ("librariaan", "librarian"),  # superfluous
        ("librarien", "librarian"),  # wrong
        ("reciept", "receipt"),  # two letters are exchanged
        ("adress", "address"),
        ("kierkegard", "kierkegaard"),
    ],
)
def test_a_word_with_one_error_is_corrected(word, found):
    assert corrections(word, KNOWN.__contains__) == (found,)


@pytest.mark.parametrize("word", ["louisa", "hamra", "hotl", "reception", "dress", "", "straße"])
def test_short_unknown_words_and_common_words_remain(word):
    assert corrections(word, KNOWN.__contains__) == ()


@given(st.sampled_from(["librarian", "electrician", "photographer"]), st.data())
@examples(100)
def test_any_single_error_in_a_long_word_is_found(word, data):
    place = data.draw(st.integers(0, len(word) - 2))
    letter = data.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
    start, end = word[:place], word[place:]
    exchanged = start + end[1] + end[0] + end[2:]
    wrong = data.draw(
        st.sampled_from(
            [start + letter + end, start + end[1:], start + letter + end[1:], exchanged]
        )
    )
    assert wrong == word or corrections(wrong, {word}.__contains__) in {(word,), ()}
    if wrong != word and corrections(wrong, {word}.__contains__) == ():
        assert corrections(wrong, lambda _: True) == ()  # it is another common word
