import numpy as np
import pytest
from hypothesis import given

from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.protocols import Embedder
from strategies import quick, texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # crc32("cat") = 0x9e5e43a8: row 0, top bit set: +1; dog = 0x812c397d: row 5, +1.
        pytest.param("cat DOG", [0.5**0.5, 0, 0, 0, 0, 0.5**0.5, 0, 0], id="words"),
        # letter = 0x8e02ee0a: row 2, twice +1; its trigrams #let row 7 +1, #ett row 0 +1,
        # #tte row 5 +1, #ter row 2 -1.
        pytest.param("letter", [0.5, 0, 0.5, 0, 0, 0.5, 0, 0.5], id="trigrams"),
        pytest.param("", [1, 0, 0, 0, 0, 0, 0, 0], id="empty"),
    ],
)
def test_hashed_vectors_match_hand_computed_values(text, expected):
    np.testing.assert_allclose(HashingEmbedder(8).embed([text])[0], expected, rtol=1e-6)


@quick
@given(texts())
def test_hashed_vectors_are_unit_length_and_equal_for_queries(text):
    embedder = HashingEmbedder(4)
    [vector] = embedder.embed([text])
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
    assert vector.tolist() == embedder.embed_query(text).tolist()


def test_hashed_texts_with_shared_words_are_closer():
    letter, same_words, other = HashingEmbedder().embed(
        ["Darcy wrote a letter", "a letter from Darcy", "量子力学 is hard"]
    )
    assert letter @ same_words > letter @ other


def test_hashing_fingerprint_changes_with_each_setting():
    embedders = [HashingEmbedder(), HashingEmbedder(8), HashingEmbedder(8, max_tokens=5)]
    assert len({embedder.fingerprint for embedder in embedders}) == 3
    assert isinstance(embedders[0], Embedder)
    assert embedders[0].embed([]).shape == (0, 256)
