import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.errors import EmbeddingError, InvalidInputError
from e2graphrag_integrations.summarizers.lexrank import (
    ExtractiveSummarizer,
    _lexrank,
    _nonnegative,
    _tfidf,
)
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from strategies import FakeEmbedder, WordCounter, quick, texts


def summary(*texts, max_tokens=100, **options):
    options.setdefault("counter", WordCounter())
    return ExtractiveSummarizer(**options).summarize(texts, level=1, max_tokens=max_tokens)


def test_lexrank_of_three_sentences_matches_hand_computed_scores():
    vectors = _tfidf(["a b", "b c", "c d"])
    # tf * ln(4 / df): a and d weigh ln 4 = 2 ln 2, b and c ln 2. Unit rows (2, 1)/sqrt 5 and
    # (1, 1)/sqrt 2, so the cosines are 1/sqrt 10 between neighbors, 0 between the outer two.
    similarity = (vectors @ vectors.T).toarray()
    near = 10**-0.5
    np.testing.assert_allclose(
        similarity, [[1, near, 0], [near, 1, near], [0, near, 1]], atol=1e-12
    )
    # Outer sentences send their score to the middle one, which sends half of its score to each:
    #   x = 0.15/3 + 0.85 y/2 and y = 0.15/3 + 0.85 * 2x, so x = 0.07125/0.2775, y = 0.05 + 1.7x.
    assert _lexrank(vectors).tolist() == pytest.approx([0.25676, 0.48649, 0.25676], abs=1e-3)


def test_isolated_sentence_distributes_its_score_evenly():
    scores = _lexrank(_tfidf(["a b", "b c", "c d", "x y"]))
    # The isolated one: z = 0.15/4 + 0.85 z/4, so z = 0.0375/0.7875 = 0.04762.
    assert scores[3] == pytest.approx(0.04762, abs=1e-3)
    assert scores.sum() == pytest.approx(1)


@quick
@given(st.lists(st.text("abcd ", min_size=1, max_size=12), min_size=1, max_size=12))
def test_lexrank_equals_power_iteration_on_the_full_matrix(sentences):
    vectors = _tfidf(sentences)
    n = len(sentences)
    similarity = (vectors @ vectors.T).toarray()
    np.fill_diagonal(similarity, 0)
    degree = similarity.sum(axis=1, keepdims=True)
    transitions = np.divide(similarity, degree, out=np.full((n, n), 1 / n), where=degree > 1e-8)
    rank = np.full(n, 1 / n)
    for _ in range(300):
        rank = 0.15 / n + 0.85 * transitions.T @ rank
    np.testing.assert_allclose(_lexrank(vectors), rank, atol=1e-6)


STORY = (
    "The traveller built a machine. The machine of the traveller moved through time. "
    "Yesterday it rained heavily here. The traveller showed the machine to his friends."
)


def test_most_central_sentences_keep_their_original_order():
    # 5, 8, 5 and 8 words; the sentence about rain shares no word with the others.
    built, moved, rained, showed = (f"{s}." for s in STORY.rstrip(".").split(". "))
    scores = _lexrank(_tfidf([built, moved, rained, showed]))
    assert scores[1] > scores[0] > scores[2]
    assert summary(STORY, max_tokens=21) == f"{built} {moved} {showed}"
    assert summary(STORY, max_tokens=16) == f"{moved} {showed}"


def test_redundant_sentence_is_skipped():
    twice = "The old traveller built a machine. The old traveller built a machine!"
    assert summary(twice) == "The old traveller built a machine."
    assert summary(twice, redundancy=1.0).count("machine") == 2


def test_short_sentences_are_used_only_without_longer_ones():
    assert summary("Chapter One. It was a dark night. Dark night!") == "It was a dark night."
    assert summary("Chapter One. The end.") == "Chapter One. The end."


def test_best_sentence_is_truncated_if_none_fits():
    assert summary("one two three four five six", max_tokens=3) == "one two three"


@pytest.mark.parametrize("given_texts", [(), ("",), ("  \r\n", "\n")])
def test_texts_without_sentences_give_an_empty_summary(given_texts):
    assert summary(*given_texts) == ""


def test_line_breaks_become_spaces():
    assert summary("The old\r\n   traveller built\na machine.") == (
        "The old traveller built a machine."
    )


def test_chinese_is_summarized_by_character_bigrams():
    text = "时间旅行者造了一台机器。这台机器穿越时间。昨天下了大雨真的很冷。旅行者展示了机器。"
    chosen = summary(text, counter=ApproximateTokenCounter(), max_tokens=12)
    assert chosen == "时间旅行者造了一台机器。"


def test_chinese_sentences_are_joined_without_spaces():
    text = "时间旅行者造了一台机器。\n　　这台机器\n穿越了时间。昨天下了一场大雨。"
    chosen = summary(text, counter=ApproximateTokenCounter(), max_tokens=100)
    assert chosen == "时间旅行者造了一台机器。这台机器穿越了时间。昨天下了一场大雨。"


def test_no_sentence_begins_after_a_question_that_is_quoted_in_it():
    text = "“What reason do you have for it?” said the Time Traveller. Filby had no reason at all."
    assert summary(text, max_tokens=100) == text
    # The first sentence has eleven words, and seven up to the question mark.
    assert summary(text, max_tokens=10) == "Filby had no reason at all."


def test_the_fingerprint_names_the_rules_and_settings():
    # Files contain it: if it changed, all their summaries would be written again.
    assert ExtractiveSummarizer().fingerprint == "extractive:2:tfidf:0.6:approximate:1"


@quick
@given(st.lists(texts(12), max_size=4), st.integers(1, 60), st.booleans())
def test_summary_is_deterministic_and_within_its_length(parts, max_tokens, embedded):
    counter = ApproximateTokenCounter()
    options = {"vectors": "embedder", "embedder": HashingEmbedder(16)} if embedded else {}
    result = summary(*parts, max_tokens=max_tokens, counter=counter, **options)
    assert counter.count(result) <= max_tokens
    assert result == summary(*parts, max_tokens=max_tokens, counter=counter, **options)


def test_embedder_vectors_determine_the_choice():
    sentences = {
        "Aa bb cc dd.": [1.0, 0.2],
        "Ee ff gg hh.": [1.0, 0.0],
        "Ii jj kk ll.": [0.2, 1.0],
    }
    # The first sentence is closest to both others.
    result = summary(
        " ".join(sentences),
        max_tokens=4,
        vectors="embedder",
        embedder=FakeEmbedder(vectors=sentences),
    )
    assert result == "Aa bb cc dd."


def test_opposite_vectors_give_a_distribution():
    # Cosines of -1 and 0 become weights of 0 and 1/2: rows 0 and 1 are linked only to row 2. As in
    # the example with three sentences, x = 0.07125 / 0.2775.
    vectors = _nonnegative(csr_array(np.array([[1.0, 0], [-1, 0], [0, 1]])))
    assert _lexrank(vectors).tolist() == pytest.approx([0.25676, 0.25676, 0.48649], abs=1e-3)


@quick
@given(st.integers(0, 10_000))
def test_scores_from_embeddings_are_a_distribution(seed):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(random.integers(1, 10), random.integers(1, 6)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = _lexrank(_nonnegative(csr_array(vectors)))
    assert scores.sum() == pytest.approx(1)
    assert (scores > 0).all()


def test_sentence_beyond_the_embedders_limit_is_embedded_in_windows():
    embedded = []

    class Reader(FakeEmbedder):
        def embed(self, texts):
            embedded.extend(texts)
            return super().embed(texts)

    summary("Aa bb cc dd ee. Ff gg.", vectors="embedder", embedder=Reader(2, 2, WordCounter()))
    assert embedded == ["Aa bb", "cc dd", "ee.", "Ff gg."]


def test_invalid_vector_is_an_error():
    embedder = FakeEmbedder(vectors={"Aa bb.": [np.nan, 1]})
    with pytest.raises(EmbeddingError, match="NaN"):
        summary("Aa bb.", vectors="embedder", embedder=embedder)


@pytest.mark.parametrize(
    "options",
    [
        {"vectors": "embedder"},
        {"vectors": "tfidf", "embedder": HashingEmbedder()},
        {"vectors": "bm25"},
        {"redundancy": 0.0},
        {"redundancy": 1.1},
    ],
)
def test_invalid_options_are_rejected(options):
    with pytest.raises(InvalidInputError):
        ExtractiveSummarizer(**options)


def test_fingerprint_changes_with_every_option():
    variants = [
        ExtractiveSummarizer(),
        ExtractiveSummarizer(redundancy=0.5),
        ExtractiveSummarizer(counter=WordCounter()),
        ExtractiveSummarizer("embedder", embedder=HashingEmbedder(8)),
        ExtractiveSummarizer("embedder", embedder=HashingEmbedder(16)),
    ]
    assert len({summarizer.fingerprint for summarizer in variants}) == len(variants)
    assert not ExtractiveSummarizer.uses_llm
