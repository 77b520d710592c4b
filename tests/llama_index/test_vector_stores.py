"""Every vector store gives the answers of the core engine, and none is left half written."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from functools import partial

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
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

from e2graphrag_integrations import HashingEmbedder, SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, StoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.storage import vector_stores
from e2graphrag_integrations.search.external import VectorStoreSearch
from fakes import NameExtractor
from llama_stores import (
    KINDS,
    NO_QDRANT_INDEXES,
    ONE_EACH,
    Plain,
    entries,
    everything,
    new_store,
    texts_of,
    words,
)

pytestmark = pytest.mark.filterwarnings(NO_QDRANT_INDEXES)

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
    """Enough documents that a filter for one of them leaves few nodes of many."""
    hay = [
        Document(
            id_=f"hay-{number}",
            text=f"Kim mowed {words(number)}. Lea saw {words(number + 100, 3 + number % 3)}. "
            f"In Turku {words(number + 200, 4)}. Kim {words(number + 300)}.",
            metadata={"year": 1950 + number},
        )
        for number in range(30)
    ]
    return [*documents, *hay, Document(id_="needle", text=NEEDLE, metadata={"year": 2000})]


def over(store):
    return StorageContext.from_defaults(vector_store=store)


def core_of(open_index, documents, **options):
    """Return the core engine with the same documents and settings."""
    core = open_index(group_size=3, **options)
    core.add(
        [
            SourceDocument(d.node_id, d.text, d.metadata.get("title"), metadata=dict(d.metadata))
            for d in documents
        ]
    )
    return core


def found(index, question, mode, k=10, **options):
    nodes = index.as_retriever(mode, similarity_top_k=k, **options).retrieve(question)
    return [n.node_id for n in nodes], [n.score for n in nodes]


def assert_equals_core(index, core, k=10, where=None, questions=QUESTIONS, **filters):
    for question in questions:
        for mode, mode_of_core in MODES.items():
            expected = core.retrieve(question, k=k, mode=mode_of_core, where=where).nodes
            ids, scores = found(index, question, mode, k, **filters)
            assert scores == pytest.approx([node.score for node in expected], abs=1e-5)
            assert ids == [node.node_id for node in expected], (question, mode)


def stranger(number, vector):
    """Return an entry of somebody else, with a vector that every question finds first."""
    return TextNode(
        id_=f"00000000-0000-4000-8000-{number:012}",
        text=f"Stranger {number}",
        embedding=list(map(float, vector)),
        metadata={"year": 2000},
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="story")},
    )


def strangers(question):
    vector = HashingEmbedder().embed_query(question)
    return [stranger(number, vector) for number in range(20)]


# Equal to the core


@pytest.mark.parametrize("kind", [*KINDS, "plain"])
def test_answers_are_those_of_the_core(kind, store_of, index_of, documents, open_index):
    store = store_of(kind)
    index = index_of(documents, storage_context=over(store))
    core = core_of(open_index, documents)
    for k in (1, 2, 3, 10, 100):
        assert_equals_core(index, core, k)
    assert len(entries(store)) == size(index)


def test_answers_with_real_vectors_are_those_of_the_core(
    store_of, index_of, documents, open_index, real_embedder
):
    core = core_of(open_index, documents, embedder=real_embedder)
    for kind in ("faiss-map", "qdrant", "chroma-l2"):
        context = over(store_of(kind, dimension=real_embedder.dimension))
        index = index_of(documents, storage_context=context, embed_model=real_embedder)
        assert_equals_core(index, core, 5)


@pytest.mark.parametrize("kind", [*KINDS, "plain"])
def test_filters_hold_however_few_nodes_they_leave(kind, store_of, index_of, many, open_index):
    index = index_of(many, storage_context=over(store_of(kind)))
    core = core_of(open_index, many)
    questions = (
        "Who in Turku told whom of the map, the hay, the needle and the flour lost at sea?",
        "What did Kim see in Turku before Ivy told Jon about the mill that Hal burned at night?",
        "Did Anna give Bert the map of the harbour in winter, and was it at once lost by Jon?",
    )
    year = MetadataFilters(filters=[MetadataFilter(key="year", value=2000)])
    years = MetadataFilters(
        filters=[MetadataFilter(key="year", value=[1890, 1901], operator=FilterOperator.IN)]
    )
    same = partial(assert_equals_core, index, core, questions=questions)
    for k in (1, 2, 10):
        same(k)
        same(k, {"year": 2000}, filters=year)
        same(k, {"document_id": "needle"}, doc_ids=["needle"])
        same(k, {"year": {"$in": [1890, 1901]}}, filters=years)
        same(k, {"document_id": {"$in": ["needle", "story"]}}, doc_ids=["story", "needle"])
        same(k, {"document_id": "nobody"}, doc_ids=["nobody"])


@pytest.mark.parametrize("kind", ONE_EACH)
@pytest.mark.parametrize("question", [LOCAL, GLOBAL])
def test_levels_can_be_filtered_on_both_routes(kind, question, store_of, index_of, documents):
    index = index_of(documents, storage_context=over(store_of(kind)))
    top = MetadataFilters(filters=[MetadataFilter(key="e2_kind", value="summary")])
    for mode in ("global", "adaptive"):
        nodes = index.as_retriever(mode, filters=top).retrieve(question)
        assert all(n.metadata["e2_level"] > 0 for n in nodes)
    assert found(index, GLOBAL, "global", filters=top)[0]


@pytest.mark.parametrize("kind", [*KINDS, "plain"])
def test_a_node_of_several_windows_scores_as_its_best(
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
@pytest.mark.parametrize("come_first", [True, False])
def test_what_others_keep_in_the_store_is_neither_found_nor_harmed(
    kind, come_first, store_of, index_of, documents, open_index
):
    store = store_of(kind)
    theirs = strangers(GLOBAL)
    if come_first:
        store.add(theirs)
    index = index_of(documents, storage_context=over(store))
    if not come_first:
        store.add(theirs)
    core = core_of(open_index, documents)
    assert_equals_core(index, core)
    index.delete_ref_doc("story")
    core.delete("story")
    assert_equals_core(index, core)
    index.insert(documents[0])
    core.add(SourceDocument("story", documents[0].text, "A Map"))
    assert_equals_core(index, core, 3)
    assert_equals_core(index, core, 3, {"document_id": "story"}, doc_ids=["story"])
    left = entries(store)
    if kind in {"faiss-ip", "faiss-l2", "plain"}:  # these keep what was deleted
        assert len(left) > len(theirs) + size(index)
    else:
        assert len(left) == len(theirs) + size(index)
        assert {node.node_id for node in theirs} <= set(left)


@pytest.mark.parametrize("kind", ["faiss-map", "qdrant", "simple"])
def test_the_vectors_of_others_stay_their_own(kind, store_of, index_of, documents):
    store = store_of(kind)
    axes = np.eye(256)[:9]
    index = index_of(documents, storage_context=over(store))
    store.add([stranger(number, axis) for number, axis in enumerate(axes)])
    for document in documents:
        index.delete_ref_doc(document.node_id)
        index.insert(document)
    face = vector_stores.vectors_of(store)
    for number, axis in enumerate(axes):
        [(id_, cosine), *_] = face.query(axis, 1, None)
        assert id_ == stranger(number, axis).node_id
        assert cosine == pytest.approx(1)


def test_two_indexes_share_a_store(index_of, documents, store_of, open_index):
    for kind in KINDS:
        context = over(store_of(kind))
        one = index_of(documents[:1], storage_context=context)
        two = index_of(documents[1:], storage_context=context)
        core_of_one, core_of_two = (core_of(open_index, [document]) for document in documents)
        assert_equals_core(one, core_of_one)
        assert_equals_core(two, core_of_two)
        one.delete_ref_doc("story")
        one.insert(documents[0])
        assert_equals_core(one, core_of_one)
        assert_equals_core(two, core_of_two)


# Refusals and losses


@pytest.mark.parametrize("kind", ["faiss-ip", "faiss-l2", "faiss-map"])
def test_faiss_of_another_dimension_is_refused_before_anything_is_written(
    kind, store_of, index_of, documents
):
    context = over(store_of(kind, dimension=128))
    with pytest.raises(InvalidInputError, match=r"128 dimensions.*256.*IndexFlatIP\(256\)"):
        index_of(documents, storage_context=context)
    assert not context.docstore.docs
    assert not context.index_store.index_structs()
    assert not entries(context.vector_store)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_that_are_lost_fail_global_questions_only(kind, store_of, index_of, documents):
    index = index_of(documents, storage_context=over(store_of(kind)))
    expected = found(index, LOCAL, "local")
    context = StorageContext.from_defaults(
        docstore=index.storage_context.docstore,
        index_store=index.storage_context.index_store,
        vector_store=store_of(kind),
    )
    loaded = E2GraphRAGIndex.from_storage(context, embed_model="hashing", extractor=NameExtractor())
    assert found(loaded, LOCAL, "local") == expected
    with pytest.raises(StoreError, match=r"made with"):
        found(loaded, GLOBAL, "global")
    if not kind.startswith("qdrant"):  # there even the collection is gone
        with pytest.raises(CorruptStoreError, match=r"pass the vector store .* or build"):
            found(loaded, GLOBAL, "global")


def fail_after(monkeypatch, store, count):
    """Let a store take `count` vectors, then raise."""
    real = type(store).add
    left = [count]

    def add(self, nodes, **kwargs):
        taken = list(nodes)[: left[0]]
        left[0] -= len(taken)
        ids = real(self, taken, **kwargs) if taken else []
        if len(taken) < len(nodes):
            raise ConnectionError("the store went away")
        return ids

    monkeypatch.setattr(type(store), "add", add)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_a_store_that_fails_midway_leaves_nothing_of_an_insert(
    kind, count, store_of, index_of, documents, long, monkeypatch
):
    monkeypatch.setattr(vector_stores, "_BATCH", 3)
    index = index_of(documents[:1], storage_context=over(store_of(kind)))
    before = copy.deepcopy(everything(index))
    ids, scores = found(index, GLOBAL, "global")
    with monkeypatch.context() as patch:
        fail_after(patch, index.storage_context.vector_store, count)
        with pytest.raises(StoreError, match=r"ConnectionError: the store went away.*nothing was"):
            index.insert(long)
    assert everything(index) == before
    assert found(index, GLOBAL, "global") == (ids, pytest.approx(scores, abs=1e-5))
    with monkeypatch.context() as patch:
        fail_after(patch, index.storage_context.vector_store, count)
        changed = Document(id_="story", text=long.text + " Fay waited.")
        with pytest.raises(StoreError, match=r"nothing was indexed"):
            index.update_ref_doc(changed)
    assert everything(index) == before
    index.insert(long)
    assert len(index.ref_doc_info) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_fails_midway_leaves_nothing_of_a_build(
    kind, store_of, index_of, documents, monkeypatch
):
    monkeypatch.setattr(vector_stores, "_BATCH", 3)
    context = over(store_of(kind))
    with monkeypatch.context() as patch:
        fail_after(patch, context.vector_store, 5)
        with pytest.raises(StoreError, match="see to the vector store and insert again"):
            index_of(documents, storage_context=context)
    assert not context.docstore.docs
    assert not context.docstore.get_all_ref_doc_info()
    assert not context.index_store.index_structs()
    assert not entries(context.vector_store)
    assert found(index_of(documents, storage_context=context), GLOBAL, "global")[0]


@pytest.mark.parametrize("kind", KINDS)
def test_an_insert_that_fails_does_not_reset_a_store_of_as_many_vectors(
    kind, store_of, index_of, documents, long, monkeypatch
):
    # FAISS cannot tell by counting alone whose vectors these are.
    index = index_of(documents[:1], storage_context=over(store_of(kind)))
    before = copy.deepcopy(everything(index))
    there, coming = len(before["vectors"]), len(everything(index_of([long]))["vectors"])
    assert there <= coming
    fail_after(monkeypatch, index.storage_context.vector_store, coming - there)
    with pytest.raises(StoreError):
        index.insert(long)
    assert everything(index) == before


def test_a_docstore_that_fails_leaves_no_vectors(store_of, index_of, documents, long, monkeypatch):
    for kind in KINDS:
        index = index_of(documents[:1], storage_context=over(store_of(kind)))
        before = copy.deepcopy(everything(index))
        with monkeypatch.context() as patch:
            patch.setattr(
                type(index.storage_context.docstore),
                "add_documents",
                lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")),
            )
            with pytest.raises(StoreError, match=r"OSError: disk full.*nothing was indexed"):
                index.insert(long)
        assert everything(index) == before


@pytest.mark.parametrize("kind", ["simple", "qdrant", "chroma-cosine"])
def test_a_store_that_cannot_be_reached_for_a_delete_is_told_of_and_nothing_shows(
    kind, store_of, index_of, documents, monkeypatch
):
    store = store_of(kind)
    index = index_of(documents, storage_context=over(store))

    def delete_nodes(self, node_ids=None, filters=None, **kwargs):
        raise ConnectionError("the store went away")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "delete_nodes", delete_nodes)
        with pytest.raises(StoreError, match=r"did not remove \d+ vectors .*the store went away"):
            index.delete_ref_doc("story")
    assert set(index.ref_doc_info) == {"other"}
    assert not any("Anna" in text for text in texts_of(index))
    nodes = index.as_retriever("global").retrieve(LOCAL)
    assert {node.node.ref_doc_id for node in nodes} == {"other"}
    index.insert(documents[0])
    index.delete_ref_doc("story")
    assert len(entries(store)) == size(index)


def test_a_faiss_map_that_gives_no_vectors_back_is_refused(index_of, documents):
    store = FaissMapVectorStore(faiss.IndexIDMap(faiss.IndexFlatIP(256)))
    context = over(store)
    with pytest.raises(InvalidInputError, match="IndexIDMap2"):
        index_of(documents, storage_context=context)
    assert not context.docstore.docs


class NoDelete(SimpleVectorStore):
    """Keeps whatever it was given."""

    def delete_nodes(self, node_ids=None, filters=None, **delete_kwargs):
        raise NotImplementedError


def trained_ivf():
    """Return a FAISS index that gives no vectors back."""
    index = faiss.index_factory(256, "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(np.random.default_rng(7).normal(size=(200, 256)).astype(np.float32))
    index.nprobe = 4
    return FaissVectorStore(index)


@pytest.mark.parametrize("make", [NoDelete, Plain, trained_ivf])
def test_what_a_store_cannot_delete_never_shows(make, index_of, documents, open_index):
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
    held = store.client.ntotal if make is trained_ivf else len(entries(store))
    assert held > size(index)


def test_a_store_that_cannot_be_reached_is_named(index_of, documents, monkeypatch):
    index = index_of(documents, storage_context=over(Plain()))

    def query(self, query, **kwargs):
        raise ConnectionError("refused")

    monkeypatch.setattr(Plain, "query", query)
    with pytest.raises(StoreError, match=r"Plain could not be searched.*refused"):
        found(index, GLOBAL, "global")
    assert found(index, LOCAL, "local")[0]


@pytest.mark.parametrize("kind", ["faiss-map", "qdrant", "chroma-cosine"])
def test_an_answer_that_a_writer_overtakes_starts_over(
    kind, store_of, index_of, documents, long, monkeypatch
):
    store = store_of(kind)
    index = index_of(documents[:1], storage_context=over(store))
    real = type(store).query

    def query(self, query, **kwargs):
        monkeypatch.undo()
        index.delete_ref_doc("story")  # every vector that is looked for is gone now
        index.insert(long)
        return real(self, query, **kwargs)

    monkeypatch.setattr(type(store), "query", query)
    ids, scores = found(index_of([long]), GLOBAL, "global")
    assert found(index, GLOBAL, "global") == (ids, pytest.approx(scores, abs=1e-5))


# StoreSearch by itself


@st.composite
def stores(draw):
    """Draw windows of nodes, vectors of others, and how the store takes doc_ids."""
    nodes = draw(st.integers(1, 8))
    documents = [draw(st.sampled_from("ab")) for _ in range(nodes)]
    owners = sorted([*range(nodes), *draw(st.lists(st.integers(0, nodes - 1), max_size=6))])
    foreign = draw(st.integers(0, 12))
    grid = st.integers(-2, 2)  # coarse, so that scores tie
    scores = draw(st.lists(grid, min_size=len(owners) + foreign, max_size=len(owners) + foreign))
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=nodes, max_size=nodes))
    takes = draw(st.sampled_from(["heeds", "ignores", "other names"]))
    return documents, owners, scores, allowed, takes


def searching(documents, owners, scores, takes, asked):
    """Return a search over a store where row n has the id `str(n)` and the score given."""
    place = {str(row): documents[node] for row, node in enumerate(owners)}

    def query(vector, count, of):
        asked.append((count, of))
        assert len(asked) < 30, "the search does not end"
        assert count > 0
        hits = [(str(row), score / 2) for row, score in enumerate(scores)]
        if of is not None and takes != "ignores":
            names = set(of) if takes == "heeds" else set()
            hits = [hit for hit in hits if place.get(hit[0], "foreign") in names]
        return sorted(hits, key=lambda hit: (-hit[1], -int(hit[0])))[:count]  # the worst ties

    ids = [str(row) for row in range(len(owners))]
    return VectorStoreSearch(query, "Fake", ids, np.asarray(owners), documents)


@settings(max_examples=300, deadline=None)
@given(stores(), st.integers(0, 10))
def test_a_search_through_a_store_equals_brute_force(drawn, count):
    documents, owners, scores, allowed, takes = drawn
    best = {}
    for node, score in zip(owners, scores, strict=False):
        if allowed is None or allowed[node]:
            best[node] = max(score / 2, best.get(node, -9))
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:count]
    search = searching(documents, owners, scores, takes, [])
    mask = None if allowed is None else np.asarray(allowed)
    assert search.search(np.ones(1, np.float32), count, mask) == expected


def test_a_search_asks_little_of_a_store_that_heeds_doc_ids():
    documents = ["a"] * 500 + ["b"] * 3
    owners, scores = list(range(503)), list(range(503, 0, -1))
    mask = np.asarray([document == "b" for document in documents])
    asked = []
    search = searching(documents, owners, scores, "heeds", asked)
    assert [node for node, _ in search.search(np.ones(1), 3, mask)] == [500, 501, 502]
    # One more shows that none ties with the last: of windows for a node's sake, of vectors again.
    assert asked == [(5, ["b"])]
    asked.clear()
    assert search.windows(np.ones(1), 2, mask)[0].tolist() == [500, 501]
    assert asked == [(3, ["b"])]


def test_a_search_for_one_node_ends_where_documents_have_other_names():
    search = searching(["a", "b"], [0, 1], [2, 1], "other names", [])
    assert search.search(np.ones(1), 1, np.asarray([False, True])) == [(1, 0.5)]


@pytest.mark.parametrize(("allowed", "seen"), [(None, 2), ([True, True], 2), ([True, False], 1)])
def test_a_search_that_finds_none_of_its_vectors_says_so(allowed, seen):
    search = VectorStoreSearch(
        lambda _vector, count, _documents: [(f"foreign {n}", 0.5) for n in range(7)][:count],
        "Fake",
        ["0", "1"],
        np.asarray([0, 1]),
        ["a", "b"],
    )
    mask = None if allowed is None else np.asarray(allowed)
    message = f"Fake holds none of the index's {seen} vectors that may be seen: pass the vector"
    with pytest.raises(CorruptStoreError, match=message):
        search.search(np.ones(1), 1, mask)
