"""A LangChain index of another extractor is extracted again in one step."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from e2graphrag_integrations.errors import SettingsMismatchError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
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
        report = await index.areindex() if is_async else index.reindex()
        assert report.documents == 2
        assert index.corpus.rag.stats().settings["extractor"].startswith("fake:names")
        assert index.corpus.is_dirty  # pending documents remain pending
    with (
        E2GraphRAGIndex.open(path, **grouped(options)) as index,
        E2GraphRAGIndex.from_documents([*DOCUMENTS, NEW], **grouped(options)) as fresh,
    ):
        index.build()
        assert list(index.corpus.rag.export()) == list(fresh.corpus.rag.export())


def test_the_vector_store_does_not_change(tmp_path, names):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    options = {"embeddings": "hashing", "extractor": names, "vector_store": store}
    old = options | {"extractor": OldExtractor()}
    with E2GraphRAGIndex.from_documents(DOCUMENTS, **grouped({"path": tmp_path / "i.e2g", **old})):
        before = dict(store.store)
        assert before
    with E2GraphRAGIndex.open(tmp_path / "i.e2g", **grouped(options)) as index:
        index.reindex()
        assert index.similarity_search("Who was a sailor?")
    assert store.store == before
