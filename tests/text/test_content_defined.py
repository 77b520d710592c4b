"""Cuts by content: what the docstring says, at all sizes; an edit moves only what is near.

A *border* below is a cut that is one by its own surroundings; *splits* are those between borders.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.text.content_defined import content_boundaries, text_hash
from strategies import quick

ENDLESS = 10**9
"""A largest piece that nothing reaches: without splits only borders are left."""


def cut(hashes, at, end, least, most):
    return content_boundaries(hashes, at, end, least, most).tolist()


def borders_by_hand(hashes, at, end, least):
    """Return the cuts that are no splits, by the definition: each place against all others."""
    borders = [0]
    for number, place in enumerate(at[1:], 1):
        near = [other for other, there in enumerate(at) if abs(there - place) < least]
        smallest = min(near, key=lambda other: (hashes[other], other)) == number
        if smallest and place >= least and end - place >= least:
            borders.append(number)
    return borders


def splits_by_hand(hashes, at, piece, least, most):
    """Return the further cuts of a piece from one place up to another, or the end, in order."""
    first, last, stop = piece
    start, inside = at[first], range(first + 1, last)
    if stop - start <= most or not inside:
        return []
    fair = [n for n in inside if at[n] - start >= least and stop - at[n] >= least]
    middle = (start + stop) / 2
    found = (
        min(fair, key=lambda n: (hashes[n], n))
        if fair
        else min(inside, key=lambda n: (abs(at[n] - middle), n))
    )
    left, right = (first, found, at[found]), (found, last, stop)
    return [
        *splits_by_hand(hashes, at, left, least, most),
        found,
        *splits_by_hand(hashes, at, right, least, most),
    ]


def cut_by_hand(hashes, at, end, least, most):
    if not at:
        return []
    borders = borders_by_hand(hashes, at, end, least)
    lasts = [*borders[1:], len(at)]
    pieces = zip(borders, lasts, [[*at, end][n] for n in lasts], strict=True)
    return [
        number
        for piece in pieces
        for number in (piece[0], *splits_by_hand(hashes, at, piece, least, most))
    ]


def laid_out(items):
    """Return the hashes, the places and the end of items, each a hash with a width."""
    places = np.cumsum([0, *(width for _, width in items)]).tolist()
    return [value for value, _ in items], places[:-1], places[-1]


few_values, any_values = st.integers(0, 3), st.integers(0, 2**63 - 1)
widths = st.one_of(st.just(1), st.integers(1, 6))


def items(min_size=0):
    """Sentences, say: what each hashes to, often the same, and how long it is."""
    values = st.sampled_from([few_values, any_values])
    return values.flatmap(
        lambda value: st.lists(st.tuples(value, widths), min_size=min_size, max_size=60)
    )


sizes = st.integers(1, 9).flatmap(lambda least: st.tuples(st.just(least), st.integers(least, 30)))


def test_the_smallest_hash_around_begins_a_piece():
    # Place 4 is the smallest within 2 on both sides, and so is 9; 11 would be but for the end.
    hashes = [5, 9, 8, 7, 1, 8, 9, 7, 6, 2, 9, 3]
    assert cut(hashes, range(12), 12, 3, 9) == [0, 4, 9]


def test_a_piece_that_is_too_long_is_split_at_the_smallest_hash_that_leaves_enough():
    # Ascending hashes have no border. Of ten, places 4, 5 and 6 leave four on both sides.
    assert cut([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], range(10), 10, 4, 9) == [0, 4]
    assert cut([0, 1, 2, 3, 9, 5, 6, 7, 8, 9], range(10), 10, 4, 9) == [0, 5]
    assert cut([0, 1, 2, 3, 9, 8, 5, 6, 7, 8], range(10), 10, 4, 9) == [0, 6]
    assert cut([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], range(10), 10, 4, 10) == [0]  # not too long


def test_a_piece_that_nothing_fair_is_in_is_split_near_its_middle():
    # Places 0, 2, 9 of 11: both leave less than four on one side; 5.5 is nearest to 2 and to 9.
    assert cut([1, 2, 0], [0, 2, 9], 11, 4, 10) == [0, 1]
    assert cut([1, 2, 0], [0, 1, 9], 11, 4, 10) == [0, 2]


def test_what_has_no_place_inside_stays_whole_however_long_it_is():
    assert cut([7], [0], 100, 3, 9) == [0]
    assert cut([7, 8], [0, 50], 100, 3, 9) == [0, 1]


def test_of_equal_hashes_the_earlier_is_the_smaller():
    assert cut([9, 9, 9, 1, 1, 9, 9, 9], range(8), 8, 3, ENDLESS) == [0, 3]
    assert cut([1] * 8, range(8), 8, 3, ENDLESS) == [0]  # each has an equal one before it
    assert cut([1] * 8, range(8), 8, 3, 7) == [0, 3]  # the earliest that leaves three


def test_no_places_have_no_cuts():
    assert cut([], [], 0, 3, 9) == []
    assert content_boundaries([], [], 0, 3, 9).dtype == np.int64


@quick
@given(items(), sizes)
def test_cuts_are_those_of_the_definition(whole, least_and_most):
    hashes, at, end = laid_out(whole)
    assert cut(hashes, at, end, *least_and_most) == cut_by_hand(hashes, at, end, *least_and_most)


@quick
@given(items(min_size=1), sizes)
def test_the_first_place_is_a_cut_and_cuts_ascend(whole, least_and_most):
    cuts = cut(*laid_out(whole), *least_and_most)
    assert cuts[0] == 0
    assert all(a < b < len(whole) for a, b in pairwise(cuts))


@quick
@given(items(min_size=1), sizes)
def test_no_piece_with_a_place_inside_is_longer_than_the_most(whole, least_and_most):
    hashes, at, end = laid_out(whole)
    cuts = cut(hashes, at, end, *least_and_most)
    for (first, start), (last, stop) in pairwise([*((n, at[n]) for n in cuts), (len(whole), end)]):
        assert stop - start <= least_and_most[1] or last - first == 1


@quick
@given(items(min_size=1), st.integers(1, 20))
def test_no_piece_that_was_not_split_is_shorter_than_the_least(whole, least):
    hashes, at, end = laid_out(whole)
    ends = [*(at[n] for n in cut(hashes, at, end, least, ENDLESS)), end]
    assert all(b - a >= min(least, end) for a, b in pairwise(ends))


@quick
@given(st.lists(few_values, min_size=1, max_size=90), st.integers(1, 9), st.integers(0, 9))
def test_where_every_place_may_be_cut_all_pieces_are_from_the_least_to_the_most(
    hashes, least, more
):
    most = 2 * least - 1 + more  # else what is too long may have no place that leaves enough
    ends = [*cut(hashes, range(len(hashes)), len(hashes), least, most), len(hashes)]
    assert all(min(least, len(hashes)) <= b - a <= most for a, b in pairwise(ends))


@quick
@given(st.integers(1, 200), st.integers(1, 9), st.integers(0, 20))
def test_equal_hashes_everywhere_are_cut_at_the_earliest_that_is_left(count, least, more):
    most = 2 * least - 1 + more
    expected = [0]
    while count - expected[-1] > most:
        expected.append(expected[-1] + least)
    # A piece of exactly the least is not looked at again; with least=1 every place is a border.
    if least > 1:
        assert cut([7] * count, range(count), count, least, most) == expected
    else:
        assert cut([7] * count, range(count), count, least, most) == list(range(count))


@quick
@given(items(min_size=1), sizes)
def test_what_hashes_stand_for_does_not_matter_only_which_is_smaller(whole, least_and_most):
    hashes, at, end = laid_out(whole)
    ranks = {value: 2**40 + 3 * rank for rank, value in enumerate(sorted(set(hashes)))}
    as_ranks = [ranks[value] for value in hashes]
    assert cut(as_ranks, at, end, *least_and_most) == cut(hashes, at, end, *least_and_most)


@st.composite
def edits(draw):
    """Items before and after an edit: the part between two indices was replaced by another."""
    before = draw(items(min_size=1))
    first = draw(st.integers(0, len(before)))
    last = draw(st.integers(first, min(len(before), first + draw(st.sampled_from([0, 1, 2, 9])))))
    new = draw(st.lists(st.tuples(few_values | any_values, widths), max_size=3))
    assume(len(before) - (last - first) + len(new))
    return before, first, last, new


def edited(edit):
    """Return an edit's beginning and end as places before it, and how far what follows moved."""
    before, first, last, new = edit
    places = [*laid_out(before)[1], laid_out(before)[2]]
    return places[first], places[last], sum(w for _, w in new) - places[last] + places[first]


def cut_before_and_after(edit, least, most):
    """Return the places that are cuts in the old version and in the new one."""
    before, first, last, new = edit
    versions = laid_out(before), laid_out([*before[:first], *new, *before[last:]])
    return [
        [at[number] for number in cut(hashes, at, end, least, most)] for hashes, at, end in versions
    ]


def up_to(places, limit):
    return [place for place in places if place <= limit]


def beginning_at(places, limit, shift=0):
    """Return the places from a limit on, as they were before all moved by `shift`."""
    return [place - shift for place in places if place - shift >= limit]


@quick
@given(edits(), st.integers(1, 9))
def test_an_edit_moves_no_border_but_those_nearer_than_the_least(edit, least):
    start, stop, shift = edited(edit)
    old, new = cut_before_and_after(edit, least, ENDLESS)
    assert up_to(old, start - least) == up_to(new, start - least)
    assert beginning_at(old, stop + least) == beginning_at(new, stop + least, shift)


@quick
@given(edits(), sizes)
def test_an_edit_moves_no_cut_but_between_the_borders_that_it_leaves(edit, least_and_most):
    """The bound: from the last border before the edit that is `least` away to the first behind."""
    least, most = least_and_most
    start, stop, shift = edited(edit)
    borders, _ = cut_before_and_after(edit, least, ENDLESS)
    first = max(up_to(borders, start - least), default=-1)
    last = min(beginning_at(borders, stop + least), default=ENDLESS)
    old, new = cut_before_and_after(edit, least, most)
    assert up_to(old, first) == up_to(new, first)
    assert beginning_at(old, last) == beginning_at(new, last, shift)


@pytest.mark.parametrize(("least", "most"), [(3, 10), (20, 60)])
def test_of_distinct_hashes_an_insertion_moves_few_cuts_and_seldom_any(least, most):
    source = np.random.default_rng(0)
    hashes = source.integers(2**62, size=3000).tolist()
    before = cut(hashes, range(3000), 3000, least, most)
    moved = []
    for _ in range(60):
        place = int(source.integers(3000))
        new = [*hashes[:place], int(source.integers(2**62)), *hashes[place:]]
        after = cut(new, range(3001), 3001, least, most)
        moved.append(len({n + (n >= place) for n in before} ^ set(after)))
    assert np.mean(moved) < 1
    assert max(moved) <= 6


def test_pieces_are_about_six_tenths_of_the_most_on_average():
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
def test_hashes_of_texts_are_fixed_for_ever(text, expected):
    """Trees of files are planned anew and compared: another hash would make all of them wrong."""
    assert text_hash(text) == expected < 2**63
