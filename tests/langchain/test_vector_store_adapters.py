"""Searching in LangChain's vector stores instead of FAISS."""

from __future__ import annotations

import uuid

import chromadb
import faiss
import pytest
from langchain_chroma import Chroma
from langchain_community.docstore.in_memory import InMemoryDocstore
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.corpus.vector_store_mirror import VectorStoreMirror
from e2graphrag_integrations.engine.opening import FaceHooks, open_parts
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, StoreError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.langchain.embedding import LangChainEmbedder
from e2graphrag_integrations.langchain.vector_store_adapters import (
    VectorStoreAdapter,
    adapt_vector_store,
)
from e2graphrag_integrations.options import Options, grouped
from e2graphrag_integrations.snapshot import incremental
from e2graphrag_integrations.store.tables.mirrored_vectors import read_mirrored
from fakes import STORY, NameExtractor

DIMENSION = 256
UNUSED_EMBEDDINGS = DeterministicFakeEmbedding(size=DIMENSION)
QUERIES = ("Who gave Anna the map?", "Where did Emil go?", "what happened at night")
OPTIONS = {
    "embeddings": HashingEmbedder(DIMENSION, max_tokens=8),
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
    "group_size": 3,
}


def in_memory() -> VectorStore:
    return InMemoryVectorStore(UNUSED_EMBEDDINGS)


def qdrant(distance: models.Distance = models.Distance.COSINE) -> VectorStore:
    client = QdrantClient(":memory:")
    client.create_collection("c", models.VectorParams(size=DIMENSION, distance=distance))
    return QdrantVectorStore(client, "c", UNUSED_EMBEDDINGS, distance=distance)


def chroma(space: str = "cosine") -> VectorStore:
    return Chroma(
        f"c{uuid.uuid4().hex}",
        UNUSED_EMBEDDINGS,
        client=chromadb.EphemeralClient(),
        collection_metadata={"hnsw:space": space},
    )


def faiss_store(metric: type = faiss.IndexFlatL2) -> VectorStore:
    return FAISS(UNUSED_EMBEDDINGS, metric(DIMENSION), InMemoryDocstore(), {})


class Postgres(VectorStore):
    """Has the methods of PGVector: `add_embeddings`, cosine distances, mappings as filters."""

    def __init__(self, embedding):
        self.inner = InMemoryVectorStore(embedding)

    def add_embeddings(self, texts, embeddings, metadatas, ids):
        for text, vector, metadata, id_ in zip(texts, embeddings, metadatas, ids, strict=True):
            entry = {"id": id_, "vector": vector, "text": text, "metadata": metadata}
            self.inner.store[id_] = entry

    def similarity_search_with_score_by_vector(self, embedding, k=4, filter=None):  # noqa: A002 - LangChain's name
        conditions = dict(filter or {})
        hits = self.inner.similarity_search_with_score_by_vector(
            embedding, k, lambda d: all(d.metadata.get(key) == v for key, v in conditions.items())
        )
        return [(document, 1 - score) for document, score in hits]

    def delete(self, ids=None, **_):
        self.inner.delete(ids)

    def get_by_ids(self, ids, /):
        return self.inner.get_by_ids(ids)

    def similarity_search(self, query, k=4, **_): ...

    @classmethod
    def from_texts(cls, *args, **kwargs): ...


STORES = {
    "memory": in_memory,
    "faiss": faiss_store,
    "faiss ip": lambda: faiss_store(faiss.IndexFlatIP),
    "qdrant": qdrant,
    "qdrant dot": lambda: qdrant(models.Distance.DOT),
    "qdrant euclid": lambda: qdrant(models.Distance.EUCLID),
    "chroma": chroma,
    "chroma l2": lambda: chroma("l2"),
    "chroma ip": lambda: chroma("ip"),
    "methods of PGVector": lambda: Postgres(UNUSED_EMBEDDINGS),
}


OTHER_METRICS = {"faiss ip", "qdrant dot", "qdrant euclid", "chroma l2", "chroma ip"}


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow) if name in OTHER_METRICS else name
        for name in STORES
    ]
)
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


def results(index: E2GraphRAGIndex, **options):
    return [
        [
            (node.node_id, pytest.approx(node.score, abs=1e-4))
            for node in index.as_retriever(mode=mode, k=6, **options).search(query).nodes
        ]
        for query in QUERIES
        for mode in ("auto", "local", "global")
    ]


def vector_ids(index, store):
    """Return the ids of the vectors that the index has copied to a vector store."""
    return read_mirrored(index.rag.store, type(store).__name__)


def test_a_vector_store_gets_the_pages_as_text(lc_index_of, pages):
    store = InMemoryVectorStore(UNUSED_EMBEDDINGS)
    index = lc_index_of(pages[:3], chunk_size=60, vector_store=store)
    hits = {hit.id: hit.metadata["pages"] for hit in index.as_retriever(k=50).invoke("Anna?")}
    stored = [entry["metadata"] for entry in store.store.values()]
    assert any(", " in metadata["pages"] for metadata in stored)
    for metadata in stored:
        assert metadata["pages"] == ", ".join(map(str, hits[metadata["e2_node_id"]]))


@pytest.mark.fast_cases(1)
def test_a_vector_store_gives_the_same_results_as_faiss(store, documents):
    plain = E2GraphRAGIndex.from_documents(documents, **grouped(OPTIONS))
    index = E2GraphRAGIndex.from_documents(documents, **grouped({"vector_store": store, **OPTIONS}))
    assert results(index) == results(plain)
    for each in (plain, index):
        each.delete(["a"])
        each.add_documents([Document(id="c", page_content="Anna met Hugo. Hugo hid the map.")])
    assert results(index) == results(plain)
    assert results(index, filter={"year": 1901}) == results(plain, filter={"year": 1901})


@pytest.mark.fast_cases(2)
def test_deleting_a_document_removes_its_vectors(store, documents):
    index = E2GraphRAGIndex.from_documents(documents, **grouped({"vector_store": store, **OPTIONS}))
    index.as_retriever(mode="global").search("x")
    before = vector_ids(index, store)
    index.delete(["a"])
    index.as_retriever(mode="global").search("x")
    after = vector_ids(index, store)
    assert after < before
    adapter = adapt_vector_store(store)
    assert adapter.missing(sorted(after)) == []
    assert set(adapter.missing(sorted(before))) == before - after


@pytest.mark.slow
def test_a_vector_store_follows_small_changes_of_a_large_index(documents, monkeypatch):
    monkeypatch.setattr(incremental, "_MIN_SEGMENTED", 1)
    monkeypatch.setattr(incremental, "_MIN_KEPT", 0.0)
    store = in_memory()
    plain = E2GraphRAGIndex.from_documents(documents, **grouped(OPTIONS))
    index = E2GraphRAGIndex.from_documents(documents, **grouped({"vector_store": store, **OPTIONS}))
    new = Document(id="c", page_content="Anna met Hugo.", metadata={"source": "c", "year": 1901})
    for each in (plain, index):
        each.invoke("x")  # loads the words, which a segment needs
        each.delete(["a"])
        each.add_documents([new])
    assert index.rag._session._generations.newest().base.has_segments
    assert {entry["metadata"]["e2_source_id"] for entry in store.store.values()} == {"b", "c"}
    assert set(store.store) == vector_ids(index, store)
    expected = results(plain, filter={"year": 1901})
    assert results(index, store_filter=STORE_FILTERS["memory"]) == expected


@pytest.mark.fast_cases(1)
def test_reopening_an_index_restores_lost_vectors(store, documents, tmp_path):
    path = tmp_path / "a.e2g"
    index = E2GraphRAGIndex.from_documents(
        documents, **grouped({"path": path, "vector_store": store, **OPTIONS})
    )
    expected = results(index)
    ids = sorted(vector_ids(index, store))
    index.close()
    adapt_vector_store(store).delete(ids[:3])
    opened = E2GraphRAGIndex.load_local(
        path,
        vector_store=store,
        embeddings=OPTIONS["embeddings"],
        models=Models(extractor=NameExtractor()),
    )
    assert results(opened) == expected
    assert adapt_vector_store(store).missing(ids) == []
    opened.close()


STORE_FILTERS = {
    "memory": lambda document: document.metadata.get("year") == 1901,
    "qdrant": models.Filter(
        must=[models.FieldCondition(key="metadata.year", match=models.MatchValue(value=1901))]
    ),
    "chroma": {"year": 1901},
    "faiss": {"year": 1901},
    "methods of PGVector": {"year": 1901},
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", STORE_FILTERS)
def test_store_filter_applies_to_both_routes(name, documents):
    index = E2GraphRAGIndex.from_documents(
        documents, **grouped({"vector_store": STORES[name](), **OPTIONS})
    )
    expected = results(index, filter={"year": 1901})
    assert results(index, store_filter=STORE_FILTERS[name]) == expected
    both_filters = {"store_filter": STORE_FILTERS[name], "filter": {"source": "a"}}
    assert all(nodes == [] for nodes in results(index, **both_filters))
    retriever = index.as_retriever(store_filter=STORE_FILTERS[name], k=4)
    assert {d.metadata["year"] for d in retriever.invoke("Who gave Anna the map?")} == {1901}


def test_store_filter_finds_everything_in_a_store_that_others_fill(documents):
    store = in_memory()
    settings = grouped({"vector_store": store, **OPTIONS})
    index = E2GraphRAGIndex.from_documents(documents, **settings)
    others = [
        Document(id=f"o{n}", page_content=STORY, metadata={"year": 1901, "source": f"o{n}"})
        for n in range(8)
    ]
    other = E2GraphRAGIndex.from_documents(others, **settings)
    assert len(vector_ids(other, store)) > 3 * len(vector_ids(index, store))
    filters = ({"store_filter": STORE_FILTERS["memory"]}, {"filter": {"year": 1901}})
    found, expected = (
        [node.node_id for node in index.as_retriever(k=30, **one).search(QUERIES[0]).nodes]
        for one in filters
    )
    assert found == expected != []


def test_store_filter_requires_a_vector_store(documents):
    index = E2GraphRAGIndex.from_documents(documents, **grouped(OPTIONS))
    with pytest.raises(ValueError, match="store_filter needs an index with a vector_store"):
        index.as_retriever(store_filter={"year": 1901})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("qdrant", "vector_store='qdrant' must be"),
        (InMemoryVectorStore, "pass a LangChain VectorStore"),
        (5, "pass a LangChain VectorStore"),
    ],
)
def test_an_invalid_vector_store_is_rejected_before_a_file_is_created(value, message, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        E2GraphRAGIndex.open(tmp_path / "a.e2g", vector_store=value)
    assert list(tmp_path.iterdir()) == []


def test_a_vector_store_without_vector_search_is_rejected():
    class Keywords(VectorStore):
        def similarity_search(self, query, k=4, **kwargs): ...
        @classmethod
        def from_texts(cls, *args, **kwargs): ...

    with pytest.raises(InvalidInputError, match="Keywords has no search by vector"):
        adapt_vector_store(Keywords())


class Similarities(Postgres):
    """Returns similarities in [0, 1], as LangChain's Cassandra store does."""

    def similarity_search_with_score_by_vector(self, embedding, k=4, filter=None):  # noqa: A002 - LangChain's name
        found = super().similarity_search_with_score_by_vector(embedding, k, filter)
        return [(document, 1 - distance / 2) for document, distance in found]


class OwnVectors(Postgres):
    """Embeds the texts itself."""

    add_embeddings = property()

    def add_texts(self, texts, metadatas, ids):
        return self.inner.add_texts(texts, metadatas, ids=ids)


@pytest.mark.parametrize("store_class", [Similarities, OwnVectors])
def test_a_vector_store_that_would_rank_wrongly_is_refused(store_class, documents):
    store = store_class(UNUSED_EMBEDDINGS)
    message = f"{store_class.__name__} ranks vectors of the index wrongly .* or none"
    with pytest.raises(InvalidInputError, match=message):
        E2GraphRAGIndex.from_documents(documents, **grouped({"vector_store": store, **OPTIONS}))


def test_a_vector_store_may_return_new_vectors_later(documents, monkeypatch):
    store = Postgres(UNUSED_EMBEDDINGS)
    search = "similarity_search_with_score_by_vector"
    with monkeypatch.context() as patch:
        patch.setattr(store, search, lambda *_, **__: [])
        index = E2GraphRAGIndex.from_documents(
            documents, **grouped({"vector_store": store, **OPTIONS})
        )
    assert results(index)[0]


def test_milvus_is_rejected_before_a_file_is_created(tmp_path):
    class Milvus(Postgres):
        """Has the name and the methods of LangChain's Milvus store."""

    with pytest.raises(InvalidInputError, match="Milvus is not supported as a vector_store"):
        E2GraphRAGIndex.open(tmp_path / "a.e2g", vector_store=Milvus(UNUSED_EMBEDDINGS))
    assert list(tmp_path.iterdir()) == []


def test_a_faiss_index_with_another_metric_is_rejected():
    index = faiss.IndexFlat(DIMENSION, faiss.METRIC_L1)
    with pytest.raises(InvalidInputError, match="unsupported metric"):
        adapt_vector_store(FAISS(UNUSED_EMBEDDINGS, index, InMemoryDocstore(), {}))


def test_searching_an_emptied_vector_store_raises(documents):
    store = in_memory()
    index = E2GraphRAGIndex.from_documents(documents, **grouped({"vector_store": store, **OPTIONS}))
    index.as_retriever(mode="global").search("x")
    store.store.clear()
    with pytest.raises(CorruptStoreError, match="InMemoryVectorStore contains none"):
        index.as_retriever(mode="global").search("x")


def test_a_vector_store_without_add_embeddings_embeds_the_texts():
    class TextStore(InMemoryVectorStore):
        def similarity_search_with_score_by_vector(self, embedding, k=4, filter=None, **_):  # noqa: A002 - LangChain's name
            hits = super().similarity_search_with_score_by_vector(embedding, k)
            return [(document, 1 - score) for document, score in hits]

    embeddings = DeterministicFakeEmbedding(size=16)
    store = TextStore(embeddings)
    settings = IndexSettings(chunk_size=16, chunk_overlap=4)
    parts = open_parts(
        ":memory:",
        Options.of(settings, Models(extractor=NameExtractor()), None, None),
        embedder=LangChainEmbedder(embeddings),
        hooks=FaceHooks(VectorStoreMirror(VectorStoreAdapter(store)).search),
    )
    with E2GraphRAG(parts) as rag:
        rag.add(SourceDocument("story", STORY))
        result = rag.retrieve(STORY[:40], mode="global", k=3)
        assert len(result.nodes) == 3
        assert len(store.store) == rag.stats().windows


@pytest.mark.fast_cases(1)
def test_deleting_after_reopening_removes_the_vectors(store, documents, tmp_path):
    path = tmp_path / "a.e2g"
    options = {"vector_store": store, "embeddings": OPTIONS["embeddings"]}
    E2GraphRAGIndex.from_documents(
        documents, **grouped({"path": path, **OPTIONS | options})
    ).close()
    opened = E2GraphRAGIndex.load_local(path, **grouped({"extractor": NameExtractor(), **options}))
    before = vector_ids(opened, store)
    opened.delete(["a"])
    opened.build()  # without a search
    opened.close()
    missing = adapt_vector_store(store).missing(sorted(before))
    assert 0 < len(missing) < len(before)
    again = E2GraphRAGIndex.load_local(path, **grouped({"extractor": NameExtractor(), **options}))
    assert vector_ids(again, store) == before - set(missing)
    again.close()


def test_the_next_build_adds_vectors_that_the_store_failed_to_add(documents, tmp_path):
    store = Postgres(UNUSED_EMBEDDINGS)
    options = OPTIONS | {"path": tmp_path / "a.e2g", "vector_store": store}
    index = E2GraphRAGIndex.from_documents(documents, **grouped(options))
    add_embeddings, store.add_embeddings = store.add_embeddings, None
    new = Document(id="c", page_content="Ida met Joe in Lima.")
    with pytest.raises(StoreError, match="could not be updated"):
        index.add_documents([new])
    store.add_embeddings = add_embeddings
    index.add_documents([new])
    assert (
        index.as_retriever(mode="global", k=1).search("Ida met Joe in Lima.").nodes[0].document_id
        == "c"
    )
    assert adapt_vector_store(store).missing(sorted(vector_ids(index, store))) == []
    index.close()


@pytest.mark.parametrize("method", ["add_embeddings", "similarity_search_with_score_by_vector"])
def test_errors_of_a_store_do_not_contain_its_key(method, documents, monkeypatch):
    key = "Uncommon.Key/Without=Prefix"
    store = Postgres(UNUSED_EMBEDDINGS)
    store.api_key = key

    def refuse(*args, **kwargs):
        raise ConnectionError(f"wrong key <{key}>")

    monkeypatch.setattr(store, method, refuse)

    def build_and_ask():
        index = E2GraphRAGIndex.from_documents(
            documents, **grouped({"vector_store": store, **OPTIONS})
        )
        index.invoke("Who gave Anna the map?")

    with pytest.raises(StoreError, match=r"could not be .*wrong key") as raised:
        build_and_ask()
    assert key not in f"{raised.value} {raised.value.__cause__}"
