"""A tiny cross-encoder with random weights, and validation of any reranker's scores."""

from __future__ import annotations

import builtins
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import huggingface_hub.constants
import numpy as np
import pytest
import torch
import transformers  # its classes are imported at first use, which takes seconds

from e2graphrag_integrations.embedders.sentence_transformers import no_loading_bar
from e2graphrag_integrations.errors import MissingDependencyError, RerankError
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.search import rerankers
from e2graphrag_integrations.search.rerankers import CrossEncoderReranker, rerank_scores

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] who met anna bert cleo in oslo rome . ?".split()
QUESTION = "Who met Anna?"
TEXTS = ["Bert met Anna in Oslo.", "Cleo", "Rome. Rome. Rome.", "Oslo?", "Anna met Cleo in Rome."]


def config(labels=1):
    return transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        num_labels=labels,
        initializer_range=0.5,  # large enough for scores to differ
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder written by `save_pretrained`."""
    path = tmp_path_factory.mktemp("cross-encoder")
    (path / "vocab.txt").write_text("\n".join(VOCABULARY))
    transformers.BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path)
    torch.manual_seed(0)
    with no_loading_bar():
        transformers.BertForSequenceClassification(config()).save_pretrained(path)
    return path


@pytest.fixture
def copied_folder(folder, tmp_path):
    """A copy of the model that a test can damage."""
    return shutil.copytree(folder, tmp_path / "model")


@pytest.fixture(scope="module")
def reranker(folder):
    return CrossEncoderReranker(folder)


@pytest.fixture(scope="module")
def expected(folder):
    """The model's scores, computed one pair at a time."""
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    with no_loading_bar():
        model = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            float(torch.sigmoid(model(**tokenizer(QUESTION, text, return_tensors="pt")).logits))
            for text in TEXTS
        ]


def test_scores_equal_the_models_in_the_order_of_the_texts(reranker, expected):
    assert len({round(score, 3) for score in expected}) == len(TEXTS)
    scores = reranker.rerank(QUESTION, TEXTS)
    assert scores == pytest.approx(expected, abs=1e-6)
    assert {type(score) for score in scores} == {float}
    assert reranker.rerank(QUESTION, TEXTS[::-1]) == pytest.approx(expected[::-1], abs=1e-6)
    assert isinstance(reranker, Reranker)


def test_batch_size_limits_each_forward_pass_without_changing_scores(folder, expected):
    batched = CrossEncoderReranker(str(folder), batch_size=2, device="cpu")
    batched.rerank(QUESTION, ["load"])
    sizes = []
    layer = batched._loaded.model.classifier
    layer.register_forward_hook(lambda _layer, _inputs, output: sizes.append(len(output)))
    assert batched.rerank(QUESTION, TEXTS) == pytest.approx(expected, abs=1e-6)
    assert sizes == [2, 2, 1]


def test_text_longer_than_the_models_limit_is_scored(reranker):
    long, longer = ["Anna met Cleo. " * times for times in (100, 200)]
    long_score, longer_score = reranker.rerank(QUESTION, [long, longer])
    assert long_score == longer_score


def test_reranking_no_texts_loads_no_model():
    assert CrossEncoderReranker("no/such-model").rerank(QUESTION, []) == []


@pytest.mark.slow
def test_eight_threads_load_the_model_once(folder, expected, monkeypatch):
    loads = []
    load = rerankers._load_model

    def counted(name, device):
        loads.append(name)
        return load(name, device)

    monkeypatch.setattr(rerankers, "_load_model", counted)
    shared = CrossEncoderReranker(folder)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: shared.rerank(QUESTION, TEXTS), range(8)))
    assert loads == [str(folder)]
    assert results == [pytest.approx(expected, abs=1e-6)] * 8


def test_loading_and_scoring_draw_no_progress_bars(folder, capfd):
    enabled = transformers.utils.logging.is_progress_bar_enabled()
    CrossEncoderReranker(folder).rerank(QUESTION, TEXTS)
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.is_progress_bar_enabled() == enabled


def test_cached_model_loads_by_name(folder, tmp_path, monkeypatch, expected):
    repository = tmp_path / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / "abc").symlink_to(folder)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert CrossEncoderReranker("org/tiny").rerank(QUESTION, TEXTS) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["cross-encoder/no-such-model", "no/such/folder"])
def test_missing_model_error_gives_the_download_command(name):
    with pytest.raises(MissingDependencyError, match=f"'{name}' is neither .*`hf download {name}`"):
        CrossEncoderReranker(name).rerank(QUESTION, ["a"])


@pytest.mark.parametrize("missing_file", ["config.json", "model.safetensors"])
def test_incomplete_model_folder_is_an_error(copied_folder, missing_file):
    (copied_folder / missing_file).unlink()
    with pytest.raises(
        MissingDependencyError, match=f"cannot load .* from {re.escape(str(copied_folder))}"
    ):
        CrossEncoderReranker(copied_folder).rerank(QUESTION, ["a"])


def test_model_that_is_not_a_cross_encoder_is_rejected(copied_folder):
    settings = json.loads((copied_folder / "config.json").read_text())
    settings["architectures"] = ["BertModel"]
    (copied_folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(MissingDependencyError, match=r"not a cross-encoder \(architecture: Bert"):
        CrossEncoderReranker(copied_folder).rerank(QUESTION, ["a"])


def test_missing_sentence_transformers_error_names_the_extra(folder, monkeypatch):
    original = builtins.__import__

    def without(name, *arguments):
        if name.startswith("sentence_transformers"):
            raise ImportError(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[loc"):
        CrossEncoderReranker(folder).rerank(QUESTION, ["a"])


def test_classifier_with_three_classes_is_rejected(copied_folder):
    with no_loading_bar():
        transformers.BertForSequenceClassification(config(labels=3)).save_pretrained(copied_folder)
    with pytest.raises(RerankError, match=r"CrossEncoderReranker\.rerank\(\) failed"):
        rerank_scores(CrossEncoderReranker(copied_folder), QUESTION, TEXTS)


class FixedReranker:
    """A reranker that always returns or raises the same."""

    def __init__(self, answer):
        self.answer = answer
        self.calls = []

    def rerank(self, question, texts):
        self.calls.append((question, list(texts)))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer", [[2, -1.5], (2, -1.5), np.float32([2, -1.5]), torch.tensor([2, -1.5])]
)
def test_numbers_of_any_type_become_floats(answer):
    fixed = FixedReranker(answer)
    scores = rerank_scores(fixed, "q", ["a", "b"])
    assert scores == [2.0, -1.5]
    assert {type(score) for score in scores} == {float}
    assert fixed.calls == [("q", ["a", "b"])]


@pytest.mark.parametrize(
    "answer", [[], [1], [1, 2, 3], [[1, 2]], [[1], [2]], 1.0, [1, np.nan], [np.inf, 1], [1, None]]
)
def test_scores_must_be_one_finite_number_per_text(answer):
    with pytest.raises(
        RerankError, match=r"FixedReranker\.rerank\(\) must return one finite number for e"
    ):
        rerank_scores(FixedReranker(answer), "q", ["a", "b"])


@pytest.mark.parametrize("answer", [None, "ab", ["a", "b"], {}, [[1], [1, 2]], [1, 2j], iter([1])])
def test_non_numeric_scores_are_rejected(answer):
    with pytest.raises(RerankError, match=r"FixedReranker\.rerank\(\) "):
        rerank_scores(FixedReranker(answer), "q", ["a", "b"])


@pytest.mark.parametrize("error", [ValueError("oops"), StopIteration("oops"), OSError("oops")])
def test_exception_in_a_reranker_names_class_and_error(error):
    with pytest.raises(
        RerankError, match=rf"FixedReranker\.rerank\(\) failed.*{type(error).__name__}: oops"
    ):
        rerank_scores(FixedReranker(error), "q", ["a"])


def test_a_reranker_may_consume_its_list():
    class Popping:
        def rerank(self, query, texts):
            return [len(texts.pop(0)) for _ in range(len(texts))]

    assert rerank_scores(Popping(), "q", ["a", "bb"]) == [1.0, 2.0]


def test_package_errors_and_interrupts_propagate_unchanged():
    with pytest.raises(MissingDependencyError, match="hf download"):
        rerank_scores(CrossEncoderReranker("no/such-model"), "q", ["a"])
    with pytest.raises(KeyboardInterrupt):
        rerank_scores(FixedReranker(KeyboardInterrupt()), "q", ["a"])
