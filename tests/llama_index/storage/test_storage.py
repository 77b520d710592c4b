"""`IndexStorage`: deletes leave no trace in any store, and failures lose no data."""

from __future__ import annotations

import copy
import json
import logging
from contextlib import ExitStack
from functools import partial

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.index_store import SimpleIndexStore

from e2graphrag_integrations.errors import InvalidInputError, StoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from fakes import STORY, NameExtractor
from llama_checks import (
    EACH_STORE,
    MARKED,
    MARKS,
    QUESTIONS,
    SETTINGS,
    SYNC_AND_ASYNC,
    assert_consistent,
    assert_same_results,
    build,
    call,
    find_traces,
    marked_document,
    page_nodes,
    results,
)
from llama_fakes import OTHER
from llama_stores import NO_QDRANT_INDEXES, dump_index, new_store, stored_entries

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(NO_QDRANT_INDEXES)]


@pytest.fixture
def store_of(tmp_path):
    with ExitStack() as closing:
        yield partial(new_store, folder=tmp_path, closing=closing)


@pytest.fixture
def marked():
    return marked_document()


def test_find_traces_searches_every_store(documents, marked):
    index = build([*documents, marked])
    dump = dump_index(index)
    assert MARKS.search(json.dumps(dump["documents"]))
    assert MARKS.search(repr(dump["records"]))
    assert MARKS.search(json.dumps(dump["vectors"]))
    assert len(find_traces(index)) > 10
    assert_consistent(index)


@EACH_STORE
@SYNC_AND_ASYNC
async def test_a_deleted_document_leaves_no_trace(kind, is_async, store_of, documents, marked):
    index = build([*documents, marked], store_of(kind))
    await call(is_async, index, "delete_ref_doc", "marked")
    assert find_traces(index) == []
    assert set(index.ref_doc_info) == {"story", "other"}
    assert index.storage_context.docstore.get_document_hash("marked") is None
    assert_consistent(index)
    assert_same_results(index, build(documents))


@EACH_STORE
@SYNC_AND_ASYNC
async def test_deleted_nodes_leave_no_trace(kind, is_async, store_of, documents, marked):
    index = build([*documents, marked], store_of(kind))
    chunks = [n.id for n in index.storage.struct.record("marked").leaves]
    await call(is_async, index, "delete_nodes", chunks)
    assert find_traces(index) == []
    assert_consistent(index)
    assert_same_results(index, build(documents))


@EACH_STORE
@SYNC_AND_ASYNC
async def test_a_deleted_document_can_be_inserted_again(kind, is_async, store_of, documents):
    index = build(documents, store_of(kind))
    for document in (*documents, documents[0]):
        await call(is_async, index, "delete_ref_doc", document.node_id)
        assert_consistent(index)
        await call(is_async, index, "insert", document)
        assert_consistent(index)
    assert_same_results(index, build(documents))


@EACH_STORE
@SYNC_AND_ASYNC
async def test_nodes_of_several_documents_can_be_deleted_in_one_call(
    kind, is_async, store_of, documents, marked
):
    # Sorted by id: in FAISS, a delete in the first document shifts the ids of the others' vectors.
    ordered = sorted([*documents, marked], key=lambda document: document.node_id)
    index, simple = build(ordered, store_of(kind)), build(ordered)
    deleted = [record.leaves[0].id for record in index.storage.struct.records()] + ["unknown"]
    await call(is_async, index, "delete_nodes", deleted)
    simple.delete_nodes(deleted)
    assert_consistent(index)
    assert not set(deleted) & set(index.storage_context.docstore.docs)
    assert_same_results(index, simple)


@EACH_STORE
def test_an_emptied_index_forgets_its_settings_and_accepts_documents(kind, store_of, documents):
    index = build(documents, store_of(kind))
    for id_ in ("story", "other"):
        index.delete_ref_doc(id_)
    assert_consistent(index)
    assert index.ref_doc_info == {}
    assert index.made_with == {}
    assert all(found == [] for found in results(index))
    index.insert(documents[0])
    assert_same_results(index, build(documents[:1]))


@SYNC_AND_ASYNC
async def test_delete_can_keep_the_nodes_in_the_docstore(is_async, documents):
    index = build(documents)
    before = set(index.storage_context.docstore.docs)
    await call(is_async, index, "delete_ref_doc", "story", delete_from_docstore=False)
    assert set(index.storage_context.docstore.docs) == before
    assert set(index.ref_doc_info) == {"other"}
    assert_same_results(index, build(documents[1:]))


def test_deleting_an_unknown_document_changes_nothing(documents, caplog):
    index = build(documents)
    before = copy.deepcopy(dump_index(index))
    with caplog.at_level(logging.WARNING):
        index.delete_ref_doc("nobody")
    assert "nobody is not in the index" in caplog.text
    index.delete_nodes(["nobody", "story"])
    assert dump_index(index) == before


@EACH_STORE
@SYNC_AND_ASYNC
@pytest.mark.parametrize("by", ["document", "nodes"])
async def test_delete_removes_every_node_of_a_large_document(kind, is_async, by, store_of):
    text = " ".join(f"Item {number} ends." for number in range(17))
    long = Document(id_="long", text=text)
    index = build([long], store_of(kind), chunk_size=4, chunk_overlap=0)
    ids = index.ref_doc_info["long"].node_ids
    assert len(ids) == 25
    if by == "document":
        await call(is_async, index, "delete_ref_doc", "long")
    else:
        await call(is_async, index, "delete_nodes", index.ref_doc_info["long"].node_ids)
    assert index.ref_doc_info == {}
    assert not index.storage_context.docstore.docs
    assert not index.storage_context.docstore.get_all_ref_doc_info()
    assert not stored_entries(index.storage_context.vector_store)


@pytest.mark.parametrize("method", ["add_documents", "set_document_hash"])
def test_an_update_keeps_the_old_version_when_the_docstore_fails(
    method, documents, marked, monkeypatch
):
    index = build(documents)
    before = copy.deepcopy(dump_index(index))
    real = getattr(SimpleDocumentStore, method)

    def breaks(self, *args, **kwargs):
        real(self, *args, **kwargs)
        monkeypatch.undo()  # fail once only
        raise OSError("disk full")

    monkeypatch.setattr(SimpleDocumentStore, method, breaks)
    new = Document(id_="story", text=f"{STORY} {MARKED}", metadata={"title": "A Map"})
    with pytest.raises(StoreError, match="disk full"):
        index.refresh_ref_docs([new, marked])
    assert find_traces(index) == []
    assert dump_index(index) == before


@EACH_STORE
@SYNC_AND_ASYNC
async def test_deleting_a_chunk_deletes_the_summaries_above_it_and_updates_links(
    kind, is_async, store_of, documents
):
    long = Document(id_="long", text=f"{STORY} {OTHER} {MARKED}")
    index = build([*documents, long], store_of(kind))
    record = index.storage.struct.record("long")
    nodes = {node.id: node for node in record.nodes}
    chunk = record.leaves[4]
    above, node = set(), chunk
    while node.parent_id is not None:
        node = nodes[node.parent_id]
        above.add(node.id)
    assert len(above) > 1
    neighbors = record.leaves[3].id, record.leaves[5].id
    await call(is_async, index, "delete_nodes", [chunk.id])
    docs = index.storage_context.docstore.docs
    assert set(index.ref_doc_info["long"].node_ids) == set(nodes) - above - {chunk.id}
    assert docs[neighbors[0]].next_node.node_id == neighbors[1]
    assert docs[neighbors[0]].parent_node is None
    assert_consistent(index)
    for question in QUESTIONS:
        found = index.as_retriever("global", similarity_top_k=100).retrieve(question)
        assert not {n.node_id for n in found} & (above | {chunk.id})


@EACH_STORE
@SYNC_AND_ASYNC
async def test_deleting_summaries_keeps_their_chunks(kind, is_async, store_of, documents):
    index = build(documents, store_of(kind))
    record = index.storage.struct.record("story")
    summaries = [node.id for node in record.nodes if node.level]
    await call(is_async, index, "delete_nodes", summaries)
    assert set(index.ref_doc_info["story"].node_ids) == {node.id for node in record.leaves}
    assert_consistent(index)


@SYNC_AND_ASYNC
async def test_metadata_of_a_deleted_chunk_leave_no_trace(is_async):
    nodes = page_nodes(0, 4)
    nodes[1].metadata["keeper"] = "Quorbius"
    index = E2GraphRAGIndex(nodes, **SETTINGS)
    assert find_traces(index)
    await call(is_async, index, "delete_nodes", [nodes[1].node_id])
    assert find_traces(index) == []
    assert_consistent(index)


def test_deleting_a_document_keeps_it_for_another_index_of_the_same_stores(index_of, documents):
    context = StorageContext.from_defaults()
    one = index_of(documents, storage_context=context)
    other = index_of(documents[:1], storage_context=context)
    expected = [n.node_id for n in other.as_retriever().retrieve("Anna and Bert?")]
    one.delete_ref_doc("story")
    for mode in ("local", "global"):
        assert other.as_retriever(mode).retrieve("Anna and Bert?")
    assert [n.node_id for n in other.as_retriever().retrieve("Anna and Bert?")] == expected
    other.delete_ref_doc("story")
    assert context.docstore.get_ref_doc_info("story") is None


class FailingDocstore(SimpleDocumentStore):
    """A docstore that fails to delete while `fails` is true."""

    fails = False

    def delete_document(self, doc_id, raise_error=True):
        if self.fails:
            raise OSError("the disk is gone")
        super().delete_document(doc_id, raise_error)


@pytest.mark.parametrize("how", ["delete_ref_doc", "update_ref_doc", "delete_nodes"])
def test_the_next_write_removes_the_entries_of_a_failed_removal(index_of, documents, how, tmp_path):
    context = StorageContext.from_defaults(docstore=FailingDocstore())
    index = index_of(documents, storage_context=context)
    old = {node.id for node in index.storage.struct.record("story").nodes}
    context.docstore.fails = True
    given = {
        "delete_ref_doc": "story",
        "update_ref_doc": Document(id_="story", text="Kit met Lea. Lea met Kit again."),
        "delete_nodes": [index.storage.struct.record("story").leaves[0].id],
    }[how]
    with pytest.raises(StoreError, match="the disk is gone"):
        getattr(index, how)(given)
    index.persist(tmp_path / "store")
    opened = E2GraphRAGIndex.from_persist_dir(tmp_path / "store", extractor=NameExtractor())
    for one in (index, opened):
        for mode in ("local", "global"):
            assert one.as_retriever(mode).retrieve("Fay and Gus?")
    context.docstore.fails = False
    for one in (index, opened):
        one.delete_ref_doc("nobody")
        assert_consistent(one)
        assert one.storage.struct.leftovers == {}
    if how != "delete_nodes":
        assert not old & set(context.docstore.docs)


def test_two_handles_of_one_index_keep_each_others_documents(index_of, documents):
    one = index_of(documents[:1])
    options = {"embed_model": "hashing", "extractor": NameExtractor()}
    other = E2GraphRAGIndex.from_storage(one.storage_context, **options)
    one.insert(documents[1])
    other.insert(Document(id_="third", text="Kit met Lea in Rome."))
    one.delete_ref_doc("story")
    again = E2GraphRAGIndex.from_storage(one.storage_context, **options)
    assert set(again.ref_doc_info) == {"other", "third"}
    assert set(one.ref_doc_info) == {"other", "third"}
    assert_consistent(again)


class FailingIndexStore(SimpleIndexStore):
    """An index store that fails to save a struct while `fails` is true."""

    fails = False

    def add_index_struct(self, index_struct):
        if self.fails:
            raise ConnectionError("nobody answers")
        super().add_index_struct(index_struct)


def test_the_next_write_saves_a_struct_that_the_index_store_failed_to_save(
    index_of, documents, tmp_path
):
    context = StorageContext.from_defaults(index_store=FailingIndexStore())
    index = index_of(documents[:1], storage_context=context)
    context.index_store.fails = True
    with pytest.raises(StoreError, match="nobody answers"):
        index.insert(documents[1])
    context.index_store.fails = False
    index.insert(documents[1])  # no new document, but the struct is saved
    index.persist(tmp_path / "store")
    opened = E2GraphRAGIndex.from_persist_dir(tmp_path / "store", extractor=NameExtractor())
    assert set(opened.ref_doc_info) == {"story", "other"}
    assert_consistent(opened)


def test_delete_nodes_accepts_one_id_and_rejects_other_types(index_of):
    index = index_of([Document(id_="a", text="Anna met Bert.")])
    before = set(index.docstore.docs)
    for wrong in (5, None, [[]]):
        with pytest.raises(InvalidInputError):
            index.delete_nodes(wrong)
    index.delete_nodes("".join(before)[:3])  # one unknown id
    assert set(index.docstore.docs) == before
