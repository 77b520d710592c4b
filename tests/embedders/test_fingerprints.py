import numpy as np
import pytest

from e2graphrag_integrations.embedders.fingerprints import embedder_fingerprint, same_embedder
from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.protocols import object_fingerprint
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from strategies import FakeEmbedder


class RandomEmbedder:
    """Return vectors that depend on the seed, plus noise like that of another machine."""

    def __init__(self, seed, noise=0.0, dimension=64):
        self.dimension, self.max_tokens = dimension, None
        self._seed, self._noise = seed, noise

    def embed(self, texts):
        vectors = np.random.default_rng(self._seed).normal(size=(len(texts), self.dimension))
        noise = np.random.default_rng(99).normal(size=vectors.shape)
        return vectors + self._noise * noise

    def embed_query(self, text):
        return self.embed([text])[0]


def fingerprints(*embedders):
    return [embedder_fingerprint(embedder) for embedder in embedders]


def test_declared_fingerprint_is_used():
    assert embedder_fingerprint(HashingEmbedder(8)) == "hashing:1:8:None"
    assert object_fingerprint(ApproximateTokenCounter()) == "approximate:1"


def test_component_without_fingerprint_is_identified_by_its_class():
    assert object_fingerprint(RandomEmbedder(0)).endswith("test_fingerprints.RandomEmbedder")


def test_embedder_without_fingerprint_is_identified_by_its_vectors():
    first, repeated, other = fingerprints(RandomEmbedder(1), RandomEmbedder(1), RandomEmbedder(2))
    assert first == repeated
    assert same_embedder(first, repeated)
    assert not same_embedder(first, other)


def test_small_floating_point_differences_are_the_same_embedder():
    exact, near, far = fingerprints(*(RandomEmbedder(1, noise) for noise in (0, 1e-3, 0.3)))
    assert exact != near
    assert same_embedder(exact, near)
    assert same_embedder(near, exact)
    assert not same_embedder(exact, far)


def test_different_dimension_is_a_different_embedder():
    assert not same_embedder(*fingerprints(RandomEmbedder(1), RandomEmbedder(1, dimension=32)))


@pytest.mark.parametrize("other", ["hashing:1:8:None", "hashing:1:16:None", ""])
def test_declared_fingerprint_equals_only_itself(other):
    [probe] = fingerprints(FakeEmbedder(8))
    assert not same_embedder(probe, other)
    assert same_embedder(other, other)
    assert same_embedder("hashing:1:8:None", other) == (other == "hashing:1:8:None")
