"""Content-defined boundaries match their definition, and an edit moves only nearby cuts.

A *border* is a cut that depends only on nearby hashes; a *split* is a cut between two borders.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.text.content_defined import content_boundaries, text_hash
from strategies import quick

UNLIMITED = 10**9
"""A maximum that no piece reaches, so that there are borders but no splits."""


def cut(hashes, positions, end, minimum, maximum):
    return content_boundaries(hashes, positions, end, minimum, maximum).tolist()


def naive_borders(hashes, positions, end, minimum):
    """Return the borders by the definition: compare each position with all others."""
    borders = [0]
    for number, position in enumerate(positions[1:], 1):
        near = [other for other, offset in enumerate(positions) if abs(offset - position) < minimum]
        smallest = min(near, key=lambda other: (hashes[other], other)) == number
        if smallest and position >= minimum and end - position >= minimum:
            borders.append(number)
    return borders


def naive_splits(hashes, positions, piece, minimum, maximum):
    """Return the splits of a piece `(first, last, end offset)` in order."""
    first, last, stop = piece
    start, inside = positions[first], range(first + 1, last)
    if stop - start <= maximum or not inside:
        return []
    fair = [n for n in inside if positions[n] - start >= minimum and stop - positions[n] >= minimum]
    middle = (start + stop) / 2
    found = (
        min(fair, key=lambda n: (hashes[n], n))
        if fair
        else min(inside, key=lambda n: (abs(positions[n] - middle), n))
    )
    left, right = (first, found, positions[found]), (found, last, stop)
    return [
        *naive_splits(hashes, positions, left, minimum, maximum),
        found,
        *naive_splits(hashes, positions, right, minimum, maximum),
    ]


def naive_cuts(hashes, positions, end, minimum, maximum):
    if not positions:
        return []
    borders = naive_borders(hashes, positions, end, minimum)
    lasts = [*borders[1:], len(positions)]
    pieces = zip(borders, lasts, [[*positions, end][n] for n in lasts], strict=True)
    return [
        number
        for piece in pieces
        for number in (piece[0], *naive_splits(hashes, positions, piece, minimum, maximum))
    ]


def lay_out(items):
    """Return the hashes, offsets and total width of items, which are pairs of hash and width."""
    offsets = np.cumsum([0, *(width for _, width in items)]).tolist()
    return [value for value, _ in items], offsets[:-1], offsets[-1]


few_values, any_values = st.integers(0, 3), st.integers(0, 2**63 - 1)
widths = st.one_of(st.just(1), st.integers(1, 6))


def items(min_size=0):
    """Generate items such as sentences: pairs of a hash, often repeated, and a width."""
    values = st.sampled_from([few_values, any_values])
    return values.flatmap(
        lambda value: st.lists(st.tuples(value, widths), min_size=min_size, max_size=60)
    )


sizes = st.integers(1, 9).flatmap(
    lambda minimum: st.tuples(st.just(minimum), st.integers(minimum, 30))
)


def test_locally_smallest_hash_starts_a_piece():
    # The hashes at 4 and 9 are the smallest within 2 on both sides; 11 is too close to the end.
    hashes = [5, 9, 8, 7, 1, 8, 9, 7, 6, 2, 9, 3]
    assert cut(hashes, range(12), 12, 3, 9) == [0, 4, 9]


def test_long_piece_is_split_at_the_smallest_hash_that_leaves_enough():
    # Ascending hashes have no border. Positions 4, 5 and 6 of ten leave four on both sides.
    assert cut([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], range(10), 10, 4, 9) == [0, 4]
    assert cut([0, 1, 2, 3, 9, 5, 6, 7, 8, 9], range(10), 10, 4, 9) == [0, 5]
    assert cut([0, 1, 2, 3, 9, 8, 5, 6, 7, 8], range(10), 10, 4, 9) == [0, 6]
    assert cut([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], range(10), 10, 4, 10) == [0]  # within the maximum


def test_piece_without_a_fair_position_is_split_near_its_middle():
    # Positions 2 and 9 of 11 leave less than four on one side and are equally far from 5.5.
    assert cut([1, 2, 0], [0, 2, 9], 11, 4, 10) == [0, 1]
    assert cut([1, 2, 0], [0, 1, 9], 11, 4, 10) == [0, 2]


def test_piece_without_inner_positions_is_never_split():
    assert cut([7], [0], 100, 3, 9) == [0]
    assert cut([7, 8], [0, 50], 100, 3, 9) == [0, 1]


def test_earlier_of_equal_hashes_counts_as_smaller():
    assert cut([9, 9, 9, 1, 1, 9, 9, 9], range(8), 8, 3, UNLIMITED) == [0, 3]
    assert cut([1] * 8, range(8), 8, 3, UNLIMITED) == [0]  # each has an equal predecessor
    assert cut([1] * 8, range(8), 8, 3, 7) == [0, 3]  # the earliest that leaves three


def test_no_positions_give_no_cuts():
    assert cut([], [], 0, 3, 9) == []
    assert content_boundaries([], [], 0, 3, 9).dtype == np.int64


@quick
@given(items(), sizes)
def test_cuts_match_the_definition(sequence, limits):
    hashes, positions, end = lay_out(sequence)
    assert cut(hashes, positions, end, *limits) == naive_cuts(hashes, positions, end, *limits)


@quick
@given(items(min_size=1), sizes)
def test_first_position_is_a_cut_and_cuts_ascend(sequence, limits):
    cuts = cut(*lay_out(sequence), *limits)
    assert cuts[0] == 0
    assert all(a < b < len(sequence) for a, b in pairwise(cuts))


@quick
@given(items(min_size=1), sizes)
def test_divisible_pieces_stay_below_the_maximum(sequence, limits):
    hashes, positions, end = lay_out(sequence)
    cuts = cut(hashes, positions, end, *limits)
    for (first, start), (last, stop) in pairwise(
        [*((n, positions[n]) for n in cuts), (len(sequence), end)]
    ):
        assert stop - start <= limits[1] or last - first == 1


@quick
@given(items(min_size=1), st.integers(1, 20))
def test_unsplit_pieces_have_at_least_the_minimum(sequence, minimum):
    hashes, positions, end = lay_out(sequence)
    ends = [*(positions[n] for n in cut(hashes, positions, end, minimum, UNLIMITED)), end]
    assert all(b - a >= min(minimum, end) for a, b in pairwise(ends))


@quick
@given(st.lists(few_values, min_size=1, max_size=90), st.integers(1, 9), st.integers(0, 9))
def test_pieces_of_unit_items_lie_between_minimum_and_maximum(hashes, minimum, more):
    maximum = 2 * minimum - 1 + more  # otherwise a long piece may have no fair position
    ends = [*cut(hashes, range(len(hashes)), len(hashes), minimum, maximum), len(hashes)]
    assert all(min(minimum, len(hashes)) <= b - a <= maximum for a, b in pairwise(ends))


@quick
@given(st.integers(1, 200), st.integers(1, 9), st.integers(0, 20))
def test_equal_hashes_are_cut_at_the_earliest_fair_position(count, minimum, more):
    maximum = 2 * minimum - 1 + more
    expected = [0]
    while count - expected[-1] > maximum:
        expected.append(expected[-1] + minimum)
    # With minimum=1 every position is a border.
    if minimum > 1:
        assert cut([7] * count, range(count), count, minimum, maximum) == expected
    else:
        assert cut([7] * count, range(count), count, minimum, maximum) == list(range(count))


@quick
@given(items(min_size=1), sizes)
def test_cuts_depend_only_on_the_order_of_hashes(sequence, limits):
    hashes, positions, end = lay_out(sequence)
    ranks = {value: 2**40 + 3 * rank for rank, value in enumerate(sorted(set(hashes)))}
    as_ranks = [ranks[value] for value in hashes]
    assert cut(as_ranks, positions, end, *limits) == cut(hashes, positions, end, *limits)


@st.composite
def edits(draw):
    """Draw items and an edit: a range of indices and the items that replace it."""
    before = draw(items(min_size=1))
    first = draw(st.integers(0, len(before)))
    last = draw(st.integers(first, min(len(before), first + draw(st.sampled_from([0, 1, 2, 9])))))
    new = draw(st.lists(st.tuples(few_values | any_values, widths), max_size=3))
    assume(len(before) - (last - first) + len(new))
    return before, first, last, new


def edited(edit):
    """Return the start and end offsets of an edit and the shift of everything after it."""
    before, first, last, new = edit
    offsets = [*lay_out(before)[1], lay_out(before)[2]]
    return offsets[first], offsets[last], sum(w for _, w in new) - offsets[last] + offsets[first]


def cut_before_and_after(edit, minimum, maximum):
    """Return the offsets of the cuts before and after the edit."""
    before, first, last, new = edit
    versions = lay_out(before), lay_out([*before[:first], *new, *before[last:]])
    return [
        [positions[number] for number in cut(hashes, positions, end, minimum, maximum)]
        for hashes, positions, end in versions
    ]


def up_to(offsets, limit):
    return [position for position in offsets if position <= limit]


def starting_at(offsets, limit, shift=0):
    """Return the offsets from a limit on, minus `shift`."""
    return [position - shift for position in offsets if position - shift >= limit]


@quick
@given(edits(), st.integers(1, 9))
def test_edit_moves_only_borders_closer_than_the_minimum(edit, minimum):
    start, stop, shift = edited(edit)
    old, new = cut_before_and_after(edit, minimum, UNLIMITED)
    assert up_to(old, start - minimum) == up_to(new, start - minimum)
    assert starting_at(old, stop + minimum) == starting_at(new, stop + minimum, shift)


@quick
@given(edits(), sizes)
def test_edit_moves_only_cuts_between_unaffected_borders(edit, limits):
    """Only cuts between the nearest borders at least `minimum` away from the edit can move."""
    minimum, maximum = limits
    start, stop, shift = edited(edit)
    borders, _ = cut_before_and_after(edit, minimum, UNLIMITED)
    first = max(up_to(borders, start - minimum), default=-1)
    last = min(starting_at(borders, stop + minimum), default=UNLIMITED)
    old, new = cut_before_and_after(edit, minimum, maximum)
    assert up_to(old, first) == up_to(new, first)
    assert starting_at(old, last) == starting_at(new, last, shift)


@pytest.mark.parametrize(("minimum", "maximum"), [(3, 10), (20, 60)])
def test_insertion_among_distinct_hashes_moves_few_cuts(minimum, maximum):
    source = np.random.default_rng(0)
    hashes = source.integers(2**62, size=3000).tolist()
    before = cut(hashes, range(3000), 3000, minimum, maximum)
    moved = []
    for _ in range(60):
        position = int(source.integers(3000))
        new = [*hashes[:position], int(source.integers(2**62)), *hashes[position:]]
        after = cut(new, range(3001), 3001, minimum, maximum)
        moved.append(len({n + (n >= position) for n in before} ^ set(after)))
    assert np.mean(moved) < 1
    assert max(moved) <= 6


def test_mean_piece_is_about_six_tenths_of_the_maximum():
    hashes = np.random.default_rng(0).integers(2**62, size=20_000).tolist()
    cuts = cut(hashes, range(20_000), 20_000, 20, 60)
    assert 0.55 < 20_000 / len(cuts) / 60 < 0.65


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 8238016292129134938),
        ("Anna met Bert in Oslo.", 439280301370612931),
        ("北京是中国的首都。", 7594369193839374527),
    ],
)
def test_text_hashes_never_change_between_releases(text, expected):
    """Verification recomputes the trees of files: a different hash would invalidate them."""
    assert text_hash(text) == expected < 2**63
