"""Content-defined boundaries match their definition, and an edit moves only nearby cuts.

A *border* is a cut that depends only on nearby hashes; a *split* is a cut between two borders.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.text.chunking import (
    chunk_spans,
    content_boundaries,
    content_spans,
    text_hash,
)
from e2graphrag_integrations.text.sentences import sentence_spans, sentence_starts
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter, counted_spans, token_spans
from strategies import (
    CharacterCounter,
    WordCounter,
    byte_level_counter,
    counters,
    metaspace_counter,
    minilm_counter,
    quick,
    texts,
)

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


NOVEL = Path(__file__).parents[2] / "examples" / "data" / "the_time_machine.txt"
WORDS = "one two three. Four five six seven. Eight nine."
"""Tokens 0-8; sentences start at tokens 0, 3 and 7."""


def chunks(text, size, overlap, counter=None):
    spans = chunk_spans(text, counter or WordCounter(), chunk_size=size, chunk_overlap=overlap)
    return [text[start:end] for start, end in spans]


def test_chunks_end_at_the_last_sentence_that_fits():
    # From 0 a chunk reaches token 5; the last sentence start is 3. From 3 it reaches 8, so 7.
    assert chunks(WORDS, 5, 0) == ["one two three.", "Four five six seven.", "Eight nine."]


def test_overlap_consists_of_complete_sentences():
    # Tokens 0-6 fit in 7 and end a sentence; 4 tokens back from 7 is token 3, a sentence start.
    assert chunks(WORDS, 7, 4) == [
        "one two three. Four five six seven.",
        "Four five six seven. Eight nine.",
    ]


def test_overlap_shorter_than_the_last_sentence_is_dropped():
    # 3 tokens back from 7 is token 4, inside a sentence; the next sentence start is 7 itself.
    assert chunks(WORDS, 7, 3) == ["one two three. Four five six seven.", "Eight nine."]


def test_sentence_longer_than_a_chunk_is_cut_between_tokens_with_exact_overlap():
    # Starts 0, 4-1=3, 7-1=6.
    assert chunks("a b c d e f g h", 4, 1) == ["a b c d", "d e f g", "g h"]


def test_sentence_start_inside_the_overlap_does_not_stall():
    # A sentence starts at token 1, but a chunk ending there would consist of overlap only.
    assert chunks("Hm. a b c d e f", 4, 2) == ["Hm. a b c", "b c d e", "d e f"]


def test_text_that_fits_is_one_stripped_chunk():
    assert chunks("\r\n  one two.\t", 1200, 100) == ["one two."]


@pytest.mark.parametrize("text", ["", "   ", "\r\n\t\u3000"])
def test_text_without_tokens_has_no_chunks(text):
    assert chunks(text, 5, 0, ApproximateTokenCounter()) == []
    assert chunks(text, 5, 0, CharacterCounter()) == []


def test_chinese_text_is_cut_after_its_full_stops():
    # Sentences of 5, 4 and 2 characters with their full stops: 5 + 4 fit in 10.
    text = "我们来了。他走了。好。"
    assert chunks(text, 10, 0, ApproximateTokenCounter()) == ["我们来了。他走了。", "好。"]


def test_a_chinese_sentence_that_does_not_fit_is_cut_after_a_semicolon():
    text = "他走了。我们来了；他们也来了；然后大家都走了。"
    counter = ApproximateTokenCounter()
    assert chunks(text, 16, 0, counter) == [
        "他走了。",
        "我们来了；他们也来了；",
        "然后大家都走了。",
    ]
    assert chunks(text, 40, 0, counter) == [text]


def test_token_with_a_leading_space_belongs_to_the_new_sentence():
    assert chunks("One two. Three four.", 3, 0, metaspace_counter()) == ["One two.", "Three four."]


def test_chunks_that_differ_only_in_white_space_are_merged():
    # Pairs with an overlap of one: "a ", "  ", "  ", " b", "bc". Stripped, "b" is part of "bc".
    assert chunks("a   bc", 2, 1, CharacterCounter()) == ["a", "bc"]


def test_base64_is_cut_without_loss():
    text = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 50
    assert "".join(chunks(text, 20, 0, ApproximateTokenCounter())) == text


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (5, 5), (5, 6), (5, -1)])
def test_invalid_sizes_are_rejected(size, overlap):
    with pytest.raises(InvalidInputError, match=f"chunk_size={size}, chunk_overlap={overlap}"):
        chunks("a b", size, overlap)


@st.composite
def cases(draw):
    size = draw(st.integers(1, 40))
    return draw(counters()), draw(texts()), size, draw(st.integers(0, size - 1))


@quick
@given(cases())
def test_spans_increase_and_have_no_surrounding_white_space(case):
    counter, text, size, overlap = case
    spans = chunk_spans(text, counter, chunk_size=size, chunk_overlap=overlap)
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start < next_start
        assert end < next_end
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()


@quick
@given(cases())
def test_chunks_and_overlaps_stay_within_their_token_limits(
    case,
):
    counter, text, size, overlap = case
    tokens, before = counted_spans(counter, text)
    weights = np.diff(before)  # a character can be several byte-level tokens
    spans = chunk_spans(text, counter, chunk_size=size, chunk_overlap=overlap)

    def inside(start, end):
        return int(weights[(tokens[:, 1] > start) & (tokens[:, 0] < end)].sum())

    # A single character cannot be cut, whatever its token count.
    assert all(inside(start, end) <= size or end - start == 1 for start, end in spans)
    for before, after in pairwise(spans):
        if after.start < before.end:
            assert inside(after.start, before.end) <= overlap


@quick
@given(cases())
def test_chunks_cover_every_token_character(case):
    counter, text, size, overlap = case
    covered = {
        i
        for start, end in chunk_spans(text, counter, chunk_size=size, chunk_overlap=overlap)
        for i in range(start, end)
    }
    for start, end in token_spans(counter, text).tolist():
        assert all(i in covered or text[i].isspace() for i in range(start, end))


@quick
@given(texts(), st.integers(1, 20))
def test_chunks_without_overlap_are_disjoint(text, size):
    spans = chunk_spans(text, minilm_counter(), chunk_size=size, chunk_overlap=0)
    assert all(before.end <= after.start for before, after in pairwise(spans))


@pytest.mark.parametrize("span", [None, (1, 1), (3, 4)])
def test_counter_that_finds_no_tokens_is_rejected(span):
    class EmptyCounter:
        def count(self, text):
            return 1

        def spans(self, text):
            return [span] if span else []

    with pytest.raises(
        InvalidInputError, match=r"EmptyCounter\.spans\(\) found no token in 'one two'"
    ):
        chunk_spans("one two", EmptyCounter(), chunk_size=5, chunk_overlap=0)
    # Many tokenizers have no tokens for control characters.
    assert chunk_spans("\0\u200b  ", EmptyCounter(), chunk_size=5, chunk_overlap=0) == []


# Content-defined chunks


def content_chunks(text, size, counter=None):
    spans = content_spans(text, counter or WordCounter(), chunk_size=size)
    return [text[start:end] for start, end in spans]


def prose(seed, sentences):
    """Return distinct sentences of six to ten words."""
    source = np.random.default_rng(seed)
    return [
        f"Sentence {n} of {seed} says {'very ' * source.integers(5)}little."
        for n in range(sentences)
    ]


def weight_inside(counter, text):
    """Return a function that counts the tokens in a span of the text."""
    tokens, before = counted_spans(counter, text)
    weights = np.diff(before)
    return lambda start, end: int(weights[(tokens[:, 1] > start) & (tokens[:, 0] < end)].sum())


def test_content_chunks_start_at_sentences_with_the_smallest_hash_nearby():
    text = " ".join(prose(0, 80))
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    sizes = [len(sentence.split()) for sentence in sentences]
    at = np.cumsum([0, *sizes]).tolist()
    cuts = content_boundaries([text_hash(s) for s in sentences], at[:-1], at[-1], 10, 30).tolist()
    expected = [" ".join(sentences[a:b]) for a, b in pairwise([*cuts, len(sentences)])]
    assert content_chunks(text, 30) == expected
    assert len(expected) > 15


def test_content_chunks_never_change_between_releases():
    """If boundaries moved, updating an index would regenerate chunks that nobody edited."""
    sentences = (
        "One two three. Four five six. Seven eight nine. Ten eleven twelve. Thirteen. Go on."
    )
    assert content_chunks(sentences, 12) == [
        "One two three. Four five six. Seven eight nine.",
        "Ten eleven twelve. Thirteen. Go on.",
    ]
    words = (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda my ny xi omikron pi rho"
    )
    assert content_chunks(words, 9) == [
        "alpha beta gamma delta epsilon zeta",
        "eta theta iota kappa lambda",
        "my ny xi omikron pi rho",
    ]


def test_text_that_fits_is_one_stripped_content_chunk():
    assert content_chunks("\r\n  one two.\t", 2) == ["one two."]
    assert content_chunks("\r\n  One two. Three.\t", 10**15) == ["One two. Three."]


@pytest.mark.parametrize("text", ["", "   ", "\r\n\t\u3000"])
def test_text_without_tokens_has_no_content_chunks(text):
    assert content_chunks(text, 5, ApproximateTokenCounter()) == []
    assert content_chunks(text, 5, CharacterCounter()) == []


def test_only_sentences_longer_than_a_content_chunk_are_cut():
    long = " ".join(f"w{n}" for n in range(100))
    text = f"It begins here. {long}. So it ends."
    chunks = content_chunks(text, 12)
    assert " ".join(chunks) == text
    assert all(len(chunk.split()) <= 12 for chunk in chunks)
    assert sum("w" in chunk for chunk in chunks) >= 9
    assert any("It begins here." in chunk for chunk in chunks)
    assert any("So it ends." in chunk for chunk in chunks)


def test_insertion_into_text_without_sentences_changes_few_content_chunks():
    words = [f"w{n}" for n in range(600)]
    before = content_chunks(" ".join(words), 12)
    after = content_chunks(" ".join([*words[:300], "NEW", *words[300:]]), 12)
    assert len(before) > 50
    assert 1 <= len(set(after) - set(before)) <= 4


def test_chinese_content_chunks_end_at_full_stops():
    sentences = [f"第{number}天我们去了城里。" for number in range(40)]
    chunks = content_chunks("".join(sentences), 30, ApproximateTokenCounter())
    assert "".join(chunks) == "".join(sentences)
    assert all(chunk.startswith("第") and chunk.endswith("。") for chunk in chunks)
    assert len(chunks) > 10


def test_character_of_several_tokens_is_not_split():
    text = "👩‍👩‍👧‍👦🏳️‍🌈" * 20
    counter = byte_level_counter()
    inside = weight_inside(counter, text)
    spans = content_spans(text, counter, chunk_size=9)
    assert "".join(content_chunks(text, 9, counter)) == text
    assert all(inside(start, end) <= 9 for start, end in spans)
    # A character of four tokens cannot be split.
    assert content_chunks("👩👩", 1, counter) == ["👩", "👩"]


def test_content_chunks_of_size_one_are_tokens():
    assert content_chunks(WORDS, 1) == WORDS.split()


def test_base64_content_chunks_lose_nothing():
    text = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 50
    assert "".join(content_chunks(text, 20, ApproximateTokenCounter())) == text


@pytest.mark.parametrize("size", [0, -1])
def test_invalid_content_chunk_size_is_rejected(size):
    with pytest.raises(InvalidInputError, match=f"chunk_size={size}"):
        content_chunks("a b", size)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], r"found no token in 'one two'"),
        ([(1, 1)], r"found no token in 'one two'"),
        ([(3, 4)], r"found no token in 'one two'"),  # white space
        ([(0, 99)], "outside the text's 7 characters"),
        ([(4, 7), (0, 3)], "out of order"),
        ([(0.5, 1)], "integers"),
        (None, "returned no list of spans|must return a list"),
    ],
)
def test_counter_with_invalid_spans_is_rejected_for_content_chunks(found, message):
    class WrongCounter:
        def count(self, text):
            return 1

        def spans(self, text):
            return found

    with pytest.raises(InvalidInputError, match=rf"WrongCounter\.spans\(\).*({message})"):
        content_chunks("one two", 5, WrongCounter())


content_cases = st.tuples(counters(), texts(), st.integers(1, 40) | st.just(10**12))


@quick
@given(content_cases)
def test_content_chunks_are_disjoint_and_have_no_surrounding_white_space(case):
    counter, text, size = case
    spans = content_spans(text, counter, chunk_size=size)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()


@quick
@given(content_cases)
def test_content_chunks_stay_within_the_token_limit(case):
    counter, text, size = case
    inside = weight_inside(counter, text)
    spans = content_spans(text, counter, chunk_size=size)
    # A single character cannot be cut, whatever its token count.
    assert all(inside(start, end) <= size or end - start == 1 for start, end in spans)


@quick
@given(content_cases)
def test_content_chunks_cover_every_token_character_once(case):
    counter, text, size = case
    spans = content_spans(text, counter, chunk_size=size)
    covered = [i for start, end in spans for i in range(start, end)]
    assert len(covered) == len(set(covered))
    tokens = {i for start, end in token_spans(counter, text).tolist() for i in range(start, end)}
    assert {i for i in tokens if not text[i].isspace()} <= set(covered)


@quick
@given(content_cases)
def test_equal_texts_have_equal_content_chunks(case):
    counter, text, size = case
    spans = content_spans(text, counter, chunk_size=size)
    assert content_spans("".join(text), counter, chunk_size=size) == spans


@quick
@given(st.integers(0, 9), st.integers(0, 120), st.integers(1, 40), st.integers(10, 60))
def test_insertion_keeps_distant_content_chunks(seed, at, count, size):
    """Distant: beyond a boundary by smallest hash at least a third of a chunk away."""
    sentences = prose(seed, 120)
    new = [*sentences[:at], *prose(seed + 10, count), *sentences[at:]]
    before, after = content_chunks(" ".join(sentences), size), content_chunks(" ".join(new), size)
    least = max(1, size // 3)
    starts = np.cumsum([0, *(len(s.split()) for s in sentences)])
    hashes = [text_hash(sentence) for sentence in sentences]
    boundaries = content_boundaries(hashes, starts[:-1], starts[-1], least, 10**9)
    left = starts[boundaries][starts[boundaries] <= starts[at] - least]
    right = starts[boundaries][starts[boundaries] >= starts[at] + least]
    words_before = np.cumsum([0, *(len(chunk.split()) for chunk in before)])
    kept_left = before[: np.searchsorted(words_before, left[-1])] if len(left) else []
    kept_right = before[np.searchsorted(words_before, right[0]) :] if len(right) else []
    assert after[: len(kept_left)] == kept_left
    assert after[len(after) - len(kept_right) :] == kept_right


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("size", [12, 40])
def test_sentence_inserted_into_prose_changes_one_or_two_content_chunks(size):
    changed = []
    for seed in range(30):
        sentences = prose(seed, 150)
        at = 5 * seed
        before = content_chunks(" ".join(sentences), size)
        after = content_chunks(
            " ".join([*sentences[:at], "This one is new.", *sentences[at:]]), size
        )
        changed.append(len(set(after) - set(before)))
    assert min(changed) == 1
    assert np.mean(changed) < 2
    assert max(changed) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("size", [120, 1200])
def test_sentence_inserted_into_a_novel_changes_few_content_chunks(size):
    text = NOVEL.read_text(encoding="utf-8")[:70_000]
    before = set(content_chunks(text, size))
    changed = []
    for start in sentence_starts(text)[::60]:
        new = f"{text[:start]}Nobody had yet heard of it. {text[start:]}"
        changed.append(len(set(content_chunks(new, size)) - before))
    assert len(changed) > 8
    assert np.mean(changed) < 2
    assert max(changed) <= 4
