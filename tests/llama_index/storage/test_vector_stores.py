"""Every vector store returns the results of the core, and failed writes are undone."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from functools import partial

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
)
from llama_index.vector_stores.faiss import FaissMapVectorStore, FaissVectorStore

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, StoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.storage import vector_stores
from e2graphrag_integrations.retrieval.node_relevance import falling_relevance
from e2graphrag_integrations.search.external import VectorStoreSearch
from fakes import NameExtractor
from llama_stores import (
    KINDS,
    NO_QDRANT_INDEXES,
    ONE_EACH,
    Plain,
    docstore_texts,
    dump_index,
    new_store,
    random_words,
    stored_entries,
)
from strategies import examples

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(NO_QDRANT_INDEXES)]

LOCAL = "What did Anna give Bert?"
GLOBAL = "How did the winter at sea end?"
QUESTIONS = (LOCAL, GLOBAL, "Who took flour from Fay to Oslo?", "Emil and Hal")
MODES = {"adaptive": "auto", "local": "local", "global": "global"}
NEEDLE = "Ivy hid a needle in Turku. Ivy told Jon of the needle. Jon lost it at once."


@pytest.fixture
def store_of(tmp_path):
    with ExitStack() as closing:
        yield partial(new_store, folder=tmp_path, closing=closing)


@pytest.fixture
def long(documents):
    story, other = documents
    return Document(id_="long", text=f"{other.text} {story.text} {other.text}")


def size(index):
    return sum(len(info.node_ids) for info in index.ref_doc_info.values())


@pytest.fixture
def many(documents):
    """Many documents, so that a filter for one of them matches few of the nodes."""
    hay = [
        Document(
            id_=f"hay-{number}",
            text=f"Kim mowed {random_words(number)}. "
            f"Lea saw {random_words(number + 100, 3 + number % 3)}. "
            f"In Turku {random_words(number + 200, 4)}. Kim {random_words(number + 300)}.",
            metadata={"year": 1950 + number},
        )
        for number in range(30)
    ]
    return [*documents, *hay, Document(id_="needle", text=NEEDLE, metadata={"year": 2000})]


def over(store):
    return StorageContext.from_defaults(vector_store=store)


def core_of(open_index, documents, **options):
    """Return the core's engine with the same documents and settings."""
    core = open_index(group_size=3, **options)
    core.add(
        [
            SourceDocument(d.node_id, d.text, d.metadata.get("title"), metadata=dict(d.metadata))
            for d in documents
        ]
    )
    return core


class CoreAnswers:
    """A core whose answers are kept, for tests that compare many stores with it."""

    def __init__(self, core):
        self._core = core
        self._answers = {}

    def retrieve(self, question, **options):
        key = repr((question, options))
        if key not in self._answers:
            self._answers[key] = self._core.retrieve(question, **options)
        return self._answers[key]


@pytest.fixture(scope="module")
def core_of_many():
    """Return a function that returns the core with the documents of `many`, built once."""
    with ExitStack() as closing:

        def open_core(**options):
            defaults = {"embedder": HashingEmbedder(), "extractor": NameExtractor()}
            sizes = {"chunk_size": 16, "chunk_overlap": 4}
            rag = E2GraphRAG.open(":memory:", **(defaults | sizes | options))
            closing.callback(rag.close)
            return rag

        built = []

        def core(documents):
            if not built:
                built.append(CoreAnswers(core_of(open_core, documents)))
            return built[0]

        yield core


def found(index, question, mode, k=10, **options):
    nodes = index.as_retriever(mode, similarity_top_k=k, **options).retrieve(question)
    return [n.node_id for n in nodes], [n.score for n in nodes]


def assert_equals_core(index, core, k=10, where=None, questions=QUESTIONS, **filters):
    for question in questions:
        for mode, mode_of_core in MODES.items():
            expected = core.retrieve(question, k=k, mode=mode_of_core, where=where).nodes
            ids, scores = found(index, question, mode, k, **filters)
            assert scores == pytest.approx(falling_relevance(expected), abs=1e-5)
            assert ids == [node.node_id for node in expected], (question, mode)


def foreign_entry(number, vector):
    """Return an entry of another application in the same store."""
    return TextNode(
        id_=f"00000000-0000-4000-8000-{number:012}",
        text=f"Foreign {number}",
        embedding=list(map(float, vector)),
        metadata={"year": 2000},
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="story")},
    )


def foreign_entries(question):
    """Return entries with the query's own vector, so that every search finds them first."""
    vector = HashingEmbedder().embed_query(question)
    return [foreign_entry(number, vector) for number in range(20)]


@pytest.mark.parametrize("kind", [*KINDS, "plain"])
def test_results_equal_those_of_the_core(kind, store_of, index_of, documents, open_index):
    store = store_of(kind)
    index = index_of(documents, storage_context=over(store))
    core = core_of(open_index, documents)
    for k in (1, 2, 3, 10, 100):
        assert_equals_core(index, core, k)
    assert len(stored_entries(store)) == size(index)


def test_results_with_a_real_model_equal_those_of_the_core(
    store_of, index_of, documents, open_index, real_embedder
):
    core = core_of(open_index, documents, embedder=real_embedder)
    for kind in ("faiss-map", "qdrant", "chroma-l2"):
        context = over(store_of(kind, dimension=real_embedder.dimension))
        index = index_of(documents, storage_context=context, embed_model=real_embedder)
        assert_equals_core(index, core, 5)


@pytest.mark.parametrize("kind", [*KINDS, "plain"])
def test_selective_filters_return_the_results_of_the_core(
    kind, store_of, index_of, many, core_of_many
):
    index = index_of(many, storage_context=over(store_of(kind)))
    questions = (
        "Who in Turku told whom of the map, the hay, the needle and the flour lost at sea?",
        "What did Kim see in Turku before Ivy told Jon about the mill that Hal burned at night?",
        "Did Anna give Bert the map of the harbour in winter, and was it at once lost by Jon?",
    )
    year = MetadataFilters(filters=[MetadataFilter(key="year", value=2000)])
    years = MetadataFilters(
        filters=[MetadataFilter(key="year", value=[1890, 1901], operator=FilterOperator.IN)]
    )
    same = partial(assert_equals_core, index, core_of_many(many), questions=questions)
    for k in (1, 2, 10):
        same(k)
        same(k, {"year": 2000}, filters=year)
        same(k, {"document_id": "needle"}, doc_ids=["needle"])
        same(k, {"year": {"$in": [1890, 1901]}}, filters=years)
        same(k, {"document_id": {"$in": ["needle", "story"]}}, doc_ids=["story", "needle"])
        same(k, {"document_id": "nobody"}, doc_ids=["nobody"])


@pytest.mark.parametrize("kind", ONE_EACH)
@pytest.mark.parametrize("question", [LOCAL, GLOBAL])
def test_global_and_adaptive_modes_filter_by_level(kind, question, store_of, index_of, documents):
    index = index_of(documents, storage_context=over(store_of(kind)))
    top = MetadataFilters(filters=[MetadataFilter(key="e2_kind", value="summary")])
    for mode in ("global", "adaptive"):
        nodes = index.as_retriever(mode, filters=top).retrieve(question)
        assert all(n.metadata["e2_level"] > 0 for n in nodes)
    assert found(index, GLOBAL, "global", filters=top)[0]


@pytest.mark.parametrize("kind", [*KINDS, "plain"])
def test_a_node_with_several_windows_has_the_score_of_its_best_window(
    kind, store_of, index_of, documents, open_index
):
    embedder = HashingEmbedder(max_tokens=8)
    index = index_of(documents, storage_context=over(store_of(kind)), embed_model=embedder)
    records = list(index.storage.struct.records())
    assert sum(len(r.windows) for r in records) > sum(len(r.nodes) for r in records)
    core = core_of(open_index, documents, embedder=embedder)
    for k in (1, 3, 10):
        assert_equals_core(index, core, k)
        assert_equals_core(index, core, k, {"document_id": "other"}, doc_ids=["other"])


@pytest.mark.parametrize("kind", [*KINDS, "plain"])
@pytest.mark.parametrize("foreign_first", [True, False])
def test_entries_of_others_are_neither_returned_nor_deleted(
    kind, foreign_first, store_of, index_of, documents, open_index
):
    store = store_of(kind)
    foreign = foreign_entries(GLOBAL)
    if foreign_first:
        store.add(foreign)
    index = index_of(documents, storage_context=over(store))
    if not foreign_first:
        store.add(foreign)
    core = core_of(open_index, documents)
    assert_equals_core(index, core)
    index.delete_ref_doc("story")
    core.delete("story")
    assert_equals_core(index, core)
    index.insert(documents[0])
    core.add(SourceDocument("story", documents[0].text, "A Map"))
    assert_equals_core(index, core, 3)
    assert_equals_core(index, core, 3, {"document_id": "story"}, doc_ids=["story"])
    remaining = stored_entries(store)
    if kind in {"faiss-ip", "faiss-l2", "plain"}:  # these stores do not delete
        assert len(remaining) > len(foreign) + size(index)
    else:
        assert len(remaining) == len(foreign) + size(index)
        assert {node.node_id for node in foreign} <= set(remaining)


@pytest.mark.parametrize("kind", ["faiss-map", "qdrant", "simple"])
def test_entries_of_others_keep_their_ids_and_vectors(kind, store_of, index_of, documents):
    store = store_of(kind)
    axes = np.eye(256)[:9]
    index = index_of(documents, storage_context=over(store))
    store.add([foreign_entry(number, axis) for number, axis in enumerate(axes)])
    for document in documents:
        index.delete_ref_doc(document.node_id)
        index.insert(document)
    adapter = vector_stores.adapt_vector_store(store)
    for number, axis in enumerate(axes):
        [(id_, cosine), *_] = adapter.query(axis, 1, None)
        assert id_ == foreign_entry(number, axis).node_id
        assert cosine == pytest.approx(1)


def test_two_indexes_can_share_a_store(index_of, documents, store_of, open_index):
    core_of_one, core_of_two = (core_of(open_index, [document]) for document in documents)
    for kind in KINDS:
        context = over(store_of(kind))
        one = index_of(documents[:1], storage_context=context)
        two = index_of(documents[1:], storage_context=context)
        assert_equals_core(one, core_of_one)
        assert_equals_core(two, core_of_two)
        one.delete_ref_doc("story")
        one.insert(documents[0])
        assert_equals_core(one, core_of_one)
        assert_equals_core(two, core_of_two)


@pytest.mark.parametrize("kind", ["faiss-ip", "faiss-l2", "faiss-map"])
def test_a_faiss_index_with_another_dimension_is_rejected_before_any_write(
    kind, store_of, index_of, documents
):
    context = over(store_of(kind, dimension=128))
    with pytest.raises(InvalidInputError, match=r"128 dimensions.*256.*IndexFlatIP\(256\)"):
        index_of(documents, storage_context=context)
    assert not context.docstore.docs
    assert not context.index_store.index_structs()
    assert not stored_entries(context.vector_store)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_vectors_fail_global_but_not_local_queries(kind, store_of, index_of, documents):
    index = index_of(documents, storage_context=over(store_of(kind)))
    expected = found(index, LOCAL, "local")
    context = StorageContext.from_defaults(
        docstore=index.storage_context.docstore,
        index_store=index.storage_context.index_store,
        vector_store=store_of(kind),
    )
    loaded = E2GraphRAGIndex.from_storage(context, embed_model="hashing", extractor=NameExtractor())
    assert found(loaded, LOCAL, "local") == expected
    with pytest.raises(StoreError, match=r"built with"):
        found(loaded, GLOBAL, "global")
    if not kind.startswith("qdrant"):  # in Qdrant, even the collection is missing
        with pytest.raises(CorruptStoreError, match=r"pass the vector store .* index"):
            found(loaded, GLOBAL, "global")


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_a_vector_store_error_undoes_an_insert(
    kind, count, store_of, index_of, documents, long, monkeypatch
):
    monkeypatch.setattr(vector_stores, "_BATCH_SIZE", 3)
    index = index_of(documents[:1], storage_context=over(store_of(kind)))
    before = copy.deepcopy(dump_index(index))
    ids, scores = found(index, GLOBAL, "global")
    with monkeypatch.context() as patch:
        fail_after(patch, index.storage_context.vector_store, count)
        with pytest.raises(
            StoreError, match=r"ConnectionError: the store went away.*nothing was indexed"
        ):
            index.insert(long)
    assert dump_index(index) == before
    assert found(index, GLOBAL, "global") == (ids, pytest.approx(scores, abs=1e-5))
    with monkeypatch.context() as patch:
        fail_after(patch, index.storage_context.vector_store, count)
        changed = Document(id_="story", text=long.text + " Fay waited.")
        with pytest.raises(StoreError, match=r"nothing was indexed"):
            index.update_ref_doc(changed)
    assert dump_index(index) == before
    index.insert(long)
    assert len(index.ref_doc_info) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_store_error_undoes_a_build(kind, store_of, index_of, documents, monkeypatch):
    monkeypatch.setattr(vector_stores, "_BATCH_SIZE", 3)
    context = over(store_of(kind))
    with monkeypatch.context() as patch:
        fail_after(patch, context.vector_store, 5)
        with pytest.raises(StoreError, match="Fix the vector store and insert again"):
            index_of(documents, storage_context=context)
    assert not context.docstore.docs
    assert not context.docstore.get_all_ref_doc_info()
    assert not context.index_store.index_structs()
    assert not stored_entries(context.vector_store)
    assert found(index_of(documents, storage_context=context), GLOBAL, "global")[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_insert_of_as_many_vectors_as_stored_keeps_the_stored_ones(
    kind, store_of, index_of, documents, long, monkeypatch
):
    # By the count alone, FAISS cannot tell which vectors are new.
    index = index_of(documents[:1], storage_context=over(store_of(kind)))
    before = copy.deepcopy(dump_index(index))
    n_stored, n_new = len(before["vectors"]), len(dump_index(index_of([long]))["vectors"])
    assert n_stored <= n_new
    fail_after(monkeypatch, index.storage_context.vector_store, n_new - n_stored)
    with pytest.raises(StoreError):
        index.insert(long)
    assert dump_index(index) == before


def test_a_docstore_error_leaves_no_vectors(store_of, index_of, documents, long, monkeypatch):
    for kind in KINDS:
        index = index_of(documents[:1], storage_context=over(store_of(kind)))
        before = copy.deepcopy(dump_index(index))
        with monkeypatch.context() as patch:
            patch.setattr(
                type(index.storage_context.docstore),
                "add_documents",
                lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")),
            )
            with pytest.raises(StoreError, match=r"OSError: disk full.*nothing was indexed"):
                index.insert(long)
        assert dump_index(index) == before


@pytest.mark.parametrize("kind", ["simple", "qdrant", "chroma-cosine"])
def test_a_failed_vector_delete_raises_and_hides_the_document(
    kind, store_of, index_of, documents, monkeypatch
):
    store = store_of(kind)
    index = index_of(documents, storage_context=over(store))

    def delete_nodes(self, node_ids=None, filters=None, **kwargs):
        raise ConnectionError("the store went away")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "delete_nodes", delete_nodes)
        with pytest.raises(StoreError, match=r"failed to remove \d+ vectors .*the store went away"):
            index.delete_ref_doc("story")
    assert set(index.ref_doc_info) == {"other"}
    assert not any("Anna" in text for text in docstore_texts(index))
    nodes = index.as_retriever("global").retrieve(LOCAL)
    assert {node.node.ref_doc_id for node in nodes} == {"other"}
    index.insert(documents[0])
    index.delete_ref_doc("story")
    assert len(stored_entries(store)) == size(index)


def test_a_faiss_map_that_cannot_return_vectors_is_rejected(index_of, documents):
    store = FaissMapVectorStore(faiss.IndexIDMap(faiss.IndexFlatIP(256)))
    context = over(store)
    with pytest.raises(InvalidInputError, match="IndexIDMap2"):
        index_of(documents, storage_context=context)
    assert not context.docstore.docs


class NoDelete(SimpleVectorStore):
    """A store that cannot delete."""

    def delete_nodes(self, node_ids=None, filters=None, **delete_kwargs):
        raise NotImplementedError


def trained_ivf():
    """Return a FAISS index that cannot return vectors."""
    index = faiss.index_factory(256, "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(np.random.default_rng(7).normal(size=(200, 256)).astype(np.float32))
    index.nprobe = 4
    return FaissVectorStore(index)


@pytest.mark.parametrize("make", [NoDelete, Plain, trained_ivf])
def test_vectors_that_a_store_cannot_delete_are_never_returned(
    make, index_of, documents, open_index
):
    store = make()
    index = index_of(documents, storage_context=over(store))
    core = core_of(open_index, documents)
    for turn in range(3):
        text = documents[0].text + f" Anna counted to {turn} by the sea in winter."
        index.update_ref_doc(Document(id_="story", text=text))
        core.update(SourceDocument("story", text))
        assert_equals_core(index, core)
        index.delete_ref_doc("other")
        core.delete("other")
        assert_equals_core(index, core)
        index.insert(documents[1])
        core.add(SourceDocument("other", documents[1].text, "A Mill"))
        assert_equals_core(index, core, 3)
    n_stored = store.client.ntotal if make is trained_ivf else len(stored_entries(store))
    assert n_stored > size(index)


def test_a_search_error_names_the_store(index_of, documents, monkeypatch):
    index = index_of(documents, storage_context=over(Plain()))

    def query(self, query, **kwargs):
        raise ConnectionError("refused")

    monkeypatch.setattr(Plain, "query", query)
    with pytest.raises(StoreError, match=r"Plain could not be searched.*refused"):
        found(index, GLOBAL, "global")
    assert found(index, LOCAL, "local")[0]


@pytest.mark.parametrize("kind", ["faiss-map", "qdrant", "chroma-cosine"])
def test_a_query_restarts_when_a_write_changes_the_index(
    kind, store_of, index_of, documents, long, monkeypatch
):
    store = store_of(kind)
    index = index_of(documents[:1], storage_context=over(store))
    real = type(store).query

    def query(self, query, **kwargs):
        monkeypatch.undo()
        index.delete_ref_doc("story")  # deletes all vectors of the snapshot
        index.insert(long)
        return real(self, query, **kwargs)

    monkeypatch.setattr(type(store), "query", query)
    ids, scores = found(index_of([long]), GLOBAL, "global")
    assert found(index, GLOBAL, "global") == (ids, pytest.approx(scores, abs=1e-5))


@pytest.mark.parametrize("vector_ids", [None, [], ["a"] * 99])
def test_a_vector_store_that_returns_wrong_ids_is_rejected(index_of, documents, vector_ids):
    class WrongIds(SimpleVectorStore):
        def add(self, nodes, **kwargs):
            super().add(nodes, **kwargs)
            return vector_ids

    context = over(WrongIds())
    with pytest.raises(StoreError, match="WrongIds failed to add vectors"):
        index_of(documents, storage_context=context)
    assert not context.docstore.docs
    assert not context.vector_store.data.embedding_dict


@st.composite
def stores(draw):
    """Draw windows of nodes, foreign vectors, and how the store handles doc_ids."""
    nodes = draw(st.integers(1, 8))
    documents = [draw(st.sampled_from("ab")) for _ in range(nodes)]
    owners = sorted([*range(nodes), *draw(st.lists(st.integers(0, nodes - 1), max_size=6))])
    foreign = draw(st.integers(0, 12))
    grid = st.integers(-2, 2)  # few values, so that scores tie
    scores = draw(st.lists(grid, min_size=len(owners) + foreign, max_size=len(owners) + foreign))
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=nodes, max_size=nodes))
    doc_ids = draw(st.sampled_from(["used", "ignored", "unknown"]))
    return documents, owners, scores, allowed, doc_ids


def make_search(documents, owners, scores, doc_ids, requests):
    """Return a search over a store in which row n has the id `str(n)` and score n."""
    place = {str(row): documents[node] for row, node in enumerate(owners)}

    def query(vector, count, only):
        requests.append((count, only))
        assert len(requests) < 30, "the search does not end"
        assert count > 0
        hits = [(str(row), score / 2) for row, score in enumerate(scores)]
        if only is not None and doc_ids != "ignored":
            names = set(only) if doc_ids == "used" else set()
            hits = [hit for hit in hits if place.get(hit[0], "foreign") in names]
        return sorted(hits, key=lambda hit: (-hit[1], -int(hit[0])))[
            :count
        ]  # ties in the worst order

    ids = [str(row) for row in range(len(owners))]
    return VectorStoreSearch(query, "Fake", ids, np.asarray(owners), documents)


@examples(300)
@given(stores(), st.integers(0, 10))
def test_store_search_equals_brute_force(drawn, count):
    documents, owners, scores, allowed, doc_ids = drawn
    best = {}
    for node, score in zip(owners, scores, strict=False):
        if allowed is None or allowed[node]:
            best[node] = max(score / 2, best.get(node, -9))
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
    search = make_search(documents, owners, scores, doc_ids, [])
    mask = None if allowed is None else np.asarray(allowed)
    assert search.search(np.ones(1, np.float32), count, mask) == expected


def test_store_search_requests_few_vectors_from_a_store_that_filters_documents():
    documents = ["a"] * 500 + ["b"] * 3
    owners, scores = list(range(503)), list(range(503, 0, -1))
    mask = np.asarray([document == "b" for document in documents])
    requests = []
    search = make_search(documents, owners, scores, "used", requests)
    assert [node for node, _ in search.search(np.ones(1), 3, mask)] == [500, 501, 502]
    # The search requests one window more per limit, to detect a tie with the last result.
    assert requests == [(5, ["b"])]
    requests.clear()
    assert search.search_windows(np.ones(1), 2, mask)[0].tolist() == [500, 501]
    assert requests == [(3, ["b"])]


def test_store_search_ends_if_the_store_knows_no_document_id():
    search = make_search(["a", "b"], [0, 1], [2, 1], "unknown", [])
    assert search.search(np.ones(1), 1, np.asarray([False, True])) == [(1, 0.5)]


@pytest.mark.parametrize(
    ("allowed", "n_allowed"), [(None, 2), ([True, True], 2), ([True, False], 1)]
)
def test_store_search_raises_if_it_finds_no_vector_of_the_index(allowed, n_allowed):
    search = VectorStoreSearch(
        lambda _vector, count, _documents: [(f"foreign {n}", 0.5) for n in range(7)][:count],
        "Fake",
        ["0", "1"],
        np.asarray([0, 1]),
        ["a", "b"],
    )
    mask = None if allowed is None else np.asarray(allowed)
    message = f"Fake contains none of the {n_allowed} vectors to search: pass the vector"
    with pytest.raises(CorruptStoreError, match=message):
        search.search(np.ones(1), 1, mask)


def test_errors_of_a_store_do_not_contain_its_key(index_of, documents):
    key = "Uncommon.Key/Without=Prefix"

    class Refusing(Plain):
        api_key: str = key

        def add(self, nodes, **kwargs):
            raise ConnectionError(f"wrong key <{self.api_key}>")

    with pytest.raises(StoreError, match=r"Refusing failed to add vectors.*wrong key") as raised:
        index_of(documents, storage_context=over(Refusing()))
    assert key not in f"{raised.value} {raised.value.__cause__}"
