"""Chunks of a LangChain text splitter: they are kept, and know where they are in their source."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_text_splitters import CharacterTextSplitter, RecursiveCharacterTextSplitter

from e2graphrag_integrations import Models
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from fakes import STORY, NameExtractor
from langchain_fakes import MILL, exported, tree_text

QUERY = "Did Anna meet Bert?"
CORPUS_LOGGER = "e2graphrag_integrations.corpus.corpus"


def split(*documents, size=70, shared=35, offsets=True, splitter=RecursiveCharacterTextSplitter):
    return splitter(
        chunk_size=size,
        chunk_overlap=shared,
        add_start_index=offsets,
        **({"separator": " "} if splitter is CharacterTextSplitter else {}),
    ).split_documents(documents)


def leaves(index: E2GraphRAGIndex) -> list[Document]:
    found = index.as_retriever(k=100).invoke(QUERY)
    return sorted(
        (hit for hit in found if hit.metadata["e2_level"] == 0),
        key=lambda hit: (hit.metadata["e2_source_id"], hit.metadata["e2_start"]),
    )


@pytest.fixture
def warnings_of_chunks(caplog):
    caplog.set_level(logging.WARNING, CORPUS_LOGGER)
    return caplog


@pytest.mark.parametrize("splitter", [RecursiveCharacterTextSplitter, CharacterTextSplitter])
def test_chunks_are_kept_with_their_spans_in_the_source(lc_index_of, warnings_of_chunks, splitter):
    text = f"\n\n{STORY}\n\n{MILL}"
    chunks = split(Document(text, metadata={"source": "a.txt", "by": "Ann"}), splitter=splitter)
    assert any(a.page_content[-10:] in b.page_content for a, b in pairwise(chunks))
    index = lc_index_of(chunks)
    hits = leaves(index)
    assert [hit.page_content for hit in hits] == [chunk.page_content for chunk in chunks]
    for hit, chunk in zip(hits, chunks, strict=True):
        start, end = hit.metadata["e2_start"], hit.metadata["e2_end"]
        assert start == chunk.metadata["start_index"] == hit.metadata["start_index"]
        assert text[start:end] == hit.page_content
        assert hit.metadata["by"] == "Ann"
        assert [hit.metadata["e2_doc_id"]] == hit.metadata["e2_doc_ids"]
        [own] = index.get([hit.metadata["e2_doc_id"]])
        assert (own.page_content, own.metadata) == (chunk.page_content, chunk.metadata)
    stored = tree_text(index, "a.txt")
    assert stored.split() == text.split()
    assert index.rag.verify().ok
    assert not warnings_of_chunks.records


@pytest.mark.parametrize("is_reversed", [False, True])
def test_numbered_chunks_keep_their_spans_in_the_source(
    lc_index_of, warnings_of_chunks, is_reversed
):
    chunks = split(Document(STORY, metadata={"source": "a.txt"}))
    for number, chunk in enumerate(chunks):
        chunk.metadata["chunk"] = number
    index = lc_index_of(chunks[::-1] if is_reversed else chunks)
    hits = leaves(index)
    assert [hit.metadata["chunk"] for hit in hits] == list(range(len(chunks)))
    spans = [slice(hit.metadata["e2_start"], hit.metadata["e2_end"]) for hit in hits]
    assert [STORY[span] for span in spans] == [hit.page_content for hit in hits]
    assert len(index.rag.document("a.txt").text) == len(STORY)
    assert not warnings_of_chunks.records


def test_numbered_chunks_with_wrong_offsets_do_not_fill_the_file_with_spaces(
    lc_index_of, warnings_of_chunks
):
    chunks = [
        Document(
            f"Anna met Bert on day {number}.",
            metadata={"source": "a", "chunk": number, "start_index": 5 + 9_000 * number},
        )
        for number in range(30)
    ]
    chunks[9].metadata["start_index"] = chunks[8].metadata["start_index"]
    index = lc_index_of(chunks)
    assert len(index.rag.document("a").text) < 5_000
    assert len(leaves(index)) == len(chunks)
    assert "'start_index' contradicts their texts" in warnings_of_chunks.text


def test_documents_that_may_be_chunks_are_joined_with_a_warning(lc_index_of, warnings_of_chunks):
    page = Document(STORY, metadata={"source": "a", "page": 1})
    index = lc_index_of(split(page, shared=0, offsets=False))
    [record] = warnings_of_chunks.records
    assert "several documents of 'a' have the same metadata" in record.message
    assert index.rag.document("a").text.split() == STORY.split()


def test_documents_without_a_position_stay_apart_with_a_warning(lc_index_of, warnings_of_chunks):
    chunks = split(Document(STORY, metadata={"source": "a"}), offsets=False)
    index = lc_index_of(chunks)
    assert len(index.rag.document_ids) == len(chunks)
    [record] = warnings_of_chunks.records
    assert "equal metadata without a position" in record.message
    assert "add_start_index=True" in record.message


def test_pages_and_documents_without_a_source_cause_no_warning(lc_index_of, pages, caplog):
    with caplog.at_level(logging.WARNING, CORPUS_LOGGER):
        lc_index_of([*pages, Document("Anna sat."), Document("Bert sat.")])
        lc_index_of([Document("Anna sat."), Document("Bert sat.")], tree_per="corpus")
    assert not caplog.records


def test_each_chunk_is_found_by_its_own_metadata(lc_index_of):
    chunks = split(Document(STORY, metadata={"source": "a"}))
    retriever = lc_index_of(chunks).as_retriever(k=9)
    for chunk in chunks:
        where = {"start_index": chunk.metadata["start_index"]}
        assert chunk.page_content in [h.page_content for h in retriever.invoke(QUERY, filter=where)]


def test_chunks_of_pages_follow_the_pages(lc_index_of, pages):
    chunks = split(*pages[:3], size=60, shared=30)
    index = lc_index_of(chunks[::-1])
    assert [hit.page_content for hit in leaves(index)] == [c.page_content for c in chunks]
    text = "\n\n".join(page.page_content for page in pages[:3])
    assert tree_text(index, "map.pdf") == text
    for hit in leaves(index):
        page = pages[hit.metadata["page"] - 1]
        assert hit.metadata["pages"] == [page.metadata["page"]]
        start = hit.metadata["e2_start"] - text.index(page.page_content)
        assert page.page_content[start : start + len(hit.page_content)] == hit.page_content


def test_unknown_offsets_join_chunks_without_repeating_overlaps(lc_index_of, warnings_of_chunks):
    chunks = split(Document(STORY, metadata={"source": "a", "page": 1}), offsets=False)
    index = lc_index_of(chunks)
    hits = leaves(index)
    assert [hit.page_content for hit in hits] == [chunk.page_content for chunk in chunks]
    stored = index.rag.document("a").text
    assert stored.split() == STORY.split()
    assert all(
        stored[h.metadata["e2_start"] : h.metadata["e2_end"]] == h.page_content for h in hits
    )
    index.add_documents(split(Document(MILL, metadata={"source": "b", "page": 1}), offsets=False))
    [record] = warnings_of_chunks.records  # only the first time
    assert "add_start_index=True" in record.message


def test_a_chunk_without_a_source_is_reported(lc_index_of, warnings_of_chunks):
    lc_index_of(split(Document(STORY)))
    [record] = warnings_of_chunks.records
    assert "without a 'source'" in record.message


def test_pages_and_chunks_share_a_tree(lc_index_of, pages):
    index = lc_index_of([*split(pages[0], size=60, shared=30), *pages[1:3]])
    stored = tree_text(index, "map.pdf")
    assert stored == "\n\n".join(page.page_content for page in pages[:3])
    assert index.rag.verify().ok
    assert len(index.get([page.id for page in pages[1:3]])) == 2


def test_a_copied_and_an_updated_index_keep_the_chunks(lc_index_of, tmp_path):
    chunks = split(Document(STORY, metadata={"source": "a"}))
    index = lc_index_of(chunks, path=tmp_path / "a.e2g")
    index.add_documents([Document(MILL, id="mill", metadata={"source": "b"})])
    before = [hit.page_content for hit in leaves(index)]
    index.close()
    with E2GraphRAGIndex.open(
        tmp_path / "a.e2g", models=Models(extractor=NameExtractor())
    ) as reopened:
        assert [hit.page_content for hit in leaves(reopened)] == before
        reopened.add_documents([Document("Fay met Gus.", metadata={"source": "a"})])
        assert [h.page_content for h in leaves(reopened)][: len(chunks)] == before[: len(chunks)]


EDITED = STORY.replace("Cleo watched from the bridge.", "Dora slept all day long.")


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("cleanup", ["incremental", "full", "scoped_full"])
@pytest.mark.parametrize("batch_size", [2, 100])
def test_index_keeps_chunks_equal_to_a_new_index(lc_index_of, cleanup, batch_size):
    def run(target, text):
        chunks = split(
            Document(text, metadata={"source": "a"}), Document(MILL, metadata={"source": "b"})
        )
        return index(
            chunks,
            records,
            target,
            cleanup=cleanup,
            source_id_key="source",
            key_encoder="sha256",
            batch_size=batch_size,
        )

    records = InMemoryRecordManager("test")
    target = lc_index_of([], auto_build=False)
    run(target, STORY)
    target.build()
    run(target, EDITED)
    target.build()
    stored = target.rag.document("a").text
    assert stored.split() == EDITED.split()
    counts = run(target, EDITED)
    report = target.build()
    assert report.embedded == 0
    if (cleanup, batch_size) != ("incremental", 2):  # LangChain deletes and adds the same chunks
        assert counts["num_skipped"] == len(target.ids())
        assert report.documents == 0

    records = InMemoryRecordManager("test")
    fresh = lc_index_of([], auto_build=False)
    run(fresh, EDITED)
    fresh.build()
    assert exported(target) == exported(fresh)


def test_chunks_are_kept_by_async_calls(lc_index_of):
    chunks = split(Document(STORY, metadata={"source": "a"}))
    index = lc_index_of([])
    asyncio.run(index.aadd_documents(chunks))
    assert [hit.page_content for hit in leaves(index)] == [c.page_content for c in chunks]
