"""Every vector store gets a copy of the vectors, returns the index's results, and is repaired."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial

import faiss
import numpy as np
import pytest
from llama_index.core import Document, StorageContext, load_index_from_storage
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore
from llama_index.vector_stores.faiss import FaissMapVectorStore, FaissVectorStore

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.storage.vector_store_adapters import adapt_vector_store
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.snapshot import incremental
from fakes import NameExtractor
from llama_stores import (
    KINDS,
    MIRRORS,
    NO_QDRANT_INDEXES,
    Distinct,
    Plain,
    new_store,
    random_words,
    stored_entries,
)

pytestmark = pytest.mark.filterwarnings(NO_QDRANT_INDEXES)

QUESTIONS = ("What did Anna give Bert?", "How did the winter at sea end?", "Emil and Hal")
MODELS = {"embed_model": Distinct(), "extractor": NameExtractor()}


@pytest.fixture
def store_of(tmp_path):
    with ExitStack() as closing:
        yield partial(new_store, folder=tmp_path, closing=closing)


@pytest.fixture
def built(index_of):
    """Return a function that builds an index over a vector store."""

    def build(documents, store=None, **options):
        context = StorageContext.from_defaults(vector_store=store)
        return index_of(documents, storage_context=context, **(MODELS | options))

    return build


def answers(index, **options):
    found = [
        index.as_retriever(mode, similarity_top_k=8, **options).retrieve(question)
        for mode in ("local", "global", "adaptive")
        for question in QUESTIONS
    ]
    return [[n.node_id for n in nodes] for nodes in found], [n.score for ns in found for n in ns]


def assert_same_answers(index, other, **options):
    (ids, scores), (expected, expected_scores) = (
        answers(index, **options),
        answers(other, **options),
    )
    assert scores == pytest.approx(expected_scores, abs=1e-5)
    assert ids == expected


def stored(index):
    """Return the numbers of entries in the vector store and of vectors in the index."""
    [(vectors,)] = index.rag.store.read("SELECT COUNT(*) FROM nodes")
    return len(stored_entries(index.vector_store)), vectors


def test_the_simple_store_stays_empty(built, documents):
    index = built(documents, SimpleVectorStore())
    assert answers(index)[0]
    assert stored_entries(index.vector_store) == {}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("kind", MIRRORS)
def test_results_equal_those_without_a_vector_store(kind, store_of, built, documents):
    index, plain = built(documents, store_of(kind)), built(documents)
    assert_same_answers(index, plain)
    mirrored, vectors = stored(index)
    assert mirrored == vectors
    old = MetadataFilters(filters=[MetadataFilter(key="year", value=1890)])
    assert_same_answers(index, plain, filters=old)
    assert_same_answers(index, plain, doc_ids=["other"])
    for one in (index, plain):
        one.update_ref_doc(Document(id_="story", text=f"{documents[0].text} Kit met Lea."))
        one.delete_ref_doc("other")
        one.insert(Document(id_="it's", text=f"Kit met {random_words(1)}.", metadata={"n": 1}))
    assert_same_answers(index, plain)
    mirrored, vectors = stored(index)
    assert mirrored >= vectors if kind == "plain" else mirrored == vectors
    for one in (index, plain):
        for id_ in ("story", "it's"):
            one.delete_ref_doc(id_)
    assert answers(index)[0] == answers(plain)[0]


@pytest.mark.slow
def test_a_vector_store_follows_small_changes_of_a_large_index(
    store_of, built, documents, monkeypatch
):
    monkeypatch.setattr(incremental, "_MIN_SEGMENTED", 1)
    monkeypatch.setattr(incremental, "_MIN_KEPT", 0.0)
    index, plain = built(documents, store_of("faiss-map")), built(documents)
    assert_same_answers(index, plain)
    for one in (index, plain):
        one.delete_ref_doc("other")
        one.insert(Document(id_="new", text=f"Kit met {random_words(1)}."))
    assert index.rag._session._generations.newest().base.has_segments
    mirrored, vectors = stored(index)
    assert mirrored == vectors
    assert_same_answers(index, plain)


def test_a_vector_store_may_scale_its_scores(built, documents):
    class Scaled(Plain):
        def query(self, query, **kwargs):
            found = super().query(query, **kwargs)
            found.similarities = [(1 + similarity) / 2 for similarity in found.similarities]
            return found

    assert_same_answers(built(documents, Scaled()), built(documents))


def test_a_vector_store_that_ranks_wrongly_is_refused(built, documents):
    class Distances(Plain):
        def query(self, query, **kwargs):
            found = super().query(query, **kwargs)
            found.similarities = [1 - similarity for similarity in found.similarities]
            return found

    with pytest.raises(InvalidInputError, match="Distances ranks vectors of the index wrongly"):
        built(documents, Distances())


@pytest.mark.parametrize("kind", ["faiss-map", "qdrant", "chroma-cosine"])
def test_an_entry_names_its_node_document_and_level(kind, store_of, built, documents):
    index = built(documents, store_of(kind))
    index.as_retriever("global").retrieve(QUESTIONS[0])
    store = index.vector_store
    if kind == "faiss-map":
        assert set(store._node_id_to_faiss_id_map) == set(stored_entries(store))
        return
    nodes = index.docstore.docs
    for content in stored_entries(store).values():
        assert "e2_node_id" in content
        assert any(id_ in content for id_ in nodes)
        assert '"e2_source"' in content or "story" in content or "other" in content


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", MIRRORS)
def test_a_loaded_index_uses_the_vector_store_again(kind, store_of, built, documents, tmp_path):
    index = built(documents, store_of(kind))
    expected = answers(index)
    index.persist(tmp_path / "stored")
    store = index.vector_store
    if kind.startswith("faiss"):
        store = FaissMapVectorStore.from_persist_dir(str(tmp_path / "stored"))
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "stored"), vector_store=store)
    before = len(stored_entries(store))
    for again in (
        load_index_from_storage(context, **grouped(MODELS)),
        E2GraphRAGIndex.from_persist_dir(
            tmp_path / "stored", **grouped({"vector_store": store, **MODELS})
        ),
        E2GraphRAGIndex.from_persist_dir(tmp_path / "stored", **grouped(MODELS)),
    ):
        ids, scores = answers(again)
        assert ids == expected[0]
        assert scores == pytest.approx(expected[1], abs=1e-5)
    # The minimal store cannot be asked what it has, so a new process copies everything again.
    assert len(stored_entries(store)) == before


def test_a_folder_whose_vectors_are_in_a_database_loads_without_it(
    store_of, built, documents, tmp_path
):
    index = built(documents, store_of("chroma-cosine"))
    index.persist(tmp_path / "stored")
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "stored"))
    again = load_index_from_storage(context, **grouped(MODELS))
    assert type(again.vector_store) is SimpleVectorStore
    assert_same_answers(again, index)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", MIRRORS)
def test_an_empty_store_is_filled(kind, store_of, built, documents):
    """Also if it replaces the one that the index was built with."""
    index = built(documents, store_of(kind))
    expected = answers(index)
    context = StorageContext.from_defaults(
        index_store=index.storage_context.index_store, vector_store=store_of(kind)
    )
    again = load_index_from_storage(context, **grouped(MODELS))
    assert answers(again)[0] == expected[0]
    assert stored(again)[0] == stored(again)[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["faiss-map", "qdrant", "chroma-cosine"])
def test_lost_entries_are_repaired_by_the_next_process(kind, store_of, built, documents, tmp_path):
    index = built(documents, store_of(kind), path=tmp_path / "i.e2g")
    expected = answers(index)
    index.persist(tmp_path / "stored")
    store = index.vector_store
    lost = sorted(stored_entries(store))[::2]
    adapt_vector_store(store).delete(lost)
    again = E2GraphRAGIndex.from_persist_dir(
        tmp_path / "stored", **grouped({"vector_store": store, **MODELS})
    )
    assert answers(again)[0] == expected[0]
    assert stored(again)[0] == stored(again)[1]
    index.close()
    again.close()


def fail_after(monkeypatch, store, count):
    """Let a store accept `count` vectors and then raise."""
    real = type(store).add
    capacity = [count]

    def add(self, nodes, **kwargs):
        accepted = list(nodes)[: capacity[0]]
        capacity[0] -= len(accepted)
        ids = real(self, accepted, **kwargs) if accepted else []
        if len(accepted) < len(nodes):
            raise ConnectionError("the store went away")
        return ids

    monkeypatch.setattr(type(store), "add", add)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("count", [0, 3])
def test_a_store_that_fails_an_insert_is_completed_later(
    kind, count, store_of, built, documents, monkeypatch
):
    index = built(documents[:1], store_of(kind))
    with monkeypatch.context() as patch:
        fail_after(patch, index.vector_store, count)
        with pytest.raises(StoreError, match=r"could not be updated.*the store went away"):
            index.insert(documents[1])
    assert set(index.ref_doc_info) == {"story", "other"}
    assert_same_answers(index, built(documents))
    assert stored(index)[0] == stored(index)[1]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", ["qdrant", "chroma-cosine"])
def test_a_failed_delete_hides_the_document_and_is_tried_again(
    kind, store_of, built, documents, monkeypatch
):
    index = built(documents, store_of(kind))
    index.as_retriever("global").retrieve(QUESTIONS[0])

    def delete_nodes(self, node_ids=None, filters=None, **kwargs):
        raise ConnectionError("the store went away")

    with monkeypatch.context() as patch:
        patch.setattr(type(index.vector_store), "delete_nodes", delete_nodes)
        with pytest.raises(StoreError, match=r"could not be updated.*the store went away"):
            index.delete_ref_doc("story")
    assert set(index.ref_doc_info) == {"other"}
    assert_same_answers(index, built(documents[1:]))
    assert stored(index)[0] == stored(index)[1]


def test_a_search_error_names_the_store(built, documents, monkeypatch):
    index = built(documents, Plain())

    def query(self, query, **kwargs):
        raise ConnectionError("refused")

    monkeypatch.setattr(Plain, "query", query)
    with pytest.raises(StoreError, match=r"Plain could not be searched.*refused.*built with"):
        index.as_retriever("global").retrieve(QUESTIONS[0])


def test_errors_of_a_store_do_not_contain_its_key(built, documents):
    key = "Uncommon.Key/Without=Prefix"

    class Refusing(Plain):
        api_key: str = key

        def add(self, nodes, **kwargs):
            raise ConnectionError(f"wrong key <{self.api_key}>")

    with pytest.raises(StoreError, match=r"Refusing could not be updated.*wrong key") as raised:
        built(documents, Refusing()).as_retriever("global").retrieve(QUESTIONS[0])
    assert key not in f"{raised.value} {raised.value.__cause__}"


def foreign_entry(number, vector):
    """Return an entry of another application in the same store."""
    return TextNode(
        id_=f"00000000-0000-4000-8000-{number:012}",
        text=f"Foreign {number}",
        embedding=list(map(float, vector)),
        metadata={"year": 2000},
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="story")},
    )


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", MIRRORS)
def test_entries_of_others_are_neither_returned_nor_deleted(kind, store_of, built, documents):
    """They have the query's own vector, so that every search finds them first."""
    store, plain = store_of(kind), built(documents)
    nearest = Distinct().embed_query(QUESTIONS[1])
    foreign = [foreign_entry(number, nearest) for number in range(20)]
    store.add(foreign)
    index = built(documents, store)
    for one in (index, plain):
        one.delete_ref_doc("story")
    assert_same_answers(index, plain)
    for one in (index, plain):
        one.insert(documents[0])
    assert_same_answers(index, plain)
    if kind != "plain":
        assert len(stored_entries(store)) == len(foreign) + stored(index)[1]
        assert {node.node_id for node in foreign} <= set(stored_entries(store))


@pytest.mark.slow
def test_two_indexes_share_a_store(store_of, built, documents):
    for kind in ("faiss-map", "qdrant", "chroma-cosine"):
        store = store_of(kind)
        one, two = built(documents[:1], store), built(documents[1:], store)
        assert_same_answers(one, built(documents[:1]))
        assert_same_answers(two, built(documents[1:]))
        one.delete_ref_doc("story")
        assert_same_answers(two, built(documents[1:]))


@pytest.mark.parametrize("kind", ["faiss-map", "faiss-map-l2"])
def test_a_faiss_index_of_another_dimension_is_rejected(kind, store_of, index_of, documents):
    """Nothing is written, because the sizes are compared before a document is stored."""
    store = store_of(kind, dimension=128)
    context = StorageContext.from_defaults(vector_store=store)
    with pytest.raises(InvalidInputError, match=r"128 dimensions.*256.*IndexFlatIP\(256\)"):
        index_of(documents, storage_context=context, **MODELS)
    assert not context.docstore.docs
    assert not context.index_store.index_structs()
    assert not stored_entries(store)


def test_faiss_stores_that_cannot_replace_vectors_are_rejected(built, documents):
    with pytest.raises(InvalidInputError, match=r"keeps no ids.*FaissMapVectorStore"):
        built(documents, FaissVectorStore(faiss.IndexFlatIP(256)))
    with pytest.raises(InvalidInputError, match="IndexIDMap2"):
        built(documents, FaissMapVectorStore(faiss.IndexIDMap(faiss.IndexFlatIP(256))))


def test_faiss_entries_of_others_keep_their_ids_and_vectors(store_of, built, documents):
    """The integration numbers a new vector by their count, which a deletion makes ambiguous."""
    store = store_of("faiss-map")
    axes = np.eye(256)[:9]
    index = built(documents, store)
    store.add([foreign_entry(number, axis) for number, axis in enumerate(axes)])
    for document in documents:
        index.delete_ref_doc(document.node_id)
        index.insert(document)
    adapter = adapt_vector_store(store)
    for number, axis in enumerate(axes):
        [(id_, cosine), *_] = adapter.query(axis, 1)
        assert id_ == foreign_entry(number, axis).node_id
        assert cosine == pytest.approx(1)


@pytest.mark.slow
def test_vectors_that_a_store_cannot_delete_are_never_returned(built, documents, caplog):
    index, plain = built(documents, Plain()), built(documents)
    with caplog.at_level(logging.WARNING):
        for turn in range(3):
            text = f"{documents[0].text} Anna counted to {turn} by the sea in winter."
            for one in (index, plain):
                one.update_ref_doc(Document(id_="story", text=text))
                one.delete_ref_doc("other")
            assert_same_answers(index, plain)
            for one in (index, plain):
                one.insert(documents[1])
            assert_same_answers(index, plain)
    assert "Plain cannot delete vectors by id: deleted text remains there" in caplog.text
    assert stored(index)[0] > stored(index)[1]


@pytest.mark.slow
def test_a_node_of_several_windows_has_several_entries(store_of, built, documents):
    embedder = HashingEmbedder(max_tokens=8)
    index = built(documents, store_of("qdrant"), embed_model=embedder)
    assert_same_answers(index, built(documents, embed_model=embedder))
    mirrored, nodes = stored(index)
    assert mirrored > nodes


def test_nodes_of_the_user_are_found_in_a_vector_store(store_of, tmp_path):
    nodes = [TextNode(id_=f"n{i}", text=f"Anna met {random_words(i)}.") for i in range(9)]
    context = StorageContext.from_defaults(vector_store=store_of("qdrant"))
    index = E2GraphRAGIndex(nodes, **grouped({"storage_context": context, **MODELS}))
    found = index.as_retriever("global", similarity_top_k=3).retrieve(nodes[4].text)
    assert "n4" in [one.node_id for one in found]
    index.delete_nodes(["n4"])
    found = index.as_retriever("global", similarity_top_k=99).retrieve(nodes[4].text)
    assert "n4" not in [one.node_id for one in found]
    assert stored(index)[0] == stored(index)[1]
