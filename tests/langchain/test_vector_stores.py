"""LangChain's vector stores in the place of FAISS."""

from __future__ import annotations

import uuid

import chromadb
import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, StoreError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.langchain.vector_stores import VectorStoreAdapter, adapt_vector_store
from e2graphrag_integrations.langchain.embedding import LangChainEmbedder
from e2graphrag_integrations.langchain.mirror import VectorStoreMirror
from e2graphrag_integrations.store.mirrored_vectors import read_mirrored
from fakes import STORY, NameExtractor

DIMENSION = 256
UNUSED = DeterministicFakeEmbedding(size=DIMENSION)
QUESTIONS = ("Who gave Anna the map?", "Where did Emil go?", "what happened at night")
OPTIONS = {
    "embeddings": HashingEmbedder(DIMENSION, max_tokens=8),
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
    "group_size": 3,
}


def in_memory() -> VectorStore:
    return InMemoryVectorStore(UNUSED)


def qdrant(distance: models.Distance = models.Distance.COSINE) -> VectorStore:
    client = QdrantClient(":memory:")
    client.create_collection("c", models.VectorParams(size=DIMENSION, distance=distance))
    return QdrantVectorStore(client, "c", UNUSED, distance=distance)


def chroma(space: str = "cosine") -> VectorStore:
    return Chroma(
        f"c{uuid.uuid4().hex}",
        UNUSED,
        client=chromadb.EphemeralClient(),
        collection_metadata={"hnsw:space": space},
    )


class Postgres(VectorStore):
    """Has the methods of PGVector: vectors given along, cosine distances, filters as mappings."""

    def __init__(self, embedding):
        self.inner = InMemoryVectorStore(embedding)

    def add_embeddings(self, texts, embeddings, metadatas, ids):
        for text, vector, metadata, id_ in zip(texts, embeddings, metadatas, ids, strict=True):
            entry = {"id": id_, "vector": vector, "text": text, "metadata": metadata}
            self.inner.store[id_] = entry

    def similarity_search_with_score_by_vector(self, embedding, k=4, filter=None):  # noqa: A002 - LangChain's name
        wanted = dict(filter or {})
        found = self.inner.similarity_search_with_score_by_vector(
            embedding, k, lambda d: all(d.metadata.get(key) == v for key, v in wanted.items())
        )
        return [(document, 1 - score) for document, score in found]

    def delete(self, ids=None, **_):
        self.inner.delete(ids)

    def get_by_ids(self, ids, /):
        return self.inner.get_by_ids(ids)

    def similarity_search(self, query, k=4, **_): ...

    @classmethod
    def from_texts(cls, *args, **kwargs): ...


STORES = {
    "memory": in_memory,
    "qdrant": qdrant,
    "qdrant dot": lambda: qdrant(models.Distance.DOT),
    "qdrant euclid": lambda: qdrant(models.Distance.EUCLID),
    "chroma": chroma,
    "chroma l2": lambda: chroma("l2"),
    "chroma ip": lambda: chroma("ip"),
    "methods of PGVector": lambda: Postgres(UNUSED),
}


@pytest.fixture(params=STORES)
def store(request) -> VectorStore:
    return STORES[request.param]()


@pytest.fixture
def documents() -> list[Document]:
    return [
        Document(id="a", page_content=STORY, metadata={"source": "a", "year": 1890, "tags": ["x"]}),
        Document(
            id="b",
            page_content=STORY.replace("Anna", "Zita"),
            metadata={"source": "b", "year": 1901, "tags": ["y"]},
        ),
    ]


def answers(index: E2GraphRAGIndex, **options):
    return [
        [(n.node_id, pytest.approx(n.score, abs=1e-4)) for n in found.nodes]
        for question in QUESTIONS
        for mode in ("auto", "local", "global")
        for found in [index.search(question, mode=mode, k=6, **options)]
    ]


def ids_of(index):
    return index.corpus.rag._session.snapshot().dense.ids


def test_answers_are_those_of_faiss_and_stay_so_through_changes(store, documents):
    plain = E2GraphRAGIndex.from_documents(documents, **OPTIONS)
    index = E2GraphRAGIndex.from_documents(documents, vector_store=store, **OPTIONS)
    assert answers(index) == answers(plain)
    for either in (plain, index):
        either.delete(["a"])
        either.add_documents([Document(id="c", page_content="Anna met Hugo. Hugo hid the map.")])
    assert answers(index) == answers(plain)
    assert answers(index, filter={"year": 1901}) == answers(plain, filter={"year": 1901})


def test_a_deleted_document_leaves_the_store(store, documents):
    index = E2GraphRAGIndex.from_documents(documents, vector_store=store, **OPTIONS)
    index.search("x", mode="global")
    before = set(ids_of(index))
    index.delete(["a"])
    index.search("x", mode="global")
    after = set(ids_of(index))
    assert after < before
    backend = adapt_vector_store(store)
    assert backend.missing(sorted(after)) == []
    assert set(backend.missing(sorted(before))) == before - after


def test_opened_again_the_store_is_taken_as_it_is_and_made_up_for_what_it_lacks(
    store, documents, tmp_path
):
    path = tmp_path / "a.e2g"
    index = E2GraphRAGIndex.from_documents(documents, path=path, vector_store=store, **OPTIONS)
    expected = answers(index)
    ids = list(ids_of(index))
    index.close()
    adapt_vector_store(store).delete(ids[:3])
    opened = E2GraphRAGIndex.load_local(
        path, vector_store=store, embeddings=OPTIONS["embeddings"], extractor=NameExtractor()
    )
    assert answers(opened) == expected
    assert adapt_vector_store(store).missing(ids) == []
    opened.close()


NATIVE = {
    "memory": lambda document: document.metadata.get("year") == 1901,
    "qdrant": models.Filter(
        must=[models.FieldCondition(key="metadata.year", match=models.MatchValue(value=1901))]
    ),
    "chroma": {"year": 1901},
    "methods of PGVector": {"year": 1901},
}


@pytest.mark.parametrize("name", NATIVE)
def test_a_filter_of_the_stores_own_holds_on_both_routes(name, documents):
    index = E2GraphRAGIndex.from_documents(documents, vector_store=STORES[name](), **OPTIONS)
    expected = answers(index, filter={"year": 1901})
    assert answers(index, store_filter=NATIVE[name]) == expected
    both = {"store_filter": NATIVE[name], "filter": {"source": "a"}}
    assert all(found == [] for found in answers(index, **both))
    retriever = index.as_retriever(store_filter=NATIVE[name], k=4)
    assert {d.metadata["year"] for d in retriever.invoke("Who gave Anna the map?")} == {1901}


def test_a_store_filter_without_a_store_is_refused(documents):
    index = E2GraphRAGIndex.from_documents(documents, **OPTIONS)
    with pytest.raises(InvalidInputError, match="vector_store"):
        index.as_retriever(store_filter={"year": 1901}).invoke("Anna?")


@pytest.mark.parametrize("wrong", ["qdrant", InMemoryVectorStore, 5])
def test_what_is_no_store_is_refused_before_a_file_is_made(wrong, tmp_path):
    with pytest.raises(InvalidInputError, match="vector_store"):
        E2GraphRAGIndex.open(tmp_path / "a.e2g", vector_store=wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_vector_search_is_refused():
    class Keywords(VectorStore):
        def similarity_search(self, query, k=4, **kwargs): ...
        @classmethod
        def from_texts(cls, *args, **kwargs): ...

    with pytest.raises(InvalidInputError, match="Keywords cannot be searched by vector"):
        adapt_vector_store(Keywords())


def test_a_store_emptied_behind_the_index_says_so(documents):
    store = in_memory()
    index = E2GraphRAGIndex.from_documents(documents, vector_store=store, **OPTIONS)
    index.search("x", mode="global")
    store.store.clear()
    with pytest.raises(CorruptStoreError, match="InMemoryVectorStore contains none"):
        index.search("x", mode="global")


def test_a_store_that_takes_no_vectors_embeds_the_texts_itself():
    class Texts(InMemoryVectorStore):
        def similarity_search_with_score_by_vector(self, embedding, k=4, filter=None, **_):  # noqa: A002 - LangChain's name
            found = super().similarity_search_with_score_by_vector(embedding, k)
            return [(document, 1 - score) for document, score in found]

    fakes = DeterministicFakeEmbedding(size=16)
    store = Texts(fakes)
    with E2GraphRAG.open(
        ":memory:",
        embedder=LangChainEmbedder(fakes),
        extractor=NameExtractor(),
        chunk_size=16,
        chunk_overlap=4,
        vector_search=VectorStoreMirror(VectorStoreAdapter(store), "Texts").search,
    ) as rag:
        rag.add(SourceDocument("story", STORY))
        found = rag.retrieve(STORY[:40], mode="global", k=3)
        assert len(found.nodes) == 3
        assert len(store.store) == rag.stats().windows


def test_what_is_deleted_after_opening_again_leaves_the_store(store, documents, tmp_path):
    path = tmp_path / "a.e2g"
    options = {"vector_store": store, "embeddings": OPTIONS["embeddings"]}
    E2GraphRAGIndex.from_documents(documents, path=path, **(OPTIONS | options)).close()
    opened = E2GraphRAGIndex.load_local(path, extractor=NameExtractor(), **options)
    before = list(read_mirrored(opened.corpus.rag.store, type(store).__name__))
    opened.delete(["a"])
    opened.build()  # and no search
    opened.close()
    left = adapt_vector_store(store).missing(before)
    assert 0 < len(left) < len(before)
    again = E2GraphRAGIndex.load_local(path, extractor=NameExtractor(), **options)
    assert set(ids_of(again)) == set(before) - set(left)
    again.close()


def test_what_a_store_did_not_take_the_next_build_puts_there(documents, tmp_path):
    store = Postgres(UNUSED)
    options = OPTIONS | {"path": tmp_path / "a.e2g", "vector_store": store}
    index = E2GraphRAGIndex.from_documents(documents, **options)
    real, store.add_embeddings = store.add_embeddings, None
    new = Document(id="c", page_content="Ida met Joe in Lima.")
    with pytest.raises(StoreError, match="could not be brought"):
        index.add_documents([new])
    store.add_embeddings = real
    index.add_documents([new])
    assert index.search("Ida met Joe in Lima.", mode="global", k=1).nodes[0].document_id == "c"
    assert adapt_vector_store(store).missing(ids_of(index)) == []
    index.close()


def test_one_string_is_no_list_of_ids_or_texts(documents):
    index = E2GraphRAGIndex.from_documents(documents, **OPTIONS)
    assert index.delete("ab")["num_deleted"] == 0
    assert sorted(index.ids()) == ["a", "b"]
    for wrong in (
        lambda: E2GraphRAGIndex.from_texts("abc"),
        lambda: E2GraphRAGIndex.from_texts(["a"], ids="x"),
        lambda: index.add_documents("abc"),
        lambda: index.upsert(None),
        lambda: index.delete(5),
        lambda: index.get([[]]),
    ):
        with pytest.raises(InvalidInputError):
            wrong()


def test_no_message_repeats_what_may_be_a_secret(tmp_path):
    for wrong in (
        {"llm": {"api_key": "sk-secret"}},
        {"embeddings": {"api_key": "sk-secret"}},
        {"vector_store": "postgresql://me:sk-secret@host/db"},
    ):
        with pytest.raises(InvalidInputError) as caught:
            E2GraphRAGIndex.open(tmp_path / "a.e2g", **wrong)
        assert "sk-secret" not in str(caught.value)
    with pytest.raises(InvalidInputError):
        E2GraphRAGIndex.open(tmp_path / "a.e2g", k=0)
    assert list(tmp_path.iterdir()) == []
