"""An index names the model of a framework that embedded it, also in errors about another model."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations.embedders.fingerprints import readable_name
from e2graphrag_integrations.errors import SettingsMismatchError

TEXT = "Anna met Bert in Paris."
NAME = "OpenAIEmbeddings(text-embedding-3-small)"


@pytest.fixture
def openai(monkeypatch):
    """Return a function that creates OpenAI embeddings whose vectors are local."""
    module = pytest.importorskip("langchain_openai")
    cls = module.OpenAIEmbeddings

    def vectors(self, texts, *_, **__):
        own = HashingEmbedder(self.dimensions or 64).embed(
            [f"{self.model} {text}" for text in texts]
        )
        return own.tolist()

    monkeypatch.setattr(cls, "embed_documents", vectors)
    monkeypatch.setattr(cls, "embed_query", lambda self, text: vectors(self, [text])[0])
    return lambda model, **options: cls(model=model, api_key="secret-key", **options)


@pytest.mark.slow
def test_an_index_of_langchain_names_its_openai_model(tmp_path, openai, capsys):
    from e2graphrag_integrations.cli.main import main
    from e2graphrag_integrations.langchain import E2GraphRAGIndex

    path = tmp_path / "i.e2g"
    with E2GraphRAGIndex.open(path, embeddings=openai("text-embedding-3-small")) as index:
        index.add_texts([TEXT], ids=["a"])
        assert index.rag.stats().settings["embedder_name"] == NAME
    with pytest.raises(
        SettingsMismatchError, match=r"text-embedding-3-small\) \(vectors .*not .*ada"
    ):
        search(E2GraphRAGIndex.open(path, embeddings=openai("text-embedding-ada-002")))
    with pytest.raises(SettingsMismatchError, match=r"built the index, OpenAIEmbeddings\(text-em"):
        search(E2GraphRAGIndex.open(path, embeddings=openai("x", dimensions=32)))
    with pytest.raises(SettingsMismatchError, match=r"with the embedder OpenAIEmbeddings\(text"):
        search(E2GraphRAGIndex.open(path))
    assert main(["indexes", "stats", str(path)]) == 0
    printed = capsys.readouterr().out
    assert f"embedder = {NAME} (vectors " in printed
    assert "secret-key" not in printed


def search(index):
    try:
        index.similarity_search("Who met Bert?")
    finally:
        index.close()


@pytest.mark.slow
def test_an_index_of_llama_index_names_its_model():
    pytest.importorskip("llama_index.core")
    from llama_index.core import Document
    from llama_index.core.embeddings import BaseEmbedding

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    class OpenAIEmbedding(BaseEmbedding):
        def _get_text_embedding(self, text):
            return HashingEmbedder(64).embed([f"{self.model_name} {text}"])[0].tolist()

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query):
            return self._get_text_embedding(query)

    small, large = (OpenAIEmbedding(model_name=f"text-embedding-3-{n}") for n in ("small", "large"))
    index = E2GraphRAGIndex.from_documents([Document(text=TEXT)], embed_model=small)
    assert index.rag.made_with["embedder_name"] == "OpenAIEmbedding(text-embedding-3-small)"
    other = E2GraphRAGIndex.from_storage(index.storage_context, embed_model=large)
    with pytest.raises(SettingsMismatchError, match=r"3-small\) \(vectors .*not .*3-large"):
        other.as_retriever().retrieve("Who met Bert?")
    assert readable_name(OpenAIEmbedding()) == "OpenAIEmbedding"  # LlamaIndex calls it "unknown"


def test_a_model_that_can_be_loaded_by_its_name_needs_no_other(open_index):
    rag = open_index(embedder="hashing")
    from e2graphrag_integrations import SourceDocument

    rag.add(SourceDocument("a", TEXT))
    settings = rag.stats().settings
    assert settings["embedder_model"] == "hashing"
    assert "embedder_name" not in settings
