"""`StringArray` behaves like a list of strings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils import strings as strings_module
from e2graphrag_integrations._utils.strings import (
    ExtendedIndex,
    StringArray,
    StringIndex,
    index_strings,
    merge_names,
)

texts = st.lists(
    st.text(max_size=6) | st.sampled_from(["", "a\0", "é", "語", "👩‍👩‍👧", "𝔄"]), max_size=12
)
positions = st.none() | st.integers(-15, 15)
ODD = ["", "Anna", "\0", "é", "e\u0301", "語", "👩‍👩‍👧", "𝔄", "", "\n"]


@given(texts)
def test_strings_round_trip_by_index_and_iteration(strings):
    array = StringArray.of(strings)
    assert len(array) == len(strings)
    assert list(array) == strings
    assert [array[i] for i in range(len(strings))] == strings
    assert [array[i - len(strings)] for i in range(len(strings))] == strings
    assert array.data.tobytes() == "".join(strings).encode()
    assert array.bounds.tolist() == [
        len("".join(strings[:i]).encode()) for i in range(len(strings) + 1)
    ]


@given(texts, positions, positions, positions.filter(lambda step: step != 0))
def test_slices_equal_slices_of_a_list(strings, start, stop, step):
    assert StringArray.of(strings)[start:stop:step] == strings[start:stop:step]


@given(st.lists(st.tuples(st.sampled_from(ODD), st.booleans()), max_size=9), st.integers(0, 1))
def test_a_mask_selects_strings(strings, begins_later):
    array = StringArray.of(["é"] * begins_later + [text for text, _ in strings])
    array = StringArray(array.data, array.bounds[begins_later:])
    mask = np.array([selected for _, selected in strings], dtype=np.bool_)
    assert array.compress(mask) == [text for text, selected in strings if selected]


@pytest.mark.parametrize("position", [10, -11, 99])
def test_index_out_of_range_is_an_error(position):
    with pytest.raises(IndexError):
        StringArray.of(ODD)[position]


def test_numpy_integers_are_valid_indices():
    assert [StringArray.of(ODD)[i] for i in np.arange(10)] == ODD
    assert StringArray.of(ODD)[np.int32(-4)] == ODD[-4]


@given(texts, texts)
def test_equality_matches_that_of_a_list(one, other):
    array = StringArray.of(one)
    for same in (one, tuple(one), StringArray.of(one)):
        assert array == same
        assert same == array
    for different in (other, tuple(other), StringArray.of(other)):
        assert (array == different) == (one == other)
        assert (array != different) == (one != other)
    assert array != len(one)
    assert array != dict.fromkeys(one, 0)
    assert repr(array) == repr(one)


def test_arrays_with_equal_bytes_but_different_bounds_differ():
    assert StringArray.of(["ab", "c"]) != ["a", "bc"]
    assert StringArray.of(["", "a"]) != ["a", ""]
    assert StringArray.of([]) != [""]


def test_string_array_is_unhashable():
    with pytest.raises(TypeError, match="unhashable"):
        hash(StringArray.of(ODD))


def test_string_array_has_the_sequence_methods():
    array = StringArray.of(ODD)
    assert "語" in array
    assert "Bert" not in array
    assert (array.index("𝔄"), array.count("")) == (7, 2)
    assert list(reversed(array)) == ODD[::-1]


def test_string_array_of_a_string_array_is_not_copied():
    array = StringArray.of(ODD)
    assert StringArray.of(array) is array


@pytest.mark.parametrize("batch", [1, 2, 3, 9, 10, 11])
def test_iteration_returns_all_strings_for_any_batch_size(monkeypatch, batch):
    monkeypatch.setattr(strings_module, "_BATCH", batch)
    assert list(StringArray.of(ODD)) == ODD
    assert list(StringArray.of([])) == []


@pytest.mark.parametrize("count", [4095, 4096, 4097, 9000])
def test_iteration_crosses_batches(count):
    strings = ["é" * (i % 5) + str(i) for i in range(count)]
    assert list(StringArray.of(strings)) == strings


def test_string_array_can_view_part_of_a_read_only_array():
    """A memory-mapped file gives such an array."""
    full = StringArray.of(ODD)
    full.data.flags.writeable = False
    view = StringArray(full.data, full.bounds[3:8])
    assert list(view) == ODD[3:7]
    assert view[-1] == ODD[6]


distinct = st.lists(st.text("abé\0北", max_size=4), unique=True, max_size=30)


@given(distinct, st.lists(st.text("abé\0北", max_size=4)), st.integers(1, 9))
def test_an_index_finds_the_rows_that_a_dictionary_finds(strings, others, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings_module, "_MAX_BYTES", block)
        index = StringIndex(StringArray.of(strings))
    rows = {string: row for row, string in enumerate(strings)}
    assert dict(index) == rows
    assert [index.get(other) for other in others] == [rows.get(other) for other in others]


def test_few_strings_get_a_dictionary_and_many_an_index(monkeypatch):
    strings = StringArray.of(["a", "b"])
    assert type(index_strings(strings)) is dict
    monkeypatch.setattr(strings_module, "_MIN_STRINGS", 2)
    assert type(index_strings(strings)) is StringIndex
    assert type(index_strings(["a", "b"])) is dict


def test_further_strings_follow_the_first_ones():
    index = ExtendedIndex({"a": 0, "b": 1}, ["c", "d"])
    assert dict(index) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert len(index) == 4


sorted_names = st.lists(st.text("abé", max_size=3), unique=True, max_size=12).map(sorted)


@given(sorted_names, sorted_names, st.data())
def test_merged_names_are_those_left_and_the_newer_ones(older, newer, data):
    rows = st.sets(st.sampled_from(range(len(older)))) if older else st.just(set())
    removed = data.draw(rows)
    merged = merge_names(older, newer, np.asarray(sorted(removed), dtype=np.int64))
    left = {name for row, name in enumerate(older) if row not in removed}
    expected = sorted(left | {*newer})
    places = {name: row for row, name in enumerate(expected)}
    assert list(merged.names) == expected
    assert merged.newer_rows.tolist() == [places[name] for name in newer]
    assert merged.older_rows.tolist() == [places.get(name, -1) for name in older]
