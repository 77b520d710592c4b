"""A LangChain index of another extractor is extracted again in one step."""

from __future__ import annotations

import copy

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.langchain import E2GraphRAGIndex, LangChainEmbedder
from e2graphrag_integrations.options import grouped
from fakes import FailingEmbedder, OldExtractor

DOCUMENTS = [
    Document(id="anna", page_content="Anna Berg\nAnna Berg was a pilot. She met Bert in Oslo."),
    Document(id="emil", page_content="Emil Dahl was a sailor. Emil Dahl left Oslo."),
]
NEW = Document(id="new", page_content="Fay Lind was a miller. Fay Lind knew Anna Berg.")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_reindexed_index_equals_a_new_one(tmp_path, names, is_async):
    options = {"embeddings": "hashing", "extractor": names, "tree_per": "document"}
    path = tmp_path / "i.e2g"
    old = options | {"extractor": OldExtractor()}
    E2GraphRAGIndex.from_documents(DOCUMENTS, **grouped({"path": path, **old})).close()
    with E2GraphRAGIndex.open(
        path, **grouped({"auto_build": False, **options | {"embeddings": FailingEmbedder()}})
    ) as index:
        with pytest.raises(SettingsMismatchError, match=r"fake:old.*reindex\(\)"):
            index.similarity_search("Who was a sailor?")
        index.upsert([NEW])
        report = await index.rag.areindex() if is_async else index.rag.reindex()
        assert report.documents == 2
        assert index.rag.stats().settings["extractor"].startswith("fake:names")
        assert index.corpus.is_dirty  # pending documents remain pending
    with (
        E2GraphRAGIndex.open(path, **grouped(options)) as index,
        E2GraphRAGIndex.from_documents([*DOCUMENTS, NEW], **grouped(options)) as fresh,
    ):
        index.build()
        assert list(index.rag.export()) == list(fresh.rag.export())


def test_the_vector_store_does_not_change(tmp_path, names):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    options = {"embeddings": "hashing", "extractor": names, "vector_store": store}
    old = options | {"extractor": OldExtractor()}
    with E2GraphRAGIndex.from_documents(DOCUMENTS, **grouped({"path": tmp_path / "i.e2g", **old})):
        before = dict(store.store)
        assert before
    with E2GraphRAGIndex.open(tmp_path / "i.e2g", **grouped(options)) as index:
        index.rag.reindex()
        assert index.similarity_search("Who was a sailor?")
    assert store.store == before


async def test_the_embeddings_of_an_index_are_replaced(lc_index_of, pages, tmp_path):
    path = tmp_path / "a.e2g"
    index = lc_index_of(pages, path=path)
    texts = sorted(one.page_content for one in index.get([page.id for page in pages]))
    embeddings = DeterministicFakeEmbedding(size=24)
    assert index.rag.reembed(embeddings).documents == 2
    assert index.rag.stats().dimension == 24
    assert index.invoke("Anna?")
    assert sorted(one.page_content for one in index.get([page.id for page in pages])) == texts
    assert (await index.rag.areembed("hashing")).llm_calls == 0
    with pytest.raises(InvalidInputError, match="embedder"):
        index.rag.reembed(None)
    with copy.deepcopy(index) as other:
        assert other.rag.stats().dimension == 256
    windows = index.rag.stats().windows
    assert index.rag.reembed(LangChainEmbedder(embeddings, 16)).embedded > 0
    assert index.rag.stats().windows > windows
    assert index.rag.reembed(LangChainEmbedder(embeddings, 16)).skipped
    with copy.deepcopy(index) as other:
        assert other.rag.embedder.max_tokens == 16
    assert index.rag.reembed(LangChainEmbedder(embeddings, 400)).embedded > 0
    assert index.rag.stats().windows == windows
    assert index.invoke("Anna?")


def test_an_index_with_a_vector_store_keeps_its_embeddings(lc_index_of, pages):
    embeddings = DeterministicFakeEmbedding(size=24)
    store = InMemoryVectorStore(embeddings)
    index = lc_index_of(pages, embeddings=embeddings, vector_store=store)
    with pytest.raises(InvalidInputError, match="without the vector store"):
        index.rag.reembed("hashing")
    assert index.invoke("Anna?")
