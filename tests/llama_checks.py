"""Builders and checks for tests that write to a LlamaIndex index."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore

from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.store.tables.mirrored_vectors import read_mirrored
from fakes import NameExtractor
from llama_stores import Distinct, docstore_texts, stored_entries

SETTINGS = {
    "embed_model": Distinct(),
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
    "group_size": 3,
}
QUESTIONS = (
    "What did Anna give Bert?",
    "Who burned the mill that Fay built in Bergen?",
    "Where did the flour and the map go by sea in the winter, and who saw it?",
)
MARKED = (
    "Quorbius kept a xylothek in Zembla. Anna asked Quorbius for a book of wood. "
    "Vexilla stole the xylothek at noon. Quorbius wept over the wood of the xylothek. "
    "Zembla forgot Vexilla."
)
MARKS = re.compile("quorbius|xylothek|vexilla|zembla", re.IGNORECASE)
"""Words that occur in `MARKED` only."""

SYNC_AND_ASYNC = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
EACH_STORE = pytest.mark.parametrize("kind", ["simple", "faiss-map", "qdrant", "chroma-cosine"])


def marked_document():
    return Document(id_="marked", text=MARKED, metadata={"title": "Xylothek", "place": "Zembla"})


def build(documents, store=None, **options):
    """Return an index of documents with small chunks, over a vector store."""
    context = StorageContext.from_defaults(vector_store=store)
    return E2GraphRAGIndex.from_documents(documents, context, **grouped(SETTINGS | options))


async def call(is_async, index, method, *args, **options):
    """Call a method of an index, or its async variant."""
    if is_async:
        return await getattr(index, f"a{method}")(*args, **options)
    return getattr(index, method)(*args, **options)


def page_nodes(first, count):
    """Return nodes of the document `book`, which has no text of its own."""
    return [
        TextNode(
            id_=f"00000000-0000-4000-8000-{number:012}",
            text=f"Page {number} tells of Anna{number} and Bert{number} in Oslo.",
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")},
        )
        for number in range(first, first + count)
    ]


def results(index):
    """Return ids, texts and scores of the results for each question and mode."""
    return [
        [(n.node_id, n.text, n.score) for n in index.as_retriever(mode).retrieve(question)]
        for question in QUESTIONS
        for mode in ("local", "global", "adaptive")
    ]


def assert_same_results(index, other):
    """Check that two indexes return the same results."""
    # A single chunk and its extractive summary have equal texts, so either may come first.
    texts = Counter(docstore_texts(other))
    for own, expected in zip(results(index), results(other), strict=True):
        assert [text for _, text, _ in own] == [text for _, text, _ in expected]
        assert [i for i, t, _ in own if texts[t] == 1] == [
            i for i, t, _ in expected if texts[t] == 1
        ]
        assert [score for *_, score in own] == pytest.approx([s for *_, s in expected], abs=1e-5)


def export(index):
    """Return the content of an index, apart from what is pending."""
    return list(index.rag.export())


def assert_consistent(index):
    """Check that everything is built, and that all stores show the same nodes."""
    reader = index.rag
    assert reader.verify().ok
    assert not reader.pending.read()
    nodes = index.docstore.docs
    assert len(nodes) == len(list(reader.store.all_nodes()))
    for id_, info in index.ref_doc_info.items():
        assert index.docstore.get_ref_doc_info(id_).node_ids == info.node_ids
        assert all(
            nodes[node].ref_doc_id in (id_, nodes[node].metadata["e2_tree"])
            for node in info.node_ids
        )
    assert {id_ for info in index.ref_doc_info.values() for id_ in info.node_ids} == set(nodes)
    saved = index.storage_context.index_store.get_index_struct(index.index_id)
    assert saved.to_dict() == index.index_struct.to_dict()
    entries = stored_entries(index.vector_store)
    if isinstance(index.vector_store, SimpleVectorStore):
        assert not entries
    else:
        assert set(entries) == read_mirrored(reader.store, type(index.vector_store).__name__)
    assert_linked(nodes)


def assert_linked(nodes):
    """Check that every link leads to a node that links back."""
    for id_, node in nodes.items():
        links = node.relationships
        parent = links.get(NodeRelationship.PARENT)
        if parent is not None:
            assert id_ in [child.node_id for child in nodes[parent.node_id].child_nodes]
        for child in links.get(NodeRelationship.CHILD, []):
            assert nodes[child.node_id].parent_node.node_id == id_
        if NodeRelationship.NEXT in links:
            assert nodes[node.next_node.node_id].prev_node.node_id == id_
            assert nodes[node.next_node.node_id].metadata["e2_level"] == node.metadata["e2_level"]
        if NodeRelationship.PREVIOUS in links:
            assert nodes[node.prev_node.node_id].next_node.node_id == id_


def find_traces(index):
    """Return the words of the marked text in the index and in all stores, also in free space."""
    context = index.storage_context
    texts = [*export(index), *docstore_texts(index), repr(stored_entries(context.vector_store))]
    content = index.rag.content().decode("utf-8", "ignore")
    return MARKS.findall(" ".join([*texts, content]))
