"""`InsertPipeline`: inserts, updates and refreshes, sync and async, with every vector store."""

from __future__ import annotations

import asyncio
import copy
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.index_store import SimpleIndexStore

from e2graphrag_integrations.errors import DuplicateDocumentError, IndexingError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser
from fakes import STORY, NameExtractor
from llama_checks import (
    EACH_STORE,
    MARKED,
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
from llama_stores import KINDS, NO_QDRANT_INDEXES, ONE_EACH, dump_index, new_store
from strategies import examples

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(NO_QDRANT_INDEXES)]


@pytest.fixture
def store_of(tmp_path):
    with ExitStack() as closing:
        yield partial(new_store, folder=tmp_path, closing=closing)


@pytest.fixture
def marked():
    return marked_document()


@EACH_STORE
@SYNC_AND_ASYNC
@pytest.mark.parametrize("method", ["update_ref_doc", "refresh_ref_docs"])
async def test_an_updated_document_leaves_no_trace_of_its_old_text(
    kind, is_async, method, store_of, documents, marked
):
    index = build([*documents, marked], store_of(kind))
    new = Document(id_="marked", text=f"Anna wrote a book. {OTHER}", metadata={"title": "New"})
    done = await call(is_async, index, method, new if method == "update_ref_doc" else [new])
    assert done in (None, [True])
    assert find_traces(index) == []
    assert index.ref_doc_info["marked"].metadata == {"title": "New"}
    assert_consistent(index)
    assert_same_results(index, build([*documents, new]))


@SYNC_AND_ASYNC
async def test_refresh_saves_the_struct_at_most_twice(is_async, documents, marked, monkeypatch):
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
    assert saved.count(index.index_id) <= 2  # after the change, and after the removal
    assert_consistent(index)
    assert_same_results(index, build(changed))
    assert await call(is_async, index, "refresh_ref_docs", changed) == [False] * 4
    assert saved.count(index.index_id) <= 2  # after the change, and after the removal


@SYNC_AND_ASYNC
async def test_changed_metadata_count_as_a_change_of_the_document(is_async, documents):
    index = build(documents)
    story = documents[0].model_copy(deep=True)
    story.metadata["year"] = 1999
    assert await call(is_async, index, "refresh_ref_docs", [story, documents[1]]) == [True, False]
    assert_consistent(index)
    node, *_ = index.as_retriever("global").retrieve(QUESTIONS[0])
    assert node.metadata["year"] == 1999
    assert index.ref_doc_info["story"].metadata["year"] == 1999


class FailingLLM(MockLLM):
    """Answers equal prompts equally, counts calls, and fails after a number of calls."""

    _calls: int = PrivateAttr(default=0)
    _fails_after: int | None = PrivateAttr(default=None)

    def complete(self, prompt, formatted=False, **kwargs):
        self._calls += 1
        if self._fails_after is not None and self._calls > self._fails_after:
            raise ValueError("out of words")
        return super().complete(f"A digest of {len(prompt)} characters.", formatted, **kwargs)


@SYNC_AND_ASYNC
async def test_unchanged_documents_cost_no_llm_call(is_async, documents):
    llm = FailingLLM()
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
    assert first < llm._calls < 2 * first  # summaries of the unchanged part are reused


@EACH_STORE
@SYNC_AND_ASYNC
@pytest.mark.parametrize("after", [0, 1])
async def test_an_update_keeps_the_old_version_when_the_llm_fails(
    kind, is_async, after, store_of, documents
):
    llm = FailingLLM()
    index = build(documents, store_of(kind), llm=llm)
    before, answered = copy.deepcopy(dump_index(index)), results(index)
    changed = [
        Document(id_="story", text=MARKED),
        Document(id_="new", text=MARKED.replace("Anna", "Ida")),
    ]
    llm._fails_after = llm._calls + after
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "update_ref_doc", changed[0])
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "refresh_ref_docs", changed)
    assert dump_index(index) == before
    assert results(index) == answered
    llm._fails_after = None
    assert await call(is_async, index, "refresh_ref_docs", changed) == [True, True]
    assert_consistent(index)


@SYNC_AND_ASYNC
async def test_insert_rejects_a_stored_document_with_different_content(is_async, documents):
    index = build(documents)
    before = copy.deepcopy(dump_index(index))
    with pytest.raises(DuplicateDocumentError, match="update_ref_doc"):
        await call(is_async, index, "insert", Document(id_="story", text=OTHER))
    assert dump_index(index) == before


@EACH_STORE
@SYNC_AND_ASYNC
async def test_new_chunks_of_a_stored_document_extend_its_tree(kind, is_async, store_of):
    index = E2GraphRAGIndex(
        page_nodes(0, 3),
        storage_context=StorageContext.from_defaults(vector_store=store_of(kind)),
        **SETTINGS,
    )
    await call(is_async, index, "insert_nodes", page_nodes(3, 4))
    await call(is_async, index, "insert_nodes", page_nodes(2, 2))  # already stored
    assert_consistent(index)
    assert [n.id for n in index.storage.struct.record("book").leaves] == [
        node.node_id for node in page_nodes(0, 7)
    ]
    assert_same_results(index, E2GraphRAGIndex(page_nodes(0, 7), **SETTINGS))


@SYNC_AND_ASYNC
async def test_an_edited_chunk_replaces_only_the_old_chunk(is_async):
    index = E2GraphRAGIndex(page_nodes(0, 5), **SETTINGS)
    edited = page_nodes(2, 1)[0]
    edited.text = "Page two tells of Cleo."
    await call(is_async, index, "insert_nodes", [edited])
    assert_consistent(index)
    found = index.ref_doc_info["book"].node_ids
    assert {node.node_id for node in page_nodes(0, 5)} <= set(found)
    assert index.storage_context.docstore.get_node(edited.node_id).get_content() == edited.text
    assert "Anna2" not in json.dumps(dump_index(index)["documents"])


@SYNC_AND_ASYNC
async def test_deleted_chunks_can_be_inserted_again(is_async):
    index = E2GraphRAGIndex(page_nodes(0, 5), **SETTINGS)
    last = page_nodes(4, 1)
    await call(is_async, index, "delete_nodes", [last[0].node_id])
    await call(is_async, index, "insert_nodes", last)
    assert_consistent(index)
    assert_same_results(index, E2GraphRAGIndex(page_nodes(0, 5), **SETTINGS))


@SYNC_AND_ASYNC
async def test_parsed_nodes_of_a_new_version_replace_the_old_version(is_async, documents):
    parser = SummaryTreeNodeParser(chunk_size=16, chunk_overlap=4, group_size=3)
    index = E2GraphRAGIndex(parser.get_nodes_from_documents(documents), **SETTINGS)
    new = Document(id_="story", text=MARKED, metadata={"title": "Old"})
    await call(is_async, index, "insert_nodes", parser.get_nodes_from_documents([new]))
    assert_consistent(index)
    assert not any("map" in n.get_content() for n in index.storage_context.docstore.docs.values())
    newest = Document(id_="story", text=OTHER, metadata={"title": "New"})
    await call(is_async, index, "update_ref_doc", newest)
    assert find_traces(index) == []
    assert_consistent(index)


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
@examples(12)
@given(steps=st.lists(STEP, min_size=2, max_size=8))
def test_after_any_write_sequence_results_equal_those_of_a_new_index(kind, steps):
    expected: dict[str, Document] = {}
    index = build([], new_store(kind, None, None))
    for step, id_, version in steps:
        document = VERSIONS[id_][version]
        if step == "insert" and expected.get(id_, document) is document:
            index.insert(document)
            expected[id_] = document
        elif step == "update":
            index.update_ref_doc(document)
            expected[id_] = document
        elif step == "refresh":
            both = [document, VERSIONS["a"][version]]
            flags = index.refresh_ref_docs(both)
            assert flags == [expected.get(d.node_id) is not d for d in both]
            expected |= {d.node_id: d for d in both}
        elif step == "delete":
            index.delete_ref_doc(id_)
            expected.pop(id_, None)
        elif step == "delete nodes" and id_ in expected:
            index.delete_nodes(index.ref_doc_info.pop(id_).node_ids)
            del expected[id_]
        assert_consistent(index)
    assert set(index.ref_doc_info) == set(expected)
    assert_same_results(index, build(list(expected.values())))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ONE_EACH])
async def test_concurrent_async_writes_run_one_at_a_time(kind, store_of):
    index = build([], store_of(kind))
    last = [versions[2] for versions in VERSIONS.values()]
    await asyncio.gather(*(index.ainsert(versions[0]) for versions in VERSIONS.values()))
    await asyncio.gather(*(index.aupdate_ref_doc(document) for document in last))
    await asyncio.gather(index.adelete_ref_doc("a"), index.adelete_ref_doc("b"))
    assert_consistent(index)
    assert_same_results(index, build(last[2:]))


def test_refresh_scales_to_5_000_documents(index_of):
    few = [Document(id_=f"d{i}", text=f"Anna{i} met Bert{i}.") for i in range(40)]
    index = index_of(few)
    many = few + [Document(id_=f"e{i}", text="") for i in range(5_000)]
    assert sum(index.refresh_ref_docs(many)) == 5_000


def test_huge_node_offsets_allocate_no_memory(index_of):
    far = 3 * 10**12
    node = TextNode(text="Anna met Bert.", start_char_idx=far, end_char_idx=far + 14)
    index = E2GraphRAGIndex([node], embed_model="hashing", extractor=NameExtractor())
    assert index.as_retriever().retrieve("Anna?")[0].node.start_char_idx == far


def new_node(number):
    node = TextNode(id_=f"n{number}", text=f"Cleo met Bert {number} times.")
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="doc", hash="h")
    return node


async def test_concurrent_inserts_into_one_document_keep_every_node(index_of):
    index = index_of([])
    index.insert_nodes([new_node(0)])
    await asyncio.gather(*(index.ainsert_nodes([new_node(number)]) for number in range(1, 5)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: index.insert_nodes([new_node(number)]), range(5, 9)))
    assert {f"n{number}" for number in range(9)} <= set(index.docstore.docs)
    [record] = index.index_struct.records()
    assert {leaf.id for leaf in record.leaves} == {f"n{number}" for number in range(9)}
