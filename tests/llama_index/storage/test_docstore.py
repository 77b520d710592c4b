"""The docstore of an index shows its nodes, to LlamaIndex's own classes, and cannot change them."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core import Document, StorageContext, SummaryIndex, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.postprocessor import PrevNextNodePostprocessor
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import NodeRelationship, TextNode
from llama_index.core.storage.docstore import BaseDocumentStore, SimpleDocumentStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.kvstore import SimpleKVStore

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.storage.docstore import ReaderDocstore
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor
from llama_fakes import OTHER

QUESTION = "What did Anna give Bert?"
MODELS = {"embed_model": "hashing", "extractor": NameExtractor()}


def own_nodes(index):
    """Return the ids of the nodes of an index itself."""
    return {id_ for info in index.ref_doc_info.values() for id_ in info.node_ids}


def test_the_docstore_has_the_nodes_that_retrievers_return(index_of, documents):
    index = index_of(documents)
    docstore = index.docstore
    for found in index.as_retriever("global", similarity_top_k=50).retrieve(QUESTION):
        node = docstore.get_node(found.node_id)
        assert node.get_content() == found.node.get_content()
        assert node.relationships.keys() == found.node.relationships.keys()
        assert docstore.get_nodes([found.node_id]) == [node]
        assert docstore.document_exists(found.node_id)
        assert docstore.docs[found.node_id] == node
    assert not docstore.document_exists("nobody")
    with pytest.raises(ValueError, match="nobody"):
        docstore.get_nodes(["nobody"])
    assert docstore.get_nodes(["nobody"], raise_error=False) == []
    assert index.vector_store.data.embedding_dict == {}


async def test_async_reads_equal_sync_reads(index_of, documents):
    docstore = index_of(documents).docstore
    ids = list(docstore.docs)
    assert await docstore.aget_nodes(ids) == docstore.get_nodes(ids)
    assert await docstore.aget_ref_doc_info("story") == docstore.get_ref_doc_info("story")
    assert await docstore.aget_all_ref_doc_info() == docstore.get_all_ref_doc_info()
    assert await docstore.adocument_exists(ids[0])
    assert await docstore.aref_doc_exists("story")


def test_ref_doc_info_names_the_nodes_of_each_document(index_of, documents):
    index = index_of(documents)
    info = index.ref_doc_info
    assert set(info) == {"story", "other"}
    assert info["story"].metadata == documents[0].metadata
    assert {id_ for one in info.values() for id_ in one.node_ids} == set(index.docstore.docs)
    assert index.docstore.get_all_ref_doc_info() == info
    assert index.docstore.get_ref_doc_info("story") == info["story"]
    assert index.docstore.get_ref_doc_info("nobody") is None


def test_the_docstore_is_live(index_of, documents):
    index = index_of(documents[:1])
    docstore = index.docstore
    assert set(docstore.get_all_ref_doc_info()) == {"story"}
    index.insert(documents[1])
    assert set(docstore.get_all_ref_doc_info()) == {"story", "other"}
    assert any("Fay" in node.text for node in docstore.docs.values())
    index.delete_ref_doc("other")
    assert set(docstore.get_all_ref_doc_info()) == {"story"}
    assert not any("Fay" in node.text for node in docstore.docs.values())


def test_auto_merging_replaces_chunks_by_their_summary(index_of, documents):
    index = index_of(documents)
    merging = AutoMergingRetriever(
        index.as_retriever("local", similarity_top_k=30), index.storage_context
    )
    found = merging.retrieve("Did Anna, Bert, Cleo, Dora and Emil meet?")
    assert any(one.node.metadata["e2_level"] for one in found)
    assert {one.node_id for one in found} <= set(index.docstore.docs)


def test_prev_next_finds_the_neighbors_of_a_chunk(index_of, documents):
    index = index_of(documents)
    chunks = [n for n in index.docstore.docs.values() if n.ref_doc_id == "story"]
    middle = next(n for n in chunks if n.prev_node is not None and n.next_node is not None)
    found = index.as_retriever("local", node_ids=[middle.node_id]).retrieve(QUESTION)
    for docstore in (index.docstore, index.storage_context.docstore):
        both = PrevNextNodePostprocessor(docstore=docstore, num_nodes=1, mode="both")
        ids = [one.node_id for one in both.postprocess_nodes(found)]
        assert ids == [middle.prev_node.node_id, middle.node_id, middle.next_node.node_id]


def test_links_lead_to_nodes_that_link_back(index_of, documents):
    nodes = index_of(documents).docstore.docs
    for id_, node in nodes.items():
        if node.parent_node is not None:
            children = nodes[node.parent_node.node_id].child_nodes
            assert id_ in [one.node_id for one in children]
        if NodeRelationship.NEXT in node.relationships:
            assert nodes[node.next_node.node_id].prev_node.node_id == id_


def test_nodes_of_the_user_keep_their_ids_class_and_metadata():
    class Marked(TextNode):
        @classmethod
        def class_name(cls):
            return "TextNode"

    nodes = [
        TextNode(id_="one", text="Anna met Bert in Oslo.", metadata={"page": 1}),
        Marked(id_="two", text="Bert gave Anna a map.", metadata={"page": 2, "x": [1]}),
    ]
    index = E2GraphRAGIndex(nodes, **grouped(MODELS))
    shown = index.docstore.get_nodes(["one", "two"])
    assert [node.node_id for node in shown] == ["one", "two"]
    assert [node.text for node in shown] == [node.text for node in nodes]
    for metadata in (
        shown[1].metadata,
        index.ref_doc_info["two"].metadata,
        index.docstore.get_ref_doc_info("two").metadata,
        index.docstore.get_all_ref_doc_info()["two"].metadata,
    ):
        assert metadata["x"] == [1]
        metadata["x"].append(2)  # changes neither the index nor what it shows next
    assert set(index.docstore.docs) >= {"one", "two"}
    retrieved = index.as_retriever("local").retrieve("Anna and Bert?")
    assert {"one", "two"} <= {one.node_id for one in retrieved}


def test_the_nodes_of_the_index_cannot_be_written_through_the_docstore(index_of, documents):
    context = StorageContext.from_defaults()
    index = index_of(documents, storage_context=context)
    before = list(index.rag.export())
    id_, node = next(iter(context.docstore.docs.items()))
    own = TextNode(id_="own", text="Mine.")
    changed = node.model_copy(update={"text": "Changed."})
    loop = asyncio.new_event_loop()
    for write in (
        lambda: context.docstore.add_documents([changed]),
        lambda: context.docstore.add_documents([own, changed]),
        lambda: context.docstore.delete_document(id_),
        lambda: loop.run_until_complete(context.docstore.async_add_documents([changed])),
        lambda: loop.run_until_complete(context.docstore.adelete_document(id_)),
    ):
        with pytest.raises(InvalidInputError, match=r"can only be read: write to the index itself"):
            write()
    loop.close()
    assert list(index.rag.export()) == before
    assert not context.docstore.document_exists("own")


async def test_other_writes_go_to_the_docstore_below(index_of, documents):
    below = SimpleDocumentStore()
    context = StorageContext.from_defaults(docstore=below)
    index = index_of(documents, storage_context=context)
    assert below.docs == {}
    own = TextNode(id_="own", text="Mine.")
    context.docstore.add_documents([own])
    await context.docstore.async_add_documents([TextNode(id_="async", text="Mine, too.")])
    context.docstore.set_document_hash("own", "h")
    assert set(below.docs) == {"own", "async"}
    assert context.docstore.get_document("own").text == "Mine."
    assert context.docstore.get_document_hash("own") == below.get_document_hash("own") == "h"
    assert set(context.docstore.docs) == {*own_nodes(index), "own", "async"}
    context.docstore.delete_document("own")
    await context.docstore.adelete_document("async")
    assert below.docs == {}


def test_other_indexes_keep_their_nodes_in_the_same_context(index_of, documents):
    context = StorageContext.from_defaults()
    before = VectorStoreIndex.from_documents(
        [Document(id_="a", text=OTHER)], context, embed_model=MockEmbedding(8)
    )
    index = index_of(documents, storage_context=context)
    listed = SummaryIndex.from_documents([Document(id_="b", text=STORY)], context)
    assert len(before.as_retriever().retrieve("Fay?")) == 1
    assert len(listed.as_retriever().retrieve("Anna?")) == 1
    before.insert(Document(id_="c", text="Kit met Lea."))
    assert len(before.as_retriever().retrieve("Kit?")) == 2
    before.delete_ref_doc("a", delete_from_docstore=True)
    assert set(before.ref_doc_info) >= {"c"}
    assert set(index.ref_doc_info) == {"story", "other"}
    index.delete_ref_doc("story")
    assert len(before.as_retriever().retrieve("Kit?")) == 1
    index.close()
    assert len(listed.as_retriever().retrieve("Anna?")) == 1


def test_a_docstore_keeps_its_names_of_collections(index_of, documents):
    suffixes = ("node_collection_suffix", "ref_doc_collection_suffix", "metadata_collection_suffix")
    names = {suffix: f"/own_{number}" for number, suffix in enumerate(suffixes)}
    below = KVDocumentStore(SimpleKVStore(), "space", **names)
    context = StorageContext.from_defaults(docstore=below)
    listed = SummaryIndex.from_documents([Document(id_="b", text=STORY)], context)
    first, second = (index_of([one], storage_context=context) for one in documents)
    assert len(listed.as_retriever().retrieve("Anna?")) == 1
    assert own_nodes(first) | own_nodes(second) < set(context.docstore.docs)
    assert {"b", "story", "other"} <= set(context.docstore.get_all_ref_doc_info())
    listed.insert(Document(id_="c", text="Kit met Lea."))
    assert len(below.docs) == 2


def test_a_context_shows_the_nodes_of_two_indexes(index_of, documents):
    context = StorageContext.from_defaults()
    one = index_of(documents[:1], storage_context=context)
    two = index_of(documents[1:], storage_context=context)
    assert set(context.docstore.docs) == own_nodes(one) | own_nodes(two)
    assert set(context.docstore.get_all_ref_doc_info()) == {"story", "other"}
    assert set(one.ref_doc_info) == {"story"}
    one.insert(Document(id_="third", text="Kit met Lea."))
    assert set(context.docstore.get_all_ref_doc_info()) == {"story", "other", "third"}


def test_an_index_that_is_loaded_twice_shows_its_nodes_once(index_of, documents):
    context = StorageContext.from_defaults()
    index_of(documents[:1], storage_context=context)
    index_of(documents[1:], storage_context=context)
    ids = [struct.index_id for struct in context.index_store.index_structs()]
    for id_ in (*ids, *ids):
        last = E2GraphRAGIndex.from_storage(context, id_, **grouped(MODELS))
    layers = []
    docstore = context.docstore
    while isinstance(docstore, ReaderDocstore):
        layers.append(docstore)
        docstore = docstore.below
    assert len(layers) == 2
    last.delete_ref_doc("other")
    assert set(context.docstore.get_all_ref_doc_info()) == {"story"}


def test_a_docstore_of_an_unknown_class_is_rejected(index_of, documents):
    class Own(BaseDocumentStore):
        """Has no key-value store."""

    Own.__abstractmethods__ = frozenset()
    with pytest.raises(InvalidInputError, match=r"docstore is a Own: .* leave the docstore out"):
        index_of(documents, storage_context=StorageContext.from_defaults(docstore=Own()))


def test_the_context_of_simple_stores_is_a_dictionary(index_of, documents):
    """`StorageContext.to_dict` only accepts simple stores, so the docstore has to be one."""
    context = StorageContext.from_defaults()
    context.docstore.add_documents([TextNode(id_="own", text="Mine.")])
    index = index_of(documents, storage_context=context)
    for one in (context, index.storage_context):
        again = StorageContext.from_dict(one.to_dict())
        assert set(again.docstore.docs) == {"own"}
        loaded = E2GraphRAGIndex.from_storage(again, **grouped(MODELS))
        assert list(loaded.rag.export()) == list(index.rag.export())
        assert loaded.docstore.get_document("own").text == "Mine."


@pytest.mark.parametrize("other", [VectorStoreIndex, SummaryIndex])
def test_another_index_updates_documents_with_the_ids_of_this_one(other):
    context = StorageContext.from_defaults()
    documents = [Document(id_="a", text="Anna met Bert."), Document(id_="b", text="Cleo left.")]
    index = E2GraphRAGIndex.from_documents(documents, storage_context=context, **grouped(MODELS))
    embeddings = {"embed_model": MockEmbedding(4)} if other is VectorStoreIndex else {}
    second = other.from_documents(documents, storage_context=context, **embeddings)
    second.refresh_ref_docs([Document(id_="a", text="Dora sold it."), documents[1]])
    second.delete_ref_doc("b", delete_from_docstore=True)
    found = [one.text for one in second.as_retriever().retrieve("Dora")]
    assert found == ["Dora sold it."]
    assert sorted(index.ref_doc_info) == ["a", "b"]
    with pytest.raises(InvalidInputError, match="can only be read"):
        index.docstore.delete_ref_doc("b")
