"""The natural order of names: numbers by value, letters without case."""

from __future__ import annotations

from itertools import permutations

from e2graphrag_integrations._utils.natural_order import natural_key


def test_numbers_are_sorted_by_value_and_letters_without_case():
    ordered = ["", "2 b", "10 b", "Page 2", "page 2.5", "page 10", "page x", "z"]
    for mixed in [*list(permutations(ordered[2:6])), tuple(reversed(ordered))]:
        kept = [one for one in ordered if one in mixed]
        assert sorted(mixed, key=natural_key) == kept


def test_equal_numbers_and_huge_ones_have_one_order():
    assert sorted(["a01", "A1", "a1"], key=natural_key) == ["A1", "a01", "a1"]
    huge = ["9" * 10_000, "1" + "0" * 10_000]  # `int` refuses so many digits
    assert sorted(huge, key=natural_key) == huge
    assert min(["²", "1", "٣"], key=natural_key) == "1"  # digits of other scripts are letters
