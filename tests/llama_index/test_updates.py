"""Updates and deletes leave no trace of the old text, in any store, sync and async."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.vector_stores import SimpleVectorStore

from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    IndexingError,
    InvalidInputError,
    StoreError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser
from fakes import STORY, NameExtractor
from llama_fakes import OTHER
from llama_stores import (
    KINDS,
    NO_QDRANT_INDEXES,
    ONE_EACH,
    Distinct,
    entries,
    everything,
    new_store,
    texts_of,
)

pytestmark = pytest.mark.filterwarnings(NO_QDRANT_INDEXES)

SETTINGS = {
    "embed_model": Distinct(),
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

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
EACH_STORE = pytest.mark.parametrize("kind", [*ONE_EACH, "faiss-l2"])


@pytest.fixture
def store_of(tmp_path):
    with ExitStack() as closing:
        yield partial(new_store, folder=tmp_path, closing=closing)


@pytest.fixture
def marked():
    return Document(id_="marked", text=MARKED, metadata={"title": "Xylothek", "place": "Zembla"})


def over(store):
    return StorageContext.from_defaults(vector_store=store)


def build(documents, store=None, **options):
    context = StorageContext.from_defaults(vector_store=store)
    given = SETTINGS | {"extractor": NameExtractor()} | options
    return E2GraphRAGIndex.from_documents(documents, context, **given)


async def call(is_async, index, method, *args, **options):
    if is_async:
        return await getattr(index, f"a{method}")(*args, **options)
    return getattr(index, method)(*args, **options)


def answers(index):
    return [
        [(n.node_id, n.text, n.score) for n in index.as_retriever(mode).retrieve(question)]
        for question in QUESTIONS
        for mode in ("local", "global", "adaptive")
    ]


def assert_same_answers(index, other):
    # The extractive summary of a lone chunk is its twin: either may come first.
    texts = Counter(texts_of(other))
    for own, expected in zip(answers(index), answers(other), strict=True):
        assert [text for _, text, _ in own] == [text for _, text, _ in expected]
        assert [i for i, t, _ in own if texts[t] == 1] == [
            i for i, t, _ in expected if texts[t] == 1
        ]
        assert [score for *_, score in own] == pytest.approx([s for *_, s in expected], abs=1e-5)


def assert_whole(index):
    """Check that struct, docstore and vector store hold the same nodes and nothing else."""
    records = list(index.storage.struct.records())
    nodes = {node.id for record in records for node in record.nodes}
    docstore = index.storage_context.docstore
    assert set(docstore.docs) == nodes
    windows = [w.stored for record in records for w in record.windows]
    assert sorted(windows) == sorted(entries(index.storage_context.vector_store))
    expected = {r.id: {node.id for node in r.nodes} for r in records}
    for info in (index.ref_doc_info, docstore.get_all_ref_doc_info() or {}):
        assert {id_: set(one.node_ids) for id_, one in info.items()} == {
            id_: ids for id_, ids in expected.items() if ids or info is index.ref_doc_info
        }
    saved = index.storage_context.index_store.get_index_struct(index.index_id)
    assert saved.to_dict() == index.storage.struct.to_dict()
    assert_linked(docstore.docs)


def assert_linked(nodes):
    """Check that every link leads to a node that links back."""
    for id_, node in nodes.items():
        links = node.relationships
        assert node.source_node.node_id == node.metadata["e2_tree"]
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


def traces(index):
    """Return what is left of the marked text, wherever an index may have it."""
    held = json.loads(json.dumps(everything(index), default=repr))
    del held["struct"]["documents"], held["index"]  # encoded: the decoded records stand for them
    found = MARKS.findall(json.dumps(held))
    names = [name for r in index.storage.struct.records() for name in r.mentions.names]
    graph = [name for name in index.graph.names if MARKS.search(name)]
    return found + [name for name in names if MARKS.search(name)] + graph


def test_the_marked_text_leaves_traces_where_they_are_looked_for(documents, marked):
    index = build([*documents, marked])
    held = everything(index)
    assert MARKS.search(json.dumps(held["documents"]))
    assert MARKS.search(repr(held["records"]))
    assert MARKS.search(json.dumps(held["vectors"]))
    assert len(traces(index)) > 10
    assert_whole(index)


# No trace


@EACH_STORE
@BOTH
async def test_a_deleted_document_leaves_no_trace(kind, is_async, store_of, documents, marked):
    index = build([*documents, marked], store_of(kind))
    await call(is_async, index, "delete_ref_doc", "marked")
    assert traces(index) == []
    assert set(index.ref_doc_info) == {"story", "other"}
    assert index.storage_context.docstore.get_document_hash("marked") is None
    assert_whole(index)
    assert_same_answers(index, build(documents))


@EACH_STORE
@BOTH
@pytest.mark.parametrize("method", ["update_ref_doc", "refresh_ref_docs"])
async def test_an_updated_document_leaves_no_trace_of_its_old_text(
    kind, is_async, method, store_of, documents, marked
):
    index = build([*documents, marked], store_of(kind))
    new = Document(id_="marked", text=f"Anna wrote a book. {OTHER}", metadata={"title": "New"})
    done = await call(is_async, index, method, new if method == "update_ref_doc" else [new])
    assert done in (None, [True])
    assert traces(index) == []
    assert index.ref_doc_info["marked"].metadata == {"title": "New"}
    assert_whole(index)
    assert_same_answers(index, build([*documents, new]))


@EACH_STORE
@BOTH
async def test_deleted_nodes_leave_no_trace(kind, is_async, store_of, documents, marked):
    index = build([*documents, marked], store_of(kind))
    chunks = [n.id for n in index.storage.struct.record("marked").leaves]
    await call(is_async, index, "delete_nodes", chunks)
    assert traces(index) == []
    assert_whole(index)
    assert_same_answers(index, build(documents))


@EACH_STORE
@BOTH
async def test_a_document_can_come_back_after_its_delete(kind, is_async, store_of, documents):
    index = build(documents, store_of(kind))
    for document in (*documents, documents[0]):
        await call(is_async, index, "delete_ref_doc", document.node_id)
        assert_whole(index)
        await call(is_async, index, "insert", document)
        assert_whole(index)
    assert_same_answers(index, build(documents))


@EACH_STORE
@BOTH
async def test_nodes_of_several_documents_are_deleted_at_once(
    kind, is_async, store_of, documents, marked
):
    # In the order of their ids: what goes for the first moves the vectors of the others in FAISS.
    ordered = sorted([*documents, marked], key=lambda document: document.node_id)
    index, simple = build(ordered, store_of(kind)), build(ordered)
    gone = [record.leaves[0].id for record in index.storage.struct.records()] + ["unknown"]
    await call(is_async, index, "delete_nodes", gone)
    simple.delete_nodes(gone)
    assert_whole(index)
    assert not set(gone) & set(index.storage_context.docstore.docs)
    assert_same_answers(index, simple)


@EACH_STORE
def test_an_emptied_index_takes_other_settings_and_models(kind, store_of, documents):
    index = build(documents, store_of(kind))
    for id_ in ("story", "other"):
        index.delete_ref_doc(id_)
    assert_whole(index)
    assert index.ref_doc_info == {}
    assert index.made_with == {}
    assert all(found == [] for found in answers(index))
    index.insert(documents[0])
    assert_same_answers(index, build(documents[:1]))


@BOTH
async def test_the_docstore_keeps_the_text_if_asked(is_async, documents):
    index = build(documents)
    before = set(index.storage_context.docstore.docs)
    await call(is_async, index, "delete_ref_doc", "story", delete_from_docstore=False)
    assert set(index.storage_context.docstore.docs) == before
    assert set(index.ref_doc_info) == {"other"}
    assert_same_answers(index, build(documents[1:]))


def test_a_document_that_is_not_there_is_passed_over(documents, caplog):
    index = build(documents)
    before = copy.deepcopy(everything(index))
    with caplog.at_level(logging.WARNING):
        index.delete_ref_doc("nobody")
    assert "nobody is not in the index" in caplog.text
    index.delete_nodes(["nobody", "story"])
    assert everything(index) == before


# LlamaIndex's traps (section 1 of the research: e, f, g)


@EACH_STORE
@BOTH
@pytest.mark.parametrize("by", ["document", "nodes"])
async def test_no_node_of_many_is_skipped(kind, is_async, by, store_of):
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
    assert not entries(index.storage_context.vector_store)


@BOTH
async def test_a_refresh_is_one_batch(is_async, documents, marked, monkeypatch):
    index = build([*documents, marked])
    saved = []
    real = SimpleIndexStore.add_index_struct
    monkeypatch.setattr(
        SimpleIndexStore,
        "add_index_struct",
        lambda self, struct: (saved.append(struct.index_id), real(self, struct))[0],
    )
    changed = [
        Document(id_="story", text=f"{STORY} The end."),
        documents[1],
        Document(id_="marked", text="Anna left Oslo."),
        Document(id_="new", text=OTHER.replace("Fay", "Ida")),
    ]
    assert await call(is_async, index, "refresh_ref_docs", changed) == [True, False, True, True]
    assert saved.count(index.index_id) <= 2  # changed, and cleared of what was old
    assert_whole(index)
    assert_same_answers(index, build(changed))
    assert await call(is_async, index, "refresh_ref_docs", changed) == [False] * 4
    assert saved.count(index.index_id) <= 2  # changed, and cleared of what was old


@BOTH
async def test_other_metadata_make_another_document(is_async, documents):
    index = build(documents)
    story = documents[0].model_copy(deep=True)
    story.metadata["year"] = 1999
    assert await call(is_async, index, "refresh_ref_docs", [story, documents[1]]) == [True, False]
    assert_whole(index)
    node, *_ = index.as_retriever("global").retrieve(QUESTIONS[0])
    assert node.metadata["year"] == 1999
    assert index.ref_doc_info["story"].metadata["year"] == 1999


# Models that fail or are not needed


class Talker(MockLLM):
    """Says the same of the same, counts, and fails when told to."""

    _calls: int = PrivateAttr(default=0)
    _fails_after: int | None = PrivateAttr(default=None)

    def complete(self, prompt, formatted=False, **kwargs):
        self._calls += 1
        if self._fails_after is not None and self._calls > self._fails_after:
            raise ValueError("out of words")
        return super().complete(f"A digest of {len(prompt)} characters.", formatted, **kwargs)


@BOTH
async def test_unchanged_documents_cost_no_call(is_async, documents):
    llm = Talker()
    index = build(documents, llm=llm)
    first = llm._calls
    assert first > 0
    assert await call(is_async, index, "refresh_ref_docs", documents) == [False, False]
    await call(is_async, index, "update_ref_doc", documents[0])
    await call(is_async, index, "insert", documents[1])
    assert llm._calls == first
    assert set(index.last_report.skipped) == {"other"}
    longer = Document(id_="other", text=f"{OTHER} Gus slept.", metadata=documents[1].metadata)
    await call(is_async, index, "update_ref_doc", longer)
    assert first < llm._calls < 2 * first  # of the old part summaries are kept


@EACH_STORE
@BOTH
@pytest.mark.parametrize("after", [0, 1])
async def test_an_update_keeps_the_old_version_when_the_llm_fails(
    kind, is_async, after, store_of, documents
):
    llm = Talker()
    index = build(documents, store_of(kind), llm=llm)
    before, answered = copy.deepcopy(everything(index)), answers(index)
    changed = [
        Document(id_="story", text=MARKED),
        Document(id_="new", text=MARKED.replace("Anna", "Ida")),
    ]
    llm._fails_after = llm._calls + after
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "update_ref_doc", changed[0])
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "refresh_ref_docs", changed)
    assert everything(index) == before
    assert answers(index) == answered
    llm._fails_after = None
    assert await call(is_async, index, "refresh_ref_docs", changed) == [True, True]
    assert_whole(index)


@BOTH
async def test_inserting_another_content_is_refused(is_async, documents):
    index = build(documents)
    before = copy.deepcopy(everything(index))
    with pytest.raises(DuplicateDocumentError, match="update_ref_doc"):
        await call(is_async, index, "insert", Document(id_="story", text=OTHER))
    assert everything(index) == before


@pytest.mark.parametrize("method", ["add_documents", "set_document_hash"])
def test_an_update_keeps_the_old_version_when_the_docstore_fails(
    method, documents, marked, monkeypatch
):
    index = build(documents)
    before = copy.deepcopy(everything(index))
    real = getattr(SimpleDocumentStore, method)

    def breaks(self, *args, **kwargs):
        real(self, *args, **kwargs)
        monkeypatch.undo()  # one error, then it works again
        raise OSError("disk full")

    monkeypatch.setattr(SimpleDocumentStore, method, breaks)
    new = Document(id_="story", text=f"{STORY} {MARKED}", metadata={"title": "A Map"})
    with pytest.raises(StoreError, match="disk full"):
        index.refresh_ref_docs([new, marked])
    assert traces(index) == []
    assert everything(index) == before


# Parts of documents


@EACH_STORE
@BOTH
async def test_without_a_chunk_the_summaries_above_it_go_and_links_are_mended(
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
    left = record.leaves[3].id, record.leaves[5].id
    await call(is_async, index, "delete_nodes", [chunk.id])
    docs = index.storage_context.docstore.docs
    assert set(index.ref_doc_info["long"].node_ids) == set(nodes) - above - {chunk.id}
    assert docs[left[0]].next_node.node_id == left[1]
    assert docs[left[0]].parent_node is None
    assert_whole(index)
    for question in QUESTIONS:
        found = index.as_retriever("global", similarity_top_k=100).retrieve(question)
        assert not {n.node_id for n in found} & (above | {chunk.id})


@EACH_STORE
@BOTH
async def test_a_deleted_summary_leaves_its_chunks(kind, is_async, store_of, documents):
    index = build(documents, store_of(kind))
    record = index.storage.struct.record("story")
    summaries = [node.id for node in record.nodes if node.level]
    await call(is_async, index, "delete_nodes", summaries)
    assert set(index.ref_doc_info["story"].node_ids) == {node.id for node in record.leaves}
    assert_whole(index)


def pages(first, count):
    """Return chunks of one document without a text of its own."""
    texts = [f"Page {n} tells of Anna{n} and Bert{n} in Oslo." for n in range(first, first + count)]
    return [
        TextNode(
            id_=f"00000000-0000-4000-8000-{first + number:012}",
            text=text,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")},
        )
        for number, text in enumerate(texts)
    ]


@EACH_STORE
@BOTH
async def test_more_chunks_of_a_document_extend_its_tree(kind, is_async, store_of):
    given = SETTINGS | {"extractor": NameExtractor()}
    index = E2GraphRAGIndex(pages(0, 3), storage_context=over(store_of(kind)), **given)
    await call(is_async, index, "insert_nodes", pages(3, 4))
    await call(is_async, index, "insert_nodes", pages(2, 2))  # they are there
    assert_whole(index)
    assert [n.id for n in index.storage.struct.record("book").leaves] == [
        node.node_id for node in pages(0, 7)
    ]
    assert_same_answers(index, E2GraphRAGIndex(pages(0, 7), **given))


@BOTH
async def test_an_edited_chunk_takes_the_place_of_the_old_one_alone(is_async):
    given = SETTINGS | {"extractor": NameExtractor()}
    index = E2GraphRAGIndex(pages(0, 5), **given)
    edited = pages(2, 1)[0]
    edited.text = "Page two tells of Cleo."
    await call(is_async, index, "insert_nodes", [edited])
    assert_whole(index)
    found = index.ref_doc_info["book"].node_ids
    assert {node.node_id for node in pages(0, 5)} <= set(found)
    assert index.storage_context.docstore.get_node(edited.node_id).get_content() == edited.text
    assert "Anna2" not in json.dumps(everything(index)["documents"])


@BOTH
async def test_chunks_come_back_after_their_delete(is_async):
    given = SETTINGS | {"extractor": NameExtractor()}
    index = E2GraphRAGIndex(pages(0, 5), **given)
    last = pages(4, 1)
    await call(is_async, index, "delete_nodes", [last[0].node_id])
    await call(is_async, index, "insert_nodes", last)
    assert_whole(index)
    assert_same_answers(index, E2GraphRAGIndex(pages(0, 5), **given))


@BOTH
async def test_metadata_of_a_deleted_chunk_leave_no_trace(is_async):
    given = SETTINGS | {"extractor": NameExtractor()}
    nodes = pages(0, 4)
    nodes[1].metadata["keeper"] = "Quorbius"
    index = E2GraphRAGIndex(nodes, **given)
    assert traces(index)
    await call(is_async, index, "delete_nodes", [nodes[1].node_id])
    assert traces(index) == []
    assert_whole(index)


@BOTH
async def test_nodes_of_a_parser_replace_those_of_the_old_version(is_async, documents):
    parser = SummaryTreeNodeParser(chunk_size=16, chunk_overlap=4, group_size=3)
    given = SETTINGS | {"extractor": NameExtractor()}
    index = E2GraphRAGIndex(parser.get_nodes_from_documents(documents), **given)
    new = Document(id_="story", text=MARKED, metadata={"title": "Old"})
    await call(is_async, index, "insert_nodes", parser.get_nodes_from_documents([new]))
    assert_whole(index)
    assert not any("map" in n.get_content() for n in index.storage_context.docstore.docs.values())
    newest = Document(id_="story", text=OTHER, metadata={"title": "New"})
    await call(is_async, index, "update_ref_doc", newest)
    assert traces(index) == []
    assert_whole(index)


# Any sequence

VERSIONS = {
    id_: [
        Document(
            id_=id_,
            text=" ".join(
                f"{name}{n} met Anna in Oslo at {n * 7} bells." for n in range(start, end)
            ),
            metadata={"year": start, "name": name},
        )
        for start, end in ((0, 1), (0, 4), (2, 9))
    ]
    for id_, name in (("a", "Bert"), ("b", "Cleo"), ("c", "Dora"), ("d", "Emil"))
}
STEP = st.tuples(
    st.sampled_from(["insert", "update", "refresh", "delete", "delete nodes"]),
    st.sampled_from(sorted(VERSIONS)),
    st.integers(0, 2),
)


@pytest.mark.parametrize("kind", ["simple", "faiss-ip", "faiss-map"])
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEP, min_size=2, max_size=8))
def test_after_any_sequence_answers_are_those_of_a_fresh_index(kind, steps):
    there: dict[str, Document] = {}
    index = build([], new_store(kind, None, None))
    for step, id_, version in steps:
        document = VERSIONS[id_][version]
        if step == "insert" and there.get(id_, document) is document:
            index.insert(document)
            there[id_] = document
        elif step == "update":
            index.update_ref_doc(document)
            there[id_] = document
        elif step == "refresh":
            both = [document, VERSIONS["a"][version]]
            flags = index.refresh_ref_docs(both)
            assert flags == [there.get(d.node_id) is not d for d in both]
            there |= {d.node_id: d for d in both}
        elif step == "delete":
            index.delete_ref_doc(id_)
            there.pop(id_, None)
        elif step == "delete nodes" and id_ in there:
            index.delete_nodes(index.ref_doc_info.pop(id_).node_ids)
            del there[id_]
        assert_whole(index)
    assert set(index.ref_doc_info) == set(there)
    assert_same_answers(index, build(list(there.values())))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ONE_EACH])
async def test_writers_in_one_loop_take_turns(kind, store_of):
    index = build([], store_of(kind))
    last = [versions[2] for versions in VERSIONS.values()]
    await asyncio.gather(*(index.ainsert(versions[0]) for versions in VERSIONS.values()))
    await asyncio.gather(*(index.aupdate_ref_doc(document) for document in last))
    await asyncio.gather(index.adelete_ref_doc("a"), index.adelete_ref_doc("b"))
    assert_whole(index)
    assert_same_answers(index, build(last[2:]))


def test_two_indexes_over_one_document_do_not_take_it_from_each_other(index_of, documents):
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


class Failing(SimpleDocumentStore):
    """Fails to delete, as long as it is told to."""

    fails = False

    def delete_document(self, doc_id, raise_error=True):
        if self.fails:
            raise OSError("the disk is gone")
        super().delete_document(doc_id, raise_error)


@pytest.mark.parametrize("how", ["delete_ref_doc", "update_ref_doc", "delete_nodes"])
def test_what_a_failed_removal_leaves_the_next_write_removes(index_of, documents, how, tmp_path):
    context = StorageContext.from_defaults(docstore=Failing())
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
        for mode in ("local", "global"):  # the index is whole all the same
            assert one.as_retriever(mode).retrieve("Fay and Gus?")
    context.docstore.fails = False
    for one in (index, opened):
        one.delete_ref_doc("nobody")
        assert_whole(one)
        assert one.storage.struct.leftovers == {}
    if how != "delete_nodes":
        assert not old & set(context.docstore.docs)


def test_two_handles_of_one_index_do_not_lose_each_others_documents(index_of, documents):
    one = index_of(documents[:1])
    options = {"embed_model": "hashing", "extractor": NameExtractor()}
    other = E2GraphRAGIndex.from_storage(one.storage_context, **options)
    one.insert(documents[1])
    other.insert(Document(id_="third", text="Kit met Lea in Rome."))
    one.delete_ref_doc("story")
    again = E2GraphRAGIndex.from_storage(one.storage_context, **options)
    assert set(again.ref_doc_info) == {"other", "third"}
    assert set(one.ref_doc_info) == {"other", "third"}
    assert_whole(again)


def test_many_documents_in_one_call_are_sorted_out_in_good_time(index_of):
    few = [Document(id_=f"d{i}", text=f"Anna{i} met Bert{i}.") for i in range(40)]
    index = index_of(few)
    many = few + [Document(id_=f"e{i}", text="") for i in range(20_000)]
    assert sum(index.refresh_ref_docs(many)) == 20_000


class Forgetful(SimpleIndexStore):
    """Fails to store a struct, as long as it is told to."""

    fails = False

    def add_index_struct(self, index_struct):
        if self.fails:
            raise ConnectionError("nobody answers")
        super().add_index_struct(index_struct)


def test_what_the_index_store_did_not_take_the_next_write_stores(index_of, documents, tmp_path):
    context = StorageContext.from_defaults(index_store=Forgetful())
    index = index_of(documents[:1], storage_context=context)
    context.index_store.fails = True
    with pytest.raises(StoreError, match="nobody answers"):
        index.insert(documents[1])
    context.index_store.fails = False
    index.insert(documents[1])  # nothing new, but now it is stored
    index.persist(tmp_path / "store")
    opened = E2GraphRAGIndex.from_persist_dir(tmp_path / "store", extractor=NameExtractor())
    assert set(opened.ref_doc_info) == {"story", "other"}
    assert_whole(opened)


def test_one_string_is_no_list_of_nodes_to_delete(index_of):
    index = index_of([Document(id_="a", text="Anna met Bert.")])
    before = set(index.docstore.docs)
    for wrong in (5, None, [[]]):
        with pytest.raises(InvalidInputError):
            index.delete_nodes(wrong)
    index.delete_nodes("".join(before)[:3])  # one id, which nobody has
    assert set(index.docstore.docs) == before


def test_offsets_that_make_no_sense_cost_no_memory(index_of):
    far = 3 * 10**12
    node = TextNode(text="Anna met Bert.", start_char_idx=far, end_char_idx=far + 14)
    index = E2GraphRAGIndex([node], embed_model="hashing", extractor=NameExtractor())
    assert index.as_retriever().retrieve("Anna?")[0].node.start_char_idx == far


@pytest.mark.parametrize("answer", [None, [], ["a"] * 99])
def test_a_vector_store_that_gives_no_ids_back_is_told_of(index_of, documents, answer):
    class Lying(SimpleVectorStore):
        def add(self, nodes, **kwargs):
            super().add(nodes, **kwargs)
            return answer

    context = StorageContext.from_defaults(vector_store=Lying())
    with pytest.raises(StoreError, match="did not take the vectors"):
        index_of(documents, storage_context=context)
    assert not context.docstore.docs
    assert not context.vector_store.data.embedding_dict


def node_of(number):
    node = TextNode(id_=f"n{number}", text=f"Cleo met Bert {number} times.")
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="doc", hash="h")
    return node


async def test_nodes_inserted_into_one_document_at_once_are_all_there(index_of):
    index = index_of([])
    index.insert_nodes([node_of(0)])
    await asyncio.gather(*(index.ainsert_nodes([node_of(number)]) for number in range(1, 5)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: index.insert_nodes([node_of(number)]), range(5, 9)))
    assert {f"n{number}" for number in range(9)} <= set(index.docstore.docs)
    [record] = index.index_struct.records()
    assert {leaf.id for leaf in record.leaves} == {f"n{number}" for number in range(9)}
