"""Array helpers: exclusive sums, concatenated ranges, sums by key and unions."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.arrays import (
    concatenated_ranges,
    exclusive_sums,
    sorted_union,
    sum_by_key,
    unique_inverse,
)

sizes = st.lists(st.integers(0, 50), max_size=30)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@given(sizes)
def test_exclusive_sums_are_running_sums_with_the_total(dtype, lengths_drawn):
    found = exclusive_sums(np.asarray(lengths_drawn, dtype=dtype))
    assert found.tolist() == [0, *accumulate(lengths_drawn)]
    assert found.dtype == np.int64


def test_sums_of_small_dtypes_do_not_overflow():
    assert exclusive_sums(np.full(300, 255, dtype=np.uint8))[-1] == 300 * 255
    assert exclusive_sums(np.full(3, 2**31 - 1, dtype=np.int32))[-1] == 3 * (2**31 - 1)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 9)), max_size=30))
def test_concatenated_ranges_equal_python_ranges(dtype, ranges):
    starts, lengths = np.asarray(ranges, dtype=dtype).reshape(-1, 2).T
    expected = [number for start, size in ranges for number in range(start, start + size)]
    found = concatenated_ranges(starts, lengths)
    assert found.tolist() == expected
    assert found.dtype == np.int64


@given(sizes)
def test_ranges_from_exclusive_sums_cover_all_numbers_in_order(lengths_drawn):
    lengths = np.asarray(lengths_drawn, dtype=np.int64)
    bounds = exclusive_sums(lengths)
    assert concatenated_ranges(bounds[:-1], lengths).tolist() == list(range(bounds[-1]))


@st.composite
def keyed(draw):
    """Draw the number of rows, and values for dense or sparse keys below it."""
    size = draw(st.sampled_from([1, 7, 900, 10_000, 10_001, 30_000]))
    keys = draw(st.lists(st.integers(0, size - 1), max_size=draw(st.sampled_from([9, 400]))))
    return size, keys, [draw(st.floats(0, 9)) for _ in keys]


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@given(keyed())
def test_unique_inverse_and_sum_by_key_match_a_loop(dtype, case):
    size, keys, values = case
    expected = {}
    for key, value in zip(keys, values, strict=True):
        expected[key] = expected.get(key, 0) + value
    array = np.asarray(keys, dtype=dtype)
    distinct, places = unique_inverse(array, size)
    assert distinct.tolist() == sorted(expected)
    assert distinct[places].tolist() == keys
    distinct, sums = sum_by_key(array, np.asarray(values, dtype=np.float64), size)
    assert dict(zip(distinct.tolist(), sums.tolist(), strict=True)) == expected
    assert distinct.tolist() == sorted(expected)


@given(st.lists(st.lists(st.integers(-9, 9)), min_size=1))
def test_sorted_union_equals_the_union_of_sets(parts):
    found = sorted_union(*(np.asarray(part, dtype=np.int64) for part in parts))
    assert found.tolist() == sorted({number for part in parts for number in part})
