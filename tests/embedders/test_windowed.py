from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import EmbeddingError, InvalidInputError
from strategies import (
    FakeEmbedder,
    WordCounter,
    byte_level_counter,
    metaspace_counter,
    minilm_counter,
    quick,
    texts,
)


def windowed(limit, tokens=None):
    return WindowedEmbedder(FakeEmbedder(max_tokens=limit, tokens=tokens or WordCounter()))


def window_texts(embedder, text, prefix=""):
    return [text[start:end] for start, end in embedder.windows(text, prefix)]


def test_text_within_the_limit_is_one_window():
    assert windowed(5).windows(" a b c d e ") == [(0, 11)]


@pytest.mark.parametrize("limit", [None, 257, 8192])
def test_windows_have_at_most_256_tokens_whatever_the_models_limit(limit):
    text = "word " * 256
    assert windowed(limit).windows(text) == [(0, len(text))]
    assert len(windowed(limit).windows(f"{text}word")) == 2
    windows = window_texts(windowed(limit), text * 40)
    assert max(len(window.split()) for window in windows) <= 256
    assert " ".join(windows).split() == ["word"] * 256 * 40


def test_without_a_tokenizer_windows_have_at_most_256_approximate_tokens():
    text = "word " * 256
    for limit in (None, 8192):
        embedder = WindowedEmbedder(FakeEmbedder(max_tokens=limit))
        assert len(embedder.windows(text)) == 1
        assert len(embedder.windows(f"{text}word")) == 2


def test_windows_are_balanced_and_end_at_sentences():
    # 12 words with a limit of 10 give 2 windows of up to 12 / 2 * 1.1 + 1 = 7 words. Sentences end
    # after 4, 6, 9 and 12 words; windows of 10 words would leave a remainder of 3.
    text = "Aa b c d. Ee f. Gg h i. Jj k l."
    assert window_texts(windowed(10), text) == ["Aa b c d. Ee f.", "Gg h i. Jj k l."]


def test_prefix_counts_toward_the_window_limit():
    # 6 words; with a prefix of 2, only 4 fit.
    text = "Aa bb cc. Dd ee ff."
    assert window_texts(windowed(6), text) == [text]
    assert window_texts(windowed(6), text, "The Title. ") == ["Aa bb cc.", "Dd ee ff."]


def test_without_a_tokenizer_windows_use_half_of_the_models_limit():
    embedder = WindowedEmbedder(FakeEmbedder(max_tokens=8))
    # 5 approximate tokens exceed 8 / 2.
    assert len(embedder.windows("one two. six ten")) == 2
    assert len(embedder.windows("one two six ten")) == 1


@pytest.mark.parametrize("counter", [minilm_counter, byte_level_counter, metaspace_counter])
@pytest.mark.hypothesis
def test_windows_cover_the_text_within_the_limit_of_any_tokenizer(counter):
    tokens = counter()

    @quick
    @given(texts(), st.integers(8, 40))
    def check(text, limit):
        assume(text.strip())  # blank texts are never embedded
        spans = windowed(limit, tokens).windows(text)
        assert all(tokens.count(text[start:end]) <= limit for start, end in spans)
        assert all(a.end <= b.start for a, b in pairwise(spans))
        covered = "".join(text[start:end] for start, end in spans)
        gaps = [
            text[start:end] for (_, start), (end, _) in pairwise([(0, 0), *spans, (len(text), 0)])
        ]
        # The gaps between windows contain no tokens.
        assert sum(tokens.count(gap) for gap in gaps if gap.strip()) == 0
        assert covered or not text.strip()

    check()


def test_word_with_more_tokens_when_split_still_fits():
    # WordPiece needs more tokens for parts of a long random word than for all of it.
    tokens = minilm_counter()
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    for _ in range(20):
        text = " ".join("".join(random.choice(letters, 60)) for _ in range(30))
        assert (
            max(tokens.count(window) for window in window_texts(windowed(60, tokens), text)) <= 60
        )


def test_title_prefix_is_the_title_and_a_period():
    assert windowed(None).title_prefix("Pride and\r\n Prejudice") == "Pride and Prejudice. "
    assert windowed(None).title_prefix(None) == windowed(None).title_prefix("  ") == ""


def test_title_prefix_fills_at_most_a_quarter_of_the_window():
    # 12 / 4 - 1 = 2 words.
    assert windowed(12).title_prefix("one two three four") == "one two. "
    assert windowed(4).title_prefix("one two") == ""
    # Without a limit: 256 / 4 - 1 = 63 words.
    assert windowed(None).title_prefix("word " * 99) == f"{' '.join(['word'] * 63)}. "


def test_vectors_are_normalized():
    embedder = WindowedEmbedder(FakeEmbedder(vectors={"a": [3, 4], "b": [0, -2]}))
    vectors = embedder.embed(["a", "b"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0, -1]], rtol=1e-6)


def test_embedding_no_texts_returns_no_vectors():
    assert windowed(5).embed([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([np.nan, 1], r"NaN or infinity for the text 'bad one'"),
        ([np.inf, 1], r"NaN or infinity for the text 'bad one'"),
        ([0, 0], r"a zero vector for the text 'bad one'"),
    ],
)
def test_invalid_vector_error_quotes_the_text(vector, message):
    embedder = WindowedEmbedder(FakeEmbedder(vectors={"bad one": vector}))
    with pytest.raises(EmbeddingError, match=message):
        embedder.embed(["good", "bad one"])
    with pytest.raises(EmbeddingError, match=message):
        embedder.embed_query("bad one")


@pytest.mark.parametrize(
    "answer", [np.ones((1, 2)), np.ones((2, 3)), np.ones(2), None, [[1, 0], [1]], [["a", "b"]] * 2]
)
def test_embed_result_of_wrong_shape_or_type_is_an_error(answer):
    class Wrong(FakeEmbedder):
        def embed(self, texts):
            return answer

    with pytest.raises(
        EmbeddingError, match=r"Wrong\.embed\(\) (returned shape|must return an array)"
    ):
        WindowedEmbedder(Wrong()).embed(["a", "b"])


@pytest.mark.parametrize(
    "answer",
    [None, 3.5, [], {}, "ab", (v for v in (1, 0)), [1, 0, 0], [[1, 0]], np.array([1 + 1j, 0])],
)
def test_embed_query_result_of_wrong_shape_or_type_is_an_error(answer):
    class Wrong(FakeEmbedder):
        def embed_query(self, text):
            return answer

    with pytest.raises(
        EmbeddingError, match=r"Wrong\.embed_query\(\) (returned shape|must return an array)"
    ):
        WindowedEmbedder(Wrong()).embed_query("a")


def test_complex_vectors_are_an_error():
    class Complex(FakeEmbedder):
        def embed(self, texts):
            return super().embed(texts) + 1j

    with pytest.raises(EmbeddingError, match="complex"):
        WindowedEmbedder(Complex()).embed(["a"])


def test_exception_in_the_embedder_names_class_and_method():
    class Raising(FakeEmbedder):
        def embed(self, texts):
            raise StopIteration("oops")

    with pytest.raises(EmbeddingError, match=r"Raising\.embed\(\) failed: StopIteration: oops"):
        WindowedEmbedder(Raising()).embed(["a"])


def test_max_tokens_below_one_is_an_error():
    with pytest.raises(InvalidInputError, match="max_tokens=0"):
        windowed(0)


def test_long_query_vector_is_the_normalized_mean_of_its_windows():
    vectors = {"a b": [1, 0], "c d": [0, 5]}
    embedder = WindowedEmbedder(FakeEmbedder(2, 2, WordCounter(), vectors))
    # The windows' unit vectors are (1, 0) and (0, 1).
    np.testing.assert_allclose(embedder.embed_query("a b c d"), [0.5**0.5] * 2, rtol=1e-6)


def test_query_windows_that_cancel_out_give_the_first_vector():
    vectors = {"a b": [1, 0], "c d": [-1, 0]}
    embedder = WindowedEmbedder(FakeEmbedder(2, 2, WordCounter(), vectors))
    assert embedder.embed_query("a b c d").tolist() == [1, 0]


def test_empty_query_is_embedded():
    assert windowed(5).embed_query("").tolist() == [1, 0]


def test_cache_key_changes_with_text_and_fingerprint():
    key = windowed(5).cache_key
    assert key("a", "one") == key("a", "one")
    assert len({key("a", "one"), key("b", "one"), key("a", "two")}) == 3
