"""Subjects from the metadata that LangChain's loaders and splitters write."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_text_splitters import MarkdownHeaderTextSplitter

from fakes import NameExtractor

MARKDOWN = """# Guide

## Weena

A friend of the traveller is good at swimming in the river.

## Morlocks

They are people who eat at night.

## Eloi

They are people who sing.
"""
DIARY = Document("Weena met the Morlocks in London.", metadata={"source": "diary"})


def indexed(lc_index_of, *documents):
    index = lc_index_of([*documents, DIARY], extractor=NameExtractor())
    return index, index.corpus.rag


def test_headers_that_the_splitter_removed_are_subjects_of_their_chunks(lc_index_of):
    headers = [("#", "Header 1"), ("##", "Header 2")]
    chunks = MarkdownHeaderTextSplitter(headers).split_text(MARKDOWN)
    assert "Weena" not in chunks[0].page_content
    for chunk in chunks:
        chunk.metadata["source"] = "guide"
    index, rag = indexed(lc_index_of, *chunks)
    assert index.rag.stats().sections > 0
    trace = rag.retrieve("What happened in London?").trace
    assert ("morlocks", "section") in [(one.subject, one.source) for one in trace.title_links]
    [link] = rag.retrieve("Who were the Eloi?").trace.links  # no text contains the name
    assert link.entity == "eloi"
    hits = index.as_retriever(k=3).invoke("Who were the Morlocks?")
    assert any("They are people who eat at night." in hit.page_content for hit in hits)


@pytest.mark.parametrize(
    ("metadata", "source"),
    [
        ({"title": "Weena"}, "title"),
        ({"Title": "Weena"}, "metadata"),
        ({"title": "untitled", "document_title": "Weena"}, "metadata"),
        ({"source": "/data/Weena.pdf"}, "file"),
    ],
)
def test_common_metadata_keys_give_the_subject(lc_index_of, metadata, source):
    own = {"source": "a"} | metadata
    index, rag = indexed(lc_index_of, Document("She swam in the river.", metadata=own))
    assert index.rag.stats().subjects == {source: 1, "none": 1}
    [link] = rag.retrieve("Who was Weena?").trace.links
    assert link.entity == "weena"
    followed = rag.retrieve("What happened in London?").trace.title_links
    assert [(one.subject, one.source) for one in followed] == [("weena", source)]
