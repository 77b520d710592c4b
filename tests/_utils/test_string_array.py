"""Strings in two arrays: a list in all that one asks of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils import string_array as strings
from e2graphrag_integrations._utils.string_array import StringArray

texts = st.lists(
    st.text(max_size=6) | st.sampled_from(["", "a\0", "é", "語", "👩‍👩‍👧", "𝔄"]), max_size=12
)
places = st.none() | st.integers(-15, 15)
ODD = ["", "Anna", "\0", "é", "e\u0301", "語", "👩‍👩‍👧", "𝔄", "", "\n"]


@given(texts)
def test_they_come_back_one_by_one_and_all_together(some):
    made = StringArray.of(some)
    assert len(made) == len(some)
    assert list(made) == some
    assert [made[i] for i in range(len(some))] == some
    assert [made[i - len(some)] for i in range(len(some))] == some
    assert made.data.tobytes() == "".join(some).encode()
    assert made.bounds.tolist() == [len("".join(some[:i]).encode()) for i in range(len(some) + 1)]


@given(texts, places, places, places.filter(lambda step: step != 0))
def test_slices_are_lists_of_some(some, start, stop, step):
    assert StringArray.of(some)[start:stop:step] == some[start:stop:step]


@pytest.mark.parametrize("at", [10, -11, 99])
def test_there_is_none_beyond_the_ends(at):
    with pytest.raises(IndexError):
        StringArray.of(ODD)[at]


def test_numbers_of_arrays_are_places_too():
    assert [StringArray.of(ODD)[i] for i in np.arange(10)] == ODD
    assert StringArray.of(ODD)[np.int32(-4)] == ODD[-4]


@given(texts, texts)
def test_they_equal_what_a_list_of_them_equals(one, other):
    made = StringArray.of(one)
    for same in (one, tuple(one), StringArray.of(one)):
        assert made == same
        assert same == made
    for different in (other, tuple(other), StringArray.of(other)):
        assert (made == different) == (one == other)
        assert (made != different) == (one != other)
    assert made != len(one)
    assert made != dict.fromkeys(one, 0)
    assert repr(made) == repr(one)


def test_bounds_tell_apart_what_is_equal_joined():
    assert StringArray.of(["ab", "c"]) != ["a", "bc"]
    assert StringArray.of(["", "a"]) != ["a", ""]
    assert StringArray.of([]) != [""]


def test_they_are_no_keys():
    with pytest.raises(TypeError, match="unhashable"):
        hash(StringArray.of(ODD))


def test_what_a_sequence_can_they_can():
    made = StringArray.of(ODD)
    assert "語" in made
    assert "Bert" not in made
    assert (made.index("𝔄"), made.count("")) == (7, 2)
    assert list(reversed(made)) == ODD[::-1]


def test_strings_are_made_of_strings_without_a_copy():
    made = StringArray.of(ODD)
    assert StringArray.of(made) is made


@pytest.mark.parametrize("batch", [1, 2, 3, 9, 10, 11])
def test_all_are_there_however_many_are_decoded_at_a_time(monkeypatch, batch):
    monkeypatch.setattr(strings, "_BATCH", batch)
    assert list(StringArray.of(ODD)) == ODD
    assert list(StringArray.of([])) == []


@pytest.mark.parametrize("count", [4095, 4096, 4097, 9000])
def test_many_are_iterated_across_batches(count):
    some = ["é" * (i % 5) + str(i) for i in range(count)]
    assert list(StringArray.of(some)) == some


def test_parts_of_an_array_that_lies_elsewhere_are_strings_too():
    """As a mapped file does: read-only, and not from its beginning."""
    whole = StringArray.of(ODD)
    whole.data.flags.writeable = False
    part = StringArray(whole.data, whole.bounds[3:8])
    assert list(part) == ODD[3:7]
    assert part[-1] == ODD[6]
