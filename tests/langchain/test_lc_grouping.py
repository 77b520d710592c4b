"""Documents are never merged by accident: ids, versions, tenants, rows and pages."""

from __future__ import annotations

import logging

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index

from langchain_fakes import tree_ids

ALPHA, GAMMA = "Alpha met Beta.", "Gamma met Delta."


def chunks(target, **options):
    found = target.as_retriever(k=50, **options).invoke("Who met Beta and Delta?")
    return sorted(hit.page_content for hit in found if not hit.metadata["e2_level"])


@pytest.mark.parametrize("tree_per", ["source", "document", "corpus", lambda _: "all"])
def test_two_tenants_with_the_same_source_stay_two_documents(lc_index_of, tree_per):
    documents = [
        Document(text, id=f"tenant{who}/readme.md", metadata={"source": "readme.md", "tenant": who})
        for who, text in (("A", ALPHA), ("B", GAMMA))
    ]
    target = lc_index_of(documents, tree_per=tree_per)
    assert chunks(target) == [ALPHA, GAMMA]
    assert chunks(target, filter={"tenant": "A"}) == [ALPHA]
    assert chunks(target, filter={"e2_doc_id": "tenantB/readme.md"}) == [GAMMA]


def test_versions_of_a_file_without_ids_are_documents_of_their_own(lc_index_of):
    target = lc_index_of([Document("The budget is 100.", metadata={"source": "a.txt"})])
    target.add_documents([Document("The budget is 200.", metadata={"source": "a.txt"})])
    assert chunks(target) == ["The budget is 100.", "The budget is 200."]
    assert len(tree_ids(target, "a.txt")) == 2


@pytest.mark.parametrize("cleanup", ["incremental", "full", "scoped_full"])
def test_index_replaces_the_first_version_of_a_file(lc_index_of, cleanup):
    target, records = lc_index_of([]), InMemoryRecordManager("test")
    records.create_schema()
    options = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256"}
    for amount in (100, 200):
        text = f"The budget is {amount}."
        index([Document(text, metadata={"source": "a.txt"})], records, target, **options)
        target.build()
    assert chunks(target) == ["The budget is 200."]


def test_rows_of_a_table_stay_rows(lc_index_of):
    rows = [
        Document(f"name: {name}\ncity: Oslo", metadata={"source": "people.csv", "row": number})
        for number, name in enumerate(["Anna", "Bert", "Cleo"])
    ]
    target = lc_index_of(rows[::-1], chunk_size=1000)
    hits = target.as_retriever(k=50).invoke("Who lives in Oslo?")
    leaves = [hit for hit in hits if not hit.metadata["e2_level"]]
    assert {hit.metadata["row"]: hit.page_content for hit in leaves} == {
        number: row.page_content for number, row in enumerate(rows)
    }
    [tree] = tree_ids(target, "people.csv")
    assert target.rag.document(tree).text.index("Anna") < 10  # in the order of the rows


def test_pages_of_one_file_with_other_metadata_share_no_tree(lc_index_of):
    pages = [
        Document(text, metadata={"source": "a.pdf", "page": number, "status": status})
        for number, (text, status) in enumerate([(ALPHA, "draft"), (GAMMA, "final")])
    ]
    target = lc_index_of(pages, chunk_size=1000)
    assert chunks(target) == [ALPHA, GAMMA]
    assert chunks(target, filter={"status": "final"}) == [GAMMA]


def test_grouping_is_logged_once_with_its_reason(lc_index_of, pages, caplog):
    caplog.set_level(logging.INFO, "e2graphrag_integrations.corpus.corpus")
    target = lc_index_of(pages[:3])
    target.add_documents(pages[3:])
    [message] = [m for m in caplog.messages if "share" in m]
    assert "3 documents share 1 summary tree(s)" in message
    assert "'source'" in message
    assert "'page'" in message


SHORT = [
    Document(text, id=f"p{number}", metadata={"source": "a.pdf", "page": number})
    for number, text in enumerate([ALPHA, GAMMA, "Later Zeno left.", "Nobody met Kuno."])
]


@pytest.mark.parametrize(
    "where",
    [
        {"e2_doc_id": "p1"},
        {"e2_doc_id": {"$in": ["p1"]}},
        {"e2_doc_id": "p1", "source": "a.pdf"},
        {"$and": [{"e2_doc_id": "p1"}, {"page": 1}]},
        {"$or": [{"e2_doc_id": "p1"}, {"page": 1}]},
    ],
    ids=str,
)
def test_a_filter_finds_a_page_that_shares_its_chunk(lc_index_of, where):
    target = lc_index_of(SHORT, chunk_size=12, chunk_overlap=0, group_size=2)
    hits = target.as_retriever(k=50, filter=where).invoke("Who met Delta?")
    assert hits
    assert all("p1" in hit.metadata["e2_doc_ids"] and not hit.metadata["e2_level"] for hit in hits)
    assert any(len(hit.metadata["e2_doc_ids"]) > 1 for hit in hits)
    touching = target.as_retriever(k=50, filter={"page": 1}).invoke("Who met Delta?")
    chunks = {hit.id for hit in touching if not hit.metadata["e2_level"]}
    assert {hit.id for hit in hits} == chunks


@pytest.mark.parametrize(
    "where", [{"e2_doc_id": "p1", "page": 0}, {"e2_doc_id": "p1", "source": "b"}], ids=str
)
def test_a_filter_on_the_id_of_a_page_keeps_its_other_conditions(lc_index_of, where):
    target = lc_index_of(SHORT, chunk_size=12, chunk_overlap=0, group_size=2)
    assert target.as_retriever(k=50, filter=where).invoke("Who met Delta?") == []


def test_a_scope_of_one_page_shows_no_text_of_another(lc_index_of):
    target = lc_index_of(SHORT, chunk_size=12, chunk_overlap=0, group_size=2)
    hits = target.scoped({"e2_doc_id": "p1"}).as_retriever(k=50).invoke("Who met Delta?")
    assert all(hit.metadata["e2_doc_ids"] == ["p1"] for hit in hits)
