"""Both integrations accept the URL of an index in Postgres."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor


@pytest.mark.skipif(not find_spec("langchain_core"), reason="needs langchain-core")
def test_langchain_keeps_its_index_in_postgres(postgres_url):
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex
    from langchain_fakes import SMALL

    documents = [Document(STORY, metadata={"source": "story"})]
    with E2GraphRAGIndex.from_documents(
        documents, **grouped({"path": postgres_url, **SMALL})
    ) as index:
        found = index.similarity_search("What did Bert give Anna?")
        index.add_documents([Document("Fay built a mill.", metadata={"source": "mill"})])
    with E2GraphRAGIndex.from_documents(documents, **grouped(SMALL)) as expected:
        answer = expected.similarity_search("What did Bert give Anna?")
    assert [one.page_content for one in found] == [one.page_content for one in answer]
    with E2GraphRAGIndex.open(postgres_url, **grouped(SMALL)) as index:
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
        E2GraphRAGIndex.open(postgres_url, **grouped(SMALL)) as index,
        E2GraphRAGIndex.open(postgres_url, **grouped(SMALL)) as worker,
    ):
        ids = index.add_documents(documents[:2], wait=False)
        ids += await index.aadd_documents(documents[2:], wait=False)
        assert index.rag.document_ids == []
        assert index.similarity_search("Who built a mill?") == []  # without waiting
        index.delete(ids[2:])
        report = await worker.rag.awork()
        assert (report.documents, worker.rag.work().documents) == (2, 0)
        assert "mill" in index.similarity_search("Who built a mill?", k=1)[0].page_content
        assert not index.corpus.is_dirty
        assert sorted(index.ids()) == sorted(ids[:2])
        assert index.rag.verify().ok


@pytest.mark.skipif(not find_spec("llama_index"), reason="needs llama-index-core")
def test_llama_index_reads_and_writes_an_index_in_postgres(
    postgres_url, open_index, story, tmp_path
):
    from llama_index.core import Document

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    options = {"extractor": NameExtractor(), "embed_model": HashingEmbedder()}
    core = {"extractor": NameExtractor(), "embedder": HashingEmbedder()}
    with open_index(postgres_url) as rag:
        rag.add(story)
        with E2GraphRAGIndex.open(
            postgres_url, **grouped({"max_staleness": 0, **options})
        ) as index:
            assert list(index.rag.export()) == list(rag.export())
            index.insert(Document(id_="mill", text="Fay built a mill."))
            assert "mill" in rag.document_ids
            rag.add(SourceDocument("new", "Kit met Lea."))
            found = index.as_retriever("local").retrieve("Kit and Lea?")
            assert [one.text for one in found] == ["Kit met Lea."]
            index.rag.copy_to(f"{postgres_url}2")
            expected = list(index.rag.export())
            index.persist(tmp_path / "stored")
    with E2GraphRAGIndex.from_persist_dir(tmp_path / "stored", **grouped(options)) as index:
        assert list(index.rag.export()) == expected
        assert "mill" in index.ref_doc_info
    with E2GraphRAG.open(f"{postgres_url}2", **grouped(core)) as rag:
        assert list(rag.export()) == expected


@pytest.mark.skipif(not find_spec("llama_index"), reason="needs llama-index-core")
def test_llama_index_builds_in_postgres_and_stores_no_password(postgres_url, tmp_path):
    from llama_index.core import Document

    from e2graphrag_integrations.errors import InvalidInputError
    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    with_password = postgres_url.replace("@", ":Un-Common@", 1)
    options = {"extractor": NameExtractor(), "embed_model": HashingEmbedder()}
    documents = [Document(id_="story", text=STORY)]
    with E2GraphRAGIndex.from_documents(
        documents, **grouped({"path": with_password, **options})
    ) as index:
        index.persist(tmp_path / "stored")
        answer = [n.text for n in index.as_retriever().retrieve("What did Bert give Anna?")]
    for file in (tmp_path / "stored").iterdir():
        assert b"Un-Common" not in file.read_bytes()
    located = E2GraphRAGIndex.from_persist_dir(
        tmp_path / "stored", **grouped({"path": with_password, **options})
    )
    with located as index:
        found = index.as_retriever().retrieve("What did Bert give Anna?")
        assert [one.text for one in found] == answer
    with pytest.raises(InvalidInputError, match="not a file or a database with an index"):
        E2GraphRAGIndex.from_persist_dir(
            tmp_path / "stored", **grouped({"path": f"{postgres_url}_elsewhere", **options})
        )
