"""Rerankers: a real cross-encoder, tiny and of random weights, and the port that holds any."""

from __future__ import annotations

import builtins
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import huggingface_hub
import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast
from transformers.utils import logging

from e2graphrag_integrations.embedders.sentence_transformers import no_loading_bar
from e2graphrag_integrations.errors import MissingDependencyError, RerankError
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.search import rerankers
from e2graphrag_integrations.search.rerankers import CrossEncoderReranker, rerank_scores

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] who met anna bert cleo in oslo rome . ?".split()
QUESTION = "Who met Anna?"
TEXTS = ["Bert met Anna in Oslo.", "Cleo", "Rome. Rome. Rome.", "Oslo?", "Anna met Cleo in Rome."]


def config(labels=1):
    return BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        num_labels=labels,
        initializer_range=0.5,  # wide, so that scores differ
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model as `save_pretrained` leaves it."""
    path = tmp_path_factory.mktemp("cross-encoder")
    (path / "vocab.txt").write_text("\n".join(VOCABULARY))
    BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path)
    torch.manual_seed(0)
    with no_loading_bar():
        BertForSequenceClassification(config()).save_pretrained(path)
    return path


@pytest.fixture
def changed(folder, tmp_path):
    """A copy of the model to damage."""
    return shutil.copytree(folder, tmp_path / "model")


@pytest.fixture(scope="module")
def reranker(folder):
    return CrossEncoderReranker(folder)


@pytest.fixture(scope="module")
def expected(folder):
    """The model's own scores, one pair at a time."""
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    with no_loading_bar():
        model = BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            float(torch.sigmoid(model(**tokenizer(QUESTION, text, return_tensors="pt")).logits))
            for text in TEXTS
        ]


def test_scores_are_the_models_own_in_the_order_of_the_texts(reranker, expected):
    assert len({round(score, 3) for score in expected}) == len(TEXTS)
    made = reranker.rerank(QUESTION, TEXTS)
    assert made == pytest.approx(expected, abs=1e-6)
    assert {type(score) for score in made} == {float}
    assert reranker.rerank(QUESTION, TEXTS[::-1]) == pytest.approx(expected[::-1], abs=1e-6)
    assert isinstance(reranker, Reranker)


def test_the_batch_size_says_how_many_are_read_at_once_and_changes_no_score(folder, expected):
    made = CrossEncoderReranker(str(folder), batch_size=2, device="cpu")
    made.rerank(QUESTION, ["load"])
    sizes = []
    layer = made._loaded.model.classifier
    layer.register_forward_hook(lambda _layer, _inputs, output: sizes.append(len(output)))
    assert made.rerank(QUESTION, TEXTS) == pytest.approx(expected, abs=1e-6)
    assert sizes == [2, 2, 1]


def test_a_text_longer_than_the_model_reads_is_scored(reranker):
    long, longer = ["Anna met Cleo. " * times for times in (100, 200)]
    one, other = reranker.rerank(QUESTION, [long, longer])
    assert one == other


def test_no_texts_load_no_model():
    assert CrossEncoderReranker("no/such-model").rerank(QUESTION, []) == []


def test_eight_threads_load_the_model_once(folder, expected, monkeypatch):
    loads = []
    load = rerankers._load

    def counted(name, device):
        loads.append(name)
        return load(name, device)

    monkeypatch.setattr(rerankers, "_load", counted)
    made = CrossEncoderReranker(folder)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: made.rerank(QUESTION, TEXTS), range(8)))
    assert loads == [str(folder)]
    assert found == [pytest.approx(expected, abs=1e-6)] * 8


def test_loading_and_scoring_draw_no_bars(folder, capfd):
    shown = logging.is_progress_bar_enabled()
    CrossEncoderReranker(folder).rerank(QUESTION, TEXTS)
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == shown


def test_a_model_in_the_cache_is_loaded_by_name(folder, tmp_path, monkeypatch, expected):
    repository = tmp_path / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / "abc").symlink_to(folder)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert CrossEncoderReranker("org/tiny").rerank(QUESTION, TEXTS) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["cross-encoder/no-such-model", "no/such/folder"])
def test_a_missing_model_is_named_with_the_command(name):
    with pytest.raises(MissingDependencyError, match=f"'{name}' is neither .*`hf download {name}`"):
        CrossEncoderReranker(name).rerank(QUESTION, ["a"])


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors"])
def test_a_folder_that_lacks_part_of_the_model_is_an_error(changed, gone):
    (changed / gone).unlink()
    with pytest.raises(MissingDependencyError, match=f"{re.escape(str(changed))} cannot be loaded"):
        CrossEncoderReranker(changed).rerank(QUESTION, ["a"])


def test_without_sentence_transformers_the_extra_is_named(folder, monkeypatch):
    original = builtins.__import__

    def without(name, *arguments):
        if name.startswith("sentence_transformers"):
            raise ImportError(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[loc"):
        CrossEncoderReranker(folder).rerank(QUESTION, ["a"])


def test_a_classifier_of_three_classes_is_no_reranker(changed):
    with no_loading_bar():
        BertForSequenceClassification(config(labels=3)).save_pretrained(changed)
    with pytest.raises(RerankError, match=r"CrossEncoderReranker\.rerank\(\) failed"):
        rerank_scores(CrossEncoderReranker(changed), QUESTION, TEXTS)


class Fixed:
    """Answers with what it was given, whatever it is asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def rerank(self, question, texts):
        self.asked.append((question, list(texts)))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer", [[2, -1.5], (2, -1.5), np.float32([2, -1.5]), torch.tensor([2, -1.5])]
)
def test_numbers_of_any_kind_become_floats(answer):
    fixed = Fixed(answer)
    made = rerank_scores(fixed, "q", ["a", "b"])
    assert made == [2.0, -1.5]
    assert {type(score) for score in made} == {float}
    assert fixed.asked == [("q", ["a", "b"])]


@pytest.mark.parametrize(
    "answer", [[], [1], [1, 2, 3], [[1, 2]], [[1], [2]], 1.0, [1, np.nan], [np.inf, 1], [1, None]]
)
def test_anything_but_one_finite_number_a_text_is_refused(answer):
    with pytest.raises(RerankError, match=r"Fixed\.rerank\(\) must return one finite number for e"):
        rerank_scores(Fixed(answer), "q", ["a", "b"])


@pytest.mark.parametrize("answer", [None, "ab", ["a", "b"], {}, [[1], [1, 2]], [1, 2j], iter([1])])
def test_what_are_no_numbers_is_refused(answer):
    with pytest.raises(RerankError, match=r"Fixed\.rerank\(\) "):
        rerank_scores(Fixed(answer), "q", ["a", "b"])


@pytest.mark.parametrize("error", [ValueError("oops"), StopIteration("oops"), OSError("oops")])
def test_a_reranker_that_raises_is_named_with_its_error(error):
    with pytest.raises(
        RerankError, match=rf"Fixed\.rerank\(\) failed.*{type(error).__name__}: oops"
    ):
        rerank_scores(Fixed(error), "q", ["a"])


def test_errors_of_this_package_and_interrupts_pass_as_they_are():
    with pytest.raises(MissingDependencyError, match="hf download"):
        rerank_scores(CrossEncoderReranker("no/such-model"), "q", ["a"])
    with pytest.raises(KeyboardInterrupt):
        rerank_scores(Fixed(KeyboardInterrupt()), "q", ["a"])
