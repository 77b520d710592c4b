from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.text.chunking import chunk_spans, content_spans
from e2graphrag_integrations.text.content_defined import content_boundaries, text_hash
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

NOVEL = Path(__file__).parents[2] / "examples" / "data" / "the_time_machine.txt"
WORDS = "one two three. Four five six seven. Eight nine."
"""Tokens 0-8; sentences begin with tokens 0, 3 and 7."""


def chunks(text, size, overlap, counter=None):
    spans = chunk_spans(text, counter or WordCounter(), chunk_size=size, chunk_overlap=overlap)
    return [text[start:end] for start, end in spans]


def test_chunks_end_at_the_last_sentence_that_fits():
    # 5 tokens from 0 reach token 5; the last sentence start there is 3. From 3 they reach 8: 7.
    assert chunks(WORDS, 5, 0) == ["one two three.", "Four five six seven.", "Eight nine."]


def test_overlap_takes_whole_sentences():
    # Tokens 0-6 fit in 7 and end a sentence; 4 tokens back from 7 is token 3, a sentence start.
    assert chunks(WORDS, 7, 4) == [
        "one two three. Four five six seven.",
        "Four five six seven. Eight nine.",
    ]


def test_overlap_shorter_than_the_last_sentence_is_dropped():
    # 3 tokens back from 7 is token 4, inside a sentence; the next sentence start is 7 itself.
    assert chunks(WORDS, 7, 3) == ["one two three. Four five six seven.", "Eight nine."]


def test_a_sentence_longer_than_a_chunk_is_cut_between_tokens_with_exact_overlap():
    # Starts 0, 4-1=3, 7-1=6.
    assert chunks("a b c d e f g h", 4, 1) == ["a b c d", "d e f g", "g h"]


def test_a_sentence_start_inside_the_overlap_makes_progress():
    # Token 1 begins a sentence, but a chunk that ended there would be all overlap.
    assert chunks("Hm. a b c d e f", 4, 2) == ["Hm. a b c", "b c d e", "d e f"]


def test_a_text_that_fits_is_one_chunk_without_white_space_around():
    assert chunks("\r\n  one two.\t", 1200, 100) == ["one two."]


@pytest.mark.parametrize("text", ["", "   ", "\r\n\t\u3000"])
def test_a_text_without_tokens_has_no_chunks(text):
    assert chunks(text, 5, 0, ApproximateTokenCounter()) == []
    assert chunks(text, 5, 0, CharacterCounter()) == []


def test_chinese_without_spaces_is_cut_after_its_stops():
    # Sentences of 5, 4 and 2 characters, stops included: 5+4 fit in 10.
    text = "我们来了。他走了。好。"
    assert chunks(text, 10, 0, ApproximateTokenCounter()) == ["我们来了。他走了。", "好。"]


def test_a_token_that_begins_with_the_space_before_it_belongs_to_the_new_sentence():
    assert chunks("One two. Three four.", 3, 0, metaspace_counter()) == ["One two.", "Three four."]


def test_chunks_that_white_space_alone_tells_apart_are_one():
    # By twos with an overlap of one: "a ", "  ", "  ", " b", "bc"; stripped, b is part of bc.
    assert chunks("a   bc", 2, 1, CharacterCounter()) == ["a", "bc"]


def test_base64_is_cut_and_nothing_is_lost():
    text = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 50
    assert "".join(chunks(text, 20, 0, ApproximateTokenCounter())) == text


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (5, 5), (5, 6), (5, -1)])
def test_sizes_that_make_no_sense_are_refused(size, overlap):
    with pytest.raises(InvalidInputError, match=f"chunk_size={size}, chunk_overlap={overlap}"):
        chunks("a b", size, overlap)


@st.composite
def cases(draw):
    size = draw(st.integers(1, 40))
    return draw(counters()), draw(texts()), size, draw(st.integers(0, size - 1))


@quick
@given(cases())
def test_spans_increase_and_neither_begin_nor_end_with_white_space(case):
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
def test_no_chunk_holds_more_tokens_than_allowed_and_neighbors_share_no_more_than_the_overlap(
    case,
):
    counter, text, size, overlap = case
    tokens, before = counted_spans(counter, text)
    weights = np.diff(before)  # the pieces of a character that a byte-level tokenizer makes
    spans = chunk_spans(text, counter, chunk_size=size, chunk_overlap=overlap)

    def inside(start, end):
        return int(weights[(tokens[:, 1] > start) & (tokens[:, 0] < end)].sum())

    # A single character cannot be cut, whatever it counts.
    assert all(inside(start, end) <= size or end - start == 1 for start, end in spans)
    for before, after in pairwise(spans):
        if after.start < before.end:
            assert inside(after.start, before.end) <= overlap


@quick
@given(cases())
def test_every_character_of_a_token_but_white_space_lies_in_a_chunk(case):
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
def test_without_overlap_chunks_are_disjoint(text, size):
    spans = chunk_spans(text, minilm_counter(), chunk_size=size, chunk_overlap=0)
    assert all(before.end <= after.start for before, after in pairwise(spans))


@pytest.mark.parametrize("span", [None, (1, 1), (3, 4)])
def test_a_counter_that_finds_no_token_in_words_is_refused(span):
    class Blind:
        def count(self, text):
            return 1

        def spans(self, text):
            return [span] if span else []

    with pytest.raises(InvalidInputError, match=r"Blind\.spans\(\) found no token in 'one two'"):
        chunk_spans("one two", Blind(), chunk_size=5, chunk_overlap=0)
    # Control characters are no tokens to many tokenizers.
    assert chunk_spans("\0\u200b  ", Blind(), chunk_size=5, chunk_overlap=0) == []


# Cut by content


def by_content(text, size, counter=None):
    spans = content_spans(text, counter or WordCounter(), chunk_size=size)
    return [text[start:end] for start, end in spans]


def prose(seed, sentences):
    """Return sentences of six to ten words, none of them twice."""
    source = np.random.default_rng(seed)
    return [
        f"Sentence {n} of {seed} says {'very ' * source.integers(5)}little."
        for n in range(sentences)
    ]


def weight_inside(counter, text):
    """Return a function that counts the tokens of a text that lie in a span of it."""
    tokens, before = counted_spans(counter, text)
    weights = np.diff(before)
    return lambda start, end: int(weights[(tokens[:, 1] > start) & (tokens[:, 0] < end)].sum())


def test_chunks_by_content_begin_with_the_sentences_whose_hashes_are_the_smallest_around():
    text = " ".join(prose(0, 80))
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    sizes = [len(sentence.split()) for sentence in sentences]
    at = np.cumsum([0, *sizes]).tolist()
    cuts = content_boundaries([text_hash(s) for s in sentences], at[:-1], at[-1], 10, 30).tolist()
    expected = [" ".join(sentences[a:b]) for a, b in pairwise([*cuts, len(sentences)])]
    assert by_content(text, 30) == expected
    assert len(expected) > 15


def test_cuts_by_content_are_fixed_for_ever():
    """Where they moved, every update of an index would re-make chunks that nobody edited."""
    sentences = (
        "One two three. Four five six. Seven eight nine. Ten eleven twelve. Thirteen. Go on."
    )
    assert by_content(sentences, 12) == [
        "One two three. Four five six. Seven eight nine.",
        "Ten eleven twelve. Thirteen. Go on.",
    ]
    words = (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda my ny xi omikron pi rho"
    )
    assert by_content(words, 9) == [
        "alpha beta gamma delta epsilon zeta",
        "eta theta iota kappa lambda",
        "my ny xi omikron pi rho",
    ]


def test_a_text_that_fits_is_one_chunk_by_content_without_white_space_around():
    assert by_content("\r\n  one two.\t", 2) == ["one two."]
    assert by_content("\r\n  One two. Three.\t", 10**15) == ["One two. Three."]


@pytest.mark.parametrize("text", ["", "   ", "\r\n\t\u3000"])
def test_a_text_without_tokens_has_no_chunks_by_content(text):
    assert by_content(text, 5, ApproximateTokenCounter()) == []
    assert by_content(text, 5, CharacterCounter()) == []


def test_a_sentence_longer_than_a_chunk_is_cut_between_its_tokens_and_others_are_not():
    long = " ".join(f"w{n}" for n in range(100))
    text = f"It begins here. {long}. So it ends."
    chunks = by_content(text, 12)
    assert " ".join(chunks) == text
    assert all(len(chunk.split()) <= 12 for chunk in chunks)
    assert sum("w" in chunk for chunk in chunks) >= 9
    assert any("It begins here." in chunk for chunk in chunks)
    assert any("So it ends." in chunk for chunk in chunks)


def test_an_insertion_into_a_text_without_sentence_ends_changes_few_chunks():
    words = [f"w{n}" for n in range(600)]
    before = by_content(" ".join(words), 12)
    after = by_content(" ".join([*words[:300], "NEW", *words[300:]]), 12)
    assert len(before) > 50
    assert 1 <= len(set(after) - set(before)) <= 4


def test_chinese_without_spaces_is_cut_by_content_after_its_stops():
    sentences = [f"第{number}天我们去了城里。" for number in range(40)]
    chunks = by_content("".join(sentences), 30, ApproximateTokenCounter())
    assert "".join(chunks) == "".join(sentences)
    assert all(chunk.startswith("第") and chunk.endswith("。") for chunk in chunks)
    assert len(chunks) > 10


def test_emoji_that_are_several_tokens_a_character_are_not_cut_apart():
    text = "👩‍👩‍👧‍👦🏳️‍🌈" * 20
    counter = byte_level_counter()
    inside = weight_inside(counter, text)
    spans = content_spans(text, counter, chunk_size=9)
    assert "".join(by_content(text, 9, counter)) == text
    assert all(inside(start, end) <= 9 for start, end in spans)
    # A character of four tokens cannot be cut into two.
    assert by_content("👩👩", 1, counter) == ["👩", "👩"]


def test_chunks_of_one_token_are_its_tokens():
    assert by_content(WORDS, 1) == WORDS.split()


def test_base64_is_cut_by_content_and_nothing_is_lost():
    text = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 50
    assert "".join(by_content(text, 20, ApproximateTokenCounter())) == text


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_that_makes_no_sense_is_refused_for_cuts_by_content(size):
    with pytest.raises(InvalidInputError, match=f"chunk_size={size}"):
        by_content("a b", size)


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
def test_a_counter_that_does_not_find_the_tokens_is_refused_for_cuts_by_content(found, message):
    class Wrong:
        def count(self, text):
            return 1

        def spans(self, text):
            return found

    with pytest.raises(InvalidInputError, match=rf"Wrong\.spans\(\).*({message})"):
        by_content("one two", 5, Wrong())


content_cases = st.tuples(counters(), texts(), st.integers(1, 40) | st.just(10**12))


@quick
@given(content_cases)
def test_chunks_by_content_are_disjoint_and_neither_begin_nor_end_with_white_space(case):
    counter, text, size = case
    spans = content_spans(text, counter, chunk_size=size)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()


@quick
@given(content_cases)
def test_no_chunk_by_content_holds_more_tokens_than_allowed(case):
    counter, text, size = case
    inside = weight_inside(counter, text)
    spans = content_spans(text, counter, chunk_size=size)
    # A single character cannot be cut, whatever it counts.
    assert all(inside(start, end) <= size or end - start == 1 for start, end in spans)


@quick
@given(content_cases)
def test_every_character_of_a_token_but_white_space_lies_in_one_chunk_by_content(case):
    counter, text, size = case
    spans = content_spans(text, counter, chunk_size=size)
    covered = [i for start, end in spans for i in range(start, end)]
    assert len(covered) == len(set(covered))
    tokens = {i for start, end in token_spans(counter, text).tolist() for i in range(start, end)}
    assert {i for i in tokens if not text[i].isspace()} <= set(covered)


@quick
@given(content_cases)
def test_equal_texts_are_cut_equally_by_content(case):
    counter, text, size = case
    spans = content_spans(text, counter, chunk_size=size)
    assert content_spans("".join(text), counter, chunk_size=size) == spans


@quick
@given(st.integers(0, 9), st.integers(0, 120), st.integers(1, 40), st.integers(10, 60))
def test_a_sentence_put_in_leaves_the_chunks_away_from_it_as_they_were(seed, at, count, size):
    """Away: behind a chunk that begins with the smallest hash around, a third of a chunk off."""
    sentences = prose(seed, 120)
    new = [*sentences[:at], *prose(seed + 10, count), *sentences[at:]]
    before, after = by_content(" ".join(sentences), size), by_content(" ".join(new), size)
    least = max(1, size // 3)
    places = np.cumsum([0, *(len(s.split()) for s in sentences)])
    hashes = [text_hash(sentence) for sentence in sentences]
    borders = content_boundaries(hashes, places[:-1], places[-1], least, 10**9)
    left = places[borders][places[borders] <= places[at] - least]
    right = places[borders][places[borders] >= places[at] + least]
    words_before = np.cumsum([0, *(len(chunk.split()) for chunk in before)])
    kept_left = before[: np.searchsorted(words_before, left[-1])] if len(left) else []
    kept_right = before[np.searchsorted(words_before, right[0]) :] if len(right) else []
    assert after[: len(kept_left)] == kept_left
    assert after[len(after) - len(kept_right) :] == kept_right


@pytest.mark.parametrize("size", [12, 40])
def test_a_sentence_put_into_prose_changes_one_or_two_chunks(size):
    changed = []
    for seed in range(30):
        sentences = prose(seed, 150)
        at = 5 * seed
        before = by_content(" ".join(sentences), size)
        after = by_content(" ".join([*sentences[:at], "This one is new.", *sentences[at:]]), size)
        changed.append(len(set(after) - set(before)))
    assert min(changed) == 1
    assert np.mean(changed) < 2
    assert max(changed) <= 5


@pytest.mark.parametrize("size", [120, 1200])
def test_a_sentence_put_into_a_novel_changes_few_chunks(size):
    text = NOVEL.read_text(encoding="utf-8")
    before = set(by_content(text, size))
    changed = []
    for start in sentence_starts(text)[::170]:
        new = f"{text[:start]}Nobody had yet heard of it. {text[start:]}"
        changed.append(len(set(by_content(new, size)) - before))
    assert len(changed) > 8
    assert np.mean(changed) < 2
    assert max(changed) <= 4
