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


def pieces(embedder, text, prefix=""):
    return [text[start:end] for start, end in embedder.windows(text, prefix)]


def test_a_text_within_the_limit_is_one_window():
    assert windowed(5).windows(" a b c d e ") == [(0, 11)]


@pytest.mark.parametrize("limit", [None, 257, 8192])
def test_a_window_holds_at_most_256_tokens_however_much_the_model_reads(limit):
    text = "word " * 256
    assert windowed(limit).windows(text) == [(0, len(text))]
    assert len(windowed(limit).windows(f"{text}word")) == 2
    found = pieces(windowed(limit), text * 40)
    assert max(len(piece.split()) for piece in found) <= 256
    assert " ".join(found).split() == ["word"] * 256 * 40


def test_without_the_models_tokenizer_a_window_holds_at_most_256_guessed_tokens():
    text = "word " * 256
    for limit in (None, 8192):
        embedder = WindowedEmbedder(FakeEmbedder(max_tokens=limit))
        assert len(embedder.windows(text)) == 1
        assert len(embedder.windows(f"{text}word")) == 2


def test_windows_are_balanced_and_end_with_sentences():
    # 12 words, 10 a window: 2 windows of at most 12 / 2 * 1.1 + 1 = 7 words. Sentences end after
    # 4, 6, 9 and 12 words: 10 a window would leave a rest of 3.
    text = "Aa b c d. Ee f. Gg h i. Jj k l."
    assert pieces(windowed(10), text) == ["Aa b c d. Ee f.", "Gg h i. Jj k l."]


def test_the_prefix_takes_its_room_from_the_window():
    # 6 words: with a prefix of 2 only 4 fit.
    text = "Aa bb cc. Dd ee ff."
    assert pieces(windowed(6), text) == [text]
    assert pieces(windowed(6), text, "The Title. ") == ["Aa bb cc.", "Dd ee ff."]


def test_without_the_models_tokenizer_only_half_of_its_limit_is_used():
    embedder = WindowedEmbedder(FakeEmbedder(max_tokens=8))
    # 5 approximate tokens: more than 8 / 2.
    assert len(embedder.windows("one two. six ten")) == 2
    assert len(embedder.windows("one two six ten")) == 1


@pytest.mark.parametrize("counter", [minilm_counter, byte_level_counter, metaspace_counter])
def test_windows_hold_the_whole_text_within_the_limit_of_the_models_tokenizer(counter):
    tokens = counter()

    @quick
    @given(texts(), st.integers(8, 40))
    def check(text, limit):
        assume(text.strip())  # a blank text is none, and is never embedded
        spans = windowed(limit, tokens).windows(text)
        assert all(tokens.count(text[start:end]) <= limit for start, end in spans)
        assert all(a.end <= b.start for a, b in pairwise(spans))
        covered = "".join(text[start:end] for start, end in spans)
        lost = [
            text[start:end] for (_, start), (end, _) in pairwise([(0, 0), *spans, (len(text), 0)])
        ]
        # Only what is no token to the model may lie between windows.
        assert sum(tokens.count(gap) for gap in lost if gap.strip()) == 0
        assert covered or not text.strip()

    check()


def test_a_word_that_counts_more_when_cut_still_fits():
    """WordPiece cuts "unaffable" in fewer pieces than its halves; base64 shows it most."""
    tokens = minilm_counter()
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    for _ in range(20):
        text = " ".join("".join(random.choice(letters, 60)) for _ in range(30))
        assert max(tokens.count(piece) for piece in pieces(windowed(60, tokens), text)) <= 60


def test_the_prefix_is_the_title_and_a_stop():
    assert windowed(None).prefix("Pride and\r\n Prejudice") == "Pride and Prejudice. "
    assert windowed(None).prefix(None) == windowed(None).prefix("  ") == ""


def test_a_long_title_is_cut_to_a_quarter_of_the_window_stop_included():
    # 12 / 4 - 1 = 2 words.
    assert windowed(12).prefix("one two three four") == "one two. "
    assert windowed(4).prefix("one two") == ""
    # 256 / 4 - 1 = 63 words where the model has no limit.
    assert windowed(None).prefix("word " * 99) == f"{' '.join(['word'] * 63)}. "


def test_vectors_are_normalized():
    embedder = WindowedEmbedder(FakeEmbedder(vectors={"a": [3, 4], "b": [0, -2]}))
    made = embedder.embed(["a", "b"])
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, [[0.6, 0.8], [0, -1]], rtol=1e-6)


def test_no_texts_give_no_vectors():
    assert windowed(5).embed([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([np.nan, 1], r"NaN or infinity for the text 'bad one'"),
        ([np.inf, 1], r"NaN or infinity for the text 'bad one'"),
        ([0, 0], r"a zero vector for the text 'bad one'"),
    ],
)
def test_a_bad_vector_names_its_text(vector, message):
    embedder = WindowedEmbedder(FakeEmbedder(vectors={"bad one": vector}))
    with pytest.raises(EmbeddingError, match=message):
        embedder.embed(["good", "bad one"])
    with pytest.raises(EmbeddingError, match=message):
        embedder.embed_question("bad one")


@pytest.mark.parametrize(
    "answer", [np.ones((1, 2)), np.ones((2, 3)), np.ones(2), None, [[1, 0], [1]], [["a", "b"]] * 2]
)
def test_a_wrong_shape_or_no_numbers_is_an_error(answer):
    class Wrong(FakeEmbedder):
        def embed(self, texts):
            return answer

    with pytest.raises(EmbeddingError, match=r"Wrong\.embed\(\) returned"):
        WindowedEmbedder(Wrong()).embed(["a", "b"])


@pytest.mark.parametrize(
    "answer",
    [None, 3.5, [], {}, "ab", (v for v in (1, 0)), [1, 0, 0], [[1, 0]], np.array([1 + 1j, 0])],
)
def test_a_questions_vector_of_the_wrong_shape_or_no_numbers_is_an_error(answer):
    class Wrong(FakeEmbedder):
        def embed_query(self, text):
            return answer

    with pytest.raises(EmbeddingError, match=r"Wrong\.embed_query\(\) returned"):
        WindowedEmbedder(Wrong()).embed_question("a")


def test_complex_vectors_keep_no_half_of_themselves():
    class Complex(FakeEmbedder):
        def embed(self, texts):
            return super().embed(texts) + 1j

    with pytest.raises(EmbeddingError, match="complex"):
        WindowedEmbedder(Complex()).embed(["a"])


def test_an_embedder_that_raises_is_named_with_its_call():
    class Raising(FakeEmbedder):
        def embed(self, texts):
            raise StopIteration("oops")

    with pytest.raises(EmbeddingError, match=r"Raising\.embed\(\) failed: StopIteration: oops"):
        WindowedEmbedder(Raising()).embed(["a"])


def test_a_limit_below_one_is_an_error():
    with pytest.raises(InvalidInputError, match="max_tokens=0"):
        windowed(0)


def test_a_long_question_is_the_normalized_mean_of_its_windows():
    vectors = {"a b": [1, 0], "c d": [0, 5]}
    embedder = WindowedEmbedder(FakeEmbedder(2, 2, WordCounter(), vectors))
    # The windows' unit vectors are (1, 0) and (0, 1).
    np.testing.assert_allclose(embedder.embed_question("a b c d"), [0.5**0.5] * 2, rtol=1e-6)


def test_windows_that_cancel_out_leave_the_first():
    vectors = {"a b": [1, 0], "c d": [-1, 0]}
    embedder = WindowedEmbedder(FakeEmbedder(2, 2, WordCounter(), vectors))
    assert embedder.embed_question("a b c d").tolist() == [1, 0]


def test_an_empty_question_is_embedded():
    assert windowed(5).embed_question("").tolist() == [1, 0]


def test_the_cache_key_changes_with_text_and_fingerprint():
    key = windowed(5).key
    assert key("a", "one") == key("a", "one")
    assert len({key("a", "one"), key("b", "one"), key("a", "two")}) == 3
