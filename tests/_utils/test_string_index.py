"""Rows of strings, compared with a dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils import string_index
from e2graphrag_integrations._utils.string_array import StringArray
from e2graphrag_integrations._utils.string_index import ExtendedIndex, StringIndex, index_strings

distinct = st.lists(st.text("abé\0北", max_size=4), unique=True, max_size=30)


@given(distinct, st.lists(st.text("abé\0北", max_size=4)), st.integers(1, 9))
def test_an_index_finds_the_rows_that_a_dictionary_finds(strings, others, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(string_index, "_MAX_BYTES", block)
        index = StringIndex(StringArray.of(strings))
    rows = {string: row for row, string in enumerate(strings)}
    assert dict(index) == rows
    assert [index.get(other) for other in others] == [rows.get(other) for other in others]


def test_few_strings_get_a_dictionary_and_many_an_index(monkeypatch):
    strings = StringArray.of(["a", "b"])
    assert type(index_strings(strings)) is dict
    monkeypatch.setattr(string_index, "_MIN_STRINGS", 2)
    assert type(index_strings(strings)) is StringIndex
    assert type(index_strings(["a", "b"])) is dict


def test_further_strings_follow_the_first_ones():
    index = ExtendedIndex({"a": 0, "b": 1}, ["c", "d"])
    assert dict(index) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert len(index) == 4
