"""Documents that share a tree: the pages of a file, from all writing methods."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter, get_leaf_nodes, get_root_nodes
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import MetadataMode, NodeRelationship
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
)

from e2graphrag_integrations import E2GraphRAG, Models
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    IndexingError,
    InvalidInputError,
    SettingsMismatchError,
)
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser, pages_of
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from llama_checks import (
    SETTINGS,
    SYNC_AND_ASYNC,
    assert_consistent,
    assert_same_results,
    call,
    export,
    results,
)
from llama_fakes import Digests
from llama_pages import page, page_text, read_pages, write_pdf
from strategies import examples

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

SIZES = {"chunk_size": 30, "chunk_overlap": 6, "group_size": 3}
OPTIONS = SETTINGS | SIZES
PATH = "/docs/a.pdf"


def build(documents, **options):
    """Return an index of documents whose chunks often touch two pages."""
    return E2GraphRAGIndex.from_documents(documents, **grouped(OPTIONS | options))


def chunks(index):
    nodes = index.docstore.docs.values()
    return [node for node in nodes if node.metadata["e2_level"] == 0]


def trees(index):
    return set(index.rag.document_ids)


def assert_equal(index, documents, **options):
    """Check that an index equals a new one of the given documents."""
    assert_consistent(index)
    expected = build(documents, **options)
    assert export(index) == export(expected)
    assert_same_results(index, expected)


def contents(index):
    """Return the nodes of an index by id, without the links between them."""
    return {
        id_: (n.text, n.metadata, n.ref_doc_id, n.start_char_idx, n.end_char_idx)
        for id_, n in index.docstore.docs.items()
    }


def ports(nodes):
    """Return the ports that texts mention: each sentence mentions another one."""
    return set(re.findall(r"port \d+-\d+-\d+", " ".join(node.text for node in nodes)))


def on_page(label, key="page_label", operator=FilterOperator.EQ):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=label, operator=operator)])


def found(index, **options):
    retriever = index.as_retriever("global", similarity_top_k=99, **options)
    return {hit.node.node_id for hit in retriever.retrieve("Who told of ports?")}


# One tree per file


@SYNC_AND_ASYNC
async def test_the_pages_of_a_pdf_form_one_tree_with_page_labels(is_async, tmp_path):
    write_pdf(tmp_path / "a.pdf", [page_text(n, 0, 3) for n in range(1, 5)])
    write_pdf(tmp_path / "sub" / "a.pdf", [page_text(n, 7, 3) for n in range(1, 3)])
    (tmp_path / "note.txt").write_text(page_text(9, sentences=2))
    documents = read_pages(tmp_path)
    if is_async:
        index = await E2GraphRAGIndex.afrom_documents(documents, **grouped(OPTIONS))
    else:
        index = build(documents)
    assert_consistent(index)
    paths = [tmp_path / "a.pdf", tmp_path / "sub" / "a.pdf", tmp_path / "note.txt"]
    assert trees(index) == {str(path) for path in paths}
    assert set(index.ref_doc_info) == {d.doc_id for d in documents}
    texts = {d.doc_id: d.text for d in documents}
    labels = {d.doc_id: d.metadata.get("page_label") for d in documents}
    several = 0
    for node in chunks(index):
        parts = pages_of(node)
        if not parts:
            assert node.metadata["file_name"] == "note.txt"
            continue
        for part in parts:
            assert node.text[part.start : part.end] in texts[part.document_id]
        if len(parts) == 1:
            own = texts[node.ref_doc_id]
            assert own[node.start_char_idx : node.end_char_idx] == node.text
        own_labels = [labels[part.document_id] for part in parts]
        assert node.metadata.get("page_label") == own_labels[0]
        if len(parts) > 1:
            several += 1
            assert node.metadata["page_labels"] == own_labels
            assert node.ref_doc_id == node.metadata["e2_tree"] == node.metadata["file_path"]
            assert f"page_labels: {own_labels}" in node.get_content(MetadataMode.LLM)
        else:
            assert "page_labels" not in node.metadata
        assert "e2_pages" not in node.get_content(MetadataMode.LLM)
        assert "page_labels" not in node.get_content(MetadataMode.EMBED)
    assert several >= 2
    roots = [n for n in index.docstore.docs.values() if n.parent_node is None]
    assert {n.metadata["file_path"] for n in roots} == {str(path) for path in paths}
    assert max(n.metadata["e2_level"] for n in roots) >= 1


def test_a_filter_on_a_page_finds_every_node_that_touches_it(tmp_path):
    write_pdf(tmp_path / "a.pdf", [page_text(n) for n in range(1, 6)])
    index = build(read_pages(tmp_path))
    for label in ("1", "2", "5", "7"):
        touching = {
            node.node_id
            for node in index.docstore.docs.values()
            if label in node.metadata.get("page_labels", [node.metadata["page_label"]])
        }
        assert found(index, filters=on_page(label)) == touching
        assert bool(touching) == (label != "7")
    both = MetadataFilters(filters=[*on_page("2").filters, *on_page("x", "file_name").filters])
    assert found(index, filters=both) == set()


def test_document_ids_select_the_chunks_that_touch_a_document():
    documents = [page(n) for n in range(1, 5)] + [Document(id_="plain", text="Anna met Bert.")]
    index = build(documents)
    first = documents[1].doc_id
    alone = {n.node_id for n in index.docstore.docs.values() if n.ref_doc_id == first}
    touching = {
        node.node_id
        for node in index.docstore.docs.values()
        if not node.metadata["e2_level"]
        and "2" in node.metadata.get("page_labels", [node.metadata.get("page_label")])
    }
    assert found(index, doc_ids=[first]) == alone | touching
    assert found(index, filters=on_page(first, "doc_id")) == alone
    whole = {n.node_id for n in index.docstore.docs.values() if n.metadata["e2_tree"] == PATH}
    assert found(index, doc_ids=[PATH]) == found(index, doc_ids=[d.doc_id for d in documents[:4]])
    assert found(index, doc_ids=[PATH]) == whole
    assert found(index, filters=on_page(PATH, "e2_source_id")) == whole
    assert found(index, doc_ids=["plain"]).isdisjoint(whole)


def test_document_ids_find_short_pages():
    documents = [page(n) for n in range(1, 5)]
    for document, text in zip(
        documents, ("Ida met Jon.", "Kai left.", "Lea sat.", "Max ran."), strict=True
    ):
        document.set_content(text)
    index = build(documents, chunk_size=1200)
    for document in documents:
        [node] = index.as_retriever(doc_ids=[document.doc_id], similarity_top_k=9).retrieve("Who?")
        assert document.text in node.text


def test_documents_with_equal_file_names_stay_two_documents():
    documents = [
        Document(id_=f"tenant{who}/readme.md", text=text, metadata={"file_name": "readme.md"} | own)
        for who, text in (("A", "Alpha met Beta."), ("B", "Gamma met Delta."))
        for own in [{"tenant": who}]
    ]
    for tree_per in ("source", "document", "corpus", lambda _: "all"):
        index = build(documents, tree_per=tree_per, chunk_size=1200)
        texts = {n.text for n in index.docstore.docs.values() if not n.metadata["e2_level"]}
        assert texts == {"Alpha met Beta.", "Gamma met Delta."}
        for document in documents:
            for where in (
                {"doc_ids": [document.doc_id]},
                {"filters": on_page(document.metadata["tenant"], "tenant")},
            ):
                retriever = index.as_retriever(similarity_top_k=9, **where)
                assert [node.text for node in retriever.retrieve("Who?")] == [document.text]


def test_grouping_is_logged_once_with_its_reason(caplog):
    caplog.set_level("INFO", "e2graphrag_integrations.corpus")
    index = build([page(1), page(2)])
    index.insert(page(3))
    [message] = [message for message in caplog.messages if "share" in message]
    assert "2 documents share 1 summary tree(s), because they have the same 'file_path'" in message


def test_files_of_the_same_name_in_different_folders_have_trees_of_their_own():
    documents = [
        page(n, file=file, file_name="same.pdf") for file in ("x/s.pdf", "y/s.pdf") for n in (1, 2)
    ]
    assert trees(build(documents)) == {"/docs/x/s.pdf", "/docs/y/s.pdf"}
    for document in documents:
        del document.metadata["file_path"]
    assert trees(build(documents)) == {document.doc_id for document in documents}


def test_documents_without_a_file_have_trees_of_their_own():
    documents = [Document(id_=str(n), text=page_text(n), metadata={"n": n}) for n in range(3)]
    index = build(documents)
    assert trees(index) == {"0", "1", "2"}
    assert not any(pages_of(node) for node in chunks(index))
    assert {n.ref_doc_id for n in index.docstore.docs.values()} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (("10", "9", "1"), ("1", "9", "10")),
        (("ii", "i", "1"), ("ii", "i", "1")),
        (("2", "1", "1"), ("2", "1", "1")),  # the numbers start again in an appendix
        ((None, "2", "1"), ("1", "2")),  # without a label, a document has a tree of its own
    ],
)
def test_pages_are_ordered_by_number_or_as_given(labels, order):
    documents = [page(n, page_label=label) for n, label in enumerate(labels)]
    index = build(documents)
    pages = index.rag.document(PATH).segments
    assert tuple(own.metadata["page_label"] for own in pages) == order


def test_pages_of_pymupdf_get_labels():
    documents = [
        Document(
            text=page_text(n), metadata={"total_pages": 3, "file_path": PATH, "source": str(n)}
        )
        for n in (1, 2, 3)
    ]
    index = build(documents)
    assert trees(index) == {PATH}
    labels = [n.metadata.get("page_labels", [n.metadata["page_label"]]) for n in chunks(index)]
    assert {label for own in labels for label in own} == {"1", "2", "3"}
    assert found(index, filters=on_page("2"))


# The parameter


def test_tree_per_selects_the_documents_that_share_a_tree():
    documents = [page(1), page(2), page(1, file="b.pdf"), Document(id_="plain", text="Anna.")]
    ids = [document.doc_id for document in documents]
    assert trees(build(documents, tree_per="document")) == set(ids)
    assert trees(build(documents, tree_per="corpus")) == {"corpus"}
    by_label = build(documents, tree_per=lambda d: d.metadata.get("page_label", "none"))
    assert trees(by_label) == {"1", "2", "none"}
    assert set(by_label.ref_doc_info) == set(ids)


def test_an_invalid_tree_per_raises_before_anything_is_written():
    for invalid in ("page", 3, ["source"]):
        with pytest.raises(InvalidInputError, match="source, document, corpus, or a function"):
            build([page(1)], tree_per=invalid)
        with pytest.raises(InvalidInputError, match="source, document, corpus, or a function"):
            SummaryTreeNodeParser(tree_per=invalid)
    context = StorageContext.from_defaults()
    for function in (lambda _: "", lambda _: None, lambda d: d.metadata["missing"]):
        with pytest.raises(InvalidInputError, match="tree_per"):
            E2GraphRAGIndex.from_documents(
                [page(1)], context, **grouped({"tree_per": function, **OPTIONS})
            )
    assert context.docstore.docs == {}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("tree_per", ["source", "document", "corpus"])
def test_a_reopened_index_keeps_its_rule(tree_per, tmp_path):
    build([page(1), page(2)], tree_per=tree_per).persist(tmp_path)
    again = E2GraphRAGIndex.from_persist_dir(tmp_path, **grouped(OPTIONS))
    again.insert(page(3))
    assert_equal(again, [page(1), page(2), page(3)], tree_per=tree_per)
    for document in (page(1), page(2), page(3)):
        again.delete_ref_doc(document.doc_id)
    again.persist(tmp_path)
    assert trees(E2GraphRAGIndex.from_persist_dir(tmp_path, **grouped(OPTIONS))) == set()


def test_an_index_with_a_function_needs_it_only_for_new_documents(tmp_path):
    def kind(document):
        return document.metadata["file_name"][0]

    build([page(1), page(2)], tree_per=kind).persist(tmp_path)
    again = E2GraphRAGIndex.from_persist_dir(tmp_path, **grouped(OPTIONS))
    assert found(again)
    assert again.refresh_ref_docs([page(1), page(2)]) == [False, False]
    with pytest.raises(SettingsMismatchError, match="built with a function as tree_per: pass"):
        again.insert(page(3))
    again.delete_ref_doc(page(2).doc_id)
    assert_equal(again, [page(1)], tree_per=kind)
    again = E2GraphRAGIndex.from_persist_dir(tmp_path, **grouped({"tree_per": kind, **OPTIONS}))
    again.insert(page(3))
    assert trees(again) == {"a"}


# Updates by page


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_only_changed_pages_are_indexed_again(is_async, tmp_path):
    texts = [page_text(n) for n in range(1, 7)]
    path = write_pdf(tmp_path / "a.pdf", texts)
    llm = Digests()
    index = build(read_pages(tmp_path), llm=llm)
    calls = len(llm.prompts)
    assert await call(is_async, index, "refresh_ref_docs", read_pages(tmp_path)) == [False] * 6
    assert len(llm.prompts) == calls
    assert len(index.report.skipped) == 6
    documents = read_pages(tmp_path)
    documents[4].set_content(page_text(5, 3))
    estimate = index.estimate(documents)
    flags = await call(is_async, index, "refresh_ref_docs", documents)
    assert flags == [False] * 4 + [True, False]
    assert 0 < len(llm.prompts) - calls == estimate.llm_calls < calls
    assert_equal(index, documents, llm=Digests())
    await call(is_async, index, "update_ref_doc", documents[4])
    assert len(llm.prompts) - calls == estimate.llm_calls
    assert path.exists()


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_a_deleted_page_leaves_no_trace_and_the_rest_equals_a_new_index(is_async):
    documents = [page(n) for n in range(1, 7)]
    index = build(documents, llm=Digests())
    for gone in (3, 1, 6):
        id_ = page(gone).doc_id
        await call(is_async, index, "delete_ref_doc", id_)
        documents = [d for d in documents if d.doc_id != id_]
        assert_equal(index, documents, llm=Digests())
        content = index.rag.content().decode("utf-8", "ignore")
        assert f"port {gone}-0" not in content
        assert id_ not in content
    await call(is_async, index, "delete_ref_doc", PATH)
    assert_equal(index, [], llm=Digests())


@pytest.mark.slow
@SYNC_AND_ASYNC
async def test_a_failed_change_of_a_page_remains_pending(is_async):
    class Failing(Digests):
        _fails: bool = PrivateAttr(default=False)

        def complete(self, prompt, formatted=False, **kwargs):
            if self._fails:
                raise ValueError("out of words")
            return super().complete(prompt, formatted, **kwargs)

    documents = [page(n) for n in range(1, 6)]
    llm = Failing()
    index = build(documents, llm=llm)
    before = export(index), results(index)
    llm._fails = True
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "update_ref_doc", page(4, 9))
    with pytest.raises(DuplicateDocumentError, match=r"a\.pdf_part_2"):
        await call(is_async, index, "insert", page(2, 9))
    assert (export(index), results(index)) == before
    with pytest.raises(IndexingError, match="out of words"):
        await call(is_async, index, "delete_ref_doc", page(2).doc_id)
    for hits in results(index):  # what is deleted is found no more
        assert not any("port 2-" in text for _, text, _ in hits)
    llm._fails = False
    await call(is_async, index, "build")
    assert_equal(index, [page(1), page(3), page(4, 9), page(5)], llm=Failing())


def test_a_page_that_moves_to_another_file_leaves_the_old_one():
    index = build([page(1), page(2), page(1, file="b.pdf")])
    moved = page(2)
    moved.metadata |= {"file_path": "/docs/b.pdf", "file_name": "b.pdf"}
    assert index.refresh_ref_docs([moved]) == [True]
    assert_equal(index, [page(1), page(1, file="b.pdf"), moved])


def test_a_chunk_of_a_page_cannot_be_deleted_alone():
    index = build([page(n) for n in range(1, 5)])
    before = export(index)
    for node in index.docstore.docs.values():
        with pytest.raises(InvalidInputError, match=r"part of document.*delete_ref_doc\(\)"):
            index.delete_nodes([node.node_id])
    assert export(index) == before


def test_blank_pages_are_remembered():
    documents = [page(1), page(2), page(3)]
    documents[1].set_content(" \n")
    index = build(documents)
    assert index.refresh_ref_docs(documents) == [False] * 3
    index.delete_ref_doc(documents[0].doc_id)
    index.delete_ref_doc(documents[2].doc_id)
    assert_equal(index, [documents[1]])


PAGES = st.tuples(st.sampled_from(["a.pdf", "b.pdf", ""]), st.integers(1, 4), st.integers(0, 2))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "refresh", "delete", "delete file", "reload"]),
        st.lists(PAGES, min_size=1, max_size=3, unique_by=lambda p: p[:2]),
    ),
    min_size=2,
    max_size=6,
)


def document_of(file, number, version):
    if file:
        return page(number, version, file)
    return Document(id_=f"plain{number}", text=page_text(number, version, 2 + version))


@examples(12)
@given(steps=STEPS)
def test_any_history_of_pages_equals_a_new_index(steps):
    index = build([])
    expected: dict[str, Document] = {}
    for step, given_pages in steps:
        documents = [document_of(*one) for one in given_pages]
        first = documents[0]
        if step == "insert" and expected.get(first.doc_id, first).hash == first.hash:
            index.insert(first)
            expected[first.doc_id] = first
        elif step == "refresh":
            flags = [
                d.doc_id not in expected or expected[d.doc_id].hash != d.hash for d in documents
            ]
            assert index.refresh_ref_docs(documents) == flags
            expected |= {d.doc_id: d for d in documents}
        elif step == "delete":
            index.delete_ref_doc(first.doc_id)
            expected.pop(first.doc_id, None)
        elif step == "delete file":
            path = first.metadata.get("file_path", first.doc_id)
            index.delete_ref_doc(path)
            expected = {
                i: d for i, d in expected.items() if path not in (i, d.metadata.get("file_path"))
            }
        elif step == "reload":
            index = E2GraphRAGIndex.from_storage(index.storage_context, **grouped(OPTIONS))
        assert_consistent(index)
    assert_equal(index, list(expected.values()))


# Nodes


SPLITTER = SentenceSplitter(chunk_size=40, chunk_overlap=0)


@pytest.mark.slow
@SYNC_AND_ASYNC
async def test_nodes_of_a_splitter_share_the_tree_of_their_file(is_async):
    documents = [page(n) for n in range(1, 5)]
    nodes = SPLITTER.get_nodes_from_documents(documents)
    index = E2GraphRAGIndex(nodes[:2], **grouped(OPTIONS))
    await call(is_async, index, "insert_nodes", nodes)
    assert_consistent(index)
    assert trees(index) == {PATH}
    assert {n.node_id for n in chunks(index)} == {n.node_id for n in nodes}
    for node in chunks(index):
        own = next(n for n in nodes if n.node_id == node.node_id)
        assert (node.text, node.ref_doc_id) == (own.text, own.ref_doc_id)
        assert own.metadata.items() <= node.metadata.items()
    touching = {
        n.node_id
        for n in index.docstore.docs.values()
        if "2" in n.metadata.get("page_labels", [n.metadata["page_label"]])
    }
    assert found(index, filters=on_page("2")) == touching
    assert {n.node_id for n in nodes if n.ref_doc_id == page(2).doc_id} < touching
    # A changed page replaces its own nodes, and a deleted page removes them.
    changed = SPLITTER.get_nodes_from_documents([page(2, 1)])
    await call(is_async, index, "insert_nodes", changed)
    await call(is_async, index, "delete_ref_doc", page(4).doc_id)
    assert_consistent(index)
    kept = [n for n in nodes if n.ref_doc_id in (page(1).doc_id, page(3).doc_id)]
    assert {n.node_id for n in chunks(index)} == {n.node_id for n in [*kept, *changed]}
    expected = E2GraphRAGIndex([kept[0], *changed, *kept[1:]], **grouped(OPTIONS))
    assert_same_results(index, expected)
    # A page that is inserted as a document is split alone.
    await call(is_async, index, "insert", page(5))
    assert_consistent(index)
    assert {n.node_id for n in [*kept, *changed]} < {n.node_id for n in chunks(index)}
    assert await call(is_async, index, "refresh_ref_docs", [page(2, 1), page(5)]) == [False] * 2


def test_transformations_keep_one_tree_per_file():
    documents = [page(n) for n in range(1, 5)]
    index = build(documents, transformations=[SPLITTER])
    assert trees(index) == {PATH}
    assert index.refresh_ref_docs(documents) == [False] * 4
    documents[2] = page(3, 1)
    assert index.refresh_ref_docs(documents) == [False, False, True, False]
    assert_consistent(index)
    expected = build(documents, transformations=[SPLITTER])
    texts = sorted(n.text for n in index.docstore.docs.values())
    assert texts == sorted(n.text for n in expected.docstore.docs.values())


def test_a_parser_and_an_index_build_the_same_trees():
    documents = [page(n) for n in (3, 1, 2, 4)] + [Document(id_="plain", text=page_text(8))]
    llm = Digests()
    nodes = SummaryTreeNodeParser(tree_per="source", llm=llm, **SIZES).get_nodes_from_documents(
        documents
    )
    for node in nodes:
        assert all(isinstance(value, str | int | float) for value in node.metadata.values())
    several = [n for n in nodes if "page_labels" in n.metadata]
    assert several[0].metadata["page_labels"] == "2, 3"
    calls = len(llm.prompts)
    expected = build(documents, llm=Digests())
    for order in (nodes, nodes[::-1]):
        index = E2GraphRAGIndex(order, **grouped({"llm": llm, **OPTIONS}))
        assert_consistent(index)
        assert contents(index) == contents(expected)
        assert_same_results(index, expected)
    assert len(llm.prompts) == calls
    assert len(get_leaf_nodes(nodes)) == len(chunks(index))
    assert len(get_root_nodes(nodes)) == len([n for n in nodes if n.parent_node is None])
    by_document = SummaryTreeNodeParser(**SIZES)
    alone = by_document.get_nodes_from_documents(documents)
    assert {n.metadata["e2_tree"] for n in alone} == {d.doc_id for d in documents}


def test_filters_find_parsed_nodes_by_each_of_their_pages():
    documents = [page(n) for n in range(1, 5)]
    parser = SummaryTreeNodeParser(tree_per="source", **SIZES)
    parsed = E2GraphRAGIndex(parser.get_nodes_from_documents(documents), **grouped(OPTIONS))
    index = build(documents)
    assert any(len(pages_of(node)) > 1 for node in chunks(parsed))
    for label in ("1", "2", "3", "4", "7"):
        expected = found(index, filters=on_page(label))
        assert found(parsed, filters=on_page(label)) == expected
        assert bool(expected) == (label != "7")
    in_list = on_page(["2", "3"], operator=FilterOperator.IN)
    assert found(parsed, filters=in_list) == found(index, filters=in_list)
    for document in documents:
        chosen = [document.doc_id]
        assert found(parsed, doc_ids=chosen) == found(index, doc_ids=chosen)
    assert {id_: set(one.node_ids) for id_, one in parsed.ref_doc_info.items()} == {
        id_: set(one.node_ids) for id_, one in index.ref_doc_info.items()
    }


def test_results_have_the_hash_of_their_document():
    documents = [page(n) for n in range(1, 5)]
    hashes = {document.doc_id: document.hash for document in documents}
    index = build(documents)
    for node in index.docstore.docs.values():
        assert node.ref_doc_id == PATH or node.source_node.hash == hashes[node.ref_doc_id]
    changed = build([page(1), page(2, 1), page(3), page(4)])
    copy = E2GraphRAGIndex(list(index.docstore.docs.values()), **grouped(OPTIONS))
    copy.insert_nodes(list(changed.docstore.docs.values()))  # a new version of page 2
    assert ports(chunks(copy)) == ports(chunks(changed))
    assert_consistent(copy)


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_a_pipeline_with_upserts_feeds_an_index_page_by_page(is_async):
    pipeline = IngestionPipeline(
        transformations=[SummaryTreeNodeParser(tree_per="source", **SIZES), MockEmbedding(8)],
        docstore=SimpleDocumentStore(),
        vector_store=SimpleVectorStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
    )
    index = E2GraphRAGIndex([], **grouped(OPTIONS))
    versions = [
        [page(n) for n in range(1, 5)],
        [page(1), page(2, 1), page(3), page(4)],
        [page(1), page(2, 1), page(3), page(4, 2), page(5)],
    ]
    for documents in versions:
        if is_async:
            nodes = await pipeline.arun(documents=documents)
        else:
            nodes = pipeline.run(documents=documents)
        for _ in range(2):
            await call(is_async, index, "insert_nodes", nodes)
            assert_consistent(index)
            assert trees(index) == {PATH}
            assert ports(chunks(index)) == ports(documents)
            assert set(index.ref_doc_info) == {d.doc_id for d in documents}
    assert index.refresh_ref_docs(versions[-1]) == [False] * 5


def test_upserts_leave_no_deleted_text_in_a_vector_store_of_the_user():
    store = SimpleVectorStore(stores_text=True)
    pipeline = IngestionPipeline(
        transformations=[SummaryTreeNodeParser(**SIZES), MockEmbedding(8)],
        docstore=SimpleDocumentStore(),
        vector_store=store,
        docstore_strategy=DocstoreStrategy.UPSERTS,
    )
    pipeline.run(documents=[page(1), page(2), page(3)])
    written = set(store.data.embedding_dict)
    nodes = pipeline.run(documents=[page(1), page(2, 1), page(3)])
    assert {node.ref_doc_id for node in nodes} == {page(2).doc_id}
    expected = SummaryTreeNodeParser(**SIZES).get_nodes_from_documents(
        [page(1), page(2, 1), page(3)]
    )
    assert set(store.data.embedding_dict) == {node.node_id for node in expected} != written


@pytest.mark.slow
def test_nodes_of_another_index_keep_their_pages():
    documents = [page(n) for n in range(1, 5)]
    first = build(documents)
    copy = E2GraphRAGIndex(list(first.docstore.docs.values()), **grouped(OPTIONS))
    assert_consistent(copy)
    assert contents(copy) == contents(first)
    assert_same_results(copy, first)
    nodes = SPLITTER.get_nodes_from_documents(documents)
    by_hand = E2GraphRAGIndex(nodes, **grouped(OPTIONS))
    again = E2GraphRAGIndex(list(by_hand.docstore.docs.values()), **grouped(OPTIONS))
    assert_consistent(again)
    assert_same_results(again, by_hand)
    assert set(again.ref_doc_info) == set(by_hand.ref_doc_info)


def test_a_damaged_list_of_pages_raises():
    parser = SummaryTreeNodeParser(tree_per="source", **SIZES)
    nodes = parser.get_nodes_from_documents([page(1), page(2)])
    for damaged in ("[", "[[1]]", "3", '[["a", "b", "x", 2, {}]]'):
        nodes[0].metadata["e2_pages"] = damaged
        with pytest.raises(InvalidInputError, match="e2_pages"):
            E2GraphRAGIndex(nodes, **grouped(OPTIONS))


# Files


def test_pages_survive_an_index_file(tmp_path):
    documents = [page(n) for n in range(1, 5)] + [Document(id_="plain", text=page_text(8))]
    for document in documents:  # index files sort the keys, which LlamaIndex's hash depends on
        document.metadata = dict(sorted(document.metadata.items()))
    index = build(documents)
    index.rag.copy_to(tmp_path / "a.e2g")
    with E2GraphRAG.open(
        tmp_path / "a.e2g",
        models=Models(extractor=NameExtractor()),
        embedder=OPTIONS["embed_model"],
    ) as rag:
        assert rag.verify().ok
        hits = rag.retrieve("Who told of ports?", k=99, mode="global", where={"page_label": "2"})
        assert {node.node_id for node in hits.nodes} == found(index, filters=on_page("2"))
    again = E2GraphRAGIndex.open(tmp_path / "a.e2g", **grouped(OPTIONS))
    assert again.refresh_ref_docs(documents) == [False] * 5
    again.delete_ref_doc(page(2).doc_id)
    assert_equal(again, [documents[0], *documents[2:]])


def test_langchain_opens_the_pages_of_an_index_file(tmp_path):
    documents = [page(n) for n in range(1, 4)]
    build(documents, embed_model="hashing").rag.copy_to(tmp_path / "a.e2g")
    index = LangChainIndex.open(tmp_path / "a.e2g", models=Models(extractor=NameExtractor()))
    ids = [document.doc_id for document in documents]
    assert [d.page_content for d in index.get(ids)] == [d.text for d in documents]
    index.delete([ids[1]])
    index.build()
    index.close()
    again = E2GraphRAGIndex.open(tmp_path / "a.e2g", models=Models(extractor=NameExtractor()))
    assert set(again.ref_doc_info) == {ids[0], ids[2]}
    assert_consistent(again)


def test_nodes_of_a_splitter_survive_an_index_file(tmp_path):
    nodes = SPLITTER.get_nodes_from_documents([page(n) for n in range(1, 5)])
    index = E2GraphRAGIndex(nodes, **grouped(OPTIONS))
    index.rag.copy_to(tmp_path / "a.e2g")
    again = E2GraphRAGIndex.open(tmp_path / "a.e2g", **grouped(OPTIONS))
    assert sorted(n.text for n in chunks(again)) == sorted(n.text for n in nodes)
    assert set(again.ref_doc_info) == set(index.ref_doc_info)
    assert len(found(again, filters=on_page("2"))) == len(found(index, filters=on_page("2")))


# Consumers


def test_citations_and_auto_merging_work_on_pages():
    index = build([page(n) for n in range(1, 7)])
    engine = CitationQueryEngine.from_args(index, llm=MockLLM(max_tokens=9))
    sources = engine.query("What did Anna tell Bert of port 2-0-1?").source_nodes
    ids = {*index.ref_doc_info, PATH}
    assert sources
    assert {source.node.ref_doc_id for source in sources} <= ids
    assert all(source.node.metadata["page_label"] for source in sources)
    nodes = list(index.docstore.docs.values())
    context = StorageContext.from_defaults()
    context.docstore.add_documents(nodes)
    leaves = VectorStoreIndex(chunks(index), storage_context=context, embed_model=MockEmbedding(8))
    merging = AutoMergingRetriever(leaves.as_retriever(similarity_top_k=99), context)
    assert any(hit.node.metadata["e2_level"] for hit in merging.retrieve("Who told of ports?"))
    for node in nodes:
        if NodeRelationship.PARENT in node.relationships:
            assert node.parent_node.node_id in index.docstore.docs


def test_pages_are_found_with_real_vectors(real_embedder, real_extractor, tmp_path):
    texts = [
        "The treaty of the two valleys was signed in the town hall. Both sides brought witnesses.",
        "A recipe for plum cake: stone the plums. Mix butter with sugar. Bake the cake slowly.",
        "The lighthouse keeper repaired the lamp. He climbed the stairs twice every night.",
    ]
    write_pdf(tmp_path / "a.pdf", texts)
    sizes = {"chunk_size": 24, "chunk_overlap": 0, "group_size": 2}
    models = {"embed_model": real_embedder, "extractor": real_extractor}
    index = E2GraphRAGIndex.from_documents(read_pages(tmp_path), **grouped({**models, **sizes}))
    best = index.as_retriever(similarity_top_k=1).retrieve("How do I bake a cake with fruit?")[0]
    assert "2" in best.node.metadata.get("page_labels", [best.node.metadata["page_label"]])
    index.delete_ref_doc(read_pages(tmp_path)[1].doc_id)
    hits = index.as_retriever().retrieve("How do I bake a cake with fruit?")
    assert hits
    assert not any("plum" in hit.text for hit in hits)


@pytest.mark.slow
async def test_concurrent_writes_of_pages_keep_every_page():
    index = build([])
    await asyncio.gather(*(index.ainsert(page(n)) for n in range(1, 6)))
    await asyncio.gather(index.adelete_ref_doc(page(2).doc_id), index.aupdate_ref_doc(page(4, 2)))
    assert_equal(index, [page(1), page(3), page(4, 2), page(5)])
