"""The index as a LangChain `VectorStore`: types, ids, vectors, and metadata that stores accept."""

from __future__ import annotations

import asyncio
import json

import chromadb
import pytest
from langchain_classic.retrievers import ParentDocumentRetriever
from langchain_classic.storage import InMemoryStore
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from e2graphrag_integrations import HashingEmbedder, HybridStrategy
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from langchain_fakes import DigestChatModel

TEXTS = "Anna found a map in Oslo.", "Bert mended the mill.", "Cleo sold fish in Rome."


@pytest.fixture
def store(lc_index_of):
    """Index three texts with ids of their own."""
    return lc_index_of([Document(id=f"t{n}", page_content=text) for n, text in enumerate(TEXTS)])


def contents(documents):
    return [one.page_content for one in documents]


def test_an_index_is_a_vector_store(store):
    assert isinstance(store, VectorStore)


def test_a_search_by_vector_returns_the_nearest_texts(store):
    vector = store.embeddings.embed_query(TEXTS[1])
    found = store.similarity_search_by_vector(vector, k=2)
    assert len(found) == 2
    assert (found[0].page_content, found[0].id) == (TEXTS[1], "t1")
    assert asyncio.run(store.asimilarity_search_by_vector(vector, k=2)) == found
    only = store.similarity_search_by_vector(vector, k=3, filter={"e2_doc_id": "t2"})
    assert contents(only) == [TEXTS[2]]
    with pytest.raises(InvalidInputError, match="has no strategy"):
        store.similarity_search_by_vector(vector, strategy=HybridStrategy())


def test_vectors_of_one_byte_find_the_same_texts(lc_index_of):
    documents = [Document(id=f"t{n}", page_content=text) for n, text in enumerate(TEXTS)]
    floats, rounded = lc_index_of(documents), lc_index_of(documents, vector_store="int8")
    for text in TEXTS:
        found = rounded.similarity_search_with_relevance_scores(text, k=3)
        expected = floats.similarity_search_with_relevance_scores(text, k=3)
        assert contents(one for one, _ in found) == contents(one for one, _ in expected)
        scores = [[score for _, score in one] for one in (found, expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_mmr_by_vector_prefers_texts_that_differ(lc_index_of):
    texts = "Anna found a map.", "Anna found a map now.", "Bert mended the mill."
    store = lc_index_of([Document(id=str(n), page_content=text) for n, text in enumerate(texts)])
    vector = store.embeddings.embed_query("Anna found a map.")
    near = store.similarity_search_by_vector(vector, k=2)
    diverse = store.max_marginal_relevance_search_by_vector(vector, k=2, lambda_mult=0.1)
    assert contents(near) == list(texts[:2])
    assert contents(diverse) == [texts[0], texts[2]]
    again = store.amax_marginal_relevance_search_by_vector(vector, k=2, lambda_mult=0.1)
    assert asyncio.run(again) == diverse


@pytest.mark.parametrize("vector", [[1.0], [], ["x"], [float("nan")] * 256])
def test_a_vector_of_another_shape_raises(store, vector):
    with pytest.raises(InvalidInputError, match="vector"):
        store.similarity_search_by_vector(vector)


@pytest.mark.parametrize("kind", ["int8", "store"])
def test_a_vector_of_another_shape_raises_in_any_vector_index(lc_index_of, kind):
    vectors = kind if kind == "int8" else InMemoryVectorStore(DeterministicFakeEmbedding(size=256))
    store = lc_index_of([Document(TEXTS[0])], vector_store=vectors)
    with pytest.raises(InvalidInputError, match=r"has the shape \(1,\): pass 256"):
        store.similarity_search_by_vector([1.0])


def test_a_search_by_vector_finds_only_chunks_and_embeds_nothing(lc_index_of, pages, monkeypatch):
    store = lc_index_of(pages)
    vector = store.embeddings.embed_query("Who mended the mill?")
    chunks = [one for one in store.invoke("Anna", k=100) if one.metadata["e2_level"] == 0]
    monkeypatch.setattr(HashingEmbedder, "embed_query", None)
    found = store.similarity_search_by_vector(vector, k=100)
    assert {one.id for one in found} == {one.id for one in chunks}
    assert store.similarity_search_by_vector([0.0] * len(vector)) == []


def test_search_returns_documents_for_every_type(store):
    for kind in ("similarity", "mmr", "similarity_score_threshold"):
        options = {"score_threshold": 0.0} if kind == "similarity_score_threshold" else {}
        found = store.search("Who mended the mill?", kind, k=1, **options)
        assert contents(found) == [TEXTS[1]]
        assert asyncio.run(store.asearch("Who mended the mill?", kind, k=1, **options)) == found


def test_ids_can_be_given_for_documents_and_texts():
    documents = [Document(page_content=text) for text in TEXTS]
    options = {"embedding": "hashing", "ids": ["a", "b", "c"]}
    with E2GraphRAGIndex.from_documents(documents, **grouped(options)) as one:
        assert [d.id for d in one.get_by_ids(["c", "a"])] == ["c", "a"]
    with E2GraphRAGIndex.from_texts(TEXTS, **grouped(options)) as other:
        assert other.similarity_search("mill", k=1)[0].id == "b"
        assert asyncio.run(other.aget_by_ids(["b", "unknown"]))[0].page_content == TEXTS[1]


def test_the_id_of_a_hit_deletes_its_document(store):
    hit = store.similarity_search("Who mended the mill?", k=1)[0]
    store.delete([hit.id])
    assert store.get_by_ids(["t1"]) == []
    assert TEXTS[1] not in contents(store.similarity_search("mill", k=3))


def test_the_id_of_a_part_of_a_document_is_refused_with_what_to_delete(lc_index_of):
    store = lc_index_of([Document(id="long", page_content="Anna went home. " * 80)], chunk_size=40)
    hit = store.similarity_search("Anna", k=1)[0]
    assert hit.id != hit.metadata["e2_doc_id"] == "long"
    with pytest.raises(InvalidInputError, match="a part of 'long': delete a document by"):
        store.delete([hit.id])
    with pytest.raises(InvalidInputError, match="is the id of a passage"):
        asyncio.run(store.adelete([hit.id]))


def test_metadata_of_hits_fits_chroma_and_keeps_exact_offsets(lc_index_of):
    pages = [
        Document(page_content=f"Anna saw room {n}. " * 12, metadata={"source": "a.pdf", "page": n})
        for n in range(4)
    ]
    store = lc_index_of(pages, llm=DigestChatModel(), chunk_size=60, group_size=2)
    hits = store.as_retriever(k=20, include_scores=True, paths=True).invoke("What did Anna see?")
    assert {hit.metadata["e2_level"] for hit in hits} >= {0, 1}
    client = chromadb.EphemeralClient()
    collection = client.get_or_create_collection("hits")
    collection.add(
        ids=[hit.metadata["e2_node_id"] for hit in hits],
        documents=[hit.page_content for hit in hits],
        metadatas=[hit.metadata for hit in hits],
        embeddings=[[float(n), 1.0] for n in range(len(hits))],
    )
    assert collection.count() == len(hits)
    for hit in hits:
        for part in json.loads(hit.metadata["e2_segments"]):
            assert 0 <= part["start"] < part["end"]
            assert isinstance(part["page"], int)


def test_a_parent_document_retriever_accepts_the_index(store):
    """As its vector store, as LangChain checks the type."""
    retriever = ParentDocumentRetriever(
        vectorstore=store,
        docstore=InMemoryStore(),
        child_splitter=RecursiveCharacterTextSplitter(chunk_size=60, chunk_overlap=0),
    )
    parent = Document(page_content="Dora built a boat. " * 10 + "Emil sailed it to Bergen.")
    retriever.add_documents([parent])
    assert retriever.invoke("Who sailed to Bergen?")[0].page_content == parent.page_content


def test_another_store_still_accepts_the_texts_of_hits(store):
    other = InMemoryVectorStore(store.embeddings)
    other.add_documents(store.similarity_search("mill", k=3))
    assert other.similarity_search(TEXTS[1], k=1)[0].page_content == TEXTS[1]
