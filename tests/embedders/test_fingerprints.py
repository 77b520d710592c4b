import numpy as np
import pytest

from e2graphrag_integrations.embedders.fingerprints import (
    embedder_fingerprint,
    object_fingerprint,
    same_embedder,
)
from e2graphrag_integrations.embedders.sentence_transformers import HashingEmbedder
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from strategies import FakeEmbedder


class RandomEmbedder:
    """Vectors that depend on the seed, with noise as of another machine's arithmetic."""

    def __init__(self, seed, noise=0.0, dimension=64):
        self.dimension, self.max_tokens = dimension, None
        self._seed, self._noise = seed, noise

    def embed(self, texts):
        vectors = np.random.default_rng(self._seed).normal(size=(len(texts), self.dimension))
        noise = np.random.default_rng(99).normal(size=vectors.shape)
        return vectors + self._noise * noise

    def embed_query(self, text):
        return self.embed([text])[0]


def prints(*embedders):
    return [embedder_fingerprint(embedder) for embedder in embedders]


def test_a_component_may_say_its_own_fingerprint():
    assert embedder_fingerprint(HashingEmbedder(8)) == "hashing:1:8:None"
    assert object_fingerprint(ApproximateTokenCounter()) == "approximate:1"


def test_a_component_without_one_is_known_by_its_class():
    assert object_fingerprint(RandomEmbedder(0)).endswith("test_fingerprints.RandomEmbedder")


def test_an_embedder_without_one_is_known_by_its_vectors():
    one, again, other = prints(RandomEmbedder(1), RandomEmbedder(1), RandomEmbedder(2))
    assert one == again
    assert same_embedder(one, again)
    assert not same_embedder(one, other)


def test_small_differences_of_arithmetic_are_the_same_embedder():
    one, near, far = prints(*(RandomEmbedder(1, noise) for noise in (0, 1e-3, 0.3)))
    assert one != near
    assert same_embedder(one, near)
    assert same_embedder(near, one)
    assert not same_embedder(one, far)


def test_another_dimension_is_another_embedder():
    assert not same_embedder(*prints(RandomEmbedder(1), RandomEmbedder(1, dimension=32)))


@pytest.mark.parametrize("other", ["hashing:1:8:None", "hashing:1:16:None", ""])
def test_a_name_is_only_equal_to_itself(other):
    [probe] = prints(FakeEmbedder(8))
    assert not same_embedder(probe, other)
    assert same_embedder(other, other)
    assert same_embedder("hashing:1:8:None", other) == (other == "hashing:1:8:None")
