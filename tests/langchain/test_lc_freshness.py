"""Searches during changes of other users of the file."""

from __future__ import annotations

import threading

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from langchain_fakes import SMALL

NEW = Document("Greta met Hans in Bonn.", metadata={"source": "new"}, id="new")


@pytest.fixture
def index_file(tmp_path, pages):
    path = tmp_path / "i.e2g"
    with E2GraphRAGIndex.from_documents(pages, **grouped({"path": path, **SMALL})):
        return path


def open_both(path, **options):
    """Return a reader and a writer of the same file."""
    reader = E2GraphRAGIndex.open(path, **grouped(SMALL | options))
    return reader, E2GraphRAGIndex.open(path, **grouped(SMALL))


def join_background_threads():
    for thread in threading.enumerate():
        if thread.name == "e2graphrag-refresh":
            thread.join(30)


def texts(index, question="Whom did Greta meet?"):
    return " ".join(document.page_content for document in index.invoke(question))


def test_a_search_does_not_wait_for_changes_of_other_users(index_file):
    reader, writer = open_both(index_file)
    with reader, writer:
        assert "Greta" not in texts(reader)
        writer.add_documents([NEW])
        assert "Greta" not in texts(reader)
        assert not reader.rag.freshness().is_newest
        join_background_threads()
        assert "Greta met Hans" in texts(reader)
        writer.delete(["new"])
        assert "Greta" not in texts(reader)


def test_max_staleness_0_waits(index_file):
    reader, writer = open_both(index_file, max_staleness=0)
    with reader, writer:
        texts(reader)
        writer.add_documents([NEW])
        assert "Greta met Hans" in texts(reader)


async def test_refresh_prepares_the_newest_state(index_file):
    reader, writer = open_both(index_file, read_your_writes=False)
    with reader, writer:
        texts(reader)
        writer.add_documents([NEW])
        await reader.rag.arefresh()
        assert "Greta met Hans" in texts(reader)
        writer.delete(["new"])
        reader.rag.refresh()
        assert reader.rag.freshness().is_newest


def test_a_vector_store_follows_in_the_background(index_file):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=256))
    reader, writer = open_both(index_file, vector_store=store)
    with reader, writer:
        texts(reader)
        vectors = len(store.store)
        writer.add_documents([NEW])
        texts(reader)
        join_background_threads()
        assert len(store.store) > vectors
        assert "Greta met Hans" in texts(reader)
        assert reader.rag.freshness().is_newest


def test_the_vector_store_of_each_process_gets_all_vectors(index_file):
    own = [InMemoryVectorStore(DeterministicFakeEmbedding(size=256)) for _ in range(2)]
    reader, writer = (open_both(index_file, vector_store=store)[0] for store in own)
    with reader, writer:
        texts(reader)
        writer.add_documents([NEW])
        reader.rag.refresh()
        assert own[0].store.keys() == own[1].store.keys() != set()
        writer.delete(["new"])
        reader.rag.refresh()
        assert own[0].store.keys() == own[1].store.keys() != set()


def test_a_failing_vector_store_stops_no_search(index_file, monkeypatch):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=256))
    reader, writer = open_both(index_file, vector_store=store)

    def fail(*_, **__):
        raise ConnectionError("no route to host")

    with reader, writer:
        expected = texts(reader, "Anna?")
        monkeypatch.setattr(InMemoryVectorStore, "add_documents", fail)
        monkeypatch.setattr(InMemoryVectorStore, "add_texts", fail)
        monkeypatch.setattr(type(reader.corpus.mirror._adapter), "add", fail)
        writer.add_documents([NEW])
        assert texts(reader, "Anna?") == expected
        join_background_threads()
        assert texts(reader, "Anna?") == expected
        assert "no route to host" in reader.rag.freshness().problem


def test_a_reader_without_an_llm_answers_from_what_is_built(index_file, caplog):
    from langchain_fakes import DigestChatModel

    reader = E2GraphRAGIndex.open(index_file, **grouped(SMALL))
    writer = E2GraphRAGIndex.open(index_file, **grouped({"auto_build": False, **SMALL}))
    with reader, writer:
        writer.upsert([NEW])
        for _ in range(2):
            assert texts(reader)
            assert "Greta" not in texts(reader)
        assert reader.rag.freshness().pending == 1
        assert len([m for m in caplog.messages if "Answers lack 1 document that" in m]) == 1
        writer.build()
        reader.rag.refresh()
        assert "Greta met Hans" in texts(reader)
        assert reader.rag.freshness().pending == 0
    other = index_file.with_name("llm.e2g")
    with E2GraphRAGIndex.open(
        other, **grouped({"llm": DigestChatModel(), "auto_build": False, **SMALL})
    ) as index:
        index.add_documents([NEW])
        index.upsert([NEW.model_copy(update={"id": "newer"})])
    with E2GraphRAGIndex.open(other, **grouped(SMALL)) as reader:  # has no LLM
        assert "Greta met Hans" in texts(reader)
