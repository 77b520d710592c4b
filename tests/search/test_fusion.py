"""The array functions of rank fusion, compared with plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations._utils.arrays import exclusive_sums
from e2graphrag_integrations.search import fusion
from e2graphrag_integrations.search.fusion import (
    reciprocal_rank,
    scale_scores,
    smooth_over_neighbors,
    top_rows,
)


def floats(*values, dtype=np.float64):
    return np.asarray(values, dtype=dtype)


def rows(*values):
    return np.asarray(values, dtype=np.int64)


def test_top_rows_are_sorted_best_first():
    assert top_rows(floats(0.5, 3, 1, 2), 3).tolist() == [1, 3, 2]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1]), (2, [1, 0]), (3, [1, 0, 2]), (4, [1, 0, 2, 4])]
)
def test_earlier_row_wins_ties_at_the_cutoff(count, expected):
    assert top_rows(floats(1, 3, 1, 0.5, 1), count).tolist() == expected


def test_top_rows_excludes_scores_of_zero_and_below():
    assert top_rows(floats(0, -1, 2, -0.0), 9).tolist() == [2]
    assert top_rows(floats(0, -1), 9).tolist() == top_rows(floats(), 9).tolist() == []


def test_top_rows_with_count_zero_is_empty():
    assert top_rows(floats(1, 2), 0).tolist() == []


coarse_scores = st.integers(-2, 4).map(lambda n: n / 2)  # coarse, to produce ties


@given(
    st.lists(coarse_scores, max_size=30),
    st.integers(0, 35),
    st.sampled_from([np.float32, np.float64]),
)
def test_top_rows_matches_a_full_sort(scores, count, dtype):
    positive = [row for row, score in enumerate(scores) if score > 0]
    expected = sorted(positive, key=lambda row: (-scores[row], row))[:count]
    assert top_rows(floats(*scores, dtype=dtype), count).tolist() == expected


def test_scale_scores_maps_floor_to_zero_and_best_to_one():
    assert scale_scores(floats(5, 1, 2, 4), 1).tolist() == [1, 0, 0.25, 0.75]


def test_scores_below_the_floor_become_negative():
    assert scale_scores(floats(4, 1), 2).tolist() == [1, -0.5]


@pytest.mark.parametrize("floor", [2, 3])
def test_scores_not_above_the_floor_all_become_one(floor):
    assert scale_scores(floats(2, 2), floor).tolist() == [1, 1]


def test_scale_scores_of_nothing_is_empty():
    assert scale_scores(floats(), 0).tolist() == []


def test_scaled_scores_are_double_precision():
    scaled = scale_scores(floats(1, 0.1, dtype=np.float32), 0)
    assert scaled.dtype == np.float64
    assert scaled.tolist() == [1, float(np.float32(0.1))]


@given(st.lists(coarse_scores, min_size=1, max_size=12), coarse_scores)
def test_scale_scores_matches_a_loop(scores, floor):
    best = max(scores)
    expected = [(s - floor) / (best - floor) if best > floor else 1 for s in scores]
    assert scale_scores(floats(*scores), floor).tolist() == pytest.approx(expected)


def test_smoothing_decays_with_distance_up_to_the_reach():
    reached, values = smooth_over_neighbors(rows(3), floats(8), rows(0, 8), 0.5, 2)
    assert reached.tolist() == [1, 2, 3, 4, 5]
    assert values.tolist() == [2, 4, 8, 4, 2]


def test_smoothing_stays_within_the_group():
    reached, values = smooth_over_neighbors(rows(1, 3), floats(4, 6), rows(0, 2, 4, 5), 0.5, 3)
    assert reached.tolist() == [0, 1, 2, 3]
    assert values.tolist() == [2, 4, 3, 6]


def test_smoothing_sums_the_contributions_of_neighbors():
    # Row 1 has 4, plus 8/2 from row 2; row 0 receives 4/2 + 8/4.
    reached, values = smooth_over_neighbors(rows(1, 2), floats(4, 8), rows(0, 3), 0.5, 2)
    assert reached.tolist() == [0, 1, 2]
    assert values.tolist() == [4, 8, 10]


@given(st.lists(st.floats(0.01, 1), min_size=8, max_size=8), st.sets(st.integers(0, 7)))
def test_equal_neighborhoods_have_bitwise_equal_values(values, excluded):
    group = [row for row in range(8) if row not in excluded]
    repeated = rows(*group, *[8 + row for row in group], *[16 + row for row in group])
    group_values = floats(*[values[row] for row in group] * 3)
    reached, sums = smooth_over_neighbors(repeated, group_values, rows(0, 8, 16, 24), 0.5, 8)
    first, second, third = np.split(sums, 3)
    assert first.tolist() == second.tolist() == third.tolist()
    assert reached.tolist() == [*range(24)] or not group


@pytest.mark.parametrize("reach", [0, 1, 100])
def test_smoothing_of_no_rows_is_empty(reach):
    reached, values = smooth_over_neighbors(rows(), floats(), rows(0, 2), 0.5, reach)
    assert (reached.tolist(), values.tolist()) == ([], [])


def test_reach_of_zero_leaves_values_unchanged():
    reached, values = smooth_over_neighbors(rows(0, 2), floats(1, 2), rows(0, 3), 0.5, 0)
    assert (reached.tolist(), values.tolist()) == ([0, 2], [1, 2])


def test_decay_of_one_copies_values_and_of_zero_drops_them():
    assert smooth_over_neighbors(rows(0), floats(3), rows(0, 2), 1, 1)[1].tolist() == [3, 3]
    reached, values = smooth_over_neighbors(rows(0), floats(3), rows(0, 2), 0, 1)
    assert dict(zip(reached.tolist(), values.tolist(), strict=True)).get(0) == 3
    assert values.sum() == 3


@st.composite
def smoothing_cases(draw):
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    drawn_rows = sorted(draw(st.sets(st.integers(0, sum(sizes) - 1))))
    values = [draw(st.floats(0.01, 10)) for _ in drawn_rows]
    return drawn_rows, values, sizes, draw(st.floats(0.01, 1)), draw(st.integers(0, 8))


@given(smoothing_cases())
def test_smoothing_matches_a_loop(case):
    drawn_rows, values, sizes, decay, reach = case
    groups = [number for number, size in enumerate(sizes) for _ in range(size)]
    expected = {}
    for row, value in zip(drawn_rows, values, strict=True):
        for other, group in enumerate(groups):
            if group == groups[row] and abs(other - row) <= reach:
                expected[other] = expected.get(other, 0) + value * decay ** abs(other - row)
    reached, sums = smooth_over_neighbors(
        rows(*drawn_rows), floats(*values), exclusive_sums(sizes), decay, reach
    )
    assert reached.tolist() == sorted(expected)
    assert sums.tolist() == pytest.approx([expected[row] for row in sorted(expected)])


@given(smoothing_cases())
def test_smoothing_neighborhoods_equals_smoothing_all_rows(case):
    drawn_rows, values, sizes, decay, reach = case
    arguments = rows(*drawn_rows), floats(*values), exclusive_sums(sizes), decay, reach
    all_rows = smooth_over_neighbors(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "_FEW_ROWS", -1)
        neighborhoods = smooth_over_neighbors(*arguments)
    assert [part.tolist() for part in neighborhoods] == [part.tolist() for part in all_rows]


@given(smoothing_cases())
def test_smoothing_neighborhoods_matches_a_loop(case):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "_FEW_ROWS", -1)
        test_smoothing_matches_a_loop.hypothesis.inner_test(case)


def test_reciprocal_rank_matches_the_formula():
    assert reciprocal_rank(1, 60) == 1 / 61
    assert reciprocal_rank(rows(1, 3), 1.0).tolist() == [0.5, 0.25]
