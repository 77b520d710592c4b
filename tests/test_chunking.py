from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.chunking import chunk_spans
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.tokens import ApproximateTokenCounter, counted_spans, token_spans
from strategies import (
    CharacterCounter,
    WordCounter,
    counters,
    metaspace_counter,
    minilm_counter,
    quick,
    texts,
)

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
def test_no_chunk_holds_more_tokens_than_allowed_and_neighbours_share_no_more_than_the_overlap(
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
