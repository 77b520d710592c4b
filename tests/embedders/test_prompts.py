"""Prompts and pooling of sentence-transformers models: tiny random models in real files."""

import json
import pickle
import shutil

import numpy as np
import pytest

from e2graphrag_integrations import E2GraphRAG, Models, SentenceTransformerEmbedder, SourceDocument
from e2graphrag_integrations.embedders.prompts import ModelPrompts, documented_prompts
from e2graphrag_integrations.errors import SettingsMismatchError

PLAIN = ModelPrompts()
E5 = ModelPrompts("query: ", "passage: ")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A random model with 16 dimensions and CLS pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    letters = [chr(code) for code in range(33, 127)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "max_position_embeddings": 64}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=len(words), **sizes, **layers)).save_pretrained(folder)
    saved = tmp_path_factory.mktemp("saved")
    transformer = Transformer(str(folder), max_seq_length=64)
    SentenceTransformer(modules=[transformer, Pooling(16, "cls")], device="cpu").save(str(saved))
    return saved


@pytest.fixture
def make_model(base, tmp_path):
    """Return a function that copies the model under a name, with prompts."""

    def make(name, prompts=None):
        folder = shutil.copytree(base, tmp_path / name)
        file = folder / "config_sentence_transformers.json"
        config = json.loads(file.read_text())
        file.write_text(json.dumps({**config, "prompts": prompts or {}}))
        return SentenceTransformerEmbedder(folder)

    return make


def encode(embedder, text):
    """Return the vector of exactly this text."""
    model, _ = embedder._load()
    return model.encode(text, prompt="")


@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        ("intfloat/multilingual-e5-small", E5),
        ("intfloat/e5-large-v2", E5),
        ("BAAI/bge-m3", PLAIN),
        ("BAAI/bge-large-zh-noinstruct", PLAIN),
        ("sentence-transformers/all-MiniLM-L6-v2", PLAIN),
        ("somebody/multilingual-e5-small-legal", PLAIN),
    ],
)
def test_well_known_families_have_their_documented_prompts(name, prompts):
    assert documented_prompts(name) == prompts


def test_only_queries_of_bge_and_instruct_models_have_an_instruction():
    models = (
        "BAAI/bge-small-zh-v1.5",
        "BAAI/bge-base-en",
        "intfloat/multilingual-e5-large-instruct",
    )
    for name in models:
        query, document = documented_prompts(name)
        assert query
        assert document == ""


def test_documented_prompts_are_prepended(make_model):
    embedder = make_model("multilingual-e5-small")
    assert embedder.prompts == E5
    [vector] = embedder.embed(["abc"])
    np.testing.assert_allclose(vector, encode(embedder, "passage: abc"), atol=1e-5)
    np.testing.assert_allclose(
        embedder.embed_query("abc"), encode(embedder, "query: abc"), atol=1e-5
    )
    assert not np.allclose(vector, encode(embedder, "abc"), atol=1e-3)


def test_prompts_in_the_files_of_a_model_replace_the_documented_ones(make_model):
    embedder = make_model("bge-small-en", {"query": "Q: ", "document": "D: "})
    assert embedder.prompts == ModelPrompts("Q: ", "D: ")
    # sentence-transformers applies them by itself.
    assert embedder.fingerprint == f"sentence-transformers:{embedder.model}"


@pytest.mark.slow
def test_passage_prompt_is_applied_although_sentence_transformers_looks_for_document(make_model):
    embedder = make_model("own", {"query": "query: ", "passage": "passage: "})
    [vector] = embedder.embed(["abc"])
    np.testing.assert_allclose(vector, encode(embedder, "passage: abc"), atol=1e-5)
    assert embedder.fingerprint.endswith(f":prompts-{E5.digest}")


def test_given_prompts_win_and_change_the_fingerprint(make_model):
    plain = make_model("own")
    given = SentenceTransformerEmbedder(plain.model, query_prompt="ask: ")
    assert given.prompts == ModelPrompts("ask: ")
    np.testing.assert_allclose(given.embed_query("a"), encode(plain, "ask: a"), atol=1e-5)
    assert plain.fingerprint == f"sentence-transformers:{plain.model}"
    assert given.fingerprint == f"{plain.fingerprint}:prompts-{given.prompts.digest}"
    assert pickle.loads(pickle.dumps(given)).fingerprint == given.fingerprint  # noqa: S301


def test_prompts_count_toward_the_limit(make_model):
    plain, e5 = make_model("own"), make_model("multilingual-e5-small")
    assert e5.max_tokens == plain.max_tokens - e5.tokens.count("passage: ")


def test_pooling_is_that_of_the_model(make_model):
    model, _ = make_model("own")._load()
    assert model[1].pooling_mode == "cls"


def test_index_built_without_prompts_needs_an_embedder_without_prompts(make_model, names, tmp_path):
    e5 = make_model("multilingual-e5-small")
    plain = SentenceTransformerEmbedder(e5.model, query_prompt="", document_prompt="")
    path = tmp_path / "plain.e2g"
    with E2GraphRAG.open(path, embedder=plain, models=Models(extractor=names)) as rag:
        rag.add(SourceDocument("a", "Ada met Bob."))
    with E2GraphRAG.open(path, embedder=plain, models=Models(extractor=names)) as rag:
        assert rag._index.components.embedder.embedder.prompts == PLAIN
    with pytest.raises(SettingsMismatchError, match="with the prompts 'query: ' and 'passage: '"):
        E2GraphRAG.open(path, embedder=e5)


def test_index_built_with_documented_prompts_opens_by_name(make_model, names, tmp_path):
    e5 = make_model("multilingual-e5-small")
    path = tmp_path / "new.e2g"
    with E2GraphRAG.open(path, embedder=e5.model, models=Models(extractor=names)) as rag:
        rag.add(SourceDocument("a", "Ada met Bob."))
    with E2GraphRAG.open(path, models=Models(extractor=names)) as rag:
        assert rag._index.components.embedder.embedder.prompts == E5


def test_damaged_prompts_are_ignored(make_model):
    embedder = make_model("own")
    config = json.loads("[1]")
    for text in (json.dumps(config), '{"prompts": 3}', "{"):
        copy = SentenceTransformerEmbedder(embedder.model)
        (copy._folder / "config_sentence_transformers.json").write_text(text)
        assert copy.prompts == PLAIN
