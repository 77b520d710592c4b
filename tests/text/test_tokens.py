import numpy as np
import pytest
from hypothesis import given
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.text.tokens import (
    ApproximateTokenCounter,
    HuggingFaceTokenCounter,
    count_tokens,
    token_spans,
)
from strategies import (
    byte_level_counter,
    counters,
    metaspace_counter,
    minilm_counter,
    quick,
    texts,
)


def pieces(counter, text):
    return [text[start:end] for start, end in counter.spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("extraordinary", ["extraor", "dinary"]),  # 13 letters: 7 + 6
        ("1234567", ["123", "456", "7"]),
        ("abc123", ["abc", "123"]),
        ("量子 力学", ["量", "子", "力", "学"]),
        (" \r\n\t ", []),
        ("a\0b", ["a", "\0", "b"]),
        ("", []),
    ],
)
def test_approximate_tokens_follow_the_rules(text, expected):
    counter = ApproximateTokenCounter()
    assert pieces(counter, text) == expected
    assert counter.count(text) == len(expected)


@quick
@given(texts())
def test_approximate_tokens_cover_every_character_except_white_space(text):
    spans = ApproximateTokenCounter().spans(text)
    covered = "".join(text[start:end] for start, end in spans)
    assert covered == "".join(c for c in text if not c.isspace())


def test_approximate_count_of_prose_is_close_to_a_real_tokenizer():
    text = (
        "It is a truth universally acknowledged, that a single man in possession of a good "
        "fortune, must be in want of a wife. However little known the feelings or views of such "
        "a man may be on his first entering a neighborhood, this truth is so well fixed in the "
        "minds of the surrounding families."
    )
    assert ApproximateTokenCounter().count(text) == pytest.approx(
        minilm_counter().count(text), rel=0.2
    )


def test_wordpiece_spans_point_into_the_original_text():
    vocabulary = {"[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "cafe": 4, "!": 5}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    counter = HuggingFaceTokenCounter(tokenizer)
    text = "  Unaffable\r\nCafe\u0301 !"
    # Normalization removes the accent; the span of the token still includes it.
    spans = counter.spans(text)
    assert [text[s:e] for s, e in spans] == ["Un", "aff", "able", text[13:17], "!"]
    assert counter.count(text) == 5


@quick
@given(texts())
def test_real_tokenizer_spans_agree_with_its_count(text):
    counter = minilm_counter()
    spans = counter.spans(text)
    assert len(spans) == counter.count(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_special_tokens_are_not_counted():
    assert minilm_counter().count("cat") == 1
    assert minilm_counter().count("") == 0


def test_truncation_and_padding_are_ignored_and_left_unchanged():
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    counter = HuggingFaceTokenCounter(tokenizer)
    assert counter.count("a b c d") == 4
    assert len(counter.spans("a")) == 1
    assert tokenizer.truncation["max_length"] == 2
    assert tokenizer.padding["length"] == 8


def test_fast_tokenizer_of_transformers_is_accepted():
    class Fast:
        backend_tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106

    assert HuggingFaceTokenCounter(Fast()).count("word") == 1


def test_slow_tokenizer_is_rejected_with_advice():
    with pytest.raises(InvalidInputError, match=r"object is not a fast tokenizer.*TokenCounter"):
        HuggingFaceTokenCounter(object())


@quick
@given(counters(), texts())
def test_token_spans_are_ordered_disjoint_and_nonempty(counter, text):
    spans = token_spans(counter, text)
    assert spans.shape[1:] == (2,)
    flat = spans.ravel()
    assert (np.diff(flat) >= 0).all()
    assert (spans[:, 0] < spans[:, 1]).all()
    if len(flat):
        assert flat[0] >= 0
        assert flat[-1] <= len(text)


def test_byte_tokens_of_one_character_share_one_span():
    text = "a👍b"
    assert byte_level_counter().count(text) == 6  # a, four bytes, b
    assert token_spans(byte_level_counter(), text).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_overlapping_spans_become_disjoint():
    class Overlapping:
        def count(self, text):
            return 3

        def spans(self, text):
            return [(0, 3), (1, 3), (2, 5)]

    # (2, 5) becomes (3, 5), because (0, 3) covers its start; (1, 3) is covered entirely.
    assert token_spans(Overlapping(), "abcdef").tolist() == [[0, 3], [3, 5]]


@pytest.mark.parametrize("span", [(-1, 2), (0, 4), (2, 1)])
def test_span_outside_the_text_is_an_error(span):
    class Wrong:
        def count(self, text):
            return 1

        def spans(self, text):
            return [span]

    with pytest.raises(InvalidInputError, match=r"Wrong\.spans\(\).*3 characters"):
        token_spans(Wrong(), "abc")


def test_all_counters_implement_the_protocol():
    kinds = [ApproximateTokenCounter(), minilm_counter(), metaspace_counter()]
    assert all(isinstance(counter, TokenCounter) for counter in kinds)


class FixedCounter:
    """Returns a fixed answer, or raises it."""

    def __init__(self, answer):
        self.answer = answer

    def spans(self, text):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    count = spans


@pytest.mark.parametrize(
    "answer",
    [
        None,
        5,
        "ab",
        ((i, i + 1) for i in range(3)),
        [(0.0, 1.0)],
        [(float("nan"), 1)],
        [("a", "b")],
        [(0,), (1, 2)],
        [(0, 1, 2)],
        [0, 1, 2],
        [0, 1],
        [(0, 10**30)],
        [(1, 2), (0, 1)],
        KeyError("oops"),
    ],
)
def test_error_for_invalid_spans_names_the_counter(answer):
    with pytest.raises(InvalidInputError, match=r"FixedCounter\.spans\(\)"):
        token_spans(FixedCounter(answer), "abc")


def test_numpy_spans_and_empty_spans_are_accepted():
    assert token_spans(
        FixedCounter(np.array([(0, 1), (1, 3)], dtype=np.uint8)), "abc"
    ).tolist() == [
        [0, 1],
        [1, 3],
    ]
    assert token_spans(FixedCounter([(1, 3), (0, 0)]), "abc").tolist() == [[1, 3]]


@pytest.mark.parametrize("answer", [None, "5", -1, 2.5, float("nan"), True, ValueError("oops")])
def test_error_for_an_invalid_count_names_the_counter(answer):
    with pytest.raises(InvalidInputError, match=r"FixedCounter\.count\(\)"):
        count_tokens(FixedCounter(answer), "abc")


def test_numpy_count_becomes_an_int():
    assert type(count_tokens(FixedCounter(np.int64(3)), "abc")) is int
