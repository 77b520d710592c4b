"""Writes of documents and nodes, sync and async, with every kind of vector store."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter, get_leaf_nodes
from llama_index.core.schema import (
    IndexNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)
from llama_index.core.storage.index_store import SimpleIndexStore

from e2graphrag_integrations import IndexSettings, Models
from e2graphrag_integrations.errors import DuplicateDocumentError, IndexingError, InvalidInputError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser, pages_of
from e2graphrag_integrations.options import grouped
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
    export,
    find_traces,
    marked_document,
    page_nodes,
    results,
)
from llama_fakes import OTHER, Digests
from llama_stores import NO_QDRANT_INDEXES, docstore_texts, new_store, stored_entries
from strategies import examples

pytestmark = pytest.mark.filterwarnings(NO_QDRANT_INDEXES)


SPLITTER = SentenceSplitter(chunk_size=30, chunk_overlap=0)


@pytest.fixture
def store_of(tmp_path):
    with ExitStack() as closing:
        yield partial(new_store, folder=tmp_path, closing=closing)


@pytest.fixture
def marked():
    return marked_document()


@pytest.mark.fast_cases(2)
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


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_a_write_saves_the_struct_once(is_async, documents, marked, monkeypatch):
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
    assert index.report.skipped == ("other",)
    assert saved == [index.index_id]
    assert_consistent(index)
    assert_same_results(index, build(changed))
    assert await call(is_async, index, "refresh_ref_docs", changed) == [False] * 4


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
    assert set(index.report.skipped) == {"other"}
    longer = Document(id_="other", text=f"{OTHER} Gus slept.", metadata=documents[1].metadata)
    await call(is_async, index, "update_ref_doc", longer)
    assert first < llm._calls < 2 * first  # summaries of the unchanged part are reused


@pytest.mark.fast_cases(1)
@EACH_STORE
@SYNC_AND_ASYNC
async def test_an_update_keeps_the_old_version_until_the_llm_works(
    kind, is_async, store_of, documents
):
    llm = FailingLLM()
    store = store_of(kind)
    index = build(documents, store, llm=llm)
    before, answered, entries = export(index), results(index), stored_entries(store)
    changed = [
        Document(id_="story", text=MARKED),
        Document(id_="new", text=MARKED.replace("Anna", "Ida")),
    ]
    llm._fails_after = llm._calls
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "update_ref_doc", changed[0])
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "refresh_ref_docs", changed)
    assert (export(index), results(index), stored_entries(store)) == (before, answered, entries)
    llm._fails_after = None
    assert await call(is_async, index, "refresh_ref_docs", changed) == [False, False]  # stored
    assert_consistent(index)
    expected = build([*changed, documents[1]], llm=FailingLLM())
    assert export(index) == export(expected)
    assert_same_results(index, expected)


@SYNC_AND_ASYNC
async def test_insert_rejects_a_stored_document_with_different_content(is_async, documents):
    index = build(documents)
    before = export(index)
    with pytest.raises(DuplicateDocumentError, match="update_ref_doc"):
        await call(is_async, index, "insert", Document(id_="story", text=OTHER))
    assert export(index) == before
    assert_consistent(index)


# Nodes


def by_level(index, level=0):
    return [n for n in index.docstore.docs.values() if n.metadata["e2_level"] == level]


@pytest.mark.fast_cases(1)
@EACH_STORE
@SYNC_AND_ASYNC
async def test_new_chunks_of_a_stored_document_extend_its_tree(kind, is_async, store_of):
    index = E2GraphRAGIndex(
        page_nodes(0, 3),
        **grouped(
            {
                "storage_context": StorageContext.from_defaults(vector_store=store_of(kind)),
                **SETTINGS,
            }
        ),
    )
    await call(is_async, index, "insert_nodes", page_nodes(3, 4))
    await call(is_async, index, "insert_nodes", page_nodes(2, 2))  # already stored
    assert_consistent(index)
    expected = [node.node_id for node in page_nodes(0, 7)]
    assert [node.node_id for node in by_level(index)] == expected
    assert export(index) == export(E2GraphRAGIndex(page_nodes(0, 7), **grouped(SETTINGS)))


@SYNC_AND_ASYNC
async def test_an_edited_chunk_replaces_only_the_old_chunk(is_async):
    index = E2GraphRAGIndex(page_nodes(0, 5), **grouped(SETTINGS))
    edited = page_nodes(2, 1)[0]
    edited.text = "Page two tells of Cleo."
    await call(is_async, index, "insert_nodes", [edited])
    assert_consistent(index)
    found = index.ref_doc_info["book"].node_ids
    assert {node.node_id for node in page_nodes(0, 5)} <= set(found)
    assert index.storage_context.docstore.get_node(edited.node_id).get_content() == edited.text
    assert not any("Anna2" in text for text in docstore_texts(index))


@SYNC_AND_ASYNC
async def test_deleted_chunks_can_be_inserted_again(is_async):
    index = E2GraphRAGIndex(page_nodes(0, 5), **grouped(SETTINGS))
    last = page_nodes(4, 1)
    await call(is_async, index, "delete_nodes", [last[0].node_id, "unknown"])
    assert last[0].node_id not in index.docstore.docs
    assert_consistent(index)
    await call(is_async, index, "insert_nodes", last)
    assert_consistent(index)
    assert export(index) == export(E2GraphRAGIndex(page_nodes(0, 5), **grouped(SETTINGS)))


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_only_inserted_nodes_can_be_deleted(is_async, documents):
    index = build(documents)
    index.insert_nodes(page_nodes(0, 5))
    before = export(index)
    given = {node.node_id for node in page_nodes(0, 5)}
    for node in index.docstore.docs.values():
        if node.node_id not in given:
            with pytest.raises(InvalidInputError, match=r"is a part of document .*delete_ref_doc"):
                await call(is_async, index, "delete_nodes", [*given, node.node_id])
    assert export(index) == before
    await call(is_async, index, "delete_nodes", list(given))
    assert export(index) == export(build(documents))


def node_of(number, hash_="h", source="doc"):
    node = TextNode(id_=f"n{number}", text=f"Cleo met Bert {number} times.")
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source, hash=hash_)
    return node


@SYNC_AND_ASYNC
async def test_the_hash_of_the_source_decides_whether_nodes_are_added_or_replace(is_async):
    index = build([])
    ids = lambda: {node.node_id for node in by_level(index)}  # noqa: E731 - used only here
    await call(is_async, index, "insert_nodes", [node_of(1)])
    await call(is_async, index, "insert_nodes", [node_of(2)])
    await call(is_async, index, "insert_nodes", [node_of(3, None)])  # unknown
    assert ids() == {"n1", "n2", "n3"}
    await call(is_async, index, "insert_nodes", [node_of(4, "new"), node_of(9, "x", "other")])
    assert ids() == {"n4", "n9"}
    assert_consistent(index)


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_nodes_of_a_document_are_added_to_its_version_or_replace_it(is_async, documents):
    index = build(documents)
    chunks = len(by_level(index))
    story = documents[0]
    table = TextNode(text="Anna, 3 maps; Bert, 1 map.")
    table.relationships[NodeRelationship.SOURCE] = story.as_related_node_info()
    await call(is_async, index, "insert_nodes", [table])
    assert len(by_level(index)) == chunks + 1
    assert index.docstore.get_node(table.node_id).ref_doc_id == "story"
    assert await call(is_async, index, "refresh_ref_docs", documents) == [False, False]
    changed = Document(id_="story", text="Anna left.")
    nodes = SPLITTER.get_nodes_from_documents([changed])
    await call(is_async, index, "insert_nodes", nodes)
    expected = E2GraphRAGIndex(nodes, **grouped(SETTINGS))
    expected.insert(documents[1])
    assert export(index) == export(expected)
    assert await call(is_async, index, "refresh_ref_docs", [changed]) == [False]
    await call(is_async, index, "insert", changed)  # its nodes are indexed
    assert export(index) == export(expected)
    await call(is_async, index, "update_ref_doc", story)
    assert export(index) == export(build(documents))


def test_nodes_keep_their_class_fields_and_offsets(documents):
    plain = TextNode(
        id_="plain",
        text="Kit met Lea.",
        metadata={"place": "Oslo", "secret": "x"},
        excluded_llm_metadata_keys=["secret"],
        excluded_embed_metadata_keys=["place"],
        text_template="<{metadata_str}> {content}",
        metadata_separator=" / ",
        metadata_template="{key}={value}",
    )
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[120, 40], chunk_overlap=0)
    leaves = get_leaf_nodes(parser.get_nodes_from_documents(documents))
    pointer = IndexNode(id_="pointer", index_id="elsewhere", text="About Ned.")
    given = {node.node_id: node.model_copy(deep=True) for node in (plain, *leaves, pointer)}
    index = E2GraphRAGIndex([plain, *leaves, pointer], **grouped(SETTINGS))
    assert_consistent(index)
    assert {node.node_id for node in by_level(index)} == set(given)
    for id_, own in given.items():
        node = index.docstore.get_node(id_)
        assert type(node) is type(own)
        assert node.get_content(MetadataMode.LLM) == own.get_content(MetadataMode.LLM)
        assert node.get_content(MetadataMode.EMBED) == own.get_content(MetadataMode.EMBED)
        assert (node.start_char_idx, node.ref_doc_id) in (
            (own.start_char_idx, own.ref_doc_id),
            (0, id_),
        )
    assert index.docstore.get_node("pointer").index_id == "elsewhere"
    with pytest.raises(InvalidInputError, match="is a part of document"):
        index.delete_nodes([by_level(index, 1)[0].node_id])


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_transformations_run_only_for_new_and_changed_documents(is_async, documents):
    class Recorder(TransformComponent):
        seen: list = Field(default_factory=list, exclude=True)

        def __call__(self, nodes, **kwargs):
            self.seen.append([node.node_id for node in nodes])
            return SPLITTER(nodes)

    recorder = Recorder()
    index = build(documents, transformations=[recorder])
    changed = Document(id_="other", text="Fay sang.")
    new = Document(id_="new", text="Kit met Lea.")
    refreshed = [documents[0], changed, new]
    assert await call(is_async, index, "refresh_ref_docs", refreshed) == [False, True, True]
    assert index.report.skipped == ("story",)
    await call(is_async, index, "insert", documents[0])
    assert [one for one in recorder.seen if one] == [["story", "other"], ["other", "new"]]
    assert_consistent(index)
    fresh = build(refreshed, transformations=[Recorder()])  # the splitter's ids are random
    assert sorted(docstore_texts(index)) == sorted(docstore_texts(fresh))


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_parsed_nodes_of_a_new_version_replace_the_old_version(is_async, documents):
    parser = SummaryTreeNodeParser(chunk_size=16, chunk_overlap=4, group_size=3)
    index = E2GraphRAGIndex(parser.get_nodes_from_documents(documents), **grouped(SETTINGS))
    new = Document(id_="story", text=MARKED, metadata={"title": "Old"})
    await call(is_async, index, "insert_nodes", parser.get_nodes_from_documents([new]))
    assert_consistent(index)
    assert not any("map" in text for text in docstore_texts(index))
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
    st.sampled_from(["insert", "update", "refresh", "delete", "nodes", "delete nodes", "reload"]),
    st.sampled_from(sorted(VERSIONS)),
    st.integers(0, 2),
)


def nodes_of(document):
    """Return a node with a fixed id for each sentence of a document."""
    return [
        TextNode(
            id_=f"{document.node_id}-{document.hash[:8]}-{number}",
            text=sentence,
            metadata=document.metadata,
            relationships={NodeRelationship.SOURCE: document.as_related_node_info()},
        )
        for number, sentence in enumerate(document.text.split(". "))
    ]


@examples(12)
@given(steps=st.lists(STEP, min_size=2, max_size=8))
def test_any_history_of_writes_ends_in_the_same_index_as_one_build(steps):
    expected: dict[str, tuple[Document, bool]] = {}  # and whether it was inserted as nodes
    index = build([], new_store("faiss-map", None, None))
    for step, id_, version in steps:
        if step == "reload":
            index = E2GraphRAGIndex.from_storage(index.storage_context, **grouped(SETTINGS))
        elif "nodes" in step:
            write_nodes(index, step, VERSIONS[id_][version], expected)
        else:
            write_document(index, step, VERSIONS[id_][version], expected)
        assert_consistent(index)
    assert set(index.ref_doc_info) == set(expected)
    fresh = build([document for document, as_nodes in expected.values() if not as_nodes])
    for document, as_nodes in expected.values():
        if as_nodes:
            fresh.insert_nodes(nodes_of(document))
    assert_same_results(index, fresh)
    assert lines(index) == lines(fresh)


def write_document(index, step, document, expected):
    id_ = document.node_id
    known, as_nodes = expected.get(id_, (document, False))
    if step == "insert" and known is document:
        index.insert(document)
        expected[id_] = document, as_nodes
    elif step == "update":
        index.update_ref_doc(document)
        expected[id_] = document, as_nodes and known is document
    elif step == "refresh":
        both = {one.node_id: one for one in (document, VERSIONS["a"][1])}
        new = {i: expected.get(i, (None, False))[0] is not one for i, one in both.items()}
        assert index.refresh_ref_docs(list(both.values())) == list(new.values())
        expected |= {i: (one, False) for i, one in both.items() if new[i]}
    elif step == "delete":
        index.delete_ref_doc(id_)
        expected.pop(id_, None)


def write_nodes(index, step, document, expected):
    id_ = document.node_id
    known, as_nodes = expected.get(id_, (None, False))
    if step == "delete nodes" and as_nodes:
        index.delete_nodes([node.node_id for node in nodes_of(known)])
        del expected[id_]
    elif step == "nodes" and (known is not document or as_nodes):
        index.insert_nodes(nodes_of(document))
        expected[id_] = document, True


def lines(index):
    """Return the content of an index without its settings, which an empty index may lack."""
    return export(index)[1:]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", ["faiss-map", "qdrant-disk", "chroma-disk"])
async def test_concurrent_async_writes_run_one_at_a_time(kind, store_of):
    index = build([], store_of(kind))
    last = [versions[2] for versions in VERSIONS.values()]
    await asyncio.gather(*(index.ainsert(versions[0]) for versions in VERSIONS.values()))
    await asyncio.gather(*(index.aupdate_ref_doc(document) for document in last))
    await asyncio.gather(index.adelete_ref_doc("a"), index.adelete_ref_doc("b"))
    assert_consistent(index)
    assert_same_results(index, build(last[2:]))


@pytest.mark.slow
def test_refresh_scales_to_5_000_documents(index_of):
    few = [Document(id_=f"d{i}", text=f"Anna{i} met Bert{i}.") for i in range(40)]
    index = index_of(few)
    many = few + [Document(id_=f"e{i}", text="") for i in range(5_000)]
    assert sum(index.refresh_ref_docs(many)) == 5_000


def test_huge_node_offsets_allocate_no_memory(index_of):
    far = 3 * 10**12
    node = TextNode(text="Anna met Bert.", start_char_idx=far, end_char_idx=far + 14)
    index = E2GraphRAGIndex([node], embed_model="hashing", models=Models(extractor=NameExtractor()))
    assert index.as_retriever().retrieve("Anna?")[0].node.start_char_idx == far


async def test_concurrent_inserts_into_one_document_keep_every_node(index_of):
    index = index_of([])
    index.insert_nodes([node_of(0)])
    await asyncio.gather(*(index.ainsert_nodes([node_of(number)]) for number in range(1, 5)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: index.insert_nodes([node_of(number)]), range(5, 9)))
    assert {node.node_id for node in by_level(index)} == {f"n{number}" for number in range(9)}
    assert set(index.ref_doc_info) == {"doc"}
    assert_consistent(index)


# Chunks that lie on several pages


@pytest.fixture
def short_pages():
    """An index with one chunk that lies on three pages."""
    index = E2GraphRAGIndex(**grouped(SETTINGS))
    index.insert_nodes(_parsed([_short_page(number) for number in (1, 2, 3)]))
    return index


def _short_page(number, text=None):
    metadata = {"file_path": "a.pdf", "page_label": str(number)}
    return Document(id_=f"p{number}", text=text or f"Anna {number} met Bert.", metadata=metadata)


def _parsed(documents):
    return SummaryTreeNodeParser(tree_per="source").get_nodes_from_documents(documents)


def _chunks(index):
    nodes = index.docstore.docs.values()
    return {node.ref_doc_id: node.text for node in nodes if node.metadata["e2_level"] == 0}


@SYNC_AND_ASYNC
@pytest.mark.parametrize("deleted", [1, 2, 3])
async def test_the_text_of_a_deleted_page_leaves_a_chunk_with_others(
    short_pages, is_async, deleted
):
    await call(is_async, short_pages, "delete_ref_doc", f"p{deleted}")
    first, second = (f"Anna {number} met Bert." for number in (1, 2, 3) if number != deleted)
    assert [*_chunks(short_pages).values()] == [f"{first}\n\n{second}"]
    assert sorted(short_pages.ref_doc_info) == sorted({"p1", "p2", "p3"} - {f"p{deleted}"})
    [chunk] = short_pages.as_retriever().retrieve("Anna")
    shown = [chunk.text[part.start : part.end] for part in pages_of(chunk.node)]
    assert shown == [first, second]


def test_a_changed_page_replaces_its_part_of_a_chunk_with_others(short_pages):
    assert short_pages.refresh_ref_docs([_short_page(2, "Zora sang.")]) == [True]
    assert sorted(short_pages.ref_doc_info) == ["p1", "p2", "p3"]
    texts = "\n\n".join(_chunks(short_pages).values())
    assert texts.count("Zora sang.") == texts.count("Anna 1") == texts.count("Anna 3") == 1
    assert "Anna 2" not in texts
    short_pages.insert_nodes(_parsed([_short_page(number) for number in (1, 2, 3)]))
    assert "Zora" not in "".join(_chunks(short_pages).values())


def test_an_id_that_looks_like_a_marked_file_is_none():
    documents = [Document(id_="Order #2024061501", text="Anna met Bert.")]
    index = E2GraphRAGIndex.from_documents(documents, **grouped(SETTINGS))
    assert index.as_retriever(doc_ids=["Order"]).retrieve("Anna") == []
    index.delete_ref_doc("Order")
    assert len(index.docstore.docs) == 1


@pytest.mark.parametrize("changed", range(5))
def test_what_remains_of_chunks_that_overlap_joins_to_the_other_pages(changed):
    texts = [" ".join(f"Anna {n} met Bert {n} {k}." for k in range(9 + n)) for n in range(5)]
    pages = [_short_page(number, text) for number, text in enumerate(texts)]
    parser = SummaryTreeNodeParser(tree_per="source", chunk_size=60, chunk_overlap=20)
    index = E2GraphRAGIndex(**grouped(SETTINGS))
    index.insert_nodes(parser.get_nodes_from_documents(pages))
    assert index.rag.document("a.pdf").text == "\n\n".join(texts)
    index.delete_ref_doc(f"p{changed}")
    rest = [text for number, text in enumerate(texts) if number != changed]
    assert index.rag.document("a.pdf").text.split() == " ".join(rest).split()
    for node in index.docstore.docs.values():
        labels = {part.metadata["page_label"] for part in pages_of(node)}
        assert str(changed) not in labels
        if not node.metadata["e2_level"]:
            shown = node.metadata.get("page_labels", [node.metadata["page_label"]])
            assert set(shown) == labels
            assert node.text in "\n\n".join(rest)


def test_a_page_is_removed_from_a_tree_that_was_parsed_in_parts(short_pages):
    texts = {number: f"Cleo {number} sang. " * 9 for number in (4, 5, 6)}
    short_pages.insert_nodes(_parsed([_short_page(n, text) for n, text in texts.items()]))
    short_pages.delete_ref_doc("p2")
    shown = " ".join(_chunks(short_pages).values())
    for text in ("Anna 1 met Bert.", "Anna 3 met Bert.", *map(str.strip, texts.values())):
        assert text in shown
    assert "Anna 2" not in shown


def test_a_document_named_like_a_tree_replaces_only_itself():
    settings = IndexSettings(tree_per=_thread)
    messages = [
        Document(id_=id_, text=f"{id_} Anna met Bert.", metadata={"thread": "m1"})
        for id_ in ("m1", "m2", "m3")
    ]
    options = grouped({name: value for name, value in SETTINGS.items() if name != "tree_per"})
    index = E2GraphRAGIndex.from_documents(messages, **options | {"settings": settings})
    index.update_ref_doc(Document(id_="m1", text="Cleo sang.", metadata={"thread": "m1"}))
    assert sorted(index.ref_doc_info) == ["m1", "m2", "m3"]


def _thread(document):
    return document.metadata["thread"]


@pytest.mark.parametrize("parse", [False, True], ids=["documents", "nodes"])
def test_the_path_of_a_marked_file_finds_all_of_its_chunks(parse):
    pages = [_short_page(number) for number in (1, 2)]
    for page in pages:
        page.metadata["author"] = "Orwell"
    index = E2GraphRAGIndex(**grouped(SETTINGS))
    index.insert_nodes(_parsed(pages)) if parse else index.refresh_ref_docs(pages)
    assert len(index.as_retriever(doc_ids=["a.pdf"]).retrieve("Anna")) == 1
    index.delete_ref_doc("a.pdf")
    assert index.ref_doc_info == {}


class Breaking(Digests):
    """An LLM that can be broken."""

    broken: bool = False

    def complete(self, prompt, formatted=False, **kwargs):
        if self.broken:
            raise OSError("no model")
        return super().complete(prompt, formatted, **kwargs)


def test_the_text_of_a_deleted_page_is_not_found_although_the_build_fails():
    llm = Breaking()
    parser = SummaryTreeNodeParser(tree_per="source", chunk_size=60, chunk_overlap=0)
    pages = [_short_page(n, f"Anna {n} met Bert. " * 9) for n in (1, 2, 3)]
    index = E2GraphRAGIndex(llm=llm, **grouped(SETTINGS))
    index.insert_nodes(parser.get_nodes_from_documents(pages))
    llm.broken = True
    with pytest.raises(IndexingError):
        index.delete_ref_doc("p2")
    assert all("Anna 2" not in node.text for node in index.docstore.docs.values())
    llm.broken = False
    index.build()
    assert sorted(index.ref_doc_info) == ["p1", "p3"]


# Concurrent writes


async def test_of_concurrent_updates_one_version_remains():
    options = grouped(SETTINGS | {"transformations": [SPLITTER]})
    first = [Document(id_="a", text="Anna 0 left.")]
    index = await E2GraphRAGIndex.afrom_documents(first, **options)
    versions = [Document(id_="a", text=f"Anna {number} left.") for number in range(1, 6)]
    await asyncio.gather(*map(index.aupdate_ref_doc, versions))
    assert len(index.docstore.docs) == 1


def test_concurrent_deletions_of_pages_of_one_chunk_are_not_lost(short_pages):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(short_pages.delete_ref_doc, ["p1", "p2", "p3"]))
    assert short_pages.docstore.docs == {}


# Nothing that replaces something


@SYNC_AND_ASYNC
async def test_a_new_version_without_nodes_replaces_the_old_one(is_async):
    options = grouped(SETTINGS | {"transformations": [SPLITTER]})
    index = E2GraphRAGIndex.from_documents([Document(id_="a", text="Anna left.")], **options)
    empty = [Document(id_="a", text="")]
    assert await call(is_async, index, "refresh_ref_docs", empty) == [True]
    assert index.docstore.docs == {}


def test_a_blank_node_replaces_the_node_with_its_id():
    index = E2GraphRAGIndex(**grouped(SETTINGS))
    index.insert_nodes([TextNode(id_="n", text="Anna left."), TextNode(id_="m", text="Bert sang.")])
    index.insert_nodes([TextNode(id_="n", text=" ")])
    assert list(index.docstore.docs) == ["m"]


# Ids and contents


def test_with_transformations_a_changed_document_is_refused_by_insert():
    options = grouped(SETTINGS | {"transformations": [SPLITTER]})
    index = E2GraphRAGIndex.from_documents([Document(id_="a", text="Anna left.")], **options)
    with pytest.raises(DuplicateDocumentError, match="'a' is already in the index"):
        index.insert(Document(id_="a", text="Cleo left."))
    with pytest.raises(InvalidInputError, match="the nodes that transformations= make"):
        index.estimate([Document(id_="b", text="Cleo left.")])


def test_with_transformations_an_unchanged_document_is_accepted_by_insert():
    class Cleaner(TransformComponent):
        def __call__(self, nodes, **kwargs):
            return [Document(id_=node.id_, text=node.text.replace("#", "")) for node in nodes]

    options = grouped(SETTINGS | {"transformations": [Cleaner(), SPLITTER]})
    document = Document(id_="a", text="# Anna left.")
    index = E2GraphRAGIndex.from_documents([document], **options)
    index.insert(document)
    assert len(index.docstore.docs) == 1
    with pytest.raises(DuplicateDocumentError):
        index.insert(Document(id_="a", text="# Anna came."))


def test_a_document_does_not_replace_the_node_with_its_id():
    index = E2GraphRAGIndex(**grouped(SETTINGS))
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="b")}
    index.insert_nodes([TextNode(id_="a", text="Cleo left.", relationships=source)])
    with pytest.raises(DuplicateDocumentError, match="'a' is already in the index"):
        index.insert(Document(id_="a", text="Anna left."))


def test_a_node_does_not_replace_the_document_with_its_id():
    index = E2GraphRAGIndex.from_documents(
        [Document(id_="a", text="Anna left.")], **grouped(SETTINGS)
    )
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="b")}
    with pytest.raises(DuplicateDocumentError, match="'a' is the id of a document"):
        index.insert_nodes([TextNode(id_="a", text="Cleo left.", relationships=source)])
    assert [node.text for node in index.docstore.docs.values()] == ["Anna left."]


def test_nodes_with_one_id_and_other_metadata_are_refused():
    nodes = [TextNode(id_="n", text="Anna", metadata={"version": one}) for one in (1, 2)]
    with pytest.raises(DuplicateDocumentError, match="given twice"):
        E2GraphRAGIndex(**grouped(SETTINGS)).insert_nodes(nodes)


def test_the_level_of_a_node_may_be_a_string_but_no_word():
    index = E2GraphRAGIndex(**grouped(SETTINGS))
    index.insert_nodes([TextNode(id_="n", text="Anna left.", metadata={"e2_level": "0"})])
    assert list(index.docstore.docs) == ["n"]
    with pytest.raises(InvalidInputError, match="'e2_level' of node 'm' is 'one', not a number"):
        index.insert_nodes([TextNode(id_="m", text="Bert.", metadata={"e2_level": "one"})])


def test_the_estimate_leaves_out_documents_that_are_present_as_nodes():
    index = E2GraphRAGIndex(**grouped(SETTINGS))
    document = Document(id_="a", text=STORY)
    index.insert_nodes(SPLITTER.get_nodes_from_documents([document]))
    assert index.estimate([document]).llm_calls == 0
    assert index.refresh_ref_docs([document]) == [False]
