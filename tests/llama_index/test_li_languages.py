"""Languages of LlamaIndex documents: from their metadata, from the index, or detected."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from e2graphrag_integrations import E2GraphRAG, Models
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex

DREAM = "曹雪芹著有《红楼梦》。贾宝玉住在大观园。"
TEA = "The Hatter gave Alice a cup of tea in Oxford, and she thanked him for it."


def document(id_, text, **metadata):
    return Document(id_=id_, text=text, metadata=metadata)


DOCUMENTS = [
    document("tea", TEA),
    document("dream", DREAM, language="No language found."),
    document("forced", f"{TEA} Then they left.", language="de-DE"),
    document("p1", TEA, file_path="a.pdf", page_label="1", lang="fr"),
    document("p2", DREAM, file_path="a.pdf", page_label="2", lang="fr"),
]
LANGUAGES = {"tea": "en", "dream": "zh", "forced": "de", "a.pdf #980c30e9c4": "fr"}


@pytest.fixture
def index():
    return E2GraphRAGIndex.from_documents(DOCUMENTS, embed_model="hashing")


def languages(index):
    return index.rag.store.languages()


def found(index, language):
    filters = MetadataFilters(filters=[MetadataFilter(key="language", value=language)])
    nodes = index.as_retriever(similarity_top_k=9, filters=filters).retrieve("tea")
    return {node.node.ref_doc_id for node in nodes}


@pytest.mark.slow
def test_metadata_names_the_language_of_a_document(index):
    assert languages(index) == LANGUAGES
    assert {"extractor", "extractor_zh", "extractor_de"} < index.rag.made_with.keys()
    nodes = index.as_retriever(similarity_top_k=9).search("贾宝玉").nodes
    assert {node.document_id: node.language for node in nodes} == LANGUAGES
    assert "贾宝玉" in index.rag.graph.names
    assert found(index, "en") == {"tea"}
    assert found(index, "de-DE") == {"forced"}


def test_languages_are_persisted(index, tmp_path):
    index.storage_context.persist(tmp_path)
    loaded = E2GraphRAGIndex.from_persist_dir(tmp_path)
    assert languages(loaded) == LANGUAGES
    assert loaded.rag.reindex().documents == 0
    loaded.refresh_ref_docs([document("tea", f"{TEA} {DREAM * 9}"), *DOCUMENTS[1:]])
    assert languages(loaded) == LANGUAGES | {"tea": "zh"}


def test_index_files_keep_languages(index, tmp_path):
    path = tmp_path / "i.e2g"
    index.rag.copy_to(path)
    with E2GraphRAG.open(path, embedder="hashing") as rag:
        assert rag.store.languages() == LANGUAGES
        assert rag.verify().ok
        assert set(rag.graph.names) == set(index.rag.graph.names)
        assert rag.add(rag.document("dream")).skipped == ("dream",)
    with E2GraphRAGIndex.open(path) as opened:
        assert languages(opened) == LANGUAGES


async def test_an_index_has_a_language_for_other_documents():
    index = await E2GraphRAGIndex.afrom_documents(
        DOCUMENTS, embed_model="hashing", models=Models(language="nl")
    )
    assert languages(index) == LANGUAGES | {"tea": "nl", "dream": "nl"}
    with pytest.raises(InvalidInputError, match="language='xx'"):
        E2GraphRAGIndex([], embed_model="hashing", models=Models(language="xx"))
