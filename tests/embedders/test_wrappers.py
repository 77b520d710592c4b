"""One model in the classes of several frameworks: same windows, and recognized by its vectors."""

from __future__ import annotations

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from llama_index.core import Document
from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.embedders.fingerprints import embedder_fingerprint, readable_name
from e2graphrag_integrations.embedders.sentence_transformers import (
    DEFAULT_MODEL,
    find_model,
    no_loading_bar,
)
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import SettingsMismatchError
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.langchain.embedding import LangChainEmbedder
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex
from e2graphrag_integrations.llama_index.models import EmbedModel
from e2graphrag_integrations.options import grouped
from fakes import STORY, AnonymousEmbedder, NameExtractor

SIZES = {"chunk_size": 40, "chunk_overlap": 0}


class HuggingFaceEmbedding(BaseEmbedding):
    """Stores its model as LlamaIndex's class of the same name does."""

    max_length: int = 256
    _model: object = PrivateAttr()

    def __init__(self, model):
        super().__init__(model_name="sentence-transformers/all-MiniLM-L6-v2")
        self._model = model

    def _get_text_embedding(self, text):
        return self._model.encode([text], show_progress_bar=False)[0].tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


class HuggingFaceEmbeddings(Embeddings):
    """Stores its model as langchain-huggingface's class of the same name does."""

    model_name = "all-MiniLM-L6-v2"

    def __init__(self, model, **options):
        self._client = model
        self.encode_kwargs = options

    def embed_documents(self, texts):
        return self._client.encode(texts, show_progress_bar=False).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class Digits(Embeddings):
    """A different model with the same dimension."""

    def embed_documents(self, texts):
        return HashingEmbedder(384).embed(texts).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.fixture(scope="module")
def model():
    from sentence_transformers import SentenceTransformer

    with no_loading_bar():
        return SentenceTransformer(str(find_model(DEFAULT_MODEL)), device="cpu")


@pytest.fixture(params=["llama_index", "langchain"])
def wrapper(request, model):
    if request.param == "llama_index":
        return EmbedModel(HuggingFaceEmbedding(model))
    return LangChainEmbedder(HuggingFaceEmbeddings(model))


@pytest.mark.fast_cases(1)
def test_windows_of_a_wrapped_model_are_those_of_the_model(real_embedder, wrapper):
    text = "The committee discussed the drainage of the northern car park at length. " * 60
    assert wrapper.max_tokens == real_embedder.max_tokens == 254
    windows = WindowedEmbedder(wrapper).windows(text)
    assert windows == WindowedEmbedder(real_embedder).windows(text)
    assert max(real_embedder.tokens.count(text[start:end]) for start, end in windows) > 200


def test_prompts_of_a_wrapper_count_toward_the_limit(model):
    prompt = "Represent this sentence for searching relevant passages: "
    plain, prompted = HuggingFaceEmbeddings(model), HuggingFaceEmbeddings(model, prompt=prompt)
    assert LangChainEmbedder(prompted).max_tokens < LangChainEmbedder(plain).max_tokens


def test_a_remote_model_has_no_tokenizer():
    assert LangChainEmbedder(Digits()).tokens is None
    assert LangChainEmbedder(Digits()).max_tokens is None
    unusable = Digits()
    unusable._client = object()
    assert LangChainEmbedder(unusable).tokens is None


@pytest.mark.fast_cases(1)
def test_an_index_of_the_core_opens_with_a_wrapper_and_back(tmp_path, real_embedder, wrapper):
    path = tmp_path / "a.e2g"
    options = {"extractor": NameExtractor()}
    with E2GraphRAG.open(path, **grouped({"embedder": real_embedder, **options, **SIZES})) as rag:
        rag.add(SourceDocument("story", STORY))
        expected = rag.retrieve("What did Anna give Bert?").nodes
    with E2GraphRAG.open(path, **grouped({"embedder": wrapper, **options})) as rag:
        found = rag.retrieve("What did Anna give Bert?").nodes
        assert [node.node_id for node in found] == [node.node_id for node in expected]
        report = rag.add(SourceDocument("more", STORY + " Hal came back."))
        assert report.embedded == 1  # the rest is cached
    with E2GraphRAG.open(path, **grouped(options)) as rag:  # the file still names its model
        assert rag.retrieve("Who came back?").nodes


@pytest.mark.fast_cases(1)
def test_an_index_of_a_wrapper_opens_with_the_core(tmp_path, real_embedder, wrapper):
    path = tmp_path / "a.e2g"
    options = {"extractor": NameExtractor()}
    with E2GraphRAG.open(path, **grouped({"embedder": wrapper, **options, **SIZES})) as rag:
        rag.add(SourceDocument("story", STORY))
    with E2GraphRAG.open(path, **grouped({"embedder": real_embedder, **options})) as rag:
        assert rag.retrieve("What did Anna give Bert?").nodes


def test_a_file_opens_in_every_face_with_that_faces_class(tmp_path, model, real_embedder):
    path, other = tmp_path / "a.e2g", tmp_path / "b.e2g"
    extractor = NameExtractor()
    index = LlamaIndex.from_documents(
        [Document(id_="story", text=STORY)],
        **grouped({"embed_model": HuggingFaceEmbedding(model), "extractor": extractor, **SIZES}),
    )
    index.rag.copy_to(path)
    with LangChainIndex.open(
        path, embeddings=HuggingFaceEmbeddings(model), models=Models(extractor=extractor)
    ) as opened:
        assert opened.as_retriever().invoke("Anna")
    with E2GraphRAG.open(
        other, **grouped({"embedder": real_embedder, "extractor": extractor, **SIZES})
    ) as rag:
        rag.add(SourceDocument("story", STORY))
    with LlamaIndex.open(
        other, embed_model=HuggingFaceEmbedding(model), models=Models(extractor=extractor)
    ) as index:
        assert index.as_retriever("global").retrieve("Anna")


@pytest.mark.slow
def test_another_model_is_refused_in_words(tmp_path, real_embedder):
    path = tmp_path / "a.e2g"
    with E2GraphRAG.open(
        path, **grouped({"embedder": real_embedder, "extractor": NameExtractor(), **SIZES})
    ) as rag:
        rag.add(SourceDocument("story", STORY))
    with (
        LangChainIndex.open(
            path, embeddings=Digits(), models=Models(extractor=NameExtractor())
        ) as index,
        pytest.raises(SettingsMismatchError) as caught,
    ):
        index.as_retriever().invoke("Anna")
    message = str(caught.value)
    assert "sentence-transformers:all-MiniLM-L6-v2 (384-d), not Digits" in message
    assert "pass embeddings=" in message
    assert len(message) < 300


def test_a_missing_model_is_named_with_the_faces_parameter(tmp_path):
    path = tmp_path / "a.e2g"
    extractor = NameExtractor()
    with E2GraphRAG.open(
        path, **grouped({"embedder": AnonymousEmbedder(16), "extractor": extractor, **SIZES})
    ) as rag:
        rag.add(SourceDocument("story", STORY))
    with (
        E2GraphRAG.open(path, models=Models(extractor=extractor)) as rag,
        pytest.raises(SettingsMismatchError, match=r"\(16-d\).*pass embedder=$") as caught,
    ):
        rag.retrieve("Anna")
    assert len(str(caught.value)) < 250
    with (
        LangChainIndex.open(path, models=Models(extractor=extractor)) as index,
        pytest.raises(SettingsMismatchError, match=r"pass embeddings=$"),
    ):
        index.as_retriever().invoke("Anna")
    with (
        LlamaIndex.open(path, models=Models(extractor=extractor)) as index,
        pytest.raises(SettingsMismatchError, match=r"pass embed_model=$"),
    ):
        index.as_retriever("global").retrieve("Anna")


def test_names_are_readable(model, real_embedder):
    names = [
        readable_name(embedder)
        for embedder in (
            real_embedder,
            EmbedModel(HuggingFaceEmbedding(model)),
            LangChainEmbedder(HuggingFaceEmbeddings(model)),
            AnonymousEmbedder(16),
        )
    ]
    assert names == [
        "SentenceTransformerEmbedder(all-MiniLM-L6-v2)",
        "HuggingFaceEmbedding(sentence-transformers/all-MiniLM-L6-v2)",
        "HuggingFaceEmbeddings(all-MiniLM-L6-v2)",
        "AnonymousEmbedder",
    ]
    assert len(embedder_fingerprint(AnonymousEmbedder(384))) > 600  # as in the manifest
    assert np.isfinite(real_embedder.embed_query("x")).all()
