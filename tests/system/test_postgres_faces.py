"""Both integrations accept the URL of an index in Postgres."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder
from fakes import STORY, NameExtractor


@pytest.mark.skipif(not find_spec("langchain_core"), reason="needs langchain-core")
def test_langchain_keeps_its_index_in_postgres(postgres_url):
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex
    from langchain_fakes import SMALL

    documents = [Document(STORY, metadata={"source": "story"})]
    with E2GraphRAGIndex.from_documents(documents, path=postgres_url, **SMALL) as index:
        found = index.similarity_search("What did Bert give Anna?")
        index.add_documents([Document("Fay built a mill.", metadata={"source": "mill"})])
    with E2GraphRAGIndex.from_documents(documents, **SMALL) as expected:
        answer = expected.similarity_search("What did Bert give Anna?")
    assert [one.page_content for one in found] == [one.page_content for one in answer]
    with E2GraphRAGIndex.open(postgres_url, **SMALL) as index:
        assert "mill" in index.similarity_search("Who built a mill?", k=1)[0].page_content


@pytest.mark.skipif(not find_spec("langchain_core"), reason="needs langchain-core")
async def test_langchain_adds_documents_that_workers_index(postgres_url):
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex
    from langchain_fakes import SMALL

    documents = [
        Document(STORY, metadata={"source": "story"}),
        Document("Fay built a mill.", metadata={"source": "mill"}),
        Document("Gus sold it.", metadata={"source": "other"}),
    ]
    with (
        E2GraphRAGIndex.open(postgres_url, **SMALL) as index,
        E2GraphRAGIndex.open(postgres_url, **SMALL) as worker,
    ):
        ids = index.add_documents(documents[:2], wait=False)
        ids += await index.aadd_documents(documents[2:], wait=False)
        assert index.corpus.rag.document_ids == []
        assert index.similarity_search("Who built a mill?") == []  # without waiting
        index.delete(ids[2:])
        report = await worker.awork()
        assert (report.documents, worker.work().documents) == (2, 0)
        assert "mill" in index.similarity_search("Who built a mill?", k=1)[0].page_content
        assert not index.corpus.is_dirty
        assert sorted(index.ids()) == sorted(ids[:2])
        assert index.corpus.rag.verify().ok


@pytest.mark.skipif(not find_spec("llama_index"), reason="needs llama-index-core")
def test_llama_index_reads_and_writes_an_index_in_postgres(postgres_url, open_index, story):
    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    with open_index(postgres_url) as rag:
        rag.add(story)
        expected = list(rag.export())
    options = {"extractor": NameExtractor(), "embed_model": HashingEmbedder()}
    index = E2GraphRAGIndex.from_e2g(postgres_url, **options)
    index.to_e2g(f"{postgres_url}2")
    with E2GraphRAG.open(
        f"{postgres_url}2", extractor=NameExtractor(), embedder=HashingEmbedder()
    ) as rag:
        assert list(rag.export()) == expected
